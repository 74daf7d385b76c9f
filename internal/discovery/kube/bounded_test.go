package kube

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/warmpath/warmpath/internal/discovery"
)

// TestValues: a row of values passes as it is, each within the bound, and one beyond it ends the reading, however its
// lines are broken.
func TestValues(t *testing.T) {
	read := func(text string) (string, error) {
		told := error(nil)
		v := &values{
			ReadCloser: io.NopCloser(iotest.HalfReader(strings.NewReader(text))), most: 40,
			told: func(err error) { told = err },
		}
		out, err := io.ReadAll(v)
		if !errors.Is(told, err) && err != nil || told != nil && err == nil {
			t.Errorf("%.60q: told %v, want %v", text, told, err)
		}
		return string(out), err
	}
	for _, row := range []string{
		`{"type":"ADDED","object":{"a":[1,{}]}}`, "{}\n", `{"a":"}}}{[\""}`, "[\n1,\n2]", "{\"a\":\"\\\\\"}\n",
		"no JSON",
	} {
		text := row
		if row != "no JSON" {
			text = strings.Repeat(row, 1000)
		}
		if out, err := read(text); err != nil || out != text {
			t.Errorf("%q: %d of %d bytes, %v", row, len(out), len(text), err)
		}
	}
	for _, beyond := range []string{
		`{"a":"`, "{\n", "{}\n\n ", `{"a":"}`, `{"a":"\"}`, "<html>", "[{},",
	} {
		if out, err := read(beyond + strings.Repeat(beyond[len(beyond)-1:], 100)); err == nil {
			t.Errorf("%q: all of %d bytes are taken", beyond, len(out))
		}
		if _, err := read("{}" + beyond + strings.Repeat("\n", 100)); err == nil {
			t.Errorf("%q: blank lines without end are taken", beyond)
		}
	}
}

// TestEventWithoutEnd: it is not kept, the log says so once, and what comes afterwards counts.
func TestEventWithoutEnd(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t, pods)
	s.endless = true
	heard, log := follow(t, s, discovery.KubernetesConfig{Selector: "app=vllm", Port: "8000"})
	for log.count("more than 16 MiB") == 0 {
		time.Sleep(time.Millisecond)
	}
	s.mu.Lock()
	s.endless = false
	s.mu.Unlock()
	s.put("pods", podOf("a", "10.0.0.1", true))
	until(t, heard, "a http://10.0.0.1:8000")
	if n := log.count("more than 16 MiB"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}
