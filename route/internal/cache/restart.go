package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/size"
)

// restart collects evidence that an engine restarted with an empty cache.
type restart struct {
	misses      int       // consecutive requests whose predicted cached tokens were all missing
	missedChain []uint64  // prompt of the first of them, which is cached now
	missedAt    time.Time // when it was placed
	alert       int       // answers left after a broken one, of which a single miss that eviction does not explain is enough
}

const (
	leastPredicted  = 64 // smallest prediction in tokens whose failure is evidence
	missesOfRestart = 2  // consecutive failures that prove a restart
	afterBroken     = 3  // answers after a broken one during which missing a quarter is enough
)

func (s *restart) forget() { s.misses, s.missedChain, s.alert = 0, nil, 0 }

// detect detects a lost cache: consecutive requests find nothing of what was predicted, or only what the first of them brought back.
// Eviction does not explain this, because a shared system prompt is never evicted first. After a broken answer a single one that misses
// a quarter is enough, unless the cache is full: then it may have been evicted.
//
// predicted and held, which is what was computed of it before, are as much as the engine must find again, see grain.due.
func (s *restart) detect(l *lease, predicted, held, found, prompt int, full bool) (lost bool) {
	if predicted < leastPredicted || s.misses > 0 && l.placed.Before(s.missedAt) {
		return false
	}
	// Blocks that others may have evicted must be missing nearly whole to count; of recent ones any part counts.
	broken := l.recent && found+leastPredicted+prompt/16 < held
	alert := s.alert > 0 && (broken || !full)
	if !broken && found*8 >= predicted && (!alert || found+leastPredicted >= predicted-predicted/4) {
		s.alert = max(0, s.alert-1)
		back := size.Part(prompt, blocks.Bytes(blocks.Common(l.chain, s.missedChain)), l.bytes)
		if s.misses == 0 || found > back+leastPredicted {
			s.misses, s.missedChain = 0, nil
			return false
		}
		if found+leastPredicted > predicted {
			return false // nothing is missing, but nothing proves that the rest is cached
		}
	}
	if s.misses++; s.misses >= missesOfRestart || alert {
		return true
	}
	s.missedChain, s.missedAt = append(s.missedChain[:0], l.chain...), l.placed
	return false
}
