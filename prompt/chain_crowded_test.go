package prompt

import (
	"runtime"
	"strings"
	"testing"
)

// TestCrowdedBodies: a body of very many tiny pieces takes no more than a few times its own memory, and is read like
// any other but for its chain. Its last member counts, and what is wrong behind the pieces is found.
func TestCrowdedBodies(t *testing.T) {
	many := func(piece string, n int) string { return "[" + strings.Repeat(piece+",", n-1) + piece + "]" }
	const text = `"role":"user","content":"four"`
	for _, tt := range []struct {
		name string
		api  API
		body string
		text int
		has  bool // a chain
	}{
		{"messages", Chat, `"messages":` + many("{}", 1<<19), 0, false},
		{"messages with text", Chat, `"messages":` + many("{"+text+"}", maxMarks+1), 8 * (maxMarks + 1), false},
		{"as many as may be", Chat, `"messages":` + many("{"+text+"}", maxMarks), 8 * maxMarks, true},
		{"parts", Chat, `"messages":[{"role":"user","content":` + many("{}", 1<<19) + "}]", 4, false},
		{"tools", Chat, `"messages":[{` + text + `}],"tools":` + many("{}", 1<<19), 8 + 3*(1<<19) + 1, false},
		{"system", Messages, `"messages":[{` + text + `}],"system":` + many("{}", 1<<19), 8, false},
		{"input", Responses, `"input":` + many("{}", 1<<19), 0, false},
		{"ids", Completions, `"prompt":` + many("1", 1<<22), 0, true},
		{"lists of ids", Generate, `"input_ids":[` + many("1", 1<<22) + "," + many("123456", 1<<20) + "]", 0, true},
		{"ids before a long value", Completions, `"prompt":` + many("1", 1<<19) + `,"z":` + many("1", 1<<22), 0, true},
		{"variables", Responses, `"input":"four","prompt":{"variables":` + many(`{"a":1}`, 1<<20) + "}", 4, false},
		{"adapter", Chat, `"messages":[{` + text + `}],"lora_request":` + many("{}", 1<<20), 8, false},
		{"context", OllamaGenerate, `"prompt":"four","context":` + many("1", 1<<20), 4, false},
		{"prompts", Completions, `"prompt":` + many(`""`, 1<<19), 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(`{` + tt.body + `,"model":"m"}`)
			parser, err := Identity{}.Parser()
			if err != nil {
				t.Fatal(err)
			}
			var c Chain
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := parser.ParseChainFrom(nil, tt.api, body, nil, &c)
			runtime.ReadMemStats(&after)
			if err != nil || p.Model != "m" || p.TextBytes != tt.text {
				t.Errorf("model %q, %d bytes of text, %v; want m and %d", p.Model, p.TextBytes, err, tt.text)
			}
			if got := c.Bytes > 0; got != tt.has {
				t.Errorf("it has a chain: %v", got)
			}
			const own = 24 << 20 // of slices that grow to what the bounds allow, all sizes together
			if took := after.TotalAlloc - before.TotalAlloc; took > own+uint64(4*len(body)) && !racing {
				t.Errorf("a body of %d bytes took %d", len(body), took)
			}
			if _, err := parser.ParseChain(tt.api, body[:len(body)-1], nil, &c); err == nil {
				t.Error("a body that is cut is taken")
			}
		})
	}
}
