package api

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// maxResponses bounds the responses an engine remembers, oldest evicted first.
const maxResponses = 1000

// ResponseStore remembers finished responses and cancels running ones.
type ResponseStore struct {
	mu      sync.Mutex
	byID    map[string]*storedResponse
	ordered []string
}

func (st *ResponseStore) put(id string, r *storedResponse) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.byID == nil {
		st.byID = make(map[string]*storedResponse)
	}
	if _, again := st.byID[id]; !again {
		st.ordered = append(st.ordered, id)
	}
	st.byID[id] = r
	for len(st.ordered) > maxResponses {
		delete(st.byID, st.ordered[0])
		st.ordered = st.ordered[1:]
	}
}

// Find returns the response with an id; nil for none.
func (st *ResponseStore) Find(id string) *storedResponse {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.byID[id]
}

// Remove drops a response and reports whether it existed.
func (st *ResponseStore) Remove(id string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, ok := st.byID[id]; !ok {
		return false
	}
	delete(st.byID, id)
	for i, other := range st.ordered {
		if other == id {
			st.ordered = append(st.ordered[:i:i], st.ordered[i+1:]...)
			break
		}
	}
	return true
}

// Clear drops all responses.
func (st *ResponseStore) Clear() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.byID, st.ordered = nil, nil
}

// storedResponse is one of them.
type storedResponse struct {
	Messages []prompts.Message // the conversation including the answer
	Body     json.RawMessage
}

// NewResponses writes a response that continues previous (a response id, "" for none) and history, and stores it if
// store is set.
func NewResponses(s Style, kept *ResponseStore, history []prompts.Message, store bool, previous string) Shape {
	return &responses{Style: s, responses: kept, history: history, store: store, previous: previous}
}

// responses writes a response and stores the complete one.
type responses struct {
	Style
	responses *ResponseStore
	history   []prompts.Message
	store     bool
	previous  string
	seq       int
}

func (p *responses) id(a *Answer) string { return "resp_" + a.Ask.Id }

func (p *responses) object(a *Answer, status string, text *string) map[string]any {
	v := map[string]any{
		"id": p.id(a), "object": "response", "created_at": a.Created, "status": status, "model": a.Ask.Model,
		"output": []any{}, "previous_response_id": nil, "store": p.store, "usage": nil, "error": nil,
		"metadata": map[string]string{"simulated": "warmpath"},
	}
	if p.previous != "" {
		v["previous_response_id"] = p.previous
	}
	if text == nil {
		return v
	}
	v["output"] = []any{p.item(a, "completed", []any{outputText(*text)})}
	u := map[string]any{
		"input_tokens": a.PromptTokens, "output_tokens": a.Made, "total_tokens": a.PromptTokens + a.Made,
		"output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	if !p.NoCacheReport {
		u["input_tokens_details"] = map[string]any{"cached_tokens": a.Progress.Cached}
	}
	v["usage"] = u
	return v
}

func (p *responses) item(a *Answer, status string, content []any) map[string]any {
	return map[string]any{
		"id": "msg_" + a.Ask.Id, "type": "message", "role": "assistant", "status": status, "content": content,
	}
}

func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func (p *responses) event(b []byte, name string, v map[string]any) []byte {
	v["sequence_number"] = p.seq
	p.seq++
	return named(b, name, v)
}

func (p *responses) Open(b []byte, a *Answer) []byte {
	b = p.event(b, "response.created", map[string]any{"response": p.object(a, "in_progress", nil)})
	b = p.event(b, "response.in_progress", map[string]any{"response": p.object(a, "in_progress", nil)})
	b = p.event(b, "response.output_item.added", map[string]any{
		"output_index": 0, "item": p.item(a, "in_progress", []any{}),
	})
	return p.event(b, "response.content_part.added", map[string]any{
		"item_id": "msg_" + a.Ask.Id, "output_index": 0, "content_index": 0, "part": outputText(""),
	})
}

func (p *responses) Token(b []byte, a *Answer, i int) []byte {
	return p.event(b, "response.output_text.delta", map[string]any{
		"item_id": "msg_" + a.Ask.Id, "output_index": 0, "content_index": 0, "delta": a.piece(i),
	})
}

func (p *responses) Closing(b []byte, a *Answer) []byte {
	at := map[string]any{"item_id": "msg_" + a.Ask.Id, "output_index": 0, "content_index": 0, "text": a.Text}
	b = p.event(b, "response.output_text.done", at)
	b = p.event(b, "response.content_part.done", map[string]any{
		"item_id": "msg_" + a.Ask.Id, "output_index": 0, "content_index": 0, "part": outputText(a.Text),
	})
	b = p.event(b, "response.output_item.done", map[string]any{
		"output_index": 0, "item": p.item(a, "completed", []any{outputText(a.Text)}),
	})
	return p.event(b, "response.completed", map[string]any{"response": p.Whole(a)})
}

func (p *responses) Failure(b []byte, status int, msg string) []byte {
	return p.event(b, "error", map[string]any{"code": status, "message": msg, "param": nil})
}

func (p *responses) Whole(a *Answer) any {
	v := p.object(a, "completed", &a.Text)
	if p.store {
		answered := append(p.history[:len(p.history):len(p.history)],
			prompts.Message{Role: "assistant", Content: prompts.Quoted(a.Text)})
		p.responses.put(p.id(a), &storedResponse{Messages: answered, Body: prompts.AppendJSON(nil, v)})
	}
	return v
}

func (*responses) ContentType() string { return "text/event-stream; charset=utf-8" }

// InputMessages reads the input of a response: a text, or a list of items. Other items than messages (tool calls and
// their outputs) count as a message of their type.
func InputMessages(raw json.RawMessage) ([]prompts.Message, error) {
	raw = bytes.TrimSpace(raw)
	if !prompts.Present(raw) {
		return nil, Bad("is missing")
	}
	if raw[0] == '"' {
		return []prompts.Message{{Role: "user", Content: raw}}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, Bad("must be a string or a list of items")
	}
	var out []prompts.Message
	for _, item := range items {
		var m struct {
			prompts.Message
			Type string `json:"type"`
		}
		if err := json.Unmarshal(item, &m); err != nil {
			return nil, err
		}
		if m.Role == "" {
			if m.Type == "" {
				return nil, Bad("an item has neither role nor type")
			}
			m.Message = prompts.Message{Role: m.Type, Content: prompts.Quoted(string(item))}
		}
		out = append(out, m.Message)
	}
	if len(out) == 0 {
		return nil, Bad("must not be empty")
	}
	return out, nil
}
