package route_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestJoiningRampsUp: an engine that joins a fleet with traffic gets its share little by little, also under the name of
// one that has left; those of a fleet that starts do not.
func TestJoiningRampsUp(t *testing.T) {
	now := time.Unix(1000, 0)
	r := route.New(route.Config{Policy: func() pick.Policy { return &costed{} }})
	declare := func(urls ...string) {
		d := route.Declared{Source: "test"}
		for i, url := range urls {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: string(rune('a' + i)), URL: url, Weight: 1, Models: []string{"m"},
			})
		}
		r.Observe(now, d)
		for _, e := range d.Endpoints {
			r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
		}
	}
	ramp := func(url string) float64 {
		for _, s := range r.Status(now) {
			if s.Endpoint.URL == url {
				return s.Ramp
			}
		}
		t.Fatalf("there is no %s", url)
		return 0
	}
	declare("http://1", "http://2")
	for range 4 {
		if _, err := r.Decide(now, &fleet.Request{Model: "m", PromptTokens: 100}); err != nil {
			t.Fatal(err)
		}
	}
	declare("http://1", "http://other", "http://3")
	if got := ramp("http://1"); got != 1 {
		t.Errorf("one of the first endpoints has %v of its share", got)
	}
	for _, url := range []string{"http://other", "http://3"} {
		if got := ramp(url); got == 1 {
			t.Errorf("%s, which has just joined, has its whole share", url)
		}
	}
}

// TestAnotherAddressIsAnotherEngine: requests running at the old address do not count at the new one, are shown under
// the name until they end, and leave nothing; state that belongs to the name continues.
func TestAnotherAddressIsAnotherEngine(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy { return firstLeast{} }, Explain: true})
	now := time.Unix(1000, 0)
	declare := func(url string) {
		r.Observe(now, route.Declared{Source: "s", Endpoints: []fleet.Endpoint{
			{Name: "a", URL: url, Weight: 1}, {Name: "b", URL: "http://b", Weight: 1},
		}})
	}
	up := func(name string) {
		r.Observe(now, route.Probed{
			Endpoint: name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
	}
	declare("http://a1")
	up("a")
	r.Observe(now, route.Drain{Endpoint: "b"})
	ask := func(pin string) route.Decision {
		p, err := r.Decide(now, &fleet.Request{
			ID: "r", Model: "m", Session: "s", PromptTokens: 5000, Stream: true, Pin: pin,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Decision
	}
	first := ask("a")
	r.Observe(now, route.FirstByte{Lease: first.Lease})
	r.Observe(now, route.Finished{Lease: first.Lease, Usage: fleet.Usage{PromptTokens: 5000, OutputTokens: 50}})
	old := ask("a")
	if old.CachedTokens == 0 || old.FirstTurn {
		t.Fatalf("at the first address it goes on as %+v", old)
	}
	r.Observe(now, route.Drain{Endpoint: "a"})
	declare("http://a2")
	s := r.Status(now)
	if len(s) != 2 || s[0].Endpoint.URL != "http://a2" || s[0].Load.Requests != 1 || !s[0].Draining ||
		s[0].Requests != 2 || s[0].State != fleet.StateUnknown {
		t.Fatalf("status %+v", s)
	}
	up("a")
	r.Observe(now, route.Drain{Endpoint: "a", Off: true})
	fresh, err := r.Decide(now, &fleet.Request{ID: "r", Model: "m", Session: "s", PromptTokens: 5000, Stream: true})
	if err != nil || fresh.Endpoint.URL != "http://a2" || fresh.CachedTokens != 0 || fresh.FirstTurn {
		t.Fatalf("at the new address it goes on as %+v, %v", fresh.Decision, err)
	}
	if c := fresh.View.Candidates[0]; c.Load.Requests != 0 || c.WaitMs != 0 || c.Epoch == 0 {
		t.Errorf("the new engine has %+v", c)
	}
	for range 5 { // the old engine is gone, which is not the new one's fault
		e := r.Observe(now, route.Finished{Lease: old.Lease, Outcome: fleet.ConnectFailed})
		if len(e.Changes) != 0 {
			t.Errorf("told %+v", e.Changes)
		}
	}
	if s := r.Status(now); s[0].State != fleet.StateUp || s[0].Load.Requests != 1 || s[0].Failures != 0 {
		t.Errorf("status %+v", s[0])
	}
	r.Observe(now, route.Finished{Lease: fresh.Lease, Usage: fleet.Usage{PromptTokens: 5000, OutputTokens: 50}})
	if err := r.Idle(); err != nil {
		t.Error(err)
	}
}

// TestComesBackInTime: an endpoint leaves, and is declared again while it still has a request. There is a change for
// each of the two.
func TestComesBackInTime(t *testing.T) {
	x := newTestRouter(t, nil, "a")
	x.route(fleet.Request{Model: "m", Session: "s", PromptTokens: 2000})
	left := x.r.Observe(x.now, route.Declared{Source: "s"})
	if len(left.Changes) != 1 || left.Changes[0].To != "" || len(left.Gone) != 1 {
		t.Errorf("it leaves: %+v, gone %v", left.Changes, left.Gone)
	}
	a := []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}}
	for i, want := range []int{1, 0, 1} {
		if i == 2 { // and at another address
			x.r.Observe(x.now, route.Declared{Source: "other"})
			a[0].URL = "http://b"
		}
		back := x.r.Observe(x.now, route.Declared{Source: "other", Endpoints: a})
		if n := len(back.Changes); n != want || n > 0 && (back.Changes[0] != route.Change{
			Endpoint: "a", From: fleet.StateUp, To: fleet.StateUp, Detail: "declared again, by other",
		}) {
			t.Errorf("it comes back: %+v, want %d changes", back.Changes, want)
		}
	}
}

// TestOnlyEndpointIsSpared: the only endpoint of a model is not ejected for a failure, also where its request began
// when there was another, which has left, and another engine has that one's slot. So it is where its pool was dropped
// meanwhile, since clients asked for thousands of models.
func TestOnlyEndpointIsSpared(t *testing.T) {
	for _, models := range []int{1, 4200} {
		t.Run(fmt.Sprint(models), func(t *testing.T) {
			x := newTestRouter(t, nil, "a", "b", "many")
			x.r.Observe(x.now, route.Configured{
				Config: route.Config{Policy: func() pick.Policy { return leastWork{} }},
			})
			list := make([]fleet.Model, models)
			for i := range list {
				list[i].ID = fmt.Sprint("x", i)
			}
			x.up("many", nil, list...)
			var open []route.Decision
			for range 10 {
				open = append(open,
					x.route(fleet.Request{Model: "m", Pin: "a", Class: fleet.Turn, PromptTokens: 10, Seed: 1}))
			}
			for i := range list {
				x.end(x.route(fleet.Request{Model: list[i].ID, Class: fleet.Turn, PromptTokens: 10, Seed: 1}), fleet.OK)
			}
			x.declare([]string{"a", "many"}, "")
			x.declare([]string{"a", "many", "other"}, "")
			x.up("other", nil, fleet.Model{ID: "o"})
			for _, d := range open {
				x.end(d, fleet.EngineError)
			}
			for _, s := range x.r.Status(x.now) {
				if s.Endpoint.Name == "a" && s.State != fleet.StateUp {
					t.Errorf("the only endpoint of its model is %s", s.State)
				}
			}
			if x.r.Stats().EjectionsSpared == 0 {
				t.Error("no ejection was due")
			}
		})
	}
}

// TestTwoSourcesDeclareOne: of an endpoint that several sources declare, the declaration of the first applies; when
// that one gives it up, the next one's does, and the endpoint stays what it is. It leaves when none is left.
func TestTwoSourcesDeclareOne(t *testing.T) {
	for _, others := range []int{0, 8} { // few endpoints are declared at once, many in steps
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			x := newTestRouter(t, nil, "other")
			var more []fleet.Endpoint
			for i := range others {
				name := fmt.Sprint("more", i)
				more = append(more, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
			}
			declare := func(source string, endpoints ...fleet.Endpoint) (details []string) {
				d := route.Declared{Source: source, Endpoints: append(endpoints, more...)}
				s := route.NewSurvey(&d)
				steps := []route.Declared{d}
				if others > 0 {
					for x.r.Survey(x.now, &d, s) {
					}
					steps = []route.Declared{
						{Source: source, Endpoints: s.Fresh, Partly: true},
						{Source: source, Left: s.Left, Partly: true},
					}
				}
				for _, step := range steps {
					for _, c := range x.r.Observe(x.now, step).Changes {
						if c.Endpoint == "a" {
							details = append(details, c.Detail)
						}
					}
				}
				return details
			}
			status := func() *route.EndpointStatus {
				for _, s := range x.r.Status(x.now) {
					if s.Endpoint.Name == "a" {
						return &s
					}
				}
				return nil
			}
			a := fleet.Endpoint{Name: "a", URL: "http://a", Weight: 1}
			heavy := a
			heavy.Weight = 3
			declare("dns:blue", a)
			x.up("a", nil, fleet.Model{ID: "m"})
			first := x.route(fleet.Request{Model: "m", Pin: "a", PromptTokens: 10})
			if got := declare("dns:green", heavy); len(got) != 1 {
				t.Errorf("a second declaration is told as %q", got)
			}
			if got := declare("dns:green", heavy); len(got) != 0 {
				t.Errorf("it is told again, as %q", got)
			}
			declare("file", a)
			if s := status(); s.Source != "dns:blue" || s.Endpoint.Weight != 1 {
				t.Errorf("the second declaration applies: %+v", s)
			}
			declare("file") // it takes its word back
			want := "no longer declared by dns:blue; the declaration by dns:green applies"
			if got := declare("dns:blue"); len(got) != 1 || got[0] != want {
				t.Errorf("told %q, want %q", got, want)
			}
			s := status()
			if s == nil || s.Gone || s.Source != "dns:green" || s.Endpoint.Weight != 3 || s.Requests != 1 ||
				s.State != fleet.StateUp || s.Load.Requests != 1 {
				t.Fatalf("after its first source has given it up: %+v", s)
			}
			x.end(first, fleet.OK)
			moved := a // and one that declares another address under the name
			moved.URL = "http://b"
			declare("file", moved)
			declare("dns:green")
			if s := status(); s == nil || s.Source != "file" || s.Endpoint.URL != "http://b" ||
				s.State != fleet.StateUnknown {
				t.Fatalf("after its second source has given it up: %+v", s)
			}
			declare("file")
			if s := status(); s != nil {
				t.Errorf("it is there though none declares it: %+v", s)
			}
		})
	}
}

// TestReportsOnFormerAddresses: what is told of an address that an endpoint's name had before is of the engine there,
// for as long as it has requests, and says nothing of the present one.
func TestReportsOnFormerAddresses(t *testing.T) {
	x := newOne(t, route.Config{}, fleet.Report{})
	old := x.route(fleet.Request{Model: "m"})
	x.declare([]string{"a"}, "2")
	if !x.r.Moved(&old.Endpoint) {
		t.Error("its name has not moved")
	}
	x.probe(fleet.Report{})
	is := func(when string, oldWorks bool, lost ...string) {
		t.Helper()
		s := x.r.Status(x.now)[0]
		if s.State != fleet.StateUp || s.Endpoint.URL != "http://a2" || !slices.Equal(s.Lost, lost) {
			t.Errorf("%s: %s is %v, lost %v; want it up, lost %v", when, s.Endpoint.URL, s.State, s.Lost, lost)
		}
		if x.r.HasRequests("a", "http://a") != oldWorks || x.r.HasRequests("a", "") ||
			x.r.HasRequests("a", "http://a3") {
			t.Errorf("%s: requests at the former address: %v, want %v", when, !oldWorks, oldWorks)
		}
	}
	down := func(url string) {
		lost := route.Probed{Endpoint: "a", URL: url, Report: fleet.Report{Detail: "lost"}}
		changes := x.r.Observe(x.now, lost).Changes
		if len(changes) > 0 {
			t.Errorf("a report on %s is told as %+v", url, changes)
		}
	}
	is("at first", true)
	down("http://a3") // which it never had
	is("an unknown address is down", true)
	down("http://a")
	is("the former address is down", true, "http://a")
	x.end(old, fleet.EngineError)
	is("its last request has ended", false)
	down("http://a")
	is("a late report", false)
	if err := x.r.Idle(); err != nil {
		t.Error(err)
	}
}

// TestFormerStreamsAreNoSign: what streams at an address that an endpoint's name had before is no sign of life of the
// engine that has the name now.
func TestFormerStreamsAreNoSign(t *testing.T) {
	for _, former := range []bool{false, true} {
		x := newOne(t, route.Config{}, fleet.Report{})
		req := fleet.Request{Model: "m", PromptBytes: 4000, Stream: true}
		old := x.route(req)
		x.r.Observe(x.now, route.FirstByte{Lease: old.Lease})
		x.declare([]string{"a"}, "2")
		x.probe(fleet.Report{})
		x.answer(req, 100*time.Millisecond, 50)
		own := x.route(req)
		x.r.Observe(x.now, route.FirstByte{Lease: own.Lease})
		x.now = x.now.Add(time.Second)
		x.route(req)
		x.now = x.now.Add(5 * time.Minute)
		speaks, want := own, fleet.StateUp
		if former {
			speaks, want = old, fleet.StateEjected
		}
		x.r.Observe(x.now, route.StreamsAlive{Signs: []route.Sign{{Lease: speaks.Lease, At: x.now}}})
		if got := x.r.Status(x.now)[0].State; got != want {
			t.Errorf("while an answer goes on, at the former address %v: %v, want %v", former, got, want)
		}
	}
}
