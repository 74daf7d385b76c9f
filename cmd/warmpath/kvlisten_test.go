package main

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/sim/engine"
)

// dialInRig is a router at whose port two engines publish, of which only the first is said to.
func dialInRig(t *testing.T, dialect fleet.Kind) (*rig, *turns) {
	t.Helper()
	address := "tcp://" + freeport.Address() // the router's; engines dial again and again until it is there
	heard := &turns{}
	r := newRigOf(t, 2, heard, func(i int, c *config.Config) enginetest.Options {
		c.KVEvents.Listen = address
		o := enginetest.Options{
			Dialect: dialect, Models: []string{"m"}, Speed: 10, Engine: engine.DefaultConfig(), AnswerTokens: 40,
			Seed: uint64(i), KVConnect: address, KVTopic: fmt.Sprintf("kv@e%d@m", i),
		}
		o.Engine.CacheTokens = 8_000
		return o
	}, func(c *config.Config, i int, e *enginetest.Server) {
		c.Pinning = true
		if c.Endpoints[i].KVEvents = "listen"; i == 1 {
			c.Endpoints[i].KVEvents = ""
		}
	})
	if !heard.hears("e0: KV events: the engine has not dialled in yet") {
		t.Fatalf("nothing is said of an engine that has not dialled in: %q", heard.all())
	}
	for i, e := range r.engines {
		if !settled(func() bool { return e.KVSubscribed(0) }) {
			t.Fatalf("e%d has not dialled in", i)
		}
	}
	return r, heard
}

// TestEnginesDialIn: what engines that dial in tell under eviction predicts what they find; lost messages cannot be had
// again and leave the state partial, a restart makes it exact, and an engine that is gone is silent.
func TestEnginesDialIn(t *testing.T) {
	t.Parallel()
	for _, dialect := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			r, heard := dialInRig(t, dialect)
			s := r.playOneByOne(t, pressing(), 1)
			got := heard.take()
			if s.Failed != 0 || got.turns < 100 {
				t.Fatalf("%d of %d turns failed: %s", s.Failed, got.turns, s.LastError)
			}
			if share := float64(got.wrong) / float64(got.prompt); share > 0.01 {
				t.Errorf("off by %.2f %% of the prompts: %q", 100*share, heard.all())
			}
			for i := range r.engines {
				if st := r.kvState(i); st.State != kvstream.Exact {
					t.Errorf("e%d: %+v, %+v", i, st, r.kvCounts(i))
				}
				r.engines[i].KVLose(0, 1)
			}
			if r.kvCounts(0).Removed+r.kvCounts(1).Removed == 0 {
				t.Error("nothing was evicted: the test shows nothing")
			}
			gapped := func() bool {
				return r.kvState(0).State == kvstream.Partial && r.kvState(1).State == kvstream.Partial
			}
			for n := 0; n < 40 && !gapped(); n++ { // until both have published more than they lost
				for _, e := range []string{"e0", "e1"} {
					r.ask(t, "", fmt.Sprint("gap", n, e), 20, "X-Warmpath-Pin", e)
				}
			}
			if !settled(gapped) || r.kvCounts(0).Missing == 0 || r.kvCounts(1).Missing == 0 {
				t.Errorf("after a gap: %+v %+v, %+v %+v", r.kvState(0), r.kvState(1), r.kvCounts(0), r.kvCounts(1))
			}
			_ = r.engines[0].Close()
			if !heard.hears("e0: KV events: the engine's connection has ended") {
				t.Errorf("e0 is not silent: %q", heard.all())
			}
			if st := r.kvState(1).State; st != kvstream.Partial {
				t.Errorf("e1 is %s", st)
			}
			if err := r.engines[1].SetFault(enginetest.Fault{Kind: "restart"}); err != nil {
				t.Fatal(err)
			}
			if !settled(func() bool { return r.engines[1].KVSubscribed(0) }) {
				t.Fatal("e1 has not dialled in again")
			}
			heard.forget()
			r.play(few())
			if !heard.hears("e1: KV events: the engine has started anew") ||
				!settled(func() bool { return r.kvState(1).State == kvstream.Exact }) {
				t.Errorf("e1 after a restart: %+v, %q", r.kvState(1), heard.all())
			}
			if p := r.events.Publishers(); p.Tied != 2 || p.Untied+int(p.Dropped) != 0 {
				t.Errorf("publishers: %+v", p)
			}
		})
	}
}

// TestListenTaken: a port that is taken ends the start with its name.
func TestListenTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.KVEvents.Listen = "127.0.0.1:0", "127.0.0.1:0", "tcp://"+l.Addr().String()
	if _, err := start(t.Context(), &cfg, thisBuild(), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "kv_events.listen") {
		t.Errorf("got %v", err)
	}
}
