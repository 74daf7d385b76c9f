package send

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
	"github.com/warmpath/warmpath/route"
)

// Engines report the usage of a stream, and with it cached tokens, only on request (OpenAI API, "stream_options"). The
// router asks if the client did not, and removes the chunk that this adds from the answer (rewrite.UsageStrip).

const (
	askAgain     = 10 * time.Minute // how long an endpoint that rejected the request for usage is not asked
	askNotes     = 1024             // largest number of endpoints remembered
	RefusalBytes = 16 << 10         // bytes read of an error's body to find out what was rejected
)

// askMemory remembers which endpoints can be asked for usage, for kinds where this varies.
type askMemory struct {
	mu    sync.Mutex
	notes map[string]askNote // by endpoint
}

type askNote struct {
	usageRefused time.Time // when it last rejected being asked; zero for never
	answers      bool      // it answered a client that asked with a chunk of its own

	unsalted bool // it was logged that it takes no salt
	misnamed bool // it was logged that it lacks a model that it is declared with

	fromZero bool // its ranks are counted from 0, whatever its metrics call them

	refusedID    time.Time // when it last rejected a conversation id; zero for never
	refusedOldID bool      // it rejected the older form too
}

func (b *askMemory) of(endpoint string) askNote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notes[endpoint]
}

// note changes a note. If there is no room left all notes are dropped: endpoints are asked, and reject, once more.
func (b *askMemory) note(endpoint string, change func(*askNote)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, known := b.notes[endpoint]
	if b.notes == nil || !known && len(b.notes) >= askNotes {
		b.notes = make(map[string]askNote)
	}
	change(&n)
	b.notes[endpoint] = n
}

// change is note for endpoints that have a note already.
func (b *askMemory) change(endpoint string, change func(*askNote)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, known := b.notes[endpoint]; known {
		change(&n)
		b.notes[endpoint] = n
	}
}

// ask adds the edit that asks for usage, if the engine should be asked.
func (a *Outgoing) ask(edits []prompt.Edit) []prompt.Edit {
	c := a.c
	a.asksUsage = !a.usageRefused && !a.s.cfg.NoUsage && !(a.carried() && c.Transport.AnswerUnseen()) && c.mayAsk() &&
		a.s.asks.allows(a.d, c.API, time.Now())
	if !a.asksUsage {
		return edits
	}
	return append(edits, c.Prompt.SetIncludeUsage())
}

// mayAsk reports whether the router may ask for usage and remove it again: the request is a stream without
// stream_options or with include_usage off. Requests with other options are left alone. In vLLM an object without
// include_usage turns it on (StreamOptions, vLLM 0.32.0); with continuous_usage_stats every chunk would have usage.
func (c *Incoming) mayAsk() bool {
	p := &c.Prompt
	if !p.Stream || p.IncludeUsage || p.InsertAt == 0 || c.API != prompt.Chat && c.API != prompt.Completions {
		return false
	}
	options := p.StreamOptionsAt
	if options == (jsonscan.Span{}) {
		return true
	}
	if bytes.Contains(c.Body.Bytes[options.Start:options.End], []byte("continuous_usage_stats")) {
		return false
	}
	at := p.SetIncludeUsage().At // the value that the edit would replace
	switch string(c.Body.Bytes[at.Start:at.End]) {
	case "null", "false":
		return true
	}
	return false
}

// allows reports whether asking changes nothing else in the engine's answer. llama.cpp is not asked: its timings, which
// have the same figures, would move to the additional chunk (server-task.cpp). Ollama is not asked in completions,
// where every chunk would get a usage of zeros (middleware/openai.go). Engines of unknown kind are asked once they have
// answered a client that asked.
func (b *askMemory) allows(d *route.Decision, api prompt.API, now time.Time) bool {
	switch d.Kind {
	case fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindOther, fleet.KindUnknown:
	case fleet.KindOllama:
		if api != prompt.Chat {
			return false
		}
	default:
		return false
	}
	n := b.of(d.Endpoint.Name)
	if !n.usageRefused.IsZero() && now.Sub(n.usageRefused) < askAgain {
		return false
	}
	return n.answers || d.Kind != fleet.KindOther && d.Kind != fleet.KindUnknown
}

// Watches reports whether this answer should show if the endpoint adds a separate usage chunk when a client asks.
func (a *Outgoing) Watches() bool {
	return a.c.Prompt.IncludeUsage && (a.d.Kind == fleet.KindOther || a.d.Kind == fleet.KindUnknown) &&
		(a.c.API == prompt.Chat || a.c.API == prompt.Completions)
}

// sendAsking sends the request and returns when the header of the answer has arrived. An engine that rejects
// stream_options, as old versions do, gets the request again without: the client did not ask and must not see that
// error.
func (a *Outgoing) sendAsking() (*http.Response, error) {
	p := a.s
	res, err := a.exchange(a.request())
	if err != nil || !a.asksUsage || !refuses(res, "stream_options") {
		return res, err
	}
	if a.carried() { // it cannot be sent once more
		p.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.usageRefused = time.Now() })
		return res, nil
	}
	res.Body.Close()
	a.Withdraw()
	a.usageRefused = true
	if res, err = a.exchange(a.request()); err == nil && res.StatusCode < http.StatusBadRequest {
		name := a.d.Endpoint.Name
		p.asks.note(name, func(n *askNote) { n.usageRefused = time.Now() })
		p.log.Info("engine rejects stream_options: usage is not requested for a while",
			"endpoint", name, "while", askAgain.String())
	}
	return res, err
}

// refuses reports whether an answer is an error about a field: 400, or 422 from a FastAPI server that checks the body.
// The bytes read are put back.
func refuses(res *http.Response, field string) bool {
	if res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusUnprocessableEntity {
		return false
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, RefusalBytes))
	res.Body = &readBack{ReadCloser: res.Body, head: head, err: err}
	return bytes.Contains(head, []byte(field))
}

// Lack is what an answer says that the engine does not have; all are false for another answer.
type Lack struct {
	Path, Model bool
	Use         bool // what the path is for; the answer says why
	Other       bool // what else the request names, such as a response
}

// Lacks reads what an answer says that the engine does not have. The bytes read are put back.
func (a *Outgoing) Lacks(res *http.Response) Lack {
	if !engine.MayLack(res.StatusCode) || a.c.R.Method == http.MethodHead ||
		a.carried() && a.c.Transport.AnswerUnseen() {
		return Lack{}
	}
	var head []byte
	if len(res.Header["Content-Encoding"]) == 0 {
		var err error
		head, err = io.ReadAll(io.LimitReader(res.Body, engine.AbsentBytes))
		res.Body = &readBack{ReadCloser: res.Body, head: head, err: err}
	} else if res.StatusCode != http.StatusMethodNotAllowed { // not read here
		return Lack{}
	}
	absent := engine.Absent(res.StatusCode, head)
	return Lack{
		Path: absent == engine.AbsentPath, Use: absent == engine.AbsentUse,
		Model: absent == engine.AbsentModel, Other: absent == engine.AbsentOther,
	}
}

// readBack is a body whose beginning has been read.
type readBack struct {
	io.ReadCloser
	head []byte
	err  error // error at the end of the part read
}

func (r *readBack) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.ReadCloser.Read(p)
}
