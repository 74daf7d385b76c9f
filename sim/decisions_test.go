package sim_test

import (
	"compress/gzip"
	"encoding/gob"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

// decisions are those of one cell of TestDigests, as far as testdata/decisions.gz keeps them, so that a digest that
// differs can say which decision was the first to differ.
type decisions struct {
	Cell   string
	Places []string // each once: "e1, home"
	Place  []uint16 // of each decision, an index of Places
	TTFT   []uint16 // of each decision, see coarse

	index map[string]uint16
}

// coarse is a predicted time in ms to 0.4 %: the upper half of a 32-bit float without its sign.
func coarse(ms float64) uint16 { return uint16(math.Float32bits(float32(ms)) >> 15) }

func fine(x uint16) float64 { return float64(math.Float32frombits(uint32(x) << 15)) }

// add keeps a decision.
func (d *decisions) add(e *route.Entry) {
	place := placeOf(e)
	i, known := d.index[place]
	if !known {
		if d.index == nil {
			d.index = map[string]uint16{}
		}
		i = uint16(len(d.Places))
		d.index[place], d.Places = i, append(d.Places, place)
	}
	d.Place, d.TTFT = append(d.Place, i), append(d.TTFT, coarse(estimateOf(e)))
}

// word is a decision in words.
func (d *decisions) word(i int) string {
	if i >= len(d.Place) {
		return "nothing more was decided"
	}
	return fmt.Sprintf("%s, first token in %.4g ms", d.Places[d.Place[i]], fine(d.TTFT[i]))
}

// placeOf is where an entry's request went and why, in words.
func placeOf(e *route.Entry) string {
	var out []string
	for _, x := range []struct {
		what string
		d    *route.Decision
	}{{"prefill at ", e.Prefill}, {"", e.Decision}} {
		if x.d == nil {
			continue
		}
		s := x.what + x.d.Endpoint.Name + ", " + string(x.d.Reason)
		if x.d.Why != "" {
			s += " (split: " + string(x.d.Why) + ")"
		}
		if x.d.Queued {
			s += ", queued"
		}
		out = append(out, s)
	}
	if e.Err != nil {
		out = append(out, "refused: "+e.Err.Error())
	}
	return strings.Join(out, "; ")
}

func estimateOf(e *route.Entry) float64 {
	switch {
	case e.Decision != nil:
		return e.Decision.TTFTMs
	case e.Prefill != nil:
		return e.Prefill.TTFTMs
	}
	return 0
}

// watch compares a run's decisions with those that were kept, and describes the first that differs.
type watch struct {
	want *decisions // nil if none were kept
	got  decisions

	began time.Time
	first string // what differs first; "" for nothing
}

func (w *watch) hear(e *route.Entry) {
	if e.Request == nil {
		return
	}
	if w.began.IsZero() {
		w.began = e.Now
	}
	i := len(w.got.Place)
	w.got.add(e)
	if w.want == nil || w.first != "" || w.want.word(i) == w.got.word(i) {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "decision %d is the first that differs, %s after the first: %s", i+1, e.Now.Sub(w.began),
		requestOf(e))
	fmt.Fprintf(&b, "\n  before: %s\n  now:    %s", w.want.word(i), w.got.word(i))
	if e.View != nil {
		for i := range e.View.Candidates {
			c := &e.View.Candidates[i]
			x := &c.Terms
			fmt.Fprintf(&b,
				"\n  %s: cost %.4g ms = wait %.4g + prefill %.4g + transfer %.4g + fixed %.4g + "+
					"others %.4g + spread %.4g; "+
					"%d tokens cached, %d requests",
				c.Name, x.Cost(), x.Wait, x.Prefill, x.Transfer, x.Fixed, x.Externality, x.Spread,
				c.CachedTokens, c.Load.Requests)
		}
	}
	w.first = b.String()
}

func requestOf(e *route.Entry) string {
	d := e.Decision
	if d == nil {
		d = &route.Decision{Session: e.Request.Session}
	}
	turn := "a later turn"
	if d.FirstTurn {
		turn = "the first turn"
	}
	return fmt.Sprintf("request %q, %s of conversation %q, %d tokens", e.Request.ID, turn, d.Session, d.PromptTokens)
}

// difference is what differs first, if anything does.
func (w *watch) difference() string {
	if w.first == "" && w.want != nil && len(w.got.Place) < len(w.want.Place) {
		i := len(w.got.Place)
		return fmt.Sprintf("there are %d decisions now, and one more before: %s", i, w.want.word(i))
	}
	return w.first
}

var decisionsFile = filepath.Join("testdata", "decisions.gz")

func readDecisions(t *testing.T) map[string]*decisions {
	t.Helper()
	f, err := os.Open(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []*decisions
	if err := gob.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	out := map[string]*decisions{}
	for _, d := range all {
		out[d.Cell] = d
	}
	return out
}

func writeDecisions(t *testing.T, all []*decisions) {
	t.Helper()
	f, err := os.Create(decisionsFile)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		err = gob.NewEncoder(z).Encode(all)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFirstDifference: a run is compared with itself, with one that went elsewhere, with one of another estimate,
// with a longer and with a shorter one.
func TestFirstDifference(t *testing.T) {
	run := func(want *decisions) *watch {
		g, err := simtrace.ParseGenerator([]string{"conversations=20", "turns=3", "prefixes=5"})
		if err != nil {
			t.Fatal(err)
		}
		replay := digestReplay(t, g.Trace(5), digestFleet("mixed4"), "least_ttft")
		w := &watch{want: want}
		replay.Announced = w.hear
		if _, err := replay.Run(); err != nil {
			t.Fatal(err)
		}
		return w
	}
	same := run(nil).got
	for _, row := range []struct {
		name   string
		change func(d *decisions)
		want   []string
	}{
		{"the same", func(*decisions) {}, nil},
		{"another place", func(d *decisions) {
			d.Places = append(d.Places, "elsewhere, least_ttft")
			d.Place[20], d.Place[30] = uint16(len(d.Places)-1), uint16(len(d.Places)-1)
		}, []string{
			"decision 21 is the first", "before: elsewhere, least_ttft, first token in ", "now:    " + same.word(20),
			"= wait ", " tokens cached",
		}},
		{
			"another estimate", func(d *decisions) { d.TTFT[10] = coarse(fine(d.TTFT[10]) * 1.01) },
			[]string{"decision 11 is the first", "now:    " + same.word(10)},
		},
		{"one more", func(d *decisions) { d.Place, d.TTFT = append(d.Place, 0), append(d.TTFT, coarse(12)) }, []string{
			fmt.Sprintf("there are %d decisions now, and one more before: %s, first token in 12 ms", len(same.Place),
				same.Places[0]),
		}},
		{
			"one less", func(d *decisions) { d.Place, d.TTFT = d.Place[:len(d.Place)-1], d.TTFT[:len(d.TTFT)-1] },
			[]string{"before: nothing more was decided"},
		},
	} {
		want := same
		want.Place, want.TTFT = slices.Clone(same.Place), slices.Clone(same.TTFT)
		want.Places = slices.Clone(same.Places)
		row.change(&want)
		got := run(&want).difference()
		if (got == "") != (row.want == nil) {
			t.Errorf("%s: got %q", row.name, got)
		}
		for _, part := range row.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q, want in it %q", row.name, got, part)
			}
		}
	}
}
