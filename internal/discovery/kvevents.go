package discovery

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
)

// checkKV reports the faults of the settings for KV events.
func (c EndpointConfig) checkKV() []error {
	var faults []error
	kind := fleet.Kind(c.Kind)
	switch c.KVEvents {
	case "", "off":
		if c.KVReplay != "" {
			faults = append(faults, fault("kv_replay", "needs kv_events: tcp://HOST:PORT or listen"))
		}
	case "poll":
		if kind != fleet.KindUnknown && kind != fleet.KindTRTLLM {
			faults = append(faults,
				fault("kv_events", "poll is for trtllm; %s publishes its events at tcp://HOST:PORT", kind))
		}
		if c.KVReplay != "" {
			faults = append(faults, fault("kv_replay", "is not possible with poll"))
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
		faults = append(faults, fault("kv_events", "slots have no KV events"))
	}
	return faults
}

// checkTCP accepts an address to connect to, with consecutive ports for the ranks.
func checkTCP(addr string, ranks int) error {
	rest, ok := strings.CutPrefix(addr, "tcp://")
	host, port, err := net.SplitHostPort(rest)
	if !ok || err != nil || host == "" {
		return fmt.Errorf("is %q, must be tcp://HOST:PORT", addr)
	}
	if host == "*" {
		return errors.New("must be tcp://HOST:PORT with the host of the engine, not *")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n+max(ranks-1, 0) > 65535 {
		return fmt.Errorf("has the port %q, must be tcp://HOST:PORT with the ports of all ranks between 1 and 65535",
			port)
	}
	return nil
}
