package handover

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

	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/sim/text"
)

// The protocol of LMCache's connector, both sides (LMCacheConnectorV1 with enable_pd). The prefiller pushes to the
// ports in disagg_spec, one of each kind per tensor-parallel rank, and sends the router a ProxyNotif per rank over a
// real ZeroMQ PUSH socket. HTTP at these ports replaces NIXL.
//
// Requests at which a real engine would hang, fail or answer wrongly are rejected, as in nixl.go: missing or unknown
// fields, too few ports, ports without a receiver or of another rank, more than one token, a decoder asked before the
// cache has arrived, for another prompt, or with another X-Request-Id.

// lmEOS is the token that ends an answer.
const lmEOS = 2

type lmcache struct {
	*host

	lm       sync.Mutex // guards the following fields
	push     *zmtp.Conn
	received map[string]*lmReceived // by X-Request-Id: expected and arrived caches
	order    []string
	pushing  int  // incomplete transfers
	mute     bool // see Mute
	closed   bool
	ports    []net.Listener
	serving  sync.WaitGroup
}

// lmSpec is a prefiller's parameters.
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

// lmLeg is a request's part in a transfer: its prompt is pushed, or it continues after the first token.
type lmLeg struct {
	spec  *lmSpec
	after *lmReceived
	chain []uint64
}

// Read implements connector: it reads kv_transfer_params.
func (h *lmcache) Read(_ *http.Request, f *api.Fields, a *api.Ask) error {
	if !prompts.Present(f.KVTransferParams) {
		return nil
	}
	var p lmSpec
	d := json.NewDecoder(bytes.NewReader(f.KVTransferParams))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	switch {
	case err != nil:
		return h.refuse("LMCache: kv_transfer_params: %v", err)
	case p.Spec == nil || p.Spec.ID == nil || *p.Spec.ID == "" || p.Spec.Host == nil || *p.Spec.Host == "":
		return h.refuse("LMCache: disagg_spec lacks req_id or receiver_host")
	case p.First == nil || !*p.First:
		return h.refuse("LMCache: ret_first_tok is not set")
	case len(p.Spec.Init) != h.config.TP || len(p.Spec.Alloc) != h.config.TP ||
		p.Spec.Query != nil && len(p.Spec.Query) != h.config.TP:
		return h.refuse("LMCache: too few ports: %d to begin and %d to allocate for %d tensor-parallel ranks",
			len(p.Spec.Init), len(p.Spec.Alloc), h.config.TP)
	}
	if err := h.onlyPrompt(f, a); err != nil {
		return err
	}
	a.Leg = &lmLeg{spec: &p}
	return nil
}

// lmPart is the message of a prefiller's rank to the decoder's.
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

// announce announces a computed prompt to the decoder, and pushes it after the reply to the router.
func (h *lmcache) announce(r *http.Request, ans *api.Answer, leg *lmLeg) (handed json.RawMessage, err error) {
	a := ans.Ask
	spec := leg.spec.Spec
	part := lmPart{
		ID: *spec.ID, Request: a.Id, Ranks: h.config.TP, Prompt: idsHash(a, a.Prompt), Seed: xxh3.HashSeed(a.Prompt,
			h.engine.Seed), First: lmEOS, Chain: leg.chain[:min(ans.PromptTokens/h.engine.BlockTokens, len(leg.chain))],
	}
	if len(ans.Text) >= text.TokenBytes {
		part.First = binary.LittleEndian.Uint32([]byte(ans.Text))
	}
	for rank := range h.config.TP {
		part.Rank = rank
		err := h.tell(r.Context(), *spec.Host, spec.Init[rank], "/init", &part)
		if err == nil {
			err = h.tell(r.Context(), *spec.Host, spec.Alloc[rank], "/alloc", &part)
		}
		if err != nil {
			return nil, err
		}
	}
	h.lm.Lock()
	if h.closed {
		h.lm.Unlock()
		return nil, ErrLoad
	}
	h.pushing++
	h.serving.Add(1)
	h.lm.Unlock()
	go h.transfer(part, leg.spec, ans.PromptTokens)
	return json.RawMessage(`{"first_tok":` + strconv.FormatUint(uint64(part.First), 10) + `}`), nil
}

// transfer waits for the duration of a transfer, gives the decoder the cache, and notifies the router.
func (h *lmcache) transfer(part lmPart, spec *lmSpec, promptTokens int) {
	defer h.serving.Done()
	select {
	case <-time.After(h.moveTime(promptTokens)):
	case <-h.engine.Closing:
	}
	lost := h.lost()
	path := "/done"
	if lost {
		path = "/drop"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	failed := lost
	for rank := range h.config.TP {
		part.Rank = rank
		failed = h.tell(ctx, *spec.Spec.Host, spec.Spec.Alloc[rank], path, &part) != nil || failed
		if !failed {
			h.notify(part.ID)
		}
	}
	if failed {
		h.count(&h.stats.Failed)
	} else {
		h.count(&h.stats.Handed)
	}
	h.lm.Lock()
	h.pushing--
	h.lm.Unlock()
}

// tell sends to a port of the decoder. A rejection is a violation of the protocol.
func (h *lmcache) tell(ctx context.Context, host string, port int, path string, part *lmPart) error {
	body, err := json.Marshal(part)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+net.JoinHostPort(host, strconv.Itoa(port))+path, bytes.NewReader(body))
	if err != nil {
		return h.refuse("LMCache: receiver_host: %v", err)
	}
	res, err := httpclient.New(nil).Do(req)
	if err != nil {
		return fmt.Errorf("LMCache: no decoder receives at %s:%d: %w", host, port, ErrLoad)
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	if res.StatusCode != http.StatusOK {
		return h.refuse("LMCache: the decoder says %s", said)
	}
	return nil
}

// notify tells the router that a rank has finished pushing.
func (h *lmcache) notify(id string) {
	h.lm.Lock()
	defer h.lm.Unlock()
	if h.config.Notify == "" || h.mute || h.closed {
		return
	}
	if h.push == nil {
		push, err := zmtp.Dial(context.Background(), "tcp://"+h.config.Notify, zmtp.Config{Kind: zmtp.Push})
		if err != nil {
			return
		}
		h.push = push
		h.serving.Go(func() { // answers the router's heartbeats, until the connection ends
			_, _ = push.Receive()
			_ = push.Close()
		})
	}
	b := msgp.AppendMapHeader(nil, 2)
	b = msgp.AppendString(msgp.AppendString(b, "type"), "ProxyNotif")
	b = msgp.AppendString(msgp.AppendString(b, "req_id"), id)
	if h.push.Send(b) != nil { // a router that is gone does not get it
		_ = h.push.Close()
		h.push = nil
	}
}

// Mute switches an LMCache prefiller's notifications to the router off or on.
func (h *lmcache) Mute(off bool) {
	h.lm.Lock()
	defer h.lm.Unlock()
	h.mute = off
}

// Close implements connector.
func (h *lmcache) Close() {
	h.lm.Lock()
	h.closed = true
	push, ports := h.push, h.ports
	h.lm.Unlock()
	for _, l := range ports {
		_ = l.Close()
	}
	if push != nil {
		_ = push.Close()
	}
	h.serving.Wait()
}

// Open implements connector: running pushes.
func (h *lmcache) Open() int {
	h.lm.Lock()
	defer h.lm.Unlock()
	return h.pushing
}

// Load implements connector: nothing is fetched, but the computed prompt will be pushed.
func (h *lmcache) Load(_ *http.Request, ans *api.Answer, chain []uint64) error {
	if leg, _ := ans.Ask.Leg.(*lmLeg); leg != nil {
		leg.chain = chain
	}
	return nil
}

// Computed implements connector.
func (h *lmcache) Computed(r *http.Request, ans *api.Answer) (err error) {
	leg, _ := ans.Ask.Leg.(*lmLeg)
	if leg == nil || leg.spec == nil {
		return nil
	}
	if ans.Handed, err = h.announce(r, ans, leg); errors.Is(err, ErrLoad) {
		h.count(&h.stats.Failed)
	}
	return err
}
