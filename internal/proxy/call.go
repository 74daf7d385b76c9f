package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/client"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/proxy/paths"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/internal/proxy/send"
	"github.com/warmpath/warmpath/internal/proxy/timeouts"
	"github.com/warmpath/warmpath/internal/tracing"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// call is one client request. One goroutine uses it; others touch only what is atomic, and the client.
type call struct {
	place link // in the registry

	p      *Proxy
	client client.Client
	send.Incoming
	span   *tracing.Span
	served live.Served

	ctx        context.Context      // ends when the client leaves
	cancelable *timeouts.Cancelable // the same as ctx
	stopWatch  func() bool          // cancels the report that the client left

	watch        atomic.Pointer[timeouts.Watch] // the current attempt
	prefillWatch atomic.Pointer[timeouts.Watch] // the current prefill leg
	bounds       atomic.Pointer[Bounds]
	shutdown     atomic.Bool // no further attempt may start
	sent         atomic.Bool // the client has seen a byte or the header: no retry is allowed
	commenting   atomic.Bool // before that, what comes before an answer is written to the client
	broken       bool        // the answer that has begun is none: the connection has to be cut
	spent        atomic.Bool // an engine has computed for it, and did not fail

	// what it may do, and is charged
	root                       bool             // the router answers what is at its root; no key is asked for
	allowed                    identity.Allowed // models that the caller may use
	ticket                     quota.Ticket     // accounts charged for the request
	headBytes, answerHeadBytes int              // that are counted in the memory of requests
	replyBytes                 atomic.Int64     // the same, of replies
	reached                    bool             // it was sent to an engine
	dispatchedAt               time.Time        // when an engine was sent it, for the whole answer; zero for never
	passed                     int64            // estimated tokens of the answer passed on

	// what its client wants
	wait      time.Duration // longest wait in the router's queue; 0 for no limit of its own
	shortened bool          // by the request itself
	deadline  time.Time     // when its answer must begin; zero for none
	final     bool          // its session ends with it
	// it is a response that goes on in the background: its client asks for it by the id that the announcement has, and
	// may cancel it, before the engine has computed anything
	detached bool

	// what has come of its client
	cut      bool      // its body came in part: its client has left
	lingers  bool      // it was answered before a long body was read
	comments *comments // nil for none

	content *identity.Content // until the first decision; nil when conversations are not recognised by content
	sheds   bool              // the content of the first decision was released in part, see rememberContent
	about   fleet.Content     // the part of the content that another attempt needs
	blocks  []uint64          // reused from call to call for about.Blocks

	plan    route.Plan  // the first decision
	pending *route.Plan // reserved for the next attempt; nil for none
	split   *split      // nil unless the request was split

	// what has come of its attempts
	failures  uint16 // one bit for each outcome of those that failed by their engine's fault
	overfull  int    // those at engines that failed all that they had for want of memory
	uncounted int    // those that do not count as retries
	broke     broke  // engines that broke off under it
	away      bool   // an endpoint that has answered under the path lacks it now
}

// calls recycles calls: each takes 2.5 kB.
var calls = sync.Pool{New: func() any { return new(call) }}

func newCall(p *Proxy, w http.ResponseWriter, r *http.Request) *call {
	c := calls.Get().(*call)
	c.p, c.R, c.API = p, r, prompt.Classify(r.Method, r.URL.Path)
	id := identity.RequestID(r)
	c.ID, c.From, c.Transport = id, p.cfg.Proxies.Of(r), external.Of(r.Context())
	c.client.Start(w, r, id, Stall(p.cfg.Idle), p.log)
	if c.watchClient(); p.tracer != nil {
		c.ctx, c.span = p.tracer.Start(c.ctx, r.Header, r.Method+" "+c.API.String())
	}
	c.bounds.Store(p.bounds.all)
	c.Request.ID, c.Request.Class = id, c.API.Class()
	s := &c.served
	s.ID, s.API, s.Method, s.Path, s.Agent = id, c.API.String(), r.Method, r.URL.Path, r.UserAgent()
	s.Client, s.Peer, s.BytesIn = c.From.Client, c.From.Peer, max(r.ContentLength, 0)
	s.Started = time.Now()
	w.Header()["X-Request-Id"] = []string{id}
	return c
}

// end releases the call's reservations and memory. It runs on every path, panics included, and the call must not be
// used afterwards.
func (c *call) end() {
	c.comments.end() // in flight, where the wait for the client is bounded
	c.p.flights.remove(&c.place)
	if c.pending != nil { // reserved but not begun
		c.p.fleet.Observe(route.Finished{Lease: c.pending.Lease, Outcome: fleet.Abandoned})
		if c.pending.Split() && (c.split == nil || c.split.prefill.Lease != c.pending.Prefill.Lease) {
			c.p.fleet.Observe(route.Finished{Lease: c.pending.Prefill.Lease, Outcome: fleet.Abandoned})
		}
	}
	c.split.end()
	c.served.Ended = time.Now()
	c.settle()
	again := c.unwatchClient()
	c.content.Release() // it refers to the body
	c.Body.Release()
	c.uncount()
	gone := c.served.Status == 0
	if c.closeSession(gone); gone {
		c.served.Status = statusClientGone
		c.served.Outcome = fleet.ClientGone
	}
	c.served.Class = c.Request.Class
	c.span.End(&c.served)
	c.p.fleet.Served(&c.served)
	v, broken := recover(), c.broken
	if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself is compared, as in net/http
		c.p.log.Error("panic while serving", "request", c.served.ID, "panic", v)
	}
	if v == nil && !gone {
		c.linger()
	}
	c.client.HandOver()
	if c.Upload == nil && again { // the goroutine that writes an upload may outlive the call
		blocks := c.blocks[:0]
		*c = call{} // in place, as below
		c.blocks = blocks
		calls.Put(c)
	}
	if v != nil || gone || broken { // net/http must not turn an unanswered request into a 200
		panic(http.ErrAbortHandler)
	}
}

// linger lets a client that has its answer send the rest of its body.
func (c *call) linger() {
	if c.R.ProtoMajor != 1 || c.Transport != nil || c.shutdown.Load() ||
		c.served.Status == http.StatusRequestTimeout || c.R.Header["Expect"] != nil {
		return // it is slow, or waits for a word before it sends
	}
	if c.lingers || c.Upload.Unread() {
		c.client.Linger(c.p.draining.Load)
	}
}

// statusClientGone is the status counted for a request whose client left before it got one (nginx's 499).
const statusClientGone = 499

// serve reads, decides, passes on and relays.
func (c *call) serve() {
	if err := c.sought(c.prepare()); err != nil {
		c.refuse(err)
		return
	}
	if err := c.unattainable(&c.plan); err != nil {
		c.pending = &c.plan // end releases it
		c.refuse(err)
		return
	}
	for next := &c.plan; next != nil; {
		c.pending = next // end releases it
		if err := c.fits(next); err != nil {
			c.refuse(err)
			return
		}
		c.pending = nil
		if next.Split() {
			next = c.serveSplit(next)
		} else {
			next = c.attempt(next)
		}
	}
}

// sought decides once more where no endpoint had the model, which may just have been loaded.
func (c *call) sought(err error) error {
	if !isUnknown(err) {
		return err
	}
	left := c.seek(func() bool {
		err = c.decide(&c.plan)
		return !isUnknown(err)
	})
	return cmp.Or(left, err)
}

// fits refuses what the engine of a decision must not get.
func (c *call) fits(p *route.Plan) error {
	if p.Adapter && c.Computes && !c.allowed.All() && !send.ReadsAdapter(p.Kind, c.API) {
		return fault.ErrUnreadName
	}
	err := c.fitsKind(p.Kind)
	if err == nil && p.Split() {
		err = c.fitsKind(p.Prefill.Kind)
	}
	return err
}

func (c *call) fitsKind(kind fleet.Kind) error {
	// it was pinned, or holds an earlier response
	if c.saltRequired() && !c.p.cfg.Tenants.CanSalt(kind, c.API, c.R.URL.Path, &c.Prompt) {
		return fault.ErrUnsalted
	}
	switch kind {
	case fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp:
		return nil
	}
	if folded := c.Prompt.Folded; folded != nil { // the engine may be written in Go
		return folded
	}
	return nil
}

// prepare does everything up to the first decision.
func (c *call) prepare() (err error) {
	if err = c.openAccounts(); err != nil {
		return err
	}
	if err = c.read(); err != nil {
		return err
	}
	if err = c.identify(); err != nil {
		return err
	}
	if err = c.charge(); err != nil {
		return err
	}
	c.beginComments()
	return c.decide(&c.plan)
}

// decide asks the fleet for the plan of a request that may be split.
func (c *call) decide(p *route.Plan) error {
	if c.shutdown.Load() {
		return timeouts.ErrShutdown
	}
	if err := c.permit(); err != nil {
		return err
	}
	c.rememberContent()
	started := time.Now()
	err := c.p.fleet.DecideInto(&c.Request, p)
	c.p.decided(cmp.Or(p.Pool, p.Hold.Pool), time.Since(started))
	if h := p.Hold; h.Lease != 0 {
		*p, err = c.awaitRoom(&h)
	}
	if err == nil {
		c.served.Attempts++
		c.served.Decision = p.Decision
		c.servedPrefill(p)
	} else if c.served.Attempts == 0 {
		c.served.Decision.Session = c.Request.Session // for those who ask why
	}
	c.forgetContent(&p.Decision)
	return err
}

// decideAgain is decide for a plan that takes the place of the call's own.
func (c *call) decideAgain() (p route.Plan, err error) {
	err = c.decide(&p)
	return p, err
}

// servedPrefill notes who computes the prompt, if it is another than who answers.
func (c *call) servedPrefill(p *route.Plan) {
	if p.Split() || c.served.Prefill.Lease != 0 {
		c.served.Prefill = p.Prefill
	}
}

// forgetContent keeps the part of the content that another attempt needs and releases the rest, which is as large as
// the body; a generation may take minutes.
func (c *call) forgetContent(d *route.Decision) {
	if c.content == nil {
		return
	}
	q := &c.Request
	if q.Trail != nil && d.Session != q.MintedID { // a fresh id identifies the conversation by itself
		q.Session = d.Session
	}
	c.sheds = q.Tokens != nil || q.Content != nil && len(q.Content.List) > 0
	q.Trail, q.ShadowContent, q.Tokens = nil, nil, nil
	if q.Content != nil {
		c.about = *q.Content
		c.about.List, c.about.Ends = nil, nil
		c.about.Blocks = append(c.blocks[:0], q.Content.Blocks...)
		if q.Content = &c.about; len(c.about.Blocks) <= mostKeptBlocks {
			c.blocks = c.about.Blocks
		}
	}
	c.content.Release()
	c.content = nil
}

// rememberContent reads again what forgetContent released and another decision needs: token ids, and each prompt of a
// list.
func (c *call) rememberContent() {
	if !c.sheds || c.content != nil || c.Body == nil {
		return
	}
	c.content = identity.NewContent()
	if _, err := c.p.parser.ParseChainFrom(c.p.memory, c.API, c.Body.Bytes, send.Named(c.R.Header).Get,
		&c.content.Chain); err == nil {
		c.tellContent()
	}
}

// mostKeptBlocks bounds the memory that a call keeps for its next use to 64 kB.
const mostKeptBlocks = 8192

// read reads and parses the body. Bodies of unknown paths are streamed to the engine, unless they are JSON that may
// name a model.
func (c *call) read() error {
	if e := encoding(c.R); e != "" && (c.API != prompt.Other || c.p.cfg.readsMembers()) {
		return fault.Encoded(e)
	}
	if c.API == prompt.Other && !c.peekable() {
		return c.openUpload()
	}
	if err := c.receive(); err != nil {
		return err
	}
	return c.parse()
}

// encoding is what a body is packed by, which the router does not unpack and engines may (Ollama, zstd): its
// Content-Encoding; "" for none.
func encoding(r *http.Request) string {
	if r.ContentLength == 0 {
		return ""
	}
	for _, e := range r.Header["Content-Encoding"] {
		if e != "" && !strings.EqualFold(e, "identity") {
			return e
		}
	}
	return ""
}

// openUpload has the body passed on as it comes.
func (c *call) openUpload() error {
	if c.R.ContentLength > c.p.bounds.body {
		return body.ErrTooLarge
	}
	c.ReadNames()
	c.bounds.Store(c.p.bounds.of(cmp.Or(send.Named(c.R.Header).Get(send.ModelHeader), c.Named())))
	bounds := c.uploadBounds()
	bounds.Bytes = c.bounds.Load().BodyBytes
	c.Upload = body.NewUpload(c.client.Writer(), c.R.Body, bounds, func() {
		if w := c.watch.Load(); w != nil && !w.HasData() {
			w.Wait(c.bounds.Load().Answer)
		}
	})
	return nil
}

// receive reads the whole body, as long as its client may take.
func (c *call) receive() (err error) {
	until := c.served.Started.Add(c.p.cfg.ReadBody)
	c.client.ReadsUntil(until)
	var paced *body.Paced
	if c.API == prompt.Other && c.R.ContentLength != 0 { // such as a recording in a form
		paced = body.NewPaced(c.R.Body, c.uploadBounds(), c.client.ReadsUntil)
		c.R.Body = paced
	}
	if !c.shutdown.Load() { // abort ends the reading after it has set shutdown
		c.Body, err = body.Read(c.R, c.p.bounds.body, c.p.bodies)
	}
	c.client.ReadsUntil(time.Time{})
	if c.shutdown.Load() {
		return timeouts.ErrShutdown
	}
	late := !time.Now().Before(until)
	if paced != nil {
		late = paced.Late()
	}
	if err == nil && late {
		err = body.ErrSlowBody // the sweeper may have cut the connection just after the body's end
	}
	if err != nil {
		c.cut = errors.Is(err, body.ErrBadBody)
		return err
	}
	c.served.BytesIn = int64(len(c.Body.Bytes))
	// Windows tools write a byte order mark before JSON; some engines skip it, others reject it (RFC 8259, section
	// 8.1). All of them go: an engine that skips one would read what the router did not.
	for mark := []byte("\ufeff"); bytes.HasPrefix(c.Body.Bytes, mark); {
		c.Body.Bytes = c.Body.Bytes[len(mark):]
	}
	return nil
}

// parse parses a body in memory.
func (c *call) parse() (err error) {
	if c.API == prompt.Other {
		c.Prompt, err = c.p.parser.Peek(c.Body.Bytes, send.Named(c.R.Header).Get)
		return c.judgeUnparsed(err)
	}
	content, tokens := c.promptBeside()
	if content == nil && c.readsContent() {
		c.content = identity.NewContent()
		if c.Prompt, err = c.p.parser.ParseChainFrom(c.p.memory, c.API, c.Body.Bytes, send.Named(c.R.Header).Get,
			&c.content.Chain); err != nil {
			return err
		}
		c.tellContent()
		if c.p.cfg.ByContent && c.Prompt.Session == "" && c.Prompt.PreviousResponse == "" {
			c.Request.Trail = c.content.Follow()
		}
		return nil
	}
	c.Prompt, err = c.p.parser.Parse(c.API, c.Body.Bytes, send.Named(c.R.Header).Get)
	if content != nil {
		c.Prompt.TextBytes, c.Prompt.TokenIDs = 0, tokens
		if c.Request.ShadowContent = content; c.p.cfg.NeedsContent {
			c.Request.Content = content
		}
	}
	return err
}

// promptBeside is the prompt of a request whose body does not have it, and its tokens; nil for all others.
func (c *call) promptBeside() (*fleet.Content, int) {
	if c.Transport == nil {
		return nil, 0
	}
	return c.Transport.Prompt()
}

// uploadBounds are what a client may take for a body of an unknown path, whether it is read first or passed on as it
// comes.
func (c *call) uploadBounds() body.UploadBounds {
	return body.UploadBounds{Pause: c.p.cfg.ReadBody, Whole: c.p.cfg.Upload, Bytes: c.p.bounds.body}
}

// tellContent adds the prompt's content to the request for the router.
func (c *call) tellContent() {
	if at := c.Prompt.Field("prompt_token_ids"); c.API == prompt.Chat && c.Prompt.TokenIDs > 0 && at.Len() > 0 {
		c.content.ReadIDs(c.p.parser, c.Body.Bytes[at.Start:at.End])
	}
	content := c.content.ForRouter(c.API)
	if !c.wantsContent() {
		c.Request.ShadowContent = content
		return
	}
	c.Request.Content = content
	if content != nil && !c.p.cfg.Tenants.Salts(c.Request.Tenant) {
		c.Request.Tokens = c.content.Tokens()
	}
}

// readsContent reports whether the prompt's content is needed: by the policy, a shadow, or to recognise the
// conversation of a request without an id.
func (c *call) readsContent() bool {
	return c.API.Class() == fleet.Turn && (c.p.cfg.Shadow || c.wantsContent())
}

// wantsContent reports whether the decision needs the prompt's content.
func (c *call) wantsContent() bool {
	return c.p.cfg.NeedsContent || c.p.cfg.ByContent && !c.p.parser.InHeader(send.Named(c.R.Header).Get)
}

// peekable reports whether the body of an unknown path is read first: it is empty, may name a model, as JSON or as a
// form, or must name none but those that the caller may use. Some clients send JSON as text, or say nothing of its
// type.
func (c *call) peekable() bool {
	n := c.R.ContentLength
	if n == 0 || n > c.p.bounds.body {
		return n == 0
	}
	if !c.allowed.All() { // llama.cpp reads JSON whatever it is called
		return true
	}
	switch media := send.Media(c.R.Header.Get("Content-Type")); media {
	case "", "application/json", "text/json", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded":
		return true
	default:
		return strings.HasSuffix(media, "+json")
	}
}

// judgeUnparsed judges a body of an unknown path that could not be read as JSON. It must not pass where the router has
// to see its members and an engine may see more: Python's json also reads NaN, UTF-16 and UTF-32.
func (c *call) judgeUnparsed(err error) error {
	if !c.p.cfg.readsMembers() {
		return nil
	}
	text := c.Body.Bytes
	if first := bytes.TrimLeft(text, " \t\r\n"); bytes.HasPrefix(first, []byte("{")) ||
		bytes.IndexByte(text[:min(len(text), 4)], 0) >= 0 || bytes.HasPrefix(text, []byte("\xff\xfe")) ||
		bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return err
	}
	return nil
}

// identify fills in the request for the router.
func (c *call) identify() error {
	c.ReadNames()
	q, p := &c.Request, &c.Prompt
	q.Model = cmp.Or(send.Named(c.R.Header).Get(send.ModelHeader), c.adapterFor(p.Model), p.Model, c.Named())
	q.Session, q.Follows = p.Session, p.PreviousResponse
	q.User, q.Parent = p.User, p.Parent
	c.final = c.final || p.Closes
	q.PromptBytes, q.PromptTokens, q.MaxTokens, q.Stream = p.TextBytes, p.TokenIDs, p.MaxTokens, p.Stream
	q.Window, q.ReadsNoCache = p.Window, p.ReadsNoCache
	c.served.Decision.Model = q.Model[:min(len(q.Model), 100)] // for the log, if no endpoint takes the request
	if err := c.bound(); err != nil {
		return err
	}
	q.Path, q.Native = paths.Known(c.API, c.R.Method, c.R.URL.Path), c.API == prompt.Generate
	c.served.Stream = p.Stream
	if c.API == prompt.Other {
		q.PromptBytes, q.PromptTokens = 0, 0
		_, stream := c.p.sender.Resumable(c.R)
		q.Follows = cmp.Or(responsePath(c.R.URL.Path), stream)
	}
	c.Computes = paths.Computes(c.API, c.R.Method, c.R.URL.Path) || isUpgrade(c.R)
	c.Repeats = paths.Repeats(c.R.Method, c.R.URL.Path)
	if c.p.cfg.readsMembers() && !c.InFields.FormWhole() {
		return fault.ErrManyFields
	}
	if c.p.cfg.Tenants != nil {
		if err := c.collectOwned(); err != nil {
			return err
		}
		if c.saltRequired() {
			if q.Kinds = identity.Salting(c.API, c.R.URL.Path); q.Kinds == nil {
				return fault.ErrUnsalted
			}
		}
	} else {
		c.follow()
	}
	if c.p.cfg.Characters && q.Class == fleet.Turn && c.Body != nil {
		q.Characters = max(1, prompt.Characters(c.API, c.Body.Bytes))
	}
	q.Splits, q.MayQueue = c.splits(), c.Upload == nil && !preflight(c.R) && !c.bounds.Load().AtOnce
	q.MayHold = q.MayQueue
	if q.Session == "" && q.Class == fleet.Turn {
		q.MintedID = identity.NewID()
	} else if q.Session == "" {
		q.HashKey = c.served.ID
	}
	if t := c.p.cfg.Token; t != nil && q.Class == fleet.Turn {
		q.Hint = t.Hint(c.R.Header)
	}
	if c.Transport != nil {
		q.Exclude = append(q.Exclude, c.Transport.Excluded()...)
	}
	return c.readPins()
}

// readPins reads where the client wants the request to go, and where not.
func (c *call) readPins() error {
	pin, exclude := send.Named(c.R.Header).Get("X-Warmpath-Pin"), c.R.Header["X-Warmpath-Exclude"]
	if pin == "" && len(exclude) == 0 {
		return nil
	}
	if !c.p.cfg.Pinning {
		return fault.ErrPinningOff
	}
	c.Request.Pin = pin
	for _, v := range exclude {
		for name := range strings.SplitSeq(v, ",") {
			c.Request.Exclude = append(c.Request.Exclude, strings.TrimSpace(name))
		}
	}
	return nil
}

// saltRequired reports whether no engine may get the request without a salt.
func (c *call) saltRequired() bool {
	t := c.p.cfg.Tenants
	return c.Computes && t.Salts(c.Request.Tenant) && t.MustSalt
}

// collectOwned collects the ids that must be the tenant's: engines know no tenants, and would give, continue or delete
// what is another one's.
func (c *call) collectOwned() error {
	q := &c.Request
	kept := paths.KeptAt(c.R.Method, c.R.URL.Path)
	if kept.Lists(c.R.Method) {
		return fault.ErrListsAll
	}
	inBody, media, err := prompt.Refers(c.API, c.R.URL.Path, c.Text())
	if err != nil {
		return err
	}
	q.Owned, c.Media = c.keptIDs(kept.ID, inBody), media
	if !c.InFields.Whole() {
		return fault.ErrManyFields
	}
	if q.Follows == "" && len(q.Owned) > 0 {
		q.Follows = q.Owned[0]
	}
	c.Keeps = kept.Is
	return nil
}

// follow sends a request that names what an engine keeps (a conversation, a file, a job, a session) to that engine.
// Where tenants are told apart, collectOwned does so.
func (c *call) follow() {
	q, path := &c.Request, c.R.URL.Path
	kept := paths.KeptAt(c.R.Method, path)
	switch {
	case q.Follows != "":
		return
	case c.API == prompt.Other:
		if c.Keeps = kept.Is || path == "/close_session"; !c.Keeps {
			return
		}
	case !bytes.Contains(c.Text(), []byte(`"file_id"`)) &&
		(c.API != prompt.Responses || !bytes.Contains(c.Text(), []byte(`"conversation"`))):
		return // of prompts few name anything, and most are long
	}
	inBody, _, _ := prompt.Refers(c.API, path, c.Text()) // too many or not: the first says where it goes
	if ids := c.keptIDs(kept.ID, inBody); len(ids) > 0 {
		q.Follows = ids[0]
	}
}

// keptIDs are the ids of what engines keep that the request has in its path, its body, and its query or form.
func (c *call) keptIDs(inPath string, inBody []string) (ids []string) {
	if inPath != "" {
		ids = append(ids, inPath)
	}
	return append(append(ids, inBody...), c.InFields.IDs...)
}

// responsePath is the id in /v1/responses/{id}[/...], "" for other paths.
func responsePath(path string) string {
	rest, ok := strings.CutPrefix(path, "/v1/responses/")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// failedElsewhereToo reports whether an earlier attempt of the call failed with the same outcome. If engines fail one
// after another, the request may be at fault, and only the first engine is blamed.
func (c *call) failedElsewhereToo(o fleet.Outcome) bool {
	if o != fleet.EngineError && o != fleet.TimedOut {
		return false
	}
	was := c.failures&(1<<o) != 0
	c.failures |= 1 << o
	return was
}

// explain adds the endpoint's name, never its address, and the reason for its choice to the header, if configured, or
// requested by somebody who may learn it.
func (c *call) explain(h http.Header, d *route.Decision) {
	if d.Endpoint.Name != "" && (c.p.cfg.Explain || c.p.asksWhy(c.R)) {
		h["X-Warmpath-Endpoint"] = []string{d.Endpoint.Name}
		h["X-Warmpath-Reason"] = []string{string(d.Reason)}
		if p := &c.served.Prefill; d.Leg == fleet.LegDecode && p.Endpoint.Name != "" {
			h["X-Warmpath-Prefill"] = []string{p.Endpoint.Name}
		}
	}
}
