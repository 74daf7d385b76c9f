package transfers

import (
	"fmt"
	"hash/maphash"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/handover"
)

// TestReturnsAgainstAModel: whatever is put and taken, what is given out is the latest of its conversation, once, in
// time and for what goes on from it.
func TestReturnsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const keep = 10 * time.Second
		r := NewReturns(keep)
		type entry struct {
			params string
			text   string
			until  time.Time
		}
		model := map[ReturnKey]entry{}
		now := time.Unix(1000, 0)
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			key := ReturnKey{"t", "m", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session")}
			text := rapid.SampledFrom([]string{
				`[{"x"}`, `[{"x"},{"y"}`, `[{"z"}`, `[{"x"},{"y"},{"z"}`,
			}).Draw(t, "text")
			if rapid.Bool().Draw(t, "put") {
				params := fmt.Sprint("params", i)
				r.Put(now, Returned{
					Key: key, Before: handover.Before{Params: []byte(params)}, Scope: 1, Bytes: len(text),
					Hash: maphash.String(r.seed, text),
				})
				model[key] = entry{params, text, now.Add(keep)}
				continue
			}
			got, want := r.Take(now, key, 1, spoken{text: []byte(text), messages: true}), ""
			if m, ok := model[key]; ok && !now.After(m.until) && len(text) > len(m.text) &&
				text[:len(m.text)] == m.text {
				want = m.params
			}
			delete(model, key)
			if (got == nil) != (want == "") || got != nil && string(got.Params) != want {
				t.Fatalf("got %v, want %q", got, want)
			}
		}
	})
}

// TestReturnsAreBounded: in number, in bytes, and in time.
func TestReturnsAreBounded(t *testing.T) {
	r, now := NewReturns(time.Minute), time.Unix(1000, 0)
	for i := range mostReturned + 100 {
		r.Put(now, Returned{Key: ReturnKey{Session: fmt.Sprint(i)}, Before: handover.Before{Params: []byte("x")}})
	}
	if r.len() != mostReturned || len(r.byKey) != mostReturned || r.bytes != mostReturned {
		t.Errorf("%d conversations, %d bytes", r.len(), r.bytes)
	}
	for i := range 100 {
		r.Put(now, Returned{
			Key: ReturnKey{Session: fmt.Sprint(i)}, Before: handover.Before{Params: make([]byte, 4<<20)},
		})
	}
	if r.bytes > mostReturnedBytes || r.len() > 16 {
		t.Errorf("%d conversations, %d bytes", r.len(), r.bytes)
	}
	r.Put(now.Add(2*time.Minute), Returned{Key: ReturnKey{Session: "new"}})
	if r.len() != 1 || r.bytes != 0 {
		t.Errorf("after their time: %d conversations, %d bytes", r.len(), r.bytes)
	}
	if NewReturns(0) != nil {
		t.Error("a store that is off")
	}
}

// len is how many conversations are remembered.
func (r *Returns) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len()
}
