package peers

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// server starts a redis-server and returns its address and how to kill it. The test is skipped where there is none.
func server(t testing.TB, port string, options ...string) (address string, kill func()) {
	t.Helper()
	var process *os.Process
	return serverWith(t, port, &process, options...)
}

func serverWith(t testing.TB, port string, process **os.Process, options ...string) (address string, kill func()) {
	t.Helper()
	*process, kill = start(t, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}, options...)...)
	return "127.0.0.1:" + port, kill
}

// start starts a redis-server and returns when it serves. A test of what this version of it cannot do is skipped.
func start(t testing.TB, args ...string) (process *os.Process, kill func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server (apt-get install redis-server)")
	}
	c := exec.Command(program, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { _ = c.Process.Kill(); _ = c.Wait() })
	t.Cleanup(kill)
	said := ""
	for lines := bufio.NewScanner(out); ; {
		if !lines.Scan() {
			if strings.Contains(said, "Bad directive") {
				t.Skipf("this redis-server lacks a feature that the test is about: redis-server %s: %q", args, said)
			}
			t.Fatal("redis-server has ended:", said)
		}
		said += lines.Text() + "\n"
		if strings.Contains(said, "Ready to accept connections") || strings.Contains(said, "+monitor master") {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return c.Process, kill
		}
	}
}

func freePort() string {
	_, port, _ := net.SplitHostPort(freeport.Address())
	return port
}

func overRedis(t *testing.T, url, fleetName string) *node {
	return overRedisWith(t, url, fleetName, RedisOptions{})
}

func overRedisWith(t *testing.T, url, fleetName string, with RedisOptions) *node {
	t.Helper()
	d, err := NewRedis(url, with)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{log: &strings.Builder{}, memory: &memory{on: &wire{}}, limits: limited()}
	if n.group, err = New(Config{
		Fleet: fleetName, Transport: d, Policy: func() uint64 { return 1 }, Memory: n.memory, Limits: n.limits,
		Store: d, KeepFor: time.Hour, KeepMost: 100_000, Log: slog.New(slog.NewTextHandler(n.log, nil)),
	}); err != nil {
		t.Fatal(err)
	}
	n.Fleet = live.New(route.New(route.Config{Policy: func() pick.Policy { return firstPick{} }, Replicas: true}),
		time.Now, n.group.Listener(), live.Listener{Entry: n.see})
	n.memory.router = n.Fleet
	n.group.Serve(n.Fleet)
	n.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{
		{Name: "x", URL: "http://x", Weight: 1}, {Name: "y", URL: "http://y", Weight: 1},
	}})
	for _, e := range []string{"x", "y"} {
		n.Observe(route.Probed{Endpoint: e, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.group.Run(ctx) })
	n.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); d.Close() })
	t.Cleanup(n.stop)
	return n
}

// until waits until it is so; the test ends by its own time limit if it never is.
func until(t testing.TB, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-t.Context().Done():
			t.Fatal("it is not so in time")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestRedis: routers hear each other over a real server: one that is full and holds what others keep there too, and
// again after it was killed; a fleet of another name on it is not heard.
func TestRedis(t *testing.T) {
	t.Parallel()
	port := freePort()
	address, kill := server(t, port, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	url := "redis://" + address + "/0"
	a, b, other := overRedis(t, url, "one"), overRedis(t, url, "one"), overRedis(t, url, "two")
	requests := func(n *node) int { return n.Status()[0].Load.Requests }
	synced := func(n *node) bool { s := n.group.Status(); return len(s.Peers) == 1 && s.Peers[0].Synced }
	until(t, func() bool { return synced(a) && synced(b) })
	a.place(t, "one", 40)
	until(t, func() bool { return requests(b) == 1 })
	let := a.enter(t, 5)
	until(t, func() bool { return b.room() == mostOpen-5 })
	let()
	until(t, func() bool { return b.room() == mostOpen })
	kill()
	until(t, func() bool {
		_, why := b.group.Note()
		return b.group.Peers() == 0 && requests(b) == 0 && strings.Contains(why, "Redis")
	})
	a.place(t, "two", 10)
	server(t, port)
	until(t, func() bool { return synced(a) && synced(b) && requests(b) == 2 })
	if n := other.group.Peers(); n != 0 || requests(other) != 0 {
		t.Errorf("the other fleet hears %d", n)
	}
}

// command is what redis-cli says.
func command(t testing.TB, port string, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
	if err != nil || strings.HasPrefix(string(out), "ERR") {
		t.Fatalf("redis-cli %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func answers(t testing.TB, port string, args ...string) {
	t.Helper()
	until(t, func() bool {
		return exec.Command("redis-cli", append(append([]string{"-p", port}, args...), "ping")...).Run() == nil
	})
}

// TestRedisPasswordIsRenewed: each connection takes the password as it is then; one that cannot be read is the last.
func TestRedisPasswordIsRenewed(t *testing.T) {
	now, fault := "first", error(nil)
	d, err := NewRedis("redis://warmpath@127.0.0.1:1/0", RedisOptions{
		Password: now, Renew: func() (string, error) { return now, fault },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		now   string
		fault error
		want  string
	}{{"first", nil, "first"}, {"second", nil, "second"}, {"", os.ErrNotExist, "second"}, {"third", nil, "third"}} {
		now, fault = row.now, row.fault
		got, err := d.options.AuthCredentialsFn(rueidis.AuthCredentialsContext{})
		if err != nil || got.Username != "warmpath" || got.Password != row.want {
			t.Errorf("%q, %v: %+v, %v; want %q", row.now, row.fault, got, err, row.want)
		}
	}
}

// TestRedisTLSIsRenewed: each connection takes the authorities and the certificate as they are then; while they cannot
// be read, those that were read last.
func TestRedisTLSIsRenewed(t *testing.T) {
	old, renewed := t.TempDir(), t.TempDir()
	first, second := certificates(t, old), certificates(t, renewed)
	serve := func(dir string, clients *tls.Config) string {
		pair, err := tls.LoadX509KeyPair(dir+"/server.pem", dir+"/server.key")
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: clients.RootCAs, MaxVersion: tls.VersionTLS12, // the client learns within the handshake
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_ = c.(*tls.Conn).Handshake()
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	before, after := serve(old, first), serve(renewed, second)
	now, fault := first, error(nil)
	d, err := NewRedis("rediss://127.0.0.1:1/0", RedisOptions{
		TLS: func() (*tls.Config, error) { return now, fault },
	})
	if err != nil {
		t.Fatal(err)
	}
	var l links
	defer l.cut()
	for _, row := range []struct {
		now   *tls.Config
		fault error
		at    string
		want  bool
	}{
		{first, nil, before, true},
		{first, nil, after, false},
		{second, nil, after, true},
		{second, nil, before, false},
		{nil, os.ErrNotExist, after, true},
		{first, nil, before, true},
	} {
		now, fault = row.now, row.fault
		c, err := d.dialer(&l)(t.Context(), row.at, &net.Dialer{}, d.options.TLSConfig)
		if (err == nil) != row.want {
			t.Errorf("%+v: %v", row, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
	fault = os.ErrNotExist
	if _, err := NewRedis("rediss://127.0.0.1:1/0", RedisOptions{
		TLS: func() (*tls.Config, error) { return now, fault },
	}); err == nil {
		t.Error("files that are not there are no error")
	}
}

// TestRedisDeployments: routers hear each other, and what they have learnt outlives them, over each way to run Redis;
// another fleet there neither hears nor reads of it.
func TestRedisDeployments(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("there is no redis-cli (apt-get install redis-tools)")
	}
	rows := map[string]func(t *testing.T) (url string, with RedisOptions){
		"one server": func(t *testing.T) (string, RedisOptions) {
			at, _ := server(t, freePort())
			return "redis://" + at + "/3", RedisOptions{}
		},
		"a user with the rights in the documentation": func(t *testing.T) (string, RedisOptions) {
			port := freePort()
			at, _ := server(t, port)
			answers(t, port)
			for _, args := range accessList("s3cret") {
				command(t, port, args...)
			}
			command(t, port, "acl", "setuser", "default", "off")
			return "redis://warmpath@" + at + "/0", RedisOptions{Password: "s3cret"}
		},
		"TLS, with certificates on both sides": func(t *testing.T) (string, RedisOptions) {
			dir, port := t.TempDir(), freePort()
			own := certificates(t, dir)
			server(t, "0", "--tls-port", port, "--tls-cert-file", dir+"/server.pem",
				"--tls-key-file", dir+"/server.key", "--tls-ca-cert-file", dir+"/ca.pem")
			return "rediss://127.0.0.1:" + port, RedisOptions{
				TLS: func() (*tls.Config, error) { return own, nil },
			}
		},
		"Sentinel": func(t *testing.T) (string, RedisOptions) {
			port, watch := freePort(), freePort()
			server(t, port)
			answers(t, port)
			file := t.TempDir() + "/sentinel.conf"
			text := "port " + watch + "\nbind 127.0.0.1\nrequirepass watcher\nsentinel monitor mine 127.0.0.1 " +
				port + " 1\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			start(t, file, "--sentinel")
			answers(t, watch, "-a", "watcher")
			return "redis://127.0.0.1:" + freePort() + "?addr=127.0.0.1:" + watch + "&master_set=mine", RedisOptions{
				SentinelPassword: "watcher",
			}
		},
		"Cluster": func(t *testing.T) (string, RedisOptions) {
			url, args := "redis://", []string{"--cluster", "create"}
			for i := range 3 {
				port := freePort()
				at, _ := server(t, port, "--cluster-enabled", "yes", "--cluster-port", freePort())
				answers(t, port)
				args = append(args, at)
				url += []string{at, "?addr=" + at, "&addr=" + at}[i]
			}
			command(t, "0", append(args, "--cluster-yes")...)
			return url, RedisOptions{}
		},
	}
	for name, deploy := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, with := deploy(t)
			a, b, other := overRedisWith(t, url, "one", with), overRedisWith(t, url, "one", with),
				overRedisWith(t, url, "two", with)
			synced := func(n *node) bool { s := n.group.Status(); return len(s.Peers) == 1 && s.Peers[0].Synced }
			until(t, func() bool { return synced(a) && synced(b) && a.ready() && b.ready() && other.ready() })
			for i := range 300 {
				a.serve(t, fmt.Sprint("chat", i), "y")
			}
			until(t, func() bool { return b.home(t, "chat7") == "y" })
			until(t, func() bool { s := a.group.Status().Kept; return s.Written >= 300 && s.Waiting == 0 })
			for _, n := range []*node{a, b, other} {
				n.stop()
			}
			c, stranger := overRedisWith(t, url, "one", with), overRedisWith(t, url, "two", with)
			// a router is ready after 2 s, whatever it has read
			until(t, func() bool { return c.ready() && stranger.ready() && c.group.Status().Kept.Loaded >= 300 })
			if s := c.group.Status().Kept; s.Problem != "" {
				t.Errorf("%+v", s)
			}
			if s := stranger.group.Status().Kept; s.Loaded != 0 || s.Problem != "" {
				t.Errorf("the other fleet: %+v", s)
			}
			for i := 10; i < 300; i += 10 {
				if got := c.home(t, fmt.Sprint("chat", i)); got != "y" {
					t.Errorf("chat%d is at home at %s", i, got)
				}
			}
			if t.Failed() {
				t.Log(a.log, c.log)
			}
		})
	}
}

// accessList makes the user that docs/replicas.md names, from there.
func accessList(password string) (commands [][]string) {
	b, err := os.ReadFile("../../docs/replicas.md")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "redis-cli ACL SETUSER") {
			line = strings.NewReplacer("'", "", "PASSWORD", password).Replace(line)
			commands = append(commands, strings.Fields(line)[1:])
		}
	}
	return commands
}

// certificates writes an authority, a server's certificate and its key, and returns what a client needs.
func certificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	write := func(name, kind string, der []byte) {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name,
			pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sign := func(c, by *x509.Certificate, key, of *ecdsa.PrivateKey) []byte {
		t.Helper()
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, of)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	until := time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: until, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	host := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	user := &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "router"}, NotAfter: until}
	caKey, hostKey, userKey := key(), key(), key()
	caDER := sign(ca, ca, caKey, caKey)
	write("ca.pem", "CERTIFICATE", caDER)
	write("server.pem", "CERTIFICATE", sign(host, ca, hostKey, caKey))
	b, err := x509.MarshalECPrivateKey(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	write("server.key", "EC PRIVATE KEY", b)
	parsed, err := x509.ParseCertificate(caDER)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{
		{Certificate: [][]byte{sign(user, ca, userKey, caKey)}, PrivateKey: userKey},
	}}
}

// BenchmarkKept: what so many conversations take in a Redis server, and how long a router takes to read them. They have
// ids of their own, half of them minted, as clients without ids have.
func BenchmarkKept(b *testing.B) {
	const conversations = 1_000_000
	for b.Loop() {
		port := freePort()
		at, _ := server(b, port)
		answers(b, port)
		d, err := NewRedis("redis://"+at+"/0", RedisOptions{})
		if err != nil {
			b.Fatal(err)
		}
		s := Self{Fleet: 1, Incarnation: 2}
		k, err := newKeeper(&Config{Store: d, KeepFor: time.Hour}, s)
		if err != nil {
			b.Fatal(err)
		}
		used := func() (bytes float64) {
			for line := range strings.Lines(command(b, port, "info", "memory")) {
				if n, ok := strings.CutPrefix(line, "used_memory:"); ok {
					_, _ = fmt.Sscan(n, &bytes)
				}
			}
			return bytes
		}
		before, value, began := used(), 0, time.Now()
		for from := 0; from < conversations; from += mostAtOnce {
			var all []Kept
			for i := from; i < from+mostAtOnce; i++ {
				key := session.KeyFrom(uint64(i), 1)
				e := learnt.Conversation{
					Hi: uint64(i), Lo: 1, Model: 1, Leader: 2, Tokens: 20_000, Prompt: 19_000, Bytes: 80_000,
					Flow: 1 << 20, Turns: 20,
				}
				p, h := learnt.Conversations{Names: []string{"engine-17", "llama-3.3-70b", ""}}, learnt.Announcement{
					Key: key, Named: true,
				}
				if i%2 == 0 {
					p.Claimed = []learnt.Conversation{e}
				} else {
					p.Unclaimed = []learnt.Conversation{e}
					h = learnt.Announcement{
						Key: key, ID: "wp-0123456789abcdefghij", Minted: true, Trail: session.Noted{
							Main: 1, Turn: 2, Chat: 3, Answer: 4, StrictAnswer: 5, Text: 6, StrictText: 7, Tail: 8,
						},
					}
				}
				name, now := k.nameOf(key), time.Now()
				plain, _ := appendKept(nil, &p, &h)
				all = append(all, Kept{name, k.close(name, now, s.Incarnation, plain), k.keep})
				value += len(all[len(all)-1].Value)
			}
			if err := d.Put(b.Context(), s, all); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(value)/conversations, "B-of-a-value")
		b.ReportMetric((used()-before)/1e6, "MB")
		b.ReportMetric(conversations/time.Since(began).Seconds(), "written/s")
		read, o, bad := time.Now(), &opener{nil, 1, map[uint64]sealer{}}, 0
		n := 0
		if err := d.Each(b.Context(), s, func(name string, value []byte) bool {
			plain, _, err := o.open(name, value)
			if err == nil {
				_, err = readKept(plain, &learnt.Conversations{})
			}
			if n++; err != nil {
				bad++
			}
			return true
		}); err != nil || n != conversations || bad > 0 {
			b.Fatal(n, bad, err)
		}
		b.ReportMetric(float64(n)/time.Since(read).Seconds(), "read/s")
		d.Close()
	}
}

// TestRedisFailures: two routers under load, and a server that stalls, is killed, is full, becomes read-only or holds
// what others put under a name of theirs: no request fails, the routers hear each other again, and what was learnt is
// kept afterwards.
func TestRedisFailures(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("there is no redis-cli (apt-get install redis-tools)")
	}
	rows := map[string]struct {
		fail, mend func(t *testing.T, port string, server func() *os.Process)
		silent     bool   // routers do not hear each other meanwhile
		says       string // of what is kept
	}{
		"it stalls": {
			fail:   func(t *testing.T, _ string, server func() *os.Process) { stall(t, server()) },
			mend:   func(_ *testing.T, _ string, server func() *os.Process) { goOn(server()) },
			silent: true,
		},
		"it is killed": {
			fail:   func(t *testing.T, _ string, server func() *os.Process) { _ = server().Kill() },
			mend:   func(t *testing.T, port string, _ func() *os.Process) { server(t, port) },
			silent: true,
		},
		"it is full": {
			fail: func(t *testing.T, port string, _ func() *os.Process) {
				command(t, port, "config", "set", "maxmemory", "1mb")
			},
			mend: func(t *testing.T, port string, _ func() *os.Process) {
				command(t, port, "config", "set", "maxmemory", "0")
			},
			says: "OOM",
		},
		"it is read-only": {
			fail: func(t *testing.T, port string, _ func() *os.Process) {
				command(t, port, "replicaof", "127.0.0.1", "1")
			},
			mend: func(t *testing.T, port string, _ func() *os.Process) { command(t, port, "replicaof", "no", "one") },
			says: "READONLY",
		},
		"another program's data is under a name": {
			fail: func(t *testing.T, port string, _ func() *os.Process) {
				var names []string
				until(t, func() bool {
					names = strings.Fields(command(t, port, "keys", "wp:*"))
					return len(names) >= 10
				})
				for _, name := range names {
					command(t, port, "del", name)
					command(t, port, "rpush", name, "something", "else")
				}
			},
			mend: func(*testing.T, string, func() *os.Process) {},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort()
			var process *os.Process
			at, _ := serverWith(t, port, &process)
			answers(t, port)
			a, b := overRedis(t, "redis://"+at+"/0", "one"), overRedis(t, "redis://"+at+"/0", "one")
			hear := func() bool {
				x, y := a.group.Status(), b.group.Status()
				return len(x.Peers) == 1 && x.Peers[0].Synced && len(y.Peers) == 1 && y.Peers[0].Synced
			}
			until(t, func() bool { return hear() && a.ready() && b.ready() })
			loads := []*load{a.load("one"), b.load("two")}
			until(t, func() bool { return a.group.Status().Kept.Written > 0 && b.group.Status().Kept.Written > 0 })
			row.fail(t, port, func() *os.Process { return process })
			switch {
			case row.silent:
				until(t, func() bool {
					_, why := a.group.Note()
					return a.group.Peers() == 0 && b.group.Peers() == 0 && why != ""
				})
			case row.says != "":
				until(t, func() bool {
					_, why := a.group.Note()
					return strings.Contains(a.group.Status().Kept.Problem, row.says) &&
						strings.Contains(why, row.says) && hear()
				})
			}
			row.mend(t, port, func() *os.Process { return process })
			until(t, hear)
			for _, l := range loads {
				l.end()
				if len(l.failed) > 0 {
					t.Errorf("%d of %d requests failed: %v", len(l.failed), l.served, l.failed[0])
				}
			}
			until(t, func() bool { return a.leases() == 0 && b.leases() == 0 })
			until(t, func() bool {
				x, y := a.group.Status().Kept, b.group.Status().Kept
				return x.Waiting == 0 && x.Problem == "" && y.Waiting == 0 && y.Problem == ""
			})
		})
	}
}
