package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/sim/trace"
)

// few is a little traffic, all of whose prompts stay in the caches.
func few() trace.Generator {
	w := pressing()
	w.Conversations, w.Turns, w.Think = 8, 3, 20*time.Millisecond
	return w
}

func (r *rig) kvState(i int) kvstream.Figures { return r.fleet.Status()[i].KV }

func (r *rig) kvCounts(i int) (c kvstream.Counts) {
	for _, x := range r.events.Figures() {
		if x.Endpoint == fmt.Sprint("e", i) {
			c = x.Counts
		}
	}
	return c
}

// aWhile is longer than any machine is busy with something else.
const aWhile = 2 * time.Minute

// settled waits until a condition holds.
func settled(ok func() bool) bool {
	for range aWhile / (2 * time.Millisecond) {
		if ok() {
			return true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

// TestLostEventsAreAskedForAgain: messages that are lost on their way are noticed, had again from the replay socket,
// and nothing is wrong after.
func TestLostEventsAreAskedForAgain(t *testing.T) {
	r, heard := kvRig(t, fleet.KindVLLM, nil)
	for i := range r.engines {
		r.engines[i].KVLose(0, 3)
	}
	r.play(few())
	for i := range r.engines {
		if !settled(func() bool {
			held := r.kvState(i).Blocks
			return held > 0 && held == r.engines[i].Stats().Ranks[0].KeptBlocks
		}) {
			t.Errorf("e%d: %d blocks are known, the engine keeps %d: %+v",
				i, r.kvState(i).Blocks, r.engines[i].Stats().Ranks[0].KeptBlocks, r.kvCounts(i))
		}
		if s := r.kvState(i); s.State != kvstream.Exact || r.kvCounts(i).Missing != 0 {
			t.Errorf("e%d: %+v, %+v; want all messages", i, s, r.kvCounts(i))
		}
	}
	heard.take()
	r.playOneByOne(t, few(), 2)
	if s := heard.take(); s.wrong*100 > s.prompt {
		t.Errorf("off by %d tokens of %d after messages were lost", s.wrong, s.prompt)
	}
}

// TestEventsLostForGood: the engine does not have them any more. It is said, and what is known is what came since.
func TestEventsLostForGood(t *testing.T) {
	r, heard := kvRig(t, fleet.KindVLLM, nil)
	r.play(few())
	for i := range r.engines {
		r.engines[i].KVLose(0, 5)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 400 { // whatever is kept for those who missed it goes at once
			for i := range r.engines {
				r.engines[i].KVForget(0)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r.playSeed(few(), 2)
	<-done
	r.playSeed(few(), 3)
	if !heard.hears("messages are lost") {
		t.Errorf("nothing was said of lost messages: %q", heard.all())
	}
	for i := range r.engines {
		// An engine that keeps nothing of what was missed may look as if it had started anew after that, and then all
		// is known again.
		of := fmt.Sprintf("e%d: KV events: ", i)
		agree := func() bool {
			last := ""
			for _, said := range heard.all() {
				if strings.HasPrefix(said, of) {
					last = said
				}
			}
			return !strings.Contains(last, "messages are lost") || r.kvState(i).State == kvstream.Partial
		}
		if !settled(agree) {
			t.Errorf("e%d: %+v, %+v after %q", i, r.kvState(i), r.kvCounts(i), heard.all())
		}
	}
}

// TestEngineRestart: sequence numbers begin at 0 again. It is said, and nothing is believed to be there.
func TestEngineRestart(t *testing.T) {
	for _, dialect := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
		t.Run(string(dialect), func(t *testing.T) {
			r, heard := kvRig(t, dialect, nil)
			r.play(few())
			if !settled(func() bool { return r.kvState(0).Blocks > 0 && r.kvState(1).Blocks > 0 }) {
				t.Fatal("no blocks are known")
			}
			heard.forget()
			if err := r.engines[0].SetFault(enginetest.Fault{Kind: "restart"}); err != nil {
				t.Fatal(err)
			}
			if !heard.hears("e0: KV events: the engine has started anew") {
				t.Fatalf("a restart was not noticed: %q", heard.all())
			}
			if s := r.kvState(0); s.Blocks > 1 {
				t.Errorf("%d blocks are believed to be in an engine that has just started", s.Blocks)
			}
			if !settled(func() bool { return r.kvState(0).State == kvstream.Exact }) {
				t.Errorf("the events are not followed again: %+v", r.kvState(0))
			}
			heard.take()
			r.playOneByOne(t, few(), 2)
			if s := heard.take(); s.wrong*100 > s.prompt {
				t.Errorf("off by %d tokens of %d after a restart", s.wrong, s.prompt)
			}
		})
	}
}

// TestSilentStream: an engine stops publishing events while it computes. The router says so and predicts from answers.
// When the engine publishes again, the router predicts from its events.
func TestSilentStream(t *testing.T) {
	for _, replay := range []bool{true, false} {
		t.Run(fmt.Sprint("replay ", replay), func(t *testing.T) {
			fresh := kvRigWithoutReplay // what is published is all there is
			if replay {
				fresh = func(t *testing.T) (*rig, *turns) { return kvRig(t, fleet.KindVLLM, nil) }
			}
			rigged, heard := fresh(t)
			rigged.play(few())
			heard.forget()
			for _, e := range rigged.engines {
				e.KVMute(0, true)
			}
			rigged.playSeed(few(), 2)
			if !heard.hears("KV events: ") || !settled(func() bool {
				a, b := rigged.kvState(0).State == kvstream.Silent, rigged.kvState(1).State == kvstream.Silent
				return a && b || !replay && (a || b) // without a replay socket only who computes can be missed
			}) {
				t.Fatalf("silence was not noticed: %+v %+v %q", rigged.kvState(0), rigged.kvState(1), heard.all())
			}
			heard.forget()
			for _, e := range rigged.engines {
				e.KVMute(0, false)
			}
			speaks := func() bool {
				return rigged.kvState(0).State != kvstream.Silent && rigged.kvState(1).State != kvstream.Silent
			}
			for seed := uint64(3); seed < 40 && !speaks(); seed++ { // until both have computed something
				rigged.playSeed(few(), seed)
			}
			if !settled(speaks) {
				t.Errorf("the router does not go by the events again: %+v %+v %q",
					rigged.kvState(0), rigged.kvState(1), heard.all())
			}
		})
	}
}

// kvRigWithoutReplay is a rig whose endpoints are configured with the address of the events only.
func kvRigWithoutReplay(t *testing.T) (*rig, *turns) {
	t.Helper()
	heard := &turns{}
	r := newRigOf(t, 2, heard, func(i int, _ *config.Config) enginetest.Options {
		return enginetest.Options{
			Models: []string{"m"}, Speed: 10, KVEvents: "127.0.0.1:0", AnswerTokens: 40, Seed: uint64(i),
		}
	}, func(c *config.Config, i int, e *enginetest.Server) { c.Endpoints[i].KVEvents, _ = e.KVAddresses(0) })
	return r, heard
}
