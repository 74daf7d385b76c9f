package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/rewrite"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
	"golang.org/x/net/http/httpguts"
)

const (
	relayBytes = 32 << 10 // a piece at most
	eventBytes = 4 << 10  // a piece at most while they are small, as the events of a stream are
)

// relayMemory is the memory of a relay, recycled for the next one. An open stream keeps it, without a buffer where it
// can wait for its engine without one.
type relayMemory struct {
	relay   relay
	scanner answer.Scanner
	tail    rewrite.Tail
	counts  answer.Counts
	small   *[eventBytes]byte // nil while it waits or pieces are large
	large   *[relayBytes]byte // nil while pieces are small
}

var (
	relayMemories = sync.Pool{New: func() any { return new(relayMemory) }}
	eventBuffers  = sync.Pool{New: func() any { return new([eventBytes]byte) }}
	relayBuffers  = sync.Pool{New: func() any { return new([relayBytes]byte) }}
)

// room is the memory for the next piece, which may be large.
func (m *relayMemory) room(large bool) []byte {
	if large {
		if m.large == nil {
			m.give()
			m.large = relayBuffers.Get().(*[relayBytes]byte)
		}
		return m.large[:]
	}
	if m.small == nil {
		m.give()
		m.small = eventBuffers.Get().(*[eventBytes]byte)
	}
	return m.small[:]
}

// give gives the buffers back.
func (m *relayMemory) give() {
	if m.large != nil {
		relayBuffers.Put(m.large)
	}
	if m.small != nil {
		eventBuffers.Put(m.small)
	}
	m.large, m.small = nil, nil
}

// free gives everything back.
func (m *relayMemory) free() {
	m.give()
	m.relay = relay{}
	relayMemories.Put(m)
}

// relay passes an answer on, piece by piece. It holds the header back until the first piece: engines send theirs long
// before they compute (vLLM at once), and until then another endpoint can still answer.
type relay struct {
	*attempt
	res     *http.Response
	events  bool // server-sent events
	lines   bool // JSON lines
	pieces  bool // flush each piece: events, JSON lines, or a length not known in advance
	json    bool // a JSON object, by its media type
	opaque  bool // compressed, so unreadable
	leads   bool // nothing but what keeps clients waiting has come: see lead
	waits   bool // leads, and another endpoint may still answer
	scanner *answer.Scanner
	tail    *rewrite.Tail
	counts  *answer.Counts
	ending  [3]byte // the last bytes passed on
	held    []byte  // see holds
	keeps   []byte  // the answer so far, see learnKept
	cached  *rewrite.Cached

	strip    rewrite.UsageStrip
	answered bool // the fleet has been told that the answer began
	named    bool // the fleet has been told which endpoint holds the response
	strips   bool // the usage chunk that the router asked for is removed
	watching bool // only learn whether the engine sends such a chunk
}

func (a *attempt) relay(res *http.Response) (next *route.Plan) {
	mem := relayMemories.Get().(*relayMemory)
	defer mem.free()
	mem.scanner.Reset(a.c.API.String())
	mem.tail.Reset()
	mem.counts.Reset(a.c.API.String())
	r := &mem.relay
	*r = relay{attempt: a, res: res, scanner: &mem.scanner, tail: &mem.tail, counts: &mem.counts}
	r.readHeader()
	waits, _ := res.Body.(interface{ Wait() })
	for large := !r.pieces; ; {
		if waits != nil && !large {
			mem.give()
			waits.Wait()
		}
		buf := mem.room(large)
		n, err := r.read(buf)
		if n > 0 && (err == nil || errors.Is(err, io.EOF) || r.pieces) {
			if next, ok := r.pass(buf[:n]); !ok {
				return next
			}
		}
		large = !r.pieces || n >= eventBytes
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			return r.finish()
		}
		return r.broken(err)
	}
}

// readHeader reads from the header of the answer how it is passed on.
func (r *relay) readHeader() {
	res := r.res
	header := send.Named(res.Header)
	media := send.Media(header.Get("Content-Type"))
	r.events = media == eventStream
	r.lines, r.json = !r.events && streams(media), media == "application/json"
	r.pieces = r.events || r.lines || res.ContentLength < 0
	if e := header.Get("Content-Encoding"); e != "" && e != "identity" {
		r.opaque, r.events, r.lines = true, false, false
	}
	r.leads = r.events || r.json && r.pieces && !r.opaque
	r.waits = r.leads && r.events == r.c.Prompt.Stream && r.c.API != prompt.Other &&
		res.StatusCode == http.StatusOK && r.mayRetry()
	r.scanner.Items = r.c.Keeps && r.c.API == prompt.Responses
	r.scanner.Learns = answer.EndOf(r.d.Kind, r.c.API.String()) == answer.EndLearnt
	if r.events && r.fin.Outcome == fleet.OK {
		r.strips, r.watching = r.AsksUsage(), r.Watches()
	}
	if !r.opaque && r.fin.Outcome == fleet.OK {
		r.cached = r.c.split.rewrites(r.attempt)
	}
}

const eventStream = "text/event-stream"

// streams reports whether an answer of a media type comes in pieces that clients wait for: events, or lines of JSON.
func streams(media string) bool {
	switch media {
	case eventStream, "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines":
		return true
	}
	return false
}

// read returns the next piece. A short answer of known length is read completely before the client sees any of it, so
// that another endpoint can answer if it breaks off.
func (r *relay) read(buf []byte) (int, error) {
	if n := r.res.ContentLength; !r.pieces && n > 0 && n <= relayBytes && r.c.R.Method != http.MethodHead &&
		!r.c.sent.Load() {
		return io.ReadFull(wholeAnswer{r}, buf[:n])
	}
	return r.res.Body.Read(buf)
}

// wholeAnswer is an answer that is read whole. What is limited from its first bytes on is the silence.
type wholeAnswer struct{ *relay }

// Read implements io.Reader.
func (b wholeAnswer) Read(p []byte) (int, error) {
	n, err := b.res.Body.Read(p)
	if n > 0 {
		b.watch.Wait(b.c.within(b.longestSilence()))
		b.watch.FirstData()
	}
	return n, err
}

// pass passes one piece on. ok is false when the relay is over.
func (r *relay) pass(piece []byte) (next *route.Plan, ok bool) {
	r.look(r.lead(piece))
	if r.waits = r.waits && r.leads; r.waits {
		return nil, r.passLead(piece)
	}
	if r.holds(piece) {
		return nil, true
	}
	if !r.pieces && !r.opaque && r.mustAnswer() && r.empty() && answer.Nothing(piece) {
		return r.broken(fault.ErrTruncated), false
	}
	if code, said, ok := r.complaint(piece); ok {
		r.fail(code, said)
		blamed := r.blamed()
		if r.fin.Outcome != fleet.ClientError {
			if next = r.another(); next != nil {
				return next, false
			}
		}
		switch {
		case r.c.broke.lethal:
			r.c.refuse(fault.At(fault.ErrLethal, r.d.Endpoint.Name))
			return nil, false
		case blamed != nil:
			r.c.refuse(blamed)
			return nil, false
		case r.d.Leg == fleet.LegDecode:
			r.c.refuse(fault.Answered(r.d.Leg, max(code, http.StatusInternalServerError), said, 0))
			return nil, false
		}
	}
	if len(r.held) > 0 {
		piece = append(r.held, piece...)
		r.held = nil
	}
	r.announce()
	r.learnKept(piece)
	r.alive()
	if r.cached != nil {
		if piece = r.cached.Pass(piece); len(piece) == 0 {
			return nil, true
		}
	}
	switch {
	case r.strips:
		if piece = r.strip.Pass(piece); len(piece) == 0 {
			return nil, true
		}
	case r.watching:
		r.strip.Pass(piece)
	}
	return nil, r.write(piece)
}

// lead notes whether a piece only keeps the client waiting: comments of an event stream, or white space before the
// value of JSON (oMLX, every 10 s while it computes). It returns what of the piece may be the answer's.
func (r *relay) lead(piece []byte) (rest []byte) {
	switch {
	case !r.leads:
	case r.events:
		r.leads = answer.OnlyComments(piece)
	default:
		piece = bytes.TrimLeft(piece, " \t\r\n")
		r.leads = len(piece) == 0
	}
	return piece
}

// announce tells the fleet which endpoint holds a response before the client can refer to it: a running response can be
// cancelled.
func (r *relay) announce() {
	if r.c.API != prompt.Responses || r.named || r.fin.Outcome != fleet.OK {
		return
	}
	if r.fin.Response == "" {
		r.fin.Response = r.scanner.ResponseID()
	}
	if r.named = r.fin.Response != ""; r.named {
		r.c.p.fleet.Observe(route.ResponseStarted{Lease: r.d.Lease, Response: r.fin.Response})
	}
}

// mostKeptAnswer bounds an answer that is searched for ids.
const mostKeptAnswer = 64 << 10

// learnKept tells the fleet, before the client can refer to it, which endpoint holds for the tenant what an answer
// names: items of a response and, in a plain one, a conversation, file or job, what a job has written, or a session of
// SGLang, whose whole answer is its id.
func (r *relay) learnKept(piece []byte) {
	for _, id := range r.scanner.TakeItems() {
		r.c.p.fleet.Observe(route.ResponseStarted{Lease: r.d.Lease, Response: id})
	}
	if !r.c.Keeps || r.opaque || r.events || r.fin.Outcome != fleet.OK || len(r.keeps)+len(piece) > mostKeptAnswer {
		return
	}
	r.keeps = append(r.keeps, piece...)
	for _, id := range answer.KeptIDs(r.keeps) {
		r.c.p.fleet.Observe(route.ResponseStarted{Lease: r.d.Lease, Response: id})
	}
}

// complaint is the error of an engine that answered 200 and failed before its first token, in its stream, as the body,
// or in the form of an answer. The client has seen nothing of it.
func (r *relay) complaint(piece []byte) (code int, said string, ok bool) {
	api := r.c.API.String()
	switch {
	case r.c.sent.Load(), r.opaque:
		return 0, "", false
	case r.events && r.scanner.Failed() &&
		(!r.scanner.Data() || r.d.Leg == fleet.LegDecode && answer.NoAnswer(r.held, piece)):
		return r.scanner.ErrorCode(), r.scanner.ErrorText(), true
	case r.fin.Outcome != fleet.OK:
		return 0, "", false
	case r.events && r.scanner.Done() && r.blank():
		return 0, fault.ErrTruncated.Error(), true
	case !r.events && r.c.Known():
		if code, said, ok = answer.ErrorAnswer(piece); ok {
			return code, said, true
		}
	}
	return answer.Refusal(api, piece)
}

// mostAnnounced bounds the announcements of a response that are held: each repeats the request's instructions and
// tools.
const mostAnnounced = 512 << 10

// holds keeps back what engines say before they compute, so that another endpoint can still answer: until a sign of
// work or for the client comes.
func (r *relay) holds(piece []byte) bool {
	if !r.events || r.c.sent.Load() || r.fin.Outcome != fleet.OK {
		return false
	}
	switch all := len(r.held) + len(piece); {
	case r.c.API == prompt.Responses && r.c.Transport == nil: // response.created and response.in_progress, at once
		if all > mostAnnounced || !r.scanner.Announced() || r.c.detached {
			return false
		}
	case r.c.API == prompt.Chat && r.d.Leg == fleet.LegDecode: // the role, before the KV cache is there (vLLM)
		if all > relayBytes || r.scanner.Failed() || r.scanner.Done() || !answer.NoAnswer(r.held, piece) {
			return false
		}
	default:
		return false
	}
	r.held = append(r.held, piece...)
	r.watch.Alive()
	return true
}

// write sends bytes of the answer to the client, after the header if that was not sent yet. It returns false when the
// client left or does not read. The engine's time limits are paused meanwhile.
func (r *relay) write(piece []byte) (ok bool) {
	c := r.c
	if !c.sent.Load() {
		r.commit()
	}
	r.releaseBody()
	arrived, limit := r.watch.Moved(), r.watch.Pause()
	took, err := c.client.Send(piece, r.pieces)
	r.watch.Resume(limit, took)
	if err != nil {
		r.fin.Outcome = fleet.ClientGone
		r.count()
		return false
	}
	c.served.BytesOut += int64(len(piece))
	c.served.Chunks++
	c.served.LastByte = arrived
	if c.served.FirstByte.IsZero() && r.hasFirstToken() {
		c.served.FirstByte = c.served.LastByte
	}
	r.remember(piece)
	return true
}

// count reads what the answer has used so far, as the engine says it, else as it is estimated.
func (r *relay) count() {
	if r.fin.Usage.OutputTokens == 0 && r.pieces {
		r.fin.Usage, _ = r.scanner.Close()
	}
	r.c.passed = int64(r.c.served.Chunks)
	switch {
	case r.events || r.pieces && r.res.ContentLength < 0 && r.scanner.Tokens() > 1:
		r.c.passed = max(r.c.passed, int64(r.scanner.Tokens()))
	default:
		r.c.passed = max(r.c.passed, r.c.served.BytesOut/bytesPerToken)
	}
}

// alive notes a sign of life. The limit on the first data continues until there is some: announcements and pings are no
// answer. From there on silence is limited, which pings do not end either: a server sends them by the clock, whether or
// not its engine still computes. Before the first token, as after a chunk with only the role, the longer of both limits
// holds.
func (r *relay) alive() {
	streams := r.events || r.lines || r.leads
	news := r.scanner.TakeNews()
	switch {
	case r.fin.Outcome == fleet.OK && streams && (!news || !r.scanner.Opened()):
		r.watch.Alive()
		return
	case r.fin.Outcome == fleet.OK && streams && !r.scanner.Data():
		r.watch.Extend(r.c.within(r.c.bounds.Load().Idle))
	default:
		r.watch.Wait(r.c.within(r.longestSilence()))
	}
	r.watch.FirstData()
	r.answers()
}

// afterEnd is how long a stream whose end mark has come may stay open.
const afterEnd = 5 * time.Second

// longestSilence is the longest silence from here on. Some servers, and proxies before them, keep a stream open when it
// is over: it ends for the client and in the books all the same. llama.cpp's own API has a mark for each of several
// prompts.
func (r *relay) longestSilence() time.Duration {
	idle := r.silence()
	if (r.events || r.lines) && r.fin.Outcome == fleet.OK && r.scanner.Done() && !r.scanner.Native() {
		return min(idle, afterEnd)
	}
	return idle
}

// answers tells the fleet that the engine has begun its answer, whether or not the client reads it.
func (r *relay) answers() {
	if r.answered || !r.hasFirstToken() || r.c.Transport != nil && r.c.Transport.Elsewhere() {
		return
	}
	r.answered = true
	r.span.FirstByte()
	r.c.p.fleet.Observe(route.FirstByte{Lease: r.d.Lease})
	r.c.split.endPrefill()
}

// hasFirstToken reports whether the first token has arrived.
func (r *relay) hasFirstToken() bool {
	return r.fin.Outcome == fleet.OK && (!r.events && !r.lines && !r.leads || r.scanner.Data())
}

// fail sets the lease's outcome for an error in an answer of status 200, with a code, 0 for none, and what it says.
func (a *attempt) fail(code int, said string) {
	log := a.c.p.log
	if code != 0 { // many errors have none
		log = log.With("code", code)
	}
	log.Warn("engine reported an error within its answer",
		"request", a.c.served.ID, "endpoint", a.d.Endpoint.Name, "sent", a.c.sent.Load())
	a.fin.Outcome, a.fin.Limited = fault.OutcomeOfError(code), code == http.StatusTooManyRequests
	a.fin.Overfull = a.fin.Outcome == fleet.EngineError && answer.Overfull(said)
	if answer.Ended(said) {
		a.breaks(true)
	}
}

func (r *relay) look(piece []byte) {
	if r.opaque {
		return
	}
	if !r.events && !r.lines {
		r.counts.Write(piece)
	}
	if r.pieces {
		r.scanner.Write(piece)
		if r.c.p.returns != nil {
			r.tail.Write(piece)
		}
		return
	}
	if r.c.API == prompt.Responses && r.fin.Response == "" && r.fin.Outcome == fleet.OK {
		r.fin.Response = answer.ResponseID(piece)
	}
	r.tail.Write(piece)
}

func (r *relay) remember(piece []byte) {
	keep := copy(r.ending[:], r.ending[min(len(piece), len(r.ending)):])
	copy(r.ending[keep:], piece[max(0, len(piece)-len(r.ending)):])
}

// between reports whether the data passed on of a stream ends with an empty line, so that an event may follow. Lines
// end with a line feed, a carriage return, or both (HTML, section 9.2.6).
func (r *relay) between() bool {
	last, before := r.ending[2], r.ending[1]
	if last == '\n' && before == '\r' {
		before = r.ending[0]
	}
	return endsLine(last) && endsLine(before)
}

func endsLine(b byte) bool { return b == '\n' || b == '\r' }

func (r *relay) commit() {
	r.c.comments.end()
	if r.c.Opened.Load() { // with a header that fits any such answer
		r.c.served.Status = http.StatusOK
		r.c.sent.Store(true)
		return
	}
	r.c.setHeader(r.res.Header, r.d)
	if r.cached != nil || r.strips {
		delete(r.c.client.Header(), "Content-Length") // it may become another
	}
	r.c.served.Status = r.res.StatusCode
	if r.res.StatusCode == http.StatusServiceUnavailable && r.res.Header.Get("Retry-After") == "" {
		r.c.client.Header().Set("Retry-After", "1")
	}
	r.c.sent.Store(true)
	r.c.client.WriteHeader(r.res.StatusCode)
}

// finish concludes an answer that came to its end.
func (r *relay) finish() (next *route.Plan) {
	c := r.c
	if r.pieces {
		r.fin.Usage, _ = r.scanner.Close() // reads a last line without a line end: it may be the end mark
	}
	if r.truncated() {
		return r.broken(fault.ErrTruncated)
	}
	if rest := r.cached.Close(); len(rest) > 0 && !r.write(rest) {
		return nil
	}
	if len(r.held) > 0 { // the answer has ended with it
		if r.answers(); !r.write(r.held) {
			return nil
		}
	}
	if rest := r.strip.Close(); r.strips && len(rest) > 0 && !r.write(rest) {
		return nil
	}
	if r.watching && r.strip.Removed > 0 {
		r.AnswersAsking()
	}
	if !c.sent.Load() { // an empty body
		r.commit()
	}
	if r.pieces {
		if r.fin.Response == "" {
			r.fin.Response = r.scanner.ResponseID()
		}
		if r.scanner.Failed() && r.fin.Outcome == fleet.OK {
			r.fail(r.scanner.ErrorCode(), r.scanner.ErrorText()) // the engine has told the client
		}
	} else if r.fin.Outcome == fleet.OK {
		r.fin.Usage, _ = answer.ParseUsage(c.API.String(), r.tail.Bytes)
	}
	if r.fin.Outcome == fleet.OK && r.fin.Usage == (fleet.Usage{}) {
		r.fin.Usage, _ = r.counts.Usage()
	}
	if r.fin.Outcome == fleet.OK && r.fin.Usage.OutputTokens == 0 && r.c.Request.Class == fleet.Turn {
		r.count()
	}
	if c.Transport != nil && r.fin.Outcome == fleet.OK {
		if u, known := c.Transport.Usage(); known {
			r.fin.Usage = u
		}
	}
	if !c.Computes { // as a stored response, which says what was used for it before
		r.fin.Usage = fleet.Usage{}
	}
	if c.API == prompt.Responses {
		r.fin.Usage = c.p.reports.read(r.d.Endpoint.URL, r.fin.Usage)
	}
	r.fin.Usage = c.learnable(r.fin.Usage)
	if r.fin.Outcome == fleet.OK && !r.opaque {
		r.keepReturned(r.tail.Bytes)
	}
	return nil
}

// truncated reports whether a stream ended without its end mark, or an answer is empty. A killed SGLang scheduler
// leaves such a stream, on a connection that ends cleanly.
func (r *relay) truncated() bool {
	end := answer.EndOf(r.d.Kind, r.c.API.String())
	switch {
	case !r.events && !r.lines:
		return r.mustAnswer() && r.empty() || r.open()
	case r.fin.Outcome != fleet.OK, r.scanner.Failed():
		return false
	case end == answer.EndNone:
		return false
	case r.blank() && r.c.Transport == nil: // another proxy may not show the body
		return !r.scanner.Done()
	case end == answer.EndLearnt, end == answer.EndStopped && !r.scanner.Native():
		k := streamKind{url: r.d.Endpoint.URL, pool: r.d.Pool, api: r.c.API.String()}
		if r.c.API.String() == answer.APIOther {
			k.path = r.c.R.URL.Path
		}
		return r.c.p.ends.learn(k, r.scanner.Done(), r.scanner.Finished())
	case r.lines && answer.GivesUp(r.d.Kind) && r.scanner.Repeats() && r.ending[len(r.ending)-1] == '\n':
		return false
	}
	return !r.scanner.Done()
}

// mustAnswer reports whether a plain answer to this request always has content. The text of a recording may be none.
func (r *relay) mustAnswer() bool { return r.c.API != prompt.Other || r.c.Repeats && r.json }

// blank reports whether nothing of the answer to a prompt has come in a stream. Other streams may have nothing to say,
// as those of a recording.
func (r *relay) blank() bool { return r.c.API != prompt.Other && r.scanner.Blank() }

// open reports whether a JSON answer whose length is not known has ended without the end of its value: a server that
// only closes the connection does so too when it dies.
func (r *relay) open() bool {
	if !r.json || r.opaque || r.c.API == prompt.Other || r.c.Transport != nil || r.res.ContentLength >= 0 ||
		!r.c.sent.Load() || r.fin.Outcome != fleet.OK || r.scanner.Done() {
		return false
	}
	last := bytes.TrimRight(r.ending[:], " \t\r\n")
	return r.leads || r.scanner.Cut() || len(last) > 0 && last[len(last)-1] != '}' && last[len(last)-1] != ']'
}

// empty reports whether a request for an answer got none, with status 200 or 204.
func (r *relay) empty() bool {
	return (r.res.StatusCode == http.StatusOK || r.res.StatusCode == http.StatusNoContent) &&
		r.c.R.Method == http.MethodPost && !r.c.sent.Load() && len(r.held) == 0
}

// broken concludes an answer that broke off. If the client has seen a part of it, the error is sent in the stream where
// possible, and the connection is cut, so that the client cannot take the part for the whole. Nothing is missing after
// a stream's end mark: clients leave there, before the engine has ended the body.
func (r *relay) broken(err error) (next *route.Plan) {
	c := r.c
	if !c.sent.Load() {
		return r.lost(err)
	}
	if r.complete() {
		return r.finish()
	}
	r.count()
	if err = r.conclude(err); err == nil {
		return nil // the client left
	}
	err = r.withLeg(err)
	f := fault.Of(err)
	c.served.Error = f.Code
	if r.events && r.endEvent() || r.lines && r.ending[len(r.ending)-1] == '\n' {
		r.tell(f, err)
	}
	panic(http.ErrAbortHandler)
}

// endEvent ends the event that the stream broke off in, and reports whether another may follow. Within a line none may:
// it would become a part of that line.
func (r *relay) endEvent() bool {
	end := ""
	switch last := r.ending[len(r.ending)-1]; {
	case !endsLine(last):
		return false
	case last == '\r': // a line feed may belong to it
		end = "\n"
	}
	if !r.between() {
		end += "\n"
	}
	return end == "" || r.c.write([]byte(end))
}

// complete reports whether a stream has been passed on to the end of its end mark.
func (r *relay) complete() bool {
	return r.scanner.Done() && (r.between() || !r.events && r.ending[len(r.ending)-1] == '\n')
}

// tell sends an error as an event or a line of the stream, as engines do.
func (r *relay) tell(f fault.Fault, err error) {
	c := r.c
	body := fault.Body(c.shape(), f, c.message(err))
	if r.events {
		c.tell(body)
	} else {
		c.write(append(body, '\n'))
	}
}

var unbuffered = []string{"no"} // immutable

// setHeader sets the header of the answer of a decision's endpoint: the engine's, the conversation, and on request the
// decision.
func (c *call) setHeader(from http.Header, d *route.Decision) {
	reader := readerOf(c.R, c.p.cfg.Origins)
	c.p.origins.learn(reader, from)
	h, named := c.client.Header(), from["Connection"]
	stripCORS(from, reader, c.p.cfg.Origins)
	for k, v := range from {
		if !send.HopByHop(k) && send.ReachesClient(k) && !httpguts.HeaderValuesContainsToken(named, k) {
			h[k] = v
		}
	}
	send.Relocate(h, d.Endpoint.URL)
	if c.Upload.Unread() && c.R.ProtoMajor == 1 { // over HTTP/2 the stream is reset
		h["Connection"] = []string{"close"} // what is left of the body must not be taken for a request
	}
	media, ok := from["Content-Type"]
	if !ok {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	if ok && streams(send.Media(media[0])) && h["X-Accel-Buffering"] == nil {
		h["X-Accel-Buffering"] = unbuffered // nginx, which reads it, would hold pieces back
	}
	c.tellSession(d)
	c.ticket.Tell(h)
	if t := c.p.cfg.Token; t != nil && c.Request.Class == fleet.Turn {
		t.Tell(h, d.Endpoint.Name)
	}
	c.explain(h, d)
}

// tellSession sets the header with the conversation's id, which is the same whichever endpoint answers.
func (c *call) tellSession(d *route.Decision) {
	if id := d.Session; id != "" && c.Request.Class == fleet.Turn && httpguts.ValidHeaderFieldValue(id) {
		c.client.Header()[c.p.parser.Echo()] = []string{id}
	}
}
