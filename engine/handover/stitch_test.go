package handover_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/handover"
)

const lmStream = `data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":" there","logprobs":null,"finish_reason":null,"stop_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":".","logprobs":null,"finish_reason":"length","stop_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[],"usage":{"prompt_tokens":4,"total_tokens":6,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3}}}

data: [DONE]

`

const lmStitched = `data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":" H\u0069","logprobs":null,"finish_reason":null,"stop_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":" there","logprobs":null,"finish_reason":null,"stop_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":".","logprobs":null,"finish_reason":"length","stop_reason":null}]}

data: {"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[],"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":3}}}

data: [DONE]

`

var hi = &handover.First{ID: []byte("7"), Text: []byte(` H\u0069`)}

// stitch passes an answer through a Stitch, in these pieces.
func stitch(stream bool, pieces ...[]byte) string {
	s := handover.NewStitch(hi, stream)
	var out []byte
	for _, p := range pieces {
		out = append(out, s.Write(p)...)
	}
	return string(append(out, s.Close()...))
}

func TestStitch(t *testing.T) {
	for _, c := range []struct {
		name     string
		stream   bool
		in, want string
	}{
		{"a stream", true, lmStream, lmStitched},
		{
			"with other line ends", true, strings.ReplaceAll(lmStream, "\n", "\r\n"),
			strings.ReplaceAll(lmStitched, "\n", "\r\n"),
		},
		{
			"the last token at once", true,
			`data: {"choices":[{"text":"a","finish_reason":"stop","stop_reason":5}]}` + "\n\n",
			`data: {"choices":[{"text":" H\u0069","finish_reason":null,"stop_reason":null}]}` + "\n\n" +
				`data: {"choices":[{"text":"a","finish_reason":"stop","stop_reason":5}]}` + "\n\n",
		},
		{"an error", true, `data: {"error":{"code":500}}` + "\n\n", `data: {"error":{"code":500}}` + "\n\n"},
		{"a comment first", true, ": ping\n\n" + lmStream, ": ping\n\n" + lmStitched},
		{
			"a chat, which is not stitched", true, `data: {"choices":[{"delta":{}}]}` + "\n\n" + lmStream,
			`data: {"choices":[{"delta":{}}]}` + "\n\n" + lmStream,
		},
		{"cut off", true, `data: {"choices":[{"te`, `data: {"choices":[{"te`},
		{
			"a whole answer", false,
			`{"choices":[{"text":" there."}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`,
			`{"choices":[{"text":" H\u0069 there."}],"usage":{"prompt_tokens":3,"completion_tokens":3}}`,
		},
		{
			"usage first", false,
			`{"usage":{"prompt_tokens":4,"completion_tokens":2},"choices":[{"text":""}]}`,
			`{"usage":{"prompt_tokens":3,"completion_tokens":3},"choices":[{"text":" H\u0069"}]}`,
		},
		{"no usage", false, `{"choices":[{"text":"."}]}`, `{"choices":[{"text":" H\u0069."}]}`},
		{"two choices", false, `{"choices":[{"text":"."},{"text":"."}]}`, `{"choices":[{"text":"."},{"text":"."}]}`},
		{"no answer", false, `oops`, `oops`},
		{"nothing", false, ``, ``},
	} {
		if got := stitch(c.stream, []byte(c.in)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestStitchInPieces: the result does not depend on the pieces.
func TestStitchInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var pieces [][]byte
		for rest := []byte(lmStream); len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 200)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := stitch(true, pieces...); got != lmStitched {
			t.Fatalf("%d pieces: %s", len(pieces), got)
		}
	})
}

func FuzzStitch(f *testing.F) {
	f.Add([]byte(lmStream), 40, true)
	f.Add([]byte(`{"usage":{"prompt_tokens":4},"choices":[{"text":""}]}`), 3, false)
	f.Add([]byte("data: {\"choices\":[{\"text\":\"\"\n\n"), 1, true)
	f.Fuzz(func(t *testing.T, b []byte, cut int, stream bool) {
		whole := stitch(stream, b)
		at := max(0, min(cut, len(b)))
		if got := stitch(stream, b[:at], b[at:]); got != whole {
			t.Errorf("in two pieces %q, in one %q", got, whole)
		}
		if !stream && json.Valid(b) && !json.Valid([]byte(whole)) {
			t.Errorf("%s becomes %s", b, whole)
		}
		if !bytes.Contains(b, []byte("choices")) && !bytes.Contains(b, []byte("usage")) && whole != string(b) {
			t.Errorf("%q becomes %q", b, whole)
		}
	})
}
