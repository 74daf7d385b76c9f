package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
)

// exchange is one request of a client of the proxy. Two goroutines work on it: one receives the proxy's messages, in
// the other the door serves.
type exchange struct {
	external.Seen
	s       *Server
	stream  extprocv3.ExternalProcessor_ProcessServer
	ctx     context.Context // ends with the stream, or when the answer is given up
	cancel  context.CancelFunc
	sending sync.Mutex
	ending  sync.Once     // closes end
	stuck   chan struct{} // closed when the proxy does not take what it is sent
	stick   sync.Once     // closes stuck

	request  *http.Request
	header   http.Header // of the request as it came
	path     string      // and its :path
	bodiless bool        // it has no body
	modes    *extprocv3.ProtocolConfiguration
	excluded []string

	reading *io.PipeReader // the request's body, for the door
	writing *io.PipeWriter
	// of all of it, in mode BUFFERED; the bytes themselves are in the memory of requests, which is bounded
	whole    external.Digest
	pieces   int            // messages with a piece of it
	dropped  bool           // there was no memory for the body
	claimed  atomic.Int64   // bytes of the memory of requests that are taken for a message that is to come
	awaited  atomic.Int64   // of Server.announced, its own
	end      chan struct{}  // closed when the body has ended: then pieces and whole do not change any more
	trailers [2]atomic.Bool // trailers follow the request's body, the answer's

	w         writer
	got       *answer        // what Carry returned; nil before
	carried   atomic.Bool    // an endpoint has been named
	elsewhere atomic.Bool    // another one answered
	address   string         // ip:port that was named. It may be read when carried
	told      http.Header    // what the door tells the client beside the answer. The same
	came      chan *answer   // the answer's header
	headed    bool           // that has come. Only receive uses it
	body      *external.Feed // the answer's body
	replied   bool           // by the door: all that the proxy waits for
	over      chan struct{}  // the door has returned
}

// What no proxy does.
var (
	errSecondRequest = errors.New("a second request in one stream")
	errSecondAnswer  = errors.New("a second answer in one stream")
	errBodyAfterEnd  = errors.New("a piece of a request's body after its end")
)

// errAnswered ends an upload whose endpoint has answered before all of it came, with an error or with a part of its
// answer's body: the client may wait for that answer, and so may the door, which reads none before it has the whole.
var errAnswered = errors.New("answered before the request had been read")

// answer is the header of an endpoint's answer.
type answer struct {
	status   int
	header   http.Header
	bodiless bool
	by       string // address of the endpoint that the proxy says has served it; "" where it does not say
}

// begin makes a request of the message that the stream began with.
func (s *Server) begin(
	stream extprocv3.ExternalProcessor_ProcessServer, first *extprocv3.ProcessingRequest, head *extprocv3.HttpHeaders,
) (*exchange, error) {
	x := &exchange{
		s: s, stream: stream, bodiless: head.GetEndOfStream(), modes: first.GetProtocolConfig(),
		end: make(chan struct{}), stuck: make(chan struct{}), came: make(chan *answer, 1), over: make(chan struct{}),
		body: external.NewFeed(),
	}
	if x.modes == nil { // a proxy of the inference extension, which asks for this mode
		x.modes = &extprocv3.ProtocolConfiguration{
			RequestBodyMode:  filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			ResponseBodyMode: filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		}
	}
	x.header = headersOf(head.GetHeaders())
	x.path = x.header.Get(":path")
	at, err := url.ParseRequestURI(x.path)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "the request's headers have no :path that could be read")
	}
	x.w = writer{x: x, header: http.Header{}}
	x.ctx, x.cancel = context.WithCancel(stream.Context())
	r := (&http.Request{
		Method: x.header.Get(":method"), URL: at, RequestURI: x.path, Host: x.header.Get(":authority"),
		RemoteAddr: remoteOf(first, x.header), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: make(http.Header, len(x.header)), ContentLength: -1, Body: http.NoBody,
	}).WithContext(external.With(x.ctx, x))
	for name, values := range x.header {
		if !strings.HasPrefix(name, ":") {
			r.Header[name] = values
		}
	}
	s.translate(r.Header)
	x.reading, x.writing = io.Pipe()
	if x.bodiless {
		r.ContentLength = 0
		x.endBody(nil)
	} else {
		r.Body = x.reading
		if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
			r.ContentLength = n
		}
	}
	x.request = r
	return x, x.askBody()
}

// askBody says what the proxy's modes lead to, and answers the headers of the request where the proxy waits for that
// before it sends the body.
func (x *exchange) askBody() error {
	s := x.s
	if x.AnswerUnseen() {
		s.warn(warnNoAnswers, "the proxy does not show answers: nothing is learnt from them, "+
			"and requests count as ended before they are; set response_body_mode: FULL_DUPLEX_STREAMED, or STREAMED")
	}
	if x.bodiless || x.requestDuplex() {
		return nil
	}
	if x.requestBuffered() { // the proxy sends the body when it has this answer
		if n := x.request.ContentLength; n > 0 && n <= int64(s.cfg.BodyBytes) {
			if !x.announce(int(n)) {
				return nil
			}
		}
		return x.reply(headersReply(false, nil))
	}
	if x.requestStreamed() {
		if x.modes.GetSendBodyWithoutWaitingForHeaderResponse() {
			return nil
		}
		s.warn(warnStreamed, "the proxy sends request bodies on before an endpoint is chosen: "+
			"set request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED; until then it must allow_mode_override")
	}
	return x.reply(wantsAll(x.modes.GetResponseBodyMode()))
}

func (x *exchange) requestDuplex() bool {
	return x.modes.GetRequestBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
}

func (x *exchange) requestStreamed() bool {
	return x.modes.GetRequestBodyMode() == filterv3.ProcessingMode_STREAMED
}

// requestBuffered reports whether the request's body comes in one message, as configured.
func (x *exchange) requestBuffered() bool {
	m := x.modes.GetRequestBodyMode()
	return m == filterv3.ProcessingMode_BUFFERED || m == filterv3.ProcessingMode_BUFFERED_PARTIAL
}

// duplex reports whether the answer passes through the door; else the proxy is told of each piece what becomes of it.
func (x *exchange) duplex() bool {
	return x.modes.GetResponseBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
}

// AnswerUnseen reports whether the proxy keeps the bodies of answers to itself.
func (x *exchange) AnswerUnseen() bool {
	return x.modes.GetResponseBodyMode() == filterv3.ProcessingMode_NONE &&
		(x.bodiless || x.requestBuffered() || x.requestDuplex())
}

// Excluded are the names of endpoints that the proxy does not allow.
func (x *exchange) Excluded() []string { return x.excluded }

// Elsewhere reports whether the proxy says that another endpoint than the named one answered.
func (x *exchange) Elsewhere() bool { return x.elsewhere.Load() }

// remoteOf is the address of the proxy's client: the attribute source.address where the proxy sends it, else what it
// appended to X-Forwarded-For, else nothing.
func remoteOf(m *extprocv3.ProcessingRequest, h http.Header) string {
	for _, a := range m.GetAttributes() {
		if v := a.GetFields()["source.address"].GetStringValue(); v != "" {
			return v
		}
	}
	if list := h["X-Forwarded-For"]; len(list) > 0 {
		last := list[len(list)-1]
		ip := strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
		if net.ParseIP(ip) != nil {
			return net.JoinHostPort(ip, "0")
		}
	}
	return ""
}

// reply sends one message. A proxy that does not take it in time loses the stream.
func (x *exchange) reply(m *extprocv3.ProcessingResponse) error {
	x.sending.Lock()
	defer x.sending.Unlock()
	late := time.AfterFunc(takenWithin, x.giveUp)
	defer late.Stop()
	return x.stream.Send(m)
}

// giveUp ends the stream of a proxy that does not take what it is sent.
func (x *exchange) giveUp() {
	x.cancel()
	x.stick.Do(func() { close(x.stuck) })
}

// serve has the door answer the request, and tells the proxy what is left to tell.
func (x *exchange) serve() error {
	whole := x.call()
	x.w.end()
	_ = x.reading.CloseWithError(io.ErrClosedPipe)
	_ = x.body.Close()
	close(x.over)
	switch {
	case !whole && x.stream.Context().Err() != nil:
		return status.FromContextError(x.stream.Context().Err()).Err()
	case !whole:
		return status.Error(codes.Aborted, "the answer broke off")
	case x.got != nil && !x.duplex(): // its header has been answered; receive answers the rest
		return nil
	case x.got != nil && x.w.relays():
		x.replied = true
		return x.w.send(true)
	}
	x.replied = true
	return x.reply(immediate(x.w.status, x.w.header, x.w.buf))
}

// answered reports whether the proxy waits for nothing more. The door must have returned.
func (x *exchange) answered() bool { return x.replied }

// call calls the door. It reports false where the answer is not whole.
func (x *exchange) call() (whole bool) {
	defer func() {
		if v := recover(); v != nil { // the door has logged what it is
			whole = false
		}
	}()
	x.s.cfg.Door.ServeHTTP(&x.w, x.request)
	if x.w.status == 0 {
		x.w.status = http.StatusOK
	}
	return true
}

// Carry names the endpoint to the proxy, with what it is to be sent, and waits for the header of its answer.
func (x *exchange) Carry(r *http.Request, to fleet.Endpoint) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	address, err := addressOf(r.Context(), to)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	address = x.s.sidecar(r.Header, address)
	x.address, x.told = address, maps.Clone(x.w.header)
	x.carried.Store(true)
	names := strings.Join(append([]string{address}, x.s.fallbacks(r.Context(), to, x.excluded)...), ",")
	if wanted := x.s.selected(x.header); wanted != "" {
		names = wanted
	}
	if err := x.name(r, names); err != nil && !errors.Is(err, errAnswered) {
		return nil, err
	}
	select {
	case x.got = <-x.came:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	case <-x.ctx.Done():
		return nil, external.ErrLeft
	}
	res := x.body.Answer(r, x.got.status, x.got.header.Clone())
	delete(res.Header, ":status")
	x.s.tells(res.Header, x.got.by)
	if n, err := strconv.ParseInt(res.Header.Get("Content-Length"), 10, 64); err == nil {
		res.ContentLength = n
	}
	if x.got.bodiless && r.Method != http.MethodHead {
		res.ContentLength = 0
	}
	return res, nil
}

// name tells the proxy the endpoints, and what the request has become.
func (x *exchange) name(r *http.Request, addresses string) error {
	m := difference(x.header, r.Header)
	set(m, destination, addresses)
	if path := r.URL.RequestURI(); path != x.path {
		set(m, ":path", path)
	}
	metadata := named(addresses)
	if x.bodiless {
		p := headersReply(false, m)
		p.DynamicMetadata, p.GetRequestHeaders().Response.ClearRouteCache = metadata, true
		return x.reply(p)
	}
	if x.requestDuplex() {
		if r.ContentLength >= 0 {
			set(m, "content-length", strconv.FormatInt(r.ContentLength, 10))
		}
		p := headersReply(false, m)
		p.DynamicMetadata, p.GetRequestHeaders().Response.ClearRouteCache = metadata, true
		if err := x.reply(p); err != nil {
			return err
		}
		return x.stretch(r)
	}
	body, err := io.ReadAll(r.Body)
	x.s.cfg.Memory.Add(len(body))
	defer x.s.cfg.Memory.Give(len(body))
	if err != nil {
		return err
	}
	if x.requestStreamed() && x.modes.GetSendBodyWithoutWaitingForHeaderResponse() {
		if err := x.awaitEnd(r.Context()); err != nil {
			return err
		}
		m.RemoveHeaders = append(m.RemoveHeaders, "content-length")
		p := headersReply(false, m)
		p.DynamicMetadata, p.GetRequestHeaders().Response.ClearRouteCache = metadata, true
		if err := x.reply(p); err != nil {
			return err
		}
		for range x.pieces { // the first piece becomes all of it
			if err := x.reply(bodyReply(false, replaced(body))); err != nil {
				return err
			}
			body = nil
		}
		return nil
	}
	var changed *extprocv3.BodyMutation
	if !x.whole.Of(body) {
		set(m, "content-length", strconv.Itoa(len(body)))
		changed = replaced(body)
	}
	p := bodyReply(false, changed)
	c := p.GetRequestBody().Response
	p.DynamicMetadata, c.HeaderMutation, c.ClearRouteCache = metadata, m, true
	return x.reply(p)
}

// awaitEnd waits until the proxy has sent all of the request's body. The door does not where it knows the length.
func (x *exchange) awaitEnd(ctx context.Context) error {
	select {
	case <-x.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stretch sends the proxy the request's body in pieces, as it can be read.
func (x *exchange) stretch(r *http.Request) error {
	size := chunkBytes
	if n := r.ContentLength; n >= 0 && n < chunkBytes {
		size = int(n) + 1 // so that its end is seen at once
	}
	for {
		b := make([]byte, size)
		n, err := io.ReadFull(r.Body, b)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		last := err != nil
		if last {
			if err := x.awaitEnd(r.Context()); err != nil {
				return err
			}
		}
		trailers := last && x.trailers[0].Load()
		if n > 0 || !trailers {
			if err := x.reply(bodyReply(false, piece(b[:n], last && !trailers))); err != nil {
				return err
			}
		}
		if trailers {
			return x.reply(trailersReply(false))
		}
		if last {
			return nil
		}
	}
}

// receive takes the proxy's messages until its stream ends.
func (x *exchange) receive() {
	for {
		m, err := x.stream.Recv()
		if err == nil {
			err = x.take(m)
		}
		if err != nil {
			x.left()
			return
		}
	}
}

// left ends what waits for the proxy. An answer that has come whole is not given up.
func (x *exchange) left() {
	x.endBody(external.ErrLeft)
	if x.headed && x.body.Ended() {
		return
	}
	x.cancel()
	x.body.End(external.ErrLeft)
}

// take takes one message.
func (x *exchange) take(m *extprocv3.ProcessingRequest) error {
	switch v := m.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestBody:
		return x.takeBody(v.RequestBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		x.trailers[0].Store(true)
		x.endBody(nil)
		if !x.requestDuplex() {
			return x.reply(trailersReply(false))
		}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return x.takeAnswer(m, v.ResponseHeaders)
	case *extprocv3.ProcessingRequest_ResponseBody:
		return x.takeAnswerBody(v.ResponseBody)
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		if !x.headed {
			return x.reply(trailersReply(true))
		}
		x.trailers[1].Store(true)
		x.body.End(io.EOF)
		if !x.duplex() {
			return x.reply(trailersReply(true))
		}
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return errSecondRequest
	}
	return nil
}

// takeBody takes a piece of the request's body.
func (x *exchange) takeBody(b *extprocv3.HttpBody) error {
	select {
	case <-x.end:
		// it has been answered with an error, or nothing more came, or there was no room, or the last piece came again:
		// Envoy from 1.35 on sends it twice now and then in FULL_DUPLEX_STREAMED (envoyproxy/envoy issue 46237)
		if x.headed || len(b.GetBody()) == 0 || x.dropped || b.GetEndOfStream() {
			return nil
		}
		return errBodyAfterEnd
	default:
	}
	if x.pieces++; x.requestBuffered() || b.GetEndOfStream() && x.pieces == 1 {
		x.whole = external.Digest{}
		_, _ = x.whole.Write(b.GetBody())
	} else if x.pieces > 1 && !x.requestDuplex() && !x.modes.GetSendBodyWithoutWaitingForHeaderResponse() {
		err := status.Error(codes.FailedPrecondition, "the proxy sends the body on before an endpoint is chosen: "+
			"set request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED")
		x.endBody(err)
		return err
	}
	if n := len(b.GetBody()); n > 0 { // a pipe waits for a reader of nothing too
		if !x.claim(n - int(x.claimed.Load())) {
			return nil
		}
		_, _ = x.writing.Write(b.GetBody()) // it has no reader where the door has answered already
		x.unclaim()
	}
	if b.GetEndOfStream() || x.requestBuffered() {
		x.endBody(nil)
	}
	return nil
}

// announcedShare is the share of the memory of requests, one in so many, that is taken for bodies which have not come:
// clients that announce long ones and send them slowly leave the rest to others.
const announcedShare = 4

// announce takes memory for a body of which the length is known, unless much is taken for others that have not come:
// then it is counted when it comes.
func (x *exchange) announce(n int) bool {
	if x.s.announced.Add(int64(n)) > x.s.cfg.Memory.Memory().Limit/announcedShare {
		x.s.announced.Add(-int64(n))
		return true
	}
	x.awaited.Store(int64(n))
	return x.claim(n)
}

// claim takes memory of requests for a message with a piece of the body; where there is none, the body ends, and the
// door says why.
func (x *exchange) claim(n int) bool {
	if n <= 0 {
		return true
	}
	if !x.s.cfg.Memory.Take(n) {
		x.dropped = true
		x.endBody(body.ErrNoRoom)
		return false
	}
	x.claimed.Add(int64(n))
	return true
}

// unclaim gives it back.
func (x *exchange) unclaim() {
	x.s.cfg.Memory.Give(int(x.claimed.Swap(0)))
	x.s.announced.Add(-x.awaited.Swap(0))
}

// endBody ends the request's body, nil for its proper end. The first end counts.
func (x *exchange) endBody(err error) {
	_ = x.writing.CloseWithError(err)
	x.ending.Do(func() { close(x.end) })
}

// takeAnswer takes the header of the endpoint's answer.
func (x *exchange) takeAnswer(m *extprocv3.ProcessingRequest, head *extprocv3.HttpHeaders) error {
	if x.headed {
		return errSecondAnswer
	}
	if !x.carried.Load() || x.gone() { // no endpoint was named: the proxy sent the request on by itself
		return x.reply(headersReply(true, nil))
	}
	x.headed = true
	a := &answer{header: headersOf(head.GetHeaders()), bodiless: head.GetEndOfStream()}
	a.status, _ = strconv.Atoi(a.header.Get(":status"))
	a.by = m.GetMetadataContext().GetFilterMetadata()[metadataSpace].GetFields()[served].GetStringValue()
	x.elsewhere.Store(a.by != "" && a.by != x.address)
	if a.bodiless {
		x.body.End(io.EOF)
	}
	var err error
	if !x.duplex() {
		t := new(extprocv3.HeaderMutation)
		x.s.tells(x.told, a.by)
		for _, name := range slices.Sorted(maps.Keys(x.told)) {
			if values := x.told[name]; len(values) > 0 && !proxys(name) && !slices.Equal(a.header[name], values) {
				set(t, name, values...)
			}
		}
		err = x.reply(headersReply(true, t))
	}
	x.came <- a
	if a.status >= http.StatusBadRequest || a.bodiless {
		x.endBody(errAnswered)
	}
	return err
}

// gone reports whether the door has returned.
func (x *exchange) gone() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

// takeAnswerBody takes a piece of the endpoint's answer.
func (x *exchange) takeAnswerBody(b *extprocv3.HttpBody) error {
	if !x.headed { // it is nothing to the door
		if x.carried.Load() {
			x.s.warn(warnNoHeaders, "the proxy does not show the headers of answers: nothing is learnt from them, "+
				"and requests count as ended when their stream does; set response_header_mode: SEND")
		}
		if x.duplex() {
			return x.reply(bodyReply(true, piece(b.GetBody(), b.GetEndOfStream())))
		}
		return x.reply(bodyReply(true, nil))
	}
	x.endBody(errAnswered)
	n := len(b.GetBody())
	x.s.cfg.Memory.Add(n)
	_, _ = x.body.Write(b.GetBody())
	x.s.cfg.Memory.Give(n)
	if b.GetEndOfStream() {
		x.body.End(io.EOF)
	}
	if x.duplex() {
		return nil
	}
	if b.GetEndOfStream() {
		<-x.over
	} else {
		x.body.Taken()
	}
	out, events := x.w.take(), x.got != nil && strings.HasPrefix(x.got.header.Get("Content-Type"), "text/event-stream")
	if !events || !x.w.relays() || bytes.Equal(out, b.GetBody()) { // of other answers the length has been told
		return x.reply(bodyReply(true, nil))
	}
	return x.reply(bodyReply(true, replaced(out)))
}
