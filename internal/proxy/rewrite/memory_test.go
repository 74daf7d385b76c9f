package rewrite

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/handover"
)

// TestMemoryOfAnswers: what is kept of an answer to change it is asked for: all of a whole one, and of a stream its
// longest event once. Without memory the answer breaks off.
func TestMemoryOfAnswers(t *testing.T) {
	errNone := errors.New("no memory")
	long := "data: {" + strings.Repeat(" ", 100_000) + "}\n\n"
	for name, change := range map[string]func(*http.Response, Hold) error{
		"merged": func(res *http.Response, hold Hold) error {
			return Merge(res, func(answer []byte, _ int) []byte { return answer }, func() error { return nil }, hold)
		},
		"stitched": func(res *http.Response, hold Hold) error { return Stitch(res, &handover.First{}, hold) },
	} {
		for _, tt := range []struct {
			media, body string
			least, most int // bytes asked for
		}{
			{"application/json", strings.Repeat(" ", 200_000), 200_000, 200_000},
			{"text/event-stream", strings.Repeat("data: {}\n\n", 100), 0, 1000},
			{"text/event-stream", long + long + long, 90_000, 140_000},
		} {
			for _, none := range []bool{false, true} {
				res := &http.Response{
					ContentLength: -1, Header: http.Header{"Content-Type": {tt.media}},
					Body: io.NopCloser(strings.NewReader(tt.body)),
				}
				held := 0
				err := change(res, func(n int) error {
					if held += n; none {
						return errNone
					}
					return nil
				})
				var got []byte
				if err == nil {
					got, err = io.ReadAll(res.Body)
				}
				if none && held > 0 {
					if !errors.Is(err, errNone) {
						t.Errorf("%s, %s of %d bytes, without memory: %v", name, tt.media, len(tt.body), err)
					}
				} else if err != nil || len(got) != len(tt.body) || held < tt.least || held > tt.most {
					t.Errorf("%s, %s of %d bytes: %d bytes, %d asked for, want %d to %d, %v",
						name, tt.media, len(tt.body), len(got), held, tt.least, tt.most, err)
				}
			}
		}
	}
}
