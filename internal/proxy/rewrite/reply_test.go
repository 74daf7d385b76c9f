package rewrite

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// TestReadReply: a reply is read whole, one that is longer than it may be or shorter than it says is refused.
func TestReadReply(t *testing.T) {
	long := strings.Repeat("x", MostReply)
	for name, tt := range map[string]struct {
		said int64
		body string
		want error
	}{
		"as it says":        {5, "hello", nil},
		"without a length":  {-1, "hello", nil},
		"nothing":           {0, "", nil},
		"long":              {MostReply, long, nil},
		"long, not said":    {-1, long, nil},
		"too long":          {MostReply + 1, long + "x", errLongReply},
		"too long, unsaid":  {-1, long + "x", errLongReply},
		"less than it says": {6, "hello", io.ErrUnexpectedEOF},
	} {
		res := &http.Response{ContentLength: tt.said, Body: io.NopCloser(strings.NewReader(tt.body))}
		got, err := ReadReply(res)
		if !errors.Is(err, tt.want) || err == nil && string(got) != tt.body {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// TestClaimedReply: memory is taken as bytes of a reply come, whatever length it claims.
func TestClaimedReply(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 10
	for range times {
		_, _ = ReadReply(&http.Response{ContentLength: MostReply, Body: io.NopCloser(strings.NewReader("{"))})
	}
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / times; took > 4*firstReply {
		t.Errorf("a byte of a claimed reply takes %d bytes", took)
	}
}
