package handover

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
	simtext "github.com/warmpath/warmpath/sim/text"
)

// TensorRT-LLM's protocol, both roles and both schedule styles. Parameters with which a real worker would answer from
// another prompt or wait for ever are rejected with a 400 of the type "SimulatedProtocolError" and counted in
// Stats.KV.Refused. Unknown members of disaggregated_params are rejected, as by real workers.
//
// The real cache transceiver is NIXL, UCX or MPI; here a generation worker sends POST /_sim/trt to the context worker.

type trtllm struct {
	*host
	perf []any // see perfMetrics; the host's mu guards it
}

// trtLeg is a request's part in a transfer.
type trtLeg struct {
	context bool // context_only, else generation_only
	first   bool // generation-first
	id      uint64
	params  trtParams
	ids     []uint32 // the given token ids; nil without
}

// trtParams is the schema of disaggregated_params (openai_protocol.py, summer of 2026).
type trtParams struct {
	RequestType  string          `json:"request_type"`
	First        []uint32        `json:"first_gen_tokens,omitempty"`
	FirstLogs    json.RawMessage `json:"first_gen_log_probs,omitempty"`
	FirstLogits  json.RawMessage `json:"first_gen_logits,omitempty"`
	CtxID        *uint64         `json:"ctx_request_id,omitempty"`
	State        string          `json:"encoded_opaque_state,omitempty"`
	Draft        []uint32        `json:"draft_tokens"`
	ID           *uint64         `json:"disagg_request_id,omitempty"`
	Rank         *int            `json:"ctx_dp_rank,omitempty"`
	At           string          `json:"ctx_info_endpoint,omitempty"`
	Style        *int            `json:"schedule_style,omitempty"`
	Usage        *trtUsage       `json:"ctx_usage,omitempty"`
	Base64       bool            `json:"return_prompt_token_ids_b64,omitempty"`
	IsFirstTurn  *bool           `json:"is_first_turn,omitempty"`
	Conversation *string         `json:"conversation_id,omitempty"` // of older versions only
}

type trtUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// firstDisaggID and lastDisaggID bound the ids that an orchestrator may use.
const (
	firstDisaggID = 1 << 40
	lastDisaggID  = 1<<63 - 1
)

// Read implements connector: it reads disaggregated_params and related members.
func (h *trtllm) Read(r *http.Request, f *api.Fields, a *api.Ask) error {
	if prompts.Present(f.ConversationParams) {
		var c map[string]string
		if err := json.Unmarshal(f.ConversationParams, &c); err != nil || h.config.Old || len(c) != 1 ||
			c["conversation_id"] == "" {
			return h.refuse("conversation_params: extra inputs are not permitted")
		}
	}
	ids, err := toldIDs(f)
	if err != nil {
		return h.refuse("%v", err)
	}
	if !prompts.Present(f.DisaggregatedParams) {
		if ids != nil {
			a.Prompt = prompts.TokenBytes(ids)
		}
		return nil
	}
	t := &trtLeg{ids: ids}
	d := json.NewDecoder(bytes.NewReader(f.DisaggregatedParams))
	d.DisallowUnknownFields()
	if err := d.Decode(&t.params); err != nil {
		return h.refuse("disaggregated_params: %v", err)
	}
	p := &t.params
	switch {
	case p.Conversation != nil && !h.config.Old:
		return h.refuse("disaggregated_params: conversation_id: extra inputs are not permitted")
	case p.ID == nil || *p.ID < firstDisaggID || *p.ID >= lastDisaggID:
		return h.refuse("disagg_request_id must be set, and from 2^40 to 2^63-2")
	case p.Style == nil || *p.Style != 0 && *p.Style != 1:
		return h.refuse("schedule_style must be 0 or 1")
	case f.N != nil && *f.N != 1:
		return h.refuse("one choice is made for a request in two legs")
	}
	t.id, t.first = *p.ID, *p.Style == 1
	a.Leg = t
	switch p.RequestType {
	case "context_only":
		t.context = true
		return h.checkContext(f, a, t)
	case "generation_only":
		return h.checkGeneration(r, f, t)
	}
	return h.refuse("request_type %q", p.RequestType)
}

func (h *trtllm) checkContext(f *api.Fields, a *api.Ask, t *trtLeg) error {
	p := &t.params
	key := trtKey(t.id)
	h.mu.Lock()
	_, open := h.held[key]
	_, over := h.over[key]
	h.mu.Unlock()
	switch {
	case a.Stream || f.StreamOptions != nil:
		return h.refuse("a context leg must not stream")
	case open || over:
		return h.refuse("the id %d is used a second time", t.id)
	case p.First != nil || p.CtxID != nil || p.State != "" || p.Usage != nil || p.At != "":
		return h.refuse("a context leg was told what only a generation leg is told")
	}
	return nil
}

func (h *trtllm) checkGeneration(r *http.Request, f *api.Fields, t *trtLeg) error {
	p := &t.params
	if p.CtxID == nil || *p.CtxID != t.id {
		return h.refuse("ctx_request_id is not that of the context leg")
	}
	if h.config.Key != "" && (p.At != "" || p.State != "") {
		want := "sha256=" + trtSign(h.config.Key, p)
		if got := r.Header.Get("X-Trtllm-Disagg-Auth"); got != want {
			return h.refuse("x-trtllm-disagg-auth is missing or wrong: %q", got)
		}
	}
	switch {
	case p.At == "":
		return h.refuse("ctx_info_endpoint is missing: the engine that has the cache is unknown")
	case t.first && (p.First != nil || p.State != ""):
		return h.refuse("generation-first knows no first token and no state yet")
	case t.first:
		return nil
	case len(p.First) != 1 || p.State == "":
		return h.refuse("first_gen_tokens or encoded_opaque_state is missing")
	case t.ids == nil && len(f.Messages) > 0:
		return h.refuse("prompt_token_ids are missing")
	case p.Usage == nil:
		return h.refuse("ctx_usage is missing")
	}
	return nil
}

// toldIDs are the given token ids of a chat's prompt.
func toldIDs(f *api.Fields) (ids []uint32, err error) {
	if prompts.Present(f.PromptTokenIDs) {
		err = json.Unmarshal(f.PromptTokenIDs, &ids)
	}
	if f.PromptTokenIDsB64 != "" && err == nil {
		var b []byte
		if b, err = base64.StdEncoding.DecodeString(f.PromptTokenIDsB64); err == nil && len(b)%4 != 0 {
			err = fmt.Errorf("prompt_token_ids_b64 are not numbers of 32 bits")
		}
		for ids = []uint32{}; len(b) >= 4; b = b[4:] {
			ids = append(ids, binary.LittleEndian.Uint32(b))
		}
	}
	return ids, err
}

func trtKey(id uint64) string { return "trt " + strconv.FormatUint(id, 10) }

// hand opens a lease for a computed prompt and returns the reply's parameters.
func (h *trtllm) hand(ans *api.Answer, t *trtLeg) trtParams {
	key := trtKey(t.id)
	state := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s/%d/%016x", h.engineID(), t.id,
		idsHash(ans.Ask, ans.Ask.Prompt)))
	rank := ans.Rank
	p := trtParams{
		RequestType: "context_only", First: prompts.TokenIDs([]byte(ans.Text[:simtext.TokenBytes])), CtxID: &t.id,
		ID: &t.id, State: state, Rank: &rank, At: "tcp://" + h.engine.Address(),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold(key, &lease{params: []byte(state), prompt: idsHash(ans.Ask, ans.Ask.Prompt), length: len(ans.Ask.Prompt)})
	return p
}

// Computed implements connector: a context leg's reply contains the cache's location. In generation-first it waits
// until the cache has been fetched.
func (h *trtllm) Computed(r *http.Request, ans *api.Answer) error {
	t, _ := ans.Ask.Leg.(*trtLeg)
	if t == nil || !t.context {
		return nil
	}
	var told *trtParams
	if t.first || ans.Finish != "stop" {
		p := h.hand(ans, t)
		told = &p
		h.notePerf(t.id)
	}
	ans.Extra = func(reply, choice map[string]any) { t.tell(ans, told, reply, choice) }
	if !t.first {
		return nil
	}
	notFetched := errors.New("the generation worker did not come for the KV cache")
	key := trtKey(t.id)
	for r.Context().Err() == nil {
		h.mu.Lock()
		why := h.over[key]
		h.mu.Unlock()
		switch why {
		case "":
			time.Sleep(time.Millisecond)
		case "fetched":
			return nil
		default:
			return notFetched
		}
	}
	h.end(key, "the lease is over", &h.stats.Expired)
	return notFetched
}

// tell adds the generation worker's parameters to a context worker's reply.
func (t *trtLeg) tell(ans *api.Answer, told *trtParams, reply, choice map[string]any) {
	choice["disaggregated_params"] = told
	ids := prompts.TokenIDs(ans.Ask.Prompt)
	if !t.params.Base64 {
		reply["prompt_token_ids"] = ids
		return
	}
	b := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	reply["prompt_token_ids_b64"] = base64.StdEncoding.EncodeToString(b)
}

// trtOwn reports whether a first token is the one with which this engine's answer begins.
func trtOwn(first []uint32, text string) bool {
	return slices.Equal(first, prompts.TokenIDs([]byte(text[:simtext.TokenBytes])))
}
