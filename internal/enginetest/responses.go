package enginetest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
)

// maxResponses bounds how many responses an engine remembers; the oldest is forgotten first.
const maxResponses = 1000

// responseStore remembers finished responses and cancels running ones.
type responseStore struct {
	mu      sync.Mutex
	byID    map[string]*storedResponse
	ordered []string
}

// storedResponse is one of them.
type storedResponse struct {
	messages []message // the conversation up to and with the answer
	body     json.RawMessage
}

func (st *responseStore) put(id string, r *storedResponse) {
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

func (st *responseStore) find(id string) *storedResponse {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.byID[id]
}

func (st *responseStore) remove(id string) bool {
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

func (st *responseStore) clear() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.byID, st.ordered = nil, nil
}

// responsesRoutes are OpenAI's responses API.
func (s *Server) responsesRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/responses", s.createResponse)
	m.HandleFunc("GET /v1/responses/{id}", func(w http.ResponseWriter, r *http.Request) {
		if st := s.responses.find(r.PathValue("id")); st != nil {
			writeJSON(w, http.StatusOK, st.body)
			return
		}
		s.noResponse(w, r, r.PathValue("id"))
	})
	m.HandleFunc("DELETE /v1/responses/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		if !s.responses.remove(id) {
			s.noResponse(w, r, id)
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"id": id, "object": "response", "deleted": true})
	})
	m.HandleFunc("POST /v1/responses/{id}/cancel", func(w http.ResponseWriter, r *http.Request) {
		if s.responses.find(r.PathValue("id")) == nil {
			s.noResponse(w, r, r.PathValue("id"))
			return
		}
		// Only responses that run in the background can be cancelled, and the simulated engine has none.
		s.fail(w, r, http.StatusBadRequest, "invalid_request_error", "Cannot cancel a synchronous response.")
	})
}

func (s *Server) noResponse(w http.ResponseWriter, r *http.Request, id string) {
	s.fail(w, r, http.StatusNotFound, "invalid_request_error", "Response with id '"+id+"' not found.")
}

func (s *Server) createResponse(w http.ResponseWriter, r *http.Request) {
	var f struct {
		fields
		Instructions string `json:"instructions"`
		Previous     string `json:"previous_response_id"`
		Store        *bool  `json:"store"`
		Background   bool   `json:"background"`
	}
	err := s.read(w, r, &f)
	var a *ask
	if err == nil {
		a, err = s.newAsk(r, &f.fields)
	}
	if err == nil && f.Background {
		err = bad("the simulated engine runs no responses in the background")
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	a.usage = true
	var msgs []message
	if f.Instructions != "" {
		msgs = append(msgs, message{Role: "system", Content: quoted(f.Instructions)})
	}
	var history []message
	if f.Previous != "" {
		st := s.responses.find(f.Previous)
		if st == nil {
			s.noResponse(w, r, f.Previous)
			return
		}
		history = append(history, st.messages...)
	}
	input, err := inputMessages(f.Input)
	if err != nil {
		s.failWith(w, r, bad("input: %v", err))
		return
	}
	history = append(history, input...)
	if a.prompt, err = render(nil, f.Tools, append(msgs, history...)); err != nil {
		s.failWith(w, r, bad("%v", err))
		return
	}
	s.play(w, r, a, &responsesShape{s: s, history: history, store: f.Store == nil || *f.Store, previous: f.Previous})
}

// inputMessages takes the input of a response: a text, or a list of items. Items that are no messages (tool calls and
// their outputs) count as a message of their type.
func inputMessages(raw json.RawMessage) ([]message, error) {
	raw = bytes.TrimSpace(raw)
	if !present(raw) {
		return nil, bad("is missing")
	}
	if raw[0] == '"' {
		return []message{{Role: "user", Content: raw}}, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, bad("must be a string or a list of items")
	}
	var out []message
	for _, item := range items {
		var m struct {
			message
			Type string `json:"type"`
		}
		if err := json.Unmarshal(item, &m); err != nil {
			return nil, err
		}
		if m.Role == "" {
			if m.Type == "" {
				return nil, bad("an item has neither role nor type")
			}
			m.message = message{Role: m.Type, Content: quoted(string(item))}
		}
		out = append(out, m.message)
	}
	if len(out) == 0 {
		return nil, bad("must not be empty")
	}
	return out, nil
}

func quoted(s string) json.RawMessage { return appendString(nil, s) }

// responsesShape writes a response, and stores it when it is complete.
type responsesShape struct {
	s        *Server
	history  []message
	store    bool
	previous string
	seq      int
}

func (*responsesShape) contentType() string { return "text/event-stream; charset=utf-8" }

func (p *responsesShape) id(a *answer) string { return "resp_" + a.ask.id }

func (p *responsesShape) object(a *answer, status string, text *string) map[string]any {
	v := map[string]any{
		"id": p.id(a), "object": "response", "created_at": a.created, "status": status, "model": a.ask.model,
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
		"input_tokens": a.promptTokens, "output_tokens": a.made, "total_tokens": a.promptTokens + a.made,
		"output_tokens_details": map[string]any{"reasoning_tokens": 0},
	}
	if !p.s.opts.NoCacheReport {
		u["input_tokens_details"] = map[string]any{"cached_tokens": a.progress.cached}
	}
	v["usage"] = u
	return v
}

func (p *responsesShape) item(a *answer, status string, content []any) map[string]any {
	return map[string]any{"id": "msg_" + a.ask.id, "type": "message", "role": "assistant", "status": status, "content": content}
}

func outputText(text string) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}}
}

func (p *responsesShape) event(b []byte, name string, v map[string]any) []byte {
	v["sequence_number"] = p.seq
	p.seq++
	return named(b, name, v)
}

func (p *responsesShape) open(b []byte, a *answer) []byte {
	b = p.event(b, "response.created", map[string]any{"response": p.object(a, "in_progress", nil)})
	b = p.event(b, "response.in_progress", map[string]any{"response": p.object(a, "in_progress", nil)})
	b = p.event(b, "response.output_item.added", map[string]any{"output_index": 0, "item": p.item(a, "in_progress", []any{})})
	return p.event(b, "response.content_part.added", map[string]any{
		"item_id": "msg_" + a.ask.id, "output_index": 0, "content_index": 0, "part": outputText(""),
	})
}

func (p *responsesShape) token(b []byte, a *answer, i int) []byte {
	return p.event(b, "response.output_text.delta", map[string]any{
		"item_id": "msg_" + a.ask.id, "output_index": 0, "content_index": 0, "delta": a.piece(i),
	})
}

func (p *responsesShape) closing(b []byte, a *answer) []byte {
	at := map[string]any{"item_id": "msg_" + a.ask.id, "output_index": 0, "content_index": 0, "text": a.text}
	b = p.event(b, "response.output_text.done", at)
	b = p.event(b, "response.content_part.done", map[string]any{
		"item_id": "msg_" + a.ask.id, "output_index": 0, "content_index": 0, "part": outputText(a.text),
	})
	b = p.event(b, "response.output_item.done", map[string]any{
		"output_index": 0, "item": p.item(a, "completed", []any{outputText(a.text)}),
	})
	return p.event(b, "response.completed", map[string]any{"response": p.whole(a)})
}

func (p *responsesShape) failure(b []byte, status int, msg string) []byte {
	return p.event(b, "error", map[string]any{"code": status, "message": msg, "param": nil})
}

func (p *responsesShape) whole(a *answer) any {
	v := p.object(a, "completed", &a.text)
	if p.store {
		answered := append(p.history[:len(p.history):len(p.history)], message{Role: "assistant", Content: quoted(a.text)})
		p.s.responses.put(p.id(a), &storedResponse{messages: answered, body: appendJSON(nil, v)})
	}
	return v
}
