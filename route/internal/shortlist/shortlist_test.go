package shortlist

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/slot"
)

// model is what a list should find, by sorting all members.
type model struct {
	member     int32
	soon, idle uint64
	place      uint64
}

func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New()
		n := rapid.IntRange(1, 60).Draw(t, "endpoints")
		v := &pick.View{}
		fit := make([]bool, n)
		loads := make([]fleet.Load, n)
		rows := make([]pick.Candidate, n)
		held := make([]int32, rapid.IntRange(0, n).Draw(t, "holders"))
		for i := range held {
			held[i] = int32(rapid.SampledFrom([]int{0, 0, 500, 2000, 2500}).Draw(t, "held"))
		}
		for slot := range n {
			table.AddEndpoint(slot, uint64(slot+1)*0x9e3779b97f4a7c15)
			loads[slot] = fleet.Load{
				Requests:      rapid.IntRange(0, 4).Draw(t, "requests"),
				PrefillTokens: int64(rapid.IntRange(0, 3).Draw(t, "prompts")) * 1000,
			}
			fit[slot] = rapid.IntRange(0, 3).Draw(t, "fit") > 0
			table.Describe(slot, loads[slot], fit[slot])
			if rapid.Bool().Draw(t, "seen") {
				rows[slot] = pick.Candidate{
					Pace:     pick.Pace{MsPerToken: rapid.SampledFrom([]float64{0.1, 0.25, 0.5}).Draw(t, "speed")},
					Endpoint: pick.Endpoint{Slot: slot, Weight: rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "weight")},
					Demand:   pick.Demand{TurnsPerMs: 0.25, Utilisation: 0.5},
				}
				v.Candidates = append(v.Candidates, rows[slot])
			}
		}
		table.See(v)
		slots := make([]int32, n)
		for i := range slots {
			slots[i] = int32(n - 1 - i)
		}
		req := Request{
			Tokens: 2000, Cached: held, Hash: rapid.Uint64().Draw(t, "hash"), Seed: rapid.Uint64().Draw(t, "seed"),
		}
		for slot := range n {
			if rapid.IntRange(0, 9).Draw(t, "not") == 0 {
				req.Not = append(req.Not, int32(slot))
			}
		}
		var list List
		table.Begin(&list, slot.ListOf(slots), req)
		var asked []int32
		var all []model
		for i, slot := range slots {
			if !fit[slot] {
				asked = append(asked, int32(i))
			}
			if slices.Contains(req.Not, slot) || !fit[slot] && slot%2 == 0 {
				continue
			}
			m := model{member: int32(i), place: uint64(
				uint32(^blocks.Scramble((uint64(slot)+1)*0x9e3779b97f4a7c15^blocks.Scramble(req.Hash)) >> 32))}
			if c := &rows[slot]; c.MsPerToken > 0 {
				each := c.MsPerToken / c.Weight
				missing := float64(loads[slot].PrefillTokens) + 2000
				if int(slot) < len(held) {
					missing -= float64(held[slot])
				}
				m.soon, m.idle = uint64(max(0, missing*each)), uint64(1024*float64(loads[slot].Requests)*each)
			}
			all = append(all, m)
		}
		if !slices.Equal(list.Unverified, asked) {
			t.Fatalf("asked for %v, should be %v", list.Unverified, asked)
		}
		for _, i := range list.Unverified {
			if slots[i]%2 == 1 {
				list.Add(i)
			}
		}
		if list.Count() != len(all) {
			t.Fatalf("%d may take it, should be %d", list.Count(), len(all))
		}
		var named []int32
		if len(all) > 0 {
			named = []int32{all[rapid.IntRange(0, len(all)-1).Draw(t, "home")].member}
		}
		beyond := list.Close(named)
		if !slices.IsSorted(list.Rows) || len(slices.Compact(slices.Clone(list.Rows))) != len(list.Rows) {
			t.Fatalf("rows are %v", list.Rows)
		}
		must := slices.Clone(named)
		slices.SortFunc(all, func(a, b model) int {
			return cmp.Or(cmp.Compare(a.soon, b.soon), cmp.Compare(a.place, b.place))
		})
		for _, m := range all[:min(listed, len(all))] {
			must = append(must, m.member)
		}
		slices.SortFunc(all, func(a, b model) int {
			return cmp.Or(cmp.Compare(a.idle, b.idle), cmp.Compare(a.place, b.place))
		})
		for _, m := range all[:min(listed, len(all))] {
			must = append(must, m.member)
		}
		for _, m := range must {
			if !slices.Contains(list.Rows, m) {
				t.Fatalf("member %d is missing in %v", m, list.Rows)
			}
		}
		if most := len(named) + listed + listed + drawn; len(list.Rows) > most {
			t.Fatalf("%d rows", len(list.Rows))
		}
		var want pick.Beyond
		known := 0.0
		for _, m := range all {
			c := &rows[slots[m.member]]
			if slices.Contains(list.Rows, m.member) {
				continue
			}
			want.Count++
			want.Requests += loads[slots[m.member]].Requests
			if c.MsPerToken > 0 {
				known++
				want.Able += 1 / c.MsPerToken
				want.Ready += c.Weight / c.MsPerToken
				want.Turns += c.TurnsPerMs
				want.Utilised += c.Utilisation / c.MsPerToken
			}
		}
		if want.Count != beyond.Count || want.Requests != beyond.Requests {
			t.Fatalf("beyond it are %+v, should be %+v", beyond, want)
		}
		for _, x := range [][2]float64{
			{beyond.Able, want.Able},
			{beyond.Ready, want.Ready},
			{beyond.Turns, want.Turns},
			{beyond.Utilised, want.Utilised},
		} {
			if known > 0 && math.Abs(x[0]-x[1]*float64(want.Count)/known) > 1e-6 {
				t.Fatalf("beyond it are %+v, should be %+v of %v among %d", beyond, want, known, want.Count)
			}
		}
	})
}
