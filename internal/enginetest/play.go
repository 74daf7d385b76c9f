package enginetest

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/handover"
	"github.com/warmpath/warmpath/internal/enginetest/pump"
)

// play computes an ask and answers it.
func (s *Server) play(w http.ResponseWriter, r *http.Request, a *api.Ask, sh api.Shape) {
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
		defer s.endSlot(a.Slot)
	}
	ans.Created = time.Now().Unix()
	if err := s.connector.Load(r, ans, job.Chain); err != nil {
		s.failLoad(w, r, ans, sh, err)
		return
	}
	defer s.connector.Leave(a)
	if err := s.connector.Begin(r, a); err != nil {
		s.failWith(w, r, err)
		return
	}
	st, err := s.pump.SubmitAs(a.Rank, job, ans.Kv)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	ans.Rank = st.Rank
	s.tally.open.Add(1)
	defer s.tally.open.Add(-1)
	if a.Stream {
		s.playStream(w, r, st, ans, sh, fault)
	} else {
		s.playWhole(w, r, st, ans, sh, fault)
	}
}

// failLoad answers a decode leg whose KV cache cannot be fetched. In a stream the error follows the first chunk, as in
// vLLM.
func (s *Server) failLoad(w http.ResponseWriter, r *http.Request, ans *api.Answer, sh api.Shape, err error) {
	const said = "Internal server error"
	switch {
	case !errors.Is(err, handover.ErrLoad):
		s.failWith(w, r, err)
	case ans.Ask.Stream:
		w.Header().Set("Content-Type", sh.ContentType())
		_, _ = w.Write(sh.Failure(sh.Open(nil, ans), http.StatusInternalServerError, said))
	default:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", said)
	}
}

// wait returns when the job is done or has produced enough tokens. If the client has left or the engine is gone it does
// not return: the job is cancelled and the connection closed.
func (s *Server) wait(r *http.Request, st *pump.Stream, enough int) pump.Progress {
	st.Expect(enough)
	for {
		p := st.Progress()
		if p.Gone {
			panic(http.ErrAbortHandler)
		}
		if p.Done || p.Tokens >= enough {
			return p
		}
		select {
		case <-st.Notify:
		case <-r.Context().Done():
			s.abandon(st)
		case <-s.closing:
			s.abandon(st)
		}
	}
}

// abandon cancels the job at once and closes the connection.
func (s *Server) abandon(st *pump.Stream) {
	if s.pump.Cancel(st) {
		s.tally.cancelled.Add(1)
	}
	panic(http.ErrAbortHandler)
}

func (s *Server) playWhole(
	w http.ResponseWriter, r *http.Request, st *pump.Stream, ans *api.Answer, sh api.Shape, fault *Fault,
) {
	enough := math.MaxInt
	breaks := fault.Kind == FaultCut || fault.Kind == FaultErrorEvent
	if breaks {
		enough = fault.AfterChunks
	}
	p := s.wait(r, st, enough)
	if breaks && p.Tokens >= enough {
		s.pump.Cancel(st)
		if fault.Kind == FaultCut {
			panic(http.ErrAbortHandler)
		}
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", "simulated: the engine core died")
		return
	}
	ans.Made, ans.Progress = p.Tokens, p
	if err := s.connector.Computed(r, ans); err != nil {
		s.failWith(w, r, err)
		return
	}
	if fault.Kind == FaultGarbage {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"simulated":"garbage",`))
		return
	}
	api.WriteJSON(w, http.StatusOK, sh.Whole(ans))
}

func (s *Server) playStream(
	w http.ResponseWriter, r *http.Request, st *pump.Stream, ans *api.Answer, sh api.Shape, fault *Fault,
) {
	w.Header().Set("Content-Type", sh.ContentType())
	w.Header().Set("Cache-Control", "no-cache")
	flusher := http.NewResponseController(w)
	if s.dialect.earlyHeaders {
		w.WriteHeader(http.StatusOK)
		_ = flusher.Flush()
	}
	var p pump.Progress
	var b []byte
	chunks := 0
	for !p.Done {
		p = s.wait(r, st, ans.Made+1)
		ans.Progress = p
		b = b[:0]
		if chunks == 0 {
			b = sh.Open(b, ans)
		}
		for ; ans.Made < p.Tokens; ans.Made++ {
			if fault.breaks(chunks) {
				s.breakStream(w, flusher, st, sh, fault, b)
				return
			}
			b = sh.Token(b, ans, ans.Made)
			chunks++
		}
		if p.Done {
			s.connector.Streamed(r, ans)
			b = sh.Closing(b, ans)
		}
		if _, err := w.Write(b); err != nil {
			s.abandon(st)
		}
		if err := flusher.Flush(); err != nil {
			s.abandon(st)
		}
	}
}

// breakStream writes b and then breaks the stream as the fault demands.
func (s *Server) breakStream(
	w http.ResponseWriter, flusher *http.ResponseController, st *pump.Stream, sh api.Shape, fault *Fault, b []byte,
) {
	s.pump.Cancel(st)
	switch fault.Kind {
	case FaultErrorEvent:
		b = sh.Failure(b, http.StatusInternalServerError, "simulated: the engine core died")
	case FaultGarbage:
		b = append(b, "data: {\"simulated\":\"garbage\",\n\n\x00\xff\xfe not an event\n\n"...)
	}
	_, _ = w.Write(b)
	_ = flusher.Flush()
	if fault.Kind == FaultCut {
		panic(http.ErrAbortHandler)
	}
}
