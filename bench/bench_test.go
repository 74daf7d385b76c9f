package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"text/template"
	"time"
)

func TestBodies(t *testing.T) {
	for _, kind := range []string{bodiesFixed, bodiesNew, bodiesGrown} {
		for _, size := range []int{1, 8, 100, 500} {
			s := scenario{Size: size << 10, Stream: size == 1, Bodies: kind}
			seen := map[string]bool{}
			for i := range 6 {
				b := buildBody(s, rand.New(rand.NewPCG(uint64(size), uint64(i))))
				before := bytes.Clone(b.data)
				b.renew(uint64(i) + 1e15)
				var req struct {
					Model    string
					Stream   bool
					Messages []struct{ Role, Content string }
				}
				if err := json.Unmarshal(b.data, &req); err != nil || len(b.data) != s.Size {
					t.Fatalf("%s: %d bytes, %v", s, len(b.data), err)
				}
				n := len(req.Messages)
				if req.Model != "m" || req.Stream != s.Stream || req.Messages[0].Role != "system" ||
					req.Messages[n-1].Role != "user" {
					t.Errorf("%s: unexpected request of %d messages", s, n)
				}
				if seen[string(b.data)] {
					t.Errorf("%s: body %d occurs twice", s, i)
				}
				seen[string(b.data)] = true
				same := 0
				for same < len(before) && before[same] == b.data[same] {
					same++
				}
				part := float64(same) / float64(s.Size)
				if kind == bodiesFixed && part != 1 || kind == bodiesNew && same > 200 ||
					kind == bodiesGrown && math.Abs(part-0.9) > 0.06 {
					t.Errorf("%s: first difference at %.2f", s, part)
				}
			}
		}
	}
}

// TestLoadAgainstUpstream runs the generator straight against an upstream: no error may come from either.
func TestLoadAgainstUpstream(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go acceptLoop(ln, false)
	for _, s := range []scenario{
		{1 << 10, true, bodiesFixed}, {8 << 10, false, bodiesNew}, {100 << 10, false, bodiesGrown},
	} {
		f := newFleet(s, 1, true)
		if r := f.closedLoop(target{addr: ln.Addr().String()}, 100*time.Millisecond); r.Errors > 0 || r.Requests == 0 ||
			len(r.Latency) != r.Requests {
			t.Errorf("%s closed: %d requests, %d errors, %v", s, r.Requests, r.Errors, r.FirstErr)
		}
		if r := f.openLoop(target{addr: ln.Addr().String()}, 100, 100*time.Millisecond); r.Errors > 0 ||
			r.Requests != 10 {
			t.Errorf("%s open: %d requests, %d errors, %v", s, r.Requests, r.Errors, r.FirstErr)
		}
	}
}

// TestOpenStreams: each stream is read from its first chunk until it is closed, and one that ends is an error.
func TestOpenStreams(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go acceptLoop(ln, true)
	var s openStreams
	s.open(ln.Addr().String(), 40)
	if late := s.take(); len(late) < 40 || late[0] < 0 || s.failed > 0 {
		t.Errorf("%d chunks, %d failures, %v", len(late), s.failed, s.first)
	}
	s.close()
	if s.failed > 0 {
		t.Errorf("closing is a failure: %v", s.first)
	}

	short, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	go acceptLoop(short, false) // its streams end
	var ended openStreams
	ended.open(short.Addr().String(), 3)
	ended.wg.Wait()
	if ended.failed != 3 || ended.first == nil {
		t.Errorf("%d failures of 3, %v", ended.failed, ended.first)
	}
}

// The generator must notice answers that are not what the upstream sent.
func TestClientChecksAnswers(t *testing.T) {
	short := "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
	for _, row := range []struct{ name, answer, want string }{
		{"short", short, "answer of 3 bytes"},
		{"status", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "502"},
		{"cut", "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\nabc", "EOF"},
		{"cut stream", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "EOF"},
		{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "malformed chunk"},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			if _, err := r.ReadString('\n'); err == nil {
				_, _ = skipRest(r)
				_, _ = c.Write([]byte(row.answer))
			}
		}()
		s := scenario{Size: 1 << 10, Bodies: bodiesFixed}
		addr := ln.Addr().String()
		err = newClient(target{addr: addr}, s).do(requestHead(addr, s, ""), buildBodies(s, 1)[0].data)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got error %v, want %q", row.name, err, row.want)
		}
		ln.Close()
	}
}

func TestChunkedRequest(t *testing.T) {
	raw := "Host: x\r\nTransfer-Encoding: chunked\r\n\r\n1e;ext\r\n{\"model\":\"m\",\"stream\":true,  }\r\n" +
		"0\r\n\r\nGET /"
	r := bufio.NewReader(strings.NewReader(raw))
	stream, err := skipRest(r)
	if rest, _ := r.ReadString('/'); !stream || err != nil || rest != "GET /" {
		t.Errorf("stream %v, %v, rest %q", stream, err, rest)
	}
}

// TestStreamIsSeenAnywhere has bodies as routers write them anew, read through buffers of the usual size.
func TestStreamIsSeenAnywhere(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       bool
	}{
		{"at the end", `{"messages":"` + strings.Repeat("x", 100_000) + `","stream":true}`, true},
		{"with a blank", `{"messages":"` + strings.Repeat("x", 3000) + `","stream": true, "n":1}`, true},
		{"split between two reads", `{"messages":"` + strings.Repeat("x", 4096-13-5) + `","stream":true}`, true},
		{"not", `{"messages":"` + strings.Repeat("x", 5000) + `","stream":false}`, false},
		{"at the beginning", `{"stream":true,"messages":"` + strings.Repeat("x", 5000) + `"}`, true},
	} {
		for _, head := range []string{
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(c.body), c.body),
			fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
				200, c.body[:200], len(c.body)-200, c.body[200:]),
		} {
			r := bufio.NewReaderSize(strings.NewReader("Host: x\r\n"+head+"GET /"), 4096)
			stream, err := skipRest(r)
			if rest, _ := r.ReadString('/'); stream != c.want || err != nil || rest != "GET /" {
				t.Errorf("%s: stream %v, %v, rest %q", c.name, stream, err, rest)
			}
		}
	}
}

func TestReport(t *testing.T) {
	s := scenario{Size: 1 << 10, Bodies: bodiesFixed}
	rep := newReport(&options{rounds: 3, seconds: 1})
	rounds := func(cpu ...float64) (out []round) {
		for _, c := range cpu {
			out = append(out, round{CPUMicros: c, RequestsPerSecond: 1})
		}
		return out
	}
	rep.add(s, []*peer{{name: "nginx", pid: 1}, {name: "warmpath", pid: 2}, {name: "other"}},
		[]cell{{rounds: rounds(10, 20, 40)}, {rounds: rounds(40, 60, 100)}, {rounds: rounds(0, 0, 0)}})
	w := rep.Cells[1]
	if w.CPUMicros != 60 || w.RatioToNginx != 3 || w.Target != 3.4 || w.Verdict != "ok" || rep.failed() {
		t.Errorf("got %+v", w)
	}
	if c := rep.Cells[2]; c.RatioToNginx != 0 || c.Verdict != "" {
		t.Errorf("got %+v", c)
	}
	var table bytes.Buffer
	if err := rep.table(&table); err != nil || !strings.Contains(table.String(), "| 1 kB fixed | warmpath | 60 ") {
		t.Errorf("%v\n%s", err, table.String())
	}
	if m := median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v", m)
	}
}

func TestTemplates(t *testing.T) {
	for _, name := range []string{"nginx.conf.tmpl", "haproxy.cfg.tmpl"} {
		var out bytes.Buffer
		err := template.Must(template.ParseFS(templates, "templates/"+name)).
			Execute(&out, site{Dir: "/d", Listen: "127.0.0.1:1", Upstreams: []string{"127.0.0.1:2", "127.0.0.1:3"}})
		if text := out.String(); err != nil || !strings.Contains(text, "127.0.0.1:1") ||
			!strings.Contains(text, "127.0.0.1:3") || strings.Contains(text, "<no value>") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{
		{"-sizes", "8"}, {"-sizes", "0k"}, {"-bodies", "old"}, {"-rounds", "0"}, {"-seconds", "0"}, {"x"},
	} {
		var o options
		if err := parseFlags(&o, bad, &bytes.Buffer{}); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
	for _, bad := range []string{"a", "a=127.0.0.1:1", "a=http://127.0.0.1", "a=http://127.0.0.1:1@x"} {
		if _, err := runningPeer(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if p, err := runningPeer("smg=http://127.0.0.1:30000@123"); err != nil || p.name != "smg" ||
		p.addr != "127.0.0.1:30000" || p.pid != 123 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestReplicaFlags: a number of routers that cannot be measured is refused.
func TestReplicaFlags(t *testing.T) {
	for n, ok := range map[string]bool{"0": true, "2": true, "16": true, "1": false, "-1": false, "17": false} {
		var o options
		if err := parseFlags(&o, []string{"-replicas", n}, io.Discard); (err == nil) != ok {
			t.Errorf("-replicas %s: %v", n, err)
		}
	}
}
