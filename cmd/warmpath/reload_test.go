package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
)

// fileRig is a router that was started with a configuration file.
type fileRig struct {
	*router
	t    *testing.T
	path string
}

// newFileRig starts a router with the file, without watching it unless the file says so.
func newFileRig(t *testing.T, text string) *fileRig { return newFileRigWith(t, text, io.Discard) }

func newFileRigWith(t *testing.T, text string, log io.Writer) *fileRig {
	t.Helper()
	f := &fileRig{t: t, path: filepath.Join(t.TempDir(), "warmpath.yaml")}
	f.write(text)
	load := func() (config.Config, error) {
		cfg, err := config.Load(f.path, nil, discovery.Keys{})
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
	journal := newJournal(log, thisBuild(), &cfg)
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

// TestReloadWhileItDrains: a router that takes no new requests takes none after a reload either.
func TestReloadWhileItDrains(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 100})
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, engine))
	f.doors.Drain()
	f.write(fmt.Sprintf(reloadable, false, "round_robin", "k", false, engine))
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if status, body := f.ask("k", 1); status != 503 {
		t.Errorf("a request: %d %s", status, body)
	}
	if status, body := fetched(t, "GET", f.url+"/readyz", ""); status != 503 {
		t.Errorf("/readyz: %d %s", status, body)
	}
}

// TestReloadAfterItsEnd: a router that has ended begins nothing anew.
func TestReloadAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'http://127.0.0.1:1'"))
	if err := f.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.write(fmt.Sprintf(reloadable, false, "round_robin", "k", false, "'http://127.0.0.1:1'"))
	if _, err := f.reload(); !errors.Is(err, errNoReload) {
		t.Errorf("it was reloaded: %v", err)
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

// TestReloadAwaitsFiles: a configuration that names files which come later is taken once they are there, as where a
// ConfigMap is updated before the Secret that it needs.
func TestReloadAwaitsFiles(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	f := newFileRig(t, fmt.Sprintf(reloadable, true, "least_ttft", "one-key", true, engine))
	dir := t.TempDir()
	key, list := filepath.Join(dir, "key"), filepath.Join(dir, "list.yaml")
	first := f.reloads.state()
	keyed := fmt.Sprintf("{url: %s, api_key_file: %s}", engine, key)
	f.write(fmt.Sprintf(reloadable, true, "least_ttft", "one-key", true, keyed) + "discovery: {file: " + list + "}\n")
	for _, missing := range []struct{ file, text string }{{key, "sk-1\n"}, {list, "endpoints: []"}} {
		if !settled(func() bool { return strings.Contains(f.reloads.state().Fault, missing.file) }) {
			t.Fatalf("%s is not told: %+v", missing.file, f.reloads.state())
		}
		if err := os.WriteFile(missing.file, []byte(missing.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !settled(func() bool { return f.reloads.state().Hash != first.Hash }) {
		t.Fatalf("the configuration is not taken once its files are there: %+v", f.reloads.state())
	}
}

// TestReloadRenewsLeaseToken: the token in lease.token_file is read again with the configuration; the former one is
// worth nothing from then on.
func TestReloadRenewsLeaseToken(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	token := filepath.Join(t.TempDir(), "token")
	renew := func(text string) {
		if err := os.WriteFile(token, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	renew("the-first-token")
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, engine)+
		"lease: {listen: \"127.0.0.1:0\", token_file: "+token+"}\n")
	ask := func(with string) int {
		o := f.lease(t, "/v1/route", chat(true, "x"), "Authorization", "Bearer "+with)
		if o.status == 200 {
			f.lease(t, "/v1/route/"+o.order.Lease+"/finish", "", "Authorization", "Bearer "+with)
		}
		return o.status
	}
	if got := ask("the-first-token"); got != 200 {
		t.Fatalf("the first token: %d", got)
	}
	renew("the-second-token")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if first, second := ask("the-first-token"), ask("the-second-token"); first != 401 || second != 200 {
		t.Errorf("after it was renewed: the first token %d, the second %d", first, second)
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reload(); err == nil || ask("the-second-token") != 200 {
		t.Errorf("a token that is gone: %v", err)
	}
}

// TestReloadKeepsNothingElse: of a configuration that was replaced nothing stays, whatever it had of its own.
func TestReloadKeepsNothingElse(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	dir := t.TempDir()
	list := filepath.Join(dir, "list.yaml")
	if err := os.WriteFile(list, []byte("endpoints: ["+engine+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := fmt.Sprintf(reloadable, false, "least_ttft", "k", false, engine)
	f := newFileRig(t, plain)
	var generations []weak.Pointer[generation]
	var doors []weak.Pointer[proxy.Proxy]
	for _, text := range []string{
		plain + "access_log: " + dir + "/access\n",
		plain + "explain: {file: " + dir + "/explain}\n",
		plain + "shadow: round_robin\n",
		plain + "record: {file: " + dir + "/record}\n",
		plain + "timeouts: {connect: 3s}\n",
		plain + "otlp: {endpoint: \"http://127.0.0.1:1\"}\n",
		fmt.Sprintf(reloadable, false, "round_robin", "other", false, engine),
		fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "") + "discovery: {file: " + list + "}\n",
	} {
		generations, doors = append(generations, weak.Make(f.current())), append(doors, weak.Make(f.doors.current()))
		f.ask("k", 1)
		f.write(text)
		if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
	}
	var left string
	if !settled(func() bool {
		runtime.GC()
		left = ""
		for i := range generations {
			if generations[i].Value() != nil {
				left += fmt.Sprintf(" configuration %d", i)
			}
			if doors[i].Value() != nil {
				left += fmt.Sprintf(" door %d", i)
			}
		}
		return left == ""
	}) {
		t.Errorf("still in memory:%s", left)
	}
}

// TestReloadMovesEndpoints: engines that move from the configuration to another source and back stay what they are,
// with what is known of them.
func TestReloadMovesEndpoints(t *testing.T) {
	t.Parallel()
	_, one := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	_, two := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	plain := fmt.Sprintf(reloadable, false, "round_robin", "k", false, one+", "+two)
	f := newFileRig(t, plain)
	list := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(list, []byte("endpoints: ["+one+", "+two+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	moved := fmt.Sprintf(reloadable, false, "round_robin", "k", false, "")
	names := fmt.Sprintf("discovery: {dns: [{name: localhost, port: %s}, {name: localhost, port: %s}]}\n",
		port(one), port(two))
	sent := 0
	for i, text := range []string{
		plain, moved + "discovery: {file: " + list + "}\n", plain, moved + names, plain,
	} {
		f.write(text)
		if _, err := f.reload(); err != nil {
			t.Fatal(i, err)
		}
		for range 4 {
			sent++
			if status, got := f.ask("k", 2); status != 200 {
				t.Errorf("after reload %d: %d %s", i, status, got)
			}
		}
		source := map[bool]string{true: "static"}[strings.HasPrefix(text, plain)]
		if !settled(func() bool {
			all := f.fleet.Status()
			for _, s := range all {
				if s.Gone || (s.Source == "static") != (source == "static") {
					return false
				}
			}
			return len(all) == 2
		}) {
			t.Fatalf("after reload %d: %+v", i, f.fleet.Status())
		}
		counted := uint64(0)
		for _, s := range f.fleet.Status() {
			counted += s.Requests
		}
		if counted != uint64(sent) {
			t.Errorf("after reload %d %d requests are counted, want %d", i, counted, sent)
		}
	}
}

// TestReloadRenewsSalt: a recording goes on in another file with the salt that its file has now.
func TestReloadRenewsSalt(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	dir := t.TempDir()
	salt, file := filepath.Join(dir, "salt"), filepath.Join(dir, "r.jsonl")
	f := (*fileRig)(nil)
	headers := map[string]bool{}
	for i, text := range []string{"the first salt of all", "the second salt of all", "the second salt of all"} {
		if err := os.WriteFile(salt, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f == nil {
			f = newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, engine)+
				"record: {file: "+file+", salt_file: "+salt+"}\n")
		} else if _, err := f.reload(); err != nil {
			t.Fatal(err)
		}
		header := func() string {
			if status, got := f.ask("k", 2); status != 200 {
				t.Fatalf("%d %s", status, got)
			}
			b, _ := os.ReadFile(file)
			line, _, _ := strings.Cut(string(b), "\n")
			return line
		}
		if !settled(func() bool { h := header(); return h != "" && (i != 1 || !headers[h]) }) {
			t.Fatalf("with salt %d the recording begins %s", i, header())
		}
		headers[header()] = true
	}
	if len(headers) != 2 {
		t.Errorf("%d recordings were begun, want 2: %v", len(headers), headers)
	}
}

// TestReloadMovesQuietly: endpoints that take other names with another source are not told to be two of one engine.
func TestReloadMovesQuietly(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	var log lockedBuffer
	named := fmt.Sprintf("{url: %s, name: gpu}", engine)
	f := newFileRigWith(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, named), &log)
	list := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(list, []byte("endpoints: ["+engine+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.write(fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "") + "discovery: {file: " + list + "}\n")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if !settled(func() bool {
		all := f.fleet.Status()
		return len(all) == 1 && all[0].Source == "file" &&
			strings.Contains(log.String(), "no longer declared by static")
	}) {
		t.Fatalf("%+v\n%s", f.fleet.Status(), log.String())
	}
	if strings.Contains(log.String(), "same engine") {
		t.Errorf("the log says\n%s", log.String())
	}
}

// TestSourceNames: each source declares under a name of its own.
func TestSourceNames(t *testing.T) {
	var sources []discovery.Runner
	for _, c := range []discovery.DNSConfig{
		{Name: "x", Port: 1, Type: "a"}, {Name: "x", Port: 1, Type: "aaaa"}, {Name: "y", Port: 1}, {Name: "x", Port: 1},
	} {
		d, err := discovery.NewDNS(c, nil, discovery.None(), nil)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, d)
	}
	want := []string{"dns:x:1", "dns:x:1#2", "dns:y:1", "dns:x:1#3"}
	if got := sourceNames(sources); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
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
