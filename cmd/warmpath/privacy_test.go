package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestPromptsAreWrittenNowhere: with all that can be written switched on, and logs at their most talkative, neither
// prompts nor answers nor keys are in what the router writes or its admin API tells, for requests that succeed, fail,
// and cannot be read.
func TestPromptsAreWrittenNowhere(t *testing.T) {
	t.Parallel()
	const prompt, answer, key = "marzipan-lighthouse", "quince-marmalade", "sk-walrus-secret"
	_, sim := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	// it fails, and repeats what it was asked
	parrot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"parrot"}]}`)
		case r.Method == http.MethodGet:
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n"+
				"data: {\"error\":{\"message\":%q,\"code\":500}}\n\n", answer, body)
		default:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, body)
		}
	}))
	defer parrot.Close()

	dir := t.TempDir()
	cfg, err := config.Parse("f", fmt.Appendf(nil, `
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
probe: {interval: 50ms, load_interval: 50ms, timeout: 2m}
log: {level: debug, requests: true}
access_log: %s/access.jsonl
explain: {headers: true, file: %[1]s/decisions.jsonl}
record: {file: %[1]s/traffic.jsonl}
shadow: {policies: [round_robin]}
tenants: {api_keys: [{tenant: a, key: %[2]s}]}
endpoints: [{url: %[3]q}, {url: %[4]q, models: [parrot]}]
`, dir, key, sim, parrot.URL), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	r, err := start(context.Background(), &cfg, thisBuild(),
		slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	r.waitReady(t.Context(), aWhile)

	chat := `{"model":"%s","stream":%t,"max_tokens":3,"messages":[{"role":"system","content":"` + prompt +
		`"},{"role":"user","content":"` + prompt + `"}],"tools":[{"type":"function","function":{"name":"` +
		prompt + `"}}]}`
	asked := []struct {
		path, body string
		status     int
	}{
		{"/v1/chat/completions", fmt.Sprintf(chat, "m", true), 200},
		{"/v1/chat/completions", fmt.Sprintf(chat, "m", false), 200},
		{"/v1/completions", `{"model":"m","max_tokens":3,"prompt":"` + prompt + `"}`, 200},
		{"/v1/responses", `{"model":"m","max_output_tokens":3,"input":"` + prompt + `"}`, 200},
		{"/v1/messages", `{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"` + prompt + `"}]}`, 200},
		{"/v1/chat/completions", fmt.Sprintf(chat, "parrot", true), 200},
		{"/v1/chat/completions", fmt.Sprintf(chat, "parrot", false), 500},
		{"/v1/chat/completions", `{"model":"m","messages":"` + prompt, 400},
		{"/v1/chat/completions", `["` + prompt + `"]`, 400},
		{"/v1/chat/completions", fmt.Sprintf(chat, "nobody", false), 404},
	}
	for _, a := range asked {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+a.path+"?q="+prompt,
			strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != a.status {
			t.Errorf("%s %s: %d, want %d", a.path, a.body, res.StatusCode, a.status)
		}
	}

	written := map[string]string{}
	for _, path := range []string{
		"/metrics", "/admin/decisions?last=100", "/admin/endpoints", "/admin/stats", "/admin/config",
		"/admin/shadow", "/",
	} {
		status := 0
		if status, written[path] = fetched(t, http.MethodGet, r.adminURL+path, ""); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
	}
	if err := r.stop(t.Context()); err != nil {
		t.Error(err)
	}
	written["the log"] = log.String()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 4 {
		t.Errorf("%d files were written, want 3 and a claim: %v", len(files), files)
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		written[f.Name()] = string(text)
	}
	for where, text := range written {
		if claim := strings.HasSuffix(where, ".lock"); claim != (text == "") {
			t.Errorf("%s: %d bytes were written", where, len(text))
		}
		for _, secret := range []string{prompt, answer, key} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has %s: %s", where, secret, text[max(0, i-200):i+len(secret)])
			}
		}
	}
}
