package identity

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// countedText is a text in pieces, with the tokens that real tokenizers count in them
// (../../../route/internal/size/testdata).
type countedText struct {
	Kind   string `json:"kind"`
	Pieces []struct {
		Text   string         `json:"text"`
		Tokens map[string]int `json:"tokens"`
	} `json:"pieces"`
}

// counted is a prompt as the router sees it, and its tokens by tokenizer.
type counted struct {
	text   fleet.Text
	tokens map[string]int
}

// tellers makes chats of texts: [0] of those to learn from, [1] of those kept apart.
type tellers struct {
	texts  [2]map[string][]countedText
	rng    *rand.Rand
	parser prompt.Parser
	about  Content
}

func newTellers(t *testing.T) *tellers {
	f, err := os.Open("../../../route/internal/size/testdata/texts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g := &tellers{rng: rand.New(rand.NewPCG(4, 4)), texts: [2]map[string][]countedText{{}, {}}}
	seen := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var x countedText
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		half := seen[x.Kind] % 2
		seen[x.Kind]++
		g.texts[half][x.Kind] = append(g.texts[half][x.Kind], x)
	}
	if lines.Err() != nil || seen["english"] < 10 || seen["chinese"] < 10 || seen["code"] < 10 {
		t.Fatalf("texts: %v, %v", seen, lines.Err())
	}
	return g
}

// chat is a chat of one to six messages, 300 bytes to 40 kB long, in a template that adds 12 tokens once and 5 for each
// message, as ChatML with a short system prompt of its own does.
func (g *tellers) chat(t *testing.T, kind string, half int) counted {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	length := int(300 * math.Pow(40_000.0/300, g.rng.Float64()))
	turns := 1 + g.rng.IntN(6)
	out := counted{tokens: map[string]int{}}
	var messages []message
	var b strings.Builder
	flush := func() {
		messages = append(messages, message{[]string{"user", "assistant"}[len(messages)%2], b.String()})
		b.Reset()
	}
	for total := 0; total < length; {
		texts := g.texts[half][kind]
		pieces := texts[g.rng.IntN(len(texts))].Pieces
		for i := g.rng.IntN(len(pieces)); i < len(pieces) && total < length; i++ {
			b.WriteString(pieces[i].Text)
			total += len(pieces[i].Text)
			for name, n := range pieces[i].Tokens {
				out.tokens[name] += n
			}
			if b.Len() > length/turns {
				flush()
			}
		}
	}
	if b.Len() > 0 {
		flush()
	}
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.parser.ParseChain(prompt.Chat, body, func(string) string { return "" }, &g.about.Chain); err != nil {
		t.Fatal(err)
	}
	for name := range out.tokens {
		out.tokens[name] += 12 + 5*len(messages)
	}
	out.text = g.about.textOf(prompt.Chat)
	return out
}

// estimates are a router's of prompts, before one engine that counts them.
type estimates struct {
	r   *route.Router
	now time.Time
}

func newEstimates() *estimates {
	e := &estimates{r: route.New(route.Config{Policy: basic.NewRoundRobin}), now: time.Unix(1000, 0)}
	e.r.Observe(e.now, route.Declared{
		Source: "test", Endpoints: []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1, Models: []string{"m"}}},
	})
	e.r.Observe(e.now, route.Probed{Endpoint: "e", Report: fleet.Report{Healthy: true}})
	return e
}

// ask is the tokens that the router estimates of a prompt. Afterwards it is told how many they were; 0 if nobody has
// counted them.
func (e *estimates) ask(text *fleet.Text, tokens int) int {
	e.now = e.now.Add(time.Second)
	d, err := e.r.Decide(e.now, &fleet.Request{Model: "m", MintedID: "c", Content: &fleet.Content{Text: *text}})
	if err != nil {
		panic(err)
	}
	e.r.Observe(e.now, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: tokens}})
	return d.PromptTokens
}

// TestTokenEstimate judges the estimate by real tokenizers: after 50 requests, of all kinds in turn, of one kind after
// another, or of one kind alone, prompts of other texts are estimated.
func TestTokenEstimate(t *testing.T) {
	g := newTellers(t)
	kinds := []string{"english", "chinese", "code"}
	held := map[string][]counted{}
	for _, kind := range kinds {
		for range 100 {
			held[kind] = append(held[kind], g.chat(t, kind, 1))
		}
	}
	streams := []struct {
		name   string
		kindOf func(i int) string
		judged []string
	}{
		{"mixed", func(i int) string { return kinds[i%3] }, kinds},
		{"english, chinese, code", func(i int) string { return kinds[i*3/50] }, kinds},
		{"code, chinese, english", func(i int) string { return kinds[2-i*3/50] }, kinds},
		{"english", func(int) string { return "english" }, kinds[:1]},
		{"chinese", func(int) string { return "chinese" }, kinds[1:2]},
		{"code", func(int) string { return "code" }, kinds[2:]},
	}
	for _, tokenizer := range []string{
		"cl100k_base", "o200k_base", "qwen2", "qwen3.6", "deepseek-v4", "tekken", "mistral-v1",
	} {
		for _, stream := range streams {
			r := newEstimates()
			for i := range 50 {
				c := g.chat(t, stream.kindOf(i), 0)
				r.ask(&c.text, c.tokens[tokenizer])
			}
			line := ""
			for _, kind := range stream.judged {
				sum, bias := 0.0, 0.0
				for i := range held[kind] {
					c := &held[kind][i]
					want := float64(c.tokens[tokenizer])
					off := (float64(r.ask(&c.text, 0)) - want) / want
					sum += math.Abs(off)
					bias += off
				}
				n := float64(len(held[kind]))
				line += fmt.Sprintf("  %s %.1f %% (bias %+.1f)", kind, 100*sum/n, 100*bias/n)
				if sum/n >= 0.11 {
					t.Errorf("%s after 50 requests (%s): %s is wrong by %.1f %% on average, want under 11 %%",
						tokenizer, stream.name, kind, 100*sum/n)
				}
			}
			t.Logf("%-12s %-24s%s", tokenizer, stream.name, line)
		}
	}
}

// TestTokenPrior is about prompts before any report.
func TestTokenPrior(t *testing.T) {
	g := newTellers(t)
	for _, row := range []struct {
		kind string
		most float64 // of the vocabularies differ as much in Chinese
	}{{"english", 0.2}, {"chinese", 0.45}, {"code", 0.25}} {
		sum := map[string]float64{}
		for range 50 {
			c := g.chat(t, row.kind, 0)
			for name, n := range c.tokens {
				sum[name] += math.Abs(float64(newEstimates().ask(&c.text, 0))/float64(n)-1) / 50
			}
		}
		for name, off := range sum {
			if off > row.most {
				t.Errorf("%s, %s: wrong by %.0f %%, want at most %.0f %%", name, row.kind, 100*off, 100*row.most)
			}
			t.Logf("%s, %s: %.1f %%", name, row.kind, 100*off)
		}
	}
}
