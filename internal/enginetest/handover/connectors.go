package handover

import (
	"fmt"

	"github.com/warmpath/warmpath/fleet"
)

// Known lists the connectors of each kind of engine, for messages.
const Known = "vllm does by nixl, lmcache, mooncake, moriio and moriio_read, sglang by sglang, trtllm by trtllm"

// Has reports whether a kind of engine has the connector; each has "", which is none.
func Has(k fleet.Kind, connector string) bool {
	switch connector {
	case "":
		return true
	case "sglang":
		return k == fleet.KindSGLang
	case "nixl", "lmcache", "mooncake", "moriio", "moriio_read":
		return k == fleet.KindVLLM
	case "trtllm":
		return k == fleet.KindTRTLLM
	}
	return false
}

// New returns the connector with a name; "" has none and ignores parameters.
func New(c Config, e Engine) (Connector, error) {
	h := &host{config: c, engine: e}
	switch c.Connector {
	case "":
		return h, nil
	case "nixl":
		return &nixl{host: h}, nil
	case "lmcache":
		return &lmcache{host: h}, nil
	case "mooncake":
		return &mooncake{newMeeting(h)}, nil
	case "moriio", "moriio_read":
		return &moriio{meetingHost: newMeeting(h), reading: c.Connector == "moriio_read"}, nil
	case "sglang":
		return &sglang{newMeeting(h)}, nil
	case "trtllm":
		return &trtllm{host: h}, nil
	}
	return nil, fmt.Errorf("no connector %q", c.Connector)
}
