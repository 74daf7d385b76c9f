package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

func fault(path, format string, args ...any) error {
	return &discovery.FieldError{Field: path, Err: fmt.Errorf(format, args...)}
}

// local reports whether only this machine reaches an address.
func local(address string) bool { return unixsocket.Is(address) || loopback(address) }

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		if _, err := strconv.Atoi(address); err == nil {
			return fmt.Errorf("%q is not host:port; for this machine alone write 127.0.0.1:%s, for all 0.0.0.0:%s",
				address, address, address)
		}
		return fmt.Errorf("%q is not host:port, such as 127.0.0.1:8080", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q: the port must be between 0 and 65535", address)
	}
	return nil
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// checkLoop reports endpoints that are the router itself: its requests would come back to it.
func checkLoop(listen string, endpoints []discovery.EndpointConfig) (faults []error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return nil
	}
	at, _ := netip.ParseAddr(host)
	for i := range endpoints {
		u, err := url.Parse(endpoints[i].URL)
		if err != nil || cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]) != port {
			continue
		}
		name := u.Hostname()
		near := loopback(net.JoinHostPort(name, port))
		if name == host || near && (host == "" || host == "localhost" || at.IsUnspecified()) ||
			name == "localhost" && at.IsLoopback() {
			faults = append(faults, fault(fmt.Sprintf("endpoints[%d].url", i), "%s is where this router listens; "+
				"give the engine's address, or choose another with --listen (listen in the file)", endpoints[i].URL))
		}
	}
	return faults
}

// leastSaltKey is the length below which a secret can be guessed.
const leastSaltKey = 16

// headerName reports whether a text is empty or a header's name (RFC 9110, section 5.6.2).
func headerName(s string) bool {
	return strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
