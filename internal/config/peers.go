package config

import (
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/pemfile"
)

// Peers makes routers of the same fleet decide as one: each tells the others its decisions and their results. No
// request waits for that.
type Peers struct {
	// Listen is the address (host:port) at which other routers reach this one.
	Listen string `yaml:"listen"`
	// Routers are the other routers: HOST:PORT of each (this one may be among them), or dns://NAME:PORT, a name with an
	// address for each. Alternatively redis://[USER:PASSWORD@]HOST:PORT/DB is a Redis or Valkey server that all can
	// reach, rediss:// with TLS; listen is not needed. With it, ?addr=HOST:PORT&addr=HOST:PORT names further nodes of a
	// Cluster, and with &master_set=NAME all are Sentinels.
	Routers []string `yaml:"routers"`
	// Fleet is the common name of a fleet's routers; others are ignored.
	Fleet string `yaml:"fleet"`
	// Secret that a fleet's routers share, at least 16 bytes. It, or secret_file, is required unless all addresses are
	// loopback: messages are sealed with it.
	Secret string `yaml:"secret" secret:"true"`
	// SecretFile has the secret instead; surrounding white space is removed.
	SecretFile string `yaml:"secret_file"`
	// Redis has further settings of the Redis or Valkey server.
	Redis Redis `yaml:"redis"`
}

// Redis says how to use the Redis or Valkey server in peers.routers.
type Redis struct {
	// Keep also stores learnt state there, so that it outlives a restart of all routers: conversations for
	// sessions.idle_ttl after their last turn. False stores nothing.
	Keep bool `yaml:"keep"`
	// PasswordFile has the password instead of the URL; surrounding white space is removed. It is read again for each
	// connection, unless there are Sentinels; so are ca_file, cert_file and key_file.
	PasswordFile string `yaml:"password_file"`
	// CAFile has the certificate authorities (PEM) for a rediss:// server. Empty means the system's.
	CAFile string `yaml:"ca_file"`
	// CertFile has the client certificate (PEM) for a rediss:// server.
	CertFile string `yaml:"cert_file"`
	// KeyFile has its private key.
	KeyFile string `yaml:"key_file"`
	// SentinelUser is the user name for Sentinels that require one.
	SentinelUser string `yaml:"sentinel_user"`
	// SentinelPassword is its password.
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`
}

// ThePassword is the password in the file; empty without one.
func (r Redis) ThePassword() (string, error) {
	return secret{path: "peers.redis.password", file: r.PasswordFile}.read()
}

// TheTLS is the TLS configuration for rediss:// with what the files have now; nil for the system's authorities and no
// client certificate.
func (r Redis) TheTLS() (*tls.Config, error) {
	if r.CAFile == "" && r.CertFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CAFile != "" {
		var err error
		if c.RootCAs, err = pemfile.Authorities(r.CAFile); err != nil {
			return nil, fault("peers.redis.ca_file", "%w", err)
		}
	}
	if r.CertFile != "" {
		pair, err := pemfile.KeyPair(r.CertFile, r.KeyFile)
		if err != nil {
			return nil, fault("peers.redis.cert_file", "%w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// RedisURL is the URL of the server that connects the routers; "" if they connect directly.
func (p Peers) RedisURL() string {
	if len(p.Routers) == 1 && isRedis(p.Routers[0]) {
		return p.Routers[0]
	}
	return ""
}

func isRedis(r string) bool {
	return strings.HasPrefix(r, "redis://") || strings.HasPrefix(r, "rediss://")
}

// On reports whether other routers are configured.
func (p Peers) On() bool { return p.Listen != "" || len(p.Routers) > 0 }

const leastSecret = 16

// TheSecret is the secret, given or from its file; empty for none.
func (p Peers) TheSecret() ([]byte, error) {
	text, err := p.secret().read()
	return []byte(text), err
}

func (p Peers) secret() secret { return secret{"peers.secret", p.Secret, p.SecretFile, leastSecret} }

func (p Peers) check() (faults []error) {
	if !p.On() {
		return nil
	}
	address := func(path, text string, least int) (ok bool) {
		host, port, err := net.SplitHostPort(text)
		n, e := strconv.Atoi(port)
		if ok = err == nil && e == nil && n >= least && n <= 65535 && (host != "" || least == 0); !ok {
			faults = append(faults, fault(path, "%q must be HOST:PORT, such as 10.0.0.2:7946", text))
		}
		return ok
	}
	local := p.Listen == "" || loopback(p.Listen)
	switch {
	case p.RedisURL() != "" && p.Listen != "":
		faults = append(faults, fault("peers.listen", "has no meaning with Redis: leave it out"))
	case p.RedisURL() != "":
	case p.Listen == "":
		faults = append(faults, fault("peers.listen", "is needed with peers.routers (--peers): "+
			"the address at which they reach this router (--peer-listen), such as 0.0.0.0:7946"))
	default:
		address("peers.listen", p.Listen, 0)
	}
	if len(p.Routers) == 0 {
		faults = append(faults, fault("peers.routers", "is needed with peers.listen (--peer-listen): "+
			"where the other routers are (--peers), such as 10.0.0.2:7946 or dns://warmpath.default:7946"))
	}
	for i, r := range p.Routers {
		path := "peers.routers[" + strconv.Itoa(i) + "]"
		if isRedis(r) {
			u, err := url.Parse(r)
			switch {
			case len(p.Routers) > 1:
				faults = append(faults, fault(path, "must be alone: one server, or the addresses of the routers"))
			case err != nil || u.Host == "":
				faults = append(faults, fault(path, "must be redis://HOST:PORT/DB"))
			default:
				local = local && loopback(u.Host)
				for _, a := range u.Query()["addr"] {
					local = (!address(path, a, 1) || loopback(a)) && local
				}
			}
			continue
		}
		name, isName := strings.CutPrefix(r, "dns://")
		if scheme, _, ok := strings.Cut(r, "://"); ok && !isName {
			faults = append(faults, fault(path,
				"%q has the unknown scheme %s; HOST:PORT, dns://NAME:PORT, redis:// and rediss:// are known",
				r, scheme))
			continue
		}
		local = (!address(path, name, 1) || !isName && loopback(r)) && local
	}
	tlsOnly, onTLS := "", strings.HasPrefix(p.RedisURL(), "rediss://")
	switch {
	case p.Redis.CAFile != "":
		tlsOnly = "ca_file"
	case p.Redis.CertFile != "":
		tlsOnly = "cert_file"
	}
	if tlsOnly != "" && !onTLS {
		faults = append(faults, fault("peers.redis."+tlsOnly, "is of TLS: write rediss:// in peers.routers"))
	}
	if (p.Redis.CertFile == "") != (p.Redis.KeyFile == "") {
		faults = append(faults, fault("peers.redis.cert_file", "and peers.redis.key_file go together"))
	}
	faults = append(faults, p.secret().check()...)
	if p.Secret == "" && p.SecretFile == "" && !local {
		faults = append(faults, fault("peers.secret", "is needed unless all addresses are loopback: otherwise any "+
			"host that reaches the port could send this router false state. Make one by openssl rand -hex 32, "+
			"the same for all routers (WARMPATH_PEERS_SECRET, or peers.secret_file)"))
	}
	return faults
}
