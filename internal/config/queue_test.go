package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/route"
)

// TestQueueMode: which requests wait at the router, by queue, the policies in force and how queue is written.
func TestQueueMode(t *testing.T) {
	on := route.QueueConfig{Ahead: 500 * time.Millisecond, Patience: 5}
	roles := "endpoints: [{url: http://a:1, role: prefill}, {url: http://b:1, role: decode}]\n"
	for _, tt := range []struct {
		file string
		want route.QueueConfig
		off  string // part of the reason
	}{
		{"", on, ""},
		{"policy: session\n", on, ""},
		{"policy: round_robin\n", on, ""},
		{"policy: trtllm.round_robin\n", route.QueueConfig{}, "trtllm.round_robin"},
		{"policy: {name: session, session: {fallback: smg.cache_aware}}\n", route.QueueConfig{}, "session"},
		{"queue: off\n", route.QueueConfig{}, "queue.mode"},
		{"queue: \"off\"\n", route.QueueConfig{}, "queue.mode"},
		{"queue: {mode: off, ahead: 1s}\n", route.QueueConfig{}, "queue.mode"},
		{"queue: {ahead: 0s}\n", route.QueueConfig{}, "queue.ahead"},
		{"queue: on\npolicy: llmd.default\n", on, ""},
		{"queue: {mode: on, ahead: 1s}\npolicy: dynamo.kv\n", route.QueueConfig{Ahead: time.Second, Patience: 5}, ""},
		{"queue: {mode: on, ahead: 0s}\npolicy: dynamo.kv\n", route.QueueConfig{}, "queue.ahead"},
		{"queue: auto\npolicy: rank.default\n", route.QueueConfig{}, "rank.default"},
		{
			roles + "disaggregation: {prefill_policy: trtllm.load_balancing}\n",
			route.QueueConfig{},
			"trtllm.load_balancing",
		},
		{roles + "disaggregation: {decode_policy: trtllm.round_robin}\n", route.QueueConfig{}, "trtllm.round_robin"},
		{roles + "disaggregation: stack.conditional\n", route.QueueConfig{}, "stack."},
		{roles + "disaggregation: stack.conditional\nqueue: on\n", on, ""},
	} {
		if !strings.Contains(tt.file, "endpoints") {
			tt.file = "endpoints: [http://a:1]\n" + tt.file
		}
		c, err := config.Parse("f.yaml", []byte(tt.file), nil)
		if err != nil {
			t.Errorf("%s%v", tt.file, err)
			continue
		}
		if q, off := c.RouteQueue(); q != tt.want || (off == "") != (tt.off == "") || !strings.Contains(off, tt.off) {
			t.Errorf("%s%+v, off because %q; want %+v, %q", tt.file, q, off, tt.want, tt.off)
		}
	}
}

func TestQueueModeUnknown(t *testing.T) {
	for _, text := range []string{"queue: of\n", "queue: {mode: of}\n", "queue: true\n"} {
		_, err := config.Parse("f.yaml", []byte("endpoints: [http://a:1]\n"+text), nil)
		if err == nil || !strings.Contains(err.Error(), "f.yaml:2") ||
			!strings.Contains(err.Error(), "must be one of auto, on, off") {
			t.Errorf("%s%v", text, err)
		}
	}
}
