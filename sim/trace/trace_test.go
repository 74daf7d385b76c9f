package trace

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func openTrace(t testing.TB, path string) *Trace {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := Read(filepath.Base(path), f, FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func excerpt(t testing.TB, name string) *Trace {
	t.Helper()
	return openTrace(t, filepath.Join("testdata", "traces", name+".jsonl"))
}

// TestFullTraces checks the readers against the known numbers of requests and conversations and the ideal hit rate of
// the full files.
func TestFullTraces(t *testing.T) {
	folder := os.Getenv("WARMPATH_TRACES")
	if folder == "" {
		t.Skip("WARMPATH_TRACES does not name the folder of the full traces")
	}
	for _, want := range []struct {
		name               string
		requests, sessions int
		ideal              float64
	}{
		{"mooncake_conversation", 12_031, 7373, 0.374},
		{"mooncake_synthetic", 3993, 2211, 0.651},
		{"coding_agent", 25_226, 375, 0.962},
	} {
		trace := openTrace(t, filepath.Join(folder, want.name+".jsonl"))
		d := trace.Demand(64)
		if d.Turns != want.requests || d.Sessions != want.sessions || d.IdealHitRate() < want.ideal-0.001 ||
			d.IdealHitRate() > want.ideal+0.001 {
			t.Errorf("%s: %+v, ideal %.4f, want %+v", want.name, d, d.IdealHitRate(), want)
		}
	}
}

// common is the number of blocks that two prompts of a trace share.
func common(t *Trace, a, b, block int) int {
	x := t.forest.chain(nil, t.Turns[a].node, t.Turns[a].Prompt, block, 7)
	y := t.forest.chain(nil, t.Turns[b].node, t.Turns[b].Prompt, block, 7)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	for i := n; i < min(len(x), len(y)); i++ {
		if x[i] == y[i] {
			return -1 // a name covers all before it
		}
	}
	return n
}

// TestMooncakeSharesAsTold: two prompts share what their ids say, in blocks of any size, compared with prompts spelt
// out.
func TestMooncakeSharesAsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var prompts [][]int64
		var sizes []int
		for range rapid.IntRange(2, 12).Draw(t, "requests") {
			ids := rapid.SliceOfN(rapid.Int64Range(0, 2), 1, 5).Draw(t, "ids")
			size := (len(ids)-1)*mooncakeBlock + rapid.IntRange(1, mooncakeBlock).Draw(t, "last")
			list := strings.Join(strings.Fields(fmt.Sprint(ids)), ",")
			fmt.Fprintf(&text, `{"timestamp":5,"input_length":%d,"output_length":1,"hash_ids":%s}`+"\n", size, list)
			prompts, sizes = append(prompts, ids), append(sizes, size)
		}
		trace, err := Read("t", strings.NewReader(text.String()), FormatAuto)
		if err != nil {
			t.Fatal(err)
		}
		block := rapid.SampledFrom([]int{16, 64, 100, 512, 700}).Draw(t, "block")
		for a := range prompts {
			for b := range a {
				n := 0
				for n < min(len(prompts[a]), len(prompts[b])) && prompts[a][n] == prompts[b][n] {
					n++
				}
				want := min(n*mooncakeBlock, sizes[a], sizes[b]) / block
				if got := common(trace, a, b, block); got != want {
					t.Fatalf("prompts %d and %d share %d blocks of %d, want %d", a, b, got, block, want)
				}
			}
		}
	})
}

// TestMooncakeConversations: a request continues the one that last used its deepest known id, beyond the common prefix.
func TestMooncakeConversations(t *testing.T) {
	line := func(tokens int, ids ...int64) string {
		return fmt.Sprintf(`{"timestamp":0,"input_length":%d,"output_length":9,"hash_ids":%s}`, tokens,
			strings.Join(strings.Fields(fmt.Sprint(ids)), ","))
	}
	trace, err := Read("t", strings.NewReader(strings.Join([]string{
		line(1100, 0, 1, 2),             // a
		line(1100, 0, 3, 4),             // b
		line(1900, 0, 1, 5, 6),          // a continues: its last block was partial
		line(2500, 0, 1, 5, 7, 8),       // continues
		line(1100, 0, 9, 10),            // c: has the common prefix only
		line(2000, 0, 1, 11, 12),        // a, from its first turn: a branch
		line(3000, 0, 3, 4, 13, 14, 15), // b, whose last block seems to have been full
		line(1200, 0, 1, 16),            // a, from its first turn
		line(1205, 0, 1, 17),            // too short for the turn before with its answer: its first turn again
		line(1105, 0, 1, 18),            // too short for any: something else about the same text
	}, "\n")), FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	var sessions, from []int
	for _, x := range trace.Turns {
		sessions, from = append(sessions, x.Session), append(from, int(x.from))
	}
	if got, want := fmt.Sprint(sessions), "[0 1 0 0 2 0 1 0 0 0]"; got != want {
		t.Errorf("conversations %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(from), "[-1 -1 0 2 -1 0 1 0 0 -1]"; got != want {
		t.Errorf("turns go on from %s, want %s", got, want)
	}
}

// TestAgentsShareAsTold applies the rule to prompts spelt out token by token.
func TestAgentsShareAsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		var prompts [][]int
		fresh := 0
		grow := func(p []int, to int) []int {
			p = append([]int(nil), p...)
			for len(p) < to {
				fresh++
				p = append(p, fresh)
			}
			return p
		}
		group := grow(nil, 200)
		last := map[string][]int{} // indexes of each session's prompts
		for range rapid.IntRange(1, 14).Draw(t, "turns") {
			s := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "session")
			var base []int
			shared := 0
			if earlier := last[s]; len(earlier) > 0 {
				shared = rapid.IntRange(0, len(prompts[earlier[len(earlier)-1]])/sharedGrain).Draw(t,
					"shared") * sharedGrain
				if shared > 0 {
					base = prompts[earlier[len(earlier)-1]][:shared]
				}
			} else {
				base = group
			}
			p := grow(base, max(len(base), shared)+rapid.IntRange(1, 300).Draw(t, "more"))
			fmt.Fprintf(&text, `{"session_id":%q,"timestamp":3,"delay":1,"input_length":%d,"output_length":4,"shared_length":%d,"prefix_group":1,"prefix_length":%d}`+"\n", s, len(p), shared, len(group))
			last[s] = append(last[s], len(prompts))
			prompts = append(prompts, p)
		}
		trace, err := Read("t", strings.NewReader(text.String()), FormatAuto)
		if err != nil {
			t.Fatal(err)
		}
		block := rapid.SampledFrom([]int{16, 64, 100}).Draw(t, "block")
		for a := range prompts {
			for b := range a {
				n := 0
				for n < min(len(prompts[a]), len(prompts[b])) && prompts[a][n] == prompts[b][n] {
					n++
				}
				if got := common(trace, a, b, block); got != n/block {
					t.Fatalf("prompts %d and %d share %d blocks of %d, want %d\n%s",
						a, b, got, block, n/block, text.String())
				}
			}
		}
	})
}

// TestSubAgentsBeginByTheirParents: a sub-agent's session starts relative to its parent.
func TestSubAgentsBeginByTheirParents(t *testing.T) {
	trace, err := Read("t",
		strings.NewReader(`{"session_id":"p","timestamp":0,"input_length":640,"output_length":1,"shared_length":0}
{"session_id":"p","timestamp":5000,"delay":10,"input_length":700,"output_length":1,"shared_length":640}
{"session_id":"p.1","parent_id":"p","timestamp":0,"input_length":100,"output_length":1,"shared_length":64}
{"session_id":"p.2","parent_id":"p","timestamp":7000,"input_length":900,"output_length":1,"shared_length":640}
`), FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	if s := trace.Sessions[1]; s.Parent != 0 || s.After != -1 || s.Gap != 0 {
		t.Errorf("the first begins with its parent: %+v", s)
	}
	if s := trace.Sessions[2]; s.Parent != 0 || s.After != 1 || s.Gap.Seconds() != 2 {
		t.Errorf("the second begins 2 s after its parent's second turn: %+v", s)
	}
	if got := common(trace, 1, 3, 64); got != 10 {
		t.Errorf("it shares %d blocks with its parent's last prompt, want 10", got)
	}
	if got := common(trace, 0, 2, 64); got != 1 {
		t.Errorf("the first shares %d blocks with its parent's first prompt, want 1", got)
	}
}

func TestTraceFaults(t *testing.T) {
	const good = `{"timestamp":1000,"input_length":600,"output_length":5,"hash_ids":[1,2]}` + "\n"
	const agent = `{"session_id":"a","timestamp":10,"input_length":100,"output_length":5,"shared_length":0}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "t: no request in it; want one JSON object a line"},
		{"\n\n", "t: no request in it; want one JSON object a line"},
		{"hello\n", "t:1: want a JSON object, invalid character 'h' looking for beginning of value"},
		{"{}\n", `t:1: neither a Mooncake trace (no "hash_ids") nor a trace of agents (no "session_id" and "shared_length") nor a recording (no "warmpath_recording")`},
		{
			good + "\n" + `{"timestamp":1000,`, "t:3: want a JSON object with timestamp, input_length, " +
				"output_length and hash_ids: unexpected end of JSON input",
		},
		{
			good + "[]",
			"t:2: want a JSON object with timestamp, input_length, output_length and hash_ids: it is a JSON array",
		},
		{
			good + `{"hash_ids":"x"}`, "t:2: want a JSON object with timestamp, input_length, " +
				"output_length and hash_ids: hash_ids cannot be a JSON string",
		},
		{
			good + `{"timestamp":999,"input_length":600,"output_length":5,"hash_ids":[1,2]}`,
			"t:2: timestamp 999 is before the 1000 of an earlier line",
		},
		{
			good + `{"timestamp":-1,"input_length":600,"output_length":5,"hash_ids":[1,2]}`,
			"t:2: timestamp is -1, want 0 or more milliseconds",
		},
		{good + `{"input_length":600,"output_length":5,"hash_ids":[1,2]}`, `t:2: no "timestamp"; want milliseconds`},
		{
			good + `{"timestamp":1000,"input_length":0,"output_length":5,"hash_ids":[1,2]}`,
			"t:2: input_length is 0, want 1..16777216 tokens",
		},
		{
			good + `{"timestamp":1000,"input_length":600,"output_length":-5,"hash_ids":[1,2]}`,
			"t:2: output_length is -5, want 0..16777216 tokens",
		},
		{
			good + `{"timestamp":1000,"input_length":600,"output_length":5,"hash_ids":[1]}`,
			"t:2: 1 hash_ids for 600 tokens, want 2: one for each 512 tokens",
		},
		{
			agent + `{"session_id":"a","timestamp":9,"input_length":100,"output_length":5,"shared_length":0}`,
			"t:2: timestamp 9 is before the 10 of the session's turn before",
		},
		{
			agent + `{"session_id":"a","timestamp":10,"input_length":100,"output_length":5,"shared_length":101}`,
			"t:2: shared_length is 101, want 0..100, the tokens of the prompt",
		},
		{
			agent + `{"session_id":"a","timestamp":10,"input_length":300,"output_length":5,"shared_length":128}`,
			"t:2: shared_length is 128, but no earlier prompt of the session is as long",
		},
		{
			agent + `{"session_id":"b","timestamp":10,"input_length":300,"output_length":5,"shared_length":128}`,
			"t:2: shared_length is 128, want 0: there is no earlier prompt to share with",
		},
		{agent + `{"session_id":"b","parent_id":"c","timestamp":10,"input_length":300,"output_length":5,"shared_length":128}`, `t:2: no turn of the parent "c" in the lines before`},
		{
			agent +
				`{"session_id":"b","parent_id":"b","timestamp":10,"input_length":300,"output_length":5,"shared_length":0}`, `t:2: session "b" is its own parent`,
		},
		{
			agent +
				`{"session_id":"a","delay":-3,"timestamp":10,"input_length":300,"output_length":5,"shared_length":0}`,
			"t:2: delay is -3, want 0 or more milliseconds",
		},
	} {
		if _, err := Read("t", strings.NewReader(c.text), FormatAuto); err == nil || err.Error() != c.want {
			t.Errorf("%q:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	torn := io.MultiReader(strings.NewReader(good+good[:20]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := Read("t", torn, FormatAuto); err == nil || err.Error() != "t:2: unexpected EOF" {
		t.Errorf("a file that ends too soon: %v", err)
	}
	if _, err := Read("t", strings.NewReader(good), "mooncacke"); err == nil ||
		!strings.Contains(err.Error(), "want mooncake, agents or recorded") {
		t.Errorf("unknown format: %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, name := range []string{"mooncake_synthetic", "coding_agent"} {
		text, err := os.ReadFile(filepath.Join("testdata", "traces", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text[:2000]))
	}
	f.Add(`{"session_id":"b","parent_id":"b","timestamp":10,"input_length":300,"output_length":5,"shared_length":0}`)
	f.Fuzz(func(t *testing.T, text string) {
		trace, err := Read("t", strings.NewReader(text), FormatAuto)
		if err != nil {
			return
		}
		if d := trace.Demand(64); d.Ideal < 0 || d.Ideal >= d.Prompt {
			t.Errorf("%+v", d)
		}
		for i, x := range trace.Turns {
			if x.from >= int32(i) || x.Session < 0 || x.Session >= len(trace.Sessions) ||
				x.Next >= 0 && int(x.Next) <= i {
				t.Fatalf("turn %d: %+v", i, x)
			}
		}
	})
}

// TestRepeat: copies of sessions share with the originals only what sessions of their group share.
func TestRepeat(t *testing.T) {
	one := excerpt(t, "coding_agent")
	three := one.Repeat(3)
	if len(three.Turns) != 3*len(one.Turns) || len(three.Sessions) != 3*len(one.Sessions) {
		t.Fatalf("%d turns of %d sessions", len(three.Turns), len(three.Sessions))
	}
	n := len(one.Turns)
	for i := range one.Turns {
		group, limit := 0, one.Turns[i].Prompt
		for node := one.Turns[i].node; node >= 0; node = one.forest.nodes[node].parent {
			if one.forest.nodes[node].common {
				group = limit
			}
			limit = min(limit, int(one.forest.nodes[node].start))
		}
		if got := common(three, i, i+2*n, 64); got != group/64 {
			t.Fatalf("turn %d shares %d blocks with its copy, want %d", i, got, group/64)
		}
		if i > 0 && common(one, i, i-1, 64) != common(three, i+n, i-1+n, 64) {
			t.Fatalf("turn %d of the copy shares otherwise", i)
		}
	}
	if mooncake := excerpt(t, "mooncake_synthetic"); mooncake.Repeat(2) != mooncake {
		t.Error("a trace with a clock of its own was repeated")
	}
}

// TestHalves: each conversation is entirely in one of the halves, with its sub-agents, and shares the same prefixes
// there.
func TestHalves(t *testing.T) {
	for _, name := range []string{"mooncake_conversation", "coding_agent"} {
		whole := excerpt(t, name)
		turns := map[string]int{}
		for which := 1; which <= 2; which++ {
			half := whole.Half(which)
			if n := len(half.Turns); n == 0 || n == len(whole.Turns) {
				t.Errorf("%s: half %d has %d of %d turns", name, which, n, len(whole.Turns))
			}
			for i, s := range half.Sessions {
				if turns[s.ID] > 0 {
					t.Errorf("%s: conversation %s is in both halves", name, s.ID)
				}
				turns[s.ID] = s.Turns
				if s.Parent >= 0 && (half.Sessions[s.Parent].ID != s.ID[:4] ||
					s.After >= 0 && half.Turns[s.After].Session != s.Parent) {
					t.Errorf("%s: %+v has parent %s", name, s, half.Sessions[s.Parent].ID)
				}
				n, number := 0, 0
				for at := int32(s.First); at >= 0; at = half.Turns[at].Next {
					turn := half.Turns[at]
					if turn.Session != i || turn.Number != number || turn.from >= at {
						t.Fatalf("%s: turn %d of %s: %+v", name, number, s.ID, turn)
					}
					n, number = n+1, number+1
				}
				if n != s.Turns {
					t.Errorf("%s: %s has %d of %d turns", name, s.ID, n, s.Turns)
				}
			}
		}
		for _, s := range whole.Sessions {
			if turns[s.ID] != s.Turns {
				t.Errorf("%s: conversation %s has %d of %d turns", name, s.ID, turns[s.ID], s.Turns)
			}
		}
	}
}
