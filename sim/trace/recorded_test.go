package trace_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/sim/calibrate"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// scribe writes a recording by hand: prompts given block by block, and the sharing that package record would write.
type scribe struct {
	bytes.Buffer
	prompts [][]int // blocks of each request of the file
	scopes  []string
	all     [][]int // of all files
	forget  bool    // give no earlier request, as if the writer had forgotten them
}

func (s *scribe) header(began time.Time, salt string) {
	s.prompts, s.scopes = nil, nil
	fmt.Fprintf(s, `{"warmpath_recording":1,"warmpath":"t","began":%q,"salt":%q,"block_bytes":128}`+"\n",
		began.Format(time.RFC3339Nano), salt)
}

// line adds a request; extra has what is not about its content.
func (s *scribe) line(scope string, blocks []int, tokens int, extra string) {
	from, shared := 0, 0
	for i, p := range s.prompts {
		n := 0
		for n < min(len(p), len(blocks)) && p[n] == blocks[n] && s.scopes[i] == scope {
			n++
		}
		if n > shared && !s.forget {
			from, shared = i+1, n
		}
	}
	var hashes []byte
	for _, n := range trace.RecordedMarks(nil, shared, len(blocks)) {
		sum := sha256.Sum256([]byte(fmt.Sprint(scope, blocks[:n])))
		hashes = append(hashes, sum[:trace.RecordedHash]...)
	}
	size := len(blocks)*128 + 4
	if scope == "" { // unknown prompt
		size = 0
	}
	packed, _ := json.Marshal(hashes)
	fmt.Fprintf(s, `{"n":%d,"scope":%q,"blocks":%d,"bytes":%d,"tokens":%d,"from":%d,"shared":%d,"hashes":%s,%s}`+"\n",
		len(s.prompts)+1, scope, len(blocks), size, tokens, from, shared, packed, extra)
	s.prompts, s.scopes, s.all = append(s.prompts, blocks), append(s.scopes, scope), append(s.all, blocks)
}

func told(at, took float64, conversation string) string {
	return fmt.Sprintf(`"at_ms":%v,"took_ms":%v,"ttft_ms":1,"class":"turn","stream":true,"endpoint":"e","outcome":"ok","conversation":%q,"output":3,"cached":0`, at, took, conversation)
}

// TestRecordedSharesAsTold: two prompts share what was recorded, block by block, within a file by reference and across
// files by hash, in any order of prompts and cuts.
func TestRecordedSharesAsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s scribe
		s.forget = rapid.Bool().Draw(t, "forget")
		scopes := []string{}
		n := rapid.IntRange(2, 14).Draw(t, "requests")
		for i := range n {
			if i == 0 || rapid.IntRange(0, 5).Draw(t, "rotate") == 0 {
				s.header(time.Unix(1000+int64(i), 0).UTC(), "s")
			}
			var blocks []int
			if i > 0 && rapid.Bool().Draw(t, "go on") {
				p := s.all[rapid.IntRange(0, i-1).Draw(t, "from")]
				blocks = append(blocks, p[:rapid.IntRange(0, len(p)).Draw(t, "share")]...)
			}
			for range rapid.IntRange(0, 12).Draw(t, "new") {
				blocks = append(blocks, rapid.IntRange(0, 1).Draw(t, "block"))
			}
			scope := rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "scope")
			scopes = append(scopes, scope)
			s.line(scope, blocks, 32*len(blocks)+1, told(float64(i), 0.5+1, fmt.Sprint(i)))
		}
		tr, err := trace.Read("t", &s, trace.FormatAuto)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Format != trace.FormatRecorded || len(tr.Turns) != n {
			t.Fatalf("%s, %d turns", tr.Format, len(tr.Turns))
		}
		which := map[string]int{} // conversation -> request
		for i := range n {
			which[fmt.Sprint(i)] = i
		}
		for a := range tr.Turns {
			for b := range a {
				i, j := which[tr.Sessions[tr.Turns[a].Session].ID], which[tr.Sessions[tr.Turns[b].Session].ID]
				want := 0
				for want < min(len(s.all[i]), len(s.all[j])) && s.all[i][want] == s.all[j][want] &&
					scopes[i] == scopes[j] {
					want++
				}
				if got := common(tr, a, b, 32); got != want {
					t.Fatalf("requests %d %v and %d %v share %d blocks, want %d", i, s.all[i], j, s.all[j], got, want)
				}
			}
		}
	})
}

// TestRecordedConversations: a turn starts its delay after the end of the previous one, or after its start if that had
// not ended; late lines are sorted in.
func TestRecordedConversations(t *testing.T) {
	var s scribe
	s.header(time.Unix(1000, 0).UTC(), "s")
	s.line("x", []int{1, 2}, 65, told(1000, 500, "a"))
	s.line("x", []int{1, 9}, 65, told(1200, 100, "b"))
	s.line("x", []int{1, 2, 3}, 97, told(2000, 5000, "a"))
	s.line("x", []int{1, 2, 3, 4}, 129, told(2500, 100, "a")) // overlaps the previous one
	s.line("x", []int{1, 2, 5}, 97, told(8000, 100, "a"))     // continues the first
	s.line("", nil, 40, told(500, 9000, ""))
	s.line("", nil, 40,
		`"at_ms":600,"took_ms":1,"class":"turn","endpoint":"e","outcome":"connect_failed","conversation":"a"`)
	r, err := trace.ReadRecording("t", &s)
	if err != nil {
		t.Fatal(err)
	}
	tr := r.Trace
	if len(tr.Turns) != 6 || !tr.Timed || !tr.Closed || len(tr.Notes) != 2 {
		t.Fatalf("%d turns, notes %q", len(tr.Turns), tr.Notes)
	}
	type row struct {
		session  int
		delay    time.Duration
		overlaps bool
		from     int32
	}
	want := []row{{0, 0, false, -1}, {1, 0, false, -1}, {2, 0, false, -1}, {
		1, 500 * time.Millisecond, false, 1,
	}, {1, 500 * time.Millisecond, true, 3}, {1, 5400 * time.Millisecond, false, 1}}
	for i, w := range want {
		x := tr.Turns[i]
		if got := (row{x.Session, x.Delay, x.Overlaps, x.From()}); got != w {
			t.Errorf("turn %d: %+v, want %+v", i, got, w)
		}
	}
	if s := tr.Sessions[2]; s.Begins() != 700*time.Millisecond || s.ID != "b" {
		t.Errorf("%+v", s)
	}
	o := replay(t, drive.Replay{Trace: tr, Fleet: rig.Even(1, round()), Speed: 1, IDs: true})
	sent := make([]time.Duration, len(tr.Turns))
	ends := make([]time.Duration, len(tr.Turns))
	for _, p := range o.Turns {
		sent[p.Turn], ends[p.Turn] = p.Sent, p.Sent+p.Took
	}
	if sent[1] != 500*time.Millisecond || sent[2] != 700*time.Millisecond || sent[3] != ends[1]+500*time.Millisecond ||
		sent[4] != sent[3]+500*time.Millisecond || sent[5] != ends[4]+5400*time.Millisecond {
		t.Errorf("sent at %v, ended at %v", sent, ends)
	}
}

// TestRecordedAnswers: if engines hit more than the previous turn's prompt, later prompts continue the answers too.
func TestRecordedAnswers(t *testing.T) {
	for _, kept := range []bool{true, false} {
		var s scribe
		s.header(time.Unix(1000, 0).UTC(), "s")
		line := func(at float64, tokens, cached int, blocks ...int) {
			s.line("x", blocks, tokens, strings.Replace(told(at, 500, "a"), `"output":3,"cached":0`,
				fmt.Sprintf(`"output":100,"cached":%d`, cached), 1))
		}
		found := 64
		if kept {
			found = 160
		}
		line(0, 65, 0, 1, 2)
		line(1000, 225, found, 1, 2, 3, 4, 5, 6, 7)
		// up to the end of the previous prompt, without its answer
		line(2000, 385, 224, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		if kept {
			line(3000, 545, 480, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)
		}
		tr, err := trace.Read("t", &s, trace.FormatAuto)
		if err != nil {
			t.Fatal(err)
		}
		if i := tr.Disorder(); i >= 0 {
			t.Fatalf("piece %d comes before the one in front of it", i)
		}
		r := drive.Replay{Trace: tr.Repeat(2), Fleet: rig.Even(1, round()), Speed: 1, IDs: true}
		o := replay(t, r)
		want := map[bool][]int{true: {0, 128, 320, 448}, false: {0, 64, 192}}[kept]
		for _, p := range o.Turns {
			x := r.Trace.Turns[p.Turn]
			if p.Cached != want[x.Number] {
				t.Errorf("kept %v, turn %d of %d: %d tokens found, want %d",
					kept, x.Number, x.Session, p.Cached, want[x.Number])
			}
		}
		if ideal := tr.Demand(64).Ideal; ideal != int64(want[1]+want[2]+map[bool]int{true: 448}[kept]) {
			t.Errorf("kept %v: an unlimited cache would find %d", kept, ideal)
		}
	}
}

// TestRecordedLoad: sessions of a recording start when they did, or in the same pattern at a given load.
func TestRecordedLoad(t *testing.T) {
	var s scribe
	s.header(time.Unix(1000, 0).UTC(), "s")
	for i := range 10 {
		s.line("x", []int{i}, 1000, told(float64(1000*i), 100, fmt.Sprint(i)))
	}
	tr, err := trace.Read("t", &s, trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	fleet := rig.Even(2, round()) // 1,000 tokens per second each
	as, err := fleet.Plan(tr, 0, 1, 1)
	if err != nil || as.Arrivals[3] != 3*time.Second || as.Load < 0.4 || as.Load > 0.6 {
		t.Errorf("as recorded: %+v, %v", as, err)
	}
	fast, err := fleet.Plan(tr, 0, 2, 1)
	if err != nil || fast.Arrivals[3] != 1500*time.Millisecond || off(fast.Load, 2*as.Load) > 1e-6 {
		t.Errorf("twice as fast: %+v, %v", fast, err)
	}
	full, err := fleet.Plan(tr, 2*as.Load, 0, 1)
	if err != nil || off(full.Arrivals[3].Seconds(), 1.5) > 1e-6 {
		t.Errorf("at twice the load: %+v, %v", full, err)
	}
}

// TestRecordedFaults: each fault is reported with its position.
func TestRecordedFaults(t *testing.T) {
	const head = `{"warmpath_recording":1,"began":"2026-01-02T03:04:05Z","salt":"s","block_bytes":128}` + "\n"
	request := func(more string) string {
		return head + `{"n":1,"at_ms":1,"took_ms":2,"class":"turn","outcome":"ok"` + more + "}\n"
	}
	for text, want := range map[string]string{
		`{"warmpath_recording":2}`:           `t:1: warmpath_recording is 2, this version reads 1`,
		`{"warmpath_recording":1}`:           `t:1: want "began" and "salt" in the header`,
		strings.Replace(head, "128", "0", 1): `t:1: block_bytes is 0, want 1..65536`,
		head + strings.Replace(head, "2026", "1926",
			1): `t:2: began is 1926-01-02T03:04:05Z, want within 30 years of the first header's, 2026-01-02T03:04:05Z`,
		head + "{":                                    `t:2: want a JSON object as warmpath serve records it`,
		head + "{}":                                   `t:2: no "n"; want the number of the request`,
		head + `{"n":1}`:                              `t:2: no "at_ms"; want milliseconds after "began"`,
		head + `{"n":1,"at_ms":-3}`:                   `t:2: no "took_ms"`,
		request(`,"ttft_ms":3`):                       `t:2: ttft_ms is 3, want 0..2, the took_ms`,
		request(`,"sent_ms":3`):                       `t:2: sent_ms is 3, want 0..2, the took_ms`,
		request(`,"class":"x"`):                       `t:2: class is "x", want turn or embed`,
		request(`,"outcome":""`):                      `t:2: no "outcome"`,
		request(`,"tokens":-1`):                       `t:2: tokens is -1, want 0..`,
		request(`,"cached":-1`):                       `t:2: cached is -1`,
		request(`,"shared":1,"blocks":1,"bytes":128`): `t:2: from is 0, want an earlier request than 1`,
		request(`,"shared":2,"blocks":1,"bytes":128`): `t:2: shared is 2, want 0..1, the blocks`,
		request(`,"blocks":2,"bytes":128`):            `t:2: blocks is 2, want at most 1: the bytes in blocks of 128`,
		request(`,"blocks":1,"bytes":128`):            `t:2: hashes hold 0 bytes, want 6: 6 for each of 1 blocks`,
		request(``) + request(`,"n":2,"shared":1,"from":1,"blocks":1,"bytes":128`)[len(
			head):]: `t:3: shared is 1, but request 1 has 0 blocks`,
		request(`,"n":7,"shared":1,"from":5,"blocks":1,"bytes":128`): `t:2: from is 5, which no earlier line has`,
		request(``) + request(``)[len(head):]:                        `t:3: n is 1, as in an earlier line`,
		head + `{"engine":"e","slots":-1}`: `t:2: cache_tokens, block_tokens and slots are ` +
			`0, 0 and -1`,
		`{"n":1}`: `t:1: neither a Mooncake trace`,
	} {
		if _, err := trace.Read("t", strings.NewReader(text), trace.FormatAuto); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := trace.ReadRecording("t", strings.NewReader(`{"n":1}`)); err == nil ||
		!strings.Contains(err.Error(), `t:1: no "warmpath_recording"; want the header line first`) {
		t.Error(err)
	}
}

// FuzzReadRecording: no input breaks the reader, and accepted input can be replayed.
func FuzzReadRecording(f *testing.F) {
	var s scribe
	s.header(time.Unix(1000, 0).UTC(), "s")
	s.WriteString(`{"engine":"e","at_ms":1,"kind":"vllm","cache_tokens":9000,"block_tokens":16,"slots":4}` + "\n")
	s.line("x", []int{1, 2}, 65, told(1, 5, "a"))
	s.line("x", []int{1, 2, 3}, 97, told(7, 5, "a"))
	s.header(time.Unix(1001, 0).UTC(), "s")
	s.line("x", []int{1, 2, 4}, 97, told(-20, 5, "b")+`,"parent":"a","lead":300`)
	s.line("x", []int{7}, 9, told(3, 500, "b")+`,"lead":300`)
	s.line("", nil, 0, `"at_ms":1,"took_ms":2,"class":"embed","outcome":"ok","endpoint":"e","prompt_bytes":99`)
	f.Add(s.Bytes())
	f.Add([]byte(`{"warmpath_recording":1,"began":"2026-01-02T03:04:05Z","salt":"s","block_bytes":1}` + "\n" + `{"n":1,"at_ms":-1e11,"took_ms":2,"class":"turn","outcome":"ok","endpoint":"e","blocks":5,"bytes":5,"estimate":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := trace.ReadRecording("t", bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(r.Requests) != len(r.Trace.Turns) {
			t.Fatalf("%d requests, %d turns", len(r.Requests), len(r.Trace.Turns))
		}
		if d := r.Trace.Demand(16); d.Ideal < 0 || d.Ideal > d.Prompt {
			t.Fatalf("%+v", d)
		}
		turns := 0
		for _, s := range r.Trace.Sessions {
			for i := int32(s.First); i >= 0; i = r.Trace.Turns[i].Next {
				turns++
				if x := r.Trace.Turns[i]; x.Delay < 0 || x.From() >= i || !x.HasPrompt() {
					t.Fatalf("turn %d: %+v", i, x)
				}
			}
		}
		if turns != len(r.Trace.Turns) {
			t.Fatalf("%d turns in sessions, %d in all", turns, len(r.Trace.Turns))
		}
		for _, f := range calibrate.Fit(r, round()) {
			if err := f.Engine.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// round is an engine with simple figures: 1,000 tokens per second, a step of 1 ms.
func round() engine.Config {
	return engine.Config{
		PrefillTokensPerSecond: 1000, ChunkTokens: 100_000, CacheTokens: 640_000, BlockTokens: 64, Slots: 8,
		StepBase: time.Millisecond,
	}
}

// first takes the first candidate.
type first struct{}

func (first) Needs() pick.Needs { return pick.Needs{Name: "first"} }

func (first) Hooks() pick.Hooks { return pick.Hooks{} }

func (first) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{Reason: "first"} }

func replay(t testing.TB, r drive.Replay) *drive.Outcome {
	t.Helper()
	r.Policy = func() pick.Policy { return first{} }
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func off(got, want float64) float64 { return math.Abs(got-want) / want }

// common is the number of blocks that two prompts share.
func common(t *trace.Trace, a, b, block int) int {
	x, y := t.Content(nil, a, block), t.Content(nil, b, block)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}
