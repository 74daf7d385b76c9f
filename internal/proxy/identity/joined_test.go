package identity

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/session"
)

// talk is a conversation as its client keeps it: everything that was said, and how the client spells it.
type talk struct {
	number  int
	speaks  *dialect
	system  string
	opener  string
	answers []string // one for each turn; "call" makes the answer a tool call
	next    func(turn int) string
	picture bool
}

// dialect writes the body of a turn: everything said in the turns before it, and what is said now.
type dialect struct {
	name string
	api  prompt.API
	body func(t *talk, turn int) map[string]any
}

type m = map[string]any

const anyTools = `[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]`

func (t *talk) said(turn int) string {
	if turn == 0 {
		return t.opener
	}
	return t.next(turn)
}

// chatOf spells a chat. Between turns the client changes the ids of tool calls, null and empty contents, and drops
// reasoning.
func chatOf(t *talk, turn int) map[string]any {
	said := func(i int) any {
		if t.picture && i == 0 {
			return []m{
				{"type": "text", "text": t.said(i)},
				{"type": "image_url", "image_url": m{"url": fmt.Sprint("data:image/png;base64,", t.number)}},
			}
		}
		if turn%2 == 1 {
			return []m{{"type": "text", "text": t.said(i)}}
		}
		return t.said(i)
	}
	list := []m{{"role": "system", "content": t.system}, {"role": "user", "content": said(0)}}
	for i := range turn {
		answer := m{"role": "assistant", "content": t.answers[i]}
		if i == turn-1 {
			answer["reasoning_content"] = "let me think"
		}
		next := m{"role": "user", "content": said(i + 1)}
		if args, ok := strings.CutPrefix(t.answers[i], "call "); ok {
			id := fmt.Sprint("call_", turn, "_", i)
			answer["content"] = []any{nil, ""}[turn%2]
			answer["tool_calls"] = []m{{"id": id, "type": "function", "function": m{"name": "bash", "arguments": args}}}
			next = m{"role": "tool", "tool_call_id": id, "content": t.said(i + 1)}
		}
		list = append(list, answer, next)
	}
	return m{"model": "m", "messages": list, "tools": json.RawMessage(anyTools)}
}

func messagesOf(t *talk, turn int) map[string]any {
	list := []m{{"role": "user", "content": t.said(0)}}
	for i := range turn {
		answer := []m{{"type": "text", "text": t.answers[i]}}
		next := m{"type": "text", "text": t.said(i + 1)}
		if args, ok := strings.CutPrefix(t.answers[i], "call "); ok {
			id := fmt.Sprint("toolu_", turn, "_", i)
			answer = []m{{"type": "tool_use", "id": id, "name": "bash", "input": m{"command": args}}}
			next = m{"type": "tool_result", "tool_use_id": id, "content": t.said(i + 1)}
		}
		if i == turn-1 {
			answer = append([]m{{"type": "thinking", "thinking": "hm", "signature": "x"}}, answer...)
			next["cache_control"] = m{"type": "ephemeral"}
		}
		list = append(list, m{"role": "assistant", "content": answer}, m{"role": "user", "content": []m{next}})
	}
	return m{"model": "m", "max_tokens": 9, "system": t.system, "messages": list, "tools": []m{
		{"name": "bash", "input_schema": m{}},
	}}
}

func responsesOf(t *talk, turn int) map[string]any {
	list := []m{{"role": "user", "content": t.said(0)}}
	for i := range turn {
		if i == turn-1 {
			list = append(list, m{"type": "reasoning", "id": fmt.Sprint("rs_", turn), "summary": []m{}})
		}
		if args, ok := strings.CutPrefix(t.answers[i], "call "); ok {
			id := fmt.Sprint("call_", turn, "_", i)
			list = append(list, m{"type": "function_call", "call_id": id, "name": "bash", "arguments": args},
				m{"type": "function_call_output", "call_id": id, "output": t.said(i + 1)})
			continue
		}
		list = append(list, m{
			"type": "message", "role": "assistant", "content": []m{{"type": "output_text", "text": t.answers[i]}},
		}, m{"role": "user", "content": t.said(i + 1)})
	}
	return m{"model": "m", "instructions": t.system, "input": list}
}

// rendered is the prompt that a client renders by itself.
func rendered(t *talk, turn int) string {
	s := "<|im_start|>system\n" + t.system + "<|im_end|>\n<|im_start|>user\n" + t.said(0) +
		"<|im_end|>\n<|im_start|>assistant\n"
	for i := range turn {
		s += t.answers[i] + "<|im_end|>\n<|im_start|>user\n" + t.said(i+1) + "<|im_end|>\n<|im_start|>assistant\n"
	}
	return s
}

// begun has a chat end with the beginning of the answer, which later turns have as a part of it.
func begun(of func(*talk, int) m) func(*talk, int) m {
	return func(t *talk, turn int) m {
		body := of(t, turn)
		body["messages"] = append(body["messages"].([]m), m{"role": "assistant", "content": "Sure: "})
		return body
	}
}

// thinks is a rendered prompt that ends with what makes the model think, or keeps it from thinking. Later turns lack
// it.
func thinks(end string) func(*talk, int) m {
	return func(t *talk, turn int) m { return m{"model": "m", "prompt": rendered(t, turn) + end} }
}

var dialects = []*dialect{
	{"chat with begun answers", prompt.Chat, begun(chatOf)},
	{"messages with begun answers", prompt.Messages, begun(messagesOf)},
	{"completions that think", prompt.Completions, thinks("<think>\n")},
	{"completions that do not think", prompt.Completions, thinks("<think>\n\n</think>\n\n")},
	{"completions with another mark", prompt.Completions, thinks("<seed:think>")},
	{"chat", prompt.Chat, chatOf},
	{"messages", prompt.Messages, messagesOf},
	{"responses", prompt.Responses, responsesOf},
	{"ollama", prompt.OllamaChat, chatOf},
	{"completions", prompt.Completions, func(t *talk, turn int) map[string]any {
		return m{"model": "m", "prompt": rendered(t, turn)}
	}},
	{"generate", prompt.Generate, func(t *talk, turn int) map[string]any { return m{"text": rendered(t, turn)} }},
}

// joins plays conversations in a random order and returns how many turns after the first got the id of their
// conversation, how many there were, and what was joined wrongly.
func joins(t *testing.T, seed uint64, talks []*talk) (joined, turns int, wrong []string) {
	t.Helper()
	draw := rand.New(rand.NewPCG(seed, 1))
	trails := session.NewTrails(100_000)
	var parser prompt.Parser
	owner, ids, at := map[string]int{}, make([]string, len(talks)), make([]int, len(talks))
	var open []int
	for i := range talks {
		open = append(open, i)
	}
	for len(open) > 0 {
		pick := draw.IntN(min(len(open), 40)) // so many talk at a time
		i := open[pick]
		k, turn := talks[i], at[i]
		body, err := json.Marshal(k.speaks.body(k, turn))
		if err != nil {
			t.Fatal(err)
		}
		c := reads(t, &parser, k.speaks.api, string(body))
		trail := c.Follow()
		f := trails.Find(trail, fmt.Sprint(i, "/", turn))
		trails.Note(trail, &f)
		opening := trail.Opens()
		c.Release()
		// A repeat of a long prompt counts as a retry until one of the two goes on, which then has the id.
		owns := !f.Repeats && (turn > 0 || opening)
		if who, ok := owner[f.ID]; ok && who != i && owns {
			wrong = append(wrong, fmt.Sprintf("turn %d of %d (%s, %q) has the id of %d (%q)",
				turn, i, k.speaks.name, k.opener, who, talks[who].opener))
		}
		if f.Repeats {
			delete(owner, f.ID)
		} else if owns {
			owner[f.ID] = i
		}
		if turn > 0 {
			turns++
			if f.ID == ids[i] {
				joined++
			}
		}
		ids[i] = f.ID
		if at[i]++; at[i] > len(k.answers) {
			open = append(open[:pick], open[pick+1:]...)
		}
	}
	return joined, turns, wrong
}

// TestConversationsAreJoined: turns of conversations without an id get the id of the turn before, and no two
// conversations get the same one. Their system prompt is the same for all. Very short openers are said by many.
func TestConversationsAreJoined(t *testing.T) {
	system := strings.Repeat("You are a helpful assistant. ", 20)
	words := strings.Fields("list the files in this folder and tell me which of them changed since Monday please " +
		"请列出文件 天気はどうですか the weather of Paris")
	for _, of := range []struct {
		name  string
		least float64
		talk  func(i int, draw *rand.Rand) *talk
	}{
		{"agents with tool calls", 1, func(i int, draw *rand.Rand) *talk {
			k := &talk{opener: fmt.Sprint(words[draw.IntN(len(words))], " ", i)}
			for turn := range 2 + draw.IntN(12) {
				k.answers = append(k.answers, fmt.Sprintf(`call {"n":%d}`, turn+draw.IntN(3)))
			}
			k.next = func(turn int) string { return fmt.Sprint("exit ", turn%2) }
			return k
		}},
		{"chats with openers of their own", 1, func(i int, draw *rand.Rand) *talk {
			k := &talk{opener: fmt.Sprint(words[i%len(words)], i), picture: i%7 == 0}
			for range 1 + draw.IntN(4) {
				k.answers = append(k.answers, words[draw.IntN(len(words))])
			}
			k.next = func(turn int) string { return words[(i+turn)%3] }
			return k
		}},
		{"long openers", 1, func(i int, draw *rand.Rand) *talk {
			k := &talk{opener: strings.Repeat(fmt.Sprint(words[i%len(words)], " "), 30) + fmt.Sprint(i, ".")}
			for range 1 + draw.IntN(4) {
				k.answers = append(k.answers, "yes")
			}
			k.next = func(int) string { return "and then?" }
			return k
		}},
		{"hi", 0.2, func(i int, draw *rand.Rand) *talk {
			k := &talk{opener: "hi", answers: []string{"Hello! How can I help?"}}
			for range draw.IntN(4) {
				k.answers = append(k.answers, words[draw.IntN(len(words))])
			}
			k.next = func(turn int) string { return fmt.Sprint(words[(i+turn)%5]) }
			return k
		}},
		{"hi and other answers", 0.55, func(i int, draw *rand.Rand) *talk {
			k := &talk{opener: []string{"hi", "hello", "你好"}[i%3], answers: []string{
				fmt.Sprint("Hello! How can I help number ", i),
			}}
			for range draw.IntN(4) {
				k.answers = append(k.answers, words[draw.IntN(len(words))])
			}
			k.next = func(turn int) string { return fmt.Sprint(words[(i+turn)%5]) }
			return k
		}},
	} {
		for _, speaks := range dialects {
			t.Run(of.name+"/"+speaks.name, func(t *testing.T) {
				draw := rand.New(rand.NewPCG(7, 7))
				var talks []*talk
				for i := range 200 {
					k := of.talk(i, draw)
					k.number, k.speaks, k.system = i, speaks, system
					talks = append(talks, k)
				}
				joined, turns, wrong := joins(t, 3, talks)
				t.Logf("%d of %d turns joined, %d wrongly", joined, turns, len(wrong))
				if float64(joined) < of.least*float64(turns) {
					t.Errorf("%d of %d turns joined, want %g of them", joined, turns, of.least)
				}
				if len(wrong) > 0 {
					t.Errorf("%d joined wrongly, the first: %s", len(wrong), wrong[0])
				}
			})
		}
	}
}
