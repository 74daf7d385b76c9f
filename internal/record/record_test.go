package record

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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/instant/clockset"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/trace"
)

var (
	salt  = []byte("a secret of enough bytes")
	began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

func recorder(t *testing.T, change func(*Config)) *Recorder {
	t.Helper()
	c := Config{File: filepath.Join(t.TempDir(), "r.jsonl"), FileBytes: 1 << 20, Files: 2, Salt: salt, Version: "v1"}
	if change != nil {
		change(&c)
	}
	r, err := New(c, began, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// write lets the recorder write what it has, and end.
func write(t *testing.T, r *Recorder) []requestLine {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.Run(ctx)
	return lines(t, r.cfg.File)
}

// lines are the requests of a file, after a header.
func lines(t *testing.T, name string) []requestLine {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var head headerLine
	if err := json.Unmarshal(text[:bytes.IndexByte(text, '\n')], &head); err != nil ||
		head.Format != trace.RecordingNumber || head.BlockBytes != fleet.BlockBytes {
		t.Fatalf("the header is %+v, %v", head, err)
	}
	var out []requestLine
	for line := range bytes.Lines(text) {
		var l requestLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if l.Number > 0 {
			out = append(out, l)
		}
	}
	return out
}

func turn(id, session string, blocks ...uint64) *fleet.Request {
	return &fleet.Request{
		ID: id, Session: session, Model: "m", Stream: true, PromptBytes: 128 * len(blocks),
		Content: &fleet.Content{Scope: 7, Blocks: blocks, Bytes: 128*len(blocks) + 5},
	}
}

// sent is a request that was sent to an endpoint.
func sent(ms int, q *fleet.Request, lease fleet.Lease, endpoint string) *route.Entry {
	return &route.Entry{Now: at(ms), Request: q, Decision: &route.Decision{
		Lease: lease, Endpoint: fleet.Endpoint{Name: endpoint}, Pool: "m", Session: q.Session, PromptTokens: 100,
		CachedTokens: 30,
	}}
}

func ended(ms, first int, lease fleet.Lease, o fleet.Outcome, u fleet.Usage) *route.Entry {
	x := &route.Ended{Decision: route.Decision{Lease: lease}, Outcome: o, Usage: u}
	if first > 0 {
		x.FirstByte = at(first)
	}
	return &route.Entry{Now: at(ms), Event: route.Finished{Lease: lease}, Ended: x}
}

// TestLine: what a line says of a request, a further attempt included.
func TestLine(t *testing.T) {
	r := recorder(t, nil)
	q := turn("id", "talk", 1, 2, 3)
	r.entry(sent(10, q, 1, "a"))
	q.Tried, q.Instead = []string{"a"}, 1
	r.entry(sent(30, q, 2, "b"))
	r.entry(ended(31, 0, 1, fleet.ConnectFailed, fleet.Usage{}))
	r.entry(ended(130, 50, 2, fleet.OK, fleet.Usage{
		PromptTokens: 110, CachedTokens: 0, CachedKnown: true, OutputTokens: 9,
	}))
	r.entry(&route.Entry{Now: at(200), Request: turn("x", "other", 4), Err: errors.New("nobody")})
	got := write(t, r)
	if len(got) != 2 || r.Written() != 2 || r.Dropped() != 0 || len(r.open) != 0 || r.held.Load() != 0 {
		t.Fatalf("%d lines, %d written, %d dropped, %d open, %d held",
			len(got), r.Written(), r.Dropped(), len(r.open), r.held.Load())
	}
	l := got[0]
	if l.At != 10 || l.Sent != 20 || *l.TTFT != 40 || l.Took != 120 || l.Endpoint != "b" || l.Retries != 1 ||
		l.Outcome != "ok" || l.PromptTokens != 110 ||
		*l.CachedTokens != 0 || l.OutputTokens != 9 || l.Estimate != 100 || l.Predicted != 30 || l.Blocks != 3 ||
		len(l.Hashes) != 3*trace.RecordedHash || l.Bytes != 389 {
		t.Errorf("%+v", l)
	}
	if l := got[1]; l.Outcome != "refused" || l.TTFT != nil || l.Endpoint != "" {
		t.Errorf("%+v", l)
	}
}

// TestOneLineForEachRequest: whatever an attempt failed of, and whether or not its endpoint may be asked again, the
// next one is the same request; two clients who chose the same id are two.
func TestOneLineForEachRequest(t *testing.T) {
	for name, then := range map[string]func(q *fleet.Request){
		"elsewhere":         func(q *fleet.Request) { q.Tried = []string{"a"} },
		"the same endpoint": func(*fleet.Request) {}, // transfer_failed
		"as a whole":        func(q *fleet.Request) { q.Fails = true },
	} {
		r := recorder(t, nil)
		q, other := turn("id", "talk", 1), turn("id", "talk", 1)
		r.entry(sent(10, q, 1, "a"))
		r.entry(sent(11, other, 3, "a"))
		q.Instead = 1
		then(q)
		r.entry(sent(30, q, 2, "a"))
		r.entry(ended(31, 0, 1, fleet.TransferFailed, fleet.Usage{}))
		r.entry(ended(130, 50, 2, fleet.OK, fleet.Usage{}))
		q.Instead = 2
		r.entry(&route.Entry{Now: at(140), Request: q, Err: errors.New("nobody else")})
		r.entry(ended(150, 50, 3, fleet.EngineError, fleet.Usage{}))
		got := write(t, r)
		if len(got) != 2 || len(r.open) != 0 || r.held.Load() != 0 || got[0].At != 10 || got[0].Sent != 20 ||
			got[0].Outcome != "ok" || got[1].Outcome != "engine_error" {
			t.Errorf("%s: %+v, %d open, %d held", name, got, len(r.open), r.held.Load())
		}
	}
}

// TestNothingOfContent: no id, tenant, and hash of the router's own is in the file; with another salt everything is
// named otherwise.
func TestNothingOfContent(t *testing.T) {
	texts := make([]string, 2)
	for i := range texts {
		r := recorder(t, func(c *Config) { c.Salt = append([]byte{byte(i)}, salt...) })
		q := turn("request-id", "conversation-id", 0x1122334455667788, 0x99aabbccddeeff00)
		q.Tenant, q.Parent, q.User = "tenant-name", "parent-id", "user-id"
		r.entry(sent(0, q, 1, "a"))
		r.entry(ended(9, 5, 1, fleet.OK, fleet.Usage{}))
		write(t, r)
		text, err := os.ReadFile(r.cfg.File)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	for _, secret := range []string{
		"request-id", "conversation-id", "tenant-name", "parent-id", "user-id", string(salt), "1122334455667788",
		"1234605616436508552", "iHdmVUQz",
	} {
		if strings.Contains(texts[0], secret) {
			t.Errorf("%q is in the file: %s", secret, texts[0])
		}
	}
	var a, b requestLine
	for i, l := range []*requestLine{&a, &b} {
		if err := json.Unmarshal([]byte(strings.Split(texts[i], "\n")[1]), l); err != nil {
			t.Fatal(err)
		}
	}
	if a.Conversation == "" || a.Conversation == b.Conversation || bytes.Equal(a.Hashes, b.Hashes) ||
		a.Scope == b.Scope || a.Tenant == b.Tenant || a.Parent == b.Parent {
		t.Errorf("%+v and %+v", a, b)
	}
}

// TestSmall: a prompt of 500 kB takes some kilobytes, the turn after it some hundred bytes.
func TestSmall(t *testing.T) {
	r := recorder(t, nil)
	blocks := make([]uint64, 500_000/fleet.BlockBytes)
	for i := range blocks {
		blocks[i] = uint64(i) * 0x9e3779b97f4a7c15
	}
	for i := range 2 {
		r.entry(sent(i, turn("", "c", blocks[:len(blocks)-5+5*i]...), 1, "a"))
		r.entry(ended(i+1, i+1, 1, fleet.OK, fleet.Usage{}))
	}
	write(t, r)
	text, _ := os.ReadFile(r.cfg.File)
	parts := strings.Split(string(text), "\n")
	if len(parts[1]) > 8000 || len(parts[2]) > 500 {
		t.Errorf("%d and %d bytes", len(parts[1]), len(parts[2]))
	}
}

// TestRotation: files are bounded in size and number, each stands for itself, and one that was there is kept.
func TestRotation(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(name, []byte(`{"warmpath_recording":1,"block_bytes":128}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := recorder(t, func(c *Config) { c.File, c.FileBytes, c.Files = name, 4000, 2 })
	if got := lines(t, name+".1"); len(got) != 0 {
		t.Errorf("what was there: %+v", got)
	}
	report := fleet.Report{Healthy: true, Kind: fleet.KindVLLM, CacheTokens: 5000, BlockTokens: 16}
	for range 3 {
		r.entry(&route.Entry{Now: at(1), Event: route.Probed{Endpoint: "a", Report: report}})
	}
	for i := range 100 {
		r.entry(sent(i, turn("", "c", 1, 2, 3, uint64(4+i)), 1, "a"))
		r.entry(ended(i+1, i+1, 1, fleet.OK, fleet.Usage{}))
	}
	write(t, r)
	files, err := filepath.Glob(name + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		info, _ := os.Stat(f)
		if info.Size() > 5000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, %v", f, info.Size(), info.Mode())
		}
		in, err := os.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := trace.ReadRecording(f, in)
		_ = in.Close()
		if err != nil || len(got.Requests) == 0 || len(got.Engines) != 1 ||
			got.Engines[0] != (trace.RecordedEngine{Endpoint: "a", CacheTokens: 5000, BlockTokens: 16}) {
			t.Errorf("%s: %+v, %v", f, got, err)
			continue
		}
		if l := lines(t, f); l[0].Number != 1 || l[0].Shared != 0 || l[1].Shared != 3 ||
			l[1].From != 1 {
			t.Errorf("%s begins with %+v", f, l[:2])
		}
	}
}

// TestNeverWaits: with nobody writing, and with a disk that takes nothing, traffic goes on and what is lost is counted.
func TestNeverWaits(t *testing.T) {
	r := recorder(t, nil)
	for i := range queueLines + 50 {
		r.entry(sent(i, turn("", fmt.Sprint(i), 1), 1, "a"))
		r.entry(ended(i, i, 1, fleet.OK, fleet.Usage{}))
	}
	if r.Dropped() != 50 {
		t.Errorf("%d dropped, want 50", r.Dropped())
	}
	_ = r.out.file.Close() // a disk that fails; the folder is gone then too
	if err := os.RemoveAll(filepath.Dir(r.cfg.File)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	r.Run(ctx)
	if r.held.Load() != 0 || r.Dropped() != queueLines+50 || r.Written() != 0 {
		t.Errorf("%d held, %d dropped, %d written", r.held.Load(), r.Dropped(), r.Written())
	}
	big := make([]uint64, mostHeld/8)
	r.entry(sent(0, turn("", "a", big...), 1, "a"))
	was := r.Dropped()
	r.entry(sent(0, turn("", "b", 1), 2, "a"))
	if r.Dropped() != was+1 || len(r.open) != 1 {
		t.Errorf("%d dropped with no memory left, %d open", r.Dropped()-was, len(r.open))
	}
	r.entry(ended(1, 0, 2, fleet.OK, fleet.Usage{}))
	r.entry(&route.Entry{Now: at(2), Request: turn("", "c", 1), Err: errors.New("nobody")})
	if r.Dropped() != was+2 {
		t.Errorf("%d dropped with no memory left", r.Dropped()-was)
	}
}

// TestFaults: what cannot be used is refused at the start.
func TestFaults(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	good := Config{File: filepath.Join(t.TempDir(), "r"), FileBytes: 1, Salt: salt}
	for want, c := range map[string]Config{
		"no file":             {FileBytes: 1, Salt: salt},
		"the salt has 1 byte": {File: good.File, FileBytes: 1, Salt: []byte("x")},
		"must be above 0":     {File: good.File, Salt: salt},
		"no such file":        {File: filepath.Join(good.File, "r"), FileBytes: 1, Salt: salt},
	} {
		if _, err := New(c, began, log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestClockThatIsSet: when a request came is told by the time that has passed since the file began.
func TestClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		c := Config{File: filepath.Join(t.TempDir(), "r"), FileBytes: 1 << 20, Salt: salt}
		w, now := newWriter(&c, new(atomic.Uint64), new(atomic.Uint64)), time.Now()
		if err := w.begin(now); err != nil {
			t.Fatal(err)
		}
		at := clockset.By(by, now.Add(time.Minute))
		it := &item{at: at, sent: at, first: at, end: at, outcome: "ok"}
		if err := w.write(it); err != nil {
			t.Fatal(err)
		}
		if got := it.line.At; got < 60_000 || got > 60_000.001 {
			t.Errorf("set by %v: came after %v ms, want a minute", by, got)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkEntry is what a turn of 500 kB costs inside the fleet's lock.
func BenchmarkEntry(b *testing.B) {
	r, err := New(Config{File: filepath.Join(b.TempDir(), "r"), FileBytes: 1 << 30, Salt: salt}, began,
		slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		b.Fatal(err)
	}
	q := turn("", "c", make([]uint64, 4000)...)
	in, out := sent(0, q, 1, "a"), ended(1, 1, 1, fleet.OK, fleet.Usage{})
	b.ReportAllocs()
	for b.Loop() {
		r.entry(in)
		r.entry(out)
		r.free(<-r.queue)
	}
}

// BenchmarkWrite is a turn of a conversation of 500 kB that has grown by 2 kB.
func BenchmarkWrite(b *testing.B) {
	c := Config{File: filepath.Join(b.TempDir(), "r"), FileBytes: 1 << 40, Salt: salt}
	w := newWriter(&c, new(atomic.Uint64), new(atomic.Uint64))
	if err := w.begin(began); err != nil {
		b.Fatal(err)
	}
	blocks := make([]uint64, 4000)
	for i := range blocks {
		blocks[i] = uint64(i + 1)
	}
	n := uint64(0)
	for b.Loop() {
		n++
		for i := len(blocks) - 16; i < len(blocks); i++ {
			blocks[i] = n<<20 + uint64(i)
		}
		it := &item{
			blocks: blocks, content: true, session: "c", at: began, sent: began, first: began,
			end: began, outcome: "ok",
		}
		it.line.Bytes = 4000 * 128
		if err := w.write(it); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(w.size)/float64(n), "bytes/line")
}
