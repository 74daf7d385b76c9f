package lease

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
)

// lease is one request of a program, which exchanges it with the endpoint itself.
type lease struct {
	s        *Server
	id       string
	hashes   *hashes // in place of the prompt; nil for a body that has it
	held     int     // bytes of Config.Memory that hashes take
	excluded []string
	cancel   context.CancelCauseFunc
	out      *http.ResponseController // of the call that asks for an endpoint
	sum      external.Digest          // of the body as it came

	placed   chan *order    // where to send it
	came     chan reply     // the header of the answer, as the program tells it
	over     chan struct{}  // the door has returned
	body     *external.Feed // the answer, of which the door only sees that it has begun and ended
	endpoint string         // set before placed
	named    atomic.Bool    // it is: the call that asked is over

	mu       sync.Mutex
	ends     *time.Timer // when it expires
	begun    bool        // the first byte was told
	finished bool        // the end was, or it has expired
	usage    fleet.Usage
	told     bool // usage was

	header http.Header // what the door answers with, where no endpoint was named
	status int
	answer []byte
}

// order is how a request is sent.
type order struct {
	Lease    string            `json:"lease"`
	Endpoint string            `json:"endpoint"`
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Set      map[string]string `json:"set_headers"`    // in the request as the program has it
	Remove   []string          `json:"remove_headers"` // from it
	// Body is to be sent in place of the body; null where that is sent as it is. It has no prompt where hashes were
	// given.
	Body    json.RawMessage `json:"body"`
	Expires float64         `json:"expires_in"` // seconds from what is said last of the lease
	Why     string          `json:"reason,omitempty"`
	Session string          `json:"session,omitempty"`
}

// reply is the header of an endpoint's answer.
type reply struct {
	status int
	after  string // Retry-After
	err    error  // there was none
}

// report is what a program says of its request.
type report struct {
	// Status is that of the answer; 0 for 200.
	Status int `json:"status"`
	// RetryAfter is the header of an answer 429 or 503, in seconds.
	RetryAfter float64 `json:"retry_after"`
	// Failed says that there was no answer, or not all of it: unreachable, broken or cancelled; "" for a whole answer.
	Failed string `json:"failed"`
	// Usage is as in the answer, in OpenAI's form.
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Cached *int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

const mostTokens = 1 << 31

func (p *report) check() error {
	switch {
	case p.Status != 0 && (p.Status < 200 || p.Status > 599):
		return errors.New("status is " + strconv.Itoa(p.Status) + ", must be that of an answer, 200 to 599")
	case p.RetryAfter < 0 || p.RetryAfter > 86400:
		return errors.New("retry_after must be 0 to 86400 seconds")
	}
	switch p.Failed {
	case "", "unreachable", "broken", "cancelled":
	default:
		return errors.New("failed must be unreachable, broken or cancelled")
	}
	if u := p.Usage; u != nil {
		cached := 0
		if u.Details != nil && u.Details.Cached != nil {
			cached = *u.Details.Cached
		}
		if u.Prompt < 0 || u.Completion < 0 || cached < 0 || u.Prompt > mostTokens || u.Completion > mostTokens ||
			cached > u.Prompt {
			return errors.New("usage has tokens below 0, above 2^31, or more cached than the prompt has")
		}
	}
	return nil
}

// Carry names the endpoint to the program, and waits for it to say how the answer has begun.
func (x *lease) Carry(r *http.Request, to fleet.Endpoint) (*http.Response, error) {
	o, err := x.order(r, to)
	if err != nil {
		return nil, err
	}
	x.endpoint = to.Name
	x.named.Store(true)
	x.mu.Lock()
	x.ends = time.AfterFunc(x.s.cfg.Expires, x.expire)
	x.mu.Unlock()
	x.placed <- o
	select {
	case a := <-x.came:
		if a.err != nil {
			return nil, a.err
		}
		h := http.Header{"Content-Type": {"application/json"}}
		if a.after != "" {
			h["Retry-After"] = []string{a.after}
		}
		return x.body.Answer(r, a.status, h), nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// order is how the request that the door made is sent.
func (x *lease) order(r *http.Request, to fleet.Endpoint) (*order, error) {
	o := &order{
		Lease: x.id, Endpoint: to.Name, Method: r.Method, URL: r.URL.String(), Set: map[string]string{},
		Remove: []string{}, Expires: x.s.cfg.Expires.Seconds(),
	}
	for name, values := range r.Header {
		if len(values) > 0 && !connects(name) {
			o.Set[name] = values[len(values)-1]
		}
	}
	if x.hashes == nil {
		for _, name := range [...]string{"Authorization", "X-Api-Key"} { // the router's own
			if r.Header.Get(name) == "" {
				o.Remove = append(o.Remove, name)
			}
		}
	}
	if r.Body == nil {
		return o, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !x.sum.Of(body) {
		o.Body = body
		if !json.Valid(body) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the changed body is not JSON")}
		}
	}
	return o, nil
}

// connects reports whether a header is the affair of whoever connects. The door has left out those of a single hop.
func connects(name string) bool {
	switch name {
	case "Content-Length", "Accept-Encoding", "Host":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded"
}

// Excluded are the endpoints that the program does not want.
func (x *lease) Excluded() []string { return x.excluded }

// AnswerUnseen is true: what engines are asked beside the request is for the program.
func (x *lease) AnswerUnseen() bool { return true }

// Elsewhere is false: the program is told one endpoint.
func (x *lease) Elsewhere() bool { return false }

// Prompt is the prompt's hashes, where the program gave those.
func (x *lease) Prompt() (*fleet.Content, int) {
	if x.hashes == nil {
		return nil, 0
	}
	return &x.hashes.content, x.hashes.Tokens
}

// Usage is what the program says.
func (x *lease) Usage() (fleet.Usage, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.usage, x.told
}

// Timed is true: a lease expires.
func (x *lease) Timed() bool { return true }

// instead is the body that the door reads where there are hashes. Where the memory of requests has no room for their
// blocks, reading it fails, and the door refuses the request as any that it has no room for.
func (x *lease) instead() (io.ReadCloser, int64) {
	x.hashes.Hashes = nil // its blocks say all that is needed
	b, size := x.hashes.body()
	n := 8 * len(x.hashes.content.Blocks)
	if !x.s.cfg.Memory.Take(n) {
		return noRoom{}, size
	}
	x.held = n
	return b, size
}

// noRoom is a body for which there is none.
type noRoom struct{}

func (noRoom) Read([]byte) (int, error) { return 0, body.ErrNoRoom }

func (noRoom) Close() error { return nil }

var errBegun = errors.New("the first byte of this lease was told already")

// firstByte notes that the answer has begun.
func (x *lease) firstByte(*report) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.finished:
		return errUnknown
	case x.begun:
		return errBegun
	}
	x.ends.Reset(x.s.cfg.Expires)
	x.begin(reply{status: http.StatusOK})
	return nil
}

func (x *lease) begin(a reply) {
	x.begun = true
	x.came <- a
	if a.err == nil {
		_, _ = x.body.Write([]byte("{"))
	}
}

// finish notes how the answer has ended, and waits until the door has concluded.
func (x *lease) finish(p *report) error {
	x.mu.Lock()
	if x.finished {
		x.mu.Unlock()
		return errUnknown
	}
	x.finished = true
	if u := p.Usage; u != nil {
		x.usage, x.told = fleet.Usage{PromptTokens: u.Prompt, OutputTokens: u.Completion}, true
		if u.Details != nil && u.Details.Cached != nil {
			x.usage.CachedTokens, x.usage.CachedKnown = *u.Details.Cached, true
		}
	}
	x.conclude(p)
	x.mu.Unlock()
	<-x.over
	return nil
}

// conclude is called while locked.
func (x *lease) conclude(p *report) {
	switch {
	case p.Failed == "cancelled":
		x.cancel(nil)
		return
	case p.Failed == "unreachable" && !x.begun:
		x.begin(reply{err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the program could not connect")}})
		return
	case p.Failed != "" && !x.begun:
		x.begin(reply{err: io.ErrUnexpectedEOF})
		return
	case p.Failed != "":
		x.body.End(io.ErrUnexpectedEOF)
		return
	case !x.begun:
		a := reply{status: max(p.Status, http.StatusOK)}
		if p.RetryAfter > 0 {
			a.after = strconv.FormatFloat(p.RetryAfter, 'f', 0, 64)
		}
		x.begin(a)
	}
	_, _ = x.body.Write([]byte("}"))
	x.body.End(io.EOF)
}

// writer takes what the door answers: an error of its own, where it named no endpoint.
type writer struct{ x *lease }

func (w *writer) Header() http.Header { return w.x.header }

func (w *writer) WriteHeader(status int) {
	if w.x.status == 0 && status >= http.StatusOK {
		w.x.status = status
	}
}

// Write keeps an answer of the door's, and drops what stands for an endpoint's.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.x.named.Load() {
		w.x.answer = append(w.x.answer, p...)
	}
	return len(p), nil
}

// FlushError does nothing: nobody waits for pieces.
func (w *writer) FlushError() error { return nil }

// SetReadDeadline bounds the wait for the request's body.
func (w *writer) SetReadDeadline(t time.Time) error {
	if w.x.named.Load() {
		return nil
	}
	return w.x.out.SetReadDeadline(t)
}

// SetWriteDeadline does nothing: writing never waits.
func (w *writer) SetWriteDeadline(time.Time) error { return nil }
