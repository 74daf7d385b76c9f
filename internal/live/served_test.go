package live

import (
	"testing"
	"time"
)

// TestFirstToken: the first data of a whole answer come with its last, and those of a refusal at once. Counted as first
// tokens they raised an alert where a client summarises texts beside those who chat, and hid one where many are
// refused.
func TestFirstToken(t *testing.T) {
	began := time.Unix(0, 0)
	for _, tt := range []struct {
		name string
		s    Served
		want time.Duration
	}{
		{"a stream", Served{Stream: true, Status: 200, FirstByte: began.Add(time.Second)}, time.Second},
		{"a whole answer", Served{Status: 200, FirstByte: began.Add(time.Second)}, 0},
		{"a refused stream", Served{Stream: true, Status: 400, FirstByte: began.Add(time.Second)}, 0},
		{"a stream without data", Served{Stream: true, Status: 200}, 0},
	} {
		tt.s.Started = began
		if got, ok := tt.s.FirstToken(); got != tt.want || ok != (tt.want > 0) {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, ok, tt.want)
		}
	}
}
