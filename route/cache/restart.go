package cache

import (
	"time"

	"github.com/warmpath/warmpath/route/blocks"
	"github.com/warmpath/warmpath/route/size"
)

// restart is the evidence that an engine has lost its cache.
type restart struct {
	doubts    int       // requests in a row whose cached tokens were all missing
	doubted   []uint64  // the prompt of the first of them: it is there now
	doubtedAt time.Time // when that one was placed
	suspect   int       // answers that may still show that the engine restarted when it broke one off
}

const (
	leastDoubt = 64 // tokens below which a prediction that fails is no evidence of a restart
	mostDoubts = 2  // such requests in a row mean that the cache is lost
	suspicion  = 3  // answers after one that broke off of which one that misses a quarter is enough
)

func (s *restart) forget() { s.doubts, s.doubted, s.suspect = 0, nil, 0 }

// doubt notices that an engine has lost its cache: requests in a row find nothing of what should be there, or only what the first of
// them has brought back. After an answer has broken off one that misses a good part is enough. What all share, the system prompt, is
// never the first to be evicted.
func (s *restart) doubt(l *lease, predicted, found, prompt int) (lost bool) {
	if predicted < leastDoubt || s.doubts > 0 && l.placed.Before(s.doubtedAt) {
		return false
	}
	// What can have been evicted by others must be missing nearly whole to count. Of what cannot, any part counts.
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
			return false // nothing is missing, but nothing shows that the rest is there
		}
	}
	if s.doubts++; s.doubts >= mostDoubts || s.suspect > 0 {
		return true
	}
	s.doubted, s.doubtedAt = append(s.doubted[:0], l.chain...), l.placed
	return false
}
