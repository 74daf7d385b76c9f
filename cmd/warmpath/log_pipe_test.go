//go:build unix

package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestLogWhoseReaderIsGone: what reads standard output and error ends, as a log collector that restarts does. The
// router goes on, counts the lines that are lost, and ends as it should.
func TestLogWhoseReaderIsGone(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built(t), "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--endpoint", "http://127.0.0.1:1")
	cmd.Env = append(os.Environ(), "WARMPATH_LOG_REQUESTS=true")
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = write.Close()
	var urls []string
	for lines := bufio.NewScanner(read); len(urls) < 2 && lines.Scan(); {
		if _, at, found := strings.Cut(lines.Text(), " on http://"); found {
			urls = append(urls, "http://"+strings.Fields(at)[0])
		}
	}
	_ = read.Close()
	if len(urls) < 2 {
		t.Fatalf("it says %q only", urls)
	}
	for range 3 {
		res, err := http.Post(urls[0]+"/v1/chat/completions",
			"application/json", strings.NewReader(`{"model":"m","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if !settled(func() bool {
		_, metrics := fetched(t, "GET", urls[1]+"/metrics", "")
		return strings.Contains(metrics, `warmpath_log_lines_total{result="dropped"} `) &&
			!strings.Contains(metrics, `warmpath_log_lines_total{result="dropped"} 0`)
	}) {
		t.Error("no lost line is counted")
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
