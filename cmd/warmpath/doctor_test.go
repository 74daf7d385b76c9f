package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestDoctor: an engine is examined, and the file that it writes passes check and is not written over.
func TestDoctor(t *testing.T) {
	e, err := enginetest.New(enginetest.Options{Dialect: "sglang", Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	run := func(args ...string) (int, string, string) {
		var out, log strings.Builder
		return Main(t.Context(), args, nil, strings.NewReader(""), &out, &log), out.String(), log.String()
	}
	at := strings.TrimPrefix(s.URL, "http://") + "/v1/"
	if code, out, log := run("doctor", at, "--quick", "--write", file); code != 0 || !strings.Contains(out, "sglang") {
		t.Errorf("doctor: exit %d, %s%s", code, out, log)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), s.URL) {
		t.Errorf("file %q, %v", text, err)
	}
	if code, _, log := run("check", "-c", file); code != 0 {
		t.Errorf("check: exit %d, %s", code, log)
	}
	if code, _, log := run("doctor", at, "--quick", "--json", "--write", file); code != 1 ||
		!strings.Contains(log, "exists already; name another file with --write") {
		t.Errorf("again: exit %d, %s", code, log)
	}
	asked := filepath.Join(t.TempDir(), "asked.yaml")
	if code, _, log := run("init", at, "-o", asked); code != 0 || !strings.Contains(log, s.URL+": sglang m\n") {
		t.Errorf("init: exit %d, %s", code, log)
	}
	if code, _, log := run("init", at, "-o", asked); code != 1 ||
		!strings.Contains(log, "exists already; name another file with --output") {
		t.Errorf("init again: exit %d, %s", code, log)
	}
	if text, err := os.ReadFile(asked); err != nil ||
		!strings.Contains(string(text), "  - url: \""+s.URL+"\"\n    kind: sglang\n    # ") {
		t.Errorf("file %q, %v", text, err)
	}
	for _, args := range [][]string{{"doctor"}, {"doctor", "ftp://a"}} {
		if code, _, log := run(args...); code != 2 {
			t.Errorf("%q: exit %d, %s", args, code, log)
		}
	}
}
