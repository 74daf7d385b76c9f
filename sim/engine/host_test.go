package engine

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tiny has 4 blocks of 10 tokens and this many tokens of host memory: it computes 1,000 tokens per second and restores
// 10,000.
func tiny(host int) Config {
	c := Config{
		PrefillTokensPerSecond: 1000, ChunkTokens: 1000, CacheTokens: 40, BlockTokens: 10, Slots: 1,
		StepBase: time.Millisecond, HostCacheTokens: host,
	}
	if host > 0 {
		c.HostTokensPerSecond = 10_000
	}
	return c
}

// TestHostCacheByHand: a prompt evicted by another is restored from host memory, all but its last block.
func TestHostCacheByHand(t *testing.T) {
	for _, tt := range []struct {
		name    string
		host    int
		cached  int
		remains int // of the prompt, before it is computed again
		took    time.Duration
	}{
		{"none", 0, 0, 40, 41 * time.Millisecond},
		{"all of it", 80, 30, 13, (1 + 3 + 10) * time.Millisecond},
		// the last were evicted first, here and from host memory
		{"its first two blocks", 20, 20, 22, (1 + 2 + 20) * time.Millisecond},
	} {
		e, err := New(tiny(tt.host), 1)
		if err != nil {
			t.Fatal(err)
		}
		now := epoch
		for i, seed := range []uint64{1, 2} {
			if err := e.Submit(now, jobOf(e, uint64(i+1), seed, 40, 0)); err != nil {
				t.Fatal(err)
			}
			_, now = drain(e)
		}
		job := jobOf(e, 3, 1, 40, 0)
		if got := e.Cached(job.Chain[:3]); got != tt.cached {
			t.Errorf("%s: %d tokens cached, want %d", tt.name, got, tt.cached)
		}
		if got := e.Remains(job.Chain[:3], 40); got != tt.remains {
			t.Errorf("%s: %d tokens remain, want %d", tt.name, got, tt.remains)
		}
		if err := e.Submit(now, job); err != nil {
			t.Fatal(err)
		}
		out, end := drain(e)
		if got := end.Sub(now); got != tt.took {
			t.Errorf("%s: took %v, want %v", tt.name, got, tt.took)
		}
		if got := out[len(out)-1].CachedTokens; got != tt.cached {
			t.Errorf("%s: %d tokens reported, want %d", tt.name, got, tt.cached)
		}
		if got := e.Stats().HostTokens; got != uint64(tt.cached) {
			t.Errorf("%s: %d tokens from the host, want %d", tt.name, got, tt.cached)
		}
		e.ClearCache()
		if got := e.Cached(job.Chain); got != 0 {
			t.Errorf("%s: %d tokens cached after all is forgotten", tt.name, got)
		}
	}
}

// TestHostCacheForgetsNothing: with enough host memory an engine finds as much of each prompt as an unlimited cache
// would.
func TestHostCacheForgetsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, err := New(tiny(100_000), 1)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[uint64]bool{}
		now := epoch
		for id := range rapid.IntRange(1, 60).Draw(t, "jobs") {
			seed := rapid.Uint64Range(1, 5).Draw(t, "seed")
			prompt := rapid.IntRange(1, 35).Draw(t, "prompt")
			job := jobOf(e, uint64(id+1), seed, prompt, rapid.IntRange(0, 5).Draw(t, "answer"))
			want := 0
			for _, h := range job.Chain[:min((prompt-1)/10, len(job.Chain))] {
				if !seen[h] {
					break
				}
				want += 10
			}
			if err := e.Submit(now, job); err != nil {
				t.Fatal(err)
			}
			out, end := drain(e)
			now = end
			if got := out[len(out)-1].CachedTokens; got != want {
				t.Fatalf("job %d: %d tokens cached, want %d", id, got, want)
			}
			for _, h := range job.Chain[:(prompt+max(job.OutputTokens-1, 0))/10] {
				seen[h] = true
			}
		}
	})
}

// TestHostCacheBounded: host memory contains the blocks evicted last, as many as fit.
func TestHostCacheBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 6).Draw(t, "blocks")
		c := newCache(size)
		var model []uint64 // latest last
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h := rapid.Uint64Range(1, 10).Draw(t, "hash")
			c.keep(h)
			for i, m := range model {
				if m == h {
					model = append(model[:i], model[i+1:]...)
					break
				}
			}
			model = append(model, h)
			model = model[max(0, len(model)-size):]
			for h := uint64(1); h <= 10; h++ {
				want := 0
				for _, m := range model {
					if m == h {
						want = 1
					}
				}
				if got, _ := c.match([]uint64{h}); got != want {
					t.Fatalf("block %d: found %d, want %d of %v", h, got, want, model)
				}
			}
		}
	})
}

func TestHostCacheValidate(t *testing.T) {
	for _, tt := range []struct {
		host int
		rate float64
		want string
	}{
		{0, 0, ""},
		{40, 100, ""},
		{5, 100, "host cache tokens (5) must be 0 or hold at least one block (10 tokens)"},
		{-1, 100, "host cache tokens (-1)"},
		{40, 0, "needs a rate"},
		{0, 100, "without a host cache"},
	} {
		c := tiny(0)
		c.HostCacheTokens, c.HostTokensPerSecond = tt.host, tt.rate
		err := c.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d at %v: got %v, want %q", tt.host, tt.rate, err, tt.want)
		}
	}
}
