package proxy

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// heldComment is a comment of an event stream (HTML standard, section 9.2.6), which clients skip and which keeps
// proxies between them and the router from giving up. The empty line ends it for those that split streams at empty
// lines.
const heldComment = ": held\n\n"

// comments are those to the client of an event stream while there is nothing of an answer: its request is held or
// queued, or the engine computes the prompt. They come from a goroutine of their own, which alone writes to the client
// until end. They outlive the call, which is used again.
type comments struct {
	call  *call
	every time.Duration

	mu    sync.Mutex
	due   *time.Timer
	over  bool
	bytes int64 // sent
}

// beginComments begins the comments to the client, where the configuration says so. Their interval begins when its
// body has come: until then the client is busy sending.
func (c *call) beginComments() {
	every := c.commentsEvery()
	if every <= 0 {
		return
	}
	k := &comments{call: c, every: every}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due = time.AfterFunc(every, k.speak)
	c.comments = k
}

func (k *comments) speak() {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.over:
	case k.call.comment():
		k.bytes += int64(len(heldComment))
		k.due.Reset(k.every)
	default:
		k.call.left()
	}
}

// end ends the comments, before anything else is written to the client. When it returns, none is being sent.
func (k *comments) end() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.due.Stop()
	k.over = true
	k.call.served.BytesOut += k.bytes
	k.bytes = 0
}

// goOn reports whether there are comments that have not ended.
func (k *comments) goOn() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.over
}

// awaitTurn waits for a request's turn, and says false if the wait is over before.
func awaitTurn(turn, over <-chan struct{}) bool {
	select {
	case <-turn:
		return true
	case <-over:
		return false
	}
}

// commentsEvery is the interval of comments to the client while its request waits; 0 for a client that gets none: its
// answer is no event stream, or a proxy carries it.
func (c *call) commentsEvery() time.Duration {
	if !c.Prompt.Stream || c.Transport != nil {
		return 0
	}
	switch c.API {
	case prompt.Chat, prompt.Completions, prompt.Responses, prompt.Messages, prompt.Generate:
		return c.bounds.Load().Comments
	default:
		return 0
	}
}

// open sends the header of an answer, an event stream or JSON, before it is known which endpoint will give it: it says
// nothing of any.
func (c *call) open() {
	if c.Opened.Swap(true) {
		return
	}
	h := c.client.Header()
	h["Content-Type"] = []string{c.media() + "; charset=utf-8"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = unbuffered
	c.p.origins.tell(readerOf(c.R, c.p.cfg.Origins), h)
	c.ticket.Tell(h)
	c.client.WriteHeader(http.StatusOK)
}

// comment sends a comment to the client. It returns false when the client is gone.
func (c *call) comment() bool {
	c.open()
	_, err := c.client.Send([]byte(heldComment), true)
	return err == nil
}

// passLead passes on what an engine or a gateway sends before its answer to keep the client waiting: comments (vLLM
// with --sse-keep-alive-interval, llama.cpp, OpenRouter), or white space. Another endpoint can still answer. Where the
// router sends comments of its own, those are enough. It returns false when the client left.
func (r *relay) passLead(piece []byte) (ok bool) {
	c := r.c
	r.alive()
	if c.comments.goOn() {
		return true
	}
	if !c.Opened.Load() {
		c.tellSession(r.d)
		c.open()
	}
	limit := r.watch.Pause()
	c.commenting.Store(true)
	took, err := c.client.Send(piece, true)
	c.commenting.Store(false)
	r.watch.Resume(limit, took)
	if err != nil {
		r.fin.Outcome = fleet.ClientGone
		return false
	}
	c.served.BytesOut += int64(len(piece))
	return true
}

// media is the media type of the answer that the client has asked for.
func (c *call) media() string {
	if c.Prompt.Stream {
		return eventStream
	}
	return "application/json"
}

// unfit reports whether an answer cannot continue an event stream or JSON that the client has got the header of. Before
// an answer that could not, the client gets no such header any more; if it has got one, comments go on.
func (c *call) unfit(res *http.Response) bool {
	h := send.Named(res.Header)
	e := h.Get("Content-Encoding")
	if res.StatusCode == http.StatusOK && send.Media(h.Get("Content-Type")) == c.media() &&
		(e == "" || e == "identity") {
		return false
	}
	if !c.Opened.Load() {
		c.comments.end()
	}
	return c.Opened.Load()
}

// retell concludes an attempt whose answer does not continue what the client has got the header of: an engine's error
// becomes an event, or the body. An error of status 200 may leave another endpoint to ask.
func (a *attempt) retell(res *http.Response) (next *route.Plan) {
	c := a.c
	said, _ := io.ReadAll(io.LimitReader(res.Body, send.RefusalBytes))
	status := res.StatusCode
	if a.fin.Outcome == fleet.OK {
		code, why, failed := answer.ErrorAnswer(said)
		if !failed {
			a.fin.Outcome = fleet.Abandoned // it did as it should, for a client that is told nothing before
			c.refuse(fault.At(fault.ErrNoStream, a.d.Endpoint.Name))
			return nil
		}
		a.fail(code, why)
		if a.fin.Outcome != fleet.ClientError {
			if next = a.another(); next != nil {
				return next
			}
		}
		status = max(code, http.StatusInternalServerError)
	}
	c.comments.end()
	c.served.Status = http.StatusOK
	c.sent.Store(true)
	c.fail(fault.Restated(c.shape(), status, said))
	return nil
}

// shape is the API in whose format the client gets errors.
func (c *call) shape() prompt.API { return fault.Shape(c.API, c.R.URL.Path) }

// fail sends the body of an error to a client that has got the header of an answer, and so the status of a good one.
// Libraries raise an error for one in a stream; a plain answer is cut behind it.
func (c *call) fail(body []byte) {
	if c.Prompt.Stream {
		c.tell(body)
		return
	}
	c.broken = c.write(body)
}

// tell sends the body of an error as an event.
func (c *call) tell(body []byte) { c.write(fault.Event(c.shape(), body)) }

// write sends bytes of the router's own within an answer. It returns false when the client is gone.
func (c *call) write(own []byte) bool {
	_, err := c.client.Send(own, true)
	if err == nil {
		c.served.BytesOut += int64(len(own))
	}
	return err == nil
}
