package proxy_test

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestConversationsByContent: clients that send no id get the same id on each turn of a conversation, and go where they
// were.
func TestConversationsByContent(t *testing.T) {
	r := newRig(t, proxy.Config{ByContent: true, Pinning: true}, answers(200, chatAnswer), answers(200, chatAnswer))
	opener := strings.Repeat("tell me something long about rivers ", 4)
	ask := func(body string, header ...string) (id, endpoint string) {
		res, answer := r.post("/v1/chat/completions", body, append(header, "X-Warmpath-Explain", "1")...)
		if res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, answer)
		}
		return res.Header.Get("X-Session-Id"), res.Header.Get("X-Warmpath-Endpoint")
	}
	first, _ := ask(`{"model":"m","messages":[{"role":"system","content":"today is monday"},{"role":"user","content":"`+
		opener+`"}]}`, "X-Warmpath-Pin", "e1")
	// The next turn, in another spelling, under another date.
	second, at := ask(
		`{"messages":[{"content":"today is tuesday","role":"system"},{"content":[{"type":"text","text":"` + opener +
			`"}],"role":"user"},` +
			`{"role":"assistant","content":"hi"},{"role":"user","content":"go on"}],"model":"m"}`)
	if second != first || at != "e1" {
		t.Errorf("the second turn is %s at %s, want %s at e1", second, at, first)
	}
	if other, _ := ask(
		`{"model":"m","messages":[{"role":"system","content":"today is monday"},{"role":"user","content":"No, ` +
			opener + `"}]}`); other == first {
		t.Error("another opener is the same conversation")
	}
	if other, _ := ask(`{"model":"n","messages":[{"role":"user","content":"` + opener +
		`"},{"role":"assistant","content":"hi"},{"role":"user","content":"go on"}]}`); other == first {
		t.Error("the same words to another model are the same conversation")
	}
	a, _ := ask(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if b, _ := ask(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`); a == b {
		t.Error("a greeting identifies somebody")
	}
	if d := r.last(2).Decision; d.CachedTokens != 0 || d.FirstTurn {
		t.Errorf("the second turn must be known, and cold, since its system prompt is another: %+v", d)
	}
}

// TestAgentTextsAreRecognised plays recorded prompts of agents without ids, as plain text and as
// one message: a prompt that extends an earlier one of its session gets that one's id, and no id spans two sessions.
func TestAgentTextsAreRecognised(t *testing.T) {
	rows := agentTexts(t)
	for _, as := range []string{"completions", "chat"} {
		t.Run(as, func(t *testing.T) {
			r := newRig(t, proxy.Config{ByContent: true, BodyBytes: 64 << 20}, answers(200, chatAnswer))
			type prompt struct{ text, id string }
			bySession := map[string][]prompt{}
			sessionsOf := map[string]map[string]bool{}
			texts := map[string]map[string]bool{}
			for _, row := range rows {
				if texts[row.Input] == nil {
					texts[row.Input] = map[string]bool{}
				}
				texts[row.Input][row.Session] = true
			}
			extended, joined := 0, 0
			for _, row := range rows {
				quoted, _ := json.Marshal(row.Input)
				path, body := "/v1/completions", `{"model":"m","prompt":`+string(quoted)+`}`
				if as == "chat" {
					path, body = "/v1/chat/completions",
						`{"model":"m","messages":[{"role":"user","content":`+string(quoted)+`}]}`
				}
				res, _ := r.post(path, body)
				id := res.Header.Get("X-Session-Id")
				extends, ok := false, false
				for _, earlier := range bySession[row.Session] {
					if len(earlier.text) >= 64 && len(row.Input) > len(earlier.text) &&
						strings.HasPrefix(row.Input, earlier.text) {
						extends = true
						ok = ok || id == earlier.id
					}
				}
				if extends {
					extended++
					if ok {
						joined++
					}
				}
				bySession[row.Session] = append(bySession[row.Session], prompt{row.Input, id})
				if len(texts[row.Input]) == 1 {
					if sessionsOf[id] == nil {
						sessionsOf[id] = map[string]bool{}
					}
					sessionsOf[id][row.Session] = true
				}
			}
			if joined*100 < extended*99 || extended < 10 {
				t.Errorf("%d of %d prompts that extend an earlier one got its id", joined, extended)
			}
			for id, s := range sessionsOf {
				if len(s) > 1 {
					t.Errorf("id %s spans %d sessions", id, len(s))
				}
			}
			t.Logf("%d prompts, %d extend an earlier one, %d joined", len(rows), extended, joined)
		})
	}
}

type agentText struct {
	Session string `json:"session_id"`
	Input   string `json:"input"`
	At      int64  `json:"timestamp"` // ms since the session's start
}

func agentTexts(t *testing.T) []agentText {
	t.Helper()
	f, err := os.Open("../../../shared/traces/agent_text.jsonl.gz")
	if err != nil {
		t.Skip("the recorded agent texts are not beside this checkout: ", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []agentText
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var row agentText
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	// All sessions at once, as a router sees them.
	slices.SortStableFunc(rows, func(a, b agentText) int { return cmp.Compare(a.At, b.At) })
	return rows
}
