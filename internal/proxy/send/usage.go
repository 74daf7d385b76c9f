package send

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/prompt/jsonscan"
	"github.com/warmpath/warmpath/route"
)

// Engines report the usage of a stream, cached tokens with it, only when asked (OpenAI API, "stream_options"). The router
// asks where the client did not, and takes the chunk that this adds out of the answer again (usageStrip).

const (
	askAgain     = 10 * time.Minute // for so long an endpoint that refused is not asked
	askNotes     = 1024             // endpoints remembered at most
	RefusalBytes = 16 << 10         // of an error's body are read to find out what was refused
)

// askBook remembers which endpoints can be asked for usage, where that is not known from their kind.
type askBook struct {
	mu    sync.Mutex
	notes map[string]askNote // by endpoint
}

type askNote struct {
	refused time.Time // when it last refused to be asked, zero never
	answers bool      // it answered a client that asked, in a chunk of its own

	refusedID    time.Time // when it last refused to be told a conversation, zero never
	refusedOldID bool      // it refused the older form too
}

func (b *askBook) of(endpoint string) askNote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.notes[endpoint]
}

// note changes what is remembered. With no room left the book begins anew: endpoints are asked, and refuse, once more.
func (b *askBook) note(endpoint string, change func(*askNote)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, known := b.notes[endpoint]
	if b.notes == nil || !known && len(b.notes) >= askNotes {
		b.notes = make(map[string]askNote)
	}
	change(&n)
	b.notes[endpoint] = n
}

// change is note for an endpoint that something is remembered of.
func (b *askBook) change(endpoint string, change func(*askNote)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, known := b.notes[endpoint]; known {
		change(&n)
		b.notes[endpoint] = n
	}
}

// ask adds to the edits of a request the one that asks for usage, if the engine is to be asked. It then sends no compressed
// answer either, which could not be read: every client takes one that is not compressed (RFC 9110, section 12.5.3).
func (a *Outgoing) ask(h http.Header, edits []prompt.Edit) []prompt.Edit {
	c := a.c
	a.asked = !a.refused && !a.s.cfg.NoUsage && !(a.carried() && c.Carrier.AnswerUnseen()) && c.mayAsk() && a.s.asks.allows(a.d, c.API, time.Now())
	if !a.asked {
		return edits
	}
	if len(h["Accept-Encoding"]) > 0 {
		h["Accept-Encoding"] = []string{"identity"}
	}
	return append(edits, c.Prompt.SetIncludeUsage())
}

// mayAsk reports whether the request is one whose usage can be asked for and taken out again: a stream whose client said
// nothing about stream_options, or said no. Other options are left as they are. An object without include_usage means yes
// to vLLM, whose default that is (StreamOptions, vLLM 0.32.0); with continuous_usage_stats usage would come in every chunk.
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
	at := p.SetIncludeUsage().At // the value that asking would replace
	switch string(c.Body.Bytes[at.Start:at.End]) {
	case "null", "false":
		return true
	}
	return false
}

// allows reports whether an engine can be asked without a trace in the rest of its answer. llama.cpp is not asked: it puts its
// timings, which say the same, into the chunk that asking adds instead of into the last of the others (server-task.cpp). Ollama is not
// asked in completions, where asking puts a usage of zeros into every chunk (middleware/openai.go). Engines of a kind
// that is not known are asked once they answered a client that asked.
func (b *askBook) allows(d *route.Decision, api prompt.API, now time.Time) bool {
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
	if !n.refused.IsZero() && now.Sub(n.refused) < askAgain {
		return false
	}
	return n.answers || d.Kind != fleet.KindOther && d.Kind != fleet.KindUnknown
}

// Watches reports whether it is to be learnt if this endpoint answers a client that asks for usage with the chunk that
// usageStrip takes out.
func (a *Outgoing) Watches() bool {
	return a.c.Prompt.IncludeUsage && (a.d.Kind == fleet.KindOther || a.d.Kind == fleet.KindUnknown) &&
		(a.c.API == prompt.Chat || a.c.API == prompt.Completions)
}

// sendAsking passes the request on and returns when the header of the answer has come. An engine that refuses stream_options,
// as old versions do, gets the request once more without: that refusal is not for the client, which did not ask.
func (a *Outgoing) sendAsking() (*http.Response, error) {
	p := a.s
	res, err := a.exchange(a.request())
	if err != nil || !a.asked || !refuses(res, "stream_options") {
		return res, err
	}
	if a.carried() { // it cannot be sent once more
		p.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.refused = time.Now() })
		return res, nil
	}
	res.Body.Close()
	a.Withdraw()
	a.refused = true
	if res, err = a.exchange(a.request()); err == nil && res.StatusCode < http.StatusBadRequest {
		name := a.d.Endpoint.Name
		p.asks.note(name, func(n *askNote) { n.refused = time.Now() })
		p.log.Info("engine refuses stream_options: it is not asked for usage for a while", "endpoint", name, "while", askAgain.String())
	}
	return res, err
}

// refuses reports whether an answer is an error that speaks of a field (400, and 422 where a FastAPI server checks the body by
// itself). What it reads of the body it puts back.
func refuses(res *http.Response, field string) bool {
	if res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusUnprocessableEntity {
		return false
	}
	head, err := io.ReadAll(io.LimitReader(res.Body, RefusalBytes))
	res.Body = &readBack{ReadCloser: res.Body, head: head, err: err}
	return bytes.Contains(head, []byte(field))
}

// readBack is a body whose beginning was read before.
type readBack struct {
	io.ReadCloser
	head []byte
	err  error // that reading its beginning ended with
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
