package extproc

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Names of the endpoint picker protocol.
const (
	destination   = "x-gateway-destination-endpoint"
	served        = "x-gateway-destination-endpoint-served"
	metadataSpace = "envoy.lb"
)

// chunkBytes is the largest piece of a body in one message: Envoy's stream of messages is of 64 kB frames, and llm-d's
// picker sends no more either.
const chunkBytes = 62_000

// errNoSubset says that no endpoint is among those that the proxy allows.
var errNoSubset = errors.New("none of the endpoints that the proxy allows is known here (" + subsetKey + ")")

// headersOf reads headers of a message into canonical names; pseudo headers stay as they are.
func headersOf(m *corev3.HeaderMap) http.Header {
	h := make(http.Header, len(m.GetHeaders()))
	for _, v := range m.GetHeaders() {
		name := http.CanonicalHeaderKey(v.GetKey())
		h[name] = append(h[name], value(v))
	}
	return h
}

// value is that of a header: Envoy sends it as bytes, others as text.
func value(v *corev3.HeaderValue) string {
	if raw := v.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return v.GetValue()
}

// set adds to a mutation the values of one header, in the place of those that it has.
func set(m *extprocv3.HeaderMutation, name string, values ...string) {
	action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	for _, v := range values {
		m.SetHeaders = append(m.SetHeaders, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(v)}, AppendAction: action,
		})
		action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
}

// difference is what makes of one header another. What ends at a proxy, and what the proxy says of its own client, is
// left as it is.
func difference(from, to http.Header) *extprocv3.HeaderMutation {
	m := new(extprocv3.HeaderMutation)
	for name, values := range to {
		if !proxys(name) && values != nil && !slices.Equal(from[name], values) {
			set(m, name, values...)
		}
	}
	for name := range from {
		if values, ok := to[name]; (!ok || len(values) == 0) && !proxys(name) {
			m.RemoveHeaders = append(m.RemoveHeaders, strings.ToLower(name))
		}
	}
	return m
}

// proxys reports whether a header is the proxy's affair.
func proxys(name string) bool {
	switch name {
	case "Host", "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Forwarded", "Via", "X-Real-Ip", "Expect", "Date":
		return true
	}
	return strings.HasPrefix(name, ":") || strings.HasPrefix(name, "X-Forwarded-") ||
		strings.HasPrefix(name, "X-Envoy-")
}

// named is the dynamic metadata that names endpoints, as the header does.
func named(addresses string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		metadataSpace: structpb.NewStructValue(&structpb.Struct{
			Fields: map[string]*structpb.Value{destination: structpb.NewStringValue(addresses)},
		}),
	}}
}

// headersReply answers the headers of a request or, with answer, of an answer.
func headersReply(answer bool, m *extprocv3.HeaderMutation) *extprocv3.ProcessingResponse {
	h := &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{HeaderMutation: m}}
	if answer {
		return &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: h},
		}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: h}}
}

// bodyReply answers a piece of a body. A nil mutation leaves it as it is.
func bodyReply(answer bool, m *extprocv3.BodyMutation) *extprocv3.ProcessingResponse {
	b := &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: m}}
	if answer {
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: b}}
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: b}}
}

// trailersReply answers trailers, which are never changed.
func trailersReply(answer bool) *extprocv3.ProcessingResponse {
	if answer {
		return &extprocv3.ProcessingResponse{
			Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}},
		}
	}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}},
	}
}

// piece is one piece of a body that is streamed in both directions.
func piece(b []byte, last bool) *extprocv3.BodyMutation {
	return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
		StreamedResponse: &extprocv3.StreamedBodyResponse{Body: b, EndOfStream: last},
	}}
}

// replaced is a body, or a piece of one, in the place of another.
func replaced(b []byte) *extprocv3.BodyMutation {
	if len(b) == 0 {
		return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_ClearBody{ClearBody: true}}
	}
	return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: b}}
}

// immediate has the proxy answer its client at once.
func immediate(code int, h http.Header, body []byte) *extprocv3.ProcessingResponse {
	m := new(extprocv3.HeaderMutation)
	for name, values := range h {
		if name != "Content-Length" && name != "Connection" && len(values) > 0 {
			set(m, name, values...)
		}
	}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}, Headers: m, Body: body, Details: "warmpath",
		}},
	}
}

// noEndpoints answers a request that no endpoint may serve.
func noEndpoints(err error) *extprocv3.ProcessingResponse {
	body := `{"error":{"message":` + strconv.Quote(err.Error()) +
		`,"type":"server_error","param":null,"code":"no_endpoint"}}`
	return immediate(http.StatusServiceUnavailable, http.Header{
		"Content-Type": {"application/json"}, "X-Llm-D-Request-Dropped-Reason": {"rejected-no-endpoints"},
	}, []byte(body))
}

// wantsAll asks the proxy to send the whole body before the request goes on, and to show the answer.
func wantsAll(answers filterv3.ProcessingMode_BodySendMode) *extprocv3.ProcessingResponse {
	if answers == filterv3.ProcessingMode_NONE {
		answers = filterv3.ProcessingMode_STREAMED
	}
	r := headersReply(false, nil)
	r.ModeOverride = &filterv3.ProcessingMode{
		RequestBodyMode: filterv3.ProcessingMode_BUFFERED, ResponseHeaderMode: filterv3.ProcessingMode_SEND,
		ResponseBodyMode: answers,
	}
	if answers == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED { // which needs them
		r.ModeOverride.ResponseTrailerMode = filterv3.ProcessingMode_SEND
	}
	return r
}
