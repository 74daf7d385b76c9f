package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestAttributionThroughEachDoor: Claude Code's turns find what the turns before have computed, though each begins with
// an attribution of its own: through the traffic listener and behind a proxy, in each mode of bodies.
func TestAttributionThroughEachDoor(t *testing.T) {
	doors := map[string]func(*testing.T) string{"traffic": func(t *testing.T) string { return newRig(t, 2, nil).url }}
	for name, e := range map[string]*envoy{
		"full duplex":                 {request: duplex, response: duplex},
		"buffered, streamed":          {request: buffered, response: streamed},
		"streamed without waiting":    {request: streamed, response: streamed, free: true},
		"streamed, may be overridden": {request: streamed, response: streamed, overrides: true},
		"none, may be overridden":     {request: none, response: streamed, overrides: true},
	} {
		doors[name] = func(t *testing.T) string { _, url := newEnvoy(t, e, nil); return url }
	}
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := door(t)
			turn := func(i int) (cached int) {
				body := fmt.Sprintf(`{"model":"m","max_tokens":5,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.126.9f3; cch=%05x;"},`+
					`{"type":"text","text":%q}],"messages":[{"role":"user","content":"hello %d"}]}`,
					i, strings.Repeat("You are a careful engineer. ", 200), i)
				res, got := asked(t, url+"/v1/messages", body)
				var v struct {
					Usage struct {
						Cached int `json:"cache_read_input_tokens"`
					} `json:"usage"`
				}
				if err := json.Unmarshal([]byte(got), &v); err != nil || res.StatusCode != 200 {
					t.Fatalf("%d %s: %v", res.StatusCode, got, err)
				}
				return v.Usage.Cached
			}
			for i := range 4 { // each of the engines may get a first one
				turn(i)
			}
			if cached := turn(4); cached < 500 {
				t.Errorf("%d tokens were cached, want most of the system part", cached)
			}
		})
	}
}
