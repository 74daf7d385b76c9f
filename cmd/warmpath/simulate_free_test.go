package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestSimulateFree: a fleet without roles can be compared with itself, splitting nothing and splitting what pays; ways
// that need roles, and what does not go with requests in two legs, are refused there.
func TestSimulateFree(t *testing.T) {
	simulate := func(args ...string) (int, string) {
		var out, talk bytes.Buffer
		code := Main(t.Context(), append([]string{
			"simulate", "--generate", "conversations=60,long=0.2,long_tokens=16000", "--endpoints",
			"3", "--load", "0.7",
		}, args...), nil, nil, &out, &talk)
		return code, out.String() + talk.String()
	}
	code, text := simulate("--policy", "least_ttft", "--disagg-when", "never,free")
	if code != 0 || !strings.Contains(text, "least_ttft, never") || !strings.Contains(text, "3 both") ||
		!strings.Contains(text, "Why: least_ttft, free: ") || !strings.Contains(text, "whole_sooner") {
		t.Errorf("%d: %s", code, text)
	}
	for want, args := range map[string][]string{
		"time splits nothing in a fleet without roles": {"--policy", "least_ttft", "--disagg-when", "time,free"},
		"oracle places whole requests only":            {"--policy", "oracle", "--disagg-when", "free"},
		"--disagg-threshold is used by --disagg-when tokens and uncached only": {
			"--policy", "least_ttft", "--disagg-when", "free", "--disagg-threshold", "9",
		},
		"--kv-latency has no meaning without roles": {
			"--policy", "least_ttft", "--kv-latency", "1ms",
		},
		"routers that hear of each other are simulated without roles": {
			"--policy", "least_ttft", "--disagg-when", "free", "--routers", "2", "--staleness", "50ms",
		},
	} {
		if code, text := simulate(args...); code != 2 || !strings.Contains(text, want) {
			t.Errorf("%v ends with %d, want %q: %s", args, code, want, text)
		}
	}
}
