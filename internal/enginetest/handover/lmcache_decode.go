package handover

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/internal/enginetest/api"
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
	lost   bool // it will not arrive
}

func (e *lmReceived) complete() bool { return e.lost || len(e.done) == e.ranks }

// ListenKV opens the receiving ports of an LMCache decoder: KVPort and following ones, one of each kind per rank, or
// free ones. Close closes them.
func (h *lmcache) ListenKV(host string) (handover.Receiver, error) {
	to := handover.Receiver{Host: host}
	for rank := range h.config.TP {
		for i, kind := range []string{"init", "alloc"} {
			port := 0
			if h.config.Port > 0 {
				port = h.config.Port + i*h.config.TP + rank
			}
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return to, err
			}
			h.lm.Lock()
			h.ports = append(h.ports, l)
			h.serving.Add(1)
			h.lm.Unlock()
			srv := &http.Server{Handler: h.receive(kind, rank), ReadHeaderTimeout: 30 * time.Second}
			go func() {
				defer h.serving.Done()
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

// receive is the handler of a rank's port.
func (h *lmcache) receive(kind string, rank int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p lmPart
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&p)
		switch {
		case err != nil:
		case (r.URL.Path == "/init") != (kind == "init"):
			err = fmt.Errorf("%s at the %s port", r.URL.Path, kind)
		case p.Rank != rank || p.Ranks != h.config.TP:
			err = fmt.Errorf("rank %d of %d at the port of rank %d of %d", p.Rank, p.Ranks, rank, h.config.TP)
		case r.URL.Path != "/init":
			err = h.takePart(r.URL.Path, &p)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusOK)
	})
}

// takePart allocates a rank's part of a prompt (/alloc), completes it (/done), or drops it (/drop).
func (h *lmcache) takePart(path string, p *lmPart) error {
	h.lm.Lock()
	defer h.lm.Unlock()
	e := h.received[p.Request]
	switch {
	case path == "/alloc" && (e == nil || e.id != p.ID):
		if h.received == nil {
			h.received = map[string]*lmReceived{}
		}
		e = &lmReceived{
			id: p.ID, prompt: p.Prompt, seed: p.Seed, first: p.First, ranks: p.Ranks, chain: p.Chain,
			begun: map[int]bool{}, done: map[int]bool{},
		}
		h.received[p.Request] = e
		h.order = append(h.order, p.Request)
		if len(h.order) > mostOver {
			delete(h.received, h.order[0])
			h.order = h.order[1:]
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
			h.engine.Receive(0, e.chain)
		}
	}
	return nil
}

// Find implements connector: it looks for the cache pushed for a request. Without one the request is whole.
func (h *lmcache) Find(_ *http.Request, a *api.Ask) error {
	if a.Leg != nil {
		return nil
	}
	h.lm.Lock()
	e := h.received[a.Id]
	complete := e != nil && e.complete()
	if complete {
		delete(h.received, a.Id)
	}
	h.lm.Unlock()
	if e == nil {
		return nil
	}
	if !complete {
		return h.refuse("LMCache: the decoder is asked before the KV cache is there")
	}
	if cut := len(a.Prompt) - text.TokenBytes; idsHash(a, a.Prompt) != e.prompt {
		if cut < 0 || idsHash(a, a.Prompt[:cut]) != e.prompt {
			return h.refuse("LMCache: the KV cache that was pushed is of another prompt")
		}
		if got := binary.LittleEndian.Uint32(a.Prompt[cut:]); got != e.first {
			return h.refuse("LMCache: the first token is %d, the prompt goes on with %d", e.first, got)
		}
		a.Leg = &lmLeg{after: e}
	}
	if !e.lost {
		h.count(&h.stats.Taken)
		h.count(&h.stats.Loaded)
	}
	if a.Rank < 0 {
		a.Rank = 0
	}
	return nil
}

// Adjust implements connector: it makes an answer with equal tokens at any length, and after a handed-over first token
// that of the prompt before it.
func (h *lmcache) Adjust(ans *api.Answer, seed uint64, room int) {
	a := ans.Ask
	leg, _ := a.Leg.(*lmLeg)
	switch {
	case a.None:
		return
	case leg == nil || leg.after == nil:
		ans.Text = text.Of(seed, ans.Want+1)[:ans.Want*text.TokenBytes] // the last token of a text ends a sentence
		return
	}
	b := *a
	if b.MaxTokens > 0 {
		b.MaxTokens++
	}
	total := h.engine.AnswerTokens(&b, leg.after.seed, room+1)
	ans.Want, ans.Finish = max(1, total-1), "stop"
	if total == b.MaxTokens {
		ans.Finish = "length"
	}
	ans.Text = text.Of(leg.after.seed, ans.Want+2)[text.TokenBytes : (ans.Want+1)*text.TokenBytes]
}
