package record

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/trace"
)

var errFull = errors.New("no space left on device")

// fullDisk is a file on a disk with so much space left.
type fullDisk struct {
	*os.File
	left *int
}

// Write writes what there is space for, as a disk does.
func (d fullDisk) Write(p []byte) (int, error) {
	if len(p) <= *d.left {
		*d.left -= len(p)
		return d.File.Write(p)
	}
	n, err := d.File.Write(p[:*d.left])
	*d.left = 0
	return n, errors.Join(err, errFull)
}

// Truncate gives space back.
func (d fullDisk) Truncate(size int64) error {
	at, err := d.Stat()
	if err != nil {
		return err
	}
	*d.left += int(at.Size() - size)
	return d.File.Truncate(size)
}

// TestFullDisk: while the disk is full requests are counted as dropped, older files stay, and what is in the files can
// be read, before and after there is space again.
func TestFullDisk(t *testing.T) {
	r := recorder(t, func(c *Config) { c.FileBytes, c.Files = 1<<20, 2 })
	if err := os.WriteFile(r.cfg.File+".1", []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	left := 3000
	r.out.file = fullDisk{r.out.file.(*os.File), &left}
	next := 0
	play := func(requests int) {
		for range requests {
			next++
			r.entry(sent(next, turn("", "a", chain(next)...), fleet.Lease(next), "e"))
			r.entry(ended(next+1, next, fleet.Lease(next), fleet.OK, fleet.Usage{PromptTokens: 100, OutputTokens: 1}))
			r.drain(nil)
		}
	}
	read := func() int {
		t.Helper()
		text, err := os.ReadFile(r.cfg.File)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trace.ReadRecording("t", strings.NewReader(string(text)))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return len(got.Requests)
	}
	play(50)
	written := int(r.Written())
	if n := read(); written == 0 || written == 50 || n != written || int(r.Dropped()) != 50-written {
		t.Errorf("%d requests in the file, %d written, %d dropped of 50", n, written, r.Dropped())
	}
	if err := r.Trouble(); !errors.Is(err, errFull) {
		t.Errorf("trouble is %v", err)
	}
	left = 1 << 20
	play(50)
	if err := r.Trouble(); err != nil {
		t.Errorf("trouble with space left: %v", err)
	}
	if n := read(); n != written+50 || int(r.Written()) != n {
		t.Errorf("%d requests in the file, %d written, %d dropped of 100", n, r.Written(), r.Dropped())
	}
	if text, err := os.ReadFile(r.cfg.File + ".1"); err != nil || string(text) != "older" {
		t.Errorf("the older file: %q, %v", text, err)
	}
	if _, err := os.Stat(r.cfg.File + ".2"); err == nil {
		t.Error("files were renamed because the disk was full")
	}
}

// TestTwoRecordersWithOneFile: the second drops and counts until the first has ended, and then begins a file of its
// own; nothing of the first is lost.
func TestTwoRecordersWithOneFile(t *testing.T) {
	first := recorder(t, nil)
	second := recorder(t, func(c *Config) { c.File = first.cfg.File })
	next := 0
	play := func(r *Recorder, requests int) {
		for range requests {
			next++
			r.entry(sent(next, turn("", "a", chain(next)...), fleet.Lease(next), "e"))
			r.entry(ended(next+1, next, fleet.Lease(next), fleet.OK, fleet.Usage{PromptTokens: 100, OutputTokens: 1}))
			r.drain(nil)
		}
	}
	play(first, 3)
	play(second, 4)
	if got := len(write(t, first)); got != 3 || second.Written() != 0 || second.Dropped() != 4 {
		t.Errorf("%d requests of the first, %d written by the second, %d dropped",
			got, second.Written(), second.Dropped())
	}
	play(second, 5)
	if got := len(write(t, second)); got != 5 || second.Dropped() != 4 || len(lines(t, first.cfg.File+".1")) != 3 {
		t.Errorf("%d requests of the second, %d dropped", got, second.Dropped())
	}
}

// chain is a prompt that goes on from the one before.
func chain(blocks int) []uint64 {
	var out []uint64
	for i := range blocks {
		out = append(out, uint64(i+1)*0x9e3779b97f4a7c15)
	}
	return out
}
