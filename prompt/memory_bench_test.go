package prompt

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// agentBody is a chat of real agents' text, of about size bytes: tools of at most 3 kB, a system prompt, messages of
// about 2 kB, and a last one of a tenth. Changing the sixteen digits at begins[0] makes all of it new, at begins[1] the
// last message.
func agentBody(b *testing.B, size int) (body []byte, begins [2]int) {
	b.Helper()
	var text string
	all := sessions(b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += strings.Join(all[name][len(all[name])-1:], "")
	}
	text = strings.ToValidUTF8(strings.Repeat(text, size/len(text)+2), "")
	const mark = "0000000000000000 "
	take := func(n int) string {
		for n < len(text) && text[n]&0xc0 == 0x80 {
			n++
		}
		out := text[:n]
		text = text[n:]
		return out
	}
	type said struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	message := func(role, text string) said { return said{role, text} }
	tools := []any{map[string]any{
		"type": "function", "function": map[string]any{"name": "run", "description": take(min(size/20, 3000))},
	}}
	messages := []any{message("system", mark+take(min(size/10, 2000)))}
	for left := size*86/100 - size/10 - min(size/20, 3000) - min(size/10, 2000); left > 0; left -= 2200 {
		messages = append(messages, message([]string{"assistant", "user"}[len(messages)%2], take(min(left, 2000))))
	}
	messages = append(messages, message("user", mark+take(size/10)))
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any{
		"model": "m", "messages": messages, "stream": true, "tools": tools,
	}); err != nil {
		b.Fatal(err)
	}
	begins = [2]int{bytes.Index(out.Bytes(), []byte(mark)), bytes.LastIndex(out.Bytes(), []byte(mark))}
	return out.Bytes(), begins
}

var chainSizes = []int{1_000, 8_000, 100_000, 500_000}

func benchmarkFrom(b *testing.B, size, renew int, bytesKnown bool) {
	p := newParser(b)
	var c Chain
	body, begins := agentBody(b, size)
	mem := NewMemory(DefaultMemory, 1, nil)
	unique := uint64(1e15)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if renew < 2 {
			unique++
			var raw [8]byte
			for i := range raw {
				raw[i] = byte(unique >> (56 - 8*i))
			}
			hex.Encode(body[begins[renew]:], raw[:])
		}
		if _, err := p.ParseChainFrom(mem, Chat, body, nil, &c); err != nil {
			b.Fatal(err)
		}
	}
	if bytesKnown {
		b.ReportMetric(float64(c.known.raw)/float64(len(body)), "known")
	}
}

// BenchmarkChain reads new bodies: without a memory, and with one that learns each of them.
func BenchmarkChain(b *testing.B) {
	for _, size := range chainSizes {
		b.Run(fmt.Sprintf("alone/%dkB", size/1000), func(b *testing.B) {
			p := newParser(b)
			var c Chain
			body, _ := agentBody(b, size)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.ParseChain(Chat, body, nil, &c); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("learning/%dkB", size/1000), func(b *testing.B) { benchmarkFrom(b, size, 0, false) })
	}
}

// BenchmarkResume reads bodies of which 90 % was sent before, and repeated bodies.
func BenchmarkResume(b *testing.B) {
	for _, size := range chainSizes {
		b.Run(fmt.Sprintf("grown/%dkB", size/1000), func(b *testing.B) { benchmarkFrom(b, size, 1, true) })
		b.Run(fmt.Sprintf("repeated/%dkB", size/1000), func(b *testing.B) { benchmarkFrom(b, size, 2, true) })
	}
}
