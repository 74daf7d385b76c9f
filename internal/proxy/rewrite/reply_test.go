package rewrite

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestReadReply: a reply is read whole, and memory is asked for as much as it has. One that is longer than it may be,
// shorter than it says, or for which there is no memory is refused.
func TestReadReply(t *testing.T) {
	long, errNone := strings.Repeat("x", MostReply), errors.New("no memory")
	for name, tt := range map[string]struct {
		said int64
		body string
		want error
	}{
		"as it says":         {5, "hello", nil},
		"without a length":   {-1, "hello", nil},
		"nothing":            {0, "", nil},
		"long":               {MostReply, long, nil},
		"long, not said":     {-1, long, nil},
		"too long":           {MostReply + 1, long + "x", errLongReply},
		"too long, unsaid":   {-1, long + "x", errLongReply},
		"less than it says":  {6, "hello", io.ErrUnexpectedEOF},
		"more than there is": {-1, "hello", errNone},
	} {
		res := &http.Response{ContentLength: tt.said, Body: io.NopCloser(strings.NewReader(tt.body))}
		held := 0
		got, err := ReadReply(res, func(n int) error {
			if held += n; errors.Is(tt.want, errNone) {
				return errNone
			}
			return nil
		})
		if !errors.Is(err, tt.want) || err == nil && (string(got) != tt.body || held != len(tt.body)) {
			t.Errorf("%s: %d bytes, %d asked for, %v", name, len(got), held, err)
		}
	}
}

// TestClaimedReply: memory is taken as bytes of a reply come, whatever length it claims.
func TestClaimedReply(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 10
	for range times {
		_, _ = ReadReply(&http.Response{ContentLength: MostReply, Body: io.NopCloser(strings.NewReader("{"))},
			func(int) error { return nil })
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / times; took > 4*firstReply {
		t.Errorf("a byte of a claimed reply takes %d bytes", took)
	}
}
