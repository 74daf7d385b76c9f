//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/freeport"
)

// TestHurtReplicas drives three routers before two engines, all processes, while clients keep asking each of them: a
// router that stalls or is killed, and over Redis a server that does. No answer is lost but those of the router that
// was killed; the others say what is amiss, and their books are empty afterwards.
func TestHurtReplicas(t *testing.T) {
	t.Parallel()
	bin := built(t)
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		r := replicaRig(t, bin, func(i int, at []string) string {
			return fmt.Sprintf("peers: {listen: %q, routers: [\"%s\"]}\n", at[i], strings.Join(at, `", "`))
		})
		r.limits()
		r.stalls(1)
		r.dies(2)
		r.goesOn()
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		program, err := exec.LookPath("redis-server")
		if err != nil {
			t.Skip("there is no redis-server (apt-get install redis-server)")
		}
		at := freeport.Address()
		_, port, _ := net.SplitHostPort(at)
		start := func() *process {
			p := run(t, program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
			p.says("Ready to accept connections")
			return p
		}
		redis := start()
		r := replicaRig(t, bin, func(int, []string) string { return "peers: {routers: [\"redis://" + at + "/0\"]}\n" })
		r.limits()
		load := r.load()
		redis.stop()
		r.alone()
		redis.signal(syscall.SIGCONT)
		r.together()
		redis.kill()
		r.alone()
		start()
		r.together()
		load()
		r.stalls(0)
		r.dies(1)
		r.goesOn()
		for _, p := range r.routers { // all restart; what they knew is in Redis
			p.ends()
		}
		r.start(0)
		r.routers[0].says("knows what was kept of conversations")
	})
}

// TestHurtFailover: the Redis server of three routers under load dies and another one takes its place: the master that
// a Sentinel watches, and each master of a Cluster in turn. No answer is lost, the routers say at their logs, /readyz
// and the page that they are alone, hear each other again through the new master without anything being told to them,
// and keep there what they learn.
func TestHurtFailover(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server (apt-get install redis-server)")
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("there is no redis-cli (apt-get install redis-tools)")
	}
	bin := built(t)
	redis := func(t *testing.T, at string, args ...string) *process {
		t.Helper()
		_, port, _ := net.SplitHostPort(at)
		p := run(t, program,
			append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)...)
		p.says("Ready to accept connections")
		return p
	}
	ask := func(t *testing.T, at string, args ...string) string {
		t.Helper()
		_, port, _ := net.SplitHostPort(at)
		out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
		if err != nil { // one that is dead is asked too
			return err.Error()
		}
		return string(out)
	}
	// dies kills a master under load. When all routers have said so, another one may take its place (fail), and they
	// work through that.
	dies := func(r *replicaRigs, master *process, next string, fail func()) {
		t := r.t
		t.Helper()
		load := r.load()
		master.kill()
		for _, p := range r.routers {
			p.await("it says at /readyz that Redis is away, and is ready", func() bool {
				status, said := fetched(t, http.MethodGet, p.url+"/readyz", "")
				return status == http.StatusOK &&
					(strings.Contains(said, "other router") || strings.Contains(said, "cannot be kept"))
			})
			p.await("the page says so", func() bool {
				_, said := fetched(t, http.MethodGet, p.admin+"/admin/troubles", "")
				return strings.Contains(said, "ther routers cannot be heard") ||
					strings.Contains(said, "No other router") || strings.Contains(said, "is not kept")
			})
			p.await("the log says so", func() bool {
				return strings.Contains(p.text(), "a router is gone") || strings.Contains(p.text(), "cannot be kept")
			})
		}
		fail()
		r.routers[0].await(next+" is a master", func() bool {
			return strings.HasPrefix(ask(t, next, "role"), "master")
		})
		r.together()
		for _, p := range r.routers {
			p.await("it says at /readyz that all is well", func() bool {
				status, said := fetched(t, http.MethodGet, p.url+"/readyz", "")
				return status == http.StatusOK && said == "ready\n"
			})
			p.await("what is learnt is kept again", func() bool {
				_, said := fetched(t, http.MethodGet, p.admin+"/admin/replicas", "")
				var s struct{ Kept struct{ Problem string } }
				if err := json.Unmarshal([]byte(said), &s); err != nil {
					t.Fatalf("%v: %s", err, said)
				}
				return s.Kept.Problem == ""
			})
		}
		load()
		for _, p := range r.routers {
			p.booksEmpty()
		}
	}
	restart := func(r *replicaRigs) {
		for _, p := range r.routers {
			p.ends()
		}
		r.start(0)
		r.routers[0].says("knows what was kept of conversations")
	}
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		first, second, watch := freeport.Address(), freeport.Address(), freeport.Address()
		master := redis(t, first)
		_, port, _ := net.SplitHostPort(first)
		redis(t, second, "--replicaof", "127.0.0.1 "+port).says("MASTER <-> REPLICA sync: Finished with success")
		_, watching, _ := net.SplitHostPort(watch)
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		text := "port " + watching + "\nbind 127.0.0.1\nsentinel monitor mine 127.0.0.1 " + port +
			" 1\nsentinel down-after-milliseconds mine 60000\nsentinel failover-timeout mine 5000\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, program, file, "--sentinel").says("+slave")
		r := replicaRig(t, bin, func(int, []string) string {
			return "peers: {routers: [\"redis://" + watch + "?master_set=mine\"]}\n"
		})
		dies(r, master, second, func() { ask(t, watch, "sentinel", "set", "mine", "down-after-milliseconds", "500") })
		redis(t, first) // is made a replica of the other one
		r.goesOn()
		restart(r)
	})
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		create, at, nodes := []string{"--cluster", "create"}, []string{}, map[string]*process{}
		start := func(i int) {
			t.Helper()
			_, bus, _ := net.SplitHostPort(freeport.Address())
			nodes[at[i]] = redis(t, at[i], "--cluster-enabled", "yes", "--cluster-port", bus,
				"--cluster-node-timeout", "1500")
		}
		for i := range 6 {
			at = append(at, freeport.Address())
			start(i)
		}
		create = append(append(create, at...), "--cluster-replicas", "1", "--cluster-yes")
		ask(t, at[0], create...)
		replica := map[string]string{} // of a master
		for _, a := range at {
			role := strings.Fields(ask(t, a, "role"))
			if len(role) >= 4 && role[0] == "slave" {
				nodes[a].says("MASTER <-> REPLICA sync: Finished with success")
				replica[net.JoinHostPort(role[1], role[2])] = a
			}
		}
		if len(replica) != 3 {
			t.Fatalf("masters and their replicas are %v", replica)
		}
		r := replicaRig(t, bin, func(int, []string) string {
			return "peers: {routers: [\"redis://" + at[0] + "?addr=" + strings.Join(at[1:], "&addr=") + "\"]}\n"
		})
		patience := func(ms string) {
			for _, a := range at {
				ask(t, a, "config", "set", "cluster-node-timeout", ms)
			}
		}
		for master, next := range replica {
			patience("60000")
			dies(r, nodes[master], next, func() { patience("1500") })
			delete(nodes, master)
		}
		r.goesOn()
		restart(r)
	})
}

// replicaRigs are routers of one fleet.
type replicaRigs struct {
	t       *testing.T
	start   func(i int)
	routers [3]*routerProcess
}

// replicaRig starts routers that hear each other by what peers says.
func replicaRig(t *testing.T, bin string, peers func(i int, at []string) string) *replicaRigs {
	t.Helper()
	engines := [2]*engineProcess{runEngineAt(t, bin, "127.0.0.1:0"), runEngineAt(t, bin, "127.0.0.1:0")}
	at := []string{freeport.Address(), freeport.Address(), freeport.Address()}
	r := &replicaRigs{t: t}
	r.start = func(i int) {
		t.Helper()
		r.routers[i] = runRouter(t, bin,
			"", fmt.Sprintf("endpoints:\n- {url: %q, name: e0}\n- {url: %q, name: e1}\nprobe: {interval: 200ms}\n"+
				"tenants: {header: X-Tenant, limits: [{tenant: counted, requests_per_minute: 60}]}\n",
				engines[0].url, engines[1].url)+peers(i, at))
		r.routers[i].up("e0", "e1")
	}
	for i := range r.routers {
		r.start(i)
	}
	r.together()
	return r
}

// limits shows that what a tenant uses counts at all routers: its minute's requests are dealt over them, and at the end
// each refuses it.
func (r *replicaRigs) limits() {
	r.t.Helper()
	ask := func(i int) (status int, left string) {
		res, _ := asked(r.t, r.routers[i].url+"/v1/chat/completions",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`, "X-Tenant", "counted")
		return res.StatusCode, res.Header.Get("X-Ratelimit-Remaining-Requests")
	}
	served := 0
	for i := range 50 {
		if status, _ := ask(i % 3); status == http.StatusOK {
			served++
		}
	}
	if served != 50 {
		r.t.Errorf("%d of 50 requests were served", served)
	}
	for i, p := range r.routers {
		p.await(fmt.Sprintf("router %d refuses what the others have let in", i), func() bool {
			status, left := ask(i)
			if status == http.StatusOK {
				served++
			}
			return status == http.StatusTooManyRequests && left == "0"
		})
	}
	if served > 120 { // with what a minute gives meanwhile; three times 60 if each counted alone
		r.t.Errorf("%d requests were served of 60 a minute", served)
	}
}

// heard is how many others a router knows all of.
func heard(r *routerProcess) (n int) {
	_, said := fetched(r.t, http.MethodGet, r.admin+"/admin/replicas", "")
	var s struct{ Peers []struct{ Synced bool } }
	if err := json.Unmarshal([]byte(said), &s); err != nil {
		r.t.Fatalf("%v: %s", err, said)
	}
	for _, p := range s.Peers {
		if p.Synced {
			n++
		}
	}
	return n
}

func (r *replicaRigs) hear(others int, of ...int) {
	r.t.Helper()
	for _, i := range of {
		r.routers[i].await(fmt.Sprintf("router %d hears %d others", i, others), func() bool {
			return heard(r.routers[i]) == others
		})
	}
}

func (r *replicaRigs) together() {
	r.t.Helper()
	r.hear(2, 0, 1, 2)
}

// alone waits until no router hears another one, which each says and is ready with.
func (r *replicaRigs) alone() {
	r.t.Helper()
	r.hear(0, 0, 1, 2)
	for _, p := range r.routers {
		p.says("a router is gone")
		p.await("it says at /readyz that others are not found", func() bool {
			status, said := fetched(r.t, http.MethodGet, p.url+"/readyz", "")
			return status == http.StatusOK && strings.Contains(said, "other router")
		})
	}
}

// load has clients ask all routers, but for some, until it is ended. No answer may be less than whole.
func (r *replicaRigs) load(but ...int) (end func()) {
	r.t.Helper()
	stop, began := make(chan struct{}), make(chan struct{}, 100)
	var wg sync.WaitGroup
	for i, p := range r.routers {
		if len(but) > 0 && but[0] == i {
			continue
		}
		for client := range 4 {
			wg.Go(func() {
				for turn := 0; ; turn++ {
					select {
					case <-stop:
						return
					default:
					}
					if a := p.stream(fmt.Sprintf("client %d of router %d asks for the %d. time", client, i, turn),
						30, nil); !a.whole(30) {
						r.t.Errorf("a client of router %d got %+v", i, a)
						return
					}
					select {
					case began <- struct{}{}:
					default:
					}
				}
			})
		}
	}
	for range 24 { // it is at work
		<-began
	}
	return func() {
		close(stop)
		wg.Wait()
	}
}

// stalls stops a router until the others forget what it has under way, and lets it go on. What its clients asked for is
// answered.
func (r *replicaRigs) stalls(i int) {
	r.t.Helper()
	load := r.load()
	others := r.but(i)
	r.routers[i].stop()
	r.hear(1, others...)
	r.routers[i].signal(syscall.SIGCONT)
	r.together()
	load()
	for _, p := range r.routers {
		p.booksEmpty()
	}
}

func (r *replicaRigs) but(i int) (others []int) {
	for k := range r.routers {
		if k != i {
			others = append(others, k)
		}
	}
	return others
}

// dies kills a router while it answers, and starts it anew: it knows what the others do.
func (r *replicaRigs) dies(i int) {
	r.t.Helper()
	load, lost := r.load(i), r.routers[i].begun(5, 100_000)
	others := r.but(i)
	r.routers[i].kill()
	for range 5 {
		if a := <-lost; a.whole(100_000) {
			r.t.Errorf("a killed router has answered: %+v", a)
		}
	}
	r.hear(1, others...)
	load()
	for _, k := range others {
		r.routers[k].says("a router is gone")
		r.routers[k].booksEmpty()
	}
	r.start(i)
	r.routers[i].says("this router knows what another one has learnt")
	r.together()
}

// goesOn shows that all answer, and that nothing is left.
func (r *replicaRigs) goesOn() {
	r.t.Helper()
	for _, p := range r.routers {
		for _, a := range p.streams(6, 20) {
			if !a.whole(20) {
				r.t.Errorf("afterwards a client got %+v", a)
			}
		}
	}
	for _, p := range r.routers {
		p.booksEmpty()
	}
}

// TestHurtNetwork cuts the network between three routers, each in a network namespace of its own, while their clients
// keep asking: around one, around all, and between two. Engines stay reachable. No answer is lost, each router says
// that others are gone, and afterwards all know all again. It needs root and ip (iproute2).
func TestHurtNetwork(t *testing.T) {
	t.Parallel()
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	// Names and addresses of this test's own: other tests may run beside it.
	id, names := os.Getpid()%10_000, [3]string{}
	bridge, network := fmt.Sprintf("wpb%d", id), fmt.Sprintf("10.%d.%d", 64+id/200, id%200)
	if err := ip("link", "add", bridge, "type", "bridge"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = ip("link", "del", bridge) })
	must := func(args ...string) {
		t.Helper()
		if err := ip(args...); err != nil {
			t.Fatal(err)
		}
	}
	must("addr", "add", network+".254/24", "dev", bridge)
	must("link", "set", bridge, "up")
	for i := range names {
		names[i] = fmt.Sprintf("wp%d-%d", id, i)
		outside, inside := fmt.Sprintf("wpo%d-%d", id, i), fmt.Sprintf("wpi%d-%d", id, i)
		if err := ip("netns", "add", names[i]); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = ip("netns", "del", names[i]) })
		if err := ip("link", "add", outside, "type", "veth", "peer", "name", inside); err != nil {
			t.Skip(err)
		}
		must("link", "set", outside, "master", bridge, "up")
		must("link", "set", inside, "netns", names[i])
		must("-n", names[i], "addr", "add", address(network, i)+"/24", "dev", inside)
		must("-n", names[i], "link", "set", inside, "up")
		must("-n", names[i], "link", "set", "lo", "up")
	}
	bin := built(t)
	engines := [2]*engineProcess{runEngineAt(t, bin, network+".254:0"), runEngineAt(t, bin, network+".254:0")}
	r := &replicaRigs{t: t}
	for i := range names {
		file := filepath.Join(t.TempDir(), "warmpath.yaml")
		text := fmt.Sprintf("listen: %s:8080\nadmin: {listen: \"%s:8081\", token: a-token-of-this-test}\n",
			address(network, i), address(network, i)) +
			fmt.Sprintf("endpoints:\n- {url: %q, name: e0}\n- {url: %q, name: e1}\nprobe: {interval: 200ms}\n",
				engines[0].url, engines[1].url) + fmt.Sprintf("peers: {listen: "+
			"\"%s:7946\", secret: a-secret-of-this-test, routers: [\"%s:7946\", \"%s:7946\", \"%s:7946\"]}\n",
			address(network, i), address(network, 0), address(network, 1), address(network, 2))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p := run(t, "ip", "netns", "exec", names[i], bin, "serve", "-c", file)
		p.says(", on ")
		r.routers[i] = &routerProcess{process: p, url: "http://" + address(network, i) + ":8080", admin: "http://" +
			address(network, i) + ":8081", client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
		t.Cleanup(r.routers[i].client.CloseIdleConnections)
	}
	get := func(i int, path string) string {
		req, err := http.NewRequest(http.MethodGet, r.routers[i].admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a-token-of-this-test")
		res, err := r.routers[i].client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return string(b)
	}
	hear := func(others ...int) {
		t.Helper()
		for i, p := range r.routers {
			p.await(fmt.Sprintf("router %d hears %d others", i, others[i]), func() bool {
				return strings.Count(get(i, "/admin/replicas"), `"synced":true`) == others[i]
			})
		}
	}
	cut := func(at, from int, how string) { // nothing of one router goes to another one
		t.Helper()
		must("-n", names[at], "route", how, "blackhole", address(network, from)+"/32")
	}
	hear(2, 2, 2)
	for _, p := range r.routers {
		p.await("its engines are up", func() bool { a := p.stream("are you there?", 2, nil); return a.whole(2) })
	}
	for name, partition := range map[string]struct {
		cuts  [][2]int
		heard []int
	}{
		"one is cut off":             {[][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}}, []int{0, 1, 1}},
		"all are cut off":            {[][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}, []int{0, 0, 0}},
		"two do not hear each other": {[][2]int{{1, 2}, {2, 1}}, []int{2, 1, 1}},
	} {
		load := r.load()
		for _, c := range partition.cuts {
			cut(c[0], c[1], "add")
		}
		hear(partition.heard...)
		for i, p := range r.routers {
			if partition.heard[i] < 2 {
				p.says("a router is gone")
			}
		}
		for _, c := range partition.cuts {
			cut(c[0], c[1], "del")
		}
		hear(2, 2, 2)
		load()
		for i, p := range r.routers {
			p.await(name+": the books are empty",
				func() bool { return sumOf(get(i, "/metrics"), "warmpath_endpoint_outstanding_requests") == 0 })
		}
	}
}

func address(network string, i int) string { return fmt.Sprintf("%s.%d", network, i+1) }
