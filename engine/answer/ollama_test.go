package answer

import (
	"os"
	"testing"
)

// TestOllamaStreams: streams and an answer of Ollama 0.33.0-rc2, captured, whole and of a model whose process was
// killed.
func TestOllamaStreams(t *testing.T) {
	whole := seen{usage: noCache(21, 3), ok: true, data: true, done: true}
	responses, completions := whole, seen{data: true, done: true} // which is not asked for usage
	responses.usage = known(21, 0, 3)                             // it always says 0, see proxy's reports
	responses.id = "resp_332083"
	for file, test := range map[string]struct {
		api  string
		want seen
	}{
		"chat.ndjson": {APIOllamaChat, whole}, "generate.ndjson": {APIOllamaGenerate, whole},
		"chat.json": {APIOllamaChat, whole}, "openai_chat.txt": {APIChat, whole}, "messages.txt": {APIMessages, whole},
		"responses.txt": {APIResponses, responses}, "completions.txt": {APICompletions, completions},
		"chat_killed.ndjson": {APIOllamaChat, seen{data: true, failed: true}}, "openai_killed.txt": {
			APIChat, seen{data: true},
		},
	} {
		body, err := os.ReadFile("../testdata/ollama/0.33.0-rc2/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if got := scan(test.api, string(body)); got != test.want {
			t.Errorf("%s: got %+v, want %+v", file, got, test.want)
		}
	}
}
