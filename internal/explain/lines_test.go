package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// written reads the lines of a file.
func written(t *testing.T, path string) []Decision {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []Decision
	for line := range strings.Lines(string(b)) {
		var d Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, d)
	}
	return out
}

// follow runs Lines while tell tells, and ends it.
func follow(l *Lines, tell func()) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	tell()
	stop()
	wg.Wait()
}

func TestLinesGoOnAndRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	r := NewRing(Config{})
	next := 0
	tell := func(n int) func() {
		return func() {
			for range n {
				r.Listener().Entry(told(fmt.Sprint("r", next), nil))
				next++
			}
		}
	}
	const most = 10_000 // some eight lines
	for range 2 {       // the second time it goes on
		l, err := NewLines(r, path, most, nil, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if follow(l, tell(3)); l.Written() != 3 || l.Dropped() != 0 {
			t.Errorf("%d written, %d dropped", l.Written(), l.Dropped())
		}
	}
	if got := written(t, path); len(got) != 6 || got[0].Request != "r0" || got[5].Request != "r5" || got[5].Why == "" {
		t.Fatalf("got %+v", got)
	}
	l, err := NewLines(r, path, most, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	follow(l, tell(20))
	old, now := written(t, path+".1"), written(t, path)
	if len(old) == 0 || now[len(now)-1].Request != "r25" || old[len(old)-1].Number+1 != now[0].Number {
		t.Errorf("%d lines in the old file, %d in the new", len(old), len(now))
	}
	for _, p := range []string{path, path + ".1"} {
		if s, err := os.Stat(p); err != nil || s.Size() > most {
			t.Errorf("%s: %v, %v", p, s.Size(), err)
		}
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 2 {
		t.Errorf("%d files are kept, want 2", len(files))
	}
}

// TestTwoProcessesWithOneFile: one that has reached the bound goes on in the file that the other has begun, and sends
// none of it away.
func TestTwoProcessesWithOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.jsonl")
	const most = 5_000 // some four lines
	tell := func(n int) uint64 {
		r := NewRing(Config{})
		l, err := NewLines(r, path, most, nil, quiet())
		if err != nil {
			t.Fatal(err)
		}
		follow(l, func() {
			for i := range n {
				if i == 1 { // the other process begins a new file
					if err := os.Rename(path, path+".1"); err != nil {
						t.Error(err)
					}
					if err := os.WriteFile(path, nil, 0o600); err != nil {
						t.Error(err)
					}
				}
				r.Listener().Entry(told(fmt.Sprint("r", i), nil))
				for l.Written() < uint64(i)+1 {
					runtime.Gosched()
				}
			}
		})
		return l.Written()
	}
	if n := tell(6); n != 6 || len(written(t, path))+len(written(t, path+".1")) != 6 {
		t.Errorf("%d written, %d and %d in the files", n, len(written(t, path)), len(written(t, path+".1")))
	}
}

func TestLinesToStdout(t *testing.T) {
	r := NewRing(Config{})
	var out bytes.Buffer
	l, err := NewLines(r, Stdout, 1, &out, quiet())
	if err != nil {
		t.Fatal(err)
	}
	follow(l, func() { r.Listener().Entry(told("r", nil)) })
	var d Decision
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Request != "r" {
		t.Errorf("%s: %v", out.String(), err)
	}
}

// fullOnce fails its first write and takes the rest.
type fullOnce struct {
	bytes.Buffer
	failed bool
}

func (f *fullOnce) Write(b []byte) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(b)
}

// TestStdoutComesBack: where standard output could not be written once, as on a disk that was full, it is gone on with.
func TestStdoutComesBack(t *testing.T) {
	r := NewRing(Config{})
	var out fullOnce
	l, err := NewLines(r, Stdout, 1, &out, quiet())
	if err != nil {
		t.Fatal(err)
	}
	var d record
	for i := range 3 {
		r.Listener().Entry(told(fmt.Sprint("r", i), nil))
		l.drain(&d)
	}
	n := bytes.Count(out.Bytes(), []byte("\n"))
	if n != 2 || l.Written() != 2 || l.Dropped() != 1 || l.Trouble() != nil {
		t.Errorf("%d lines, %d written, %d dropped, %v", n, l.Written(), l.Dropped(), l.Trouble())
	}
}

// TestSlowDiskDropsAndCounts: while a write hangs, decisions go on; what the ring lets go of meanwhile is counted.
func TestSlowDiskDropsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRing(Config{Keep: 10})
		out, disk := io.Pipe()
		l, err := NewLines(r, Stdout, 1, disk, quiet())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go l.Run(ctx)
		r.Listener().Entry(told("first", nil))
		synctest.Wait() // it hangs in its first write
		for i := range 100 {
			r.Listener().Entry(told(fmt.Sprint("r", i), nil))
		}
		if got := l.Dropped(); got != 90 {
			t.Errorf("%d dropped while the disk hangs, want 90", got)
		}
		stop()
		done := make(chan int)
		go func() {
			b, _ := io.ReadAll(out)
			done <- bytes.Count(b, []byte("\n"))
		}()
		synctest.Wait()
		_ = disk.Close()
		if n := <-done; n != 11 || l.Written() != 11 || l.Dropped() != 90 {
			t.Errorf("%d lines, %d written, %d dropped; want 11, 11, 90", n, l.Written(), l.Dropped())
		}
	})
}

func TestFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewLines(NewRing(Config{}), filepath.Join(dir, "no", "d"), 1, nil, quiet()); err == nil ||
		!strings.Contains(err.Error(), "explain.file: open ") {
		t.Errorf("got %v", err)
	}
	// The folder goes away under it: lines are dropped and said to be; when it is back, they are written again.
	sub := filepath.Join(dir, "sub")
	path := filepath.Join(sub, "d")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	r := NewRing(Config{})
	var log bytes.Buffer
	l, err := NewLines(r, path, 1, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	follow(l, func() {
		for i := range 2 { // the second needs a new file
			r.Listener().Entry(told(fmt.Sprint("r", i), nil))
			if i == 0 {
				for l.Written() == 0 {
					runtime.Gosched()
				}
				_ = os.RemoveAll(sub)
			}
		}
	})
	if l.Written() != 1 || l.Dropped() != 1 || !strings.Contains(log.String(), "decisions cannot be written") {
		t.Errorf("%d written, %d dropped, log %s", l.Written(), l.Dropped(), log.String())
	}
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if follow(l, func() { r.Listener().Entry(told("r2", nil)) }); l.Written() != 2 {
		t.Errorf("%d written after the folder is back", l.Written())
	}
}
