package enginetest

import (
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// slots are llama.cpp's: each computes one request at a time and reuses only its own earlier work. A request without a
// slot gets the idle one whose last prompt shares most with it, if that is at least a tenth of the shorter one
// (--slot-prompt-similarity 0.10), else the one idle for longest. All slots share the memory of the one simulated
// cache, where a real server has a fixed part for each; a slot's older prompts may therefore still be warm, as in the
// server's own prompt cache in host memory.
type slots struct {
	mu    sync.Mutex
	clock uint64
	all   []slot
}

type slot struct {
	open  int      // requests running or waiting in it
	used  uint64   // start of its latest request, counted in requests
	chain []uint64 // of its last prompt and answer, without the root
	task  uint64
}

const slotSimilarity = 0.10

// chooseSlot books a request into a slot (the requested one first) and returns the root of the slot's hash chain.
func (s *Server) chooseSlot(a *api.Ask, root uint64, full []byte) uint64 {
	plain := prompts.Chain(root, full, s.opts.Engine.BlockTokens)
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	if s.slots.all == nil {
		s.slots.all = make([]slot, s.opts.Engine.Slots)
	}
	if a.Slot < 0 {
		a.Slot = s.slots.best(plain)
	}
	s.slots.clock++
	sl := &s.slots.all[a.Slot]
	sl.open++
	sl.used, sl.task, sl.chain = s.slots.clock, s.slots.clock, plain
	return xxh3.HashSeed([]byte{byte(a.Slot), byte(a.Slot >> 8), byte(a.Slot >> 16)}, root)
}

// best is the slot for a request without one; mu is held. If all are busy it is the one with the shortest queue.
func (sl *slots) best(chain []uint64) int {
	idlest, similar, share := -1, -1, slotSimilarity
	shortest := 0
	for i := range sl.all {
		one := &sl.all[i]
		if one.open < sl.all[shortest].open {
			shortest = i
		}
		if one.open > 0 {
			continue
		}
		if idlest < 0 || one.used < sl.all[idlest].used {
			idlest = i
		}
		n := 0
		for n < len(chain) && n < len(one.chain) && chain[n] == one.chain[n] {
			n++
		}
		if got := ratio(float64(n), float64(min(len(chain), len(one.chain)))); got > share {
			similar, share = i, got
		}
	}
	switch {
	case similar >= 0:
		return similar
	case idlest >= 0:
		return idlest
	default:
		return shortest
	}
}

// endSlot removes a request from its slot.
func (s *Server) endSlot(i int) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.all[i].open--
}

// listSlots is the content of /slots, and the number of idle slots.
func (s *Server) listSlots() (out []any, free int) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	for i := range s.opts.Engine.Slots {
		var one slot
		if s.slots.all != nil {
			one = s.slots.all[i]
		}
		if one.open == 0 {
			free++
		}
		out = append(out, map[string]any{
			"id": i, "id_task": one.task, "n_ctx": s.opts.ContextTokens, "is_processing": one.open > 0,
			"speculative": false, "n_prompt_tokens": len(one.chain) * s.opts.Engine.BlockTokens,
		})
	}
	return out, free
}
