package prompt

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// object is a JSON object with ordered members.
type object []struct {
	name  string
	value any
}

// pairs makes an object of alternating names and values.
func pairs(namesAndValues ...any) object {
	var o object
	for i := 0; i < len(namesAndValues); i += 2 {
		o = append(o, object{{namesAndValues[i].(string), namesAndValues[i+1]}}...)
	}
	return o
}

// spell writes v as JSON in a random spelling: order of members, escapes and white space.
func spell(t *rapid.T, out []byte, v any) []byte {
	space := func() {
		if rapid.IntRange(0, 5).Draw(t, "space") == 0 {
			out = append(out, rapid.SampledFrom([]string{" ", "\n", "\t ", "\r\n  "}).Draw(t, "which")...)
		}
	}
	space()
	switch v := v.(type) {
	case nil:
		out = append(out, "null"...)
	case int:
		out = fmt.Append(out, v)
	case string:
		out = spellString(t, out, v)
	case []any:
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = spell(t, out, item)
		}
		space()
		out = append(out, ']')
	case object:
		out = append(out, '{')
		for i, m := range rapid.Permutation(v).Draw(t, "order") {
			if i > 0 {
				out = append(out, ',')
			}
			space()
			out = spellString(t, out, m.name)
			space()
			out = append(out, ':')
			out = spell(t, out, m.value)
		}
		space()
		out = append(out, '}')
	default:
		panic(fmt.Sprintf("%T", v))
	}
	space()
	return out
}

func spellString(t *rapid.T, out []byte, s string) []byte {
	switch rapid.IntRange(0, 3).Draw(t, "spelling") {
	case 0:
		return append(out, toASCII(s)...)
	case 1:
		quoted, _ := json.Marshal(s)
		return append(out, quoted...)
	case 2:
		out = append(out, '"')
		for _, r := range s {
			if r < 0x10000 {
				out = appendEscape(out, r)
			} else {
				out = utf8.AppendRune(out, r)
			}
		}
		return append(out, '"')
	}
	return jsonscan.AppendString(out, s)
}

// said is a message of a conversation, independent of the API.
type said struct {
	role  string
	texts []string
	calls [][2]string // name, arguments
}

var words = rapid.SampledFrom([]string{
	"", "a", "hello there", "naïve → no", "缓存命中", "😀", "\n\t\tif x {", `"quoted\"`, "\u2028<&>",
	strings.Repeat("long ", 60), "\x00\x1f", "{\"a\":1}",
})

func conversation(t *rapid.T) []said {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) said {
		m := said{
			role:  rapid.SampledFrom([]string{"user", "assistant", "tool", "system"}).Draw(t, "role"),
			texts: rapid.SliceOfN(words, 0, 3).Draw(t, "texts"),
		}
		if m.role == "assistant" {
			for range rapid.IntRange(0, 2).Draw(t, "calls") {
				m.calls = append(m.calls, [2]string{words.Draw(t, "name"), words.Draw(t, "args")})
			}
		}
		return m
	}), 1, 8).Draw(t, "conversation")
}

// chat writes a conversation as one of its possible bodies of the chat API.
func chat(t *rapid.T, conv []said) []byte {
	id := 0
	noise := func(o object) object {
		id++
		if rapid.Bool().Draw(t, "noise") {
			o = append(o, pairs("id", fmt.Sprint("id-", id), "cache_control", pairs("type", "ephemeral"))...)
		}
		return o
	}
	var messages []any
	for _, m := range conv {
		o := pairs("role", m.role)
		var parts []any
		for _, text := range m.texts {
			parts = append(parts, noise(pairs("type", "text", "text", text)))
		}
		switch {
		case len(parts) == 0:
			switch rapid.IntRange(0, 3).Draw(t, "empty") {
			case 0:
				o = append(o, pairs("content", nil)...)
			case 1:
				o = append(o, pairs("content", "")...)
			case 2:
				o = append(o, pairs("content", []any{})...)
			}
		case len(parts) == 1 && rapid.Bool().Draw(t, "string"):
			o = append(o, pairs("content", m.texts[0])...)
		default:
			o = append(o, pairs("content", parts)...)
		}
		var calls []any
		for _, call := range m.calls {
			calls = append(calls,
				noise(pairs("type", "function", "function", noise(pairs("name", call[0], "arguments", call[1])))))
		}
		if len(calls) > 0 {
			o = append(o, pairs("tool_calls", calls)...)
		}
		messages = append(messages, noise(o))
	}
	body := pairs("messages", messages, "model", words.Draw(t, "model"))
	if rapid.Bool().Draw(t, "options") {
		body = append(body, pairs("temperature", 1, "metadata", pairs("k", []any{1, nil}))...)
	}
	return spell(t, nil, body)
}

// plainFormOf is the canonical form of a conversation, written from its definition.
func plainFormOf(conv []said) (out []byte, ends []int) {
	for _, m := range conv {
		out = append(append(append(out, 0xff), m.role...), 0xfe)
		first := true
		for _, text := range m.texts {
			if text == "" {
				continue
			}
			if !first {
				out = append(out, 0xfd)
			}
			first = false
			out = append(out, text...)
		}
		for _, call := range m.calls {
			out = append(append(append(append(out, 0xfc), call[0]...), 0xfb), call[1]...)
		}
		ends = append(ends, len(out))
	}
	return out, ends
}

// In any spelling a conversation has one chain, which grows as the conversation does.
func TestChainOfAConversation(t *testing.T) {
	p := newParser(t)
	var earlier, c Chain
	rapid.Check(t, func(t *rapid.T) {
		conv := conversation(t)
		n := rapid.IntRange(0, len(conv)).Draw(t, "first turns")
		if _, err := p.ParseChain(Chat, chat(t, conv[:n]), nil, &earlier); err != nil {
			t.Fatal(err)
		}
		checkRapid(t, &earlier)
		body := chat(t, conv)
		if _, err := p.ParseChain(Chat, body, nil, &c); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		checkRapid(t, &c)
		want, ends := plainFormOf(conv)
		if string(c.text) != string(want) || len(c.Marks) != len(ends) {
			t.Fatalf("%s:\ngot  %s\nwant %s", body, readable(c.text), readable(want))
		}
		for i, m := range c.Marks {
			if m.Bytes != ends[i] || m.Role.String() != conv[i].role {
				t.Fatalf("mark %d: %+v, want %s ending at %d", i, m, conv[i].role, ends[i])
			}
			if i < n && m != earlier.Marks[i] {
				t.Fatalf("mark %d: %+v, in the turn before %+v", i, m, earlier.Marks[i])
			}
		}
		if c.HashAt(earlier.Bytes) != earlier.Whole {
			t.Fatal("the turn before is not the beginning")
		}
		for i, h := range earlier.Blocks {
			if h != c.Blocks[i] {
				t.Fatalf("block %d is another", i)
			}
		}
	})
}

// checkRapid is checkChain under rapid, whose T is not a testing.TB.
func checkRapid(t *rapid.T, c *Chain) {
	if c.Whole != hashFrom(c.root, c.text) || c.Bytes != len(c.text) {
		t.Fatalf("hash of %s", readable(c.text))
	}
}

// sessions are the prompts of the sessions in testdata, in order.
func sessions(t testing.TB) map[string][]string {
	t.Helper()
	f, err := os.Open("testdata/agent_text.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	lines := bufio.NewReader(bytes.NewReader(text))
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return out
		}
		var row struct {
			Session string `json:"session_id"`
			Input   string `json:"input"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		out[row.Session] = append(out[row.Session], row.Input)
	}
}

// Real prompts, sent as completions, have prefix chains exactly when their texts are prefixes.
func TestChainOfRealPrompts(t *testing.T) {
	p := newParser(t)
	var chains []*Chain
	var texts []string
	for _, prompts := range sessions(t) {
		for _, text := range prompts {
			body, err := json.Marshal(map[string]any{"model": "m", "prompt": text})
			if err != nil {
				t.Fatal(err)
			}
			c := new(Chain)
			if _, err := p.ParseChain(Completions, body, nil, c); err != nil {
				t.Fatal(err)
			}
			checkChain(t, c)
			if c.Bytes != len(text) {
				t.Fatalf("%d canonical bytes of %d", c.Bytes, len(text))
			}
			chains, texts = append(chains, c), append(texts, text)
		}
	}
	extend := 0
	for i, a := range chains {
		for j, b := range chains {
			if a.Bytes > b.Bytes || i == j {
				continue
			}
			is := strings.HasPrefix(texts[j], texts[i])
			if is != (b.HashAt(a.Bytes) == a.Whole) {
				t.Fatalf("prompt %d begins prompt %d: %v", i, j, is)
			}
			if is && a.Bytes < b.Bytes {
				extend++
			}
		}
	}
	if extend < 100 {
		t.Errorf("only %d pairs extend one another", extend)
	}
}

func FuzzChain(f *testing.F) {
	for i, body := range bodies {
		f.Add(uint8(i), []byte(body))
	}
	for i, doc := range documents {
		f.Add(uint8(i), []byte(`{"messages":[{"role":"user","content":`+doc+`}],"prompt":`+doc+`,"tools":`+doc+`}`))
	}
	p := newParser(f)
	f.Fuzz(func(t *testing.T, n uint8, body []byte) {
		checkParseChain(t, p, API(n%(uint8(OllamaGenerate)+1)), body)
	})
}

func TestParseChainAgreesWithParse(t *testing.T) {
	p := newParser(t)
	for _, body := range append(bodies, documents...) {
		for api := Other; api <= OllamaGenerate; api++ {
			checkParseChain(t, p, api, []byte(body))
		}
	}
}

// checkParseChain compares ParseChain with Parse, and the chain with that of the body re-encoded by encoding/json.
func checkParseChain(t *testing.T, p *Parser, api API, body []byte) {
	var c, again Chain
	got, err := p.ParseChain(api, body, nil, &c)
	want, wantErr := p.Parse(api, body, nil)
	if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%v %q: got %+v (%v), want %+v (%v)", api, body, got, err, want, wantErr)
	}
	if err != nil {
		return
	}
	checkChain(t, &c)
	tree := json.NewDecoder(bytes.NewReader(body))
	tree.UseNumber()
	var v map[string]any
	if tree.Decode(&v) != nil {
		t.Fatalf("%q", body)
	}
	fresh, err := json.Marshal(v) // of duplicates the last, as here
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.ParseChain(api, fresh, nil, &again); err != nil {
		t.Fatalf("%q: %v", fresh, err)
	}
	if diff := same(&c, &again); diff != "" {
		t.Fatalf("%v %q, written afresh %q: %s", api, body, fresh, diff)
	}
}
