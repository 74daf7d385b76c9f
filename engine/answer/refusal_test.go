package answer

import (
	"strings"
	"testing"
)

const (
	sglangFull    = `{"text":"","output_ids":[],"meta_info":{"id":"a","finish_reason":{"type":"abort","message":"The request queue is full.","status_code":503,"err_type":null},"prompt_tokens":5,"completion_tokens":0}}`
	errorAsReason = `{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error"}]}`
)

// TestRefusal: what is none of an answer's forms, is cut off, or has a token, is no refusal.
func TestRefusal(t *testing.T) {
	for _, test := range []struct {
		api, piece string
		code       int
		said       string
	}{
		{APIGenerate, sglangFull, 503, "The request queue is full."},
		{APIGenerate, "data: " + sglangFull + "\n\ndata: [DONE]\n\n", 503, "The request queue is full."},
		{
			APIGenerate, `{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"` +
				strings.Repeat("x", 1000) + `","status_code":500}}}`, 500, strings.Repeat("x", longestMessage),
		},
		{APIChat, errorAsReason, 500, "the engine ended its answer with an error"},
		{
			APIChat, "data: " +
				`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"error"}]}` + "\n\n",
			500, "the engine ended its answer with an error",
		},
		{
			APIChat, ": PROCESSING\n\n: PROCESSING\n\ndata: " +
				`{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n",
			500, "the engine ended its answer with an error",
		},
		{APIChat, sglangFull, 0, ""},
		{APIGenerate, errorAsReason, 0, ""},
		{APIGenerate, "[" + sglangFull + "]", 0, ""},
		{APIGenerate, sglangFull[:len(sglangFull)-2], 0, ""},
		{APIGenerate, strings.Replace(sglangFull, `"status_code":503`, `"status_code":null`, 1), 0, ""},
		{APIGenerate, strings.Replace(sglangFull, `"output_ids":[]`, `"output_ids":[7]`, 1), 0, ""},
		{APIGenerate, strings.Replace(sglangFull, `"text":""`, `"text":"a"`, 1), 0, ""},
		{APIGenerate, `{"text":"","meta_info":{"finish_reason":"abort"}}`, 0, ""},
		{APIChat, `{"choices":[],"error":"error"}`, 0, ""},
		{
			APIChat, `{"choices":[{"message":{"content":"error","reasoning_content":"x"},"finish_reason":"error"}]}`,
			0, "",
		},
		{APIChat, `{"choices":[{"message":{"tool_calls":[{"id":"a"}]},"finish_reason":"error"}]}`, 0, ""},
		{APIChat, "data: " + `{"choices":[{"delta":{"content":"a"},"finish_reason":"error"}]}` + "\n\n", 0, ""},
		{APIChat, ": ping\n\n", 0, ""},
		{APIMessages, errorAsReason, 0, ""},
		{APIChat, "", 0, ""},
		{APIGenerate, strings.Replace(sglangFull, "503", "503000", 1), 0, ""},
	} {
		if code, said, ok := Refusal(test.api, []byte(test.piece)); code != test.code || said != test.said ||
			ok != (code != 0) {
			t.Errorf("%s %s: %d %q %t", test.api, test.piece, code, said, ok)
		}
	}
}

func FuzzRefusal(f *testing.F) {
	f.Add(APIGenerate, []byte(sglangFull))
	f.Add(APIChat, []byte(errorAsReason))
	f.Fuzz(func(t *testing.T, api string, piece []byte) {
		if code, said, ok := Refusal(api, piece); ok != (code >= 400 && code < 600) || len(said) > longestMessage {
			t.Errorf("%d %q %t", code, said, ok)
		}
	})
}

// TestOverfull: what llama-server 0.7.0 says of its requests together, as a body and as an event.
func TestOverfull(t *testing.T) {
	const said = `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`
	for body, want := range map[string]bool{
		said:               true,
		"{\"choices\":[]}": false,
		`{"error":{"code":500,"message":"Invalid input batch.","type":"server_error"}}`: false,
		strings.Replace(said, "exceeded.", "exceeded. So what?", 1):                     false,
		`{"error":{"code":400,"message":"request (11022 tokens) exceeds the available context size (4096 tokens), ` +
			`try increasing it","type":"exceed_context_size_error","n_prompt_tokens":11022,"n_ctx":4096}}`: false,
	} {
		if _, message, _ := ErrorAnswer([]byte(body)); Overfull(message) != want {
			t.Errorf("%s: %t", body, !want)
		}
		s := Scanner{API: APIChat}
		s.Write([]byte("data: " + body + "\n\n"))
		if Overfull(s.ErrorText()) != want {
			t.Errorf("as an event, %s: %t", body, !want)
		}
	}
}

func TestOnlyComments(t *testing.T) {
	for part, want := range map[string]bool{
		": a\n\n": true, ":\n": true, ": a\r\n\r\n: b\r\r": true, "\n": true, ": data: x\n\n": true,
		": a": false, ": a\n\n: b": false, ": a\n\ndata: x\n\n": false, "data: : a\n\n": false, " : a\n\n": false,
		"event: ping\n\n": false, "{}\n": false,
	} {
		if OnlyComments([]byte(part)) != want {
			t.Errorf("%q: %v, want %v", part, !want, want)
		}
	}
}
