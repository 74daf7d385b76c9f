package prompt

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

// anthropic writes a conversation as a body of the Messages API.
func anthropic(t *rapid.T, conv []said) []byte {
	var messages []any
	for _, m := range conv {
		var blocks []any
		for _, text := range m.texts {
			block := pairs("type", "text", "text", text)
			if rapid.Bool().Draw(t, "cache") {
				block = append(block, pairs("cache_control", pairs("type", "ephemeral"))...)
			}
			blocks = append(blocks, block)
		}
		for _, call := range m.calls {
			blocks = append(blocks, pairs("type", "tool_use", "id", words.Draw(t, "id"), "name", call[0],
				"input", pairs("a", call[1], "b", []any{1, pairs("x", nil, "", "y")})))
		}
		if m.role == "assistant" && rapid.Bool().Draw(t, "thinking") {
			blocks = append([]any{
				pairs("type", "thinking", "thinking", words.Draw(t, "thought"), "signature", "x"),
			}, blocks...)
		}
		o := pairs("role", m.role)
		if len(m.texts) == 1 && len(blocks) == 1 && rapid.Bool().Draw(t, "string") {
			o = append(o, pairs("content", m.texts[0])...)
		} else {
			o = append(o, pairs("content", blocks)...)
		}
		messages = append(messages, o)
	}
	system := any("be brief")
	if rapid.Bool().Draw(t, "system as blocks") {
		system = []any{pairs("type", "text", "text", system)}
	}
	return spell(t, nil, pairs("messages", messages, "system", system))
}

// responses writes a conversation as a body of the Responses API, with calls as separate items.
func responses(t *rapid.T, conv []said) []byte {
	var items []any
	for _, m := range conv {
		if m.role == "tool" {
			items = append(items, pairs("type", "function_call_output", "call_id", words.Draw(t, "id"),
				"output", strings.Join(m.texts, "")))
			continue
		}
		var parts []any
		for _, text := range m.texts {
			parts = append(parts,
				pairs("type", rapid.SampledFrom([]string{"input_text", "output_text"}).Draw(t, "type"), "text", text))
		}
		items = append(items, pairs("role", m.role, "content", parts))
		for _, call := range m.calls {
			if rapid.Bool().Draw(t, "reasoning") {
				items = append(items, pairs("type", "reasoning", "id", words.Draw(t, "id"), "summary", []any{}))
			}
			items = append(items,
				pairs("type", "function_call", "name", call[0], "arguments", call[1], "call_id", words.Draw(t, "id")))
		}
	}
	return spell(t, nil, pairs("input", items, "instructions", "be brief"))
}

// In every API a conversation's chain is a prefix of the chain of its continuation.
func TestChainsGoOn(t *testing.T) {
	p := newParser(t)
	for _, row := range []struct {
		api   API
		write func(*rapid.T, []said) []byte
	}{{Messages, anthropic}, {Responses, responses}, {Chat, chat}} {
		t.Run(row.api.String(), func(t *testing.T) {
			var a, b Chain
			rapid.Check(t, func(t *rapid.T) {
				conv := conversation(t)
				n := rapid.IntRange(0, len(conv)).Draw(t, "first turns")
				for _, made := range []struct {
					c    *Chain
					body []byte
				}{{&a, row.write(t, conv[:n])}, {&b, row.write(t, conv)}} {
					if _, err := p.ParseChain(row.api, made.body, nil, made.c); err != nil {
						t.Fatalf("%s: %v", made.body, err)
					}
				}
				if len(a.Marks) > len(b.Marks) || b.HashAt(a.Bytes) != a.Whole || a.Scope != b.Scope {
					t.Fatalf("%s\ndoes not begin\n%s", readable(a.text), readable(b.text))
				}
				for i := range a.Marks {
					if a.Marks[i] != b.Marks[i] {
						t.Fatalf("mark %d: %+v, then %+v", i, a.Marks[i], b.Marks[i])
					}
				}
				if n < len(conv) && a.Bytes >= b.Bytes {
					t.Fatalf("%d turns of %d make %d bytes of %d", n, len(conv), a.Bytes, b.Bytes)
				}
			})
		})
	}
}

func TestTextKinds(t *testing.T) {
	rows := []struct {
		name, text string
		want       TextKinds // shares in hundredths
	}{
		{"prose", plainText, TextKinds{Latin: 98, Code: 2}},
		{
			"code", "\tif x[i] != 0 {\n\t\ty += 10*x[i]\n\t}\n        return (a + b) / 2;\n",
			TextKinds{Latin: 41, Code: 59},
		},
		{"Chinese", "缓存命中时预填充几乎不花时间。", TextKinds{CJK: 100}},
		{"Japanese", "ひらがなカタカナ漢字", TextKinds{CJK: 100}},
		{"Korean", "한국어텍스트", TextKinds{CJK: 100}},
		{"Russian", "маршрутизатор помнит", TextKinds{Latin: 3, Other: 97}},
		{"digits", "0123456789", TextKinds{Code: 100}},
		{"indentation", "                            ", TextKinds{Code: 99, Latin: 1}},
	}
	for _, row := range rows {
		for _, size := range []int{700, 100_000} {
			t.Run(fmt.Sprint(row.name, size), func(t *testing.T) {
				text := strings.Repeat(row.text, size/len(row.text)+1)
				c := chainOf(t, Completions, string(jsonscan.AppendString([]byte(`{"prompt":`), text))+"}")
				for _, kind := range []struct {
					name      string
					got, want int
				}{
					{"Latin", c.Kinds.Latin, row.want.Latin},
					{"Code", c.Kinds.Code, row.want.Code},
					{"CJK", c.Kinds.CJK, row.want.CJK},
					{"Other", c.Kinds.Other, row.want.Other},
				} {
					if got := float64(100*kind.got) / float64(c.Bytes); got < float64(kind.want)-5 ||
						got > float64(kind.want)+5 {
						t.Errorf("%s: %.1f %%, want %d %%", kind.name, got, kind.want)
					}
				}
			})
		}
	}
}

// Bodies nested to the Cursor's limit, and objects with very many members, do no harm.
func TestChainOfHugeShapes(t *testing.T) {
	const deep = jsonscan.MaxDepth - 10
	open, shut := strings.Repeat("[", deep), strings.Repeat("]", deep)
	c := chainOf(t, Chat, `{"tools":`+open+shut+`,"messages":[{"role":"user","content":`+open+`"a"`+shut+`}]}`)
	if got := readable(c.text); got != "<user>a" || c.ToolsBytes != 2*deep {
		t.Errorf("%s, %d bytes of tools", got, c.ToolsBytes)
	}
	open, shut = strings.Repeat(`{"content":`, deep), strings.Repeat("}", deep)
	if got := readable(chainOf(t, Messages, `{"messages":[`+open+`"a"`+shut+`]}`).text); got != "<user>a" {
		t.Errorf("got %.100s", got)
	}
	var up, down strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&up, `,"k%05d":%d`, i, i)
		fmt.Fprintf(&down, `,"k%05d":%d`, 19_999-i, 19_999-i)
	}
	a := chainOf(t, Chat, `{"tools":{`+up.String()[1:]+`},"messages":[]}`)
	b := chainOf(t, Chat, `{"tools":{`+down.String()[1:]+`},"messages":[]}`)
	if diff := same(a, b); diff != "" || a.Scope == 0 {
		t.Errorf("order of many members: %s", diff)
	}
}
