package config

import (
	"net"
	"time"
)

// Lease is the listener for programs that send requests to engines themselves: they ask where to, and say what became
// of each. What it places is decided, counted and limited as requests of the traffic listener are. It has the TLS of
// that.
type Lease struct {
	// Listen is its address (host:port); off, or an empty text, for none. Answers have the API keys of engines.
	Listen string `yaml:"listen"`
	// Token that calls must carry as a bearer token. It, or token_file, is required unless the address is loopback.
	Token string `yaml:"token" secret:"true"`
	// TokenFile has the token instead; surrounding white space is removed.
	TokenFile string `yaml:"token_file"`
	// Expires ends a lease so long after it was given, or after its first byte was told. Make it longer than a whole
	// generation takes. If a program crashes, the endpoint counts its request for that long.
	Expires time.Duration `yaml:"expires"`
	// Most is how many leases may be open; further ones get 503.
	Most int `yaml:"most"`
}

// On reports whether there is to be one.
func (l Lease) On() bool { return l.Listen != "" && l.Listen != "off" }

func (l Lease) check() (faults []error) {
	switch _, _, err := net.SplitHostPort(l.Listen); {
	case !l.On():
	case err != nil:
		faults = append(faults, fault("lease.listen", "is %q, must be host:port, such as 127.0.0.1:8090", l.Listen))
	case !local(l.Listen) && l.Token == "" && l.TokenFile == "":
		faults = append(faults,
			fault("lease.listen", "%s is not a loopback address and needs a token: set lease.token_file", l.Listen))
	}
	faults = append(faults, l.secret().check()...)
	if l.Expires < time.Second || l.Expires > 24*time.Hour {
		faults = append(faults, fault("lease.expires", "is %v, must be 1s to 24h", l.Expires))
	}
	if l.Most < 1 || l.Most > 1_000_000 {
		faults = append(faults, fault("lease.most", "is %d, must be 1 to 1,000,000", l.Most))
	}
	return faults
}

// Secret is the token, read from its file if it is there; "" if none is required.
func (l Lease) Secret() (string, error) { return l.secret().read() }

func (l Lease) secret() secret { return secret{"lease.token", l.Token, l.TokenFile, 1} }
