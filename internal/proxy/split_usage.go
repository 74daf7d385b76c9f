package proxy

import (
	"time"

	"github.com/warmpath/warmpath/internal/proxy/rewrite"
)

// rewrites is how the answer's usage is to be changed, nil for not at all. A prefiller in flight is asked for its figure when the answer
// comes to that place.
func (s *split) rewrites(a *attempt) *rewrite.Cached {
	if s == nil || !a.AsLeg() {
		return nil
	}
	if s.underway() {
		return rewrite.NewCached(nil, func() []byte { return s.foundBeside(a) })
	}
	if found := s.found(); found != nil {
		return rewrite.NewCached(found, nil)
	}
	return nil
}

// found is the prefiller's count of cached tokens, nil where it is not known or the decoder says it by itself.
func (s *split) found() []byte {
	if s.handed.Honest || !s.ready || !s.handed.Known || !s.handed.Usage.CachedKnown {
		return nil
	}
	return rewrite.AppendCount(nil, s.handed.Usage.CachedTokens)
}

// foundBeside is found of a prefill leg that may be in flight. The decoder could not have come to its usage before the prompt was computed, so
// the prefiller's reply is all but here.
func (s *split) foundBeside(a *attempt) []byte {
	if !s.replied(a, time.After(besideWait)) {
		return nil
	}
	return s.found()
}

// underway reports whether the prefill leg is still in flight beside the decode leg, so that nothing of it may be looked at.
func (s *split) underway() bool {
	if s.beside == nil {
		return false
	}
	select {
	case <-s.beside.done:
		return false
	default:
		return true
	}
}
