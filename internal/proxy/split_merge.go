package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/rewrite"
)

// merger is the protocol of an answer that lacks what the prefiller's reply has, nil when it lacks nothing.
func (a *attempt) merger() handover.Merger {
	if !a.AsLeg() || a.d.Leg != fleet.LegDecode {
		return nil
	}
	m, ok := a.c.split.conn.(handover.Merger)
	if !ok || !m.Merges(&a.c.split.x) {
		return nil
	}
	return m
}

// stitch puts the token that the prefiller made in front of the decoder's answer, where the decoder goes on after it.
func (a *attempt) stitch(res *http.Response) error {
	if a.Message == nil || a.Message.First == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	return rewrite.Stitch(res, a.Message.First)
}

// merge completes the decoder's answer by the prefiller's reply, for requests where the decoder cannot know it.
func (a *attempt) merge(res *http.Response) error {
	m := a.merger()
	if m == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	s := a.c.split
	return rewrite.Merge(res, func(answer []byte, n int) []byte { return m.Merge(&s.x, s.reply(a), answer, n) }, a.watch.Err)
}

// reply waits for the prefiller's reply, which the decoder's first token has behind it or beside it.
func (s *split) reply(a *attempt) []byte {
	if !s.replied(a, nil) {
		return nil
	}
	return s.handed.Reply
}
