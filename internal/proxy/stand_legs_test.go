package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// presses are prefillers, each of which takes 0.1 ms for four bytes of a prompt, one after the other, and decoders that
// answer as soon as somebody has computed it.
type presses struct {
	mu       sync.Mutex
	engines  map[string]*oneByOne
	computed map[string]chan struct{}
	asked    map[string]bool // by the names of prompts
	holds    bool            // decoders say that they hold what they decoded
	fetched  []string        // prompts whose beginning a prefiller was to fetch from a decoder
}

func (p *presses) of(name string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.computed[name] == nil {
		p.computed[name] = make(chan struct{})
	}
	return p.computed[name]
}

// wasAsked reports whether a decoder was asked for a prompt.
func (p *presses) wasAsked(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[name]
}

func (p *presses) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, name, _ := strings.Cut(string(body), `"prompt":"`)
	name, _, _ = strings.Cut(name, " ")
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	done := p.of(name)
	e := p.engines[r.URL.Hostname()]
	if e == nil {
		p.mu.Lock()
		p.asked[name] = true
		p.mu.Unlock()
		select {
		case <-done:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		res, err := (&oneByOne{free: time.Now().Add(-time.Hour)}).RoundTrip(r)
		if err == nil && p.holds {
			held := `data: {"choices":[],"kv_transfer_params":` + transferParams("held") + "}\n\n"
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader(held), res.Body))
		}
		return res, err
	}
	if strings.Contains(string(body), `"remote_engine_id":"held"`) {
		p.mu.Lock()
		p.fetched = append(p.fetched, name)
		p.mu.Unlock()
	}
	res, err := e.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	select {
	case <-done: // by a turn before
	default:
		close(done)
	}
	if !strings.Contains(string(body), "bootstrap_room") { // vLLM with NIXL
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}`,
			len(body)/4)
		text := `{"choices":[{"text":"x"}],"usage":` + usage + `,"kv_transfer_params":` + transferParams("e") + `}`
		res.Header.Set("Content-Type", "application/json")
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
	return res, nil
}

func transferParams(engine string) string {
	return `{"do_remote_prefill":true,"remote_engine_id":"` + engine +
		`","remote_block_ids":[1],"remote_request_id":"r","remote_host":"h","remote_port":1}`
}

// newPresses is a router in front of two such prefillers and a decoder, which always splits.
func newPresses(t *testing.T, kind fleet.Kind, cfg proxy.Config) (*rig, *presses) {
	p := &presses{
		engines: map[string]*oneByOne{"p0": {}, "p1": {}}, computed: map[string]chan struct{}{},
		asked: map[string]bool{},
	}
	var declared []fleet.Endpoint
	for name, role := range map[string]fleet.Role{
		"p0": fleet.RolePrefill, "p1": fleet.RolePrefill, "d0": fleet.RoleDecode,
	} {
		declared = append(declared, fleet.Endpoint{
			Name: name, URL: "http://" + name, Weight: 1, Kind: kind, Role: role, BootstrapPort: 8998,
		})
	}
	slices.SortFunc(declared, func(a, b fleet.Endpoint) int { return strings.Compare(a.Name, b.Name) })
	return newRouter(t, cfg, p, route.Config{
		Policy: func() pick.Policy { return inOrder{} }, Queue: route.QueueConfig{Ahead: time.Second},
		Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
	}, declared, func(fleet.Kind) fleet.Report { return fleet.Report{Kind: kind, Models: []fleet.Model{{ID: "m"}}} }), p
}

// TestQueueOfLegs: a prefill leg that stands in the router's line is sent when it is its turn, the shortest first; and
// who leaves it is not sent, nor is its decoder asked, and both are off the books. Whether its decoder is asked behind
// it or beside it makes no difference.
func TestQueueOfLegs(t *testing.T) {
	for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
		for _, tt := range []struct {
			name string
			then func(r *rig, leave func()) // while "long", "short" and "middle" stand in line behind a prompt of 4 s
			want []string                   // what the first prefiller gets after that one
			to1  []string                   // and the second
			code map[string]int             // of the answers, where it is not 200; 0 is none
		}{
			{"the shortest goes first", func(*rig, func()) {}, []string{"short", "middle", "long"}, nil, nil},
			{"a client leaves", func(_ *rig, leave func()) {
				leave()
			}, []string{"short", "long"}, nil, map[string]int{"middle": 0}},
			{"the prefiller goes down", func(r *rig, _ func()) {
				r.fleet.Observe(route.Probed{Endpoint: "p0", Report: fleet.Report{Detail: "health answered 500"}})
			}, nil, []string{"long", "middle", "short"}, nil},
			{
				"the router shuts down", func(r *rig, _ func()) { r.proxy.Abort() }, nil, nil,
				map[string]int{"blocks": 503, "long": 503, "short": 503, "middle": 503},
			},
			{"the router shuts down, one request after the other", func(r *rig, _ func()) {
				r.proxy.AbortInSteps(synctest.Wait)
			}, nil, nil, map[string]int{"blocks": 503, "long": 503, "short": 503, "middle": 503}},
		} {
			t.Run(fmt.Sprint(kind, ", ", tt.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r, p := newPresses(t, kind, proxy.Config{Refusing: time.Second, Retries: 2})
					q, stop := newQueuing(t, r)
					defer synctest.Wait()
					defer stop()
					q.learn()
					p.engines["p0"].got = nil
					leave := q.fill("p0")
					defer leave()
					for _, name := range []string{"long", "middle", "short"} {
						if p.wasAsked(name) {
							t.Errorf("the decoder was asked for %s, which nobody computes yet", name)
						}
					}
					tt.then(r, leave)
					time.Sleep(time.Minute)
					synctest.Wait()
					if got, want := p.engines["p0"].got, append([]string{"blocks"}, tt.want...); !slices.Equal(got,
						want) && tt.to1 == nil {
						t.Errorf("the prefiller got %v, want %v", got, want)
					}
					if got := slices.Sorted(slices.Values(p.engines["p1"].got)); tt.to1 != nil &&
						!slices.Equal(intersection(got, tt.to1), tt.to1) {
						t.Errorf("the other got %v, want %v among them", got, tt.to1)
					}
					q.answered(tt.code)
					r.booksBalance()
				})
			})
		}
	}
}

// TestLegInLineFetchesWhatIsHeldThen: what a decoder holds of a conversation is looked up when its next prefill leg is
// called. One that stood in line for longer than that is held is not told of it: a prefiller that asks for blocks which
// are gone answers with an error.
func TestLegInLineFetchesWhatIsHeldThen(t *testing.T) {
	for _, tt := range []struct {
		keep time.Duration
		want []string
	}{{time.Minute, []string{"talk"}}, {2 * time.Second, nil}} {
		synctest.Test(t, func(t *testing.T) {
			r, p := newPresses(t, fleet.KindVLLM, proxy.Config{
				Bidirectional: tt.keep, NeedsContent: true, ByContent: true,
			})
			q, stop := newQueuing(t, r)
			defer synctest.Wait()
			defer stop()
			q.learn()
			p.holds = true
			q.send(q.ctx, "talk", 1000)
			time.Sleep(time.Second)
			q.send(q.ctx, "blocks", 40_000) // 4 s
			q.send(q.ctx, "talk", 12_000)
			for _, s := range q.fleet.Status() {
				if s.Endpoint.Name == "p0" && s.Load.Queued != 1 {
					t.Fatalf("%d requests are queued, want 1", s.Load.Queued)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if !slices.Equal(p.fetched, tt.want) ||
				!slices.Equal(p.engines["p0"].got[len(p.engines["p0"].got)-2:], []string{"blocks", "talk"}) {
				t.Errorf("held for %v: a prefiller fetched for %v, want %v, and got %v",
					tt.keep, p.fetched, tt.want, p.engines["p0"].got)
			}
			r.booksBalance()
		})
	}
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
