package enginetest

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// meetAsk is what a request says about a meeting.
type meetAsk struct {
	prefill bool
	key     string
	at      string // http://host:port of the prefiller, of a decode leg
	body    uint64 // hash of the request, where both legs must be the same
	said    string // what the decoder was told that the prefiller said
	decoder string // of a prefill leg: the decoder that it was told; of a decode leg: this engine
	rank    int    // that the decoder was told; -1 for none
	first   bool   // the prompt is computed when the decoder has come (SGLang)
	reply   func(a *answer) json.RawMessage
	m       *meeting
}

var errMeetTimeout = errors.New("nobody came in time")

// open makes a prefill leg the host of its meeting, and waits for the decoder where the protocol has it so.
func (s *Server) openMeeting(r *http.Request, a *ask) error {
	k := a.meet
	if k == nil || !k.prefill {
		return nil
	}
	s.meets.mu.Lock()
	if why := s.meets.over[k.key]; why != "" {
		s.meets.mu.Unlock()
		return s.refuse("the id was used before: %s", why)
	}
	m := s.meets.at(k.key)
	if m.prefiller {
		s.meets.mu.Unlock()
		return s.refuse("two requests at once have the same id")
	}
	k.m, m.prefiller = m, true
	m.prompt, m.body, m.decoder = promptHash(a), k.body, k.decoder
	s.meets.mu.Unlock()
	if !k.first {
		return nil
	}
	limit := time.NewTimer(s.opts.KVLease)
	defer limit.Stop()
	select {
	case <-m.came:
		return nil
	case <-r.Context().Done():
	case <-s.closing:
	case <-limit.C:
		s.leaveMeeting(k)
		return errMeetTimeout
	}
	s.leaveMeeting(k)
	panic(http.ErrAbortHandler)
}

// leaveMeeting ends a prefill leg that has not been computed to its end. A decoder that waits goes on waiting.
func (s *Server) leaveMeeting(k *meetAsk) {
	if k == nil || k.m == nil {
		return
	}
	s.meets.mu.Lock()
	defer s.meets.mu.Unlock()
	k.m.prefiller = false
	s.meets.idle(k.key)
}

// computedMeeting tells the decoder that the prompt is computed, or keeps it for the time of a lease. SGLang's prefill servers answer
// when it has been fetched.
func (s *Server) computedMeeting(r *http.Request, ans *answer) {
	k := ans.ask.meet
	if k == nil || k.m == nil {
		return
	}
	m := k.m
	if k.reply != nil {
		ans.handed = k.reply(ans)
	}
	s.countKV(&s.kv.stats.Handed)
	s.meets.mu.Lock()
	m.cached, m.rank, m.done = ans.progress.cached, max(ans.rank, 0), true
	if k.reply != nil {
		m.said = saidIn(ans.handed)
	}
	m.expires = time.AfterFunc(s.opts.KVLease, func() {
		s.meets.mu.Lock()
		defer s.meets.mu.Unlock()
		if s.meets.open[k.key] == m {
			s.meets.end(k.key, "the lease is over")
			s.countKV(&s.kv.stats.Expired)
		}
	})
	close(m.computed)
	s.meets.mu.Unlock()
	if k.first {
		select {
		case <-m.taken:
		case <-r.Context().Done():
			s.meets.mu.Lock()
			s.meets.end(k.key, "the prefill leg was cancelled")
			s.meets.mu.Unlock()
		case <-s.closing:
		}
	}
}

// attendMeeting is a decode leg's way to its prompt's KV cache.
func (s *Server) attendMeeting(r *http.Request, ans *answer) error {
	a := ans.ask
	k := a.meet
	var told meetAnswer
	call := meetCall{Key: k.key, Prompt: promptHash(a), Body: k.body, Said: k.said, Decoder: k.decoder, Rank: k.rank}
	if err := s.askPeer(r.Context(), "prefiller", k.at+"/_sim/meet", call, &told); err != nil {
		return err
	}
	a.kv = &kvAsk{params: []byte("{}"), cached: told.Cached}
	if s.opts.Connector != "sglang" {
		a.kv.cached = -1 // all that was moved counts as cached
	}
	s.loaded(r.Context(), ans.promptTokens)
	return nil
}

// saidIn is what of a prefiller's reply a decoder must be told unchanged.
func saidIn(params json.RawMessage) string {
	var p struct {
		Blocks   json.RawMessage `json:"remote_block_ids"`
		Engine   json.RawMessage `json:"remote_engine_id"`
		Transfer json.RawMessage `json:"transfer_id"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return string(p.Blocks) + " " + string(p.Engine) + " " + string(p.Transfer)
}
