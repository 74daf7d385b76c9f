package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/sim/chance"
)

var epoch = time.Unix(1_700_000_000, 0)

// chainOf is a chain of n hashes; two chains share their first blocks as far as their seeds agree.
func chainOf(seed uint64, n int) []uint64 {
	out := make([]uint64, n)
	h := seed
	for i := range out {
		h = chance.Mix(h)
		out[i] = h
	}
	return out
}

// jobOf is a job with blocks for all its tokens.
func jobOf(e *Engine, id, seed uint64, prompt, output int) Job {
	return Job{
		ID: id, Chain: chainOf(seed, (prompt+output)/e.cfg.BlockTokens), PromptTokens: prompt, OutputTokens: output,
	}
}

func newTestEngine(t testing.TB, change func(*Config)) *Engine {
	t.Helper()
	cfg := DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// drain runs the engine to its end and returns all emissions and the last time.
func drain(e *Engine) (out []Emission, now time.Time) {
	for {
		at, ok := e.Next()
		if !ok {
			return out, now
		}
		now = at
		out = append(out, e.Advance(at)...)
	}
}

func TestTimesOfOneRequest(t *testing.T) {
	e := newTestEngine(t, nil)
	if err := e.Submit(epoch, jobOf(e, 1, 7, 4500, 3)); err != nil {
		t.Fatal(err)
	}
	out, end := drain(e)
	// Chunks of 2048, 2048 and 404 tokens, then two steps of decode: five steps and 0.5 s of prefill.
	want := 5*(4*time.Millisecond+100*time.Microsecond) + 500*time.Millisecond
	if got := end.Sub(epoch).Round(time.Microsecond); got != want {
		t.Errorf("took %v, want %v", got, want)
	}
	var kinds []Kind
	for _, em := range out {
		kinds = append(kinds, em.Kind)
	}
	if wantKinds := []Kind{Prefilled, Token, Token, Token, Done}; !reflect.DeepEqual(kinds, wantKinds) {
		t.Errorf("emissions %v, want %v", kinds, wantKinds)
	}
}

func TestARepeatComputesAtLeastOneToken(t *testing.T) {
	for _, tt := range []struct{ prompt, cached int }{{15, 0}, {16, 0}, {17, 16}, {32, 16}, {33, 32}, {1000, 992}} {
		e := newTestEngine(t, nil)
		for id := range uint64(2) {
			if err := e.Submit(epoch, jobOf(e, id, 7, tt.prompt, 1)); err != nil {
				t.Fatal(err)
			}
			drain(e)
		}
		if got := int(e.Stats().CachedTokens); got != tt.cached {
			t.Errorf("prompt of %d: %d cached tokens, want %d", tt.prompt, got, tt.cached)
		}
	}
}

func TestPrefillIsChunkedBetweenDecodes(t *testing.T) {
	e := newTestEngine(t, nil)
	_ = e.Submit(epoch, jobOf(e, 1, 1, 16, 50))
	at, _ := e.Next()
	e.Advance(at) // the first is decoding now
	_ = e.Submit(at, jobOf(e, 2, 2, 8192, 1))
	tokens := 0
	for prefilled := false; !prefilled; {
		at, _ := e.Next()
		for _, em := range e.Advance(at) {
			prefilled = prefilled || em.ID == 2
			if em.ID == 1 && em.Kind == Token {
				tokens++
			}
		}
	}
	// One step is under way when the prompt arrives; four chunks of 2048 follow, each with a token of the first.
	if tokens != 1+4 {
		t.Errorf("%d tokens while 8192 prompt tokens were computed, want 5", tokens)
	}
}

func TestEvictionTakesTheOldestLeafFirst(t *testing.T) {
	e := newTestEngine(t, func(c *Config) { c.CacheTokens = 16 * 10 })
	run := func(id, seed uint64, blocks int) {
		if err := e.Submit(epoch, Job{ID: id, Chain: chainOf(seed, blocks), PromptTokens: blocks * 16}); err != nil {
			t.Fatal(err)
		}
		drain(e)
	}
	run(1, 1, 4)
	run(2, 2, 4)
	run(3, 1, 4) // refreshes the first
	run(4, 3, 5) // needs five blocks: two are free, three come from the tail of the second
	for _, tt := range []struct {
		seed uint64
		want int
	}{{1, 4}, {2, 1}, {3, 5}} {
		if got := e.Cached(chainOf(tt.seed, 5)) / 16; got != tt.want {
			t.Errorf("chain %d has %d blocks, want %d", tt.seed, got, tt.want)
		}
	}
	if got := e.Stats().Evictions; got != 3 {
		t.Errorf("%d evictions, want 3", got)
	}
}

func TestPreemptionOfTheYoungest(t *testing.T) {
	e := newTestEngine(t, func(c *Config) { c.CacheTokens = 16 * 12 })
	_ = e.Submit(epoch, jobOf(e, 1, 1, 64, 64))
	_ = e.Submit(epoch, jobOf(e, 2, 2, 64, 64))
	out, _ := drain(e)
	st := e.Stats()
	if st.Preemptions == 0 {
		t.Fatal("nobody was preempted though both need 15 of 12 blocks")
	}
	tokens := map[uint64]int{}
	done := []uint64{}
	for _, em := range out {
		switch em.Kind {
		case Token:
			if em.Index != tokens[em.ID] {
				t.Errorf("job %d: token %d comes after %d", em.ID, em.Index, tokens[em.ID])
			}
			tokens[em.ID]++
		case Done:
			done = append(done, em.ID)
		}
	}
	if tokens[1] != 64 || tokens[2] != 64 || !reflect.DeepEqual(done, []uint64{1, 2}) {
		t.Errorf("tokens %v, done %v", tokens, done)
	}
	if st.PrefillTokens <= 128 {
		t.Errorf("%d prompt tokens computed: the preempted job was not computed again", st.PrefillTokens)
	}
}

func TestLanesRunOneAtATime(t *testing.T) {
	e := newTestEngine(t, nil)
	for id, lane := range []uint32{0, 5, 5, 6} {
		job := jobOf(e, uint64(id), uint64(id), 100, 10)
		job.Lane = lane
		_ = e.Submit(epoch, job)
	}
	at, _ := e.Next()
	e.Advance(at)
	if st := e.Stats(); st.Running != 3 || st.Waiting != 1 {
		t.Errorf("running %d, waiting %d, want 3 and 1", st.Running, st.Waiting)
	}
	drain(e)
	if got := e.Stats().Finished; got != 4 {
		t.Errorf("finished %d of 4", got)
	}
}

func TestSubmitRefuses(t *testing.T) {
	e := newTestEngine(t, func(c *Config) { c.QueueLimit = 1; c.Slots = 1 })
	_ = e.Submit(epoch, jobOf(e, 1, 1, 100, 10))
	_ = e.Submit(epoch, jobOf(e, 2, 2, 100, 10))
	for name, tt := range map[string]struct {
		job  Job
		want error
	}{
		"twice":      {jobOf(e, 1, 1, 100, 10), ErrBadJob},
		"no prompt":  {Job{ID: 3}, ErrBadJob},
		"too long":   {Job{ID: 3, PromptTokens: 120_000, OutputTokens: 1}, ErrTooLong},
		"queue full": {jobOf(e, 3, 1, 100, 10), ErrQueueFull},
	} {
		if err := e.Submit(epoch, tt.job); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestClearIsARestart(t *testing.T) {
	e := newTestEngine(t, nil)
	_ = e.Submit(epoch, jobOf(e, 1, 1, 1000, 10))
	drain(e)
	_ = e.Submit(epoch, jobOf(e, 2, 2, 1000, 10))
	e.Clear()
	if _, ok := e.Next(); ok || e.Cached(chainOf(1, 10)) != 0 {
		t.Error("something outlived the restart")
	}
	if got, want := e.Stats(), (Stats{TotalBlocks: 7500}); got != want {
		t.Errorf("stats %+v", got)
	}
	_ = e.Submit(epoch, jobOf(e, 2, 2, 1000, 10))
	if out, _ := drain(e); len(out) != 12 {
		t.Errorf("%d emissions after the restart, want 12", len(out))
	}
}

func TestClearCacheKeepsWhatRuns(t *testing.T) {
	e := newTestEngine(t, nil)
	_ = e.Submit(epoch, jobOf(e, 1, 1, 1000, 10))
	drain(e)
	_ = e.Submit(epoch, jobOf(e, 2, 2, 1000, 10))
	if e.ClearCache() {
		t.Error("everything was cleared under a running job")
	}
	if e.Cached(chainOf(1, 10)) != 0 {
		t.Error("kept blocks outlived the reset")
	}
	drain(e)
	if got := e.Cached(chainOf(2, 62)); got != 62*16 {
		t.Errorf("%d tokens cached of the job that ran", got)
	}
	if !e.ClearCache() {
		t.Error("an idle engine did not clear everything")
	}
}

func TestConfigFaultsAreAllNamed(t *testing.T) {
	err := Config{Jitter: 2, QueueLimit: -1}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"prefill", "chunk", "block tokens", "slots", "queue", "jitter", "step"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

// For any submitted and cancelled jobs: every job that is not cancelled is answered completely, time never goes back,
// no block is lost, and equal calls on a second engine give equal emissions.
func TestEngineProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			PrefillTokensPerSecond: 9000, ChunkTokens: rapid.IntRange(1, 200).Draw(t, "chunk"),
			BlockTokens: rapid.IntRange(1, 16).Draw(t, "block"), Slots: rapid.IntRange(1, 6).Draw(t, "slots"),
			StepBase: 4 * time.Millisecond, StepPerSeq: time.Millisecond, Jitter: 0.2,
		}
		cfg.CacheTokens = cfg.BlockTokens * rapid.IntRange(4, 60).Draw(t, "blocks")
		engines := [2]*Engine{}
		for i := range engines {
			e, err := New(cfg, 5)
			if err != nil {
				t.Fatal(err)
			}
			engines[i] = e
		}
		e := engines[0]
		want, got := map[uint64]int{}, map[uint64]int{}
		now := epoch
		advance := func(at time.Time) {
			a := append([]Emission(nil), engines[0].Advance(at)...)
			if b := engines[1].Advance(at); len(a)+len(b) > 0 && !reflect.DeepEqual(a, b) {
				t.Fatalf("two engines differ: %v, %v", a, b)
			}
			for _, em := range a {
				if em.Kind == Token {
					got[em.ID]++
				}
				if em.Kind == Done && em.Index != want[em.ID] {
					t.Fatalf("job %d done after %d tokens, want %d", em.ID, em.Index, want[em.ID])
				}
			}
			checkBlocks(t, e)
		}
		for id := range uint64(rapid.IntRange(1, 30).Draw(t, "jobs")) {
			prompt, output := rapid.IntRange(1, cfg.CacheTokens).Draw(t, "prompt"),
				rapid.IntRange(0, 40).Draw(t, "output")
			job := jobOf(e, id, rapid.Uint64Range(1, 3).Draw(t, "seed"), prompt, output)
			job.Lane = rapid.Uint32Range(0, 2).Draw(t, "lane")
			errA, errB := engines[0].Submit(now, job), engines[1].Submit(now, job)
			if (errA == nil) != (errB == nil) || (errA != nil) != (prompt+output > cfg.CacheTokens) {
				t.Fatalf("submit: %v, %v", errA, errB)
			}
			if errA == nil {
				want[id] = output
			}
			if victim := rapid.Uint64Range(0, 60).Draw(t, "victim"); engines[0].Cancel(victim) {
				engines[1].Cancel(victim)
				delete(want, victim)
				delete(got, victim)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			advance(now)
		}
		for {
			at, ok := e.Next()
			if !ok {
				break
			}
			advance(at)
		}
		for id, n := range want {
			if got[id] != n {
				t.Fatalf("job %d has %d tokens of %d", id, got[id], n)
			}
		}
		if st := e.Stats(); st.HeldBlocks != 0 || st.Running+st.Waiting != 0 {
			t.Fatalf("at the end: %+v", st)
		}
	})
}

// checkBlocks: every block is free, kept or held, and held as often as jobs hold it.
func checkBlocks(t *rapid.T, e *Engine) {
	refs := make(map[int32]int32)
	for _, s := range e.running {
		for _, b := range s.blocks {
			refs[b]++
		}
	}
	c := e.cache
	for b := 1; b < len(c.blocks); b++ {
		if c.blocks[b].refs != refs[int32(b)] {
			t.Fatalf("block %d has %d references, want %d", b, c.blocks[b].refs, refs[int32(b)])
		}
	}
	if n := len(c.free) + c.kept + len(refs); n != len(c.blocks)-1 {
		t.Fatalf("%d free + %d kept + %d held of %d blocks", len(c.free), c.kept, len(refs), len(c.blocks)-1)
	}
}

// TestSlotOrder: a later prompt in a lower slot overtakes one being computed in a higher slot.
func TestSlotOrder(t *testing.T) {
	for _, bySlot := range []bool{false, true} {
		e := newTestEngine(t, func(c *Config) { c.SlotOrder, c.ChunkTokens, c.Slots = bySlot, 64, 2 })
		var order []uint64
		submit := func(now time.Time, id uint64, prompt int) {
			if err := e.Submit(now, jobOf(e, id, id, prompt, 1)); err != nil {
				t.Fatal(err)
			}
		}
		submit(epoch, 1, 128) // slot 0
		submit(epoch, 2, 640) // slot 1
		for at, ok := e.Next(); ok; at, ok = e.Next() {
			for _, em := range e.Advance(at) {
				if em.Kind == Done {
					if order = append(order, em.ID); em.ID == 1 {
						submit(at, 3, 128) // slot 0 again
					}
				}
			}
		}
		want := []uint64{1, 2, 3}
		if bySlot {
			want = []uint64{1, 3, 2}
		}
		if !slices.Equal(order, want) {
			t.Errorf("by slot %t: ended in order %v, want %v", bySlot, order, want)
		}
	}
}

// TestPace: steps that start after SetPace take that many times as long.
func TestPace(t *testing.T) {
	e := newTestEngine(t, nil)
	took := func(id uint64) time.Duration {
		if err := e.Submit(epoch, jobOf(e, id, id, 160, 1)); err != nil {
			t.Fatal(err)
		}
		_, end := drain(e)
		return end.Sub(epoch)
	}
	once := took(1)
	e.SetPace(3)
	if got := took(2); got != 3*once {
		t.Errorf("three times as slow it takes %v, want %v", got, 3*once)
	}
	e.SetPace(1)
	if got := took(3); got != once {
		t.Errorf("recovered it takes %v, want %v", got, once)
	}
}
