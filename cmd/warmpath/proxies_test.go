//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/freeport"
)

// TestLinesOfProxies: the lines of docs/proxies.md in the programs that they are for, as far as these are installed.
// The events of a stream come one by one, a large body passes, and a client that leaves before the first byte stops the
// engine.
func TestLinesOfProxies(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxies.md")
	if err != nil {
		t.Fatal(err)
	}
	production, err := os.ReadFile("../../deploy/production/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := func(kind string) string {
		t.Helper()
		m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("docs/proxies.md has no lines for %s", kind)
		}
		return string(m[1])
	}
	plain, _, _ := strings.Cut(string(production), "    transport_socket:")
	for _, c := range []struct {
		program string
		file    string // $AT is where clients come, $TO the router, $DIR a folder
		args    []string
		header  int // the longest that it takes, in bytes
	}{
		{
			"nginx", "daemon off; master_process off; pid $DIR/pid; error_log stderr; events {}\nhttp {\n" +
				"access_log off; client_body_temp_path $DIR/1; proxy_temp_path $DIR/2; fastcgi_temp_path $DIR/3; " +
				"uwsgi_temp_path $DIR/4; scgi_temp_path $DIR/5;\n" +
				strings.NewReplacer("listen 80;", "listen $AT;", "127.0.0.1:8080", "$TO").Replace(lines("nginx")) +
				"}\n",
			[]string{"-p", "$DIR", "-c", "$FILE"},
			30_000,
		},
		{
			"haproxy", strings.NewReplacer("bind :80", "bind $AT", "127.0.0.1:8080", "$TO").Replace(lines("haproxy")),
			[]string{"-db", "-f", "$FILE"},
			12_000,
		},
		{
			"caddy", strings.NewReplacer(
				"  servers {", "  admin off\n  servers {", "llm.example.com", "http://$AT", "127.0.0.1:8080", "$TO",
			).Replace(lines("caddyfile")),
			[]string{"run", "--config", "$FILE", "--adapter", "caddyfile"},
			30_000,
		},
		{
			"envoy", strings.NewReplacer(
				"0.0.0.0, port_value: 8080", "127.0.0.1, port_value: $AT", "10.0.0.11, port_value: 8443",
				"127.0.0.1, port_value: $TO",
			).Replace(regexp.MustCompile(`(?m)^.*10\.0\.0\.1[23].*\n`).ReplaceAllString(plain, "")),
			[]string{"--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c", "$FILE"},
			30_000,
		},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			program := ""
			if c.program == "envoy" {
				program = needEnvoy(t)
			} else {
				program = installed(t, c.program)
			}
			asked, left, next := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch q.URL.Path {
				case "/v1/models":
					_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}`)
				case "/v1/completions": // never answered
					_, _ = io.Copy(io.Discard, q.Body)
					asked <- struct{}{}
					<-q.Context().Done()
					left <- struct{}{}
				case "/v1/chat/completions":
					_, _ = io.Copy(io.Discard, q.Body)
					w.Header().Set("Content-Type", "text/event-stream")
					for i := range 3 {
						_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"%d\"}}]}\n\n", i)
						_ = http.NewResponseController(w).Flush()
						select {
						case <-next:
						case <-q.Context().Done():
							return
						}
					}
					_, _ = io.WriteString(w, "data: [DONE]\n\n")
				}
			}))
			t.Cleanup(engine.Close)
			r := newRig(t, 0, func(cfg *config.Config) {
				cfg.Endpoints = []discovery.EndpointConfig{{URL: engine.URL, Name: "e0"}}
			})
			dir, at, to := t.TempDir(), freeport.Address(), strings.TrimPrefix(r.url, "http://")
			from := []string{"$AT", at, "$TO", to, "$DIR", dir, "$FILE", filepath.Join(dir, "conf")}
			if c.program == "envoy" {
				from[1], from[3] = at[strings.LastIndex(at, ":")+1:], to[strings.LastIndex(to, ":")+1:]
				from[7] += ".yaml"
			}
			fill := strings.NewReplacer(from...)
			if err := os.WriteFile(from[7], []byte(fill.Replace(c.file)), 0o600); err != nil {
				t.Fatal(err)
			}
			var args []string
			for _, a := range c.args {
				args = append(args, fill.Replace(a))
			}
			p := run(t, program, args...)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			p.await("the router is reached", func() bool {
				res, err := client.Get("http://" + at + "/v1/models")
				if err != nil {
					return false
				}
				return res.Body.Close() == nil && res.StatusCode == http.StatusOK
			})
			ask := func(ctx context.Context, path, text string) (*http.Response, error) {
				q, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+path, strings.NewReader(text))
				q.Header.Set("X-Long", strings.Repeat("x", c.header))
				return client.Do(q)
			}

			res, err := ask(t.Context(), "/v1/chat/completions", `{"model":"m","stream":true,"messages":[`+
				`{"role":"user","content":"`+strings.Repeat("word ", 600_000)+`"}]}`)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatal(res, err)
			}
			for i, got, buf := 0, "", make([]byte, 4096); i < 3; {
				n, err := res.Body.Read(buf)
				if got += string(buf[:n]); err != nil {
					t.Fatalf("%v after %q", err, got)
				}
				if strings.Count(got, "\n\n") > i { // the engine sends the next one after this
					i++
					next <- struct{}{}
				}
			}
			if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "data: [DONE]\n\n" {
				t.Errorf("the end: %q, %v", rest, err)
			}

			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-asked
				leave()
			}()
			if res, err := ask(ctx, "/v1/completions", `{"model":"m","prompt":"x"}`); err == nil {
				t.Errorf("an answer: %d", res.StatusCode)
			}
			leave()
			p.await("the engine sees that the client has left", func() bool { return len(left) > 0 })
		})
	}
}
