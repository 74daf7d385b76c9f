package rewrite

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	vllmUsage   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8,"created_cache_tokens":0,"multimodal_tokens":null}}}` + "\n\n"
	sglangUsage = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"total_tokens":11,"completion_tokens":2,"prompt_tokens_details":null,"reasoning_tokens":0}}` + "\n\n"
	vllmChunk   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	sglangChunk = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":" word","tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
)

// TestStripDecides says of events byte by byte where they are decided: what stands before the bar may become a usage
// chunk and is held back, from the byte after it on all is passed on at once. An event without a bar is taken out.
func TestStripDecides(t *testing.T) {
	for name, marked := range map[string]string{
		"vLLM's usage":           vllmUsage,
		"SGLang's usage":         sglangUsage,
		"Ollama's usage":         `data: {"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}` + "\n\n",
		"TensorRT-LLM's space":   `data: {"choices":[],"usage":{}} ` + "\n\n",
		"the other order":        `data: {"usage":{"a":[{"b":"]}\"\\"}]},"x":[{}],"choices":[]}` + "\n\n",
		"spaces":                 `data:{ "usage" : { } , "choices" : [ ] }` + "\n\n",
		"CRLF":                   `data: {"choices":[],"usage":{}}` + "\r\n\r\n",
		"CRLF, then LF":          `data: {"choices":[],"usage":{}}` + "\r\n\n",
		"a choice":               `data: {"id":"x","choices":[|{"delta":{}}],"usage":{"prompt_tokens":1}}` + "\n\n",
		"a continuous usage":     `data: {"usage":{"a":1},"choices":[|{}]}` + "\n\n",
		"choices after spaces":   `data: {"id":"x","choices": [ |{}]}` + "\n\n",
		"no usage":               `data: {"choices":[],"prompt_filter_results":[{}]|}` + "\n\n",
		"usage null":             `data: {"choices":[],"usage":|null}` + "\n\n",
		"usage of another shape": `data: {"usage":|[],"choices":[]}` + "\n\n",
		"choices null":           `data: {"choices":|null,"usage":{}}` + "\n\n",
		"usage in a string":      `data: {"choices":[],"a":"\",\"usage\":{}"|}` + "\n\n",
		"usage deeper":           `data: {"choices":[],"a":{"usage":{}}|}` + "\n\n",
		"an escaped name":        `data: {"choices":[],"us\u0061ge":{}|}` + "\n\n",
		"a longer name":          `data: {"choices":[],"usages":{},"choicess":[1]|}` + "\n\n",
		"the end":                `data: |[DONE]` + "\n\n",
		"an error":               `data: {"error":{"message":"x","code":500}|}` + "\n\n",
		"text":                   `data: |hello` + "\n\n",
		"no colon":               `data|` + "\n\n",
		"another field":          `|event: x` + "\n" + `data: {"choices":[],"usage":{}}` + "\n\n",
		"a second line":          `data: {"choices":[],"usage":{}}` + "\n" + `|data: x` + "\n\n",
		"a second, like the end": `data: {"choices":[],"usage":{}}` + "\n\r" + `|x` + "\n\n",
		"more behind it":         `data: {"choices":[],"usage":{}} |{}` + "\n\n",
		"no JSON":                `data: {"choices":[],"usage":{"a":tru}}` + "|\n\n",
		"no member":              `data: {"choices":[],"usage":{},|:1}` + "\n\n",
		"no value":               `data: {"a":|,"choices":[],"usage":{}}` + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			before, after, decided := strings.Cut(marked, "|")
			event := before + after
			for at := range len(event) {
				var s UsageStrip
				got := string(s.Pass([]byte(event[:at])))
				want := ""
				if decided && at > len(before) {
					want = event[:at]
				}
				if got != want {
					t.Fatalf("after %q passed on %q, want %q", event[:at], got, want)
				}
				got += string(s.Pass([]byte(event[at:])))
				if want = event; !decided {
					want = ""
				}
				if got != want || len(s.Close()) != 0 {
					t.Fatalf("split at %d: passed on %q, want %q", at, got, want)
				}
			}
		})
	}
}

// TestStripEnd: what a stream ends with, whole or not.
func TestStripEnd(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"the chunk without its blank line", vllmChunk + strings.TrimSuffix(vllmUsage, "\n"), vllmChunk},
		{"the chunk without its line end", vllmChunk + strings.TrimSpace(vllmUsage), vllmChunk},
		{"the chunk with half a blank line", strings.TrimSuffix(vllmUsage, "\n") + "\r", ""},
		{"a part of it", vllmUsage[:100], vllmUsage[:100]},
		{"a part of a chunk", vllmChunk + "dat", vllmChunk + "dat"},
		{"two of them", vllmUsage + vllmChunk + sglangUsage + doneEvent, vllmChunk + doneEvent},
		{"after comments", ": ping\n\n: a\n: b\n" + vllmUsage + doneEvent, ": ping\n\n: a\n: b\n" + doneEvent},
		{"nothing", "", ""},
	} {
		var whole, single UsageStrip
		got := string(whole.Pass([]byte(tt.in))) + string(whole.Close())
		if got != tt.want {
			t.Errorf("%s: passed on %q, want %q", tt.name, got, tt.want)
		}
		got = ""
		for i := range len(tt.in) {
			got += string(single.Pass([]byte{tt.in[i]}))
		}
		if got += string(single.Close()); got != tt.want {
			t.Errorf("%s, byte by byte: passed on %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestStripIsBounded: an endless line that could still become the chunk is passed on in the end.
func TestStripIsBounded(t *testing.T) {
	var s UsageStrip
	passed := 0
	sent := 0
	send := func(p string) {
		sent += len(p)
		passed += len(s.Pass([]byte(p)))
		if held := sent - passed; held > stripBytes || held != len(s.held) {
			t.Fatalf("%d bytes are held back, %d of them in hand", held, len(s.held))
		}
	}
	send(`data: {"choices":[],"usage":{"a":"`)
	for range 100 {
		send(strings.Repeat("x", 1000))
	}
	if passed != sent {
		t.Errorf("%d of %d bytes were passed on", passed, sent)
	}
	send("\"}}\n\n")
	if s.Removed != 0 || passed != sent {
		t.Errorf("%d taken out, %d of %d bytes passed on", s.Removed, passed, sent)
	}
	if cap(s.held) > 2*stripBytes {
		t.Errorf("%d bytes of memory are kept", cap(s.held))
	}
}

// part is an event of a random stream: what is held back of it is known from how it was made.
type part struct {
	text    string
	decided int // bytes with which it is known that it is passed on
	usage   bool
}

// passedOn is how many of an event's first n bytes are to be passed on by then.
func (p *part) passedOn(n int) int {
	if p.usage || n < p.decided {
		return 0
	}
	return n
}

func genPart(t *rapid.T) part {
	nl := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "nl")
	text := rapid.StringMatching(`[a-z "\\{}\[\]:,é世\n]{0,12}`)
	quoted := func(name string) string {
		b, err := json.Marshal(text.Draw(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	head := rapid.SampledFrom([]string{"data: {", "data:{", "data: { "}).Draw(t, "head")
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		head += rapid.SampledFrom([]string{`"id"`, `"usages"`, `"model"`, `"é"`, `"choice"`}).Draw(t, "name") + ":" +
			rapid.SampledFrom([]string{
				quoted("text"), "1.5e3", "null", "{}", `[{"usage":{},"choices":[{}]}]`, " true ",
			}).Draw(t, "value") + ","
	}
	end := nl + nl
	usage := `"usage":{"prompt_tokens":1,"x":` + quoted("in usage") + `}`
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return part{text: head + `"choices":[],` + usage + "}" + end, usage: true}
	case 1:
		return part{text: head + usage + `, "choices" : [ ] } ` + end, usage: true}
	case 2:
		return part{text: head + `"choices":[],"usage":null}` + end, decided: len(head + `"choices":[],"usage":n`)}
	case 3:
		return part{text: head + `"choices":[]}` + end, decided: len(head + `"choices":[]}`)}
	case 4:
		line := head + `"choices":[],` + usage + "}" + nl
		return part{text: line + "data: {}" + end, decided: len(line) + 1}
	case 5:
		return part{text: ": " + strings.ReplaceAll(text.Draw(t, "comment"), "\n", "") + end}
	case 6:
		return part{text: "event: x" + nl + head + `"choices":[],` + usage + "}" + end}
	case 7:
		return part{text: "data: [DONE]" + end, decided: len("data: [")}
	case 8:
		return part{text: nl}
	default:
		return part{
			text: head + `"choices":[{"delta":{"content":` + quoted("content") + `},"usage":{}}],` +
				usage + "}" + end,
			decided: len(head + `"choices":[{`),
		}
	}
}

// TestStripProperty: for any stream in any pieces, at each boundary exactly what may still become a usage chunk is held
// back, and in the end all is passed on but the usage chunks.
func TestStripProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(genPart), 0, 8).Draw(t, "parts")
		var in string
		for i := range parts {
			in += parts[i].text
		}
		want := func(upTo int) string {
			var b strings.Builder
			for i := range parts {
				n := min(upTo, len(parts[i].text))
				if upTo -= n; n < len(parts[i].text) {
					b.WriteString(parts[i].text[:parts[i].passedOn(n)])
				} else if !parts[i].usage {
					b.WriteString(parts[i].text)
				}
			}
			return b.String()
		}
		var s UsageStrip
		var got []byte
		for at := 0; at < len(in); {
			n := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 400)).Draw(t, "piece")
			if i := strings.Index(in[at:], "\n\n"); i >= 0 && rapid.Bool().Draw(t, "event") {
				n = i + 2
			}
			n = min(n, len(in)-at)
			piece := []byte(in[at : at+n])
			at += n
			got = append(got, s.Pass(piece)...)
			for i := range piece {
				piece[i] = '#' // it is the caller's again
			}
			if w := want(at); string(got) != w {
				t.Fatalf("after %q\npassed on %q\nwant      %q", in[:at], got, w)
			}
		}
		if rest := s.Close(); len(rest) > 0 {
			t.Errorf("%q is left at the end of whole events", rest)
		}
	})
}

// FuzzStrip: how a stream is cut into pieces makes no difference, nothing but whole usage chunks is missing, and the
// bound holds.
func FuzzStrip(f *testing.F) {
	for _, s := range []string{
		vllmChunk + vllmUsage + doneEvent, sglangChunk + sglangUsage + doneEvent, ": c\n" + vllmUsage,
		"data: {\"choices\":[],\"usage\":{}}\r\n\r\n",
		"data: {\"choices\":[],\"usage\":{}}\ndata: x\n\n", "event: a\n" + vllmUsage, "\r\n\r", "data",
		"data:{\"usage\":{\"\\\"\":\"\\\\\"},\"choices\":[ ]}", "data:{\"usage\":{},\"choices\":[[ ] ]}",
	} {
		f.Add([]byte(s), uint64(0x9e3779b97f4a7c15))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		var whole, cut UsageStrip
		one := append(bytes.Clone(whole.Pass(in)), whole.Close()...)
		var many []byte
		for rest := in; len(rest) > 0; {
			seed = seed*6364136223846793005 + 1442695040888963407
			n := min(1+int(seed>>59), len(rest))
			many = append(many, cut.Pass(rest[:n])...)
			rest = rest[n:]
			if len(cut.held) > stripBytes+1 {
				t.Fatalf("%d bytes held back", len(cut.held))
			}
		}
		many = append(many, cut.Close()...)
		if !bytes.Equal(one, many) || whole.Removed != cut.Removed {
			t.Fatalf("whole: %q (%d out)\npieces: %q (%d out)", one, whole.Removed, many, cut.Removed)
		}
		if want, removed := naiveStrip(in); !bytes.Equal(one, want) || removed != whole.Removed {
			t.Fatalf("passed on %q (%d out)\nwant %q (%d out)", one, whole.Removed, want, removed)
		}
	})
}

// naiveStrip does the same with the whole stream at hand, line by line and with encoding/json.
func naiveStrip(in []byte) (out []byte, removed int) {
	lines := bytes.SplitAfter(in, []byte("\n"))
	first := true
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		next := []byte(nil)
		if i+1 < len(lines) {
			next = lines[i+1]
		}
		switch end := string(next); {
		case first && naiveUsage(line) &&
			(end == "\n" || end == "\r\n" || i+1 >= len(lines)-1 && (end == "" || end == "\r")):
			removed++
			i++
			continue
		case isBlank(line):
			first = true
		case !bytes.HasPrefix(line, []byte(":")):
			first = false
		}
		out = append(out, line...)
	}
	return out, removed
}

func naiveUsage(line []byte) bool {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || len(line) > stripBytes || !json.Valid(data) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	found := map[string]bool{}
	for d.More() {
		start := int(d.InputOffset())
		if _, err := d.Token(); err != nil {
			return false
		}
		name := strings.TrimLeft(string(data[start:d.InputOffset()]), ", \t\r") // as it is written, escapes and all
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return false
		}
		switch name {
		case `"choices"`:
			if value[0] != '[' || bytes.TrimSpace(value[1:])[0] != ']' {
				return false
			}
			found[name] = true
		case `"usage"`:
			if value[0] != '{' {
				return false
			}
			found[name] = true
		}
	}
	return len(found) == 2
}

func BenchmarkStrip(b *testing.B) {
	large := strings.Repeat(vllmChunk, 150)
	for _, bb := range []struct {
		name   string
		pieces []string
	}{
		{"chunk/vllm", []string{vllmChunk}},
		{"chunk/sglang", []string{sglangChunk}},
		{"chunk/usage", []string{vllmUsage}},
		{"burst/32kB", []string{large}},
		{"chunk/cut in two", []string{vllmChunk[:150], vllmChunk[150:]}},
		{"chunk/cut in its head", []string{vllmChunk[:30], vllmChunk[30:]}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var s UsageStrip
			pieces := make([][]byte, len(bb.pieces))
			for i, p := range bb.pieces {
				pieces[i] = []byte(p)
				s.Pass(pieces[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range pieces {
					s.Pass(p)
				}
			}
		})
	}
}

// TestStripAllocates: nothing, once a stream's first chunk that came in two pieces has passed.
func TestStripAllocates(t *testing.T) {
	var s UsageStrip
	whole, head, rest, usage := []byte(vllmChunk), []byte(vllmChunk[:30]), []byte(vllmChunk[30:]), []byte(vllmUsage)
	if n := testing.AllocsPerRun(100, func() { s.Pass(whole) }); n != 0 {
		t.Errorf("%v allocations a chunk", n)
	}
	s.Pass(head)
	s.Pass(rest)
	s.Pass(usage)
	if n := testing.AllocsPerRun(100, func() { s.Pass(head); s.Pass(rest) }); n != 0 {
		t.Errorf("%v allocations a chunk in two pieces", n)
	}
}
