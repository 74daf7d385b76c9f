package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

const (
	// 13 bytes between escapes, and about 40
	tabsText = "func (s *server) handle(w http.ResponseWriter, r *http.Request) {\n\tif r.Method != \"POST\" " +
		"{\n\t\thttp.Error(w, \"naïve → no\", 405)\n\t\treturn\n\t}\n\tx := s.table[r.URL.Path]\n}\n"
	codeText = "def handle(self, request: Request) -> Response:\n    if request.method != 'POST':\n" +
		"        raise HTTPError(405, \"naïve → not allowed\")\n" +
		"    entry = self.table[request.url.path]  # may be stale\n" +
		"    return entry.answer(request, timeout=self.timeout)\n\n"
	mixedText = "the router sends each request \"where its conversation lives\", Zürich and 模型 of blocks\n\n" +
		"func main() { return err waits 模型 naïve, and \"the\" cache "
	plainText = "The endpoint that already holds the conversation answers soonest, unless waiting there costs more " +
		"than computing it all again elsewhere. "
)

// chatBody is a chat request of about size bytes: a system prompt and turns of a few hundred bytes to a few kilobytes.
func chatBody(size int, text string) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var body struct {
		Model    string    `json:"model"`
		Messages []message `json:"messages"`
		Stream   bool      `json:"stream"`
		Max      int       `json:"max_tokens"`
		User     string    `json:"user"`
	}
	body.Model, body.Stream, body.Max, body.User = "Qwen/Qwen3-30B-A3B-Instruct-2507", true, 512, "u-17"
	roles := [...]string{"user", "assistant"}
	for left := size - 150; left > 0; {
		n := min(left, 200+rng.IntN(2000))
		m := message{Role: roles[len(body.Messages)%2]}
		for len(m.Content) < n*9/10 {
			m.Content += text[:min(len(text), max(1, n*9/10-len(m.Content)))]
		}
		body.Messages = append(body.Messages, m)
		left -= n + 30
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // as clients in Python and JavaScript do
	if err := enc.Encode(&body); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func BenchmarkParse(b *testing.B) {
	p := newParser(b)
	header := func(string) string { return "" }
	for _, row := range []struct{ name, text string }{{"code", codeText}, {"tabs", tabsText}, {"plain", plainText}} {
		for _, size := range []int{1_000, 8_000, 100_000, 500_000} {
			body := chatBody(size, row.text)
			b.Run(fmt.Sprintf("%s/%dkB", row.name, size/1000), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Parse(Chat, body, header); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkSplice(b *testing.B) {
	p := newParser(b)
	body := chatBody(100_000, codeText)
	got, err := p.Parse(Chat, body, nil)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 2*len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Splice(dst[:0], body, got.SetModel("other"), got.SetIncludeUsage())
	}
}
