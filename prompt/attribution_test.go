package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const billing = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.126.9f3; cc_entrypoint=cli; ` +
	`cch=01eef;"}`

// dropped is DropAttribution of a body; false for one that cannot be read.
func dropped(t rapid.TB, body []byte) (e Edit, ok bool) {
	t.Helper()
	parser, err := Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parser.Parse(Messages, body, func(string) string { return "" })
	if err != nil {
		return e, false
	}
	return p.DropAttribution(body)
}

// isSamePrompt checks that what was dropped from a body is no part of its prompt's identity: both look for it by
// themselves, in the body and on the tape.
func isSamePrompt(t rapid.TB, body, left []byte) {
	t.Helper()
	parser, err := Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	var with, without Chain
	if _, err := parser.ParseChain(Messages, body, nil, &with); err != nil {
		return
	}
	if _, err := parser.ParseChain(Messages, left, nil, &without); err != nil || with.Whole != without.Whole {
		t.Fatalf("%s became %s, which is another prompt, %v", body, left, err)
	}
}

func TestDropAttribution(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{
			"first", `{"system":[` + billing + `,{"type":"text","text":"You are"}],"messages":[]}`,
			`{"system":[{"type":"text","text":"You are"}],"messages":[]}`,
		},
		{
			"with white space", "{ \"system\" : [\n  " + billing + " ,\n  {\"text\":\"x\"} ] }",
			"{ \"system\" : [\n  \n  {\"text\":\"x\"} ] }",
		},
		{"alone", `{"system":[ ` + billing + ` ]}`, `{"system":[  ]}`},
		{"last", `{"system":[{"text":"a"} , ` + billing + ` ],"x":1}`, `{"system":[{"text":"a"} ],"x":1}`},
		{
			"in the middle", `{"system":[{"text":"a"},` + billing + `,{"text":"b"}]}`,
			`{"system":[{"text":"a"},{"text":"b"}]}`,
		},
		{
			"behind the messages", `{"messages":[{"role":"user","content":"hi"}],"system":[` + billing +
				`,{"text":"b"}],"n":9007199254740993}`,
			`{"messages":[{"role":"user","content":"hi"}],"system":[{"text":"b"}],"n":9007199254740993}`,
		},
		{"of two members the last counts", `{"system":[` + billing + `],"system":[{"text":"b"}]}`, ""},
		{
			"escaped",
			`{"system":[{"text":"\u0078-anthropic-billing-header: x"},{"text":"x-anthropic-billing-header"}]}`,
			`{"system":[{"text":"x-anthropic-billing-header"}]}`,
		},
		{"of a user", `{"system":"s","messages":[{"role":"user","content":[` + billing + `]}]}`, ""},
		{"a text", `{"system":"x-anthropic-billing-header: cch=1;\nYou are"}`, ""},
		{"within a text", `{"system":[{"text":"The x-anthropic-billing-header is no header"}]}`, ""},
		{"not a text", `{"system":[{"text":["x-anthropic-billing-header"]},["x-anthropic-billing-header"],"x-anthropic-billing-header"]}`, ""},
		{"deeper", `{"metadata":{"system":[` + billing + `]}}`, ""},
		{"none", `{"system":[{"text":"s"}]}`, ""},
		{"no object", `["x-anthropic-billing-header"]`, ""},
		{"cut", `{"system":[` + billing, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, ok := dropped(t, []byte(tt.body))
			if !ok {
				if tt.want != "" {
					t.Errorf("nothing is dropped, want %s", tt.want)
				}
				return
			}
			if got := string(Splice(nil, []byte(tt.body), e)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestDropAttributionAgainstEncodingJSON: what is left is what encoding/json would leave, whatever else the body has.
func TestDropAttributionAgainstEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts []string
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			parts = append(parts, rapid.SampledFrom([]string{
				billing, `{"type":"text","text":"You are","cache_control":{"type":"ephemeral"}}`, `"plain"`, `{}`,
				`[1,{"text":"x-anthropic-billing-header"}]`, `{"text":"x-anthropic-billing-header","text":"no"}`,
				`{"text":"no","text":"x-anthropic-billing-header"}`,
			}).Draw(t, "part"))
		}
		space := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space") }
		var list strings.Builder
		for i, p := range parts {
			if i > 0 {
				list.WriteString("," + space())
			}
			list.WriteString(space() + p + space())
		}
		body := fmt.Sprintf(
			`{"model":"m"%s,"system":%s[%s]%s,"messages":[{"role":"user","content":"x-anthropic-billing-header"}]}`,
			space(), space(), list.String(), space())
		var want map[string]any
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatal(err)
		}
		system, drops := want["system"].([]any), false
		for i, part := range system {
			if m, ok := part.(map[string]any); ok {
				if text, ok := m["text"].(string); ok && strings.HasPrefix(text, "x-anthropic-billing-header") {
					want["system"], drops = append(append([]any{}, system[:i]...), system[i+1:]...), true
					break
				}
			}
		}
		e, ok := dropped(t, []byte(body))
		if ok != drops {
			t.Fatalf("dropped from %s: %v", body, ok)
		}
		if !ok {
			return
		}
		var got map[string]any
		if left := Splice(nil, []byte(body), e); json.Unmarshal(left, &got) != nil || !cmp.Equal(got, want) {
			t.Fatalf("%s became %s", body, left)
		} else {
			isSamePrompt(t, []byte(body), left)
		}
	})
}

// TestAttributionIsNoPartOfPrompts: prompts that differ in it are one, for Anthropic's API alone.
func TestAttributionIsNoPartOfPrompts(t *testing.T) {
	body := func(cch, front string) []byte {
		return []byte(
			`{"model":"m","system":[` + strings.Replace(billing, "01eef", cch, 1) + `,{"type":"text","text":"` + front +
				`"}],"messages":[{"role":"user","content":"` + strings.Repeat("hello ", 100) + `"}]}`)
	}
	last := func(body []byte) uint64 {
		c := chainOf(t, Messages, string(body))
		return c.Marks[len(c.Marks)-1].Hash
	}
	if last(body("1", "s")) != last(body("2", "s")) {
		t.Error("prompts that differ in the attribution differ")
	}
	if last(body("1", "s")) == last(body("1", "t")) {
		t.Error("prompts that differ in the system part are one")
	}
	if e, ok := dropped(t, body("1", "s")); !ok || last(Splice(nil, body("1", "s"), e)) != last(body("2", "s")) {
		t.Error("a prompt without attribution differs from one with it")
	}
}

func FuzzDropAttribution(f *testing.F) {
	f.Add([]byte(`{"system":[` + billing + `,{"text":"a"}],"messages":[]}`))
	f.Add([]byte(`{"system":[{"text":"a"} , ` + billing + ` ]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if !json.Valid(body) {
			return
		}
		e, ok := dropped(t, body)
		if !ok {
			return
		}
		left := Splice(nil, body, e)
		if !json.Valid(left) || len(left) >= len(body) || bytes.Equal(left, body) {
			t.Fatalf("%s became %s", body, left)
		}
		isSamePrompt(t, body, left)
	})
}
