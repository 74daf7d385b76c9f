package speed

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/backlog"
)

// stream is a streamed job whose first byte came after some ms, of a prompt sent after some ms.
func stream(sent, first float64, tokens int64) *backlog.Job {
	at := func(ms float64) time.Time { return time.Unix(1_700_000_000, int64(ms*1e6)) }
	return &backlog.Job{
		Work: backlog.Work{Class: fleet.Turn, Stream: true}, Sent: at(sent), First: at(first),
		Prefill: tokens, Timed: true,
	}
}

// heard is what a table has learnt from first bytes, in this order.
func heard(jobs ...*backlog.Job) (*Table, *endpoint) {
	t := New(0)
	t.AddEndpoint(0)
	for _, j := range jobs {
		t.Computed(j.First, j)
	}
	return t, t.endpoints.Get(0)
}

// TestFirstBytesOutOfOrder: a first byte at another router is heard of after a later one here. It does not shorten the
// later one's time, nor hide its batch.
func TestFirstBytesOutOfOrder(t *testing.T) {
	before, late, own := stream(0, 60, 500), stream(10, 85, 1000), stream(10, 100, 4000)
	_, want := heard(before, late, own)
	_, got := heard(before, own, late)
	if !slices.Equal(got.prefill.batches, want.prefill.batches) || got.prefill.early != want.prefill.early {
		t.Errorf("batches %+v, %+v; in order %+v, %+v", got.prefill.batches, got.prefill.early, want.prefill.batches,
			want.prefill.early)
	}
	for _, j := range []*backlog.Job{before, late, own} {
		if b := got.prefill.batchOf(j.First); b == nil || !b.end.Equal(j.First) || b.tokens != j.Prefill {
			t.Errorf("the batch of %v is %+v", j.First, b)
		}
	}
}

// TestBatchesInAnyOrder: first bytes give the same batches in whichever order they are heard of, and nothing is left of
// them when their answers have ended.
func TestBatchesInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []*backlog.Job
		first, sent := 0.0, 0.0
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			sent += rapid.Float64Range(0, 20).Draw(t, "later")
			first = max(first, sent) + rapid.SampledFrom([]float64{0.1, 0.5, 0.9, 1.2, 7, 40, 300}).Draw(t, "took")
			jobs = append(jobs, stream(sent, first, int64(rapid.IntRange(1, 5000).Draw(t, "tokens"))))
		}
		_, want := heard(jobs...)
		mixed := rapid.Permutation(jobs).Draw(t, "heard")
		table, got := heard(mixed...)
		if !slices.Equal(got.prefill.batches, want.prefill.batches) {
			t.Fatalf("batches %+v, in order %+v", got.prefill.batches, want.prefill.batches)
		}
		if got.prefill.early != want.prefill.early {
			t.Fatalf("samples %+v, in order %+v", got.prefill.early, want.prefill.early)
		}
		for _, j := range mixed {
			if b := got.prefill.batchOf(j.First); b == nil || b.end.Before(j.First) {
				t.Fatalf("the batch of %v is %+v", j.First, b)
			}
			table.Ended(j.First, j, false, &fleet.Usage{})
		}
		if err := table.Audit(0); err != nil {
			t.Fatal(err)
		}
	})
}

// TestManyBatchesInAnyOrder: the number of batches is bounded, whatever the order, and late ones beyond the bound are
// left out.
func TestManyBatchesInAnyOrder(t *testing.T) {
	var jobs []*backlog.Job
	for i := range 3 * maxBatches {
		jobs = append(jobs, stream(float64(10*i), float64(10*i+9), 100))
	}
	late := slices.Clone(jobs[:maxBatches])
	slices.Reverse(late)
	table, e := heard(append(slices.Clone(jobs[maxBatches:]), late...)...)
	b := e.prefill.batches
	if len(b) > maxBatches || !slices.IsSortedFunc(b, func(a, b batch) int { return a.end.Compare(b.end) }) {
		t.Errorf("%d batches, in order: %v",
			len(b), slices.IsSortedFunc(b, func(a, b batch) int { return a.end.Compare(b.end) }))
	}
	for _, j := range jobs {
		table.Ended(j.First, j, false, &fleet.Usage{})
	}
	if err := table.Audit(0); err != nil {
		t.Error(err)
	}
}
