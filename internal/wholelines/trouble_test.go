package wholelines

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrouble: the log is told once a minute; anybody who asks is told until something was written.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x Trouble
		first, second := errors.New("first"), errors.New("second")
		if x.Err() != nil {
			t.Error("trouble before any")
		}
		if !x.Failed(first) || x.Failed(second) {
			t.Error("the log is not told of the first alone")
		}
		if err := x.Err(); err != second {
			t.Errorf("%v, want the latest", err)
		}
		time.Sleep(time.Minute)
		if !x.Failed(first) {
			t.Error("the log is not told again after a minute")
		}
		if x.Wrote(); x.Err() != nil {
			t.Error("trouble after something was written")
		}
	})
}
