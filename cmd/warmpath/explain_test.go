package main

import (
	"bytes"
	"encoding/json"
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
	"github.com/warmpath/warmpath/internal/explain"
)

// secret is in every prompt of these tests, and may be in nothing that explains them.
const secret = "the-secret-of-the-prompt"

// ask sends one streamed turn of a conversation and returns the answer's header.
func (r *rig) ask(t *testing.T, id, session string, words int, header ...string) http.Header {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"messages":[{"role":"user","content":%q}]}`,
		strings.Repeat(session+"-"+secret+" ", words))
	req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("X-Session-Id", session)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", res.StatusCode, b, err)
	}
	return res.Header
}

// explain runs the command against the rig.
func (r *rig) explain(t *testing.T, args ...string) (code int, out, log string) {
	var stdout, stderr bytes.Buffer
	t.Helper()
	code = Main(t.Context(), append([]string{"explain", "--admin", r.adminURL}, args...), nil, nil, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestDecisionsAreExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	r := newRig(t, 3, func(c *config.Config) {
		c.Policy.Name, c.Explain.File = "least_ttft", file
	})
	for i := range 6 {
		r.ask(t, fmt.Sprint("turn-", i), "talk", 200+20*i)
	}
	code, out, log := r.explain(t, "turn-5", "--json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var d explain.Decision
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if d.Request != "turn-5" || d.FirstTurn || d.Conversation != "talk" || d.Reason != "home" || d.Home != d.Endpoint ||
		d.Outcome != "ok" || !d.Stream || len(d.Candidates) != 3 || !d.Candidates[0].Chosen {
		t.Errorf("%+v", d)
	}
	// What was predicted, and what then came.
	p, o := d.Predicted, d.Observed
	if p.CachedTokens <= 0 || p.TTFTMs == nil || *p.TTFTMs <= 0 || o.CachedTokens == nil || *o.CachedTokens <= 0 ||
		o.PromptTokens == nil || o.TTFTMs == nil || *o.TTFTMs <= 0 || d.RegretMs == nil {
		t.Errorf("predicted %+v, observed %+v, regret %v", p, o, d.RegretMs)
	}
	if !strings.HasPrefix(d.Why, "The conversation is at "+d.Endpoint+": ") {
		t.Errorf("why: %s", d.Why)
	}
	code, out, log = r.explain(t, "--last", "2", "--endpoint", d.Endpoint)
	for _, want := range []string{
		"turn-5 -> " + d.Endpoint + "  (home)", "turn-4 -> ", "* " + d.Endpoint, "cached", "tokens predicted",
		"first token", "ok after",
	} {
		if code != exitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s: %q is not in\n%s", code, log, want, out)
		}
	}
	res, err := http.Get(r.adminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	for _, want := range []string{
		`warmpath_cached_tokens_prediction_error_ratio_count{pool="m"} 6`, `warmpath_regret_seconds_count{pool="m"} 6`,
		`warmpath_ttft_prediction_error_seconds_count{direction="early",pool="m"}`,
		`warmpath_cache_losses_total{endpoint="e0"} 0`, `warmpath_explain_lines_total{result="dropped"} 0`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(out+string(b), secret) {
		t.Error("prompt text is told")
	}
	lines, err := os.ReadFile(file)
	for err == nil && bytes.Count(lines, []byte("\n")) < 6 { // written beside the requests
		lines, err = os.ReadFile(file)
	}
	if err != nil || strings.Contains(string(lines), secret) || strings.Contains(string(lines), "127.0.0.1") {
		t.Errorf("%v: %s", err, lines)
	}
}

func TestExplainHeaders(t *testing.T) {
	for _, c := range []struct {
		name       string
		configured bool
		header     []string
		want       bool
	}{
		{"nobody asks", false, nil, false},
		{"the request asks", false, []string{"X-Warmpath-Explain", "1"}, true},
		{"asks for something else", false, []string{"X-Warmpath-Explain", "0"}, false},
		{"configured", true, nil, true},
	} {
		r := newRig(t, 1, func(cfg *config.Config) { cfg.Explain.Headers = c.configured })
		h := r.ask(t, "x", "s", 10, c.header...)
		if got := h.Get("X-Warmpath-Endpoint") == "e0" &&
			h.Get("X-Warmpath-Reason") == "only_candidate"; got != c.want {
			t.Errorf("%s: %v", c.name, h)
		}
		for k, v := range h {
			if strings.Contains(strings.Join(v, ""), strings.TrimPrefix(r.fleet.Status()[0].Endpoint.URL, "http://")) {
				t.Errorf("%s: %s tells the engine's address", c.name, k)
			}
		}
	}
}

func TestExplainSaysWhatToDo(t *testing.T) {
	r := newRig(t, 1, func(c *config.Config) { c.Admin.Token = "t0ken" })
	off := newRig(t, 1, func(c *config.Config) { c.Explain.Keep = 0 })
	for _, c := range []struct {
		name string
		rig  *rig
		args []string
		want string
	}{
		{"no token", r, []string{"--last", "1"}, "requires the admin token: give --token or set WARMPATH_ADMIN_TOKEN"},
		{
			"wrong token", r,
			[]string{"--last", "1", "--token", "wr0ng"},
			"refuses this admin token: it is that of admin.token",
		},
		{"nothing yet", r, []string{"--last", "1", "--token", "t0ken"}, "no decided request has ended yet"},
		{"ring off", off, []string{"--last", "1"}, "keeps no decisions: set explain.keep above 0 in its configuration"},
		{
			"the wrong listener", r,
			[]string{"--last", "1", "--admin", r.url},
			"--admin needs the admin address, not the address for clients",
		},
	} {
		if code, out, log := c.rig.explain(t, c.args...); code != exitRuntime || out != "" ||
			!strings.Contains(log, c.want) {
			t.Errorf("%s: exit code %d, %q, %q", c.name, code, out, log)
		}
	}
	r.ask(t, "known", "s", 10)
	for _, c := range []struct{ args, want string }{
		{
			"none-such",
			"request none-such does not run here, and is none of the 1 that were decided since the router began",
		},
		{"--last=5 --reason=leave", `fits --reason leave; did you mean "leaves"? valid: refused, `},
		{"--last=5 --endpoint=zz --reason=leaves", "none of the newest 1 decisions fits --endpoint zz --reason leaves"},
	} {
		if code, _, log := r.explain(t, append(strings.Fields(c.args), "--token", "t0ken")...); code != exitRuntime ||
			!strings.Contains(log, c.want) {
			t.Errorf("%s: exit code %d, %q", c.args, code, log)
		}
	}
}

// TestExplainRunning: of a request that runs explain says where it is, at once, and what became of its attempts before.
func TestExplainRunning(t *testing.T) {
	r := newRigOf(t, 2, slog.DiscardHandler, func(int, *config.Config) enginetest.Options {
		return enginetest.Options{Models: []string{"m"}, Speed: 0.05}
	}, func(*config.Config, int, *enginetest.Server) {})
	r.ask(t, "first", "s", 10)
	home := 0
	if _, out, _ := r.explain(t, "first"); strings.Contains(out, "first -> e1 ") {
		home = 1
	}
	if err := r.engines[home].SetFault(enginetest.Fault{Kind: enginetest.Fault500}); err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"m","stream":true,"max_tokens":5000,"messages":[{"role":"user","content":"x"}]}`
	req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "long")
	req.Header.Set("X-Session-Id", "s")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("long is still running: placed at e%d ", 1-home)
	code, out, log := r.explain(t, "long")
	if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, "it is being answered there") {
		t.Errorf("exit code %d, %q, %q", code, out, log)
	}
	failed := strings.Index(out, fmt.Sprintf("long -> e%d ", home))
	if failed < 0 || failed > strings.Index(out, want) {
		t.Errorf("the attempt that failed is not told before: %q", out)
	}
	if code, out, _ := r.explain(t, "long", "--json"); code != 0 || !strings.Contains(out, `"state":"answering"`) {
		t.Errorf("as JSON: exit code %d, %q", code, out)
	}
}

// TestExplainByAnOlderRouter: a router that does not say what runs is asked why as before; where nothing is found, that
// it does not say is told.
func TestExplainByAnOlderRouter(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/admin/decisions":
			http.NotFound(w, r)
		case r.URL.Query().Get("request") == "known":
			_, _ = io.WriteString(w, `{"decisions":[{"request":"known","endpoint":"e0"}],"kept":1,"total":1}`)
		default:
			_, _ = io.WriteString(w, `{"decisions":[],"kept":1,"total":1}`)
		}
	}))
	defer admin.Close()
	r := &rig{router: &router{adminURL: admin.URL}}
	if code, out, log := r.explain(t, "known"); code != exitOK || !strings.Contains(out, "known -> e0") {
		t.Errorf("exit code %d, %q, %q", code, out, log)
	}
	if code, _, log := r.explain(t, "other"); code != exitRuntime || !strings.Contains(log, "404") {
		t.Errorf("exit code %d, %q", code, log)
	}
}
