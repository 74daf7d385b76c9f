package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/sim/text"
)

// FormatRecorded is the format of traffic recorded by warmpath serve (record.file): salted hashes, sizes, times and
// outcomes.
const FormatRecorded Format = "recorded"

// RecordingNumber is the supported version of the format, under the key warmpath_recording in a file's first line.
// Package internal/record writes it.
const RecordingNumber = 1

// Recording is recorded traffic: what the router observed of each request sent to an engine.
type Recording struct {
	Requests []Recorded       // in order of arrival
	Engines  []RecordedEngine // in order of first mention
	Trace    *Trace           // for replay
}

// Recorded is one request. Times are relative to the first arrival.
type Recorded struct {
	Endpoint string
	At       time.Duration // its arrival
	Sent     time.Duration // its last attempt was sent
	First    time.Duration // first data of the answer, if Data
	End      time.Duration
	Data     bool
	Stream   bool
	Whole    bool // it was answered completely
	Prompt   int  // tokens
	Cached   int  // of these, reported by the engine as cached, else predicted by the router
	Output   int  // tokens
	Known    bool // the engine reported prompt and output tokens
	Told     bool // the engine reported cached tokens
	Embed    bool // it computed a prompt and generated nothing
	Split    bool // its prompt was computed by another endpoint
}

// RecordedEngine is what probes reported about an endpoint's engine; 0 unknown.
type RecordedEngine struct {
	Endpoint    string
	CacheTokens int
	BlockTokens int
	Slots       int
}

// ReadRecording reads recordings of warmpath serve, one file or several concatenated. Errors give name:line and what
// was expected.
func ReadRecording(name string, r io.Reader) (*Recording, error) {
	t := &Trace{Name: name, Format: FormatRecorded}
	read := newRecorded(t)
	if err := readLines(name, r, func([]byte) (lineReader, error) { return read, nil }); err != nil {
		return nil, err
	}
	return read.out, nil
}

// recordedLine is a line of any kind: a header, an engine, or a request.
type recordedLine struct {
	Format     *int      `json:"warmpath_recording"`
	Began      time.Time `json:"began"`
	Salt       string    `json:"salt"`
	BlockBytes int       `json:"block_bytes"`

	Engine      string `json:"engine"`
	CacheTokens int    `json:"cache_tokens"`
	BlockTokens int    `json:"block_tokens"`
	Slots       int    `json:"slots"`

	Number       *uint64  `json:"n"`
	At           *float64 `json:"at_ms"`
	Sent         float64  `json:"sent_ms"`
	TTFT         *float64 `json:"ttft_ms"`
	Took         *float64 `json:"took_ms"`
	Class        string   `json:"class"`
	Stream       bool     `json:"stream"`
	Model        string   `json:"model"`
	Endpoint     string   `json:"endpoint"`
	Split        bool     `json:"split"`
	Outcome      string   `json:"outcome"`
	Tenant       string   `json:"tenant"`
	Conversation string   `json:"conversation"`
	Parent       string   `json:"parent"`
	PromptBytes  int      `json:"prompt_bytes"`
	Estimate     int      `json:"estimate"`
	PromptTokens int      `json:"tokens"`
	Predicted    int      `json:"predicted"`
	Cached       *int     `json:"cached"`
	Output       int      `json:"output"`
	Scope        string   `json:"scope"`
	Lead         int      `json:"lead"`
	Bytes        int      `json:"bytes"`
	Blocks       int      `json:"blocks"`
	From         uint64   `json:"from"`
	Shared       int      `json:"shared"`
	Hashes       []byte   `json:"hashes"`
}

// recorded reads the lines of recordings.
type recorded struct {
	t        *Trace
	out      *Recording
	file     recordedFile
	salts    map[string]int
	prompts  prompts
	requests []recordedRequest
	engines  map[string]int
	models   map[string]bool
	began    time.Time // of the first header
	left     int       // requests left out because they were not answered
	bare     int       // requests with unknown prompts
}

// recordedFile is one of several concatenated files.
type recordedFile struct {
	salt  int
	block int
	shift time.Duration   // from the first header to this one
	leaf  map[uint64]leaf // of each request so far
}

// leaf is the end of a prompt.
type leaf struct {
	node   int32
	blocks int
}

// recordedRequest is what is needed to find a request's conversation.
type recordedRequest struct {
	Recorded
	salt                 int
	conversation, parent string
	tenant               string
	node                 int32
	blocks               int
}

func newRecorded(t *Trace) *recorded {
	t.Closed, t.Timed = true, true
	r := &recorded{
		t: t, out: &Recording{Trace: t}, salts: map[string]int{}, engines: map[string]int{}, models: map[string]bool{},
	}
	r.prompts.init(&t.forest)
	t.Recording = r.out
	return r
}

func (r *recorded) line(text []byte) error {
	var l recordedLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("want a JSON object as warmpath serve records it: %w", jsonFault(err))
	}
	switch {
	case l.Format != nil:
		return r.header(&l)
	case r.file.leaf == nil:
		return errors.New(`no "warmpath_recording"; want the header line first`)
	case l.Engine != "":
		return r.engine(&l)
	default:
		return r.request(&l)
	}
}

func (r *recorded) header(l *recordedLine) error {
	switch {
	case *l.Format != RecordingNumber:
		return fmt.Errorf("warmpath_recording is %d, this version reads %d", *l.Format, RecordingNumber)
	case l.Began.IsZero() || l.Salt == "":
		return errors.New(`want "began" and "salt" in the header`)
	case l.BlockBytes < 1 || l.BlockBytes > 1<<16:
		return fmt.Errorf("block_bytes is %d, want 1..%d", l.BlockBytes, 1<<16)
	}
	if r.file.leaf == nil {
		r.began = l.Began
	}
	shift := l.Began.Sub(r.began)
	if !timeOK(float64(shift.Abs()) / float64(time.Millisecond)) {
		return fmt.Errorf("began is %s, want within 30 years of the first header's, %s",
			l.Began.Format(time.RFC3339), r.began.Format(time.RFC3339))
	}
	salt, known := r.salts[l.Salt]
	if !known {
		salt = len(r.salts)
		r.salts[l.Salt] = salt
	}
	r.file = recordedFile{salt: salt, block: l.BlockBytes, shift: shift, leaf: map[uint64]leaf{}}
	return nil
}

func (r *recorded) engine(l *recordedLine) error {
	if min(l.CacheTokens, l.BlockTokens, l.Slots) < 0 || l.CacheTokens > 1<<40 ||
		max(l.BlockTokens, l.Slots) > MaxTokens {
		return fmt.Errorf("cache_tokens, block_tokens and slots are %d, %d and %d, want what an engine may have",
			l.CacheTokens, l.BlockTokens, l.Slots)
	}
	at, known := r.engines[l.Engine]
	if !known {
		at = len(r.out.Engines)
		r.engines[l.Engine] = at
		r.out.Engines = append(r.out.Engines, RecordedEngine{})
	}
	r.out.Engines[at] = RecordedEngine{
		Endpoint: l.Engine, CacheTokens: l.CacheTokens, BlockTokens: l.BlockTokens, Slots: l.Slots,
	}
	return nil
}

const mostRecordedMs = 1e12 // 30 years

func timeOK(ms float64) bool { return ms >= 0 && ms < mostRecordedMs }

// check validates a request.
func (l *recordedLine) check() error {
	switch {
	case l.Number == nil || *l.Number == 0:
		return errors.New(`no "n"; want the number of the request`)
	case l.At == nil || !timeOK(max(*l.At, -*l.At)):
		return errors.New(`no "at_ms"; want milliseconds after "began"`)
	case l.Took == nil || !timeOK(*l.Took):
		return errors.New(`no "took_ms"; want 0 or more milliseconds`)
	case l.TTFT != nil && !(*l.TTFT >= 0 && *l.TTFT <= *l.Took):
		return fmt.Errorf("ttft_ms is %v, want 0..%v, the took_ms", *l.TTFT, *l.Took)
	case !(l.Sent >= 0 && l.Sent <= *l.Took):
		return fmt.Errorf("sent_ms is %v, want 0..%v, the took_ms", l.Sent, *l.Took)
	case l.Class != "turn" && l.Class != "embed":
		return fmt.Errorf("class is %q, want turn or embed", l.Class)
	case l.Outcome == "":
		return errors.New(`no "outcome"`)
	}
	for _, n := range []struct {
		name string
		is   int
	}{
		{"estimate", l.Estimate},
		{"tokens", l.PromptTokens},
		{"predicted", l.Predicted},
		{"output", l.Output},
		{"lead", l.Lead},
		{"bytes", l.Bytes},
		{"blocks", l.Blocks},
		{"shared", l.Shared},
	} {
		if n.is < 0 || n.is > 4*MaxTokens {
			return fmt.Errorf("%s is %d, want 0..%d", n.name, n.is, 4*MaxTokens)
		}
	}
	switch {
	case l.Cached != nil && (*l.Cached < 0 || *l.Cached > MaxTokens):
		return fmt.Errorf("cached is %d, want 0..%d", *l.Cached, MaxTokens)
	case max(l.PromptTokens, l.Estimate, l.Output) > MaxTokens:
		return fmt.Errorf("tokens or output are above %d", MaxTokens)
	case l.Shared > l.Blocks:
		return fmt.Errorf("shared is %d, want 0..%d, the blocks", l.Shared, l.Blocks)
	case l.Shared > 0 && (l.From == 0 || l.From >= *l.Number):
		return fmt.Errorf("from is %d, want an earlier request than %d", l.From, *l.Number)
	}
	return nil
}

func (r *recorded) request(l *recordedLine) error {
	if err := l.check(); err != nil {
		return err
	}
	if l.Blocks*r.file.block > l.Bytes {
		return fmt.Errorf("blocks is %d, want at most %d: the bytes in blocks of %d",
			l.Blocks, l.Bytes/r.file.block, r.file.block)
	}
	tokens := l.PromptTokens
	if tokens == 0 {
		tokens = l.Estimate
	}
	if tokens == 0 {
		tokens = min(l.PromptBytes/text.TokenBytes, MaxTokens)
	}
	tokens = max(tokens, 1)
	node, err := r.prompts.add(l, tokens, &r.file)
	if err != nil {
		return err
	}
	if _, twice := r.file.leaf[*l.Number]; twice {
		return fmt.Errorf("n is %d, as in an earlier line", *l.Number)
	}
	r.file.leaf[*l.Number] = leaf{node, l.Blocks}
	if l.Endpoint == "" || l.Outcome != "ok" && l.TTFT == nil {
		r.left++
		return nil
	}
	if l.Bytes == 0 && l.Class == "turn" {
		r.bare++
	}
	if l.Model != "" {
		r.models[l.Model] = true
	}
	at := r.file.shift + milliseconds(*l.At)
	q := recordedRequest{
		Recorded: Recorded{
			Endpoint: l.Endpoint, At: at, Sent: at + milliseconds(l.Sent), End: at + milliseconds(*l.Took),
			Stream: l.Stream, Whole: l.Outcome == "ok", Prompt: tokens, Cached: min(l.Predicted, tokens),
			Output: l.Output, Known: l.PromptTokens > 0 && (l.Output > 0 || l.Class == "embed"),
			Embed: l.Class == "embed", Split: l.Split,
		},
		salt: r.file.salt, conversation: l.Conversation, parent: l.Parent, tenant: l.Tenant, node: node,
		blocks: l.Blocks,
	}
	if l.TTFT != nil {
		q.Data, q.First = true, at+milliseconds(*l.TTFT)
	}
	if l.Cached != nil {
		q.Told, q.Cached = true, min(*l.Cached, tokens)
	}
	r.requests = append(r.requests, q)
	return nil
}
