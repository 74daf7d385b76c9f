package enginetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

// The hand-over of vLLM's NixlConnector (0.32.0), both sides. Where a real engine would answer from another prompt, hang or die when
// it is told something wrong, the simulated one refuses with a 400 of the type "SimulatedProtocolError" and counts it in
// Stats.KV.Refused: a router that passes its tests has told nobody anything wrong. What is nobody's mistake (the prefiller is gone,
// the lease is over) is a 500, as with kv_load_failure_policy "fail".
//
// The real side channel is ZMQ and RDMA; here a decoder asks the prefiller for the blocks over HTTP, at POST /_sim/kv.

// kvLeases are what a prefiller holds for decoders.
type kvLeases struct {
	mu    sync.Mutex // guards what follows
	open  map[string]*kvLease
	over  map[string]string // what became of leases, the latest mostOver of them
	order []string
	next  int   // of block ids
	lose  bool  // see LoseKV
	perf  []any // of TensorRT-LLM, see perfMetrics
	stats KVStats

	back     map[string]*backLease // see holdKV
	backOver map[string]string
}

const mostOver = 4096

// kvLease is the blocks of one prompt.
type kvLease struct {
	params  []byte // as handed over, canonical
	prompt  uint64
	length  int // of the prompt in bytes, where its tokens do not tell
	expires *time.Timer
}

// KVStats count hand-overs.
type KVStats struct {
	Handed  uint64 `json:"handed"`  // prompts computed for a decoder
	Taken   uint64 `json:"taken"`   // of these, fetched by one
	Expired uint64 `json:"expired"` // of these, given up when the lease was over
	Open    int    `json:"open"`    // leases that are neither
	Loaded  uint64 `json:"loaded"`  // prompts fetched from a prefiller
	Failed  uint64 `json:"failed"`  // prompts that could not be fetched
	Refused uint64 `json:"refused"` // requests against the protocol

	BackHeld    uint64 `json:"back_held,omitempty"`    // answers of which a decoder holds the blocks for the next turn
	BackTaken   uint64 `json:"back_taken,omitempty"`   // of these, fetched by a prefiller
	BackExpired uint64 `json:"back_expired,omitempty"` // of these, given up when their time was over
	BackLoaded  uint64 `json:"back_loaded,omitempty"`  // prompts whose beginning was fetched from a decoder
}

// KV is a snapshot of the hand-overs.
func (s *Server) KV() KVStats {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	st := s.kv.stats
	st.Open = len(s.kv.open) + s.meets.count()
	s.lm.mu.Lock()
	st.Open += s.lm.pushing
	s.lm.mu.Unlock()
	return st
}

// kvAsk is what a request says about a hand-over.
type kvAsk struct {
	prefill bool   // it is to be handed to a decoder
	params  []byte // it is to be fetched from a prefiller; nil when not
	cached  int    // prompt tokens that the prefiller had cached; -1 when it does not say
	back    []byte // of a prefill leg: where the beginning of the conversation lies; nil for nowhere
}

// kvParams are the members that a decoder looks at.
type kvParams struct {
	RemoteDecode  bool            `json:"do_remote_decode"`
	RemotePrefill bool            `json:"do_remote_prefill"`
	Blocks        json.RawMessage `json:"remote_block_ids"`
	Engine        *string         `json:"remote_engine_id"`
	Request       *string         `json:"remote_request_id"`
	Host          *string         `json:"remote_host"`
	Port          json.RawMessage `json:"remote_port"`
	Cached        *int            `json:"remote_prefill_cached_tokens"`
}

// refuse counts a request against the protocol and answers it.
func (s *Server) refuse(format string, args ...any) error {
	s.kv.mu.Lock()
	s.kv.stats.Refused++
	s.kv.mu.Unlock()
	return &badRequest{status: http.StatusBadRequest, kind: "SimulatedProtocolError", msg: "simulated hand-over: " + fmt.Sprintf(format, args...)}
}

// readKV reads kv_transfer_params.
func (s *Server) readKV(f *fields, a *ask) error {
	if s.opts.Connector != "nixl" || !present(f.KVTransferParams) {
		return nil
	}
	var p kvParams
	if err := json.Unmarshal(f.KVTransferParams, &p); err != nil {
		return s.refuse("kv_transfer_params: %v", err)
	}
	switch {
	case p.RemotePrefill && p.RemoteDecode:
		return s.refuse("a request cannot be both legs")
	case p.RemoteDecode:
		if a.stream || f.StreamOptions != nil {
			return s.refuse("a prefill leg must not stream")
		}
		if a.maxTokens != 1 || a.minTokens > 1 {
			return s.refuse("a prefill leg must make one token, this one makes %d", a.maxTokens)
		}
		a.kv = &kvAsk{prefill: true}
		return s.readBack(f.KVTransferParams, &p, a)
	case p.RemotePrefill:
		for name, missing := range map[string]bool{
			"remote_block_ids": !present(p.Blocks), "remote_engine_id": p.Engine == nil,
			"remote_request_id": p.Request == nil && !s.opts.OldKV, "remote_host": p.Host == nil, "remote_port": !present(p.Port),
		} {
			if missing {
				return s.refuse("kv_transfer_params lack %s: a real engine does not survive that", name)
			}
		}
		a.kv = &kvAsk{params: f.KVTransferParams, cached: -1}
		if p.Cached != nil {
			a.kv.cached = *p.Cached
		}
	}
	return nil
}

// promptHash identifies what the KV cache of a prompt depends on.
func promptHash(a *ask) uint64 {
	return xxh3.HashSeed(a.prompt, xxh3.HashString(a.model+"\x00"+a.salt))
}

// handKV opens a lease for a computed prompt and returns what the decoder is to be told.
func (s *Server) handKV(a *ask, promptTokens, cached int) json.RawMessage {
	host, port := s.kvAddr()
	blocks := (promptTokens + s.opts.Engine.BlockTokens - 1) / s.opts.Engine.BlockTokens
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	ids := make([]int, blocks)
	for i := range ids {
		ids[i] = s.kv.next % (1 << 20)
		s.kv.next++
	}
	id := a.id + fmt.Sprintf("-%08x", uint32(xxh3.HashString(a.id)+uint64(s.kv.next)))
	var b []byte
	b = append(b, `{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":`...)
	if s.opts.OldKV {
		b = appendJSON(b, ids)
	} else {
		b = appendJSON(b, [][]int{ids})
	}
	b = append(b, `,"remote_engine_id":`...)
	b = appendString(b, s.kvEngine())
	if !s.opts.OldKV {
		b = append(b, `,"remote_request_id":`...)
		b = appendString(b, id)
	}
	b = append(b, `,"remote_host":`...)
	b = appendString(b, host)
	b = append(b, `,"remote_port":`+strconv.Itoa(port)...)
	b = append(b, `,"tp_size":1`...)
	if !s.opts.OldKV {
		b = append(b, `,"dcp_size":1,"pp_size":1,"remote_num_tokens":`+strconv.Itoa(promptTokens)+
			`,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":`+strconv.Itoa(cached)...)
	}
	b = append(b, '}')
	key := kvKey(b)
	s.openKV(key, &kvLease{params: b, prompt: promptHash(a)})
	return b
}

// openKV keeps what is handed over until it is fetched or its lease is over. The caller holds s.kv.mu.
func (s *Server) openKV(key string, l *kvLease) {
	l.expires = time.AfterFunc(s.opts.KVLease, func() { s.endKV(key, "the lease is over", &s.kv.stats.Expired) })
	if s.kv.open == nil {
		s.kv.open, s.kv.over = map[string]*kvLease{}, map[string]string{}
	}
	s.kv.open[key] = l
	s.kv.stats.Handed++
}

// takeKV ends a lease for a decoder that fetches it, once, and says whether it did. l is nil when none is open, and why says how it
// ended, "" for never begun; changed is what the decoder has otherwise than it was told, prompt the hash of its prompt. A decoder that
// is wrong is told so.
func (s *Server) takeKV(w http.ResponseWriter, key string, l *kvLease, why, changed, prompt string) bool {
	wrong := changed
	switch {
	case l == nil && why != "":
		wrong = "the blocks were used before: " + why
	case l == nil:
		wrong = "there are no such blocks"
	case changed != "":
	case prompt != strconv.FormatUint(l.prompt, 16):
		wrong = "the blocks are of another prompt: a real engine answers with a wrong text"
	default:
		if _, ok := s.endKV(key, "fetched", &s.kv.stats.Taken); ok {
			return true
		}
		wrong = "the blocks were used before"
	}
	writeJSON(w, http.StatusConflict, errorObject(http.StatusConflict, "Conflict", wrong))
	return false
}

// kvKey is what a lease is found by: its blocks, which no two open leases share.
func kvKey(params []byte) string {
	var p kvParams
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	return string(p.Blocks)
}

// endKV closes a lease and counts it; it says whether it was open.
func (s *Server) endKV(key, why string, counter *uint64) (l *kvLease, ok bool) {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	if l, ok = s.kv.open[key]; !ok {
		return nil, false
	}
	l.expires.Stop()
	delete(s.kv.open, key)
	*counter++
	s.kv.over[key] = why
	s.kv.order = append(s.kv.order, key)
	if len(s.kv.order) > mostOver {
		delete(s.kv.over, s.kv.order[0])
		s.kv.order = s.kv.order[1:]
	}
	return l, true
}

// forgetKV drops all leases: the engine restarts.
func (s *Server) forgetKV() {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	s.meets.forget()
	for key, l := range s.kv.open {
		l.expires.Stop()
		delete(s.kv.open, key)
	}
	for key, l := range s.kv.back {
		l.expires.Stop()
		delete(s.kv.back, key)
	}
}

// kvEngine is the engine's id, new with each start.
func (s *Server) kvEngine() string {
	h := xxh3.HashStringSeed(s.address(), s.opts.Seed+s.tally.restarts.Load())
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", h>>32, h>>16&0xffff, h&0xffff, h>>8&0xffff, h&0xffffffffffff)
}

// address is host:port of the port that Listen got, "" without one.
func (s *Server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// kvAddr is where decoders fetch blocks.
func (s *Server) kvAddr() (host string, port int) {
	h, p, err := net.SplitHostPort(s.address())
	if err != nil {
		return "127.0.0.1", 0
	}
	port, _ = strconv.Atoi(p)
	return h, port
}

// kvTake is what a decoder asks a prefiller.
type kvTake struct {
	Params json.RawMessage `json:"params"`
	Prompt string          `json:"prompt"` // hash, hexadecimal
}

// postKV hands the blocks of a lease to a decoder, once.
func (s *Server) postKV(w http.ResponseWriter, r *http.Request) {
	var t kvTake
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 16<<20)).Decode(&t); err != nil {
		writeJSON(w, http.StatusBadRequest, errorObject(http.StatusBadRequest, "BadRequestError", err.Error()))
		return
	}
	var p kvParams
	_ = json.Unmarshal(t.Params, &p)
	key := kvKey(t.Params)
	s.kv.mu.Lock()
	l, why, lost := s.kv.open[key], s.kv.over[key], s.kv.lose
	s.kv.lose = false
	s.kv.mu.Unlock()
	if lost {
		s.endKV(key, "the lease is over", &s.kv.stats.Expired)
		panic(http.ErrAbortHandler)
	}
	gone := func(msg string) {
		writeJSON(w, http.StatusGone, errorObject(http.StatusGone, "Gone", msg))
	}
	changed := ""
	if l != nil && !bytes.Equal(t.Params, l.params) {
		changed = "kv_transfer_params were changed on the way: " + string(t.Params) + " was " + string(l.params)
	}
	switch {
	case p.Engine == nil || *p.Engine != s.kvEngine():
		gone("this engine has another id: it was restarted")
	case l == nil && why == "the lease is over":
		gone(why)
	case s.takeKV(w, key, l, why, changed, t.Prompt):
		w.WriteHeader(http.StatusOK)
	}
}

// LoseKV makes the next hand-over fail as if the engine had been killed after its reply: the blocks are gone when they are fetched.
func (s *Server) LoseKV() {
	s.kv.mu.Lock()
	defer s.kv.mu.Unlock()
	s.kv.lose = true
}
