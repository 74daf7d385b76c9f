// Package accesslog writes one line of JSON for each client request that has ended, for those who account, audit and
// search. It owns the file and a bounded queue in front of it. It promises that no request waits for the disk: what
// does not fit is dropped and counted. A file that somebody else renames is begun anew under its old name. No line
// holds text of prompts or answers, or a query.
package accesslog

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/wholelines"
)

// Stderr is the file name that stands for standard error.
const Stderr = "stderr"

const (
	mostLines   = 4096 // that wait to be written
	mostText    = 512  // bytes of what a client may choose: path, name of the model, user agent
	lookEvery   = time.Second
	bufferBytes = 64 << 10
)

// line is one request.
type line struct {
	Time       time.Time `json:"time"` // of its arrival
	Request    string    `json:"request"`
	Trace      string    `json:"trace,omitempty"`
	Client     string    `json:"client"`         // address, with the port unless a proxy has told it
	Peer       string    `json:"peer,omitempty"` // the trusted proxy that has
	Tenant     string    `json:"tenant,omitempty"`
	Key        string    `json:"key,omitempty"` // id of the API key
	Agent      string    `json:"user_agent,omitempty"`
	Method     string    `json:"method"`
	Path       string    `json:"path"`
	API        string    `json:"api"`
	Status     int       `json:"status"`
	Outcome    string    `json:"outcome"`
	Error      string    `json:"error,omitempty"`
	Limit      string    `json:"limit,omitempty"` // the setting that refused it
	Model      string    `json:"model,omitempty"`
	Endpoint   string    `json:"endpoint,omitempty"`
	Prefill    string    `json:"prefill,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Attempts   int       `json:"attempts"`
	Stream     bool      `json:"stream"`
	DurationMs float64   `json:"duration_ms"`
	QueuedMs   float64   `json:"queued_ms,omitempty"` // of it, in the router's queue
	TTFTMs     *float64  `json:"ttft_ms,omitempty"`
	BytesIn    int64     `json:"bytes_in"`
	BytesOut   int64     `json:"bytes_out"`
	Prompt     int       `json:"prompt_tokens,omitempty"`
	Cached     *int      `json:"cached_tokens,omitempty"`
	Output     int       `json:"output_tokens,omitempty"`
}

// Fields are the names that a line may have, in their order.
func Fields() (names []string) {
	for f := range reflect.TypeFor[line]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// some are the fields of a line with these names, by their index; nil for no names.
func some(names []string) (out []chosen) {
	known := Fields()
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			continue // the configuration has been checked
		}
		f := reflect.TypeFor[line]().Field(i)
		out = append(out, chosen{
			index: i, key: strconv.Quote(name) + ":", omits: strings.HasSuffix(f.Tag.Get("json"), ",omitempty"),
		})
	}
	return out
}

// chosen is a field that lines have.
type chosen struct {
	index int
	key   string // in JSON, with its colon
	omits bool   // where it is empty
}

// encode is the line with the fields that were chosen.
func (l *Log) encode(x *line) ([]byte, error) {
	if l.fields == nil {
		return json.Marshal(x)
	}
	out, v := []byte{'{'}, reflect.ValueOf(x).Elem()
	for _, f := range l.fields {
		of := v.Field(f.index)
		if f.omits && of.IsZero() {
			continue
		}
		b, err := json.Marshal(of.Interface())
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, f.key...), b...)
	}
	return append(out, '}'), nil
}

// Log listens to the door and writes. Run must be called.
type Log struct {
	path   string
	fields []chosen // nil for all
	log    *slog.Logger
	queue  chan line
	reopen chan struct{}

	out  *bufio.Writer
	end  *wholelines.Writer // of the file, or of standard error
	held uint64             // lines in out
	file *os.File           // nil for standard error, and while it cannot be opened

	trouble          wholelines.Trouble
	written, dropped atomic.Uint64
}

// New opens the file, to be gone on with. fields are those of a line; none for all. stderr is what Stderr stands for.
func New(path string, fields []string, stderr io.Writer, log *slog.Logger) (*Log, error) {
	l := &Log{
		path: path, fields: some(fields), log: log, queue: make(chan line, mostLines), reopen: make(chan struct{}, 1),
	}
	if path == Stderr {
		l.end = wholelines.To(stderr)
		l.out = bufio.NewWriterSize(l.end, bufferBytes)
		return l, nil
	}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("access_log.file: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	f, err := wholelines.Open(l.path, 0o640)
	if err != nil {
		return err
	}
	l.file, l.end = f, wholelines.On(f)
	l.out = bufio.NewWriterSize(l.end, bufferBytes)
	return nil
}

// Listener hears the requests.
func (l *Log) Listener() live.Listener { return live.Listener{Served: l.served} }

// Written is how many lines were written, Dropped how many were not since the file did not keep up or could not be
// written.
func (l *Log) Written() uint64 { return l.written.Load() }

// Dropped is the number of lines that were not written.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Trouble is why the file cannot be written now; nil where it can.
func (l *Log) Trouble() error { return l.trouble.Err() }

// Reopen has the file opened again under its name. It does not wait.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default:
	}
}

func clip(s string) string { return s[:min(len(s), mostText)] }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// lineOf is the line of a request.
func lineOf(s *live.Served) *line {
	d := &s.Decision
	x := &line{
		Time: s.Started, Request: s.ID, Trace: s.Trace, Client: s.Client, Peer: s.Peer, Tenant: s.Tenant, Key: s.Key,
		Agent: clip(s.Agent), Method: clip(s.Method), Path: clip(s.Path), API: s.API,
		Status: s.Status, Outcome: s.Outcome.String(), Error: s.Error, Limit: s.Limit, Model: clip(d.Model),
		Endpoint: d.Endpoint.Name, Prefill: s.Prefill.Endpoint.Name, Reason: string(d.Reason), Attempts: s.Attempts,
		Stream: s.Stream, DurationMs: ms(s.Ended.Sub(s.Started)), QueuedMs: ms(s.Queued), BytesIn: s.BytesIn,
		BytesOut: s.BytesOut, Prompt: s.Usage.PromptTokens, Output: s.Usage.OutputTokens,
	}
	if d, ok := s.FirstToken(); ok {
		t := ms(d)
		x.TTFTMs = &t
	}
	if s.Usage.CachedKnown {
		n := s.Usage.CachedTokens
		x.Cached = &n
	}
	return x
}

func (l *Log) served(s *live.Served) {
	select {
	case l.queue <- *lineOf(s):
	default:
		l.dropped.Add(1)
	}
}

// Run writes until ctx ends, and then what is left.
func (l *Log) Run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case x := <-l.queue:
			l.write(&x)
		case <-l.reopen:
			l.again()
		case <-look.C:
			if l.moved() {
				l.again()
			}
		case <-ctx.Done():
			l.rest()
			l.close()
			return
		}
	}
}

func (l *Log) rest() {
	for {
		select {
		case x := <-l.queue:
			l.write(&x)
		default:
			return
		}
	}
}

// write writes a line; the last one that waits brings all before it to the file.
func (l *Log) write(x *line) {
	b, err := l.encode(x)
	if err != nil || l.out == nil {
		l.dropped.Add(1)
		l.complain(err)
		return
	}
	if b = append(b, '\n'); len(b) > l.out.Available() {
		l.flush() // whole lines: others write to standard error too
	}
	l.held++
	if _, err = l.out.Write(b); err != nil {
		l.lost(err)
	} else if len(l.queue) == 0 {
		l.flush()
	}
}

// flush brings all lines to the file.
func (l *Log) flush() {
	if l.out == nil {
		return
	}
	if err := l.out.Flush(); err != nil {
		l.lost(err)
		return
	}
	if l.held > 0 {
		l.trouble.Wrote()
	}
	l.written.Add(l.held)
	l.held = 0
}

// lost gives up the lines that are not in the file yet. A writer that has failed once fails for ever, so that it begins
// anew.
func (l *Log) lost(err error) {
	l.dropped.Add(l.held)
	l.held = 0
	l.out.Reset(l.end)
	l.complain(err)
}

// moved reports whether another file, or none, has the name now.
func (l *Log) moved() bool {
	if l.path == Stderr {
		return false
	}
	if l.file == nil {
		return true
	}
	ours, err := l.file.Stat()
	if err != nil {
		return true
	}
	named, err := os.Stat(l.path)
	return err != nil || !os.SameFile(ours, named)
}

// again opens the file under its name; where that fails the one that is open is gone on with.
func (l *Log) again() {
	if l.path == Stderr {
		return
	}
	l.flush()
	file := l.file
	if err := l.open(); err != nil {
		l.complain(err)
		return
	}
	if file != nil {
		_ = file.Close()
	}
}

func (l *Log) close() {
	l.flush()
	if l.file != nil {
		_ = l.file.Close()
	}
}

// complain says that lines are lost.
func (l *Log) complain(err error) {
	if err != nil && l.trouble.Failed(err) {
		l.log.Warn("the access log cannot be written", "file", l.path, "error", err, "dropped", l.Dropped())
	}
}
