package enginetest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
)

func (r *rig) fault(f enginetest.Fault) {
	r.t.Helper()
	if err := r.engine.SetFault(f); err != nil {
		r.t.Fatal(err)
	}
}

func TestStatusFaults(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	for _, tt := range []struct {
		f     enginetest.Fault
		want  int
		after string
	}{
		{enginetest.Fault{Kind: enginetest.Fault500}, 500, ""},
		{enginetest.Fault{Kind: enginetest.Fault503, RetryAfter: 2}, 503, "2"},
		{enginetest.Fault{Kind: enginetest.Fault429, RetryAfter: 1}, 429, "1"},
	} {
		r.fault(tt.f)
		resp, text := r.do("/v1/chat/completions", chatBody("a"))
		if resp.StatusCode != tt.want || resp.Header.Get("Retry-After") != tt.after ||
			!strings.Contains(text, `"error"`) {
			t.Errorf("%s: %d, Retry-After %q, %s", tt.f.Kind, resp.StatusCode, resp.Header.Get("Retry-After"), text)
		}
		if resp, _ := r.do("/health", ""); resp.StatusCode != 200 {
			t.Errorf("%s: health is %d", tt.f.Kind, resp.StatusCode)
		}
		tt.f.All = true
		r.fault(tt.f)
		if resp, _ := r.do("/health", ""); resp.StatusCode != tt.want {
			t.Errorf("%s for all: health is %d", tt.f.Kind, resp.StatusCode)
		}
	}
	r.fault(enginetest.Fault{Kind: enginetest.FaultNone})
	r.object("/v1/chat/completions", chatBody("a"))
}

func TestFaultEndsAfterCount(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	r.object("/_sim/fault", `{"kind":"500","count":2}`)
	var got []int
	for range 3 {
		resp, _ := r.do("/v1/chat/completions", chatBody("a"))
		got = append(got, resp.StatusCode)
	}
	if got[0] != 500 || got[1] != 500 || got[2] != 200 {
		t.Errorf("statuses %v, want 500 500 200", got)
	}
	if st := r.object("/_sim/stats", ""); number(t, st, "faulted") != 2 || number(t, st, "requests") != 3 {
		t.Errorf("stats = %v", st)
	}
}

func TestFaultsThatAreNone(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	for _, body := range []string{
		`{`, `{"kind":"flood"}`, `{"kind":"slow"}`, `{"kind":"500","count":-1}`, `{"kind":"500","colour":1}`,
	} {
		if resp, text := r.do("/_sim/fault", body); resp.StatusCode != 400 {
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
	}
	if got := at(t, r.object("/_sim/fault", ""), "kind"); got != "none" {
		t.Errorf("fault %v is on", got)
	}
}

func TestStreamsThatBreak(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	body := chatBody(longText, `,"max_tokens":20,"ignore_eos":true,"stream":true`)
	read := func() (string, error) {
		resp, err := r.try("/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}

	r.fault(enginetest.Fault{Kind: enginetest.FaultCut, AfterChunks: 5})
	text, err := read()
	if err == nil || strings.Contains(text, "[DONE]") {
		t.Errorf("cut: error %v after %s", err, text)
	}

	r.fault(enginetest.Fault{Kind: enginetest.FaultErrorEvent, AfterChunks: 5})
	text, err = read()
	evs := events(t, text)
	if err != nil || len(evs) != 1+5+1+1 || evs[7] != "[DONE]" {
		t.Fatalf("error event: %v in %s", err, text)
	}
	if got := number(t, parse(t, evs[6]), "error", "code"); got != 500 {
		t.Errorf("error event: code %d", got)
	}

	r.fault(enginetest.Fault{Kind: enginetest.FaultGarbage, AfterChunks: 5})
	if text, err = read(); err != nil || strings.Contains(text, "[DONE]") || !strings.Contains(text, "garbage") {
		t.Errorf("garbage: %v in %s", err, text)
	}

	// Without a stream the same faults give a closed connection, a 500 and broken JSON.
	plain := chatBody(longText, `,"max_tokens":20,"ignore_eos":true`)
	r.fault(enginetest.Fault{Kind: enginetest.FaultCut, AfterChunks: 5})
	if resp, err := r.try("/v1/chat/completions", plain); err == nil {
		_ = resp.Body.Close()
		t.Errorf("cut: status %d", resp.StatusCode)
	}
	r.fault(enginetest.Fault{Kind: enginetest.FaultErrorEvent, AfterChunks: 5})
	if resp, _ := r.do("/v1/chat/completions", plain); resp.StatusCode != 500 {
		t.Errorf("error event: status %d", resp.StatusCode)
	}
	if st := r.engine.Stats().Ranks[0]; st.HeldBlocks != 0 {
		t.Errorf("%d blocks are still held", st.HeldBlocks)
	}
}

func TestRefusedPort(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	r.object("/v1/chat/completions", chatBody("a"))
	r.fault(enginetest.Fault{Kind: enginetest.FaultRefuse})
	if resp, err := r.try("/health", ""); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a closed port answered %d", resp.StatusCode)
	}
	r.client.CloseIdleConnections()
	if _, err := r.try("/health", ""); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v, want a refused connection", err)
	}
	r.fault(enginetest.Fault{Kind: enginetest.FaultNone})
	if resp, _ := r.do("/health", ""); resp.StatusCode != 200 {
		t.Errorf("after it: %d", resp.StatusCode)
	}
}

func TestRestartEmptiesTheCache(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	r.object("/v1/chat/completions", chatBody(longText))
	id := at(t, r.object("/v1/responses", `{"model":"m","input":"hello"}`), "id").(string)
	r.fault(enginetest.Fault{Kind: enginetest.FaultRestart})
	v := r.object("/v1/chat/completions", chatBody(longText))
	if got := number(t, v, "usage", "prompt_tokens_details", "cached_tokens"); got != 0 {
		t.Errorf("%d cached tokens after a restart", got)
	}
	if resp, _ := r.do("/v1/responses/"+id, ""); resp.StatusCode != 404 {
		t.Errorf("a stored response outlived the restart: %d", resp.StatusCode)
	}
	if got := r.engine.Stats().Restarts; got != 1 {
		t.Errorf("restarts = %d", got)
	}
}

// A restart ends open streams without [DONE], by breaking the connection.
func TestRestartBreaksStreams(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Speed: 1})
	resp, err := r.try("/v1/chat/completions", chatBody("a", `,"max_tokens":20000,"ignore_eos":true,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.fault(enginetest.Fault{Kind: enginetest.FaultRestart})
	if rest, err := io.ReadAll(resp.Body); err == nil || strings.Contains(string(rest), "[DONE]") {
		t.Errorf("error %v after %s", err, rest)
	}
}

func TestHangEndsWithTheFault(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{})
	r.fault(enginetest.Fault{Kind: enginetest.FaultHang})
	ended := make(chan error)
	go func() {
		resp, err := r.try("/health", "")
		if err == nil {
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	for r.engine.Stats().Faulted == 0 { // until the request hangs
		runtime.Gosched()
	}
	select {
	case err := <-ended:
		t.Fatalf("it was answered: %v", err)
	default:
	}
	r.fault(enginetest.Fault{Kind: enginetest.FaultNone})
	if err := <-ended; err == nil {
		t.Error("the hanging request was answered")
	}
}

// A client that leaves cancels its job: in the stream, and before the first token of a plain request.
func TestDisconnectCancels(t *testing.T) {
	t.Parallel()
	for _, kind := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang, fleet.KindOllama} {
		r := start(t, enginetest.Options{Dialect: kind, Speed: 1})
		for i, stream := range []string{"true", "false"} {
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions",
				strings.NewReader(chatBody(longText, `,"max_tokens":20000,"ignore_eos":true,"stream":`+stream)))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				resp, err := r.client.Do(req)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}()
			for r.engine.Stats().Ranks[0].Running == 0 {
				runtime.Gosched()
			}
			leave()
			<-done
			for r.engine.Stats().Cancelled != uint64(i+1) {
				runtime.Gosched()
			}
			if st := r.engine.Stats(); st.Ranks[0].Running != 0 || st.Ranks[0].HeldBlocks != 0 {
				t.Errorf("%s stream=%s: after the client left: %+v", kind, stream, st.Ranks[0])
			}
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	r := start(t, enginetest.Options{Speed: 1})
	resp, err := r.try("/v1/chat/completions", chatBody("a", `,"max_tokens":20000,"ignore_eos":true,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := r.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if complete")
	}
	if _, err := r.engine.Listen("127.0.0.1:0"); err == nil {
		t.Error("a closed engine listens")
	}
}

// TestRefusedPortIsKept: nobody else gets the port of an engine that refuses connections, as another process did and
// answered in its place.
func TestRefusedPortIsKept(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ports are held on Linux only")
	}
	t.Parallel()
	for _, host := range []string{"127.0.0.1:0", "[::1]:0"} {
		engine, err := enginetest.New(enginetest.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.Close() })
		url, err := engine.Listen(host)
		if err != nil {
			t.Log(err) // no IPv6 here
			continue
		}
		addr := strings.TrimPrefix(url, "http://")
		open, err := net.Dial("tcp", addr) // a connection stays
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		for range 3 {
			if err := engine.SetFault(enginetest.Fault{Kind: enginetest.FaultRefuse}); err != nil {
				t.Fatal(err)
			}
			if l, err := net.Listen("tcp", addr); err == nil {
				_ = l.Close()
				t.Errorf("%s was given to somebody else", addr)
			}
			if c, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s: %v, %v; want that the connection is refused", addr, c, err)
			}
			if err := engine.SetFault(enginetest.Fault{Kind: enginetest.FaultNone}); err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
	}
}
