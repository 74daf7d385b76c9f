package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/freeport"
)

// TestMistakesSayWhatToDo plays what newcomers get wrong. Each message says what is wrong and what to do next.
func TestMistakesSayWhatToDo(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	gone := freeport.Address()
	busy := plain.Listener.Addr().String()
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile(filepath.Join(dir, "tab.yaml"),
		[]byte("endpoints:\n\t- url: http://a:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.yaml"),
		[]byte("engine_tls: {ca_file: ca.pem}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pem.yaml"),
		[]byte("tls: {cert: tab.yaml, key: tls.yaml}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, want string }{
		{"check -c tls.yaml", `tls.yaml:1:14: unknown key "ca_file"; here it is "ca"`},
		{"engine --speed 0", "--speed must be above 0 (1 is real time), got 0"},
		{"engine --speed NaN", "--speed must be above 0"},
		{"engine --listen foo", "--listen is HOST:PORT, such as 127.0.0.1:9001"},
		{"engine --listen 127.0.0.1:99999", "--listen is HOST:PORT"},
		{"engine --listen " + busy, "address already in use: choose another with --listen"},
		{
			"serve --admin off --listen " + busy,
			"address already in use: choose another with --listen (listen in the file)",
		},
		{
			"serve --admin off --listen 127.0.0.1:0 --peers " + gone + " --peer-listen " + busy,
			"address already in use: choose another with --peer-listen (peers.listen in the file)",
		},
		{
			"extproc --admin off --listen 127.0.0.1:0 --extproc " + busy + " --endpoint http://" + gone,
			"address already in use: choose another with --extproc (extproc.listen in the file)",
		},
		{
			"serve --admin off --listen 192.0.2.1:8080",
			"must name an address of this machine, or 0.0.0.0 for all of them",
		},
		{"serve -c none.yaml", "no such file or directory: write one with warmpath init -o none.yaml"},
		{"check -c -", "no such file or directory: standard input is /dev/stdin"},
		{"check -c pem.yaml", "pem.yaml:1:1: tls: tab.yaml with the key tls.yaml: tls: failed to find any PEM data"},
		{"check -c tab.yaml", "tab.yaml:2:1: a tab is no indentation in YAML; use spaces"},
		{"check none.yaml", "did you mean --config none.yaml; see warmpath check --help"},
		{
			"serve start",
			`unexpected argument "start"; an engine is given as http://127.0.0.1:8000; see warmpath serve --help`,
		},
		{"extproc http://127.0.0.1:9001", "did you mean --endpoint http://127.0.0.1:9001; see warmpath extproc --help"},
		{"bench 127.0.0.1:8080", "did you mean --url 127.0.0.1:8080; see warmpath bench --help"},
		{"demo now", `unexpected argument "now"; see warmpath demo --help`},
		{"engine now", `unexpected argument "now"; see warmpath engine --help`},
		{"--endpoint http://127.0.0.1:9001", "so it follows the command, as in warmpath serve --endpoint"},
		{"-c warmpath.yaml", "so it follows the command, as in warmpath serve -c"},
		{"--endpont http://127.0.0.1:9001", "unknown flag --endpont"},
		{"serve --port 8080", "unknown flag --port; here it is --listen; see warmpath serve --help"},
		{"serve --engine http://127.0.0.1:9001", "unknown flag --engine; here it is --endpoint"},
		{"serve --host 0.0.0.0", "here it is --listen"},
		{"bench --duration 5s", "here it is --for"},
		{"demo --for 5s", "here it is --duration"},
		{"serve --polcy x", `unknown flag --polcy; did you mean "--policy"? see warmpath serve --help`},
		{
			"serve http://127.0.0.1:8080",
			"http://127.0.0.1:8080 is where this router listens; give the engine's address",
		},
		{"-q", "; see warmpath --help"},
		{"migrate smg.sh", `unknown command "migrate"; here it is "check --from"`},
		{"run", `unknown command "run"; here it is "serve"`},
		{"completion run", `unknown command "run"; known here`},
		{
			"bench --url http://" + gone,
			"connection refused; start a router (warmpath serve) or an engine (warmpath engine) there",
		},
		{"bench --url " + strings.Replace(plain.URL, "http", "https", 1), "write http:// in --url"},
		{"bench --url " + plain.URL, "lists no model (status 404): name one with --model, or the address"},
		{"bench --url " + secure.URL, "check the address given with --url"},
	} {
		var out, log bytes.Buffer
		ctx, stop := context.WithTimeout(t.Context(), time.Minute) // a command that runs does not hold up the tests
		if code := Main(ctx, strings.Fields(tt.line), nil, strings.NewReader(""), &out, &log); code == exitOK ||
			!strings.Contains(log.String(), tt.want) {
			t.Errorf("warmpath %s: %d %s, want %q in it", tt.line, code, log.String(), tt.want)
		}
		stop()
	}
}

// TestListenHintOfSockets: a folder in which no Unix socket may be made has nothing to do with low ports.
func TestListenHintOfSockets(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "listen", Net: "tcp", Err: syscall.EACCES}, "ports below 1024"},
		{&os.PathError{Op: "mkdir", Path: "/run/x", Err: syscall.EACCES}, ""},
	} {
		if got := listenHint(row.err, "--listen", "127.0.0.1:8080"); !strings.Contains(got, row.want) ||
			row.want == "" && got != "" {
			t.Errorf("%v: %q, want %q", row.err, got, row.want)
		}
	}
}
