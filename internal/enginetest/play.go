package enginetest

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/kv"
	simtext "github.com/warmpath/warmpath/sim/text"
)

// answer is what a request gets, as far as it is computed.
type answer struct {
	ask          *ask
	created      int64 // Unix seconds
	text         string
	want         int // tokens of the whole text
	made         int // tokens produced so far
	promptTokens int
	finish       string // "stop" or "length"
	rank         int
	progress     progress
	kv           *kv.Job         // what KV events tell of it, nil without
	handed       json.RawMessage // what a decoder is told, of a prefill leg
	told         *int            // prompt tokens that usage calls cached, where another engine had them; nil for those that were found here

	extra func(reply, choice map[string]any) // adds what the connector says in a whole answer; nil for nothing
}

// piece is the text of token i.
func (a *answer) piece(i int) string {
	if (i+1)*simtext.TokenBytes > len(a.text) {
		return "" // the end of the sequence
	}
	return a.text[i*simtext.TokenBytes : (i+1)*simtext.TokenBytes]
}

// cachedTokens is what usage says was cached.
func (a *answer) cachedTokens() int {
	if a.told != nil {
		return *a.told
	}
	return a.progress.cached
}

// cutToOne leaves the first token of an answer.
func (a *answer) cutToOne() {
	if a.want > 1 {
		a.want, a.finish = 1, "length"
		a.text = a.text[:simtext.TokenBytes]
	}
}

// shape is how one API writes an answer.
type shape interface {
	contentType() string                             // of a stream
	open(b []byte, a *answer) []byte                 // when the first token is there
	token(b []byte, a *answer, i int) []byte         // for each token
	closing(b []byte, a *answer) []byte              // after the last one
	failure(b []byte, status int, msg string) []byte // an error inside the stream, and its end
	whole(a *answer) any                             // without a stream
}

// play computes an ask and answers with it.
func (s *Server) play(w http.ResponseWriter, r *http.Request, a *ask, sh shape) {
	fault := s.generationFault(w, r)
	if fault == nil {
		return
	}
	if err := s.connector.Find(r, a); err != nil {
		s.failWith(w, r, err)
		return
	}
	job, ans, err := s.job(a)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if s.dialect.lanes {
		defer s.endSlot(a.slot)
	}
	ans.created = time.Now().Unix()
	if err := s.connector.Load(r, ans, job.Chain); err != nil {
		s.failLoad(w, r, ans, sh, err)
		return
	}
	defer s.connector.Leave(a)
	if err := s.connector.Begin(r, a); err != nil {
		s.failWith(w, r, err)
		return
	}
	st, err := s.pump.submitAs(a.rank, job, ans.kv)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	ans.rank = st.rank
	s.tally.open.Add(1)
	defer s.tally.open.Add(-1)
	if a.stream {
		s.playStream(w, r, st, ans, sh, fault)
	} else {
		s.playWhole(w, r, st, ans, sh, fault)
	}
}

// failLoad answers a decode leg whose KV cache cannot be fetched. In a stream that is said after its first chunk, as vLLM has it.
func (s *Server) failLoad(w http.ResponseWriter, r *http.Request, ans *answer, sh shape, err error) {
	const said = "Internal server error"
	switch {
	case !errors.Is(err, errLoad):
		s.failWith(w, r, err)
	case ans.ask.stream:
		w.Header().Set("Content-Type", sh.contentType())
		_, _ = w.Write(sh.failure(sh.open(nil, ans), http.StatusInternalServerError, said))
	default:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", said)
	}
}

// wait returns when the job is done or has given so many tokens. It does not return when the client left, or the
// engine went away: the job is cancelled and the connection closed.
func (s *Server) wait(r *http.Request, st *stream, enough int) progress {
	st.expect(enough)
	for {
		p := st.progress()
		if p.gone {
			panic(http.ErrAbortHandler)
		}
		if p.done || p.tokens >= enough {
			return p
		}
		select {
		case <-st.notify:
		case <-r.Context().Done():
			s.abandon(st)
		case <-s.closing:
			s.abandon(st)
		}
	}
}

// abandon cancels the job at once and closes the connection.
func (s *Server) abandon(st *stream) {
	if s.pump.cancel(st) {
		s.tally.cancelled.Add(1)
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) playWhole(w http.ResponseWriter, r *http.Request, st *stream, ans *answer, sh shape, fault *Fault) {
	enough := math.MaxInt
	breaks := fault.Kind == FaultCut || fault.Kind == FaultErrorEvent
	if breaks {
		enough = fault.AfterChunks
	}
	p := s.wait(r, st, enough)
	if breaks && p.tokens >= enough {
		s.pump.cancel(st)
		if fault.Kind == FaultCut {
			panic(http.ErrAbortHandler)
		}
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", "simulated: the engine core died")
		return
	}
	ans.made, ans.progress = p.tokens, p
	if err := s.connector.Computed(r, ans); err != nil {
		s.failWith(w, r, err)
		return
	}
	if fault.Kind == FaultGarbage {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"simulated":"garbage",`))
		return
	}
	writeJSON(w, http.StatusOK, sh.whole(ans))
}

func (s *Server) playStream(w http.ResponseWriter, r *http.Request, st *stream, ans *answer, sh shape, fault *Fault) {
	w.Header().Set("Content-Type", sh.contentType())
	w.Header().Set("Cache-Control", "no-cache")
	flusher := http.NewResponseController(w)
	if s.dialect.earlyHeaders {
		w.WriteHeader(http.StatusOK)
		_ = flusher.Flush()
	}
	var p progress
	var b []byte
	chunks := 0
	for !p.done {
		p = s.wait(r, st, ans.made+1)
		ans.progress = p
		b = b[:0]
		if chunks == 0 {
			b = sh.open(b, ans)
		}
		for ; ans.made < p.tokens; ans.made++ {
			if fault.breaks(chunks) {
				s.breakStream(w, flusher, st, sh, fault, b)
				return
			}
			b = sh.token(b, ans, ans.made)
			chunks++
		}
		if p.done {
			s.connector.Streamed(r, ans)
			b = sh.closing(b, ans)
		}
		if _, err := w.Write(b); err != nil {
			s.abandon(st)
		}
		if err := flusher.Flush(); err != nil {
			s.abandon(st)
		}
	}
}

// breakStream ends a stream in the way of the fault, after what is in b.
func (s *Server) breakStream(w http.ResponseWriter, flusher *http.ResponseController, st *stream, sh shape, fault *Fault, b []byte) {
	s.pump.cancel(st)
	switch fault.Kind {
	case FaultErrorEvent:
		b = sh.failure(b, http.StatusInternalServerError, "simulated: the engine core died")
	case FaultGarbage:
		b = append(b, "data: {\"simulated\":\"garbage\",\n\n\x00\xff\xfe not an event\n\n"...)
	}
	_, _ = w.Write(b)
	_ = flusher.Flush()
	if fault.Kind == FaultCut {
		panic(http.ErrAbortHandler)
	}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values only
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// event appends one server-sent event with a JSON value.
func event(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own values only
	}
	b = append(b, "data: "...)
	b = append(b, j...)
	return append(b, "\n\n"...)
}
