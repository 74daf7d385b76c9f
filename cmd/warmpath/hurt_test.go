//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/freeport"
)

// hurtSettings are those of a router whose engines are hurt: it is quick to notice and to forgive, and round robin, so
// that each engine is asked.
const hurtSettings = `
policy: round_robin
probe: {interval: 100ms, load_interval: 100ms, timeout: 3s}
health: {eject_for: 100ms, eject_max: 200ms, busy_for: 100ms, busy_max: 200ms, ramp: 0s, silent: 1500ms}
limits: {retry_floor: 1000}
endpoints:
- {url: %q, name: e0}
- {url: %q, name: e1}
`

// TestHurt drives the program, built as users get it, with simulated engines as further processes, through what happens
// to engines and machines. Nothing is lost that could be saved, nothing is silent, and the books are empty afterwards.
// WARMPATH_HURT=long makes each hurt as long as it is in life; WARMPATH_STREAMS is how many streams are left (300; a
// million takes some ten minutes).
func TestHurt(t *testing.T) {
	t.Parallel()
	bin := built(t)
	for name, f := range map[string]func(*testing.T, string){
		"faults of engines": hurtByFaults, "kill -9": hurtByKill, "SIGSTOP": hurtByStop, "a full disk": hurtByFullDisk,
		"no file descriptors": hurtByFiles, "all engines gone and back": hurtByAbsence, "DNS gone": hurtByNames,
		"streams that are left": hurtByLeaving,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, bin)
		})
	}
}

func longHurt() bool { return os.Getenv("WARMPATH_HURT") == "long" }

// hurtRig starts a router with two engines. Their ports are not those of outgoing connections: while an engine is gone,
// its port stays free.
func hurtRig(t *testing.T, bin, limit, more string) (*routerProcess, [2]*engineProcess) {
	t.Helper()
	e := [2]*engineProcess{runEngineAt(t, bin, freeport.Address()), runEngineAt(t, bin, freeport.Address())}
	r := runRouter(t, bin, limit, fmt.Sprintf(hurtSettings, e[0].url, e[1].url)+more)
	r.up("e0", "e1")
	return r, e
}

// hurtByFaults: the eighteen faults of an engine. What breaks before its first token is answered by the other one; what
// breaks later is told.
func hurtByFaults(t *testing.T, bin string) {
	r, e := hurtRig(t, bin, "", "")
	const tokens = 12
	for _, f := range []struct {
		fault string
		told  bool // the client has a part of the answer, so that nothing can be made again
		saved bool // or it has not yet, when all of the fault comes in one piece: then the request is made again
	}{
		{`{"kind":"refuse","seconds":0.3}`, false, false},
		{`{"kind":"500"}`, false, false},
		{`{"kind":"503"}`, false, false},
		{`{"kind":"503","retry_after":1}`, false, false},
		{`{"kind":"429"}`, false, false},
		{`{"kind":"429","retry_after":1}`, false, false},
		{`{"kind":"500","all":true}`, false, false},
		{`{"kind":"503","all":true}`, false, false},
		{`{"kind":"429","all":true}`, false, false},
		{`{"kind":"hang"}`, false, false},
		{`{"kind":"slow","factor":1000000}`, false, false},
		{`{"kind":"restart"}`, true, false},
		{`{"kind":"restart","seconds":0.3}`, true, false},
		{`{"kind":"cut"}`, true, false}, // after the chunk with the role
		{`{"kind":"cut","after_chunks":5}`, true, false},
		{`{"kind":"error_event"}`, true, true}, // beside the chunk with the role
		{`{"kind":"error_event","after_chunks":5}`, true, false},
		{`{"kind":"garbage","after_chunks":5}`, true, false},
	} {
		failed := func() float64 {
			return r.sum("warmpath_attempts_total", `endpoint="e0"`) - r.sum("warmpath_attempts_total",
				`endpoint="e0"`, `outcome="ok"`)
		}
		before, told := failed(), 0
		judge := func(a answer, tokens int) {
			t.Helper()
			switch {
			case a.whole(tokens):
			case f.told && a.broken && a.status == http.StatusOK:
				told++
			default:
				t.Errorf("%s: a client got %+v", f.fault, a)
			}
		}
		if strings.Contains(f.fault, "restart") { // within its answers
			e[0].fault(lingering)
			var begun []<-chan answer
			r.await("e0 answers", func() bool { // which gets little at first after an earlier fault
				begun = append(begun, r.begun(6, 3000))
				return e[0].open() > 0
			})
			e[0].fault(f.fault)
			for _, answers := range begun {
				for range 6 {
					judge(<-answers, 3000)
				}
			}
		} else {
			e[0].fault(f.fault)
		}
		r.await(f.fault+" shows", func() bool { // as soon as e0 is asked, which it is little after an earlier fault
			if strings.Contains(f.fault, "refuse") { // again, should it have ended before anybody asked
				if res, err := http.Post(e[0].url+"/_sim/fault",
					"application/json", strings.NewReader(f.fault)); err == nil {
					_ = res.Body.Close()
				}
			}
			for _, a := range r.streams(6, tokens) {
				judge(a, tokens)
			}
			return failed() > before || r.state("e0") == "down"
		})
		if f.told && told == 0 && !f.saved {
			t.Errorf("%s: no client was told", f.fault)
		}
		e[0].fault(`{"kind":"none"}`)
		r.back("e0")
		r.booksEmpty()
	}
	for _, x := range e {
		r.await("the engines are idle", func() bool { return x.open() == 0 })
	}
	r.ends()
}

// lingering makes answers of some thousand tokens take a minute, so that an engine is hurt within them however busy the
// machine is.
const lingering = `{"kind":"slow","factor":50}`

// begun starts streams and waits until each has its first tokens; the answers come when they end.
func (r *routerProcess) begun(n, tokens int) <-chan answer {
	answers := make(chan answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		one := sync.OnceFunc(wg.Done)
		go func() {
			a := r.stream(fmt.Sprintf("a long question %d", i), tokens, func(int) { one() })
			one()
			answers <- a
		}()
	}
	wg.Wait()
	return answers
}

// hurtByKill: an engine is killed within its answers. Their clients are told, those of the other one see nothing, and
// what comes is answered.
func hurtByKill(t *testing.T, bin string) {
	r, e := hurtRig(t, bin, "", "")
	const tokens = 3000
	e[0].fault(lingering)
	e[1].fault(lingering)
	answers := r.begun(4, tokens)
	there := e[0].open()
	if there == 0 || e[1].open() == 0 {
		t.Fatalf("%d and %d run", there, e[1].open())
	}
	e[0].kill()
	for i, a := range r.streams(8, 10) {
		if !a.whole(10) {
			t.Errorf("request %d after the engine is gone: %+v", i, a)
		}
	}
	e[1].fault(`{"kind":"none"}`)
	told := 0
	for range 4 {
		switch a := <-answers; {
		case a.whole(tokens):
		case a.broken && !a.whole(tokens):
			told++
		default:
			t.Errorf("ended with %+v", a)
		}
	}
	if told != there {
		t.Errorf("%d clients were told, want the %d of the engine that was killed", told, there)
	}
	r.says("endpoint is down")
	runEngineAt(t, bin, strings.TrimPrefix(e[0].url, "http://"))
	r.up("e0")
	r.booksEmpty()
	r.ends()
}

// hurtByStop: an engine's process is stopped for a while, with its connections open. What waits there is answered
// elsewhere, what has begun goes on afterwards, and nothing is lost.
func hurtByStop(t *testing.T, bin string) {
	r, e := hurtRig(t, bin, "", "")
	const tokens = 1500
	e[0].fault(lingering)
	e[1].fault(lingering)
	answers := r.begun(4, tokens)
	e[0].stop()
	for i, a := range r.streams(8, 10) {
		if !a.whole(10) {
			t.Errorf("request %d while the engine is stopped: %+v", i, a)
		}
	}
	r.await("e0 is not up", func() bool { return r.state("e0") != "up" })
	if longHurt() {
		time.Sleep(5 * time.Second) // which is how long the hurt is
	}
	e[0].signal(syscall.SIGCONT)
	e[0].fault(`{"kind":"none"}`)
	e[1].fault(`{"kind":"none"}`)
	for range 4 {
		if a := <-answers; !a.whole(tokens) {
			t.Errorf("a stream that had begun ended with %+v", a)
		}
	}
	r.back("e0")
	r.booksEmpty()
	for _, x := range e {
		r.await("the engines are idle", func() bool { return x.open() == 0 })
	}
	r.ends()
}

// hurtByFullDisk: no file of the router can grow. Requests do not notice; log and metrics tell of each file; with room
// again all are written.
func hurtByFullDisk(t *testing.T, bin string) {
	dir := t.TempDir()
	files := map[string]string{
		"access": filepath.Join(dir, "access"), "record": filepath.Join(dir, "record"),
		"explain": filepath.Join(dir, "explain"),
	}
	r, _ := hurtRig(t, bin, "ulimit -S -f 1",
		fmt.Sprintf("state: {file: %q, every: 1s}\naccess_log: %q\nrecord: {file: %q}\nexplain: {file: %q}\n",
			filepath.Join(dir, "state"), files["access"], files["record"], files["explain"]))
	for i, a := range r.streams(30, 3) {
		if !a.whole(3) {
			t.Errorf("request %d: %+v", i, a)
		}
	}
	dropped := func(m string) float64 { return r.sum(m, `result="dropped"`) }
	r.await("all is counted", func() bool {
		return dropped("warmpath_access_log_lines_total") > 0 && dropped("warmpath_record_lines_total") > 0 &&
			dropped("warmpath_explain_lines_total") > 0 && r.sum("warmpath_state_failures_total") > 2
	})
	for _, said := range []string{
		"the access log cannot be written", "traffic cannot be recorded", "what was learnt cannot be saved",
		"decisions cannot be written",
	} {
		r.says(said)
	}
	if n := strings.Count(r.text(), "what was learnt cannot be saved"); n != 1 {
		t.Errorf("said %d times that the state cannot be saved", n)
	}
	if path, err := exec.LookPath("prlimit"); err == nil { // the disk has room again
		if out, err := exec.Command(path, "--pid", fmt.Sprint(r.cmd.Process.Pid), "--fsize=unlimited").
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		written := func(m string) float64 { return r.sum(m, `result="written"`) }
		before := [...]float64{
			written("warmpath_access_log_lines_total"), written("warmpath_record_lines_total"),
			written("warmpath_explain_lines_total"),
		}
		r.await("all is written again", func() bool {
			if a := r.stream("again", 1, nil); !a.whole(1) {
				t.Fatalf("%+v", a)
			}
			return written("warmpath_access_log_lines_total") > before[0] &&
				written("warmpath_record_lines_total") > before[1] &&
				written("warmpath_explain_lines_total") > before[2] &&
				r.sum("warmpath_state_saved_timestamp_seconds") > 0
		})
	}
	r.booksEmpty()
	kept := map[string]float64{}
	for name, metric := range map[string]string{
		"access": "warmpath_access_log_lines_total", "explain": "warmpath_explain_lines_total",
	} {
		kept[name] = r.sum(metric, `result="written"`)
	}
	r.ends()
	for name, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole, torn := 0, 0
		for line := range strings.Lines(string(b)) {
			if json.Valid([]byte(line)) {
				whole++
			} else {
				torn++
			}
		}
		if torn > 1 || float64(whole) < kept[name] { // the disk was full within a line, once
			t.Errorf("%s: %d lines are whole, %d torn; the metric says %v are written", name, whole, torn, kept[name])
		}
	}
}

// hurtByFiles: clients take all file descriptors. The log says so, no engine is blamed, and when they leave all is as
// before.
func hurtByFiles(t *testing.T, bin string) {
	r, _ := hurtRig(t, bin, "ulimit -n 60", "")
	if a := r.stream("before", 1, nil); !a.whole(1) { // on a connection that stays
		t.Fatalf("%+v", a)
	}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	r.says("connections cannot be accepted")
	ends := make(chan answer)
	go func() { ends <- r.stream("meanwhile", 1, nil) }()
	if a := <-ends; !a.whole(1) &&
		(a.status != http.StatusServiceUnavailable || !strings.Contains(a.text, "file descriptor")) {
		t.Errorf("while there are none: %+v", a)
	}
	for _, c := range held {
		_ = c.Close()
	}
	r.says("connections are accepted again")
	r.await("requests are answered", func() bool { return r.stream("after", 1, nil).whole(1) })
	if strings.Contains(r.text(), "to=down") || strings.Contains(r.text(), "to=ejected") ||
		r.sum("warmpath_attempts_total", `outcome="connect_failed"`) > 0 {
		t.Error("an engine was blamed")
	}
	r.booksEmpty()
	r.ends()
}

// hurtByAbsence: all engines go and come back. Clients are told at once, /readyz too, and when engines are back they
// are asked.
func hurtByAbsence(t *testing.T, bin string) {
	r, e := hurtRig(t, bin, "", "")
	for _, x := range e {
		x.kill()
	}
	for i, a := range r.streams(6, 3) {
		if a.status < 502 || a.status > 504 || !strings.Contains(a.text, `"error"`) {
			t.Errorf("request %d without engines: %+v", i, a)
		}
	}
	ready := func() int {
		status, _ := fetched(t, http.MethodGet, r.url+"/readyz", "")
		return status
	}
	r.await("it is not ready", func() bool { return ready() == http.StatusServiceUnavailable })
	r.await("the log says of both engines that they are down",
		func() bool { return strings.Count(r.text(), "endpoint is down") == 2 })
	for _, x := range e {
		runEngineAt(t, bin, strings.TrimPrefix(x.url, "http://"))
	}
	r.up("e0", "e1")
	if ready() != http.StatusOK {
		t.Error("it is not ready again")
	}
	for i, a := range r.streams(6, 3) {
		if !a.whole(3) {
			t.Errorf("request %d with engines again: %+v", i, a)
		}
	}
	r.booksEmpty()
	r.ends()
}
