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
func spoil(s *scratch) {
	var row pick.Candidate
	var held pick.Cached
	fillWithJunk(reflect.ValueOf(&row).Elem())
	fillWithJunk(reflect.ValueOf(&held).Elem())
	for i := range s.rows {
		fillAll(s.rows[i], row)
	}
	fillAll(s.cached, held)
	fillAll(s.members, pool.Member{})
	for i := range s.found {
		s.found[i] = conversation.Found{ID: "junk", Known: true}
	}
	for i := range s.views {
		s.views[i] = pick.View{
			Home: 77, Parent: 78, MostCached: 1 << 40, Missed: 9, Watched: -3, FirstTurn: true,
			Repeats: true, PromptTokens: -5,
		}
	}
}

// fillAll overwrites all of a slice's memory.
func fillAll[T any](s []T, junk T) {
	s = s[:cap(s)]
	for i := range s {
		s[i] = junk
	}
}

// TestNothingOfADecisionSurvives: two routers get the same requests, and the memory of one is spoilt before each
// decision.
func TestNothingOfADecisionSurvives(t *testing.T) {
	for _, when := range []fleet.SplitWhen{
		fleet.WhenTime, fleet.WhenFree, fleet.WhenAlways, fleet.WhenUncached, fleet.WhenNever,
	} {
		newRouter := func() *Router {
			r := New(Config{Policy: func() pick.Policy { return leastWait{} }, Disaggregation: Disaggregation{
				When: when, Threshold: 500,
			}})
			d := Declared{Source: "test"}
			for i := range 6 {
				d.Endpoints = append(d.Endpoints, fleet.Endpoint{
					Name: fmt.Sprint("e", i), URL: fmt.Sprint("http://e", i), Weight: 1, Models: []string{"m"},
					Role: []fleet.Role{fleet.RoleBoth, fleet.RolePrefill, fleet.RoleDecode}[i%3],
				})
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
			req := fleet.Request{
				Model: "m", Session: fmt.Sprint("s", i%13), PromptTokens: 100 + 397*i%4000, Stream: true,
				Splits: i%3 > 0, Seed: uint64(i),
			}
			if i%11 == 0 {
				req.Model = "unknown"
			}
			spoil(spoilt.scratch)
			other := req
			want, wantErr := clean.Decide(now, &req)
			got, gotErr := spoilt.Decide(now, &other)
			if fmt.Sprintf("%+v %+v %v", want.Decision, want.Prefill, wantErr) != fmt.Sprintf("%+v %+v %v",
				got.Decision, got.Prefill, gotErr) {
				t.Fatalf("%s, request %d:\n%+v %+v %v, with spoilt memory\n%+v %+v %v",
					when, i, want.Decision, want.Prefill, wantErr, got.Decision, got.Prefill, gotErr)
			}
			views := [][2]*pick.View{{want.View, got.View}}
			if want.Split() {
				views = views[:0]
				for _, l := range []fleet.Leg{fleet.LegPrefill, fleet.LegDecode} {
					views = append(views, [2]*pick.View{&clean.scratch.views[l], &spoilt.scratch.views[l]})
				}
			}
			for _, v := range views {
				if wantErr == nil && !reflect.DeepEqual(v[0].Candidates, v[1].Candidates) {
					t.Fatalf("%s, request %d: rows\n%+v, with spoilt memory\n%+v",
						when, i, v[0].Candidates, v[1].Candidates)
				}
			}
			for _, l := range []fleet.Lease{want.Prefill.Lease, want.Lease} {
				for _, r := range []*Router{clean, spoilt} {
					if l != 0 && i%2 == 0 {
						r.Observe(now, FirstByte{Lease: l})
						r.Observe(now, Finished{Lease: l, Usage: fleet.Usage{
							PromptTokens: req.PromptTokens, CachedKnown: true, OutputTokens: 20,
						}})
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
