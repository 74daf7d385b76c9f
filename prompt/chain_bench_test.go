package prompt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

const chineseText = "路由器记住每个会话在哪个引擎上是热的，并且估计谁能最快回答。缓存命中时预填充几乎不花时间；否则就要重新计算整个提示。"

func BenchmarkParseChain(b *testing.B) {
	p := newParser(b)
	header := func(string) string { return "" }
	for _, row := range []struct{ name, text string }{
		{"code", codeText}, {"tabs", tabsText}, {"plain", plainText}, {"mixed", mixedText}, {"chinese", chineseText},
	} {
		for _, size := range []int{1_000, 8_000, 100_000, 500_000} {
			body := chatBody(size, row.text)
			b.Run(fmt.Sprintf("%s/%dkB", row.name, size/1000), func(b *testing.B) {
				var c Chain
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.ParseChain(Chat, body, header, &c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// realBody is a chat of real prompts, of about size bytes.
func realBody(b *testing.B, size int) []byte {
	var messages []any
	all := sessions(b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, text := range all[name] {
			if size -= len(text); size < 0 {
				text = text[:max(0, len(text)+size)]
			}
			messages = append(messages, map[string]any{"role": "user", "content": text})
			if size < 0 {
				break
			}
		}
	}
	body, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// BenchmarkRealText uses text that a branch predictor cannot learn.
func BenchmarkRealText(b *testing.B) {
	p := newParser(b)
	var c Chain
	body := realBody(b, 100_000)
	for _, row := range []struct {
		name string
		run  func() error
	}{
		{"parse", func() error { _, err := p.Parse(Chat, body, nil); return err }},
		{"chain", func() error { _, err := p.ParseChain(Chat, body, nil, &c); return err }},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := row.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHashAt(b *testing.B) {
	var c Chain
	if _, err := newParser(b).ParseChain(Chat, chatBody(100_000, codeText), nil, &c); err != nil {
		b.Fatal(err)
	}
	n, h := 0, uint64(0)
	for b.Loop() {
		h ^= c.HashAt(n)
		n = (n + 4099) % (c.Bytes + 1)
	}
	if h == 1 {
		b.Log(h)
	}
}
