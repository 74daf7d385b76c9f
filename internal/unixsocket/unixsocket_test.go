package unixsocket_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/unixsocket"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]unixsocket.Address{
		"unix:///run/a.sock":           {Path: "/run/a.sock", Mode: 0o660},
		"unix:///run/a.sock?mode=0600": {Path: "/run/a.sock", Mode: 0o600},
		"unix:///run/a.sock?mode=777":  {Path: "/run/a.sock", Mode: 0o777},
	} {
		if got, err := unixsocket.Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for _, bad := range []string{
		"", "unix:", "unix://", "unix://run/a.sock", "unix:///", "unix:///run/", "/run/a.sock", "unix:///a b",
		"unix:///a:b", "unix:///a%2f", "unix:///a?mode=9",
		"unix:///a?mode=1777", "unix:///a?m=1", "unix:///" + strings.Repeat("a", 100),
	} {
		if a, err := unixsocket.Parse(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, a)
		}
	}
}

func TestBase(t *testing.T) {
	for text, want := range map[string][2]string{
		"unix:///run/vllm.sock":        {"unix:///run/vllm.sock:", "vllm.sock"},
		"unix:///run/vllm.sock:":       {"unix:///run/vllm.sock:", "vllm.sock"},
		"unix:///run/vllm.sock:/":      {"unix:///run/vllm.sock:", "vllm.sock"},
		"unix:///run/vllm.sock:/x/y//": {"unix:///run/vllm.sock:/x/y", "vllm.sock"},
	} {
		base, name, err := unixsocket.Base(text)
		if err != nil || base != want[0] || name != want[1] {
			t.Errorf("%s: %s %s %v", text, base, name, err)
		}
		if again, _, err := unixsocket.Base(base); err != nil || again != base {
			t.Errorf("%s: read again it is %s, %v", base, again, err)
		}
	}
	for _, bad := range []string{
		"unix:", "unix:///", "unix://a/b", "unix:///a:b", "unix:///a:/b?c", "unix:///a:/b#",
		"unix:///a?b", "unix:///a,b",
	} {
		if base, _, err := unixsocket.Base(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, base)
		}
	}
}

// TestListen: the file has its mode, is the listener's alone, and goes with it; one that a killed process left is
// replaced.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	a := unixsocket.Address{Path: filepath.Join(dir, "s"), Mode: 0o620}
	listen := func() net.Listener {
		t.Helper()
		l, err := a.Listen()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: a.Path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Listen(); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("beside one that runs: %v", err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	l := listen()
	info, err := os.Lstat(a.Path)
	if err != nil || info.Mode().Perm() != 0o620 {
		t.Errorf("%v %v", info, err)
	}
	if l.Addr().String() != a.Path {
		t.Errorf("it is at %s", l.Addr())
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = c.Close()
		}
	}()
	if _, err := a.Listen(); err == nil {
		t.Error("two listen")
	}
	if err := os.Remove(a.Path); err != nil {
		t.Fatal(err)
	}
	second := listen()
	_ = l.Close()
	if _, err := os.Lstat(a.Path); err != nil {
		t.Errorf("the first one has removed the second one's file: %v", err)
	}
	_ = second.Close()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := os.WriteFile(a.Path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Listen(); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("in the place of another file: %v", err)
	}
}

// TestRequest: a client reaches what listens on a socket by URLs that begin with its base.
func TestRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := unixsocket.Address{Path: path, Mode: 0o600}.Listen()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.RequestURI)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	transport := &http.Transport{DialContext: unixsocket.Dial(&net.Dialer{})}
	defer transport.CloseIdleConnections()
	for of, want := range map[string]string{
		":": "/", ":/v1/models?x=1": "/v1/models?x=1", ":/a%2Fb/c": "/a%2Fb/c", ":/a:b": "/a:b",
	} {
		r, err := http.NewRequest(http.MethodGet, "unix://"+path+of, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(unixsocket.Request(r))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if string(b) != "localhost "+want {
			t.Errorf("%s: asked for %s", of, b)
		}
	}
}
