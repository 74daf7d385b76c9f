package answer_test

import (
	"bytes"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
)

// FuzzNoAnswer: the result does not depend on how a stream is cut, and text is never held back for ever.
func FuzzNoAnswer(f *testing.F) {
	role := `data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` +
		"\n\n"
	f.Add([]byte(role+`data: {"error":{"code":500}}`+"\n\ndata: [DONE]\n\n"), 20)
	f.Add([]byte(role+`data: {"choices":[{"delta":{"content":"hi"}}]}`+"\n\n"), 100)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		cut = max(0, min(cut, len(stream)))
		if answer.NoAnswer(stream[:cut], stream[cut:]) != answer.NoAnswer(nil, stream) {
			t.Fatalf("%q cut at %d", stream, cut)
		}
		if more := append(bytes.Clone(stream),
			"\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"...); answer.NoAnswer(nil, more) {
			t.Fatalf("an answer is held back: %q", more)
		}
	})
}
