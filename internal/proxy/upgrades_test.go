package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestUpgradesNameTheirModel: messages of a WebSocket are not read. One that has to be placed by its model without
// naming it where it can is refused in words that say how, and one whose messages are requests, which have to be read,
// is sent to HTTP.
func TestUpgradesNameTheirModel(t *testing.T) {
	const refused, overHTTP = "model_required", "no_websocket"
	one := map[fleet.Kind]string{fleet.KindVLLM: "m", fleet.KindSGLang: "m"}
	two := map[fleet.Kind]string{fleet.KindVLLM: "m", fleet.KindSGLang: "n"}
	for _, tt := range []struct {
		name   string
		serve  map[fleet.Kind]string
		cfg    proxy.Config
		path   string
		header []string
		want   string // the engine's model, or the code of an error
	}{
		{"query", two, proxy.Config{}, "/v1/realtime?model=n", nil, "n"},
		{"header", two, proxy.Config{}, "/v1/realtime", []string{"X-Warmpath-Model", "n"}, "n"},
		{"header before query", two, proxy.Config{}, "/v1/realtime?model=m", []string{"X-Warmpath-Model", "n"}, "n"},
		{"alias", two, proxy.Config{}, "/v1/realtime?model=fast", nil, "n"},
		{"none", two, proxy.Config{}, "/v1/realtime", nil, refused},
		{"empty", two, proxy.Config{}, "/v1/realtime?model=", nil, refused},
		{"unknown", two, proxy.Config{}, "/v1/realtime?model=x", nil, "model_not_found"},
		{"none, one is served", one, proxy.Config{}, "/v1/realtime", nil, "m"},
		{"a path that is nobody's", two, proxy.Config{}, "/ws", nil, "m"},
		{"responses", two, proxy.Config{Transfers: true}, "/v1/responses", nil, overHTTP},
		{"responses, named", two, proxy.Config{Transfers: true}, "/v1/responses?model=n", nil, "n"},
		{"responses, one is served", one, proxy.Config{Transfers: true}, "/v1/responses", nil, "m"},
		{"responses, which may name transfers", two, proxy.Config{}, "/v1/responses?model=n", nil, overHTTP},
		{
			"responses, which may name others'", two,
			proxy.Config{Transfers: true, Tenants: tenants()},
			"/v1/responses?model=n", nil, overHTTP,
		},
		{"chat", one, proxy.Config{}, "/v1/chat/completions", nil, overHTTP},
		{"speech", one, proxy.Config{}, "/v1/audio/speech", nil, overHTTP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var declared []fleet.Endpoint
			for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
				model := tt.serve[kind]
				declared = append(declared, fleet.Endpoint{
					Name: string(kind), Kind: kind, Weight: 1,
					URL: serveEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if named := r.URL.Query().Get("model"); named != "" && named != model {
							t.Errorf("the engine of %s was asked for %s", model, named)
						}
						w.WriteHeader(http.StatusTeapot) // which passes as an answer to an upgrade
						_, _ = w.Write([]byte(model))
					})),
				})
			}
			rules := route.Config{Policy: func() pick.Policy { return inOrder{} }, Aliases: []fleet.Alias{
				{Name: "fast", Models: []string{"n"}},
			}}
			r := newRouter(t, tt.cfg, transportOf(t), rules, declared, func(k fleet.Kind) fleet.Report {
				return fleet.Report{Kind: k, Models: []fleet.Model{{ID: tt.serve[k]}}}
			})
			r.listen(t)
			res, answer := r.do("GET", tt.path,
				"", append(tt.header, "Connection", "Upgrade", "Upgrade", "websocket")...)
			switch status := res.StatusCode; {
			case len(tt.want) == 1:
				if status != http.StatusTeapot || answer != tt.want {
					t.Errorf("%d %s, want the engine of %s", status, answer, tt.want)
				}
			case !strings.Contains(answer, `"code":"`+tt.want+`"`):
				t.Errorf("%d %s, want %s", status, answer, tt.want)
			case tt.want == refused && (status != 400 || !strings.Contains(answer, "?model=NAME") ||
				!strings.Contains(answer, "X-Warmpath-Model")):
				t.Errorf("%d %s does not say how to name a model", status, answer)
			case tt.want == overHTTP &&
				(status != http.StatusUpgradeRequired || res.Header.Get("Upgrade") != "HTTP/1.1"):
				t.Errorf("%d %v %s", status, res.Header, answer)
			}
		})
	}
}

// TestUpgradesFindWhatWasJustLoaded: a WebSocket for a model that no list had when it was last read is placed by the
// lists as they are, as a request is.
func TestUpgradesFindWhatWasJustLoaded(t *testing.T) {
	engines := wire(func(*http.Request) (*http.Response, error) { return says(chatAnswer) })
	r := newFleet(t, proxy.Config{}, engines, []fleet.Endpoint{{Name: "e", URL: "http://e", Weight: 1}})
	r.relists(engines, func(string) func(context.Context) {
		r.fleet.Observe(route.Probed{Endpoint: "e", Report: fleet.Report{
			Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "new"}},
		}})
		return func(context.Context) {}
	})
	w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/realtime?model=new", http.NoBody)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	r.proxy.ServeHTTP(w, req)
	if w.Code != http.StatusOK { // which passes as an answer to an upgrade
		t.Errorf("%d %s", w.Code, w.Body)
	}
	r.booksBalance()
}

// TestUpgradesAreTriedElsewhere: an engine that does not grant a WebSocket for a reason of its own is followed by
// another one. What it says of the client's request reaches the client.
func TestUpgradesAreTriedElsewhere(t *testing.T) {
	const ask = "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	grants := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		_, _ = io.WriteString(conn,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = rw.ReadByte()
	}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	switches := func(header string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\n")
		}
	}
	for _, tt := range []struct {
		name   string
		first  http.HandlerFunc
		second http.HandlerFunc
		rest   string // of the request
		status int
		want   fleet.Outcome // of the first
	}{
		{"busy", answers(503, "{}"), grants, "\r\n", 101, fleet.Busy},
		{"limited", answers(429, "{}"), grants, "\r\n", 101, fleet.Busy},
		{"failing", answers(500, "{}"), grants, "\r\n", 101, fleet.EngineError},
		{"closing", cuts(), grants, "\r\n", 101, fleet.EngineError},
		{"silent", silent, grants, "\r\n", 101, fleet.TimedOut},
		{
			"switching to something else", switches("Connection: Upgrade\r\nUpgrade: h2c\r\n"), grants, "\r\n", 101,
			fleet.EngineError,
		},
		{"switching to nothing", switches(""), grants, "\r\n", 101, fleet.EngineError},
		{
			"both switching to nothing", switches("Upgrade: websocket\r\n"), switches(""), "\r\n", 502,
			fleet.EngineError,
		},
		{"without it", answers(404, "{}"), grants, "\r\n", 101, fleet.ClientError},
		{"without it, as uvicorn says that", answers(403, ""), grants, "\r\n", 101, fleet.ClientError},
		{"both without it", answers(404, "{}"), answers(404, "{}"), "\r\n", 426, fleet.ClientError},
		{"both failing", answers(500, "{}"), answers(502, "{}"), "\r\n", 502, fleet.EngineError},
		{"busy, with a body", answers(503, "{}"), grants, "Content-Length: 1\r\n\r\nx", 503, fleet.OK},
		{"refusing the client", answers(401, "{}"), grants, "\r\n", 401, fleet.OK},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			r := newRig(t, proxy.Config{FirstByte: 100 * time.Millisecond}, tt.first, tt.second)
			if res, _ := r.raw(ask + tt.rest); res.StatusCode != tt.status {
				t.Errorf("%d, want %d", res.StatusCode, tt.status)
			}
			want := []string{"e0 " + tt.want.String()}
			if tt.want == fleet.OK {
				want = nil
			}
			if !slices.Equal(r.retry, want) {
				t.Errorf("retries %q, want %q", r.retry, want)
			}
		}))
	}
}

// TestUpgradesEndInWords: a WebSocket that the router itself ends, at the end of a drain or after a long silence, gets
// a close frame with 1001 where the engine's last frame is whole, and nothing else anywhere else.
func TestUpgradesEndInWords(t *testing.T) {
	const goingAway = "\x88\x02\x03\xe9"
	long := strings.Repeat("x", 300)
	huge := strings.Repeat("x", 70_000)
	for _, tt := range []struct {
		name, protocol string
		pieces         []string // that the engine sends
		ends           bool     // the engine ends it
		silent         bool     // the router ends it for that
		want           string   // beside the pieces
	}{
		{"nothing sent", "websocket", nil, false, false, goingAway},
		{"a message", "WebSocket", []string{"\x81\x05hello"}, false, false, goingAway},
		{"silence", "websocket", []string{"\x81\x05hello"}, false, true, goingAway},
		{"one of no bytes, one by one", "websocket", []string{"\x89", "\x00"}, false, false, goingAway},
		{"long", "websocket", []string{"\x82\x7e\x01\x2c" + long, "\x01\x01a"}, false, false, goingAway},
		{"huge", "websocket", []string{"\x82\x7f\x00\x00\x00\x00\x00\x01\x11\x70", huge}, false, false, goingAway},
		{"masked", "websocket", []string{"\x81\x83\x88\x02\x03\xe9abc"}, false, false, goingAway},
		{"within a frame", "websocket", []string{"\x81\x05hell"}, false, false, ""},
		{"within a head", "websocket", []string{"\x81\x7e\x01"}, false, false, ""},
		{"after the engine's own", "websocket", []string{"\x88\x02\x03\xe8"}, false, false, ""},
		{"another protocol", "echo", []string{"\x81\x05hello"}, false, false, ""},
		{"the engine ends it", "websocket", []string{"\x81\x05hello"}, true, false, ""},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			over := make(chan struct{})
			r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, _ := http.NewResponseController(w).Hijack()
				defer conn.Close()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
					tt.protocol+"\r\n\r\n")
				for _, p := range tt.pieces {
					_, _ = io.WriteString(conn, p)
				}
				if !tt.ends {
					<-over
				}
			})
			defer close(over)
			conn, err := dialTo(t, strings.TrimPrefix(r.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn,
				"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: "+tt.protocol+"\r\n\r\n")
			in := bufio.NewReader(conn)
			if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
				t.Fatalf("%v %v", res, err)
			}
			sent := make([]byte, len(strings.Join(tt.pieces, "")))
			if _, err := io.ReadFull(in, sent); err != nil || string(sent) != strings.Join(tt.pieces, "") {
				t.Fatalf("got %d bytes, %v", len(sent), err)
			}
			if !tt.silent && !tt.ends {
				r.proxy.Abort()
			}
			if rest, _ := io.ReadAll(in); string(rest) != tt.want {
				t.Errorf("at the end: %q, want %q", rest, tt.want)
			}
		}))
	}
}
