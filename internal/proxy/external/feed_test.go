package external

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
)

// TestFeed: a writer waits for room, and learns when all that it wrote has been worked off.
func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFeed()
		_, _ = f.Write(make([]byte, feedBytes))
		wrote := false
		go func() {
			_, _ = f.Write([]byte("more"))
			wrote = true
		}()
		synctest.Wait()
		if wrote {
			t.Error("a full feed took more")
		}
		b := make([]byte, feedBytes)
		if n, err := f.Read(b); n != feedBytes || err != nil {
			t.Error(n, err)
		}
		synctest.Wait()
		if !wrote {
			t.Error("the writer waits although there is room")
		}
		off := false
		go func() {
			f.Taken()
			off = true
		}()
		synctest.Wait()
		if off {
			t.Error("what was not read counts as worked off")
		}
		go func() {
			for {
				if _, err := f.Read(b); err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if !off {
			t.Error("what was read does not count as worked off")
		}
		f.End(io.EOF)
		f.End(errors.New("a second end"))
		synctest.Wait()
		if _, err := f.Read(b); !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
		_ = f.Close()
		_, _ = f.Write([]byte("x"))
		if _, err := f.Read(b); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after Close: %v", err)
		}
	})
}
