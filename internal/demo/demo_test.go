package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSplitCounts(t *testing.T) {
	got := splitCounts([]byte("# HELP x\nwarmpath_splits_total{pool=\"a\",why=\"sooner\"} 3\n" +
		"warmpath_splits_total{pool=\"b\",why=\"sooner\"} 4\nwarmpath_splits_total{pool=\"a\",why=\"never\"} 0\n" +
		"warmpath_requests_total{} 9\n"))
	if len(got) != 1 || got["sooner"] != 7 {
		t.Errorf("%v", got)
	}
}

// TestRequestsAreDealtInTurn: each of several routers gets as many requests.
func TestRequestsAreDealtInTurn(t *testing.T) {
	var addresses []string
	var got [3]int
	for i := range got {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got[i]++ }))
		defer s.Close()
		addresses = append(addresses, s.URL)
	}
	c, err := newInTurn(addresses, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		res, err := c.Get(addresses[0] + "/x")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if got != [3]int{2, 2, 2} {
		t.Errorf("%v", got)
	}
}

// TestRouterFails: what was started for one side is closed when the other's router cannot start, and no word is said.
func TestRouterFails(t *testing.T) {
	stopped, fleets := 0, []Fleet(nil)
	var talk bytes.Buffer
	err := Run(t.Context(), Options{
		Policy: "session", Engines: 2, Rate: 1, Out: &talk, Talk: &talk,
		Start: func(_ context.Context, f Fleet) (*Router, error) {
			if fleets = append(fleets, f); len(fleets) == 2 {
				return nil, errors.New("no port")
			}
			return &Router{Stop: func(context.Context) error { stopped++; return nil }}, nil
		},
	})
	if err == nil || err.Error() != "no port" || stopped != 1 || talk.Len() > 0 {
		t.Errorf("%v, %d stopped, said %q", err, stopped, talk.String())
	}
	if f := fleets[0]; f.Policy != "session" || fleets[1].Policy != "round_robin" || len(f.Endpoints) != 2 ||
		f.Endpoints[1].Name != "engine-2" || !strings.HasPrefix(f.Endpoints[1].URL, "http://127.0.0.1:") {
		t.Errorf("%+v", fleets)
	}
}

// TestAgentsFleets: the two sides of the agents' demo differ in admission alone, and their sessions need more than the
// caches hold.
func TestAgentsFleets(t *testing.T) {
	a := agents{o: &Options{Policy: "session", Engines: 2}}
	f := a.fleets()
	if len(f) != 2 || !f[0].Admission || f[1].Admission || f[0].Policy != f[1].Policy || f[0].Engine != f[1].Engine {
		t.Fatalf("%+v", f)
	}
	w := a.workload()
	if need := a.clients() * int(float64(w.System)+w.User*w.First+w.Turns/2*(w.User+w.Answer)); need < 11*agentCache*
		a.o.Engines/10 {
		t.Errorf("the sessions need %d tokens of %d", need, agentCache*a.o.Engines)
	}
}

// TestSessionsFitTheEngines: every session of the demonstration fits into an engine's context. With a context of 32,768
// tokens one turn of a thousand failed.
func TestSessionsFitTheEngines(t *testing.T) {
	o := Options{Policy: "session", Engines: 4, Rate: 4}
	a := &agents{o: &o}
	w := a.workload()
	w.Conversations = 100
	longest := 0
	for seed := range uint64(50) {
		for _, c := range w.Draw(seed) {
			tokens := c.SystemTokens
			for _, x := range c.Turns {
				tokens += x.User + x.Answer
			}
			longest = max(longest, tokens)
		}
	}
	var engines struct {
		Data []struct {
			Context int `json:"max_model_len"`
		}
	}
	o.Start = func(_ context.Context, f Fleet) (*Router, error) {
		res, err := http.Get(f.Endpoints[0].URL + "/v1/models")
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		return &Router{Stop: func(context.Context) error { return nil }}, json.NewDecoder(res.Body).Decode(&engines)
	}
	f := Fleet{Endpoints: endpoints("engine", "", 1), Engine: agentEngine()}
	s, err := newSide(t.Context(), &o, "a", f, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	need := longest + longest/4 // a quarter for what stands around messages
	if len(engines.Data) != 1 || engines.Data[0].Context < need {
		t.Errorf("the longest of 5,000 sessions needs %d tokens, engines have %v", need, engines.Data)
	}
}
