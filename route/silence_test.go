package route_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

// TestLongAnswersAreNoSilence: a stream may wait for the only place of an engine, which computes an answer that comes as a whole. Nothing comes
// then either, and the engine is well.
func TestLongAnswersAreNoSilence(t *testing.T) {
	for _, tt := range []struct {
		name   string
		report route.Report
		wholes int
		want   route.State
	}{
		{"one place", route.Report{Slots: 1}, 1, route.StateUp},
		{"two places", route.Report{Slots: 2}, 1, route.StateEjected},
		{"two places, both taken", route.Report{Slots: 2}, 2, route.StateUp},
		{"llama.cpp, which does not say", route.Report{Kind: route.KindLlamaCpp}, 1, route.StateUp},
		{"Ollama", route.Report{Kind: route.KindOllama}, 1, route.StateUp},
		{"vLLM", route.Report{Kind: route.KindVLLM}, 1, route.StateEjected},
		{"one place, free", route.Report{Slots: 1}, 0, route.StateEjected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			r := route.New(route.Config{Policy: func() route.Policy { return firstLeast{} }})
			r.Observe(now, route.Declared{Source: "test", Endpoints: []route.Endpoint{{Name: "a", URL: "http://a", Weight: 1}}})
			tt.report.Healthy, tt.report.Models = true, []route.Model{{ID: "m"}}
			r.Observe(now, route.Probed{Endpoint: "a", Report: tt.report})
			ask := func(id string, stream bool) route.Lease {
				d, err := r.Route(now, &route.Request{Model: "m", MintedID: id, PromptBytes: 4000, Stream: stream})
				if err != nil {
					t.Fatal(err)
				}
				return d.Lease
			}
			l := ask("learnt", true)
			now = now.Add(100 * time.Millisecond)
			r.Observe(now, route.FirstByte{Lease: l})
			now = now.Add(time.Second)
			r.Observe(now, route.Finished{Lease: l, Usage: route.Usage{PromptTokens: 1000, OutputTokens: 50}})
			for range tt.wholes {
				ask("whole", false)
			}
			ask("stream", true)
			now = now.Add(10 * time.Minute)
			r.Observe(now, route.Signs{})
			if got := r.Status(now)[0].State; got != tt.want {
				t.Errorf("it is %s, want %s", got, tt.want)
			}
		})
	}
}
