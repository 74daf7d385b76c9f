package answer

import (
	"bytes"
	"os"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

func trtllmBytes(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/trtllm/0076e939/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTRTLLMStreams: streams of TensorRT-LLM's HTTP layer, captured, whole and of a request that the engine failed. Its
// completions say so and end well, with two marks; its chat is cut.
func TestTRTLLMStreams(t *testing.T) {
	for file, test := range map[string]struct {
		api  string
		want seen
	}{
		"chat.txt":            {APIChat, seen{data: true, done: true}},
		"chat_usage.txt":      {APIChat, seen{usage: known(78, 64, 3), ok: true, data: true, done: true}},
		"chat_continuous.txt": {APIChat, seen{usage: known(78, 64, 3), ok: true, data: true, done: true}},
		"completions_usage.txt": {
			APICompletions, seen{usage: known(3, 0, 2), ok: true, data: true, done: true},
		},
		"completions_midway.txt":          {APICompletions, seen{data: true, done: true, failed: true}},
		"generation_chat_completions.txt": {APIChat, seen{usage: known(78, 0, 3), ok: true, data: true, done: true}},
		"generation_completions.txt": {
			APICompletions, seen{usage: known(3, 0, 3), ok: true, data: true, done: true},
		},
	} {
		if got := scan(test.api, string(trtllmBytes(t, file))); got != test.want {
			t.Errorf("%s: got %+v, want %+v", file, got, test.want)
		}
	}
	_, cut, _ := bytes.Cut(trtllmBytes(t, "chat_midway.http"), []byte("\r\n\r\n"))
	if got, want := scan(APIChat, string(cut)), (seen{data: true}); got != want {
		t.Errorf("a chat that is cut: got %+v, want %+v", got, want)
	}
}

// TestTRTLLMAnswers: plain answers of TensorRT-LLM's HTTP layer, captured: usage, errors, and what is none of both.
func TestTRTLLMAnswers(t *testing.T) {
	for file, test := range map[string]struct {
		api  string
		want fleet.Usage
	}{
		"chat.json": {APIChat, known(78, 0, 5)}, "chat_cached.json": {APIChat, known(78, 64, 5)}, "completions.json": {
			APICompletions, known(3, 0, 5),
		}, "context_chat_completions.json": {APIChat, known(78, 0, 1)},
		"context_completions.json": {APICompletions, known(3, 0, 1)}, "embeddings.json": {APIEmbeddings, noCache(2, 0)},
	} {
		body := trtllmBytes(t, file)
		if got, ok := ParseUsage(test.api, body); !ok || got != test.want {
			t.Errorf("%s: got %+v, %t, want %+v", file, got, ok, test.want)
		}
		if _, _, refused := ErrorAnswer(body); refused || Nothing(body) {
			t.Errorf("%s is no answer", file)
		}
	}
	for file, want := range map[string]int{
		"too_long.json": 400, "down.json": 400, "full.json": 429, "unknown_field.json": 0, "no_model.json": 0,
		"bad_json.json": 0,
	} {
		if code, _, ok := ErrorAnswer(trtllmBytes(t, file)); !ok || code != want {
			t.Errorf("%s: got %d, %t, want %d", file, code, ok, want)
		}
	}
	head, body, _ := bytes.Cut(trtllmBytes(t, "dead.http"), []byte("\r\n\r\n"))
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 OK")) || !Nothing(body) {
		t.Errorf("of an executor that failed: %s %q", head, body)
	}
	for _, body := range []string{`{"detail":"Not Found"}`, `"null"`, `null null`, `{"choices":null}`, `{"a":{}}`} {
		if Nothing([]byte(body)) {
			t.Errorf("%s is nothing", body)
		}
	}
	for _, body := range []string{``, "\n", "{}\n", `[]`, ` null`} {
		if !Nothing([]byte(body)) {
			t.Errorf("%q is an answer", body)
		}
	}
}
