package asynclog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that waits until it is opened.
type gate struct {
	open chan struct{}
	b    bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	return g.b.Write(p)
}

// TestNobodyWaits: with a reader that does not read nothing blocks, what does not fit is counted, and what fits comes
// when it reads again.
func TestNobodyWaits(t *testing.T) {
	for name, text := range map[string]string{"many": "x", "large": strings.Repeat("x", 64<<10)} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{open: make(chan struct{})}
			h := New(slog.NewTextHandler(g, nil))
			log := slog.New(h).With("who", "me")
			const lines = 3 * mostRecords
			for range lines {
				log.Info("line", "text", text)
			}
			synctest.Wait()
			queued := int64(len(h.items))
			if held := queued * int64(len(text)); queued > mostRecords || held > mostBytes {
				t.Errorf("%s: %d lines with %d bytes are kept", name, queued, held)
			}
			if h.Dropped() == 0 || h.Dropped()+uint64(queued)+1 != lines { // one is being written
				t.Errorf("%s: %d lines dropped and %d kept of %d", name, h.Dropped(), queued, lines)
			}
			close(g.open)
			h.Close(time.Hour)
			if got := uint64(strings.Count(g.b.String(), "who=me")); got != h.Written() ||
				h.Written()+h.Dropped() != lines {
				t.Errorf("%s: %d lines came, %d written and %d dropped of %d",
					name, got, h.Written(), h.Dropped(), lines)
			}
			log.Info("after the end")
			if h.Written()+h.Dropped() != lines+1 || h.bytes.Load() != 0 {
				t.Errorf("%s: a late line is lost without a word, or %d bytes stay counted", name, h.bytes.Load())
			}
		})
	}
}

// TestCloseWaitsNoLonger: a reader that never reads does not keep the process from ending.
func TestCloseWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		h := New(slog.NewTextHandler(g, nil))
		slog.New(h).Info("line")
		started := time.Now()
		h.Close(time.Second)
		if took := time.Since(started); took != time.Second {
			t.Errorf("closing took %v", took)
		}
		close(g.open)
	})
}

// changing is an error whose text changes after it was logged.
type changing struct{ text string }

func (c *changing) Error() string { return c.text }

// TestLinesAreThoseOfTheMoment: a line says what was so when it was logged, in order, as the handler behind would have
// written it.
func TestLinesAreThoseOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var direct bytes.Buffer
		g := &gate{open: make(chan struct{})}
		h := New(slog.NewJSONHandler(g, nil))
		say := func(log *slog.Logger, err error) {
			log.With("a", 1).WithGroup("g").Warn("first", "error", err, "n", 2, "d", time.Second)
			log.Error("second", "list", []int{1, 2}, "none", nil)
		}
		say(slog.New(slog.NewJSONHandler(&direct, nil)), errors.New("then"))
		err := &changing{"then"}
		say(slog.New(h), err)
		err.text = "now"
		close(g.open)
		h.Close(time.Second)
		if g.b.String() != direct.String() {
			t.Errorf("got\n%swant\n%s", g.b.String(), direct.String())
		}
		if slog.New(h).Enabled(t.Context(), slog.LevelDebug) {
			t.Error("debug lines are enabled")
		}
	})
}
