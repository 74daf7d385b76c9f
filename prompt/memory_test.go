package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// checkFrom compares ParseChainFrom with ParseChain.
func checkFrom(t testing.TB, p *Parser, mem *Memory, api API, body []byte) *Chain {
	t.Helper()
	var got, want Chain
	gotPrompt, gotErr := p.ParseChainFrom(mem, api, body, nil, &got)
	wantPrompt, wantErr := p.ParseChain(api, body, nil, &want)
	if !reflect.DeepEqual(gotPrompt, wantPrompt) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		t.Fatalf("%v %.300q: got %+v (%v), want %+v (%v)", api, body, gotPrompt, gotErr, wantPrompt, wantErr)
	}
	if diff := sameHashes(&got, &want); diff != "" {
		t.Fatalf("%v %.300q, known up to %d: %s", api, body, got.known.raw, diff)
	}
	checkMemory(t, mem)
	return &got
}

// sameHashes compares the exported parts of two chains, and HashAt.
func sameHashes(got, want *Chain) string {
	switch {
	case got.Scope != want.Scope || got.ToolsBytes != want.ToolsBytes:
		return fmt.Sprintf("scope %x of %d bytes, want %x of %d",
			got.Scope, got.ToolsBytes, want.Scope, want.ToolsBytes)
	case got.System != want.System || got.SystemBytes != want.SystemBytes:
		return "system"
	case got.Bytes != want.Bytes || got.Whole != want.Whole:
		return fmt.Sprintf("whole %x of %d bytes, want %x of %d", got.Whole, got.Bytes, want.Whole, want.Bytes)
	case !slices.Equal(got.Blocks, want.Blocks):
		return "blocks"
	case !slices.Equal(got.Marks, want.Marks):
		return fmt.Sprintf("marks %+v, want %+v", got.Marks, want.Marks)
	case got.Prompts != want.Prompts || got.Media != want.Media || got.Kinds != want.Kinds:
		return fmt.Sprintf("counts %d %d %+v, want %d %d %+v", got.Prompts, got.Media, got.Kinds, want.Prompts,
			want.Media, want.Kinds)
	case !slices.EqualFunc(got.List, want.List, sameListed):
		return fmt.Sprintf("parts %+v, want %+v", got.List, want.List)
	case string(got.text) != string(want.text[min(got.base, len(want.text)):]):
		return "text"
	}
	for n := 0; n <= want.Bytes; n += 1 + n/3 {
		if h := got.HashAt(want.Bytes - n); h != want.HashAt(want.Bytes-n) {
			return fmt.Sprintf("HashAt(%d)", want.Bytes-n)
		}
	}
	return ""
}

// checkMemory checks a memory's invariants: bounds, order of use, and that nothing is lost.
func checkMemory(t testing.TB, m *Memory) {
	t.Helper()
	if m == nil {
		return
	}
	seen, cells := map[uint32]bool{}, map[uint32]bool{}
	newer := uint32(0)
	for n := m.newest; n != 0; newer, n = n, m.node(n).older {
		at := m.node(n)
		switch {
		case at.newer != newer || seen[n]:
			t.Fatal("the list is torn")
		case m.index[at.key] != n:
			t.Fatal("a node is not in the index")
		case at.parent != 0 && !seen[at.parent]:
			t.Fatal("a node is newer than its parent")
		}
		seen[n] = true
		for c := at.cell; c != 0; c = *m.nextCell(c) {
			if cells[c] {
				t.Fatal("a cell is used twice")
			}
			cells[c] = true
		}
	}
	nodes := uint32(len(seen))
	for n := m.freeNode; n != 0; n = m.node(n).older {
		nodes++
	}
	free := uint32(0)
	for c := m.freeCell; c != 0; c = *m.nextCell(c) {
		if cells[c] {
			t.Fatal("a free cell is in use")
		}
		free++
	}
	if m.oldest != newer || len(m.index) != len(seen) || nodes != m.nodeCount ||
		uint32(len(cells))+free != m.cellCount || m.nodeCount > m.maxNodes || m.cellCount > m.maxCells {
		t.Fatalf("%d of %d nodes, %d in the index, %d and %d of %d cells",
			len(seen), m.nodeCount, len(m.index), len(cells), free, m.cellCount)
	}
}

func TestNodeSize(t *testing.T) {
	if n := int(unsafe.Sizeof(node{})); n+32 != nodeBytes {
		t.Errorf("a node has %d bytes", n)
	}
}

// spoken is a text of about n bytes in one of many languages and spellings.
func spoken(rng *rand.Rand, n int) string {
	words := []string{
		"the ", "router ", "\n", "\n\t", `"quoted" `, "Zürich ", "缓存命中", "😀", "return err }", "\\", "  ",
		"x1 := 23;", "\x00",
	}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}

// someBody makes a body of an API from a seed, with this many turns; more turns continue fewer.
func someBody(api API, seed uint64, turns int, last string, opts int) []byte {
	rng := rand.New(rand.NewPCG(uint64(opts), 8))
	tools := []any{map[string]any{
		"type": "function", "function": map[string]any{"name": "f", "description": spoken(rng, 1500*(opts&1))},
	}}
	system := spoken(rng, 900*(opts>>1&1))
	member := func(name string, v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		if opts>>2&1 != 0 {
			text = bytes.ReplaceAll(text, []byte("é"), []byte(`\u00e9`))
		}
		return `"` + name + `":` + string(text)
	}
	rng = rand.New(rand.NewPCG(seed, 7))
	main := api.mainField()
	parts := []string{member("model", "m"), member("tools", tools)}
	if ff := api.frontField(); ff != numFields {
		parts = append(parts, member(fieldNames[ff], system))
	}
	if api.isPlain() {
		text := ""
		for range turns {
			text += spoken(rng, rng.IntN(3000))
		}
		parts = append(parts, member(fieldNames[main], text+last))
	} else {
		var messages []any
		for i := range turns {
			text := spoken(rng, rng.IntN(3000))
			m := map[string]any{"role": []string{"user", "assistant"}[i%2], "content": text}
			switch rng.IntN(5) {
			case 0:
				m["content"] = []any{
					map[string]any{"type": "text", "text": text},
					map[string]any{"type": "image_url", "image_url": map[string]any{"url": "data:" + text}},
				}
			case 1:
				m["tool_calls"] = []any{
					map[string]any{"id": "x", "function": map[string]any{"name": "f", "arguments": text}},
				}
			case 2:
				m["name"] = "kim"
			}
			messages = append(messages, m)
		}
		parts = append(parts,
			member(fieldNames[main], append(messages, map[string]any{"role": "user", "content": last})))
	}
	parts = append(parts, `"stream":true,"stream_options":{"x":1}`)
	rand.New(rand.NewPCG(seed, 9)).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// talk is a conversation whose turns someBody writes.
type talk struct {
	api  API
	seed uint64
	opts int
}

var chainAPIs = []API{Chat, OllamaChat, Messages, Responses, Completions, OllamaGenerate, Generate}

// Whatever a memory has seen and evicted, each body is read as without it.
func TestResume(t *testing.T) {
	p := newParser(t)
	resumed := 0
	rapid.Check(t, func(rt *rapid.T) {
		mem := lowMemory(0, rapid.Uint64().Draw(rt, "seed"))
		if rapid.Bool().Draw(rt, "tight") {
			mem.maxNodes, mem.maxCells = uint32(rapid.IntRange(1, 20).Draw(rt, "nodes")),
				uint32(rapid.IntRange(1, 60).Draw(rt, "cells"))
		}
		talks := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) (k talk) {
			k.api, k.seed = rapid.SampledFrom(chainAPIs).Draw(rt, "api"), rapid.Uint64Range(1, 6).Draw(rt, "talk")
			k.opts = rapid.IntRange(0, 7).Draw(rt, "opts")
			return k
		}), 1, 3).Draw(rt, "talks")
		for range rapid.IntRange(2, 8).Draw(rt, "bodies") {
			k := rapid.SampledFrom(talks).Draw(rt, "which")
			body := someBody(k.api, k.seed, rapid.IntRange(0, 24).Draw(rt, "turns"),
				rapid.SampledFrom([]string{"", "go on", "no"}).Draw(rt, "last"), k.opts)
			if rapid.IntRange(0, 3).Draw(rt, "spoil") == 0 {
				at := rapid.IntRange(0, len(body)-1).Draw(rt, "at")
				switch rapid.IntRange(0, 3).Draw(rt, "how") {
				case 0:
					body = body[:at]
				case 1:
					body[at] = rapid.Byte().Draw(rt, "byte")
				case 2:
					body = append(body[:at:at], body[at/2:]...)
				case 3:
					body = slices.Concat(body[:len(body)-1], []byte(","), body[1:]) // every member twice
				}
			}
			if checkFrom(t, p, mem, k.api, body).resumed {
				resumed++
			}
		}
	})
	if resumed < 5 {
		t.Errorf("only %d bodies went on from what was known", resumed)
	}
}

// lowMemory is a Memory that remembers shorter bodies too.
func lowMemory(bytes int, seed uint64) *Memory {
	m := NewMemory(bytes, seed, nil)
	m.least = 4 << 10
	return m
}

// longBody repeats a piece between a head and a rest, until it is long enough to be remembered.
func longBody(head, piece, rest string) []byte {
	return []byte(head + strings.Repeat(piece, 1+9000/max(1, len(piece))) + rest)
}

func FuzzResume(f *testing.F) {
	user := `{"role":"user","content":"some words of a user\nand more"},`
	last := `{"role":"assistant","content":"end"}]`
	for _, row := range [][4]string{
		{`{"messages":[`, user, last + `}`, user + last + `,"model":"m"}`},
		{`{"model":"m","system":"be good","messages":[`, user, last + `}`, last + `,"system":"be bad"}`},
		{`{"input":[`, user, last + `,"instructions":"i"}`, user + last + `,"instructions":"other"}`},
		{
			`{"messages":[`, `{"content":"` + codeName + `","role":"tool","name":"t"},`, last + `,"messages":[]}`,
			last + `,"messages":"x"}`,
		},
		{`{"tools":[{"name":"`, `abc\u00e9`, `"}],"messages":[]}`, `"}],"messages":[1,2]}`},
		{`{"prompt":"`, `line of text\n`, `"}`, `\ud83d\ude00","suffix":"s"}`},
		{`{"system":"s","prompt":"`, `缓存\t命中\ud83d\ude00`, `"}`, "\xff\"}"},
		{`{"text":"`, `a\u00`, `61"}`, `62","input_ids":[1]}`},
		{`{"prompt":[1`, `,22`, `]}`, `,3]}`},
		{`{"messages":[`, `1,`, `2]}`, `{}]}`},
	} {
		for api := range chainAPIs {
			f.Add(uint8(api), row[0], row[1], row[2], row[3])
		}
	}
	p := newParser(f)
	f.Fuzz(func(t *testing.T, n uint8, head, piece, rest, other string) {
		if len(head)+len(piece)+len(rest)+len(other) > 1<<14 {
			return
		}
		api := chainAPIs[int(n)%len(chainAPIs)]
		mem := lowMemory(0, uint64(n))
		one, two := longBody(head, piece, rest), longBody(head, piece, other)
		for _, body := range [][]byte{one, one, two, one, two} {
			checkFrom(t, p, mem, api, body)
		}
	})
}

const codeName = `x := 1\n\ty = \"2\"\n`

// If two bodies ever have equal keys, one is misread, and nothing else happens.
func TestKeysThatMeet(t *testing.T) {
	p := newParser(t)
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(api API) []byte {
			return someBody(api, rapid.Uint64Range(1, 1000).Draw(rt, "talk"), rapid.IntRange(0, 16).Draw(rt, "turns"),
				"end", rapid.IntRange(0, 7).Draw(rt, "opts"))
		}
		mem := lowMemory(0, 1)
		api := rapid.SampledFrom(chainAPIs).Draw(rt, "api")
		known, other := draw(api), draw(api)
		if rapid.Bool().Draw(rt, "same places") {
			other = slices.Clone(known)
			for range rapid.IntRange(1, 40).Draw(rt, "changes") {
				other[rapid.IntRange(0, len(other)-1).Draw(rt,
					"at")] = rapid.SampledFrom([]byte(`"{}[],:\ax`+"\xe7\x00")).Draw(rt, "byte")
			}
		}
		other = other[:rapid.IntRange(len(other)/2, len(other)).Draw(rt, "end")]
		for range 3 {
			checkFrom(t, p, mem, api, known)
		}
		var c Chain
		c.Reset()
		if c.keys, c.noting = mem.keys(nil, api, known), true; len(c.keys) == 0 {
			return
		}
		mem.recall(&c)
		var out Prompt
		ok, err := p.chain(mem, api, other, nil, &c, &out)
		if err == nil && ok {
			c.again = again{parser: p, api: api, body: other}
			for n := range c.Bytes {
				c.HashAt(n)
			}
			mem.keep(&c)
			checkMemory(t, mem)
			Splice(nil, other, out.SetModel("x"), out.SetIncludeUsage())
		}
	})
}

// Tools after the messages that are equal in every turn are not read again, and count as if they were.
func TestKnownTools(t *testing.T) {
	p := newParser(t)
	mem := lowMemory(0, 1)
	tools := `[{"type":"function","function":{"name":"f","description":"` +
		strings.Repeat("what it does ", 200) + `"}}]`
	body := func(tools, word string) []byte {
		return []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(word, 2000) + `"}],"tools":` + tools +
			` ,"model":"m"}`)
	}
	first := checkFrom(t, p, mem, Chat, body(tools, "one "))
	if first.lumpKnown[0] {
		t.Fatal("known at first sight")
	}
	second := checkFrom(t, p, mem, Chat, body(tools, "two "))
	if !second.lumpKnown[0] || second.Scope != first.Scope || second.ToolsBytes != first.ToolsBytes ||
		first.ToolsBytes < 2600 {
		t.Errorf("scope %x, %x; %d bytes of tools, known: %v", first.Scope, second.Scope, second.ToolsBytes,
			second.lumpKnown[0])
	}
	if c := checkFrom(t, p, mem, Chat, body(strings.Replace(tools, "what it does \"", "what it does?\"", 1),
		"two ")); c.Scope == first.Scope || c.lumpKnown[0] {
		t.Error("other tools are taken for the same")
	}
	for i := range 6 { // more than a set holds
		checkFrom(t, p, mem, Chat, body(strings.Replace(tools, `"}}]`, fmt.Sprint(i, `"}}]`), 1), "two "))
	}
}

// A system prompt after the messages is checked before the known part is used.
func TestSystemBehindMessages(t *testing.T) {
	p := newParser(t)
	mem := lowMemory(0, 1)
	body := func(system, more string) []byte {
		return longBody(`{"messages":[`, `{"role":"user","content":"some words of a user\nand more"},`,
			`{"role":"user","content":"`+more+`"}],"system":`+system+`}`)
	}
	for _, row := range []struct {
		system, more string
		resumed      bool
	}{
		{`"good"`, "a", false},
		{`"good"`, "a", false}, // of the first body only the first chunk was kept, which is too short to continue from
		{`"good"`, "b", true},
		{`"bad"`, "b", false},
		{`"bad"`, "c", true},
		{`null`, "c", false},
		{`""`, "d", true},
		{`"bad"`, "e", false},
		{`[{"type":"text","text":"bad"}]`, "e", true},
		{`[{"type":"image","source":{"type":"url","url":"x"}}]`, "e", false},
		{`"bad","system":"good"`, "f", false},
	} {
		if c := checkFrom(t, p, mem, Messages, body(row.system, row.more)); c.resumed != row.resumed {
			t.Errorf("%s %s: resumed %v", row.system, row.more, c.resumed)
		}
	}
	twice := `{"system":"first",` + string(body(`"second"`, "g"))[1:]
	checkFrom(t, p, mem, Messages, []byte(twice))
	checkFrom(t, p, mem, Messages, []byte(strings.Replace(twice, `"second"`, `null`, 1)))
}

// TestHashAtOfTheKnown: HashAt works in the known part too.
func TestHashAtOfTheKnown(t *testing.T) {
	p := newParser(t)
	for _, row := range []struct {
		api         API
		head, piece string
		rest        string
	}{
		{
			Chat, `{"messages":[`, `{"role":"user","content":"some words of a user\nand more"},`,
			`{"role":"user","content":"x"}]}`,
		},
		{Completions, `{"prompt":"`, `line of text\n`, `"}`},
	} {
		mem := lowMemory(0, 1)
		body := longBody(row.head, row.piece, row.rest)
		var want Chain
		if _, err := p.ParseChain(row.api, body, nil, &want); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			checkFrom(t, p, mem, row.api, body)
		}
		var c Chain
		if _, err := p.ParseChainFrom(mem, row.api, body, nil, &c); err != nil || !c.resumed || c.base < 4000 {
			t.Fatalf("base %d, %v", c.base, err)
		}
		for _, m := range want.Marks {
			if c.HashAt(m.Bytes) != m.Hash {
				t.Fatalf("HashAt(%d)", m.Bytes)
			}
		}
		if c.base == 0 {
			t.Error("read again for the end of a message")
		}
		for n := range want.Bytes + 1 {
			if c.HashAt(n) != want.HashAt(n) {
				t.Fatalf("HashAt(%d)", n)
			}
		}
	}
}

// A memory stays within its size and keeps what was used last.
func TestMemoryIsBounded(t *testing.T) {
	p := newParser(t)
	mem := lowMemory(1<<20, 1)
	body := func(i int) []byte {
		return longBody(fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"},`, i),
			`{"role":"user","content":"some words of a user\nand more"},`, `{"role":"user","content":"x"}]}`)
	}
	var c Chain
	for i := range 1500 {
		for range 2 {
			if _, err := p.ParseChainFrom(mem, Chat, body(i), nil, &c); err != nil {
				t.Fatal(err)
			}
		}
		if i%20 == 0 { // the first stays in use
			if _, err := p.ParseChainFrom(mem, Chat, body(0), nil, &c); err != nil || !c.resumed || c.known.raw < 7000 {
				t.Fatalf("%d: known up to %d, %v", i, c.known.raw, err)
			}
		}
	}
	checkMemory(t, mem)
	room := len(mem.nodes)*int(unsafe.Sizeof(nodePage{})) + len(mem.cells)*int(unsafe.Sizeof(cellPage{})) +
		len(mem.values)*int(unsafe.Sizeof(valueSet{}))
	if room > 12<<17 || len(mem.index) < 400 {
		t.Errorf("%d bytes for %d nodes", room, len(mem.index))
	}
	if checkFrom(t, p, mem, Chat, body(1)); len(mem.index) == 0 {
		t.Error("empty")
	}
}

// Concurrent callers share a memory under their lock.
func TestMemoryOfManyCallers(t *testing.T) {
	p := newParser(t)
	mem := NewMemory(0, 1, new(sync.Mutex))
	mem.maxCells, mem.least = 40, 4<<10
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			var got, want Chain
			for range 40 {
				body := someBody(Chat, 1+rng.Uint64N(3), rng.IntN(16), "end", 4)
				gotPrompt, err := p.ParseChainFrom(mem, Chat, body, nil, &got)
				wantPrompt, _ := p.ParseChain(Chat, body, nil, &want)
				if !reflect.DeepEqual(gotPrompt, wantPrompt) || err != nil {
					t.Errorf("%+v, want %+v: %v", gotPrompt, wantPrompt, err)
				}
				if diff := sameHashes(&got, &want); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	wg.Wait()
	checkMemory(t, mem)
}
