package proxy

import (
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

// answered gives the client what the prefiller said when that is all of the answer, its first token being the last. No decoder is
// asked; the one that was reserved is let go of.
func (s *split) answered() {
	c := s.c
	body, media := s.handed.Answer, "application/json"
	if c.Prompt.Stream {
		if events, ok := handover.AsStream(c.API.String(), body, c.Prompt.IncludeUsage); ok {
			body, media = events, "text/event-stream; charset=utf-8"
		}
	}
	h := c.w.Header()
	h["Content-Type"], h["Content-Length"] = []string{media}, []string{strconv.Itoa(len(body))}
	if id := s.plan.Session; id != "" && httpguts.ValidHeaderFieldValue(id) {
		h["X-Session-Id"] = []string{id}
	}
	c.explain(h, &s.plan.Decision)
	c.served.Status, c.served.Outcome, c.served.Usage = http.StatusOK, fleet.OK, s.handed.Usage
	c.sent.Store(true)
	c.w.WriteHeader(http.StatusOK)
	c.served.FirstByte = time.Now()
	if _, err := c.send(body, false); err != nil {
		c.served.Outcome = fleet.ClientGone
	}
	c.served.LastByte = time.Now()
	c.served.BytesOut, c.served.Chunks = int64(len(body)), 1
	s.release(fleet.Abandoned)
}
