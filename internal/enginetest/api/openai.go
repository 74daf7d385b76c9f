package api

import (
	"encoding/json"
	"strconv"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/prompts"
)

// NewOpenAI writes chat completions, or completions.
func NewOpenAI(s Style, chat bool) Shape { return &openAI{Style: s, chat: chat} }

// openAI writes chat completions and completions.
type openAI struct {
	Style
	chat bool
	head []byte // beginning of every chunk of the stream
}

func (*openAI) ContentType() string { return "text/event-stream; charset=utf-8" }

func (o *openAI) id(a *Answer) string {
	switch {
	case o.Kind == fleet.KindSGLang:
		return a.Ask.Id
	case o.chat:
		return "chatcmpl-" + a.Ask.Id
	default:
		return "cmpl-" + a.Ask.Id
	}
}

func (o *openAI) Open(b []byte, a *Answer) []byte {
	object := "text_completion"
	if o.chat {
		object = "chat.completion.chunk"
	}
	h := append([]byte(nil), `data: {"id":`...)
	h = prompts.AppendString(h, o.id(a))
	h = append(h, `,"object":"`+object+`","created":`...)
	h = strconv.AppendInt(h, a.Created, 10)
	h = append(h, `,"model":`...)
	h = prompts.AppendString(h, a.Ask.Model)
	o.head = append(h, `,"system_fingerprint":"simulated","choices":[`...)
	if !o.chat {
		return b
	}
	return o.chunk(b, a, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`)
}

// chunk appends one event with a choice ("" for none), and usage where required.
func (o *openAI) chunk(b []byte, a *Answer, choice string) []byte {
	b = append(append(b, o.head...), choice...)
	b = append(b, ']')
	if a.Handed != nil && (choice == "" || !a.Ask.Usage) { // the last chunk
		b = append(append(b, `,"kv_transfer_params":`...), a.Handed...)
	}
	if a.Ask.Each || choice == "" {
		b = append(b, `,"usage":`...)
		b = prompts.AppendJSON(b, o.usage(a, choice == ""))
	}
	if choice == "" || !a.Ask.Usage {
		b = o.timings(b, a, choice)
	}
	return append(b, "}\n\n"...)
}

// timings are in the last chunk of a llama.cpp stream.
func (o *openAI) timings(b []byte, a *Answer, choice string) []byte {
	if !o.Timed || a.Made < a.Want || (choice != "" && !a.Progress.Done) {
		return b
	}
	b = append(b, `,"timings":`...)
	return prompts.AppendJSON(b, timingsOf(a))
}

func (o *openAI) Token(b []byte, a *Answer, i int) []byte {
	if o.chat {
		return o.chunk(b, a, `{"index":0,"delta":{"content":"`+a.piece(i)+`"},"logprobs":null,"finish_reason":null}`)
	}
	return o.chunk(b, a, `{"index":0,"text":"`+a.piece(i)+`","logprobs":null,"finish_reason":null}`)
}

func (o *openAI) Closing(b []byte, a *Answer) []byte {
	if o.chat {
		b = o.chunk(b, a, `{"index":0,"delta":{},"logprobs":null,"finish_reason":"`+a.Finish+`"}`)
	} else {
		b = o.chunk(b, a, `{"index":0,"text":"","logprobs":null,"finish_reason":"`+a.Finish+`"}`)
	}
	if a.Ask.Usage {
		b = o.chunk(b, a, "")
	}
	return append(b, "data: [DONE]\n\n"...)
}

func (o *openAI) Failure(b []byte, status int, msg string) []byte {
	b = event(b, ErrorObject(status, "InternalServerError", msg))
	return append(b, "data: [DONE]\n\n"...)
}

func (o *openAI) Whole(a *Answer) any {
	choice := map[string]any{"index": 0, "logprobs": nil, "finish_reason": a.Finish}
	object := "text_completion"
	if o.chat {
		object = "chat.completion"
		choice["message"] = map[string]any{"role": "assistant", "content": a.Text}
	} else {
		choice["text"] = a.Text
	}
	v := map[string]any{
		"id": o.id(a), "object": object, "created": a.Created, "model": a.Ask.Model,
		"system_fingerprint": "simulated", "choices": []any{choice}, "usage": o.usage(a, true),
	}
	if a.Extra != nil {
		a.Extra(v, choice)
	}
	if ids := json.RawMessage(prompts.AppendJSON(nil, prompts.TokenIDs(a.Ask.Prompt))); a.Ask.Ids && o.chat {
		v["prompt_token_ids"] = ids
	} else if a.Ask.Ids {
		choice["prompt_token_ids"] = ids
	}
	if o.Kind == fleet.KindVLLM && o.Connected {
		v["kv_transfer_params"] = a.Handed // null but for prefill legs
	}
	if o.Timed {
		v["timings"] = timingsOf(a)
		v["id_slot"] = a.Ask.Slot
	}
	return v
}

// usage is OpenAI's usage object; details only in the final one, as in vLLM.
func (o *openAI) usage(a *Answer, final bool) map[string]any {
	u := map[string]any{
		"prompt_tokens": a.PromptTokens, "completion_tokens": a.Made, "total_tokens": a.PromptTokens + a.Made,
	}
	if final && !o.NoCacheReport {
		u["prompt_tokens_details"] = map[string]any{"cached_tokens": a.cachedTokens()}
	}
	return u
}
