package enginetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/sim/text"
)

// The hand-over of LMCache's connector, both sides (LMCacheConnectorV1 with enable_pd). The prefiller pushes to the ports that disagg_spec
// names, one of each kind for each tensor-parallel rank, and tells the router by a ProxyNotif for each rank over a real ZeroMQ PUSH
// socket. In place of NIXL its ranks speak HTTP at these ports.
//
// What a real one would hang, fail or answer wrongly at is refused, as in nixl.go: fields that are missing or not known, too few ports,
// ports of nobody or of another rank, more than one token, a decoder that is asked before the cache is there, for another prompt, or
// under another X-Request-Id.

// lmEOS is the token that ends an answer.
const lmEOS = 2

// lmcache is what the connector of an engine knows.
type lmcache struct {
	mu       sync.Mutex // guards what follows
	push     zmq4.Socket
	unpush   context.CancelFunc
	received map[string]*lmReceived // by X-Request-Id: what comes and has come
	order    []string
	pushing  int  // hand-overs that are not complete
	mute     bool // see MuteKV
	closed   bool
	ports    []net.Listener
	serving  sync.WaitGroup
}

// lmSpec is what a prefiller is told.
type lmSpec struct {
	First *bool `json:"ret_first_tok"`
	Spec  *struct {
		ID    *string `json:"req_id"`
		Host  *string `json:"receiver_host"`
		Init  []int   `json:"receiver_init_port"`
		Alloc []int   `json:"receiver_alloc_port"`
		Query []int   `json:"receiver_query_port"`
		RDMA  *string `json:"receiver_rdma_host"`
	} `json:"disagg_spec"`
}

// lmAsk is what a request has to do with a hand-over: its prompt is to be pushed, or it goes on after the first token.
type lmAsk struct {
	spec  *lmSpec
	after *lmReceived
	chain []uint64
}

// readLMCache reads kv_transfer_params.
func (s *Server) readLMCache(f *fields, a *ask) error {
	if s.opts.Connector != "lmcache" || !present(f.KVTransferParams) {
		return nil
	}
	var p lmSpec
	d := json.NewDecoder(bytes.NewReader(f.KVTransferParams))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	switch {
	case err != nil:
		return s.refuse("LMCache: kv_transfer_params: %v", err)
	case p.Spec == nil || p.Spec.ID == nil || *p.Spec.ID == "" || p.Spec.Host == nil || *p.Spec.Host == "":
		return s.refuse("LMCache: disagg_spec lacks req_id or receiver_host")
	case p.First == nil || !*p.First:
		return s.refuse("LMCache: ret_first_tok is not set")
	case len(p.Spec.Init) != s.opts.TP || len(p.Spec.Alloc) != s.opts.TP || p.Spec.Query != nil && len(p.Spec.Query) != s.opts.TP:
		return s.refuse("LMCache: too few ports: %d to begin and %d to allocate for %d tensor-parallel ranks", len(p.Spec.Init), len(p.Spec.Alloc), s.opts.TP)
	case a.stream || f.StreamOptions != nil:
		return s.refuse("a prefill leg must not stream")
	case a.maxTokens != 1 || a.minTokens > 1:
		return s.refuse("a prefill leg must make one token, this one makes %d", a.maxTokens)
	}
	a.lm = &lmAsk{spec: &p}
	return nil
}

// lmPart is what the prefiller's rank tells the decoder's.
type lmPart struct {
	ID      string   `json:"id"`      // of the hand-over
	Request string   `json:"request"` // X-Request-Id
	Rank    int      `json:"rank"`
	Ranks   int      `json:"ranks"`
	Prompt  uint64   `json:"prompt"` // hash of its tokens
	Seed    uint64   `json:"seed"`   // of the answer
	First   uint32   `json:"first"`  // token
	Chain   []uint64 `json:"chain"`
}

// lmHash identifies the tokens of a prompt.
func lmHash(a *ask, prompt []byte) uint64 {
	return xxh3.HashSeed(tokenBytes(tokenIDs(prompt)), xxh3.HashString(a.model+"\x00"+a.salt))
}

// pushLM announces a computed prompt to the decoder, and pushes it while the router has its reply already.
func (s *Server) pushLM(r *http.Request, ans *answer) (handed json.RawMessage, err error) {
	a := ans.ask
	spec := a.lm.spec.Spec
	part := lmPart{
		ID: *spec.ID, Request: a.id, Ranks: s.opts.TP, Prompt: lmHash(a, a.prompt), Seed: xxh3.HashSeed(a.prompt, s.opts.Seed), First: lmEOS,
		Chain: a.lm.chain[:min(ans.promptTokens/s.opts.Engine.BlockTokens, len(a.lm.chain))],
	}
	if len(ans.text) >= text.TokenBytes {
		part.First = binary.LittleEndian.Uint32([]byte(ans.text))
	}
	for rank := range s.opts.TP {
		part.Rank = rank
		err := s.tellLM(r.Context(), *spec.Host, spec.Init[rank], "/init", &part)
		if err == nil {
			err = s.tellLM(r.Context(), *spec.Host, spec.Alloc[rank], "/alloc", &part)
		}
		if err != nil {
			return nil, err
		}
	}
	s.lm.mu.Lock()
	if s.lm.closed {
		s.lm.mu.Unlock()
		return nil, errKVLoad
	}
	s.lm.pushing++
	s.lm.serving.Add(1)
	s.lm.mu.Unlock()
	go s.transferLM(part, a.lm.spec, ans.promptTokens)
	return json.RawMessage(`{"first_tok":` + strconv.FormatUint(uint64(part.First), 10) + `}`), nil
}

// transferLM takes the time of a transfer, makes the cache the decoder's, and tells the router.
func (s *Server) transferLM(part lmPart, spec *lmSpec, promptTokens int) {
	defer s.lm.serving.Done()
	select {
	case <-time.After(s.moveTime(promptTokens)):
	case <-s.closing:
	}
	s.kv.mu.Lock()
	lost := s.kv.lose
	s.kv.lose = false
	s.kv.mu.Unlock()
	path := "/done"
	if lost {
		path = "/drop"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	failed := lost
	for rank := range s.opts.TP {
		part.Rank = rank
		failed = s.tellLM(ctx, *spec.Spec.Host, spec.Spec.Alloc[rank], path, &part) != nil || failed
		if !failed {
			s.notifyLM(part.ID)
		}
	}
	if failed {
		s.countKV(&s.kv.stats.Failed)
	} else {
		s.countKV(&s.kv.stats.Handed)
	}
	s.lm.mu.Lock()
	s.lm.pushing--
	s.lm.mu.Unlock()
}

// tellLM asks a port of the decoder. What it does not take is against the protocol.
func (s *Server) tellLM(ctx context.Context, host string, port int, path string, part *lmPart) error {
	body, err := json.Marshal(part)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+path, bytes.NewReader(body))
	if err != nil {
		return s.refuse("LMCache: receiver_host: %v", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("LMCache: nobody receives at %s:%d: %w", host, port, errKVLoad)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if res.StatusCode != http.StatusOK {
		return s.refuse("LMCache: the decoder says %s", said)
	}
	return nil
}

// notifyLM tells the router that a rank has pushed.
func (s *Server) notifyLM(id string) {
	s.lm.mu.Lock()
	defer s.lm.mu.Unlock()
	if s.opts.KVNotify == "" || s.lm.mute || s.lm.closed {
		return
	}
	if s.lm.push == nil {
		ctx, cancel := context.WithCancel(context.Background())
		push := zmq4.NewPush(ctx, zmq4.WithDialerTimeout(time.Second), zmq4.WithLogger(quietZMQ()))
		if push.Dial("tcp://"+s.opts.KVNotify) != nil {
			cancel()
			return
		}
		s.lm.push, s.lm.unpush = push, cancel
	}
	b := msgp.AppendMapHeader(nil, 2)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "ProxyNotif")
	b = msgp.AppendString(msgp.AppendString(b, "req_id"), id)
	_ = s.lm.push.Send(zmq4.NewMsg(b)) // a router that is gone does not hear it
}

// MuteKV switches off, or on again, what a prefiller of LMCache tells the router.
func (s *Server) MuteKV(off bool) {
	s.lm.mu.Lock()
	defer s.lm.mu.Unlock()
	s.lm.mute = off
}

// closeLM ends what the connector runs.
func (s *Server) closeLM() {
	s.lm.mu.Lock()
	s.lm.closed = true
	push, unpush, ports := s.lm.push, s.lm.unpush, s.lm.ports
	s.lm.mu.Unlock()
	for _, l := range ports {
		_ = l.Close()
	}
	s.lm.serving.Wait()
	if push != nil {
		unpush()
		_ = push.Close()
	}
}

// failLM answers a prefill leg whose cache cannot be pushed.
func (s *Server) failLM(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errKVLoad) {
		s.countKV(&s.kv.stats.Failed)
		s.fail(w, r, http.StatusInternalServerError, "InternalServerError", err.Error())
		return
	}
	s.failWith(w, r, err)
}
