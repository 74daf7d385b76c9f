package engine

import (
	"testing"
	"time"
)

// TestReceive: received blocks are not recomputed, and those without room are left out from the end.
func TestReceive(t *testing.T) {
	cfg := DefaultConfig()
	cfg.CacheTokens, cfg.BlockTokens = 160, 16
	e, err := New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	chain := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	if n := e.Receive(chain[:4]); n != 64 || e.Cached(chain) != 64 {
		t.Fatalf("received %d tokens, holds %d, want 64", n, e.Cached(chain))
	}
	now := time.Unix(0, 0)
	if err := e.Submit(now, Job{ID: 1, Chain: chain[:5], PromptTokens: 70, OutputTokens: 1}); err != nil {
		t.Fatal(err)
	}
	e.Advance(now.Add(time.Second))
	if s := e.Stats(); s.PrefillTokens != 6 || s.CachedTokens != 64 {
		t.Errorf("computed %d prompt tokens, took %d from the cache; want 6 and 64", s.PrefillTokens, s.CachedTokens)
	}
	if n := e.Receive(chain); n != 160 || e.Cached(chain) != 160 {
		t.Errorf("received %d tokens into a cache of 160, holds %d", n, e.Cached(chain))
	}
}
