package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

// installed is the path of a program that is in PATH or where daemons are; without it the test is skipped.
func installed(t *testing.T, program string) string {
	t.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip(program + " is not installed: this test runs the real one")
	return ""
}

// behindNginx is a client of a real nginx before an address, with nothing but proxy_pass to an upstream named llm.
func behindNginx(t *testing.T, address string) *http.Client {
	t.Helper()
	program := installed(t, "nginx")
	dir, err := os.MkdirTemp("", "nginx") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, file := filepath.Join(dir, "s"), filepath.Join(dir, "conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr notice;
events {}
http {
  access_log off; client_body_temp_path %[1]s/1; proxy_temp_path %[1]s/2; fastcgi_temp_path %[1]s/3; uwsgi_temp_path %[1]s/4; scgi_temp_path %[1]s/5;
  upstream llm { server %[2]s; }
  server { listen unix:%[3]s; location / { proxy_pass http://llm; } }
}
`, dir, address, socket)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", dir, "-c", file)
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said strings.Builder
	for lines := bufio.NewScanner(says); ; {
		if !lines.Scan() {
			t.Fatalf("nginx does not start: %s", said.String())
		}
		// it listens before it says so
		if said.WriteString(lines.Text() + "\n"); strings.Contains(lines.Text(), "event method") {
			break
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// TestNginxInFront: what nginx does by default suffices. Requests pass under its upstream's name, the events of a
// stream come one by one, and a browser that comes through it is told what to set.
func TestNginxInFront(t *testing.T) {
	t.Parallel()
	const events = 5
	read := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}`)
		case "/v1/chat/completions":
			body, _ := io.ReadAll(q.Body)
			if !strings.Contains(string(body), `"stream":true`) {
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}]}`)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range events {
				_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-read: // the next one is sent once the client has read this one
				case <-q.Context().Done():
					return
				}
			}
			_, _ = io.WriteString(w, "data: [DONE]\n\n")
		}
	}))
	t.Cleanup(engine.Close)
	r := newRig(t, 0, func(c *config.Config) {
		c.Endpoints = []discovery.EndpointConfig{{URL: engine.URL, Name: "e0"}}
	})
	client := behindNginx(t, strings.TrimPrefix(r.url, "http://"))
	ask := func(body string, header ...string) *http.Response {
		t.Helper()
		req, _ := http.NewRequest(http.MethodPost, "http://anything/v1/chat/completions", strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	for range 3 {
		res := ask(`{"model":"m","messages":[]}`)
		if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || !strings.Contains(string(b), `"hi"`) {
			t.Fatalf("%d %s %v", res.StatusCode, b, err)
		}
	}

	res := ask(`{"model":"m","messages":[],"stream":true}`)
	got, buf := 0, make([]byte, 4096)
	for got < events {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatalf("after %d events: %v", got, err)
		}
		switch strings.Count(string(buf[:n]), "\n\n") {
		case 0: // a part of one
		case 1:
			got++
			read <- struct{}{}
		default:
			t.Fatalf("events come together: %s", buf[:n])
		}
	}
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "data: [DONE]\n\n" {
		t.Errorf("the end: %q, %v", rest, err)
	}

	res = ask(`{"model":"m","messages":[]}`, "Accept-Language", "en", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Site",
		"same-origin", "Origin", "http://llm.example")
	if b, _ := io.ReadAll(res.Body); res.StatusCode != 403 || !strings.Contains(string(b), "foreign_host") ||
		!strings.Contains(string(b), "WARMPATH_HOSTS=llm)") {
		t.Errorf("a browser: %d %s", res.StatusCode, b)
	}
}
