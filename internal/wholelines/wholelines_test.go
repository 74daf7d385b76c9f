package wholelines

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// disk takes so many bytes and is full then.
type disk struct {
	text string
	room int
}

var errFull = errors.New("full")

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.text, d.room = d.text+string(b[:n]), d.room-n
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// TestWrite: a line that was torn by a full disk stays alone, and one that comes in two pieces stays whole.
func TestWrite(t *testing.T) {
	d := &disk{room: 100}
	w := &Writer{out: d, last: '\n'}
	put := func(s string, want error) {
		t.Helper()
		if _, err := w.Write([]byte(s)); !errors.Is(err, want) {
			t.Errorf("%q: %v", s, err)
		}
	}
	put("one\ntw", nil)
	put("o\n", nil)
	d.room = 3
	put("three\n", errFull)
	put("four\n", errFull) // not even the end of the line fits
	d.room = 100
	put("five\n", nil)
	d.room = 0
	put("six\n", errFull) // nothing of it is there
	d.room = 100
	put("seven\nei", nil)
	d.room = 0
	put("ght\n", errFull)
	d.room = 100
	put("nine\n", nil)
	if want := "one\ntwo\nthr\nfive\nseven\nei\nnine\n"; d.text != want {
		t.Errorf("%q, want %q", d.text, want)
	}
}

// TestOn: a file whose last line was torn by the end of a process is gone on with on a line of its own.
func TestOn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, c := range []struct{ before, want string }{{"", "x\n"}, {"a\n", "a\nx\n"}, {"a\nb", "a\nb\nx\n"}} {
		if err := os.WriteFile(name, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := On(f).Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if b, err := os.ReadFile(name); err != nil || string(b) != c.want {
			t.Errorf("after %q: %q, %v", c.before, b, err)
		}
	}
}
