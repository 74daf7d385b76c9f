package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/rewrite"
	"github.com/warmpath/warmpath/internal/proxy/send"
)

// merger is the protocol that completes the decoder's answer from the prefiller's reply; nil if the answer is complete.
func (a *attempt) merger() handover.Merger {
	if a.Message == nil || a.d.Leg != fleet.LegDecode {
		return nil
	}
	m, ok := a.c.split.conn.(handover.Merger)
	if !ok || !m.Merges(&a.c.split.x) {
		return nil
	}
	return m
}

// stitch puts the prefiller's token before the decoder's answer, if the decoder continues after it.
func (a *attempt) stitch(res *http.Response) error {
	if a.Message == nil || a.Message.First == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	return rewrite.Stitch(res, a.Message.First, a.c.holdReply)
}

// merge completes the decoder's answer from the prefiller's reply, for requests where the decoder lacks a part of it.
func (a *attempt) merge(res *http.Response) error {
	m := a.merger()
	if m == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	s := a.c.split
	return rewrite.Merge(
		res,
		func(answer []byte, n int) []byte { return m.Merge(&s.x, s.reply(a), answer, n) },
		a.watch.Err,
		a.c.holdReply,
	)
}

// reply waits for the prefiller's reply, which comes before or with the decoder's first token.
func (s *split) reply(a *attempt) []byte {
	if !s.replied(a, nil) {
		return nil
	}
	return s.handed.Reply
}

// rewrites is how to change the answer's usage; nil for not at all. A running prefill leg is asked for its figure when
// the answer reaches that place.
func (s *split) rewrites(a *attempt) *rewrite.Cached {
	if s == nil || a.Message == nil {
		return nil
	}
	if !s.prefillOver() {
		return rewrite.NewCached(nil, func() []byte { return s.awaitCached(a) })
	}
	if cached := s.cachedCount(); cached != nil {
		return rewrite.NewCached(cached, nil)
	}
	return nil
}

// cachedCount is the prefiller's count of cached tokens; nil if it is unknown or the decoder reports it.
func (s *split) cachedCount() []byte {
	if s.handed.Honest || !s.ready || !s.handed.Known || !s.handed.Usage.CachedKnown {
		return nil
	}
	return rewrite.AppendCount(nil, s.handed.Usage.CachedTokens)
}

// awaitCached is cachedCount for a prefill leg that may be running. The decoder reports usage only after the prompt was
// computed, so the prefiller's reply is due.
func (s *split) awaitCached(a *attempt) []byte {
	if !s.replied(a, time.After(replyWait)) {
		return nil
	}
	return s.cachedCount()
}

// answered sends the prefiller's answer to the client when its first token was also the last. No decoder is asked; its
// reservation is released.
func (s *split) answered() {
	c := s.c
	body, media := s.handed.Answer, "application/json"
	if c.Prompt.Stream {
		if events, ok := handover.AsStream(c.API.String(), body, c.Prompt.IncludeUsage); ok {
			body, media = events, "text/event-stream; charset=utf-8"
		}
	}
	c.comments.end()
	switch opened := c.Opened.Load(); {
	case opened && send.Media(media) != c.media():
		c.refuse(fault.At(fault.ErrNoStream, s.plan.Prefill.Endpoint.Name))
		s.release(fleet.Abandoned)
		return
	case !opened:
		c.setHeader(http.Header{"Content-Type": {media}, "Content-Length": {strconv.Itoa(len(body))}}, &s.plan.Decision)
		c.p.origins.tell(readerOf(c.R, c.p.cfg.Origins), c.client.Header())
		c.client.WriteHeader(http.StatusOK)
	}
	c.served.Status, c.served.Outcome, c.served.Usage = http.StatusOK, fleet.OK, s.handed.Usage
	c.sent.Store(true)
	c.served.FirstByte = time.Now()
	if _, err := c.client.Send(body, false); err != nil {
		c.served.Outcome = fleet.ClientGone
	}
	c.served.LastByte = time.Now()
	c.served.BytesOut += int64(len(body)) // beside comments
	c.served.Chunks = 1
	s.release(fleet.Abandoned)
}
