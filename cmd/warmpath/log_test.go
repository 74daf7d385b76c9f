package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestLogThatNobodyReads: standard error is a full pipe. Requests are answered all the same, and dropped lines are
// counted.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, say := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	cfg, err := config.Parse("f", []byte(
		"listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\nlog: {requests: true}\nendpoints: ['"+engine+"']\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, env{stdout: say, stderr: write, version: thisBuild()}, &cfg,
			"", func() (config.Config, error) { return cfg, nil })
	}()
	lines := bufio.NewScanner(out)
	last := func() string {
		if !lines.Scan() {
			t.Fatal("the router says nothing")
		}
		words := strings.Fields(lines.Text())
		return words[len(words)-1]
	}
	traffic, admin := last(), last()
	client := &http.Client{Timeout: aWhile}
	get := func(url string) string {
		t.Helper()
		res, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	long := "/" + strings.Repeat("x", 40_000)
	for range 150 { // 6 MB of log lines: a pipe holds 64 kB, and the queue 4 MB
		get(traffic + long)
	}
	if got := get(admin + "/metrics"); !strings.Contains(got, `warmpath_log_lines_total{result="dropped"} `) ||
		strings.Contains(got, `warmpath_log_lines_total{result="dropped"} 0`) {
		t.Error("no dropped line is counted")
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = write.Close()
}
