//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/freeport"
)

// TestDay plays docs/production.md, with the files and commands that stand there: two routers, Redis where there is
// one, six engines of three models, all processes, under the traffic of clients. Each answer must be whole, except one
// that an engine had begun when it crashed. In the place of the load balancer the client asks the routers in turn, and
// the next one where one refuses or breaks off before its answer.
func TestDay(t *testing.T) {
	t.Parallel()
	d := newDay(t)
	var routers []string
	for _, h := range d.hosts {
		routers = append(routers, h.traffic)
	}
	d.url, d.client = "https://"+routers[0], &http.Client{Transport: &inTurn{
		at: routers, next: &http.Transport{
			TLSClientConfig: d.ca.client("").Transport.(*http.Transport).TLSClientConfig, MaxIdleConnsPerHost: 100,
		},
	}}
	d.play()
}

// TestDayBehindEnvoy: the same, with Envoy itself as load balancer, by deploy/production/envoy.yaml.
func TestDayBehindEnvoy(t *testing.T) {
	needEnvoy(t)
	t.Parallel()
	d := newDay(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "production", "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	at := freeport.Address()
	change := []string{
		"/etc/envoy/routers-ca.pem", d.ca.file("ca.pem"), "0.0.0.0, port_value: 8080",
		strings.Replace(at, ":", ", port_value: ", 1),
	}
	for i, h := range d.hosts {
		change = append(change, fmt.Sprintf("10.0.0.1%d, port_value: 8443", i+1),
			strings.Replace(h.traffic, ":", ", port_value: ", 1))
	}
	runEnvoy(t, strings.NewReplacer(change...).Replace(string(text)))
	d.url, d.client = "http://"+at, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	d.play()
}

// inTurn is a client that asks routers in turn, and the next one where one refuses, is not there or breaks off before
// its answer.
type inTurn struct {
	at   []string
	next http.RoundTripper
	n    atomic.Int64
}

func (c *inTurn) RoundTrip(r *http.Request) (res *http.Response, err error) {
	first := int(c.n.Add(1))
	for i := range 2 * len(c.at) {
		again := r.Clone(r.Context())
		again.URL = &url.URL{Scheme: "https", Host: c.at[(first+i)%len(c.at)], Path: r.URL.Path}
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
		if res, err = c.next.RoundTrip(again); err == nil && res.StatusCode != http.StatusServiceUnavailable {
			break
		}
		if err == nil && i+1 < 2*len(c.at) {
			res.Body.Close()
		}
	}
	return res, err
}

// host is where a router may run. Its ports stay open while none does, as systemd keeps them.
type host struct {
	*process
	traffic, admin, peers string
	sockets               []*net.TCPListener
}

// day is what a platform engineer has.
type day struct {
	t       *testing.T
	page    string
	bin     string
	dir     string // for /etc/warmpath
	ca      *authority
	engines []*engineProcess
	redis   *process // nil where there is none
	at      string   // of Redis
	hosts   [3]*host
	change  *strings.Replacer

	url    string
	client *http.Client

	ctx     context.Context // of the traffic
	stop    chan struct{}
	crash   atomic.Bool    // engines of the new model crash: answers that they had begun are lost
	stays   atomic.Bool    // conversations go on, and none begins but the first
	under   sync.WaitGroup // traffic
	callers []*caller
}

// models of the engines, in their order.
var dayModels = []string{"llama-8b", "llama-8b", "llama-8b", "llama-8b-next", "llama-8b-next", "coder-7b"}

func newDay(t *testing.T) *day {
	d := &day{t: t, bin: built(t), dir: t.TempDir(), ca: newAuthority(t), stop: make(chan struct{})}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "production.md"))
	if err != nil {
		t.Fatal(err)
	}
	d.page = string(page)
	change := []string{"/etc/warmpath", d.dir, "TOKEN", "operator"}
	for i, model := range dayModels {
		e := run(t, d.bin, "engine", "--listen", "127.0.0.1:0", "--model", model, "--speed", "2")
		d.engines = append(d.engines, &engineProcess{e, e.after(", on ")})
		change = append(change, fmt.Sprintf("http://10.0.1.%d:8000", i+1), d.engines[i].url)
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		d.at = freeport.Address()
		d.startRedis()
		change = append(change, "10.0.0.9:6379", d.at)
	} else {
		t.Log("there is no redis-server (apt-get install redis-server): the routers hear each other directly")
	}
	for i := range d.hosts {
		h := &host{traffic: freeport.Address(), admin: freeport.Address(), peers: freeport.Address()}
		d.hosts[i] = h
		change = append(change, fmt.Sprintf("10.0.0.1%d:9190", i+1), h.admin)
	}
	d.change = strings.NewReplacer(change...)
	d.ca.sign("tls", "127.0.0.1")
	d.certificate()
	d.write("admin.token", "operator\n")
	d.write("peers.secret", strings.Repeat("0123456789abcdef", 4))
	d.write("keys.yaml", "api_keys: []\n")
	d.write("warmpath.yaml", d.block("listen: 0.0.0.0:8443"))
	return d
}

// write replaces a file whole, as tools that manage files do.
func (d *day) write(name, text string) {
	d.t.Helper()
	next := filepath.Join(d.dir, "."+name)
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(d.dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *day) read(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

// block is the code of the page that begins with a text, for this machine.
func (d *day) block(first string) string {
	d.t.Helper()
	for i, code := range strings.Split(d.page, "```") {
		if _, text, _ := strings.Cut(code, "\n"); i%2 == 1 && strings.HasPrefix(strings.TrimSpace(text), first) {
			return d.change.Replace(text)
		}
	}
	d.t.Fatalf("the page has no code that begins with %q", first)
	return ""
}

// warmpath runs a command of the page.
func (d *day) warmpath(line string, more ...string) string {
	d.t.Helper()
	if !strings.Contains(d.page, line+"\n") {
		d.t.Fatalf("the page does not have the command %q", line)
	}
	cmd := exec.Command(d.bin,
		append(strings.Fields(d.change.Replace(strings.TrimPrefix(line, "warmpath "))), more...)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WARMPATH_") }),
		"WARMPATH_ADMIN_TOKEN=operator")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("%s: %v: %s%s", line, err, &out, &errs)
	}
	return out.String()
}

func (d *day) startRedis() {
	d.t.Helper()
	_, port, _ := net.SplitHostPort(d.at)
	d.redis = run(d.t, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", d.t.TempDir())
	d.redis.says("Ready to accept connections")
}

// again starts an engine that has ended, at its address.
func (d *day) again(i int) {
	d.t.Helper()
	e := run(d.t, d.bin, "engine", "--listen", strings.TrimPrefix(d.engines[i].url, "http://"),
		"--model", dayModels[i], "--speed", "2")
	d.engines[i] = &engineProcess{e, e.after(", on ")}
}

// certificate puts the newest certificate in its place.
func (d *day) certificate() {
	for _, name := range []string{"tls.pem", "tls.key"} {
		text, err := os.ReadFile(d.ca.file(name))
		if err != nil {
			d.t.Fatal(err)
		}
		d.write(name, string(text))
	}
}

// open opens the ports of a host, as a socket unit does; what it returns closes them.
func (d *day) open(i int) (shut func()) {
	d.t.Helper()
	h := d.hosts[i]
	for _, at := range []string{h.traffic, h.admin} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			d.t.Fatal(err)
		}
		h.sockets = append(h.sockets, l.(*net.TCPListener))
	}
	shut = func() {
		for _, l := range h.sockets {
			_ = l.Close()
		}
	}
	d.t.Cleanup(shut)
	return shut
}

// start starts a router on the open ports of a host, as systemd does.
func (d *day) start(i int) {
	d.t.Helper()
	h := d.hosts[i]
	args := []string{"serve", "-c", filepath.Join(d.dir, "warmpath.yaml")}
	if d.redis == nil {
		args = append(args, "--peer-listen", h.peers,
			"--peers", d.hosts[0].peers+","+d.hosts[1].peers+","+d.hosts[2].peers)
	}
	var files []*os.File
	for _, l := range h.sockets {
		f, err := l.File()
		if err != nil {
			d.t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	h.process = runWith(d.t, files, "sh", append([]string{
		"-c", `LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=traffic:admin exec "$0" "$@"`, d.bin,
	}, args...)...)
	h.await("it is ready", func() bool {
		status, _ := d.get(i, "/readyz")
		return status == http.StatusOK
	})
}

// get asks a router itself.
func (d *day) get(i int, path string) (int, string) {
	d.t.Helper()
	client := d.ca.client("")
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "https://"+d.hosts[i].traffic+path, http.NoBody)
	if path != "/readyz" {
		req, err = http.NewRequest(http.MethodGet, "http://"+d.hosts[i].admin+path, http.NoBody)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer operator")
	res, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// hear waits until routers know all of each other.
func (d *day) hear(of ...int) {
	d.t.Helper()
	for _, i := range of {
		d.hosts[i].await(fmt.Sprintf("router %d hears the others", i+1), func() bool {
			_, said := d.get(i, "/admin/replicas")
			var s struct{ Peers []struct{ Synced bool } }
			if err := json.Unmarshal([]byte(said), &s); err != nil {
				d.t.Fatalf("%v: %s", err, said)
			}
			n := 0
			for _, p := range s.Peers {
				if p.Synced {
					n++
				}
			}
			return n == len(of)-1
		})
	}
}

// caller is a client that talks all day.
type caller struct {
	d                *day
	name, key, model string
	goes             bool // it may be cut off

	mu      sync.Mutex
	session string // its conversation; "" between two
	answers int
	begun   map[string]int // conversations by the model of their first answer
	moved   int            // turns that another model answered than the one before
	status  int            // that has ended its day
}

// call has a client talk until the day ends.
func (d *day) call(name, key, model string, goes bool) *caller {
	c := &caller{d: d, name: name, key: key, model: model, goes: goes, begun: map[string]int{}}
	d.callers = append(d.callers, c)
	d.under.Go(func() {
		for n := 0; c.talk(fmt.Sprintf("%s-%d", name, n)); n++ {
		}
	})
	return c
}

// talk has a conversation of some turns, each of which must be answered whole. It reports whether the client's day goes
// on.
func (c *caller) talk(session string) bool {
	model, said := "", []map[string]string{{"role": "system", "content": "You are " + strings.Repeat("helpful ", 50)}}
	c.talks(session)
	defer c.talks("")
	for turn := 0; turn < 4 || c.d.stays.Load(); turn++ {
		select {
		case <-c.d.stop:
			return false
		default:
		}
		said = append(said, map[string]string{
			"role": "user", "content": fmt.Sprintf("%s asks for the %d. time", session, turn),
		})
		a := c.ask(session, said)
		switch {
		case c.goes && a.status == http.StatusUnauthorized:
			c.ends(a.status)
			return false
		case c.d.crash.Load() && a.status == http.StatusOK && a.broken && a.model == "llama-8b-next":
			// lost with its engine
			return true
		case !a.whole(dayTokens):
			c.d.t.Errorf("%s got %+v", c.name, a)
			c.ends(-1)
			return false
		}
		c.answered(a.model, model)
		model = a.model
		said = append(said, map[string]string{"role": "assistant", "content": a.text})
	}
	return true
}

func (c *caller) talks(session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
}

// answered counts an answer of a model. before is the model of the turn before, "" at the first.
func (c *caller) answered(model, before string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	if before == "" {
		c.begun[model]++
	} else if model != before {
		c.moved++
	}
}

func (c *caller) ends(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// dayTokens are those of each answer.
const dayTokens = 12

// ask asks for one turn.
func (c *caller) ask(session string, messages []map[string]string) (a answer) {
	body, err := json.Marshal(map[string]any{
		"model": c.model, "stream": true, "max_tokens": dayTokens, "ignore_eos": true, "messages": messages,
	})
	if err != nil {
		c.d.t.Error(err)
		return a
	}
	req, err := http.NewRequestWithContext(c.d.ctx, http.MethodPost, c.d.url+"/v1/chat/completions",
		bytes.NewReader(body))
	if err != nil {
		c.d.t.Error(err)
		return a
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("X-Session-ID", session)
	return readStream(c.d.client, req, nil)
}

func (c *caller) seen() (answers int, begun map[string]int, moved int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers, maps.Clone(c.begun), c.moved
}

// works waits until each client has n more answers.
func (d *day) works(n int) {
	d.t.Helper()
	for _, c := range d.callers {
		before, _, _ := c.seen()
		d.until(c.name+" gets on", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.answers >= before+n || c.status != 0
		})
	}
	if d.t.Failed() {
		d.t.FailNow()
	}
}

func (d *day) until(what string, ok func() bool) {
	d.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(2 * time.Millisecond) {
		if d.t.Failed() {
			d.t.FailNow()
		}
		if time.Since(began) > aWhile {
			d.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// begins waits until n more conversations have begun under the name fast. It returns how many each model got.
func (d *day) begins(n int) map[string]int {
	d.t.Helper()
	count := func() map[string]int {
		all := map[string]int{}
		for _, c := range d.callers {
			if c.model != "fast" {
				continue
			}
			_, begun, _ := c.seen()
			for model, n := range begun {
				all[model] += n
			}
		}
		return all
	}
	before := count()
	diff := map[string]int{}
	d.until("conversations begin", func() bool {
		sum := 0
		for model, n := range count() {
			diff[model] = n - before[model]
			sum += diff[model]
		}
		return sum >= n
	})
	return diff
}

// chapter says which of the page's chapters is played.
func (d *day) chapter(title string) {
	d.t.Helper()
	if !strings.Contains(d.page, "\n## "+title+"\n") {
		d.t.Fatalf("the page has no chapter %q", title)
	}
	d.t.Log(title)
}

// shares writes the alias as a chapter of the page has it, and waits until the routers have read it. For a moment one
// router has the new shares and the other the old ones: a conversation that only one of them has heard of would be
// drawn by both, however soon they hear of each other. So each has had a turn of all that are under way, and none
// begins.
func (d *day) shares(chapter string) {
	d.t.Helper()
	d.chapter(chapter)
	d.stays.Store(true)
	defer d.stays.Store(false)
	for _, c := range d.callers {
		d.each(c.name+"'s conversation is known", func(i int) bool {
			c.mu.Lock()
			session := c.session
			c.mu.Unlock()
			_, said := d.get(i, "/admin/decisions?last=1&conversation="+session)
			return session != "" && strings.Contains(said, session)
		})
	}
	_, rest, _ := strings.Cut(d.page, "\n## "+chapter+"\n")
	_, rest, is := strings.Cut(rest, "```yaml\n")
	line, _, _ := strings.Cut(rest, "\n")
	if !is || !strings.HasPrefix(line, "    fast: ") {
		d.t.Fatalf("the page has no shares in %q", chapter)
	}
	text := d.read("warmpath.yaml")
	_, old, _ := strings.Cut(text, "\n    fast: ")
	old, _, _ = strings.Cut(old, "\n")
	d.write("warmpath.yaml", strings.Replace(text, "    fast: "+old, line, 1))
	_, share, _ := strings.Cut(line, "llama-8b, share: ")
	share, _, _ = strings.Cut(share, "}")
	d.each("the shares are taken", func(i int) bool {
		_, said := d.get(i, "/admin/models")
		var s struct {
			Models []struct {
				ID     string
				Shares []float64
			}
		}
		if err := json.Unmarshal([]byte(said), &s); err != nil {
			d.t.Fatalf("%v: %s", err, said)
		}
		for _, m := range s.Models {
			if m.ID == "fast" {
				return len(m.Shares) == 2 && fmt.Sprint(m.Shares[0]) == share
			}
		}
		return false
	})
}

// each waits until something holds of each router that runs.
func (d *day) each(what string, ok func(i int) bool) {
	d.t.Helper()
	for i, h := range d.hosts {
		if h.process != nil {
			h.await(fmt.Sprintf("of router %d: %s", i+1, what), func() bool { return ok(i) })
		}
	}
}

// unfailed shows that the routers that run have answered, and none with a status of 500 or above.
func (d *day) unfailed() {
	d.t.Helper()
	for i, h := range d.hosts {
		if h.process == nil {
			continue
		}
		_, said := d.get(i, "/metrics")
		if ok, failed := sumOf(said, "warmpath_requests_total", `code="200"`),
			sumOf(said, "warmpath_requests_total", `code="5`); ok == 0 || failed > 0 {
			d.t.Errorf("router %d has answered %v requests with 200 and %v with 500 or above:", i+1, ok, failed)
			for line := range strings.Lines(said) {
				if strings.HasPrefix(line, "warmpath_requests_total{") && strings.Contains(line, `code="5`) ||
					strings.HasPrefix(line, "warmpath_refused_total{") {
					d.t.Log(line)
				}
			}
		}
	}
}

// stops ends a router as systemd does, and waits for its end.
func (d *day) stops(i int) {
	d.t.Helper()
	h := d.hosts[i]
	h.signal(syscall.SIGTERM)
	select {
	case <-h.ended:
	case <-time.After(aWhile):
		d.t.Fatalf("router %d does not end", i+1)
	}
	if code := h.cmd.ProcessState.ExitCode(); code != exitOK {
		d.t.Errorf("router %d ended with code %d: %s", i+1, code, h.text())
	}
	h.process = nil
}

// serial is the number of the certificate that a router shows.
func (d *day) serial(i int) int64 {
	d.t.Helper()
	c, err := tls.Dial("tcp", d.hosts[i].traffic, d.ca.client("").Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func (d *day) key(line string) string {
	d.t.Helper()
	var k newKey
	if err := json.Unmarshal([]byte(d.warmpath(line, "--json")), &k); err != nil {
		d.t.Fatal(err)
	}
	return k.Key
}

// play plays the day.
func (d *day) play() {
	t := d.t
	t.Helper()
	d.warmpath("warmpath check -c /etc/warmpath/warmpath.yaml")
	d.open(0)
	shut := d.open(1)
	d.start(0)
	d.start(1)
	d.hear(0, 1)
	d.until("the load balancer has found them", func() bool {
		res, err := d.client.Get(d.url + "/readyz")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})

	d.chapter("08:00 A team gets a key")
	const makes = "warmpath key --tenant blue --name ci --models fast,coder-7b --ends 90d --file " +
		"/etc/warmpath/keys.yaml"
	blue, green := d.key(makes), d.key(makes)
	keys := d.read("keys.yaml")
	lines := strings.SplitAfter(strings.TrimSuffix(keys, "\n"), "\n")
	lines[len(lines)-1] = strings.Replace(lines[len(lines)-1], "blue", "green", 1) + "\n"
	d.write("keys.yaml", strings.Join(lines, ""))
	d.each("it knows the keys", func(i int) bool {
		_, said := d.get(i, "/admin/keys")
		return strings.Contains(said, `"blue"`) && strings.Contains(said, `"green"`)
	})
	defer d.under.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	d.ctx = ctx
	defer cancel()
	leave := sync.OnceFunc(func() { close(d.stop) })
	defer leave()
	for i := range 4 {
		d.call(fmt.Sprint("blue", i), blue, "fast", false)
	}
	d.call("blue-coder", blue, "coder-7b", false)
	cut := d.call("green", green, "coder-7b", true)
	d.works(2)
	for i := range 2 {
		if said := d.warmpath("warmpath key --list --tenant blue", "--admin", d.hosts[i].admin); !strings.Contains(said,
			"ci") {
			t.Errorf("router %d lists %s", i+1, said)
		}
	}
	if begun := d.begins(4); begun["llama-8b-next"] > 0 {
		t.Errorf("conversations began with %v", begun)
	}

	d.shares("09:00 A canary")
	d.works(4) // those that began before go on as they were
	if begun := d.begins(40); begun["llama-8b"] < 20 || begun["llama-8b-next"] < 1 {
		t.Errorf("of a canary with a fifth conversations began with %v", begun)
	}
	d.each("it shows both models", func(i int) bool {
		_, said := d.get(i, "/metrics")
		return sumOf(said, "warmpath_alias_requests_total", `alias="fast"`, `model="llama-8b"`, `code="200"`) > 0 &&
			sumOf(said, "warmpath_alias_requests_total", `alias="fast"`, `model="llama-8b-next"`, `code="200"`) > 0
	})

	d.shares("10:00 Rolled out")
	d.works(4)
	if begun := d.begins(8); begun["llama-8b"] > 0 {
		t.Errorf("after the new model was rolled out conversations began with %v", begun)
	}
	for _, c := range d.callers {
		if _, _, moved := c.seen(); moved > 0 {
			t.Errorf("%s: %d turns were answered by another model than the one before", c.name, moved)
		}
	}

	d.crash.Store(true)
	for _, e := range d.engines[3:5] {
		e.kill()
	}
	d.each("it knows that the engines are down", func(i int) bool {
		_, said := d.get(i, "/metrics")
		return sumOf(said, "warmpath_endpoint_state", `"gpu-4"`, `"down"`) == 1 &&
			sumOf(said, "warmpath_endpoint_state", `"gpu-5"`, `"down"`) == 1
	})
	d.works(2)
	d.crash.Store(false)
	d.works(8)
	d.shares("10:30 Rolled back")
	d.again(3)
	d.again(4)
	d.works(4)
	if begun := d.begins(8); begun["llama-8b-next"] > 0 {
		t.Errorf("after the new model was rolled back conversations began with %v", begun)
	}

	d.chapter("11:00 An engine is serviced")
	for _, admin := range []string{"10.0.0.11:9190", "10.0.0.12:9190"} {
		d.warmpath("warmpath drain gpu-1 --wait 5m --admin http://" + admin)
	}
	if n := d.engines[0].open(); n != 0 {
		t.Errorf("%d answers run at a drained engine", n)
	}
	d.engines[0].kill()
	d.works(4)
	d.again(0)
	for _, admin := range []string{"10.0.0.11:9190", "10.0.0.12:9190"} {
		d.warmpath("warmpath drain gpu-1 --undo --admin http://" + admin)
	}
	d.until("the engine has work again", func() bool {
		_, said := fetched(t, http.MethodGet, d.engines[0].url+"/_sim/stats", "")
		var s struct{ Requests int }
		return json.Unmarshal([]byte(said), &s) == nil && s.Requests > 0
	})

	d.chapter("13:00 A tenant is cut off")
	d.write("keys.yaml", strings.Join(lines[:len(lines)-1], ""))
	d.until("the tenant is cut off", func() bool { cut.mu.Lock(); defer cut.mu.Unlock(); return cut.status != 0 })
	if cut.status != http.StatusUnauthorized {
		t.Errorf("the tenant that was cut off got %d", cut.status)
	}
	d.works(2)

	d.chapter("14:00 The certificate is renewed")
	old := d.serial(0)
	d.ca.sign("tls", "127.0.0.1")
	d.certificate()
	d.each("it shows the new certificate", func(i int) bool { return d.serial(i) > old })
	d.works(4)

	d.chapter("15:00 Redis restarts")
	if d.redis != nil {
		d.redis.kill()
		d.each("it says that it is alone", func(i int) bool {
			status, said := d.get(i, "/readyz")
			return status == http.StatusOK && strings.HasPrefix(said, "ready, but")
		})
		d.works(4)
		d.startRedis()
		d.hear(0, 1)
	}

	d.unfailed() // the counts end with the processes
	d.chapter("16:00 A new version")
	for i := range 2 {
		d.stops(i)
		d.start(i)
		d.hear(0, 1)
		d.works(4)
	}

	d.chapter("17:00 A router moves to another host")
	d.open(2)
	d.start(2)
	d.hear(0, 1, 2)
	d.works(4)
	d.stops(1)
	shut()
	d.works(8)

	d.chapter("18:00 The day's figures")
	leave()
	d.under.Wait()
	d.warmpath("warmpath endpoints --admin http://10.0.0.11:9190")
	d.block("warmpath endpoints --admin http://10.0.0.11:9190\n" +
		"curl -H \"Authorization: Bearer TOKEN\" http://10.0.0.11:9190/admin/troubles")
	d.each("no trouble is left", func(i int) bool {
		_, said := d.get(i, "/admin/troubles")
		var s struct{ Troubles []struct{ Severity string } }
		if err := json.Unmarshal([]byte(said), &s); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return !slices.ContainsFunc(s.Troubles, func(x struct{ Severity string }) bool { return x.Severity == "bad" })
	})
	d.each("its books are empty", func(i int) bool {
		_, said := d.get(i, "/metrics")
		return sumOf(said, "warmpath_leases") == 0 && sumOf(said, "warmpath_double_finished_total") == 0 &&
			sumOf(said, "warmpath_endpoint_outstanding_requests") == 0
	})
	d.unfailed()
}
