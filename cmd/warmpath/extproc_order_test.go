package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"testing"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"pgregory.net/rapid"
)

// messages are what a proxy may send after a request's headers. It may send them in any order and as often as it likes.
func messages(body string) []*extprocv3.ProcessingRequest {
	half := len(body) / 2
	request := func(b string, last bool) *extprocv3.ProcessingRequest {
		return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(b), EndOfStream: last},
		}}
	}
	head := func(status string, last bool) *extprocv3.ProcessingRequest {
		return &extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
				Headers: headerMap(map[string]string{":status": status}, map[string][]string{
					"Content-Type": {"text/event-stream"},
				}), EndOfStream: last,
			}},
		}
	}
	answer := func(b string, last bool) *extprocv3.ProcessingRequest {
		return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
			ResponseBody: &extprocv3.HttpBody{Body: []byte(b), EndOfStream: last},
		}}
	}
	return []*extprocv3.ProcessingRequest{
		request(body, true), request(body[:half], false), request(body[half:], true), request("", true),
		request("", false),
		{Request: &extprocv3.ProcessingRequest_RequestTrailers{RequestTrailers: &extprocv3.HttpTrailers{}}},
		head("200", false), head("200", true), head("503", false), head("", false),
		answer("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", false), answer("data: [DONE]\n\n", true),
		answer("", true), answer("", false),
		{Request: &extprocv3.ProcessingRequest_ResponseTrailers{ResponseTrailers: &extprocv3.HttpTrailers{}}},
		{Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{}}},
		{},
	}
}

// TestExternalProcessingAnyOrder: whatever a proxy sends, in whatever order, and wherever its stream ends: each lease
// ends once, and nothing is left that waits.
func TestExternalProcessingAnyOrder(t *testing.T) {
	e := new(envoy)
	r, _ := newEnvoy(t, e, nil)
	all := messages(chat(true, "What is a router?"))
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]filterv3.ProcessingMode_BodySendMode{none, buffered, streamed, duplex})
		drawn := rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 0, 8).Draw(t, "messages")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stream, err := e.picker.Process(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended, named := make(chan struct{}), make(chan struct{}, 1)
		go func() {
			defer close(ended)
			for {
				m, err := stream.Recv()
				if err != nil {
					return
				}
				if m.GetDynamicMetadata() != nil {
					named <- struct{}{}
				}
			}
		}()
		asks := rapid.Bool().Draw(t, "asks")
		_ = stream.Send(&extprocv3.ProcessingRequest{
			ProtocolConfig: &extprocv3.ProtocolConfiguration{
				RequestBodyMode: mode.Draw(t, "request"), ResponseBodyMode: mode.Draw(t, "answer"),
				SendBodyWithoutWaitingForHeaderResponse: rapid.Bool().Draw(t, "free"),
			},
			Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
				Headers: headerMap(map[string]string{
					":method": "POST", ":path": "/v1/chat/completions", ":authority": "x",
				}, nil),
				EndOfStream: !asks && rapid.IntRange(0, 9).Draw(t, "bodiless") == 0,
			}},
		})
		if asks { // and what else is drawn comes when an endpoint has been named
			_ = stream.Send(all[0])
			select {
			case <-named:
			case <-ended:
				t.Fatal("no endpoint was named")
			}
		}
		for _, i := range drawn {
			if stream.Send(all[i]) != nil {
				break
			}
		}
		if rapid.Bool().Draw(t, "closed") {
			_ = stream.CloseSend()
		} else {
			cancel()
		}
		<-ended
	})
	eventually(t, "all leases have ended", func() bool { return r.fleet.Stats().Leases == 0 })
	if n := r.fleet.Stats().DoubleFinished; n > 0 {
		t.Errorf("%d leases ended twice", n)
	}
	eventually(t, "nothing of a request is left", func() bool {
		stacks := make([]byte, 8<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("extproc.(*exchange)"))
	})
}

// TestExternalProcessingEarlyAnswer: an answer that comes before the client has sent all of an upload reaches the
// client at once, since the client may wait for it; what it still sends is dropped.
func TestExternalProcessingEarlyAnswer(t *testing.T) {
	for _, row := range []struct {
		response filterv3.ProcessingMode_BodySendMode
		status   string
	}{{duplex, "413"}, {streamed, "413"}, {duplex, "200"}, {streamed, "200"}} {
		t.Run(row.response.String()+" "+row.status, func(t *testing.T) {
			e := new(envoy)
			r, _ := newEnvoy(t, e, nil)
			stream, err := e.picker.Process(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			send := func(m *extprocv3.ProcessingRequest) {
				t.Helper()
				if err := stream.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			hear := func(so func(*extprocv3.ProcessingResponse) bool) {
				t.Helper()
				for {
					m, err := stream.Recv()
					if err != nil {
						t.Fatal(err)
					}
					if so(m) {
						return
					}
				}
			}
			piece := func(b string) *extprocv3.ProcessingRequest {
				return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
					RequestBody: &extprocv3.HttpBody{Body: []byte(b)},
				}}
			}
			send(&extprocv3.ProcessingRequest{
				ProtocolConfig: &extprocv3.ProtocolConfiguration{
					RequestBodyMode: duplex, ResponseBodyMode: row.response,
				},
				Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
					Headers: headerMap(map[string]string{
						":method": "POST", ":path": "/v1/audio/transcriptions", ":authority": "x",
					}, map[string][]string{"Content-Type": {"audio/wav"}}),
				}},
			})
			send(piece("the first words"))
			hear(func(m *extprocv3.ProcessingResponse) bool { return m.GetDynamicMetadata() != nil })
			send(&extprocv3.ProcessingRequest{
				Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
					Headers: headerMap(map[string]string{":status": row.status}, nil),
				}},
			})
			send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
				ResponseBody: &extprocv3.HttpBody{Body: []byte("too long"), EndOfStream: true},
			}})
			_ = stream.Send(piece("and more")) // the stream may have ended well by now
			hear(func(m *extprocv3.ProcessingResponse) bool { return m.GetResponseHeaders() != nil })
			hear(func(m *extprocv3.ProcessingResponse) bool { return m.GetResponseBody() != nil })
			_ = stream.CloseSend()
			eventually(t, "all leases have ended", func() bool { return r.fleet.Stats().Leases == 0 })
		})
	}
}

// TestExternalProcessingBodyAfterItsEnd: a piece of a request's body after its end ends the stream, and does not change
// what is being sent.
func TestExternalProcessingBodyAfterItsEnd(t *testing.T) {
	e := new(envoy)
	r, _ := newEnvoy(t, e, nil)
	stream, err := e.picker.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&extprocv3.ProcessingRequest{
		ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: buffered, ResponseBodyMode: streamed},
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(map[string]string{
				":method": "POST", ":path": "/v1/chat/completions", ":authority": "x",
			}, nil),
		}},
	})
	all := messages(chat(true, "What is a router?"))
	_ = stream.Send(all[0])
	_ = stream.Send(all[1])
	for err == nil {
		_, err = stream.Recv()
	}
	if err == io.EOF || t.Context().Err() != nil {
		t.Errorf("the stream ended with %v", err)
	}
	eventually(t, "all leases have ended", func() bool { return r.fleet.Stats().Leases == 0 })
}

// TestExternalProcessingLastPieceTwice: the last piece of a request's body may come again (envoyproxy/envoy issue
// 46237): it is no part of the body, and the request goes where it would have gone.
func TestExternalProcessingLastPieceTwice(t *testing.T) {
	e := new(envoy)
	r, _ := newEnvoy(t, e, nil)
	for name, pieces := range map[string][]int{"whole": {0, 0}, "in pieces": {1, 2, 2}, "three times": {1, 2, 2, 2}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := e.picker.Process(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.Send(&extprocv3.ProcessingRequest{
				ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: duplex, ResponseBodyMode: duplex},
				Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
					Headers: headerMap(map[string]string{
						":method": "POST", ":path": "/v1/chat/completions", ":authority": "x",
					}, nil),
				}},
			})
			body := chat(true, "What is a router?")
			all := messages(body)
			for _, i := range pieces {
				_ = stream.Send(all[i])
			}
			var got []byte
			for last := false; !last; {
				m, err := stream.Recv()
				if err != nil || m.GetImmediateResponse() != nil {
					t.Fatalf("%v, %v", err, m)
				}
				piece := m.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
				got, last = append(got, piece.GetBody()...), piece.GetEndOfStream()
			}
			if !bytes.Contains(got, []byte("What is a router?")) || !json.Valid(got) {
				t.Errorf("the endpoint gets %q", got)
			}
			cancel()
			eventually(t, "all leases have ended", func() bool { return r.fleet.Stats().Leases == 0 })
		})
	}
}
