package config

import (
	"net"
	"net/netip"

	"github.com/warmpath/warmpath/internal/unixsocket"
)

// listener is an address at which the router listens, and the setting that says so.
type listener struct{ setting, address string }

// listeners are the addresses of the configuration.
func (c Config) listeners() []listener {
	all := []listener{
		{"listen", c.Listen},
		{"admin.listen", c.Admin.Listen},
		{"peers.listen", c.Peers.Listen},
		{"extproc.listen", c.ExtProc.Listen},
		{"lease.listen", c.Lease.Listen},
		{"trtllm.cluster.listen", c.TRTLLM.Cluster.Listen},
		{"disaggregation.notify_listen", c.Disaggregation.NotifyListen},
	}
	for _, address := range c.KVEvents.Listeners() {
		all = append(all, listener{"kv_events.listen", address})
	}
	return all
}

// checkApart reports listeners that want the place of another.
func checkApart(all []listener) (faults []error) {
	for i, l := range all {
		for _, other := range all[:i] {
			if samePlace(l.address, other.address) {
				faults = append(faults, fault(l.setting, "%s is taken by %s (%s): give each its own port",
					l.address, other.setting, other.address))
				break
			}
		}
	}
	return faults
}

// samePlace reports whether two listeners cannot both be opened: they have one port, and one address or one of them all
// addresses, or they have one socket.
func samePlace(a, b string) bool {
	if unixsocket.Is(a) || unixsocket.Is(b) {
		return unixsocket.Is(a) && unixsocket.Is(b) && socketPath(a) == socketPath(b)
	}
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || covers(hostA, hostB) || covers(hostB, hostA)
}

// covers reports whether one who listens at a host listens at another one too, as far as their names tell.
func covers(host, other string) bool {
	ip, at := addressOf(host), addressOf(other)
	switch {
	case !ip.IsUnspecified():
		return ip.IsValid() && ip == at
	case ip.Is6():
		return true
	default:
		return !at.Is6()
	}
}

// addressOf is the address of a host, or zero if its name does not tell. One without a name is all addresses.
func addressOf(host string) netip.Addr {
	switch host {
	case "", "*":
		return netip.IPv6Unspecified()
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	ip, _ := netip.ParseAddr(host)
	return ip
}

func socketPath(address string) string {
	at, _ := unixsocket.Parse(address)
	return at.Path
}
