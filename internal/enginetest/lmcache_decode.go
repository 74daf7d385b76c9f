package enginetest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/sim/text"
)

// lmReceived is a prompt's cache at its decoder.
type lmReceived struct {
	id     string
	prompt uint64
	seed   uint64
	first  uint32
	ranks  int
	begun  map[int]bool
	done   map[int]bool
	chain  []uint64
	lost   bool // it will not come
}

func (e *lmReceived) complete() bool { return e.lost || len(e.done) == e.ranks }

// ListenKV opens the ports at which a decoder of LMCache receives: KVPort and those after it, of each kind as many as there are ranks, or free
// ones. Close ends them.
func (s *Server) ListenKV(host string) (handover.Receiver, error) {
	to := handover.Receiver{Host: host}
	for rank := range s.opts.TP {
		for i, kind := range []string{"init", "alloc"} {
			port := 0
			if s.opts.KVPort > 0 {
				port = s.opts.KVPort + i*s.opts.TP + rank
			}
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return to, fmt.Errorf("enginetest: %w", err)
			}
			s.lm.mu.Lock()
			s.lm.ports = append(s.lm.ports, l)
			s.lm.serving.Add(1)
			s.lm.mu.Unlock()
			srv := &http.Server{Handler: s.receiveLM(kind, rank), ReadHeaderTimeout: 30 * time.Second}
			go func() {
				defer s.lm.serving.Done()
				_ = srv.Serve(l) // ends when the listener is closed
				_ = srv.Close()
			}()
			port = l.Addr().(*net.TCPAddr).Port
			if kind == "init" {
				to.InitPorts = append(to.InitPorts, port)
			} else {
				to.AllocPorts = append(to.AllocPorts, port)
			}
		}
	}
	return to, nil
}

// receiveLM is what a port of a rank answers.
func (s *Server) receiveLM(kind string, rank int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p lmPart
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&p)
		switch {
		case err != nil:
		case (r.URL.Path == "/init") != (kind == "init"):
			err = fmt.Errorf("%s at the %s port", r.URL.Path, kind)
		case p.Rank != rank || p.Ranks != s.opts.TP:
			err = fmt.Errorf("rank %d of %d at the port of rank %d of %d", p.Rank, p.Ranks, rank, s.opts.TP)
		case r.URL.Path != "/init":
			err = s.takeLM(r.URL.Path, &p)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// takeLM makes room for a rank's part of a prompt (/alloc), has it (/done), or gives it up (/drop).
func (s *Server) takeLM(path string, p *lmPart) error {
	s.lm.mu.Lock()
	defer s.lm.mu.Unlock()
	e := s.lm.received[p.Request]
	switch {
	case path == "/alloc" && (e == nil || e.id != p.ID):
		if s.lm.received == nil {
			s.lm.received = map[string]*lmReceived{}
		}
		e = &lmReceived{id: p.ID, prompt: p.Prompt, seed: p.Seed, first: p.First, ranks: p.Ranks, chain: p.Chain, begun: map[int]bool{}, done: map[int]bool{}}
		s.lm.received[p.Request] = e
		s.lm.order = append(s.lm.order, p.Request)
		if len(s.lm.order) > mostOver {
			delete(s.lm.received, s.lm.order[0])
			s.lm.order = s.lm.order[1:]
		}
		fallthrough
	case path == "/alloc":
		if e.begun[p.Rank] {
			return fmt.Errorf("rank %d of %s comes twice", p.Rank, p.ID)
		}
		e.begun[p.Rank] = true
	case e == nil || e.id != p.ID:
		return nil // superseded by another attempt
	case path == "/drop":
		e.lost = true
	default:
		if e.done[p.Rank] = true; e.complete() {
			s.pump.receive(0, e.chain)
		}
	}
	return nil
}

// findLM looks for what was pushed for a request. A request of which nothing was heard is a whole one.
func (s *Server) findLM(a *ask) error {
	if s.opts.Connector != "lmcache" || a.lm != nil {
		return nil
	}
	s.lm.mu.Lock()
	e := s.lm.received[a.id]
	complete := e != nil && e.complete()
	if complete {
		delete(s.lm.received, a.id)
	}
	s.lm.mu.Unlock()
	if e == nil {
		return nil
	}
	if !complete {
		return s.refuse("LMCache: the decoder is asked before the KV cache is there")
	}
	if cut := len(a.prompt) - text.TokenBytes; lmHash(a, a.prompt) != e.prompt {
		if cut < 0 || lmHash(a, a.prompt[:cut]) != e.prompt {
			return s.refuse("LMCache: the KV cache that was pushed is of another prompt")
		}
		if got := binary.LittleEndian.Uint32(a.prompt[cut:]); got != e.first {
			return s.refuse("LMCache: the first token is %d, the prompt goes on with %d", e.first, got)
		}
		a.lm = &lmAsk{after: e}
	}
	if !e.lost {
		s.countKV(&s.kv.stats.Taken)
		s.countKV(&s.kv.stats.Loaded)
	}
	if a.rank < 0 {
		a.rank = 0
	}
	return nil
}

// goOn makes an answer whose every token is the same however many are made, and one after a first token that of the prompt before it.
func (s *Server) goOn(a *ask, ans *answer, seed uint64, room int) {
	if a.lm == nil || a.lm.after == nil {
		ans.text = text.Of(seed, ans.want+1)[:ans.want*text.TokenBytes] // the last token of a text ends a sentence
		return
	}
	b := *a
	if b.maxTokens > 0 {
		b.maxTokens++
	}
	total := s.answerTokens(&b, a.lm.after.seed, room+1)
	ans.want, ans.finish = max(1, total-1), "stop"
	if total == b.maxTokens {
		ans.finish = "length"
	}
	ans.text = text.Of(a.lm.after.seed, ans.want+2)[text.TokenBytes : (ans.want+1)*text.TokenBytes]
}

func quietZMQ() *log.Logger { return log.New(io.Discard, "", 0) }
