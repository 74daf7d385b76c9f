package discovery_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/discovery"
)

// TestDNSKVEvents: each engine behind a name publishes at its own address.
func TestDNSKVEvents(t *testing.T) {
	z := &zone{steps: []any{[]string{"10.0.0.2", "fd00::1", "10.0.0.1"}}}
	c := discovery.DNSConfig{
		Name: "e", Port: 8000, Type: "host", KVEvents: "tcp://*:5557", KVReplay: "tcp://*:5657", KVTopic: "kv",
	}
	_, all := follow(t, c, z, 1)
	if got := all[0].Endpoints; len(got) != 2 || got[1].KVEvents != "tcp://10.0.0.2:5557" ||
		got[1].KVReplay != "tcp://10.0.0.2:5657" || got[0].KVEvents != "tcp://10.0.0.1:5557" || got[0].KVTopic != "kv" {
		t.Errorf("got %+v", got)
	}
	z = &zone{steps: []any{[]string{"fd00::1"}}}
	if _, all = follow(t, c, z, 1); all[0].Endpoints[0].KVEvents != "tcp://[fd00::1]:5557" {
		t.Errorf("got %+v", all[0].Endpoints[0])
	}
	z = &zone{steps: []any{[]string{"10.0.0.1"}}}
	if _, all = follow(t, discovery.DNSConfig{Name: "e", Port: 8000, Kind: "trtllm", KVEvents: "poll"},
		z, 1); all[0].Endpoints[0].KVEvents != "poll" {
		t.Errorf("got %+v", all[0].Endpoints[0])
	}
	for bad, want := range map[*discovery.DNSConfig]string{
		{KVEvents: "tcp://10.0.0.1:5557"}:                 "the same address for all engines; write tcp://*:PORT",
		{KVEvents: "tcp://*:5557", KVReplay: "tcp://h:1"}: "kv_replay",
		{
			KVEvents: "tcp://*:0",
		}: "must be tcp://HOST:PORT with the ports of all ranks",
		{KVEvents: "poll", Kind: "vllm"}:                            "poll is for trtllm",
		{KVEvents: "tcp://*:65535", Ranks: 2}:                       "65535",
		{KVEvents: "udp://*:5557"}:                                  "must be tcp://HOST:PORT",
		{KVReplay: "tcp://*:5657"}:                                  "needs kv_events",
		{KVEvents: "tcp://*:1", KVReplay: "*:5657", Kind: "sglang"}: "kv_replay",
	} {
		bad.Name, bad.Port = "e", 8000
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", *bad, err, want)
		}
	}
}
