package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// fileRig is a router that was started with a configuration file.
type fileRig struct {
	*router
	t    *testing.T
	path string
}

// newFileRig starts a router with the file, without watching it unless the file says so.
func newFileRig(t *testing.T, text string) *fileRig {
	t.Helper()
	f := &fileRig{t: t, path: filepath.Join(t.TempDir(), "warmpath.yaml")}
	f.write(text)
	load := func() (config.Config, error) {
		cfg, err := config.Load(f.path, nil)
		if err != nil {
			return cfg, err
		}
		cfg.Admin.Token, err = cfg.AdminToken()
		return cfg, err
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	journal := newJournal(io.Discard, thisBuild(), &cfg)
	t.Cleanup(func() { journal.Close(logWait) })
	if f.router, err = start(context.Background(), &cfg, thisBuild(), journal.Logger); err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, f.router)
	f.reloadable(f.path, load, journal.follow)
	f.waitReady(context.Background(), aWhile)
	return f
}

func (f *fileRig) write(text string) {
	f.t.Helper()
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path); err != nil {
		f.t.Fatal(err)
	}
}

// stats are what the admin API says of the configuration.
func (f *fileRig) stats() admin.Running {
	f.t.Helper()
	_, text := fetched(f.t, "GET", f.adminURL+"/admin/stats", "")
	var v struct{ Config admin.Running }
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		f.t.Fatalf("%v: %s", err, text)
	}
	return v.Config
}

const reloadable = `
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
reload: {watch: %t}
probe: {interval: 50ms, load_interval: 50ms, timeout: 2m}
health: {ramp: 100ms}
policy: %s
tenants: {api_keys: [{tenant: a, key: %s}], required: %t}
endpoints: [%s]
`

// ask sends a chat with a key and returns the status and the body.
func (f *fileRig) ask(key string, tokens int) (int, string) {
	f.t.Helper()
	body := fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"the lighthouse"}]}`, tokens)
	req, err := http.NewRequest("POST", f.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// TestReloadLosesNothing: streams that are open go on to their end while policy, keys and endpoints change under them,
// and what comes meanwhile is answered.
func TestReloadLosesNothing(t *testing.T) {
	t.Parallel()
	_, slow := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 2})
	_, other := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "one-key", true, slow))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if status, got := f.ask("one-key", 200); status != 200 || !strings.Contains(got, "[DONE]") {
				t.Errorf("an open stream: %d, %d bytes that end in %q", status, len(got), got[max(0, len(got)-100):])
			}
		})
	}
	settled(func() bool { return f.doors.Open() == 8 })
	before := f.stats()
	for i := range 6 {
		text := fmt.Sprintf(reloadable, false, []string{"round_robin", "least_ttft"}[i%2],
			"one-key", true, slow+", "+other)
		f.write(text)
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
		if status, got := f.ask("one-key", 4); status != 200 || !strings.Contains(got, "[DONE]") {
			t.Errorf("after reload %d: %d %s", i, status, got)
		}
	}
	f.write(fmt.Sprintf(reloadable, false, "round_robin", "another-key", true, other))
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if status, _ := f.ask("one-key", 4); status != 401 {
		t.Errorf("the key of before: %d, want 401", status)
	}
	if status, got := f.ask("another-key", 4); status != 200 {
		t.Errorf("the new key: %d %s", status, got)
	}
	now := f.stats()
	if now.Hash == before.Hash || !now.Since.After(before.Since) || now.Fault != "" || len(now.Restart) != 0 {
		t.Errorf("before %+v, now %+v", before, now)
	}
	wg.Wait()
	if _, got := fetched(t, "GET", f.adminURL+"/admin/endpoints", ""); strings.Contains(got, slow) &&
		!strings.Contains(got, `"gone": true`) {
		t.Errorf("an endpoint that is no longer declared is there: %s", got)
	}
	_, got := fetched(t, "GET", f.adminURL+"/metrics", "")
	for _, want := range []string{
		`warmpath_config_reloads_total{result="applied"} 7`, `warmpath_config_info{hash="` + now.Hash + `"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	settled(func() bool { return f.entrances() == 1 })
	if n := f.entrances(); n != 1 {
		t.Errorf("%d doors are left", n)
	}
}

func (r *router) entrances() (n int) {
	r.doors.each(func(*entrance) { n++ })
	return n
}

// TestReloadIsWholeOrNot: a file with one fault changes nothing, and says what is wrong; what needs a restart is named.
func TestReloadIsWholeOrNot(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	good := fmt.Sprintf(reloadable, false, "least_ttft", "one-key", true, engine)
	f := newFileRig(t, good)
	before := f.stats()
	for text, want := range map[string]string{
		strings.Replace(good, "one-key", "two-key", 1) + "queues: {}\n":                    "queues",
		strings.Replace(good, "one-key", "two-key", 1) + "limits: {retries: -1}\n":         "limits.retries",
		strings.Replace(good, "one-key", "two-key", 1) + "discovery: {file: /nowhere/x}\n": "/nowhere/x",
		strings.Replace(good, "one-key", "two-key", 1) + "log: {level: loud}\n":            "loud",
		strings.Replace(good, "policy: least_ttft", "policy: {name: ", 1) + "no_policy\n":  ":",
		"":        "is empty", // a writer has begun
		" \n\t\n": "is empty",
	} {
		f.write(text)
		status, got := fetched(t, "POST", f.adminURL+"/admin/reload", "")
		if status != 400 || !strings.Contains(got, want) || !strings.Contains(got, `"code": "bad_config"`) {
			t.Errorf("want 400 about %s, got %d %s", want, status, got)
		}
		now := f.stats()
		if now.Hash != before.Hash || now.Since != before.Since || now.Fault == "" || now.FaultAt.IsZero() {
			t.Errorf("after a faulty file: %+v, before it %+v", now, before)
		}
		if status, got := f.ask("one-key", 2); status != 200 {
			t.Errorf("the running configuration has changed: %d %s", status, got)
		}
	}
	f.write(strings.NewReplacer("listen: 127.0.0.1:0", "listen: 127.0.0.1:1", "one-key", "two-key").Replace(good) +
		"timeouts: {keep_alive: 3s}\n")
	status, got := fetched(t, "POST", f.adminURL+"/admin/reload", "")
	if status != 200 || !strings.Contains(got, "timeouts.keep_alive") {
		t.Errorf("%d %s", status, got)
	}
	if now := f.stats(); !slices.Equal(now.Restart, []string{"listen", "timeouts.keep_alive"}) || now.Fault != "" {
		t.Errorf("%+v", now)
	}
	if status, got := f.ask("two-key", 2); status != 200 {
		t.Errorf("the rest was not taken: %d %s", status, got)
	}
	if status, got := fetched(t, "GET", f.adminURL+"/admin/config", ""); status != 200 ||
		!strings.Contains(got, `"listen": "127.0.0.1:0"`) {
		t.Errorf("the configuration in force: %d %s", status, got)
	}
}

// TestReloadWatches: the file and those that it names are followed, each version is judged once.
func TestReloadWatches(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	f := newFileRig(t, fmt.Sprintf(reloadable, true, "least_ttft", "one-key", true, engine))
	hash := func() string { return f.reloads.state().Hash }
	first := hash()
	f.write(fmt.Sprintf(reloadable, true, "round_robin", "one-key", true, engine))
	if !settled(func() bool { return hash() != first }) {
		t.Fatal("a new version is not noticed")
	}
	second := hash()
	f.write("listen: [")
	if !settled(func() bool { return f.reloads.state().Fault != "" }) {
		t.Fatal("a version with faults is not noticed")
	}
	f.write(fmt.Sprintf(reloadable, false, "least_tokens", "one-key", true, engine))
	if !settled(func() bool { return hash() != second }) {
		t.Fatal("the version after it is not noticed")
	}
	if now := f.reloads.state(); now.Hash == first || now.Hash == second || now.Fault != "" {
		t.Errorf("%+v", now)
	}
}

// TestReloadParts: what looks on is turned on, replaced and turned off.
func TestReloadParts(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	dir := t.TempDir()
	plain := fmt.Sprintf(reloadable, false, "least_ttft", "k", false, engine)
	f := newFileRig(t, plain)
	parts := "access_log: " + filepath.Join(dir, "a.jsonl") +
		"\nrecord: {file: " + filepath.Join(dir, "r.jsonl") + "}\nexplain: {file: " + filepath.Join(dir, "x.jsonl") +
		"}\nshadow: round_robin\nlog: {level: debug, format: json, requests: true}\n" +
		"metrics: {compatible: [trtllm]}\nsessions: {max: 10, hash_only: true}\nmodels: {aliases: {fast: m}}\n"
	for i := range 3 {
		for _, text := range []string{
			plain + parts, plain + strings.Replace(parts, "round_robin", "random", 1), plain,
		} {
			f.write(text)
			if _, err := f.reload(); err != nil {
				t.Fatal(i, err)
			}
			if status, got := f.ask("k", 2); status != 200 {
				t.Fatalf("%d %s", status, got)
			}
		}
	}
	for _, name := range []string{"r.jsonl", "x.jsonl", "a.jsonl"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bufio.NewScanner(file).Scan() {
			t.Errorf("%s is empty", name)
		}
		_ = file.Close()
	}
	if _, got := fetched(t, "GET", f.adminURL+"/metrics", ""); strings.Contains(got, "warmpath_record_lines_total{") ||
		strings.Contains(got, "warmpath_shadow") {
		t.Error("parts that were turned off are still counted")
	}
}
