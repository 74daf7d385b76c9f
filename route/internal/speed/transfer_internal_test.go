package speed

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// decoder is an engine that gets KV cache over a link which concurrent transfers share evenly.
type decoder struct {
	*site
	perToken, fixed float64 // ms of a transfer that has the link to itself
}

func newDecoder(t *testing.T, perToken, fixed float64) *decoder {
	return &decoder{newSite(t, 1, backlog.Config{}), perToken, fixed}
}

// hand opens a decode leg whose prompt is computed, and begins its transfer.
func (d *decoder) hand(tokens int) (n uint32) {
	n, _ = d.open(backlog.Work{Class: fleet.Turn, Leg: fleet.LegDecode, Stream: true, PromptTokens: tokens})
	d.backlog.Transferring(d.now, n)
	return n
}

// arrives is the first byte and the end of a leg.
func (d *decoder) arrives(n uint32) {
	d.first(n)
	d.end(n, fleet.OK, fleet.Usage{})
}

// learnt is the speed of its transfers.
func (d *decoder) learnt() backlog.Transfer {
	got, _ := d.OwnTransfer(0)
	return got
}

func (d *decoder) wait(ms float64) { d.now = d.now.Add(time.Duration(ms * 1e6)) }

// together plays transfers that begin together, the shortest first. It returns what was expected of the last one when
// all others had begun, and what it took.
func (d *decoder) together(tokens ...int) (expected, took float64) {
	pace := d.Transfer(d.now, 0)
	last := len(tokens) - 1
	var legs []uint32
	for _, x := range tokens[:last] {
		legs = append(legs, d.hand(x))
	}
	expected = pace.FixedMs + float64(tokens[last])*pace.MsPerToken +
		d.backlog.LinkMs(d.now, 0, pace, float64(tokens[last]), 0)
	legs = append(legs, d.hand(tokens[last]))
	for i, x := range tokens {
		moved := 0
		for _, y := range tokens {
			moved += min(x, y) // each has an equal part until it ends
		}
		after := d.fixed + d.perToken*float64(moved)
		d.wait(after - took)
		d.arrives(legs[i])
		took = after
	}
	d.wait(1000)
	return expected, took
}

// TestTransfersAreLearnt: how long transfers take is learnt from lone and from concurrent ones, from any initial
// assumption, and an outlier changes it little.
func TestTransfersAreLearnt(t *testing.T) {
	for _, link := range [][2]float64{{0.1, 12}, {0.002, 15}, {0.5, 5}, {0.005, 4}, {0.05, 60}, {0.02, 15}} {
		for most, checked := range map[int][][]int{ // concurrently
			1: {{500}, {2000}, {4000}}, 6: {{2000}, {1000, 3000, 3000, 3000}, {500, 500, 500, 4000}},
		} {
			d, rng := newDecoder(t, link[0], link[1]), rand.New(rand.NewPCG(1, 2))
			check := func(what string, share float64) {
				for _, tokens := range checked {
					if expected, took := d.together(tokens...); !within(expected, took, share) {
						t.Errorf("%v, %d at most, %s: the last of %v is expected to take %.1f ms, it takes %.1f",
							link, most, what, tokens, expected, took)
					}
				}
			}
			for range 200 {
				tokens := make([]int, 1+rng.IntN(most))
				for i := range tokens {
					tokens[i] = 200 + rng.IntN(4000)
				}
				slices.Sort(tokens)
				d.together(tokens...)
			}
			check("after 200", 0.25)
			n := d.hand(1000)
			d.wait(100 * (d.fixed + 1000*d.perToken))
			d.arrives(n)
			check("after one that took a hundred times as long", 0.35)
			d.idle()
		}
	}
}

// TestStallIsForgotten: transfers that wait for a hanging decoder teach little about its link, however many.
func TestStallIsForgotten(t *testing.T) {
	d := newDecoder(t, 0.1, 15)
	play := func(times int, low, high float64) {
		t.Helper()
		for i := range times {
			d.together(500 + (i*7919)%4000)
			if i%3 == 0 {
				d.together(2000, 2000)
			}
		}
		if got := d.learnt(); got.MsPerToken < low || got.MsPerToken > high {
			t.Errorf("%v ms a token were learnt, it takes 0.1", got.MsPerToken)
		}
	}
	play(300, 0.09, 0.11)
	from := d.next
	for range 20 {
		d.hand(2000)
		d.wait(100)
	}
	for n := from; n < d.next; n++ {
		d.arrives(n)
	}
	play(40, 0.06, 0.14)
}

// TestPlacesAreNoLink: waiting for a place at a decoder teaches nothing about transfer speed; nor do non-streamed
// answers.
func TestPlacesAreNoLink(t *testing.T) {
	d := newDecoder(t, 0.01, 10)
	d.backlog.Describe(0, 4, 0, false)
	d.together(1000)
	for range 4 {
		d.first(d.hand(1000))
	}
	before := d.learnt()
	for range 20 {
		n := d.hand(1000)
		d.wait(5000)
		d.arrives(n)
	}
	if got := d.learnt(); got != before {
		t.Errorf("waiting for one of four places made %+v of %+v", got, before)
	}
	d.end(1, fleet.OK, fleet.Usage{})
	n, _ := d.open(backlog.Work{Class: fleet.Turn, Leg: fleet.LegDecode, PromptTokens: 1000})
	d.backlog.Transferring(d.now, n)
	d.wait(5000)
	d.arrives(n)
	if got := d.learnt(); got != before {
		t.Errorf("a non-streamed answer made %+v of %+v", got, before)
	}
	if d.together(1000); before == d.learnt() {
		t.Error("a transfer that found a place teaches nothing")
	}
}

// TestPaceLeavesPromptsOut: prefill during an answer does not count towards its pace, and an answer with much of it
// teaches nothing.
func TestPaceLeavesPromptsOut(t *testing.T) {
	for _, tt := range []struct {
		prompt time.Duration // computed during the answer, which takes a second besides
		want   float64       // ms per token
	}{{0, 5}, {80 * time.Millisecond, 5}, {500 * time.Millisecond, FirstPace}} {
		s := newSerial(t, 9_000, true)
		n, _ := s.send(100)
		s.first(n)
		s.now = s.now.Add(500 * time.Millisecond)
		if tt.prompt > 0 {
			other, _ := s.send(1000)
			s.now = s.now.Add(tt.prompt)
			s.first(other)
			s.end(other, fleet.ClientGone, fleet.Usage{})
		}
		s.now = s.now.Add(500 * time.Millisecond)
		s.end(n, fleet.OK, used(100, 201))
		if got := s.DecodePace(0, 0).AnswerMs; !within(got, tt.want, 0.002) {
			t.Errorf("beside prompts of %v: %.2f ms a token, want %.2f", tt.prompt, got, tt.want)
		}
	}
}

// TestSnapshot: what was learnt of endpoints and of the fleet is the same after a snapshot, and the age of transfers
// goes on; an endpoint that has left leaves nothing to the next one with its slot.
func TestSnapshot(t *testing.T) {
	d := newDecoder(t, 0.1, 12)
	for i := range 20 {
		d.together(500 + 100*i)
	}
	mixed(d.site, []float64{3_000}, 20, 2000, func(int, int) time.Duration { return 0 })
	of, all := d.Export(d.now, 0), d.ExportFleet()
	after, later := New(0), time.Minute
	after.AddEndpoint(0)
	after.AddEndpoint(1)
	after.RestoreFleet(&all)
	after.Restore(d.now.Add(later), 0, &of, later)
	for slot := range 2 {
		d.AddEndpoint(slot + 1)
		got := after.Pace(slot)
		want := d.Pace(slot)
		if got.FixedMs != want.FixedMs || !within(got.MsPerToken, want.MsPerToken, 1e-9) {
			t.Errorf("endpoint %d: %+v after a snapshot, want %+v", slot, got, want)
		}
	}
	at := d.now.Add(later)
	if got, want := after.Transfer(at, 0), d.Transfer(at, 0); got != want {
		t.Errorf("transfers take %+v after a snapshot, want %+v", got, want)
	}
	after.RemoveEndpoint(0)
	after.AddEndpoint(0)
	if _, moved := after.OwnTransfer(0); moved || after.Known(0).Own {
		t.Error("something is left of an endpoint that was removed")
	}
}
