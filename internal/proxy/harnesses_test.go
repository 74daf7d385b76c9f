package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/prompt"
)

// said is one request of testdata/harnesses: what an agent or a client library sends, written by hand after their
// public shapes.
type said struct {
	Note         string            `json:"note"`
	Conversation string            `json:"conversation"` // requests of one have one X-Session-Id, others have others
	Withheld     string            `json:"withheld"`     // the same when what names the conversation is taken out
	ID           string            `json:"id"`           // the X-Session-Id itself, "" when the router makes it
	Path         string            `json:"path"`
	Headers      map[string]string `json:"headers"`
	Body         json.RawMessage   `json:"body"`
	Answer       json.RawMessage   `json:"answer"`
}

func harnesses(t *testing.T) map[string][]said {
	t.Helper()
	files, err := filepath.Glob("testdata/harnesses/*.jsonl")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d harnesses, %v", len(files), err)
	}
	out := map[string][]said{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		for line := range strings.Lines(string(text)) {
			var s said
			if err := json.Unmarshal([]byte(line), &s); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			s.Conversation, s.Withheld = name+" "+s.Conversation, name+" "+s.Withheld
			out[name] = append(out[name], s)
		}
	}
	return out
}

// withhold takes out every header and member that names a conversation. The users' own ids stay.
func (s said) withhold(t *testing.T) said {
	t.Helper()
	names := append(prompt.DefaultSources(), prompt.DefaultParents()...)
	names = append(names, prompt.Source{Header: "x-claude-code-agent-id"},
		prompt.Source{Header: "x-claude-code-parent-agent-id"})
	left := map[string]string{}
	for k, v := range s.Headers {
		left[k] = v
		for _, n := range names {
			if strings.EqualFold(k, n.Header) {
				delete(left, k)
			}
		}
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(s.Body, &body); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		top, sub, nested := strings.Cut(n.Field, ".")
		var inner map[string]json.RawMessage
		switch {
		case n.Field == "metadata.user_id" && !strings.Contains(string(s.Body), "session"):
		case !nested:
			delete(body, top)
		case json.Unmarshal(body[top], &inner) == nil:
			delete(inner, sub)
			body[top], _ = json.Marshal(inner)
		}
	}
	s.Headers, s.ID = left, ""
	s.Body, _ = json.Marshal(body)
	return s
}

// door is a router in front of two engines that answer what the request's line says.
func door(t *testing.T) (*rig, func(said) string) {
	var answer atomic.Value
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer.Load().(string))
	}
	r := newRig(t, proxy.Config{ByContent: true}, engine, engine)
	return r, func(s said) string {
		t.Helper()
		answer.Store(chatAnswer)
		if s.Answer != nil {
			answer.Store(string(s.Answer))
		}
		var header []string
		for k, v := range s.Headers {
			header = append(header, k, v)
		}
		res, body := r.post(s.Path, string(s.Body), header...)
		if res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", s.Note, res.StatusCode, body)
		}
		return res.Header.Get("X-Session-Id")
	}
}

// talks checks that conversations and ids are one to one.
type talks struct {
	t       *testing.T
	byLabel map[string]string
	byID    map[string]string
}

func newTalks(t *testing.T) *talks { return &talks{t, map[string]string{}, map[string]string{}} }

func (k *talks) see(label, id, note string) {
	k.t.Helper()
	if want, ok := k.byLabel[label]; ok && want != id {
		k.t.Errorf("%s (%s) has the id %q, before it had %q", label, note, id, want)
	}
	if other, ok := k.byID[id]; id == "" || ok && other != label {
		k.t.Errorf("%s (%s) has the id %q, which is that of %q", label, note, id, other)
	}
	k.byLabel[label], k.byID[id] = id, label
}

// TestHarnesses plays what eight agents and client libraries send, turn by turn: each conversation keeps one id of its
// own.
func TestHarnesses(t *testing.T) {
	for name, lines := range harnesses(t) {
		t.Run(name, func(t *testing.T) {
			_, send := door(t)
			seen := newTalks(t)
			for _, s := range lines {
				id := send(s)
				seen.see(s.Conversation, id, s.Note)
				if s.ID != "" && id != s.ID {
					t.Errorf("%s (%s): got the id %q, want %q", s.Conversation, s.Note, id, s.ID)
				}
			}
		})
		t.Run(name+" withheld", func(t *testing.T) {
			_, send := door(t)
			seen := newTalks(t)
			for _, s := range lines {
				s = s.withhold(t)
				seen.see(s.Withheld, send(s), s.Note)
			}
		})
	}
}

// TestHarnessesAtOnce plays all of them at once, without what names their conversations, over HTTP/2.
func TestHarnessesAtOnce(t *testing.T) {
	all := harnesses(t)
	r, send := door(t)
	r.client = overHTTP2()
	seen := newTalks(t)
	for i, more := 0, true; more; i++ {
		more = false
		for _, name := range []string{
			"anthropic_sdk", "claude_code", "cline", "codex", "langchain", "open_webui", "openai_responses", "opencode",
		} {
			if i < len(all[name]) {
				s := all[name][i].withhold(t)
				seen.see(s.Withheld, send(s), s.Note)
				more = true
			}
		}
	}
}

// TestHarnessesNameParents: a sub-agent names the conversation that started it.
func TestHarnessesNameParents(t *testing.T) {
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	parents := map[string]string{}
	for _, lines := range harnesses(t) {
		ids := map[string]string{}
		for _, s := range lines {
			h := http.Header{}
			for k, v := range s.Headers {
				h.Set(k, v)
			}
			p, err := parser.Parse(prompt.Classify("POST", s.Path), s.Body, h.Get)
			if err != nil {
				t.Fatal(err)
			}
			ids[p.Session] = s.Conversation
			if p.Parent != "" {
				parents[s.Conversation] = ids[p.Parent]
			}
		}
	}
	want := map[string]string{
		"claude_code A/agent": "claude_code A", "claude_code A/agent/agent": "claude_code A/agent",
		"codex A/agent": "codex A", "opencode A/agent": "opencode A",
	}
	if fmt.Sprint(parents) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", parents, want)
	}
}

func overHTTP2() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// TestEveryShapeIsRecognised: three turns of two conversations in each shape of body, over HTTP/1.1 and HTTP/2.
func TestEveryShapeIsRecognised(t *testing.T) {
	long := strings.Repeat("a question about rivers, ", 4)
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	tokens := func(who string, n int) string {
		ids := fmt.Sprint(100 + len(who))
		for i := range n * 40 {
			ids += fmt.Sprint(",", 1000+i*7+int(who[0]))
		}
		return "[" + ids + "]"
	}
	text := func(who string, n int) string {
		s := who + long
		for i := range n - 1 {
			s += fmt.Sprintf("\nanswer %d\nmore %d", i, i)
		}
		return quoted(s)
	}
	chat := func(part string) func(string, int) string {
		return func(who string, n int) string {
			s := fmt.Sprintf(`{"role":"user","content":%s}`, quoted(who+long))
			for i := range n - 1 {
				s += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"%s","text":"answer %d"}]},{"role":"user","content":"more"}`, part, i)
			}
			return "[" + s + "]"
		}
	}
	for _, row := range []struct {
		name, path, body string
		prompt           func(who string, turn int) string
	}{
		{"chat", "/v1/chat/completions", `{"model":"m","messages":%s}`, chat("text")},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":5,"messages":%s}`, chat("text")},
		{"responses", "/v1/responses", `{"model":"m","input":%s}`, chat("output_text")},
		{"responses text", "/v1/responses", `{"model":"m","input":%s}`, text},
		{"completions", "/v1/completions", `{"model":"m","prompt":%s}`, text},
		{"completions list", "/v1/completions", `{"model":"m","prompt":[%s]}`, text},
		{"completions ids", "/v1/completions", `{"model":"m","prompt":%s}`, tokens},
		{"completions list of ids", "/v1/completions", `{"model":"m","prompt":[%s]}`, tokens},
		{"generate", "/generate", `{"model":"m","text":%s,"stream":false}`, text},
		{"generate ids", "/generate", `{"model":"m","input_ids":%s,"stream":false}`, tokens},
		{"ollama", "/api/chat", `{"model":"m","stream":false,"messages":%s}`, chat("text")},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, send := door(t)
			seen := newTalks(t)
			for turn := range 3 {
				for _, who := range []string{"a", "b"} {
					seen.see(who, send(said{
						Path: row.path, Body: json.RawMessage(fmt.Sprintf(row.body, row.prompt(who, turn+1))),
					}), fmt.Sprint("turn ", turn+1))
				}
				r.client = overHTTP2() // from the second turn on
			}
		})
	}
}
