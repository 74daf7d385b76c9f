package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestClaimsCostLittle opens as many connections as WARMPATH_CLAIMS says (10000) to a router in a process of its own.
// Each claims a body of 64 MiB and sends one byte. What the router takes of memory then is bounded.
func TestClaimsCostLittle(t *testing.T) {
	clients, err := strconv.Atoi(os.Getenv("WARMPATH_CLAIMS"))
	if err != nil {
		t.Skip("opt-in, since it opens some 10,000 connections: set WARMPATH_CLAIMS to their number")
	}
	const most = 300 << 20
	bin := built(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--endpoint", "http://127.0.0.1:1")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WARMPATH_") })
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	var traffic, admin string
	for lines := bufio.NewScanner(stdout); admin == "" && lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "metrics on http://"); ok {
			admin = at
		} else if _, at, ok := strings.Cut(lines.Text(), " on http://"); ok {
			traffic = at
		}
	}
	idle := status(t, cmd.Process.Pid, "VmRSS:")
	began := time.Now()
	for range clients {
		conn, err := net.Dial("tcp", traffic)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{", traffic, 64<<20); err != nil {
			t.Fatal(err)
		}
	}
	held := ""
	for want := strconv.Itoa(clients * 512); held != want; {
		if time.Since(began) > 50*time.Second { // from 60 s on they are answered 408
			t.Fatalf("%s bytes are held, want %s", held, want)
		}
		_, page := fetched(t, http.MethodGet, "http://"+admin+"/metrics", "")
		_, figure, _ := strings.Cut(page, "\nwarmpath_body_held_bytes ")
		figure, _, _ = strings.Cut(figure, "\n")
		if f, err := strconv.ParseFloat(figure, 64); err == nil {
			held = strconv.Itoa(int(f))
		}
	}
	now, highest := status(t, cmd.Process.Pid, "VmRSS:"), status(t, cmd.Process.Pid, "VmHWM:")
	t.Logf("%d connections: %d MB resident, at most %d MB (idle %d MB), %v", clients, now>>20, highest>>20, idle>>20,
		time.Since(began).Round(time.Millisecond))
	if highest > most {
		t.Errorf("%d bytes resident, at most %d are allowed", highest, most)
	}
}

// status reads a size of a process from /proc, in bytes.
func status(t *testing.T, pid int, name string) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s", name)
	return 0
}
