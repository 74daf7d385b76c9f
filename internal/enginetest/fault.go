package enginetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/handover"
	"github.com/warmpath/warmpath/sim/engine"
)

// FaultKind names a fault.
type FaultKind string

// The faults. Faults of "generations" do not affect health, models and metrics unless Fault.All is set.
const (
	FaultNone FaultKind = "none" // ends every fault
	// the port is closed; requests on open connections get the connection closed
	FaultRefuse FaultKind = "refuse"
	Fault500    FaultKind = "500" // generations get a 500
	Fault503    FaultKind = "503" // generations get a 503, with Retry-After when set
	Fault429    FaultKind = "429" // generations get a 429, with Retry-After when set
	// every request is accepted and never answered, until the fault ends or the client leaves
	FaultHang FaultKind = "hang"
	FaultCut  FaultKind = "cut"  // generations lose the connection after AfterChunks tokens
	FaultSlow FaultKind = "slow" // steps take Factor times as long
	// open requests lose their connection and the cache is emptied; with Seconds the port is closed for that time
	FaultRestart FaultKind = "restart"
	// after AfterChunks tokens streams get an error event and a normal [DONE] (vLLM when its core dies)
	FaultErrorEvent FaultKind = "error_event"
	// after AfterChunks tokens streams get bytes that are not an event; plain answers are broken JSON
	FaultGarbage FaultKind = "garbage"
)

// Fault describes a fault.
type Fault struct {
	Kind        FaultKind `json:"kind"`
	AfterChunks int       `json:"after_chunks,omitempty"` // tokens before cut, error_event and garbage
	RetryAfter  float64   `json:"retry_after,omitempty"`  // seconds, for 503 and 429; 0 sends no header
	Factor      float64   `json:"factor,omitempty"`       // for slow
	Count       int       `json:"count,omitempty"`        // ends after this many affected requests; 0 does not
	Seconds     float64   `json:"seconds,omitempty"`      // ends after this real time; 0 does not
	All         bool      `json:"all,omitempty"`          // 500, 503, 429: every path, health too
}

// breaks reports whether a stream breaks before its next token.
func (f *Fault) breaks(chunks int) bool {
	switch f.Kind {
	case FaultCut, FaultErrorEvent, FaultGarbage:
		return chunks >= f.AfterChunks
	}
	return false
}

func (f Fault) validate() error {
	switch f.Kind {
	case FaultNone, FaultRefuse, Fault500, Fault503, Fault429, FaultHang, FaultCut, FaultRestart, FaultErrorEvent,
		FaultGarbage:
	case FaultSlow:
		if !(f.Factor > 0 && f.Factor <= 1e6) {
			return fmt.Errorf("slow needs a factor above 0 and at most 1e6, got %v", f.Factor)
		}
	default:
		return fmt.Errorf("no fault %q; there are none, refuse, 500, 503, 429, hang, cut, slow, restart, "+
			"error_event, garbage", f.Kind)
	}
	if f.AfterChunks < 0 || f.Count < 0 || f.RetryAfter < 0 || !(f.Seconds >= 0 && f.Seconds < 1e6) {
		return fmt.Errorf("fault %s: numbers must not be negative", f.Kind)
	}
	return nil
}

// faults holds the current fault.
type faults struct {
	mu      sync.Mutex
	now     Fault         // Kind "" is none
	left    int           // affected requests left, when Count is set
	timer   *time.Timer   // ends it
	changed chan struct{} // closed and replaced at each change; hanging requests wait for it
}

func (f *faults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
}

// meet returns the fault if it is of one of the kinds, and counts it.
func (f *faults) meet(kinds ...FaultKind) (*Fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range kinds {
		if f.now.Kind != k {
			continue
		}
		met := f.now
		if f.now.Count > 0 {
			if f.left--; f.left == 0 {
				f.now = Fault{}
			}
		}
		return &met, f.changed
	}
	return nil, f.changed
}

func (f *faults) current() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Kind == "" {
		return Fault{Kind: FaultNone}
	}
	return f.now
}

// SetFault replaces the fault; FaultNone ends it.
func (s *Server) SetFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	port := f.Kind == FaultRefuse || (f.Kind == FaultRestart && f.Seconds > 0)
	factor := 1.0
	if f.Kind == FaultSlow {
		factor = f.Factor
	}
	s.faults.mu.Lock()
	if s.faults.timer != nil {
		s.faults.timer.Stop()
		s.faults.timer = nil
	}
	s.faults.now, s.faults.left = f, f.Count
	if f.Kind == FaultNone || (f.Kind == FaultRestart && !port) {
		s.faults.now = Fault{}
	}
	if f.Seconds > 0 && f.Kind != FaultNone {
		s.faults.timer = time.AfterFunc(time.Duration(f.Seconds*float64(time.Second)),
			func() { _ = s.SetFault(Fault{Kind: FaultNone}) })
	}
	close(s.faults.changed)
	s.faults.changed = make(chan struct{})
	s.faults.mu.Unlock()

	s.pump.SetSlow(factor)
	if f.Kind == FaultRestart {
		s.pump.Restart()
		s.responses.Clear()
		s.tally.restarts.Add(1)
		s.connector.Forget()
	}
	return s.openPort(!port)
}

// passFault applies faults that affect every path; false means that the request is answered.
func (s *Server) passFault(w http.ResponseWriter, r *http.Request) bool {
	f, changed := s.faults.meet(FaultRefuse, FaultRestart, FaultHang)
	if f == nil {
		if now := s.faults.current(); now.All {
			if met, _ := s.faults.meet(Fault500, Fault503, Fault429); met != nil {
				s.faultStatus(w, r, met)
				return false
			}
		}
		return true
	}
	s.tally.faulted.Add(1)
	if f.Kind == FaultHang {
		select {
		case <-r.Context().Done():
		case <-changed:
		case <-s.closing:
		}
	}
	panic(http.ErrAbortHandler)
}

// generationFault applies faults of generations. nil means that the request is answered; otherwise it is the fault to
// apply while streaming (FaultNone if there is none).
func (s *Server) generationFault(w http.ResponseWriter, r *http.Request) *Fault {
	f, _ := s.faults.meet(Fault500, Fault503, Fault429, FaultCut, FaultErrorEvent, FaultGarbage)
	if f == nil {
		return &Fault{Kind: FaultNone}
	}
	switch f.Kind {
	case Fault500, Fault503, Fault429:
		s.faultStatus(w, r, f)
		return nil
	}
	s.tally.faulted.Add(1)
	return f
}

func (s *Server) faultStatus(w http.ResponseWriter, r *http.Request, f *Fault) {
	s.tally.faulted.Add(1)
	if f.RetryAfter > 0 && f.Kind != Fault500 {
		w.Header().Set("Retry-After", strconv.FormatFloat(f.RetryAfter, 'f', -1, 64))
	}
	switch f.Kind {
	case Fault503:
		s.fail(w, r, http.StatusServiceUnavailable, "ServiceUnavailableError", "simulated: overloaded")
	case Fault429:
		s.fail(w, r, http.StatusTooManyRequests, "RateLimitError", "simulated: too many requests")
	default:
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", "simulated: internal error")
	}
}

func (s *Server) postFault(w http.ResponseWriter, r *http.Request) {
	var f Fault
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		api.WriteJSON(w, http.StatusBadRequest,
			api.ErrorObject(http.StatusBadRequest, "BadRequestError", "fault: "+err.Error()))
		return
	}
	if err := f.validate(); err != nil {
		api.WriteJSON(w, http.StatusBadRequest, api.ErrorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	if err := s.SetFault(f); err != nil {
		api.WriteJSON(w, http.StatusInternalServerError,
			api.ErrorObject(http.StatusInternalServerError, "InternalServerError", err.Error()))
		return
	}
	api.WriteJSON(w, http.StatusOK, f)
}

func (s *Server) getFault(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.faults.current())
}

// tally holds a server's counters.
type tally struct {
	requests, cancelled, faulted, restarts atomic.Uint64
	open                                   atomic.Int64
}

// Stats are a server's counters since its start.
type Stats struct {
	Requests  uint64         `json:"requests"`  // HTTP requests except those to /_sim
	Open      int64          `json:"open"`      // running generations
	Cancelled uint64         `json:"cancelled"` // generations whose client left
	Faulted   uint64         `json:"faulted"`   // requests affected by a fault
	Restarts  uint64         `json:"restarts"`
	KV        handover.Stats `json:"kv"`
	Ranks     []engine.Stats `json:"ranks"` // since the last restart
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	return Stats{
		Requests: s.tally.requests.Load(), Open: s.tally.open.Load(), Cancelled: s.tally.cancelled.Load(),
		Faulted: s.tally.faulted.Load(), Restarts: s.tally.restarts.Load(), KV: s.KV(), Ranks: s.pump.Stats(),
	}
}

func (s *Server) getStats(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusOK, s.Stats())
}
