package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/size"
)

// restart collects evidence that an engine restarted with an empty cache.
type restart struct {
	doubts    int       // consecutive requests whose predicted cached tokens were all missing
	doubted   []uint64  // prompt of the first of them, which is cached now
	doubtedAt time.Time // when it was placed
	suspect   int       // answers left after a broken one, of which a single miss is enough
}

const (
	leastDoubt = 64 // smallest prediction in tokens whose failure is evidence
	mostDoubts = 2  // consecutive failures that prove a restart
	suspicion  = 3  // answers after a broken one during which missing a quarter is enough
)

func (s *restart) forget() { s.doubts, s.doubted, s.suspect = 0, nil, 0 }

// doubt detects a lost cache: consecutive requests find nothing of what was predicted, or only what the first of them brought back.
// After a broken answer a single one that misses a quarter is enough. Eviction does not explain this, because a shared system prompt
// is never evicted first.
func (s *restart) doubt(l *lease, predicted, found, prompt int) (lost bool) {
	if predicted < leastDoubt || s.doubts > 0 && l.placed.Before(s.doubtedAt) {
		return false
	}
	// Blocks that others may have evicted must be missing nearly whole to count; of recent ones any part counts.
	held := size.Part(prompt, blocks.Bytes(l.sure), l.bytes)
	broken := l.recent && found+leastDoubt+prompt/16 < held
	if !broken && found*8 >= predicted && (s.suspect == 0 || found+leastDoubt >= predicted-predicted/4) {
		s.suspect = max(0, s.suspect-1)
		back := size.Part(prompt, blocks.Bytes(blocks.Common(l.chain, s.doubted)), l.bytes)
		if s.doubts == 0 || found > back+leastDoubt {
			s.doubts, s.doubted = 0, nil
			return false
		}
		if found+leastDoubt > predicted {
			return false // nothing is missing, but nothing proves that the rest is cached
		}
	}
	if s.doubts++; s.doubts >= mostDoubts || s.suspect > 0 {
		return true
	}
	s.doubted, s.doubtedAt = append(s.doubted[:0], l.chain...), l.placed
	return false
}
