package proxy

import (
	"bytes"
	"net/url"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/transfers"
)

// known is the prompt's content, as far as it is still in memory.
func (c *call) known() *fleet.Content {
	if c.Request.Content != nil {
		return c.Request.Content
	}
	return c.Request.ShadowContent
}

// fetchBack finds out whether the prefiller can fetch the beginning of the conversation from the decoder of its latest
// turn.
func (s *split) fetchBack() {
	s.x.Before = nil
	c, r, content := s.c, s.c.p.returns, s.c.known()
	if _, can := s.conn.(handover.Returner); r == nil || !can || content == nil {
		return
	}
	key := transfers.ReturnKey{Tenant: c.Request.Tenant, Pool: s.plan.Prefill.Pool, Session: s.plan.Prefill.Session}
	s.x.Before = r.Take(time.Now(), key, content.Scope, transfers.SpokenOf(c.API, &c.Prompt, c.Text()))
}

// failedToFetch reports whether a failed prefill leg was told to fetch from a decoder: the fetch may have failed, so
// the prefiller is not blamed. It may be asked again, without the fetch.
func (s *split) failedToFetch(a *attempt) bool {
	if s.x.Before == nil || a.status == 0 || a.fin.Outcome != fleet.EngineError && a.fin.Outcome != fleet.ClientError {
		return false
	}
	a.fin.Outcome = fleet.TransferFailed
	return true
}

// noteSpoken keeps what keepReturned needs of the body.
func (a *attempt) noteSpoken() {
	c := a.c
	r := c.p.returns
	if r == nil || a.d.Leg != fleet.LegDecode || a.d.Session == "" || c.split == nil || c.Body == nil {
		return
	}
	if _, can := c.split.conn.(handover.Returner); can {
		c.split.said = r.Note(transfers.SpokenOf(c.API, &c.Prompt, c.Text()))
	}
}

// keepReturned remembers the KV cache that the decoder of a complete answer reports to hold. end is the end of the
// answer.
func (a *attempt) keepReturned(end []byte) {
	c := a.c
	r := c.p.returns
	if r == nil || a.d.Leg != fleet.LegDecode || a.d.Session == "" || c.split == nil ||
		!bytes.Contains(end, []byte("kv_transfer_params")) {
		return
	}
	a.noteSpoken()
	conn, can := c.split.conn.(handover.Returner)
	content, said := c.known(), c.split.said
	at, err := url.Parse(a.d.Endpoint.URL)
	if !can || content == nil || said.Bytes == 0 || err != nil {
		return
	}
	params := conn.Returned(end)
	if params == nil {
		return
	}
	r.Put(time.Now(), transfers.Returned{
		Key:    transfers.ReturnKey{Tenant: c.Request.Tenant, Pool: a.d.Pool, Session: a.d.Session},
		Before: handover.Before{Params: bytes.Clone(params), Host: at.Hostname()},
		Scope:  content.Scope, Bytes: said.Bytes, Hash: said.Hash,
	})
}
