package metrics

import (
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// TestPredictionErrors holds each histogram to what one attempt must put into it.
func TestPredictionErrors(t *testing.T) {
	const (
		tokens = "warmpath_cached_tokens_prediction_error_tokens"
		share  = "warmpath_cached_tokens_prediction_error_ratio"
		ttft   = "warmpath_ttft_prediction_error_seconds"
		regret = "warmpath_regret_seconds"
	)
	for _, c := range []struct {
		name   string
		change func(*route.Ended)
		want   map[string]float64 // sum by family and direction
	}{
		{
			"as predicted or not", func(*route.Ended) {},
			map[string]float64{tokens + " under": 10, share: .1, ttft + " late": .03, regret: .05},
		},
		{
			"better than predicted", func(x *route.Ended) { x.FirstByte = x.Routed.Add(20 * time.Millisecond) },
			map[string]float64{tokens + " under": 10, share: .1, ttft + " early": .03, regret: 0},
		},
		{
			"too much believed", func(x *route.Ended) { x.Usage.CachedTokens = 0 },
			map[string]float64{tokens + " over": 60, share: .6, ttft + " late": .03, regret: .05},
		},
		{
			"not streamed", func(x *route.Ended) { x.Stream = false },
			map[string]float64{tokens + " under": 10, share: .1},
		},
		{
			"engine that reports no cached tokens", func(x *route.Ended) { x.Usage = fleet.Usage{} },
			map[string]float64{ttft + " late": .03, regret: .05},
		},
		{
			"nothing predicted", func(x *route.Ended) { x.Decision.TTFTMs = 0 },
			map[string]float64{tokens + " under": 10, share: .1},
		},
		{
			"no other candidate", func(x *route.Ended) { x.Candidates = x.Candidates[:1] },
			map[string]float64{tokens + " under": 10, share: .1, ttft + " late": .03},
		},
		{
			"candidates not kept", func(x *route.Ended) { x.Candidates = nil },
			map[string]float64{tokens + " under": 10, share: .1, ttft + " late": .03},
		},
		{"failed", func(x *route.Ended) { x.Outcome = fleet.EngineError }, nil},
		{"embedding", func(x *route.Ended) { x.Class = fleet.Embed }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := New(Config{})
			x := ended(served("qwen", "a"))
			c.change(x)
			m.Listener().Entry(&route.Entry{Ended: x})
			got := map[string]float64{}
			for _, family := range []string{tokens, share, ttft, regret} {
				for _, x := range gather(t, m)[family].GetMetric() {
					if h := x.GetHistogram(); h.GetSampleCount() > 0 {
						got[family+direction(x)] = h.GetSampleSum()
					}
				}
			}
			for k, want := range c.want {
				if v, ok := got[k]; !ok || math.Abs(v-want) > 1e-9 {
					t.Errorf("%s: got %v (%v), want %v", k, v, ok, want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func direction(x *dto.Metric) string {
	for _, l := range x.GetLabel() {
		if l.GetName() == "direction" {
			return " " + l.GetValue()
		}
	}
	return ""
}
