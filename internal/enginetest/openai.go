package enginetest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/warmpath/warmpath/fleet"
)

// openAIRoutes are the paths that all dialects have in OpenAI's form.
func (s *Server) openAIRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/chat/completions", s.chat)
	m.HandleFunc("POST /v1/completions", s.completions)
	m.HandleFunc("GET /v1/models", s.models)
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var f fields
	a, err := s.askChat(w, r, &f)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.play(w, r, a, &openAIShape{s: s, chat: true})
}

// askChat reads a chat request and renders its prompt.
func (s *Server) askChat(w http.ResponseWriter, r *http.Request, f *fields) (*ask, error) {
	if err := s.read(w, r, f); err != nil {
		return nil, err
	}
	a, err := s.newAsk(r, f)
	if err != nil {
		return nil, err
	}
	if len(f.Messages) == 0 {
		return nil, bad("messages must be a list of at least one message")
	}
	told := a.prompt
	if a.prompt, err = s.rendered(f); err != nil {
		return nil, bad("%v", err)
	}
	if told != nil {
		a.prompt = told
	}
	return a, nil
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var f fields
	if err := s.read(w, r, &f); err != nil {
		s.failWith(w, r, err)
		return
	}
	a, err := s.newAsk(r, &f)
	if err == nil {
		a.prompt, err = s.prompted(&f)
		if err != nil {
			err = bad("%v", err)
		}
	}
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if a.maxTokens == 0 && !s.dialect.lanes {
		a.maxTokens = 16 // OpenAI's default for completions
	}
	s.play(w, r, a, &openAIShape{s: s})
}

// openAIShape writes chat completions and completions.
type openAIShape struct {
	s    *Server
	chat bool
	head []byte // what every chunk of the stream begins with
}

func (*openAIShape) contentType() string { return "text/event-stream; charset=utf-8" }

func (o *openAIShape) id(a *answer) string {
	switch {
	case o.s.opts.Dialect == fleet.KindSGLang:
		return a.ask.id
	case o.chat:
		return "chatcmpl-" + a.ask.id
	default:
		return "cmpl-" + a.ask.id
	}
}

func (o *openAIShape) open(b []byte, a *answer) []byte {
	object := "text_completion"
	if o.chat {
		object = "chat.completion.chunk"
	}
	h := append([]byte(nil), `data: {"id":`...)
	h = appendString(h, o.id(a))
	h = append(h, `,"object":"`+object+`","created":`...)
	h = strconv.AppendInt(h, a.created, 10)
	h = append(h, `,"model":`...)
	h = appendString(h, a.ask.model)
	o.head = append(h, `,"system_fingerprint":"simulated","choices":[`...)
	if !o.chat {
		return b
	}
	return o.chunk(b, a, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`)
}

// chunk appends one event with the choice given ("" for none), and usage where it belongs.
func (o *openAIShape) chunk(b []byte, a *answer, choice string) []byte {
	b = append(append(b, o.head...), choice...)
	b = append(b, ']')
	if a.handed != nil && (choice == "" || !a.ask.usage) { // the last chunk
		b = append(append(b, `,"kv_transfer_params":`...), a.handed...)
	}
	if a.ask.each || choice == "" {
		b = append(b, `,"usage":`...)
		b = appendJSON(b, o.usage(a, choice == ""))
	}
	if choice == "" || !a.ask.usage {
		b = o.timings(b, a, choice)
	}
	return append(b, "}\n\n"...)
}

// timings are in the last chunk of a llama.cpp stream.
func (o *openAIShape) timings(b []byte, a *answer, choice string) []byte {
	if !o.s.dialect.timings || a.made < a.want || (choice != "" && !a.progress.done) {
		return b
	}
	b = append(b, `,"timings":`...)
	return appendJSON(b, timingsOf(a))
}

func (o *openAIShape) token(b []byte, a *answer, i int) []byte {
	if o.chat {
		return o.chunk(b, a, `{"index":0,"delta":{"content":"`+a.piece(i)+`"},"logprobs":null,"finish_reason":null}`)
	}
	return o.chunk(b, a, `{"index":0,"text":"`+a.piece(i)+`","logprobs":null,"finish_reason":null}`)
}

func (o *openAIShape) closing(b []byte, a *answer) []byte {
	if o.chat {
		b = o.chunk(b, a, `{"index":0,"delta":{},"logprobs":null,"finish_reason":"`+a.finish+`"}`)
	} else {
		b = o.chunk(b, a, `{"index":0,"text":"","logprobs":null,"finish_reason":"`+a.finish+`"}`)
	}
	if a.ask.usage {
		b = o.chunk(b, a, "")
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (o *openAIShape) failure(b []byte, status int, msg string) []byte {
	b = event(b, errorObject(status, "InternalServerError", msg))
	return append(b, "data: [DONE]\n\n"...)
}

func (o *openAIShape) whole(a *answer) any {
	choice := map[string]any{"index": 0, "logprobs": nil, "finish_reason": a.finish}
	object := "text_completion"
	if o.chat {
		object = "chat.completion"
		choice["message"] = map[string]any{"role": "assistant", "content": a.text}
	} else {
		choice["text"] = a.text
	}
	v := map[string]any{
		"id": o.id(a), "object": object, "created": a.created, "model": a.ask.model,
		"system_fingerprint": "simulated", "choices": []any{choice}, "usage": o.usage(a, true),
	}
	if a.extra != nil {
		a.extra(v, choice)
	}
	if ids := json.RawMessage(appendJSON(nil, tokenIDs(a.ask.prompt))); a.ask.ids && o.chat {
		v["prompt_token_ids"] = ids
	} else if a.ask.ids {
		choice["prompt_token_ids"] = ids
	}
	if o.s.opts.Dialect == fleet.KindVLLM && o.s.opts.Connector != "" {
		v["kv_transfer_params"] = a.handed // null but for prefill legs
	}
	if o.s.dialect.timings {
		v["timings"] = timingsOf(a)
		v["id_slot"] = a.ask.slot
	}
	return v
}

// usage is OpenAI's usage object; details only with the final one, as vLLM has it.
func (o *openAIShape) usage(a *answer, final bool) map[string]any {
	u := map[string]any{
		"prompt_tokens": a.promptTokens, "completion_tokens": a.made, "total_tokens": a.promptTokens + a.made,
	}
	if final && !o.s.opts.NoCacheReport {
		u["prompt_tokens_details"] = map[string]any{"cached_tokens": a.cachedTokens()}
	}
	return u
}

// models lists the base models and the adapters.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	if s.dialect.lanes && s.loading() {
		s.stillLoading(w)
		return
	}
	var data []any
	add := func(id string, parent any) {
		m := map[string]any{"id": id, "object": "model", "created": s.started.Unix(), "owned_by": s.dialect.ownedBy, "root": id, "parent": parent}
		switch s.opts.Dialect {
		case fleet.KindVLLM:
			m["max_model_len"] = s.opts.ContextTokens
			m["permission"] = []any{map[string]any{
				"id": "modelperm-" + id, "object": "model_permission", "created": s.started.Unix(), "allow_sampling": true,
				"allow_view": true, "organization": "*", "is_blocking": false,
			}}
		case fleet.KindSGLang:
			m["max_model_len"] = s.opts.ContextTokens
		case fleet.KindLlamaCpp:
			m["meta"] = map[string]any{
				"n_ctx": s.opts.ContextTokens, "n_ctx_train": s.opts.ContextTokens,
				"n_vocab": 32000, "n_params": 0, "size": 0,
			}
		}
		data = append(data, m)
	}
	for _, id := range s.opts.Models {
		add(id, nil)
	}
	for _, id := range s.opts.Adapters {
		add(id, s.opts.Models[0])
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}
