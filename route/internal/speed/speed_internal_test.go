package speed

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"pgregory.net/rapid"
)

// TestPaceIsLearnt: from answers among few and many others, with some noise, what a token takes alone and what each
// other adds.
func TestPaceIsLearnt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, perOther := float64(rapid.IntRange(2, 40).Draw(t, "base")),
			float64(rapid.IntRange(0, 60).Draw(t, "hundredths"))/100
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var p decodePace
		for i := range 200 {
			x := float64(i % 24)
			p.Add(1-fit.Usual, 1, x, (base+perOther*x)*(0.95+rng.Float64()/10))
		}
		for _, others := range []float64{0, 10, 24} {
			want := base + perOther*others
			// Noise among many others is in proportion to what a token takes there, and reaches what is told of none.
			allowed := want/10 + (base+perOther*24)/25
			if got, _ := p.at(others, base*firstPerOther); math.Abs(got-want) > allowed {
				t.Fatalf("with %.0f others %.2f ms, want %.2f", others, got, want)
			}
		}
	})
}

// TestSpeedsStaySane: whatever jobs are like, all speeds stay above 0 and finite, readers change nothing, and nothing
// provisional is left when all jobs have ended.
func TestSpeedsStaySane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(0)
		const endpoints = 3
		for slot := range endpoints {
			table.AddEndpoint(slot)
		}
		now := time.Unix(1000, 0)
		read := func() {
			before, reader := clone(table), table.Reader
			for slot := range endpoints {
				token, known := reader.Transfer(now, slot), reader.Known(slot)
				pace, decodeMs := reader.Pace(slot), reader.DecodeMs(slot)
				answers := reader.DecodePace(slot, 5)
				for _, x := range []float64{
					1 + pace.FarWork, reader.MsPerToken(slot), reader.MsPerAnswer(slot), token.MsPerToken,
					token.FixedMs, pace.MsPerToken, pace.FixedMs, answers.AnswerMs,
				} {
					if !(x > 0 && x < 1e12) {
						t.Fatalf("a speed of %v: %v, %v, %+v, %v",
							x, reader.MsPerToken(slot), reader.MsPerAnswer(slot), token, answers)
					}
				}
				if hold := reader.DecodeMs(slot); hold != decodeMs ||
					reader.MsPerToken(slot) < backlog.LeastMsPerToken ||
					!(hold >= 0 && known.MsPerAnswer >= 0 && pace.MsPerAnswer >= 0 && answers.PerOtherMs >= 0) {
					t.Fatalf("%v ms a token, held for %v, %+v, %v more", reader.MsPerToken(slot), hold, known, answers)
				}
				reader.InOrder(slot)
			}
			if after := clone(table); !reflect.DeepEqual(before, after) {
				t.Fatalf("a reader made %+v\nof %+v", after, before)
			}
		}
		var open []*backlog.Job
		end := func() {
			j := open[0]
			open = open[1:]
			prompt := rapid.IntRange(0, 5000).Draw(t, "counted")
			u := fleet.Usage{
				PromptTokens: prompt, CachedTokens: rapid.IntRange(0, prompt).Draw(t, "found"),
				CachedKnown: rapid.Bool().Draw(t, "known"), OutputTokens: rapid.IntRange(0, 200).Draw(t, "answer"),
			}
			j.DecodeTimed, j.PromptMs, j.StillDecoding = u.OutputTokens >= backlog.LeastAnswer,
				rapid.Float64Range(0, 100).Draw(t, "prompts"), rapid.IntRange(0, 9).Draw(t, "left")
			table.Ended(now, j, rapid.Bool().Draw(t, "ok"), &u)
		}
		queued := int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "jobs") {
			sent := now
			now = now.Add(time.Duration(rapid.IntRange(1, 20_000_000).Draw(t, "us")) * time.Microsecond)
			prompt := rapid.IntRange(1, 5000).Draw(t, "prompt")
			cached := rapid.IntRange(0, prompt).Draw(t, "cached")
			j := &backlog.Job{
				Work: backlog.Work{
					Slot: rapid.IntRange(0, endpoints-1).Draw(t, "slot"), Class: fleet.Turn,
					Leg: rapid.SampledFrom([]fleet.Leg{
						fleet.LegUnsplit, fleet.LegPrefill, fleet.LegDecode,
					}).Draw(t, "leg"),
					Stream: rapid.Bool().Draw(t, "stream"), PromptTokens: prompt,
					CachedTokens: cached, FarTokens: rapid.IntRange(0, cached).Draw(t, "far"), MsPerToken: 0.1,
					WaitMs: rapid.Float64Range(0, 1000).Draw(t, "wait"),
				},
				Sent: sent, First: now, Handed: sent, Prefill: int64(prompt - cached), Transfer: int64(prompt - cached),
				TokensBefore: rapid.Float64Range(0, 5000).Draw(t, "front"),
				TokensAfter:  rapid.Float64Range(0, 5000).Draw(t, "behind"),
				Soon:         rapid.Float64Range(0, 5000).Draw(t, "soon"), SoonKnown: true,
				WasIdle: rapid.Bool().Draw(t, "alone"), WaitedForPlace: rapid.Bool().Draw(t, "held"),
				Between: rapid.Int64Range(0, 5000).Draw(t, "between"), Ambiguous: rapid.Bool().Draw(t, "blurred"),
				Concurrent:   rapid.IntRange(0, 9).Draw(t, "others"),
				TransferArea: rapid.Float64Range(0, 1e5).Draw(t, "area"),
			}
			queued += j.Prefill
			j.End = queued
			j.Timed = j.Stream && j.Leg != fleet.LegDecode && j.Prefill > 0
			table.Computed(now, j)
			open = append(open, j)
			read()
			if rapid.Bool().Draw(t, "ends") {
				end()
				read()
			}
		}
		for len(open) > 0 {
			end()
		}
		for slot := range endpoints {
			if err := table.Audit(slot); err != nil {
				t.Fatalf("%d: %v", slot, err)
			}
		}
	})
}

// TestShortPromptsSayLittle: an endpoint that has had few and short prompts is taken to be as fast as the others turn
// out to be. By its own alone it would stay as slow as was assumed, and get no more.
func TestShortPromptsSayLittle(t *testing.T) {
	table := New(0)
	table.AddEndpoint(0)
	table.AddEndpoint(1)
	prompt := func(slot int, sent, first float64) {
		j := stream(sent, first, 20)
		j.Slot = slot
		table.Computed(j.First, j)
		table.Ended(j.First.Add(15*time.Millisecond), j, true, &fleet.Usage{PromptTokens: 20, OutputTokens: 10})
	}
	for i := range 10 {
		prompt(0, float64(100*i), float64(100*i+7))
	}
	for i := range 1000 {
		prompt(1, 2000+1.1*float64(i), 2000+1.1*float64(i)+7)
	}
	few, many := table.MsPerToken(0), table.MsPerToken(1)
	if few > 1.2*many || many > 0.06 {
		t.Errorf("%.3f ms a token, at the other one %.3f; assumed are %v", few, many, firstPerToken)
	}
}

// TestFetchIsLearnt: from prompts most of which a second tier had, what it takes to fetch a token; whatever that is, it
// does not change what a token takes that is computed.
func TestFetchIsLearnt(t *testing.T) {
	for _, fetchMs := range []float64{0.001, 0.01, 0.05} {
		table := New(0)
		table.AddEndpoint(0)
		now := time.Unix(1000, 0)
		for i := range 400 {
			prompt, cached, far := 20_000, 19_800, 0
			switch i % 8 {
			case 0:
				cached = 0
			case 1, 2, 3:
				far = cached
			case 4: // it is not known that it was in the second tier
			}
			took := 10 + float64(prompt-cached)*0.05
			if far > 0 || i%8 == 4 && i > 20 {
				took += float64(cached) * fetchMs
			}
			fetches := int(float64(table.endpoints.Get(0).prefill.Far) * float64(far))
			j := &backlog.Job{
				Work: backlog.Work{
					Class: fleet.Turn, Stream: true, PromptTokens: prompt, CachedTokens: cached, FarTokens: far,
					FetchTokens: fetches, MsPerToken: 0.05,
				},
				Sent: now, Prefill: int64(prompt - cached + fetches), Timed: true, WasIdle: true,
			}
			now = now.Add(time.Duration(took * 1e6))
			j.First = now
			table.Computed(now, j)
			now = now.Add(time.Second)
			table.Ended(now, j, true, &fleet.Usage{
				PromptTokens: prompt, CachedTokens: cached, CachedKnown: true, OutputTokens: 20,
			})
		}
		if got := table.MsPerToken(0); math.Abs(got-0.05) > 0.01 {
			t.Errorf("where a token is fetched in %v ms: %v ms to compute one, want 0.05", fetchMs, got)
		}
		pace := table.Pace(0)
		if got := pace.FarWork * pace.MsPerToken; math.Abs(got-fetchMs) > fetchMs/3 {
			t.Errorf("%v ms to fetch a token, want %v", got, fetchMs)
		}
		kept := table.Export(now, 0)
		after := New(0)
		after.AddEndpoint(0)
		after.Restore(now, 0, &kept, 0)
		was, is := *table.endpoints.Get(0), *after.endpoints.Get(0)
		was.prefill.batches = nil // of those under way
		if !reflect.DeepEqual(was, is) {
			t.Errorf("after a snapshot %+v, want %+v", is, was)
		}
	}
}

// clone is a deep copy of a table, without scratch.
func clone(t *Table) Table {
	c := Table{
		order: append([]int(nil), t.order...), fleet: t.fleet, decodePace: t.decodePace, moved: t.moved,
		movedAt: t.movedAt,
	}
	for i := range t.endpoints.Len() {
		e := *t.endpoints.Get(i)
		e.prefill.batches = append([]batch(nil), e.prefill.batches...)
		*c.endpoints.Grow(i) = e
	}
	return c
}

// TestSlowTransfersAreForgotten: each minute without a transfer takes away half of what is above the default, for ever.
func TestSlowTransfersAreForgotten(t *testing.T) {
	slow, at := backlog.Transfer{MsPerToken: 100 * firstMovePerToken, FixedMs: 100 * firstMoveFixed}, time.Unix(1000, 0)
	for age, most := range map[time.Duration]float64{
		0: 100, time.Minute: 51, 10 * time.Minute: 1.2, 63 * time.Minute: 1.01, 64 * time.Minute: 1.01,
		65 * time.Minute: 1.01, 1000 * time.Hour: 1.01,
	} {
		got := recent(slow, at, at.Add(age))
		if got.MsPerToken > most*firstMovePerToken || got.FixedMs > most*firstMoveFixed ||
			got.MsPerToken < firstMovePerToken || got.FixedMs < firstMoveFixed {
			t.Errorf("after %v: %+v, want at most %v times the default, and no less than it", age, got, most)
		}
	}
	if quick := (backlog.Transfer{MsPerToken: firstMovePerToken / 2, FixedMs: 1}); recent(quick, at,
		at.Add(1000*time.Hour)) != quick {
		t.Error("a quick link is forgotten")
	}
}
