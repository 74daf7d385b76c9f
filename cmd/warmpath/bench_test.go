package main

import (
	"math"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/play"
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

// TestBenchShares: a share is from 0 to 1.
func TestBenchShares(t *testing.T) {
	for _, share := range []float64{-0.1, 0, 0.15, 1, 1.1, math.NaN(), math.Inf(1)} {
		for name, set := range map[string]func(*benchOptions){
			"--streamed": func(o *benchOptions) { o.streamed = share },
			"--leaving":  func(o *benchOptions) { o.target.Leaving = share },
		} {
			o := benchOptions{work: trace.Chats(), sessions: "adopt", streamed: 1, target: play.Target{URL: "http://a"}}
			set(&o)
			err := o.validate()
			if want := share >= 0 && share <= 1; (err == nil) != want || err != nil && !strings.Contains(err.Error(), name+" must be in 0..1") {
				t.Errorf("%s %v: %v", name, share, err)
			}
		}
	}
}
