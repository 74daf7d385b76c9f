package trtserve

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/route"
)

// nobody is a fleet without endpoints.
type nobody struct{}

func (nobody) Status() []route.EndpointStatus { return nil }
func (nobody) Ready() (bool, string)          { return false, "" }

func serverOf(cfg Config) *Server {
	s := New(cfg, http.DefaultClient, slog.New(slog.DiscardHandler))
	s.Watch(nobody{}, http.NotFoundHandler())
	return s
}

// TestSlowBodies: a body that never comes is waited for no longer than the limit, whether the path wants one or not.
func TestSlowBodies(t *testing.T) {
	front := httptest.NewServer(serverOf(Config{
		Paths: true, Cluster: true, ReadBody: 50 * time.Millisecond, Inactive: time.Second,
		Registration: Registration{Allow: guard.Networks{netip.MustParsePrefix("127.0.0.0/8")}},
	}))
	defer front.Close()
	for _, line := range []string{"POST /set", "GET /health", "GET /version", "DELETE /delete?key=x"} {
		conn, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn,
			line+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(conn)
		res, err := http.ReadResponse(in, nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_, err = in.ReadByte()
		}
		if wait, ok := err.(net.Error); ok && wait.Timeout() {
			t.Errorf("%s: the connection is still open", line)
		}
	}
}

// TestPerfMetricsIsForOperators: with the admin token, or from this machine and under its names where there is none.
func TestPerfMetricsIsForOperators(t *testing.T) {
	for _, c := range []struct {
		token, from, host, sent string
		want                    int
	}{
		{"", "127.0.0.1:9", "localhost:8080", "", 200},
		{"", "[::1]:9", "[::1]:8080", "", 200},
		{"", "10.0.0.1:9", "10.0.0.2", "", 401},
		{"", "10.0.0.1:9", "localhost", "", 401},
		{"", "127.0.0.1:9", "evil.example", "", 401},
		{"s3cret", "127.0.0.1:9", "localhost", "", 401},
		{"s3cret", "10.0.0.1:9", "router", "Bearer wrong", 401},
		{"s3cret", "10.0.0.1:9", "router", "Bearer s3cret", 200},
	} {
		s := serverOf(Config{Paths: true, PerfMetrics: 5, AdminToken: c.token, Cluster: true})
		ask := func(path string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr, r.Host = c.from, c.host
			r.Header.Set("Authorization", c.sent)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		if w := ask("/perf_metrics"); w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		w := ask("/cluster_info")
		for _, name := range []string{"server_lists", "current_workers"} {
			if told := strings.Contains(w.Body.String(), name); w.Code != 200 || told != (c.want == 200) {
				t.Errorf("%+v: %s is told: %t, with %d %s", c, name, told, w.Code, w.Body)
			}
		}
	}
}

// TestSlashAtTheEnd: its own paths are its own with a slash behind them too.
func TestSlashAtTheEnd(t *testing.T) {
	s := serverOf(Config{Paths: true, PerfMetrics: 5, Cluster: true})
	for _, path := range []string{"/health", "/version", "/cluster_info", "/perf_metrics", "/prometheus/metrics"} {
		var got [2]int
		for i, asked := range []string{path, path + "/"} {
			r := httptest.NewRequest("GET", asked, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:9", "localhost"
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			got[i] = w.Code
		}
		if got[0] != got[1] {
			t.Errorf("%s: %d, with a slash %d", path, got[0], got[1])
		}
	}
}
