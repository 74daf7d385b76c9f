package proxy_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/quota"
)

// TestDynamoInAnEnginesPlace: by nvext a client neither picks a worker of a Dynamo nor puts its request before others',
// unless it may. All else of it passes.
func TestDynamoInAnEnginesPlace(t *testing.T) {
	const around = `{"model":"m","stream":false,"nvext":`
	for _, tt := range []struct {
		sent    string
		stays   string // without workers and priorities
		patient string // without priorities
		picks   string // without workers
	}{
		{
			sent: `{"backend_instance_id":7, "prefill_worker_id":8,"decode_worker_id":9,"dp_rank":1,` +
				`"prefill_dp_rank":0,"annotations":["a"],"agent_hints":{"priority":5,"osl":9,"latency_sensitivity":2.5,"strict_priority":1}}`,
			stays: `{"annotations":["a"],"agent_hints":{"osl":9}}`,
			patient: `{"backend_instance_id":7,"prefill_worker_id":8,"decode_worker_id":9,"dp_rank":1,` +
				`"prefill_dp_rank":0,"annotations":["a"],"agent_hints":{"osl":9}}`,
			picks: `{"annotations":["a"],` +
				`"agent_hints":{"priority":5,"osl":9,"latency_sensitivity":2.5,"strict_priority":1}}`,
		},
		{
			sent:  `{"\u0064ecode_worker_id":9,"agent_hints":{"\u0070riority":1}}`,
			stays: `{"agent_hints":{}}`, patient: `{"\u0064ecode_worker_id":9,"agent_hints":{}}`,
			picks: `{"agent_hints":{"\u0070riority":1}}`,
		},
		{sent: `{"agent_hints": {"priority":-1, "osl":9}, "extra_fields":["timing"]}`},
		{sent: `{"session_control": {"session_id":"s"}}`},
		{sent: `null`},
		{sent: `7`},
	} {
		for _, trusted := range []bool{false, true} {
			for _, most := range []fleet.Priority{fleet.PriorityNormal, fleet.PriorityHigh} {
				var in inbox
				r := newRig(t, proxy.Config{Transfers: trusted, Quota: quota.New(time.Now(), quota.Config{
					All: quota.Limits{QueueClass: fleet.QueueClass{Priority: most}},
				})}, in.handler)
				r.as(fleet.KindOther, "")
				want := tt.stays
				switch high := most == fleet.PriorityHigh; {
				case trusted && high:
					want = tt.sent
				case trusted:
					want = tt.patient
				case high:
					want = tt.picks
				}
				if tt.stays == "" {
					want = tt.sent
				}
				for _, path := range []string{
					"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
				} {
					res, answer := r.post(path, around+tt.sent+`,"x":[1.0]}`)
					if in.raw != around+want+`,"x":[1.0]}` || res.StatusCode != 200 {
						t.Errorf("%s, trusted %t, at most %v: %d %s, the engine got %s, want %s",
							path, trusted, most, res.StatusCode, answer, in.raw, want)
					}
				}
				r.post("/v1/chat/completions", around+`{"dp_rank":1},"nvext":{"dp_rank":2}}`)
				if got := in.raw != around+`{"dp_rank":1},"nvext":{"dp_rank":2}}`; got == trusted {
					t.Errorf("said twice, trusted %t: the engine got %s", trusted, in.raw)
				}
			}
		}
	}
}
