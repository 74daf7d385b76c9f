package accesslog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func request(id string) *live.Served {
	at := time.Unix(1000, 0).UTC()
	return &live.Served{
		ID: id, API: "chat", Method: "POST", Path: "/v1/chat/completions", Status: 200, Client: "192.0.2.1:5",
		Tenant: "acme", Key: "66ac0b6ef012", Agent: "curl/8", Trace: "4bf92f35", Attempts: 1, Stream: true,
		Started: at, FirstByte: at.Add(20 * time.Millisecond), Ended: at.Add(time.Second),
		Usage:    fleet.Usage{PromptTokens: 10, CachedTokens: 8, OutputTokens: 3, CachedKnown: true},
		Decision: route.Decision{Model: "m", Reason: "home", Endpoint: fleet.Endpoint{Name: "e"}},
	}
}

// TestLine: one request is one line, which says who, what, where, why and how long.
func TestLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	l, err := New(path, nil, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	long := request("r2")
	long.Path = strings.Repeat("/x", 10_000)
	refused := request("r3")
	refused.Status, refused.Error, refused.Limit, refused.Queued = 503, "queue_timeout", "tenants.each.wait",
		30*time.Millisecond
	for _, s := range []*live.Served{request("r1"), long, refused} {
		l.Listener().Served(s)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	l.Run(ctx)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	const want = `{"time":"1970-01-01T00:16:40Z","request":"r1","trace":"4bf92f35","client":"192.0.2.1:5","tenant":"acme","key":"66ac0b6ef012","user_agent":"curl/8","method":"POST","path":"/v1/chat/completions","api":"chat","status":200,"outcome":"ok",` +
		`"model":"m","endpoint":"e","reason":"home","attempts":1,"stream":true,"duration_ms":1000,"ttft_ms":20,"bytes_in":0,"bytes_out":0,"prompt_tokens":10,"cached_tokens":8,"output_tokens":3}`
	if len(lines) != 3 || lines[0] != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	var v struct{ Path string }
	if err := json.Unmarshal([]byte(lines[1]), &v); err != nil || len(v.Path) != mostText {
		t.Errorf("%v, a path of %d bytes", err, len(v.Path))
	}
	if s := lines[2]; !strings.Contains(s, `"error":"queue_timeout","limit":"tenants.each.wait"`) ||
		!strings.Contains(s, `"duration_ms":1000,"queued_ms":30`) {
		t.Errorf("a refused one: %s", s)
	}
	if l.Written() != 3 || l.Dropped() != 0 {
		t.Errorf("%d written, %d dropped", l.Written(), l.Dropped())
	}
}

// TestNobodyWaits: where nobody writes, requests go on, and the lines that are lost are counted.
func TestNobodyWaits(t *testing.T) {
	l, err := New(Stderr, nil, io.Discard, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for range mostLines + 7 {
		l.Listener().Served(request("r"))
	}
	if l.Dropped() != 7 {
		t.Errorf("%d dropped, want 7", l.Dropped())
	}
}

// errOut is standard error, which others write to as well: it keeps what it gets at once, and fails its first writes.
type errOut struct {
	fails int
	got   []string
}

func (e *errOut) Write(b []byte) (int, error) {
	if e.fails > 0 {
		e.fails--
		return 0, errors.New("no space left on device")
	}
	e.got = append(e.got, string(b))
	return len(b), nil
}

// TestWholeLinesToStderr: standard error gets whole lines only, however many come at once, so that the log's own lines
// come between them; and it is gone on with after it could not be written.
func TestWholeLinesToStderr(t *testing.T) {
	out := errOut{fails: 1}
	l, err := New(Stderr, nil, &out, quiet)
	if err != nil {
		t.Fatal(err)
	}
	const many = 1000
	for range many {
		l.Listener().Served(request("r"))
	}
	l.rest()
	for i, piece := range out.got {
		if !strings.HasPrefix(piece, "{") || !strings.HasSuffix(piece, "}\n") {
			t.Errorf("piece %d begins %.20q and ends %q", i, piece, piece[max(0, len(piece)-20):])
		}
	}
	lines := uint64(strings.Count(strings.Join(out.got, ""), "\n"))
	if lines == 0 || l.Written() != lines || l.Dropped() != many-lines || l.Trouble() != nil {
		t.Errorf("%d lines, %d written, %d dropped, %v", lines, l.Written(), l.Dropped(), l.Trouble())
	}
}

// TestRotation: a file that is renamed is begun anew under its name, and no line is lost.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.jsonl")
	l, err := New(path, nil, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	first := request("before")
	l.write(&line{Request: first.ID})
	if l.moved() {
		t.Error("it is taken for moved")
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if !l.moved() {
		t.Fatal("it has moved, and that is not noticed")
	}
	l.again()
	l.write(&line{Request: "after"})
	l.close()
	for name, want := range map[string]string{path + ".1": `"before"`, path: `"after"`} {
		if b, err := os.ReadFile(name); err != nil || strings.Count(string(b), "\n") != 1 ||
			!strings.Contains(string(b), want) {
			t.Errorf("%s: %v %s", name, err, b)
		}
	}
	if _, err := New(filepath.Join(path, "x"), nil, nil, quiet); err == nil {
		t.Error("a file below a file was opened")
	}
}

// TestFields: a line has the fields that were chosen, in their order, as the whole line has them.
func TestFields(t *testing.T) {
	for _, s := range []*live.Served{request("r1"), {ID: "r2", Status: 499}} {
		whole, err := (&Log{}).encode(lineOf(s))
		if err != nil {
			t.Fatal(err)
		}
		all, err := (&Log{fields: some(Fields())}).encode(lineOf(s))
		if err != nil || string(all) != string(whole) {
			t.Errorf("all fields by name\n%s, want\n%s (%v)", all, whole, err)
		}
		few, err := (&Log{fields: some([]string{"status", "tenant", "request"})}).encode(lineOf(s))
		want := map[string]string{
			"r1": `{"status":200,"tenant":"acme","request":"r1"}`, "r2": `{"status":499,"request":"r2"}`,
		}[s.ID]
		if err != nil || string(few) != want {
			t.Errorf("three fields: %s, want %s (%v)", few, want, err)
		}
	}
}
