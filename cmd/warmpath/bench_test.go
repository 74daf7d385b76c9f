package main

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/sim/trace"
)

func TestBenchURL(t *testing.T) {
	for _, c := range []struct{ url, want, fault string }{
		{"", "", "--url is required"},
		{"127.0.0.1:8080", "", `--url "127.0.0.1:8080" must begin with http://`},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{"http://127.0.0.1:8080/v1", "http://127.0.0.1:8080", ""},
		{"http://127.0.0.1:8080/llm/v1/", "http://127.0.0.1:8080/llm", ""},
	} {
		o := benchOptions{work: trace.Chats(), sessions: "adopt", streamed: 1}
		o.target.URL = c.url
		err := o.validate()
		if c.fault == "" && (err != nil || o.target.URL != c.want) || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%q: got %q, %v, want %q, %q", c.url, o.target.URL, err, c.want, c.fault)
		}
	}
}
