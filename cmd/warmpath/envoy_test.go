package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	none     = filterv3.ProcessingMode_NONE
	buffered = filterv3.ProcessingMode_BUFFERED
	streamed = filterv3.ProcessingMode_STREAMED
	duplex   = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
)

// envoy is a proxy that speaks external processing as Envoy 1.40 does: in its order of messages, and waiting where it
// waits.
type envoy struct {
	picker    extprocv3.ExternalProcessorClient
	request   filterv3.ProcessingMode_BodySendMode
	response  filterv3.ProcessingMode_BodySendMode
	free      bool // send_body_without_waiting_for_header_response
	overrides bool // allow_mode_override
	subset    []string
	ends      bool   // it takes an upgrade for a request without a body, as Envoy does not
	served    string // told in the place of the endpoint that was asked; "" for that
}

// exchanged is one request on its way through an envoy.
type exchanged struct {
	e      *envoy
	w      http.ResponseWriter
	r      *http.Request
	stream extprocv3.ExternalProcessor_ProcessClient
	header http.Header // of the request, as mutated
	path   string
	to     string // of the header, and of the metadata
	meta   string
}

// errAnswered says that the picker has answered the client itself.
var errAnswered = errors.New("answered")

const pieceBytes = 16 << 10

func (e *envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stream, err := e.picker.Process(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	x := &exchanged{e: e, w: w, r: r, stream: stream, header: r.Header.Clone(), path: r.URL.RequestURI()}
	switch err := x.run(); {
	case err == nil:
	case errors.Is(err, errAnswered):
	default:
		panic(http.ErrAbortHandler) // as Envoy resets the stream; before the answer it would be a 500
	}
}

func (x *exchanged) run() error {
	body, err := x.ask()
	if err != nil {
		return err
	}
	if x.to == "" || x.to != x.meta {
		return errors.New("header and metadata name " + x.to + ", " + x.meta)
	}
	out, err := http.NewRequestWithContext(x.r.Context(), x.r.Method, "http://"+strings.Split(x.to, ",")[0]+x.path,
		strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	out.Header = x.header
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return x.answer(&http.Response{
			StatusCode: http.StatusServiceUnavailable, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("upstream connect error")),
		})
	}
	defer res.Body.Close()
	return x.answer(res)
}

func headerMap(pseudo map[string]string, h http.Header) *corev3.HeaderMap {
	m := new(corev3.HeaderMap)
	add := func(k, v string) {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: strings.ToLower(k), RawValue: []byte(v)})
	}
	for k, v := range pseudo {
		add(k, v)
	}
	for k, list := range h {
		for _, v := range list {
			add(k, v)
		}
	}
	return m
}

// mutate changes a header as it is told, and returns the pseudo headers among that.
func mutate(h http.Header, m *extprocv3.HeaderMutation) (pseudo map[string]string) {
	pseudo = map[string]string{}
	for _, k := range m.GetRemoveHeaders() {
		h.Del(k)
	}
	for _, s := range m.GetSetHeaders() {
		k, v := s.GetHeader().GetKey(), string(s.GetHeader().GetRawValue())
		switch {
		case strings.HasPrefix(k, ":"):
			pseudo[k] = v
		case s.GetAppendAction() == corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			h.Set(k, v)
		default:
			h.Add(k, v)
		}
	}
	return pseudo
}

// next is the picker's next message. An immediate one is answered to the client.
func (x *exchanged) next() (*extprocv3.ProcessingResponse, error) {
	m, err := x.stream.Recv()
	if err != nil {
		return nil, err
	}
	if d := m.GetDynamicMetadata().GetFields()["envoy.lb"].GetStructValue().
		GetFields()["x-gateway-destination-endpoint"]; d != nil {
		x.meta = d.GetStringValue()
	}
	if i := m.GetImmediateResponse(); i != nil {
		mutate(x.w.Header(), i.GetHeaders())
		x.w.WriteHeader(int(i.GetStatus().GetCode()))
		_, _ = x.w.Write(i.GetBody())
		return nil, errAnswered
	}
	return m, nil
}

func (x *exchanged) takeRequest(m *extprocv3.HeaderMutation) {
	if p := mutate(x.header, m)[":path"]; p != "" {
		x.path = p
	}
	if to := x.header.Get("X-Gateway-Destination-Endpoint"); to != "" {
		x.to = to
		x.header.Del("X-Gateway-Destination-Endpoint")
	}
}

func (x *exchanged) sendBody(b []byte, last, answer bool) error {
	body := &extprocv3.HttpBody{Body: b, EndOfStream: last}
	m := &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: body}}
	if answer {
		m.Request = &extprocv3.ProcessingRequest_ResponseBody{ResponseBody: body}
	}
	return x.stream.Send(m)
}

// why is why a message could not be sent: a picker that has ended the stream has said it. Whoever receives asks.
func (x *exchanged) why(err error) error {
	for errors.Is(err, io.EOF) {
		if _, said := x.next(); said != nil {
			return said
		}
	}
	return err
}

// pieces sends a body in pieces, the last of which is empty as Envoy's often is.
func (x *exchanged) pieces(from io.Reader, answer bool) (n int, err error) {
	for {
		b := make([]byte, pieceBytes)
		got, err := from.Read(b)
		if got > 0 {
			n++
			if err := x.sendBody(b[:got], false, answer); err != nil {
				return n, err
			}
		}
		if err != nil {
			return n + 1, x.sendBody(nil, true, answer)
		}
	}
}

// ask shows the picker the request and returns the body that the endpoint is to be sent.
func (x *exchanged) ask() ([]byte, error) {
	e := x.e
	upgrade := x.r.Header.Get("Upgrade") != "" && !e.ends
	bodiless := x.r.ContentLength == 0 && !upgrade
	first := &extprocv3.ProcessingRequest{
		ProtocolConfig: &extprocv3.ProtocolConfiguration{
			RequestBodyMode: e.request, ResponseBodyMode: e.response, SendBodyWithoutWaitingForHeaderResponse: e.free,
		},
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(map[string]string{
				":method": x.r.Method, ":path": x.path, ":authority": x.r.Host, ":scheme": "http",
			}, x.r.Header),
			EndOfStream: bodiless,
		}},
	}
	if e.subset != nil {
		var list []any
		for _, s := range e.subset {
			list = append(list, s)
		}
		hint, err := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-subset": list})
		if err != nil {
			return nil, err
		}
		first.MetadataContext = &corev3.Metadata{
			FilterMetadata: map[string]*structpb.Struct{"envoy.lb.subset_hint": hint},
		}
	}
	if err := x.stream.Send(first); err != nil {
		return nil, err
	}
	for upgrade && x.to == "" { // its client sends nothing before it is granted
		m, err := x.next()
		if err != nil {
			return nil, err
		}
		x.takeRequest(m.GetRequestHeaders().GetResponse().GetHeaderMutation())
	}
	mode := e.request
	pieces := 0
	sent := make(chan error, 1)
	if !bodiless && (mode == duplex || e.free) {
		go func() {
			n, err := x.pieces(x.r.Body, false)
			pieces = n
			sent <- err
		}()
	} else {
		sent <- nil
	}
	m, err := x.next()
	if err != nil {
		return nil, err
	}
	h := m.GetRequestHeaders()
	if h == nil {
		return nil, errors.New("the headers were not answered first")
	}
	x.takeRequest(h.GetResponse().GetHeaderMutation())
	if o := m.GetModeOverride(); o != nil && e.overrides {
		mode = o.GetRequestBodyMode()
	}
	if bodiless {
		return nil, nil
	}
	switch {
	case mode == duplex:
		return x.takeStream()
	case e.free:
		if err := <-sent; err != nil {
			return nil, x.why(err)
		}
	case mode == none:
		return io.ReadAll(x.r.Body)
	case mode == buffered:
		all, err := io.ReadAll(x.r.Body)
		if err != nil {
			return nil, err
		}
		if err := x.sendBody(all, true, false); err != nil {
			return nil, x.why(err)
		}
		m, err := x.next()
		if err != nil {
			return nil, err
		}
		x.takeRequest(m.GetRequestBody().GetResponse().GetHeaderMutation())
		return changed(all, m.GetRequestBody()), nil
	default:
		if pieces, err = x.pieces(x.r.Body, false); err != nil {
			return nil, x.why(err)
		}
	}
	var body []byte
	for range pieces {
		m, err := x.next()
		if err != nil {
			return nil, err
		}
		body = append(body, changed(nil, m.GetRequestBody())...)
	}
	return body, nil
}

// changed is a piece of a body after the picker's answer to it.
func changed(b []byte, r *extprocv3.BodyResponse) []byte {
	switch m := r.GetResponse().GetBodyMutation().GetMutation().(type) {
	case *extprocv3.BodyMutation_Body:
		return m.Body
	case *extprocv3.BodyMutation_ClearBody:
		return nil
	}
	return b
}

// takeStream is the request's body as the picker streams it.
func (x *exchanged) takeStream() (body []byte, err error) {
	for {
		m, err := x.next()
		if err != nil {
			return nil, err
		}
		p := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		if p == nil {
			return nil, errors.New("the body was not streamed")
		}
		if len(p.GetBody()) > 64<<10 {
			return nil, errors.New("a piece is too large")
		}
		if body = append(body, p.GetBody()...); p.GetEndOfStream() {
			return body, nil
		}
	}
}

// answer shows the picker the endpoint's answer, and the client what it makes of it.
func (x *exchanged) answer(res *http.Response) error {
	served := x.e.served
	if served == "" {
		served = x.to
	}
	by, err := structpb.NewStruct(map[string]any{"x-gateway-destination-endpoint-served": served})
	if err != nil {
		return err
	}
	head := &extprocv3.ProcessingRequest{
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"envoy.lb": by}},
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers:     headerMap(map[string]string{":status": strconv.Itoa(res.StatusCode)}, res.Header),
			EndOfStream: res.ContentLength == 0,
		}},
	}
	if err := x.stream.Send(head); err != nil {
		return err
	}
	sent := make(chan error, 1)
	if x.e.response == duplex && res.ContentLength != 0 {
		go func() {
			_, err := x.pieces(res.Body, true)
			sent <- err
		}()
	}
	m, err := x.next()
	if err != nil {
		return err
	}
	if m.GetResponseHeaders() == nil {
		return errors.New("the answer's headers were not answered first")
	}
	h := res.Header.Clone()
	if x.e.response != buffered && x.e.response != none {
		h.Del("Content-Length")
	}
	mutate(h, m.GetResponseHeaders().GetResponse().GetHeaderMutation())
	for k, v := range h {
		x.w.Header()[k] = v
	}
	x.w.WriteHeader(res.StatusCode)
	if res.ContentLength == 0 {
		return x.stream.CloseSend()
	}
	flush := http.NewResponseController(x.w).Flush
	switch x.e.response {
	case duplex:
		for {
			m, err := x.next()
			if err != nil {
				return err
			}
			p := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			_, _ = x.w.Write(p.GetBody())
			if _ = flush(); p.GetEndOfStream() {
				_ = x.stream.CloseSend()
				return <-sent
			}
		}
	case none:
		_ = x.stream.CloseSend()
		_, err = io.Copy(x.w, res.Body)
		return err
	case buffered:
		all, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		return x.pass(all, true)
	}
	for {
		b := make([]byte, pieceBytes)
		n, err := res.Body.Read(b)
		if n > 0 {
			if err := x.pass(b[:n], false); err != nil {
				return err
			}
			_ = flush()
		}
		if errors.Is(err, io.EOF) {
			return x.pass(nil, true)
		}
		if err != nil {
			return err
		}
	}
}

// pass shows the picker a piece of the answer and writes what becomes of it.
func (x *exchanged) pass(b []byte, last bool) error {
	if err := x.sendBody(b, last, true); err != nil {
		return x.why(err)
	}
	m, err := x.next()
	if err != nil {
		return err
	}
	_, _ = x.w.Write(changed(b, m.GetResponseBody()))
	if last {
		return x.stream.CloseSend()
	}
	return nil
}
