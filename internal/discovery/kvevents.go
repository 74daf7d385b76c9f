package discovery

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// checkKV reports the faults of where KV events are.
func (c EndpointConfig) checkKV() []error {
	var faults []error
	kind := fleet.Kind(c.Kind)
	switch c.KVEvents {
	case "", "off":
		if c.KVReplay != "" {
			faults = append(faults, fault("kv_replay", "needs kv_events: tcp://HOST:PORT or listen beside it"))
		}
	case "poll":
		if kind != fleet.KindUnknown && kind != fleet.KindTRTLLM {
			faults = append(faults, fault("kv_events", "poll is for trtllm; %s publishes its events at tcp://HOST:PORT", kind))
		}
		if c.KVReplay != "" {
			faults = append(faults, fault("kv_replay", "events that are polled cannot be asked for again"))
		}
	default:
		if c.KVEvents != "listen" {
			if err := checkTCP(c.KVEvents, c.Ranks); err != nil {
				faults = append(faults, fault("kv_events", "%w, listen, poll or off", err))
			}
		}
		if c.KVReplay != "" {
			if err := checkTCP(c.KVReplay, c.Ranks); err != nil {
				faults = append(faults, fault("kv_replay", "%w", err))
			}
		}
		if kind != fleet.KindUnknown && kind != fleet.KindVLLM && kind != fleet.KindSGLang && kind != fleet.KindOther {
			faults = append(faults, fault("kv_events", "%s does not publish its events over ZeroMQ", kind))
		}
	}
	if c.Slots > 0 && c.KVEvents != "" {
		faults = append(faults, fault("kv_events", "slots have none"))
	}
	return faults
}

// checkTCP accepts an address that can be dialled, with the ports of so many ranks.
func checkTCP(addr string, ranks int) error {
	rest, ok := strings.CutPrefix(addr, "tcp://")
	host, port, err := net.SplitHostPort(rest)
	if !ok || err != nil || host == "" {
		return fmt.Errorf("is %q, must be tcp://HOST:PORT", addr)
	}
	if host == "*" {
		return errors.New("is where the engine listens; it must be tcp://HOST:PORT with the host at which it is reached")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n+max(ranks-1, 0) > 65535 {
		return fmt.Errorf("has the port %q, must be tcp://HOST:PORT with a port (of every rank) between 1 and 65535", port)
	}
	return nil
}
