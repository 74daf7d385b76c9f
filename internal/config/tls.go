package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/pemfile"
)

// TLS makes a listener use https if both files are named. They are read again with the configuration.
type TLS struct {
	// Cert is the file of the certificate chain, PEM.
	Cert string `yaml:"cert"`
	// Key is the file of its private key, PEM.
	Key string `yaml:"key"`
	// ClientCA is a file with authorities, PEM. With it only clients that show a certificate of one of them are served,
	// on every path.
	ClientCA string `yaml:"client_ca"`
}

// Load reads the files. It is nil when the listener speaks http. Errors name the setting, below path.
func (t TLS) Load(path string) (*tls.Config, error) {
	if t.Cert == "" {
		return nil, nil
	}
	pair, err := pemfile.KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fault(path, "%w", err)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"},
	}
	if t.ClientCA != "" {
		if c.ClientCAs, err = pemfile.Authorities(t.ClientCA); err != nil {
			return nil, fault(path+".client_ca", "%w", err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

func (t TLS) check(path string) (faults []error) {
	if (t.Cert == "") != (t.Key == "") {
		faults = append(faults, fault(path, "needs both cert and key"))
	}
	if t.ClientCA != "" && t.Cert == "" {
		faults = append(faults,
			fault(path+".client_ca", "needs cert and key too: clients show certificates over https alone"))
	}
	return faults
}

// EngineTLS is how engines with https:// URLs are connected to, by requests and by probes, KV events that are asked
// for, and lists of discovery.http.
type EngineTLS struct {
	// CA is a file with authorities, PEM, that engines' certificates may be of, instead of the system's.
	CA string `yaml:"ca"`
	// Cert is a file with the certificate that is shown to engines that ask for one, PEM.
	Cert string `yaml:"cert"`
	// Key is the file of its private key, PEM.
	Key string `yaml:"key"`
	// ServerName is what engines are asked for (SNI) and what their certificates must be of, instead of the host in
	// their URL.
	ServerName string `yaml:"server_name"`
	// Hosts are engines with settings of their own.
	Hosts []EngineHostTLS `yaml:"hosts"`
}

// EngineHostTLS is how the engines at one host are connected to. What is empty is as engine_tls says.
type EngineHostTLS struct {
	// Host is the host:port in the engines' URLs. Without the port it is 443.
	Host string `yaml:"host"`
	// CA is as of engine_tls.
	CA string `yaml:"ca"`
	// Cert is as of engine_tls.
	Cert string `yaml:"cert"`
	// Key is as of engine_tls.
	Key string `yaml:"key"`
	// ServerName is as of engine_tls.
	ServerName string `yaml:"server_name"`
}

// over is h where it says something, and e elsewhere.
func (e EngineTLS) over(h EngineHostTLS) EngineTLS {
	out := EngineTLS{CA: e.CA, Cert: e.Cert, Key: e.Key, ServerName: e.ServerName}
	if h.CA != "" {
		out.CA = h.CA
	}
	if h.Cert != "" {
		out.Cert, out.Key = h.Cert, h.Key
	}
	if h.ServerName != "" {
		out.ServerName = h.ServerName
	}
	return out
}

// Load reads the files: for all engines (nil as the system says), and by host:port.
func (e EngineTLS) Load() (all *tls.Config, hosts map[string]*tls.Config, err error) {
	if all, err = e.load("engine_tls"); err != nil {
		return nil, nil, err
	}
	hosts = map[string]*tls.Config{}
	for i, h := range e.Hosts {
		if hosts[h.at()], err = e.over(h).load(fmt.Sprintf("engine_tls.hosts[%d]", i)); err != nil {
			return nil, nil, err
		}
	}
	return all, hosts, nil
}

// ClientTLS is how an https:// server is called whose certificate is of the authorities in a file, with a certificate
// to show; nil as the system says, for names that are all empty.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("a certificate needs its key, and a key its certificate")
	}
	c, err := EngineTLS{CA: ca, Cert: cert, Key: key}.load("")
	if err != nil {
		return nil, errors.Unwrap(err) // without a path in the configuration
	}
	return c, nil
}

func (e EngineTLS) load(path string) (*tls.Config, error) {
	if e.CA == "" && e.Cert == "" && e.ServerName == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.ServerName}
	var err error
	if e.CA != "" {
		if c.RootCAs, err = pemfile.Authorities(e.CA); err != nil {
			return nil, fault(path+".ca", "%w", err)
		}
	}
	if e.Cert != "" {
		pair, err := pemfile.KeyPair(e.Cert, e.Key)
		if err != nil {
			return nil, fault(path+".cert", "%w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// at is the host with its port.
func (h EngineHostTLS) at() string {
	if _, _, err := net.SplitHostPort(h.Host); err == nil {
		return strings.ToLower(h.Host)
	}
	return strings.ToLower(net.JoinHostPort(strings.Trim(h.Host, "[]"), "443"))
}

// Files are those that are read.
func (e EngineTLS) Files() []string {
	all := []string{e.CA, e.Cert, e.Key}
	for _, h := range e.Hosts {
		all = append(all, h.CA, h.Cert, h.Key)
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

func (e EngineTLS) check() (faults []error) {
	pair := func(path, cert, key string) {
		if (cert == "") != (key == "") {
			faults = append(faults, fault(path, "needs both cert and key"))
		}
	}
	pair("engine_tls", e.Cert, e.Key)
	seen := map[string]bool{}
	for i, h := range e.Hosts {
		path := fmt.Sprintf("engine_tls.hosts[%d]", i)
		pair(path, h.Cert, h.Key)
		switch at := h.at(); {
		case h.Host == "" || strings.ContainsAny(h.Host, "/ "):
			faults = append(faults, fault(path+".host", "is %q, must be the host:port of an engine's URL", h.Host))
		case seen[at]:
			faults = append(faults, fault(path+".host", "%s is given twice", h.Host))
		default:
			seen[at] = true
		}
	}
	return faults
}
