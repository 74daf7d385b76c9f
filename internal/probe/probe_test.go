package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/route"
)

func TestFirstReportIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a", APIKey: "k"})
		defer stop()
		time.Sleep(50 * time.Millisecond)
		r, ok := rec.last("a")
		if !ok || rec.len() != 1 {
			t.Fatalf("%d reports, want one", rec.len())
		}
		if !r.Healthy || r.Kind != fleet.KindVLLM || r.Version != "0.32.0" || len(r.Models) != 1 ||
			r.Models[0].ContextTokens != 16384 || r.Load == nil || r.Load.Running != 3 || r.Load.Waiting != 7 ||
			r.CacheTokens != 65536 || r.BlockTokens != 32 || r.Ranks != 2 {
			t.Fatalf("got %+v, load %+v", r, r.Load)
		}
		if len(f.keys) != 1 || !f.keys["Bearer k"] {
			t.Fatalf("keys sent: %v", f.keys)
		}
	})
}

func TestRanksShareAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		var eps []fleet.Endpoint
		for i := range 3 {
			part := fleet.Part{Kind: fleet.Rank, Index: i}
			eps = append(eps, fleet.Endpoint{Name: part.String(), URL: "http://a", Kind: fleet.KindVLLM, Part: part})
		}
		_, rec, stop := start(f, Config{}, eps...)
		defer stop()
		time.Sleep(50 * time.Millisecond)
		if n := f.count("/metrics"); n != 1 {
			t.Fatalf("/metrics asked %d times, want once for all ranks", n)
		}
		for i, want := range []int{1, 2} {
			r, _ := rec.last(eps[i].Name)
			if !r.Healthy || r.Load.Running != want || r.CacheTokens != 32768 {
				t.Errorf("%s: %+v %+v", eps[i].Name, r, r.Load)
			}
		}
		if r, _ := rec.last("rank2"); r.Healthy || !strings.Contains(r.Detail, "2 ranks") {
			t.Errorf("a rank that is not there: %+v", r)
		}
	})
}

func TestRefusedIsDownAtOnceAndNoticedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		p, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a"})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		f.set(func() { f.refuse = true })
		p.Now("a")
		synctest.Wait()
		if r, _ := rec.last("a"); r.Healthy || !r.Refused || r.Detail != "connection refused" {
			t.Fatalf("got %+v, want refused", r)
		}
		time.Sleep(time.Minute)
		models := f.count("/version")
		f.set(func() { f.refuse = false })
		time.Sleep(2300 * time.Millisecond) // the interval and its jitter
		if r, _ := rec.last("a"); !r.Healthy {
			t.Fatalf("not noticed back within an interval: %+v", r)
		}
		if f.count("/version") == models {
			t.Error("models were not asked again after the come-back")
		}
	})
}

// TestReportsSayWhenTheyWereAsked: a report has the time of the latest question that the engine has answered, because
// it says nothing of what happened since. A question without an answer does not move that time.
func TestReportsSayWhenTheyWereAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, late := newFake(vllmPages()), 0
		const slow, mute = 700 * time.Millisecond, time.Hour
		observe := func(e route.Event) {
			p := e.(route.Probed)
			f.set(func() {
				if p.Report.Healthy && !p.Asked.Equal(f.heard) {
					t.Errorf("a report is of what was asked %v ago, want %v", time.Since(p.Asked), time.Since(f.heard))
				}
				if p.Report.Healthy && time.Since(p.Asked) >= slow {
					late++
				}
			})
		}
		p := New(Config{}, &http.Client{Transport: f}, observe, func(string, string) bool { return true },
			slog.New(slog.DiscardHandler))
		p.Set([]fleet.Endpoint{{Name: "a", URL: "http://a", Kind: fleet.KindVLLM}})
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go p.Run(ctx)
		for _, takes := range []map[string]time.Duration{
			{}, {"/metrics": slow}, {"/metrics": mute}, {"/metrics": mute, "/health": mute}, {},
		} {
			before := late
			f.set(func() { f.takes = takes })
			time.Sleep(10 * time.Second)
			if synctest.Wait(); len(takes) > 0 && late == before {
				t.Errorf("with answers after %v no report is late", takes)
			}
		}
	})
}

// TestKindChanges: another engine at the same address is asked what its own kind is asked, whichever paths the one
// before had, and whether it came while that was up or down.
func TestKindChanges(t *testing.T) {
	owners := map[fleet.Kind]string{
		fleet.KindVLLM: "vllm", fleet.KindSGLang: "sglang", fleet.KindTRTLLM: "tensorrt_llm",
		fleet.KindLlamaCpp: "llamacpp", fleet.KindOllama: "library", fleet.KindOther: "somebody",
	}
	// pages are those of a kind that has the newest or the oldest of the paths that are tried
	pages := func(k fleet.Kind, old bool) map[string]string {
		d, err := engine.ByKind(k)
		if err != nil {
			t.Fatal(err)
		}
		path := d.Alive().Path
		if older := d.Alive().Older; old && len(older) > 0 {
			path = older[len(older)-1]
		}
		has := map[string]string{path: "{}"}
		has["/v1/models"] = `{"data":[{"id":"m","owned_by":"` + owners[k] + `"}]}`
		return has
	}
	for from := range owners {
		for to := range owners {
			for _, old := range []bool{false, true} {
				for _, down := range []bool{true, false} {
					if from == to || !down && from != fleet.KindOther {
						continue // one that is known and up is not recognised anew
					}
					name := fmt.Sprintf("%s to %s, the oldest paths: %t, down between: %t", from, to, old, down)
					synctest.Test(t, func(t *testing.T) {
						f := newFake(pages(from, old))
						_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a"})
						defer stop()
						time.Sleep(20 * time.Second)
						if r, _ := rec.last("a"); !r.Healthy || r.Kind != from {
							t.Fatalf("%s: at first %+v", name, r)
						}
						f.set(func() { f.refuse = down })
						time.Sleep(10 * time.Second)
						f.set(func() { f.refuse, f.pages = false, pages(to, old) })
						time.Sleep(20 * time.Second)
						if r, _ := rec.last("a"); !r.Healthy || r.Kind != to {
							t.Errorf("%s: then %+v", name, r)
						}
						f.set(func() { f.refuse = true })
						time.Sleep(3 * time.Second)
						if r, _ := rec.last("a"); r.Healthy {
							t.Errorf("%s: its end is not seen: %+v", name, r)
						}
					})
				}
			}
		}
	}
}

// TestStartedMeanwhile: an engine that has just started when it is asked what it is, so that it had no answer to the
// telling questions yet, is asked them again.
func TestStartedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(map[string]string{"/health": "{}", "/v1/models": `{"data":[{"id":"g","owned_by":"llamacpp"}]}`})
		for _, p := range []string{"/v1/models", "/server_info", "/props"} {
			f.status[p] = 503
		}
		f.takes = map[string]time.Duration{"/load": 100 * time.Millisecond}
		_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a"})
		defer stop()
		time.Sleep(50 * time.Millisecond)
		f.set(func() { clear(f.status) })
		time.Sleep(time.Second)
		if r, _ := rec.last("a"); !r.Healthy || r.Kind != fleet.KindLlamaCpp {
			t.Errorf("%+v", r)
		}
	})
}

func TestSlowEngineNeedsFailuresInARow(t *testing.T) {
	for _, test := range []struct {
		name    string
		breakIt func(f *fakeEngine)
		detail  string
	}{
		{"hangs", func(f *fakeEngine) { f.hang = true }, "no answer within 2s"},
		{"500", func(f *fakeEngine) { f.status["/health"] = 500 }, "500"},
		{"503", func(f *fakeEngine) { f.status["/health"] = 503 }, "starting, stopping or paused: 503"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(vllmPages())
				p, rec, stop := start(f, Config{LoadInterval: time.Hour, Failures: 3},
					fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM})
				defer stop()
				time.Sleep(time.Second)
				before := f.count("/health")
				f.set(func() { test.breakIt(f) })
				p.Now("a")
				for f.count("/health") < before+3 {
					if r, _ := rec.last("a"); !r.Healthy {
						t.Fatalf("down after %d failures: %+v", f.count("/health")-before, r)
					}
					time.Sleep(50 * time.Millisecond)
				}
				time.Sleep(2 * time.Second)
				if r, _ := rec.last("a"); r.Healthy || r.Refused || !strings.Contains(r.Detail, test.detail) {
					t.Fatalf("after three failures: %+v", r)
				}
			})
		})
	}
}

func TestAliveThoughForbidden(t *testing.T) {
	for _, code := range []int{401, 403, 404} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(vllmPages())
			f.status["/health"] = code
			_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM})
			defer stop()
			time.Sleep(10 * time.Second)
			if r, _ := rec.last("a"); !r.Healthy {
				t.Errorf("%d: %+v", code, r)
			}
		})
	}
}

// TestModelsBehindAKey: an engine with good health that lists its models only to who has its key is told in the log,
// once, with what to set, and also when the key that the router has is wrong; an engine that has no list is not.
func TestModelsBehindAKey(t *testing.T) {
	for _, test := range []struct {
		code      int
		key, want string
	}{
		{401, "", "only to those who have its key"},
		{403, "", "only to those who have its key"},
		{401, "wrong", "refuses the key"},
		{404, "", ""},
		{500, "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(vllmPages())
			f.status["/v1/models"] = test.code
			var lines strings.Builder
			log := slog.New(slog.NewTextHandler(&lines, nil))
			_, rec, stop := startLogged(log, f, Config{ModelsInterval: time.Second},
				fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM, APIKey: test.key})
			time.Sleep(time.Minute)
			stop()
			if r, _ := rec.last("a"); r.Guarded != (test.want != "") {
				t.Errorf("%d with the key %q: guarded %t", test.code, test.key, r.Guarded)
			}
			want := 1
			if test.want == "" {
				want = 0
			}
			said := lines.String()
			if strings.Count(said, "api_key_file") != want || !strings.Contains(said, test.want) {
				t.Errorf("%d with the key %q:\n%s", test.code, test.key, said)
			}
		})
	}
}

// TestTooLongToRecognise: an engine whose list of models is too long to be read is up, of a kind that its other answers
// tell, and also where that list is all that it answers.
func TestTooLongToRecognise(t *testing.T) {
	for kind, pages := range map[fleet.Kind]map[string]string{
		fleet.KindVLLM:  vllmPages(),
		fleet.KindOther: {},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(pages)
			f.pages["/v1/models"] = tooLong
			_, rec, stop := startLogged(slog.New(slog.DiscardHandler), f, Config{},
				fleet.Endpoint{Name: "a", URL: "http://a"})
			time.Sleep(time.Minute)
			stop()
			if r, ok := rec.last("a"); !ok || !r.Healthy || r.Kind != kind {
				t.Errorf("%s: %+v", kind, r)
			}
		})
	}
}

var tooLong = `{"data":[{"id":"m"}` + strings.Repeat(" ", engine.MaxAnswerBytes) + `]}`

// TestTooMuchToRead: models for which there is no room, and answers that are too long, are told in the log once.
func TestTooMuchToRead(t *testing.T) {
	many := &strings.Builder{}
	for i := range 5000 {
		fmt.Fprintf(many, `,{"id":"model-%d"}`, i)
	}
	for _, test := range []struct {
		name, list string
		models     []string // declared
		want       string
	}{
		{"few", `{"data":[{"id":"m"}]}`, nil, ""},
		{"many", `{"data":[{"id":"m"}` + many.String() + `]}`, nil, "read=4096 left_out=905"},
		{"many, and those that are wanted named", `{"data":[{"id":"m"}` + many.String() + `]}`, []string{"m"}, ""},
		{"long", tooLong, nil, "longer than"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(vllmPages())
			f.pages["/v1/models"] = test.list
			var lines strings.Builder
			_, rec, stop := startLogged(slog.New(slog.NewTextHandler(&lines, nil)), f,
				Config{ModelsInterval: time.Second},
				fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM, Models: test.models})
			time.Sleep(time.Minute)
			stop()
			if r, ok := rec.last("a"); !ok || !r.Healthy {
				t.Errorf("%s: %+v", test.name, r)
			}
			want := 0
			if test.want != "" {
				want = 1
			}
			said := lines.String()
			if strings.Count(said, " more ") != want || !strings.Contains(said, test.want) {
				t.Errorf("%s: the log is\n%s", test.name, said)
			}
		})
	}
}

// TestAnotherServiceAtTheAddress: an engine of any kind, its kind stated or found out, is down while its address
// answers 404 to what the engine answered before, as a gateway does without the engine behind it, and another service
// that took its port; and up again when it is back.
func TestAnotherServiceAtTheAddress(t *testing.T) {
	list := `{"object":"list","data":[{"id":"tiny","owned_by":"%s"}]}`
	for kind, pages := range map[fleet.Kind]map[string]string{
		fleet.KindVLLM:   vllmPages(),
		fleet.KindSGLang: {"/ready": "", "/v1/models": fmt.Sprintf(list, "sglang")},
		fleet.KindTRTLLM: {"/health": "", "/v1/models": fmt.Sprintf(list, "tensorrt_llm")},
		fleet.KindLlamaCpp: {
			"/health": `{"status":"ok"}`, "/props": `{"total_slots":1}`, "/v1/models": fmt.Sprintf(list, "llamacpp"),
		},
		fleet.KindOllama: {"/api/version": `{"version":"0.33.3"}`, "/api/tags": `{"models":[{"name":"tiny"}]}`},
		fleet.KindOther:  {"/v1/models": fmt.Sprintf(list, "me")},
	} {
		for _, stated := range []fleet.Kind{fleet.KindUnknown, kind} {
			for name, refuses := range map[string]bool{"a gateway": false, "the port was free": true} {
				t.Run(fmt.Sprintf("%s stated %q %s", kind, stated, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFake(pages)
						_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a", Kind: stated})
						defer stop()
						healthy := func() fleet.Report {
							time.Sleep(20 * time.Second)
							r, _ := rec.last("a")
							return r
						}
						if r := healthy(); !r.Healthy {
							t.Fatalf("at first: %+v", r)
						}
						if f.set(func() { f.refuse = refuses }); refuses {
							healthy()
						}
						f.set(func() { f.refuse, f.pages = false, nil })
						if r := healthy(); r.Healthy || !strings.Contains(r.Detail, "404") {
							t.Errorf("another service: %+v", r)
						}
						f.set(func() { f.pages = pages })
						if r := healthy(); !r.Healthy || r.Kind != kind {
							t.Errorf("back: %+v", r)
						}
					})
				})
			}
		}
	}
}

// SGLang's /health costs a generation; TensorRT-LLM's /metrics clears itself. Neither may ever be asked, neither while
// the kind is unknown.
func TestNeverAsksWhatCosts(t *testing.T) {
	for _, test := range []struct {
		name, never string
		pages       map[string]string
		kind        fleet.Kind
	}{
		{"sglang", "/health", map[string]string{
			"/health": "", "/ready": "",
			"/v1/loads":  `{"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0}]}`,
			"/v1/models": `{"data":[{"id":"m","owned_by":"sglang"}]}`, "/server_info": `{"dp_size":1,"page_size":32}`,
		}, fleet.KindSGLang},
		{"old sglang", "/health", map[string]string{
			"/health": "", "/ping": "", "/get_load": `[{"dp_rank":0,"num_reqs":1,"num_waiting_reqs":0}]`,
			"/v1/models": `{"data":[{"id":"m","owned_by":"sglang"}]}`, "/get_server_info": `{"dp_size":1}`,
		}, fleet.KindSGLang},
		{"trtllm", "/metrics", map[string]string{
			"/health": "", "/metrics": "[]", "/prometheus/metrics": "trtllm_num_requests_running 1\n",
			"/v1/models": `{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}`,
		}, fleet.KindTRTLLM},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(test.pages)
				_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a"})
				defer stop()
				for range 5 { // five restarts
					time.Sleep(20 * time.Second)
					f.set(func() { f.refuse = true })
					time.Sleep(10 * time.Second)
					if r, _ := rec.last("a"); r.Healthy {
						t.Fatalf("healthy though it refuses: %+v", r)
					}
					f.set(func() { f.refuse = false })
				}
				time.Sleep(20 * time.Second)
				r, _ := rec.last("a")
				if !r.Healthy || r.Kind != test.kind {
					t.Fatalf("%+v", r)
				}
				if n := f.count(test.never); n != 0 {
					t.Errorf("%s was asked %d times", test.never, n)
				}
				loads := 0
				rec.mu.Lock()
				defer rec.mu.Unlock()
				for _, e := range rec.events {
					if e.Report.Load != nil && e.Report.Load.Running == 1 {
						loads++
					}
				}
				if loads < 50 {
					t.Errorf("%d load reports in two minutes", loads)
				}
			})
		})
	}
}

func TestSetStartsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		a := fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM}
		b := fleet.Endpoint{
			Name: "b", URL: "http://a", Kind: fleet.KindVLLM, Part: fleet.Part{Kind: fleet.Rank, Index: 1},
		}
		p, rec, stop := start(f, Config{}, a)
		time.Sleep(time.Second)
		p.Set([]fleet.Endpoint{a, b})
		synctest.Wait()
		if r, ok := rec.last("b"); !ok || len(r.Models) != 1 || r.Load == nil {
			t.Fatalf("a new part of a known engine was not told all: %+v %v", r, ok)
		}
		p.Set(nil)
		time.Sleep(time.Second)
		n, asked := rec.len(), f.count("/health")
		time.Sleep(time.Minute)
		if rec.len() != n || f.count("/health") != asked {
			t.Error("probed on after the endpoints were gone")
		}
		p.Now("a")
		p.Now("nobody")
		stop()
		p.Set([]fleet.Endpoint{a}) // after the end: nothing happens
		time.Sleep(time.Minute)
		if rec.len() != n {
			t.Error("probed after Run returned")
		}
	})
}

// TestLeftEnginesAreWatched: an engine that is not declared any more is asked whether it lives while it has requests,
// told to be down if it does not answer, and let alone afterwards. One that comes back is probed on.
func TestLeftEnginesAreWatched(t *testing.T) {
	for _, row := range []struct {
		name    string
		breakIt func(f *fakeEngine)
		down    bool
	}{
		{"lives", func(*fakeEngine) {}, false},
		{"its node is lost", func(f *fakeEngine) { f.hang = true }, true},
		{"takes nothing new, and finishes what it has", func(f *fakeEngine) { f.refuse = true }, false},
		{"says that it ends, and finishes what it has", func(f *fakeEngine) { f.status["/health"] = 503 }, false},
	} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprint(row.name, ", comes back ", back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, rec, works := newFake(vllmPages()), &record{}, new(atomic.Bool)
					p := New(Config{}, &http.Client{Transport: f}, rec.observe,
						func(string, string) bool { return works.Load() }, slog.New(slog.DiscardHandler))
					a := []fleet.Endpoint{{Name: "a", URL: "http://a", Kind: fleet.KindVLLM}}
					p.Set(a)
					ctx, stop := context.WithCancel(t.Context())
					defer synctest.Wait()
					defer stop()
					go p.Run(ctx)
					time.Sleep(5 * time.Second)
					works.Store(true)
					f.set(func() { row.breakIt(f) })
					p.Set(nil)
					time.Sleep(10 * time.Second)
					if r, _ := rec.last("a"); r.Healthy == row.down {
						t.Errorf("with requests: %+v", r)
					}
					if back {
						before := rec.len()
						p.Set(a)
						time.Sleep(time.Second)
						told := slices.ContainsFunc(rec.all()[before:], func(e route.Probed) bool {
							return len(e.Report.Models) > 0
						})
						if row.name == "lives" && !told {
							t.Error("it came back and is not told all anew")
						}
					}
					works.Store(false)
					time.Sleep(time.Minute)
					asked := f.count("/health") + f.count("/version")
					time.Sleep(time.Minute)
					if more := f.count("/health") + f.count("/version") - asked; more > 0 != back {
						t.Errorf("without requests it was asked %d times in a minute", more)
					}
				})
			})
		}
	}
}

// hostsOf answers for two addresses: old, whose node is lost at some time, and any other.
type hostsOf struct {
	old, other http.RoundTripper
	asked      atomic.Int32 // of old
}

func (h *hostsOf) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "old" {
		return h.other.RoundTrip(r)
	}
	h.asked.Add(1)
	return h.old.RoundTrip(r)
}

// TestNameMoves: a name moves to another address. The engine at the former one is asked while it has requests; if it
// does not answer, that is reported of its address. With another key at the same address, the former key is not used.
func TestNameMoves(t *testing.T) {
	for _, row := range []struct {
		now   fleet.Endpoint
		waits bool // requests at the old address
	}{
		{fleet.Endpoint{URL: "http://new"}, false},
		{fleet.Endpoint{URL: "http://new"}, true},
		{fleet.Endpoint{URL: "http://old", APIKey: "another"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := row.now
			old, rec := newFake(vllmPages()), &record{}
			hosts := &hostsOf{old: old, other: newFake(vllmPages())}
			p := New(Config{}, &http.Client{Transport: hosts}, rec.observe,
				func(_, url string) bool { return url != "http://old" || row.waits }, slog.New(slog.DiscardHandler))
			p.Set([]fleet.Endpoint{{Name: "a", URL: "http://old", Kind: fleet.KindVLLM}})
			ctx, stop := context.WithCancel(t.Context())
			defer synctest.Wait()
			defer stop()
			go p.Run(ctx)
			time.Sleep(time.Minute)
			usual := hosts.asked.Load()
			now.Name, now.Kind = "a", fleet.KindVLLM
			if now.URL != "http://old" {
				old.set(func() { old.hang = true })
				usual = 0
			}
			p.Set([]fleet.Endpoint{now})
			moved := rec.len()
			time.Sleep(10 * time.Second) // what was under way ends
			told, asked := rec.len(), hosts.asked.Load()
			time.Sleep(time.Minute)
			lost := false
			for _, e := range rec.all()[moved:] {
				switch {
				case e.Report.Healthy:
				case e.URL == now.URL:
					t.Fatalf("told of it: %+v", e)
				default:
					lost = true
				}
			}
			if want := row.waits && now.URL != "http://old"; lost != want {
				t.Errorf("told that the former engine is down: %v, want %v", lost, want)
			}
			if n := hosts.asked.Load() - asked; rec.len() == told || !lost && n > usual+usual/4 {
				t.Errorf("%d reports, its old address was asked %d times a minute, %d before", rec.len()-told, n, usual)
			}
		})
	}
}

func TestNowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		p, _, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM})
		defer stop()
		time.Sleep(time.Second)
		before := f.count("/health")
		for range 1000 {
			p.Now("a")
			time.Sleep(time.Millisecond)
		}
		if n := f.count("/health") - before; n < 2 || n > 6 {
			t.Errorf("%d questions in a second of calls for them, want at most one each 200ms", n)
		}
	})
}

func TestManyEnginesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		var eps []fleet.Endpoint
		for i := range 200 {
			n := string(rune('a'+i%26)) + string(rune('a'+i/26))
			eps = append(eps, fleet.Endpoint{Name: n, URL: "http://" + n, Kind: fleet.KindVLLM})
		}
		_, rec, stop := start(f, Config{}, eps...)
		defer stop()
		time.Sleep(30 * time.Second)
		ticks := map[time.Time]int{}
		rec.mu.Lock()
		for _, at := range rec.at {
			ticks[at.Truncate(10*time.Millisecond)]++
		}
		rec.mu.Unlock()
		for at, n := range ticks {
			if n > 40 {
				t.Errorf("%d of 200 engines probed within 10ms at %v", n, at)
			}
		}
		for _, e := range eps {
			if r, ok := rec.last(e.Name); !ok || !r.Healthy {
				t.Errorf("%s: %+v", e.Name, r)
			}
		}
	})
}

func TestStartingEngineIsNotMistaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loading := `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`
		f := newFake(map[string]string{})
		for _, p := range []string{
			"/v1/models", "/server_info", "/props", "/load", "/api/tags", "/version", "/health",
		} {
			f.pages[p], f.status[p] = loading, 503
		}
		_, rec, stop := start(f, Config{}, fleet.Endpoint{Name: "a", URL: "http://a"})
		defer stop()
		time.Sleep(10 * time.Second)
		if r, _ := rec.last("a"); r.Healthy || r.Kind != fleet.KindUnknown ||
			!strings.Contains(r.Detail, "Loading model") {
			t.Fatalf("%+v", r)
		}
		f.set(func() {
			f.status = map[string]int{
				"/load": 404, "/server_info": 404, "/api/tags": 404, "/version": 404, "/metrics": 501,
			}
			f.pages["/v1/models"] = `{"data":[{"id":"g","owned_by":"llamacpp","meta":{"n_ctx":4096}}]}`
			f.pages["/props"] = `{"total_slots":2,"default_generation_settings":{"n_ctx":4096}}`
			f.pages["/slots"] = `[{"id":0,"is_processing":true},{"id":1,"is_processing":false}]`
		})
		time.Sleep(3 * time.Second)
		r, _ := rec.last("a")
		l := rec.lastLoad("a")
		if !r.Healthy || r.Kind != fleet.KindLlamaCpp || l == nil || l.Running != 1 || l.Waiting != -1 {
			t.Fatalf("%+v %+v", r, l)
		}
		if n := f.count("/metrics"); n > 2 {
			t.Errorf("/metrics asked %d times though it is switched off", n)
		}
	})
}

func TestRealSocket(t *testing.T) {
	l, err := net.Listen("tcp", freeport.Address()) // where no other test listens after this one
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := vllmPages()[r.URL.Path]; ok {
			_, _ = io.WriteString(w, page)
			return
		}
		http.NotFound(w, r)
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	reports := make(chan fleet.Report, 100)
	tr := &http.Transport{}
	p := New(Config{Interval: 10 * time.Millisecond}, &http.Client{Transport: tr},
		func(e route.Event) {
			select {
			case reports <- e.(route.Probed).Report:
			default:
			}
		}, nil, slog.New(slog.DiscardHandler))
	p.Set([]fleet.Endpoint{{Name: "a", URL: srv.URL}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	if r := <-reports; !r.Healthy || r.Kind != fleet.KindVLLM {
		t.Errorf("first report: %+v", r)
	}
	srv.CloseClientConnections()
	srv.Close()
	for r := range reports {
		if r.Refused {
			break
		}
	}
	cancel()
	<-done
	tr.CloseIdleConnections()
}

// TestWrongScheme: an engine with TLS under an http:// URL, and one without under https://, are down with a detail that
// says so.
func TestWrongScheme(t *testing.T) {
	gone := func(w http.ResponseWriter, _ *http.Request) { // as many servers with TLS do to a request without
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	plain, secure := httptest.NewServer(http.HandlerFunc(gone)), httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer plain.Close()
	defer secure.Close()
	for url, want := range map[string]string{
		plain.URL:  "; for an engine with TLS write https:// in its URL",
		secure.URL: "; engine_tls has the authority (ca) and the name (server_name) that are expected",
		strings.Replace(plain.URL, "http", "https", 1): "; for an engine without TLS write http:// in its URL",
	} {
		p := New(Config{}, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, nil, nil,
			slog.New(slog.DiscardHandler))
		if _, _, err := newTarget(p, address{url: url}, 0).get(t.Context(), "/v1/models"); err == nil ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want it to end with %q", url, err, want)
		}
	}
}

// TestReasons: what people read of a failure has no addresses of connections and no words of libraries.
func TestReasons(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // llama-server waits too, for the rest of a first line
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	p := New(Config{Timeout: 50 * time.Millisecond}, &http.Client{}, nil, nil, slog.New(slog.DiscardHandler))
	for url, want := range map[string]string{
		"http://" + silent.Addr().String(): "GET /v1/models: no answer within 50ms",
		"https://" + silent.Addr().String(): "GET /v1/models: no answer within 50ms; for an engine without TLS write " +
			"http:// in its URL",
	} {
		if _, _, err := newTarget(p, address{url: url}, 0).get(t.Context(), "/v1/models"); err == nil ||
			err.Error() != want {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for want, err := range map[string]error{
		"no such host: mac.local; names in .local are looked up by multicast (mDNS), which the router does not do: " +
			"write the address": &net.DNSError{Name: "mac.local", Err: "no such host", IsNotFound: true},
		"no such host: vllm.default.svc.cluster.local": &net.DNSError{
			Name: "vllm.default.svc.cluster.local", Err: "no such host", IsNotFound: true,
		},
		"no such host: a": &net.DNSError{Name: "a", Err: "no such host", IsNotFound: true},
		"a cannot be looked up: server misbehaving": fmt.Errorf("connect: %w",
			&net.DNSError{Name: "a", Server: "10.0.0.53:53", Err: "server misbehaving"}),
		"GET /x: connection reset by peer; for an engine with TLS write https:// in its URL": fmt.Errorf(
			"read response: %w", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}),
	} {
		if got := newTarget(p, address{url: "http://a"}, 0).reason(err, "/x"); got.Error() != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestRedirects: an address that leads elsewhere is down with what to write, for kinds that are declared and that are
// not. A redirect within the engine says that it lives.
func TestRedirects(t *testing.T) {
	for _, row := range []struct{ to, detail string }{
		{"https://llm.example/health", "https://llm.example; write"},
		{"https://HOST/health", "https://HOST; write"},
		{"//10.0.0.7/health", "http://10.0.0.7; write"},
		{"http://HOST/health/", ""},
		{"/login", ""},
		{"health/", ""},
	} {
		for _, kind := range []fleet.Kind{fleet.KindUnknown, fleet.KindVLLM, fleet.KindOther} {
			var host atomic.Value
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", strings.ReplaceAll(row.to, "HOST", host.Load().(string)))
				w.WriteHeader(308)
			}))
			host.Store(strings.TrimPrefix(s.URL, "http://"))
			told := make(chan fleet.Report, 1)
			client := &http.Client{
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			p := New(Config{}, client, func(e route.Event) {
				select {
				case told <- e.(route.Probed).Report:
				default:
				}
			}, nil, slog.New(slog.DiscardHandler))
			p.Set([]fleet.Endpoint{{Name: "a", URL: s.URL, Kind: kind}})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { p.Run(ctx); close(ended) }()
			want := strings.ReplaceAll(row.detail, "HOST", host.Load().(string))
			if r := <-told; r.Healthy != (want == "") || !strings.Contains(r.Detail, want) {
				t.Errorf("%q, kind %q: %v %q, want %q", row.to, kind, r.Healthy, r.Detail, want)
			}
			stop()
			<-ended
			client.CloseIdleConnections()
			s.Close()
		}
	}
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"zero", Config{}, ""},
		{"defaults", Config{}.WithDefaults(), ""},
		{"negative", Config{Interval: -1}, "interval"},
		{"too often", Config{LoadInterval: time.Microsecond}, "load_interval"},
		{"failures", Config{Failures: -1}, "failures"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.cfg.Validate()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestNoFileDescriptors: an engine that cannot be asked, because the router has no file descriptor left, keeps the
// health it had; the log says so once.
func TestNoFileDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		var log bytes.Buffer
		_, rec, stop := startLogged(slog.New(slog.NewTextHandler(&log, nil)), f, Config{},
			fleet.Endpoint{Name: "a", URL: "http://a"})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		f.set(func() { f.short = true })
		asked := f.count("/health")
		time.Sleep(time.Minute)
		if r, _ := rec.last("a"); !r.Healthy {
			t.Errorf("got %+v, want what was known", r)
		}
		if f.count("/health") < asked+3 || strings.Count(log.String(), "no file descriptors are left") != 1 {
			t.Errorf("asked %d times, the log says %s", f.count("/health")-asked, log.String())
		}
		f.set(func() { f.short, f.refuse = false, true })
		time.Sleep(time.Minute)
		if r, _ := rec.last("a"); r.Healthy {
			t.Error("a refused one is up")
		}
	})
}

// TestSleepingEngine: an engine that waits to be woken is asleep until it says otherwise, whatever is asked between;
// one that the next request wakes stays up, and gets no question that it takes for work while the router has nothing
// there.
func TestSleepingEngine(t *testing.T) {
	vllm := func(state string) map[string]string {
		pages := vllmPages()
		pages["/metrics"] += "vllm:engine_sleep_state{engine=\"0\",sleep_state=\"" + state + "\"} 1\n"
		return pages
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllm("weights_offloaded"))
		var log bytes.Buffer
		_, rec, stop := startLogged(slog.New(slog.NewTextHandler(&log, nil)), f, Config{},
			fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM})
		time.Sleep(20 * time.Second)
		for i, e := range rec.all() {
			if !e.Report.Healthy || e.Report.Sleep != fleet.Asleep ||
				!strings.Contains(e.Report.Rests, "weights_offloaded") {
				t.Fatalf("report %d: %+v", i, e.Report)
			}
		}
		f.set(func() { f.pages = vllm("awake") })
		time.Sleep(1200 * time.Millisecond) // the interval of load and its jitter
		if r, _ := rec.last("a"); !r.Healthy || r.Sleep != fleet.Awake || r.Rests != "" {
			t.Errorf("not awake within an interval: %+v", r)
		}
		stop()
		if n := strings.Count(log.String(), "engine is asleep"); n != 1 ||
			!strings.Contains(log.String(), "engine is awake") {
			t.Errorf("%d lines say that it is asleep:\n%s", n, log.String())
		}
	})
	props := func(sleeping string) map[string]string {
		return map[string]string{
			"/health": "", "/v1/models": `{"data":[{"id":"m","owned_by":"llamacpp"}]}`,
			"/slots":   `[{"id":0,"is_processing":false}]`,
			"/metrics": "llamacpp:requests_processing 0\n", "/props": `{"total_slots":1` + sleeping + `}`,
		}
	}
	for _, test := range []struct {
		name, sleeping string
		busy           bool
		want           fleet.Sleep
		asked          bool
	}{
		{"asleep", `,"is_sleeping":true`, false, fleet.Dozing, false},
		{"idle", `,"is_sleeping":false`, false, fleet.Awake, false},
		{"busy", `,"is_sleeping":false`, true, fleet.Awake, true},
		{"of a version that cannot sleep", "", false, fleet.SleepUnknown, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, rec := newFake(props(test.sleeping)), &record{}
				p := New(Config{}, &http.Client{Transport: f}, rec.observe,
					func(string, string) bool { return test.busy },
					slog.New(slog.DiscardHandler))
				p.Set([]fleet.Endpoint{{Name: "a", URL: "http://a"}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { p.Run(ctx); close(done) }()
				time.Sleep(time.Minute)
				cancel()
				<-done
				if r, _ := rec.last("a"); !r.Healthy || r.Sleep != test.want {
					t.Errorf("%+v", r)
				}
				for _, path := range []string{"/slots", "/metrics"} {
					if n := f.count(path); n > 0 != test.asked {
						t.Errorf("%s asked %d times", path, n)
					}
				}
			})
		})
	}
}

// TestAskedOnceMore: a server that can sleep is asked for its slots once more after its last request, when they show
// what they keep.
func TestAskedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		f, rec := newFake(map[string]string{
			"/health": "", "/v1/models": `{"data":[{"id":"m","owned_by":"llamacpp"}]}`,
			"/slots": `[{"id":0,"is_processing":false}]`, "/props": `{"total_slots":1,"is_sleeping":false}`,
		}), &record{}
		p := New(Config{}, &http.Client{Transport: f}, rec.observe, func(string, string) bool { return busy.Load() },
			slog.New(slog.DiscardHandler))
		p.Set([]fleet.Endpoint{{Name: "a", URL: "http://a"}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.Run(ctx); close(done) }()
		time.Sleep(10 * time.Second)
		busy.Store(true)
		time.Sleep(10 * time.Second)
		busy.Store(false)
		before := f.count("/slots")
		time.Sleep(time.Minute)
		if n := f.count("/slots") - before; n != 1 {
			t.Errorf("asked %d times after its last request, want once", n)
		}
		cancel()
		<-done
	})
}

// TestPartsThatCannotBeAddressed: an engine that cannot be told a rank or slot gets no requests for one, and the report
// says what to do.
func TestPartsThatCannotBeAddressed(t *testing.T) {
	rank, slot := fleet.Part{Kind: fleet.Rank, Index: 1}, fleet.Part{Kind: fleet.Slot, Index: 1}
	for _, row := range []struct {
		kind   fleet.Kind
		part   fleet.Part
		detail string // "" for parts that can be addressed
	}{
		{fleet.KindTRTLLM, rank, "leave out ranks"},
		{fleet.KindTRTLLM, slot, "leave out slots"},
		{fleet.KindVLLM, slot, "leave out slots"},
		{fleet.KindVLLM, rank, ""},
		{fleet.KindOllama, rank, "leave out ranks"},
		{fleet.KindOther, rank, "leave out ranks"},
	} {
		synctest.Test(t, func(t *testing.T) {
			pages := vllmPages()
			pages["/api/tags"], pages["/v1/models"] = `{"models":[{"name":"m:latest"}]}`,
				`{"object":"list","data":[{"id":"m"}]}`
			part := fleet.Endpoint{Name: "part", URL: "http://a", Kind: row.kind, Part: row.part}
			whole := fleet.Endpoint{Name: "whole", URL: "http://a", Kind: row.kind}
			_, rec, stop := start(newFake(pages), Config{}, part, whole)
			defer stop()
			time.Sleep(50 * time.Millisecond)
			if r, _ := rec.last("part"); r.Healthy != (row.detail == "") || !strings.Contains(r.Detail, row.detail) {
				t.Errorf("%s of %s: %+v, want %q", row.part, row.kind, r, row.detail)
			}
			if r, _ := rec.last("whole"); !r.Healthy {
				t.Errorf("the whole %s: %+v", row.kind, r)
			}
		})
	}
}

// TestRelist: models are asked for again when one is missed, at most once an interval.
func TestRelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(vllmPages())
		p, _, stop := start(f, Config{Interval: time.Second, LoadInterval: time.Hour, ModelsInterval: time.Hour},
			fleet.Endpoint{Name: "a", URL: "http://a", Kind: fleet.KindVLLM})
		defer stop()
		time.Sleep(1500 * time.Millisecond)
		if n := f.count("/v1/models"); n != 1 {
			t.Fatalf("models asked for %d times at first", n)
		}
		for n := range 2 { // the first call waits for the engines that it asks; the second asks none and waits for none
			p.Relist("")(t.Context())
			if got := f.count("/v1/models"); got != 2 {
				t.Fatalf("models asked for %d times after demand %d, want 2", got, n+1)
			}
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		p.Relist("")(gone)
		for range 100 {
			p.Relist("")
			p.Relist("a")
			p.Relist("nobody")
			time.Sleep(20 * time.Millisecond)
		}
		if n := f.count("/v1/models"); n < 3 || n > 5 {
			t.Errorf("models asked for %d times after two seconds of demand; want about two more", n)
		}
		f.mu.Lock()
		f.hang = true
		f.mu.Unlock()
		time.Sleep(time.Minute)
		began := time.Now()
		p.Relist("")(t.Context())
		if took := time.Since(began); took > 0 {
			t.Errorf("an engine that does not answer is waited for: %v", took)
		}
	})
}
