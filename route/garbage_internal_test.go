package route

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/size"
)

// fillWithJunk sets all of a value to implausible values.
func fillWithJunk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillWithJunk(v.Field(i))
		}
	case reflect.String:
		v.SetString("junk")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(-7e9)
	case reflect.Int, reflect.Int64:
		v.SetInt(-99)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(99)
	default:
		panic("a row has a " + v.Kind().String())
	}
}

// spoil overwrites the memory that the next decision reuses.
func spoil(d *decision) {
	var junk pick.Candidate
	fillWithJunk(reflect.ValueOf(&junk).Elem())
	for _, t := range []*pick.View{&d.prefill, &d.whole, &d.decode} {
		rows := t.Candidates[:cap(t.Candidates)]
		for i := range rows {
			rows[i] = junk
		}
		*t = pick.View{Candidates: rows, Home: 77, Parent: 78, Known: 1 << 40, Missed: 9, Watched: -3, FirstTurn: true, Repeats: true, Forced: "junk", PromptTokens: -5}
	}
	d.now, d.req, d.pool = time.Unix(1, 0), &fleet.Request{Pin: "junk", Session: "junk"}, pool.Pool{}
	d.who, d.whoFill = conversation.Found{ID: "junk", Known: true}, conversation.Found{ID: "junk", Known: true}
	d.size, d.why, d.open, d.decodes, d.ready, d.panicked = size.Prompt{Tokens: -9}, SplitAlways, true, true, 1e9, 5
	d.weighed = Weighed{WholeMs: -1, SplitMs: -2}
	d.members = d.members[:cap(d.members)]
	for i := range d.members {
		d.members[i] = pool.Member{}
	}
}

// TestNothingOfADecisionSurvives: two routers get the same requests, and the memory of one is spoilt before each decision.
func TestNothingOfADecisionSurvives(t *testing.T) {
	for _, when := range []When{WhenTime, WhenFree, WhenAlways, WhenUncached, WhenNever} {
		newRouter := func() *Router {
			r := New(Config{Policy: func() pick.Policy { return leastWait{} }, Disaggregation: Disaggregation{When: when, Threshold: 500}})
			d := Declared{Source: "test"}
			for i := range 6 {
				d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1, Models: []string{"m"}, Role: []fleet.Role{fleet.RoleBoth, fleet.RolePrefill, fleet.RoleDecode}[i%3]})
			}
			now := time.Unix(1000, 0)
			r.Observe(now, d)
			for _, e := range d.Endpoints {
				r.Observe(now, Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM}})
			}
			return r
		}
		clean, spoilt := newRouter(), newRouter()
		now := time.Unix(1001, 0)
		for i := range 200 {
			now = now.Add(time.Duration(i%7) * 50 * time.Millisecond)
			req := fleet.Request{Model: "m", Session: fmt.Sprint("s", i%13), PromptTokens: 100 + 397*i%4000, Stream: true, Splits: i%3 > 0, Seed: uint64(i)}
			if i%11 == 0 {
				req.Model = "unknown"
			}
			spoil(&spoilt.pad)
			other := req
			want, wantErr := clean.Decide(now, &req)
			got, gotErr := spoilt.Decide(now, &other)
			if fmt.Sprintf("%+v %+v %v", want.Decision, want.Prefill, wantErr) != fmt.Sprintf("%+v %+v %v", got.Decision, got.Prefill, gotErr) {
				t.Fatalf("%s, request %d:\n%+v %+v %v, with spoilt memory\n%+v %+v %v", when, i, want.Decision, want.Prefill, wantErr, got.Decision, got.Prefill, gotErr)
			}
			for _, v := range [][2]*pick.View{{&clean.pad.prefill, &spoilt.pad.prefill}, {&clean.pad.whole, &spoilt.pad.whole}, {&clean.pad.decode, &spoilt.pad.decode}} {
				if wantErr == nil && !reflect.DeepEqual(v[0].Candidates, v[1].Candidates) {
					t.Fatalf("%s, request %d: rows\n%+v, with spoilt memory\n%+v", when, i, v[0].Candidates, v[1].Candidates)
				}
			}
			for _, l := range []fleet.Lease{want.Prefill.Lease, want.Lease} {
				for _, r := range []*Router{clean, spoilt} {
					if l != 0 && i%2 == 0 {
						r.Observe(now, FirstByte{Lease: l})
						r.Observe(now, Finished{Lease: l, Usage: fleet.Usage{PromptTokens: req.PromptTokens, CachedKnown: true, OutputTokens: 20}})
					}
				}
			}
		}
	}
}

// leastWait picks the row with the least wait.
type leastWait struct{}

func (leastWait) Needs() pick.Needs { return pick.Needs{Name: "leastWait"} }

func (leastWait) Hooks() pick.Hooks { return pick.Hooks{} }

func (leastWait) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	best := 0
	for i := range v.Candidates {
		if v.Candidates[i].WaitMs < v.Candidates[best].WaitMs {
			best = i
		}
	}
	return pick.Choice{Index: best, Reason: "least_wait"}
}
