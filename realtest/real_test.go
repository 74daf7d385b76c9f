package realtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kinds are the engines of install.sh with a file that shows that one is installed.
var kinds = map[string]string{
	"vllm":   "venv-vllm/installed",
	"sglang": "venv-sglang/installed",
	"llama":  "llama/root/usr/bin/llama-server",
	"ollama": "ollama/bin/ollama",
}

// TestRealEngines runs the Python tests of this folder for each kind of engine that is installed.
func TestRealEngines(t *testing.T) {
	dir := os.Getenv("WARMPATH_REAL")
	if dir == "" {
		t.Skip("WARMPATH_REAL is not set; realtest/README.md tells how to install real engines")
	}
	if err := exists(dir, "venv-clients/installed"); err != nil {
		t.Skipf("the official clients are not installed: run realtest/install.sh clients %s (%v)", dir, err)
	}
	for kind, file := range kinds {
		t.Run(kind, func(t *testing.T) {
			if err := exists(dir, file); err != nil {
				t.Skipf("%s is not installed: run realtest/install.sh %s %s (%v)", kind, kind, dir, err)
			}
			run(t, kind)
		})
	}
}

func exists(dir, file string) error {
	_, err := os.Stat(filepath.Join(dir, file))
	return err
}

// run runs the tests of one kind and fails when one of them fails, or when none ran.
func run(t *testing.T, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit(t))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "run.sh", kind)
	// A first interrupt lets Python stop the engines that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "REAL_LOGS="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("run.sh %s: %v", kind, err)
	}
	if !strings.Contains(string(out), "... ok") && !strings.Contains(string(out), "\nok ") {
		t.Fatalf("run.sh %s ran no test", kind)
	}
}

// limit is the time that one kind may take: 12 minutes, less when the test's own deadline is nearer.
func limit(t *testing.T) time.Duration {
	most := 12 * time.Minute
	if deadline, ok := t.Deadline(); ok {
		most = min(most, time.Until(deadline)-45*time.Second)
	}
	return most
}

// TestRealDisaggregation runs the router in front of two vLLM engines that hand KV cache over.
func TestRealDisaggregation(t *testing.T) {
	dir := os.Getenv("WARMPATH_REAL")
	if dir == "" {
		t.Skip("WARMPATH_REAL is not set; realtest/README.md tells how to install real engines")
	}
	for _, file := range []string{"venv-clients/installed", "venv-vllm/installed", "venv-vllm/nixl"} {
		if err := exists(dir, file); err != nil {
			t.Skipf("not installed: run realtest/install.sh clients and realtest/install.sh nixl %s (%v)", dir, err)
		}
	}
	t.Setenv("TESTS", "test_disagg")
	run(t, "vllm")
}

// TestUsers plays what users have before, behind and beside the router, over simulated engines. What is not installed
// is skipped.
func TestUsers(t *testing.T) {
	dir := os.Getenv("WARMPATH_REAL")
	if dir == "" {
		t.Skip("WARMPATH_REAL is not set; realtest/README.md tells how to install clients")
	}
	if err := exists(dir, "venv-clients/installed"); err != nil {
		t.Skipf("the official clients are not installed: run realtest/install.sh users %s (%v)", dir, err)
	}
	run(t, "users")
}

// TestAiperf has aiperf measure the router in front of simulated engines, split and not.
func TestAiperf(t *testing.T) {
	dir := os.Getenv("WARMPATH_REAL")
	if dir == "" {
		t.Skip("WARMPATH_REAL is not set; realtest/README.md tells how to install aiperf")
	}
	for _, file := range []string{"venv-clients/installed", "venv-aiperf/installed"} {
		if err := exists(dir, file); err != nil {
			t.Skipf("not installed: run realtest/install.sh clients and realtest/install.sh aiperf %s (%v)", dir, err)
		}
	}
	run(t, "aiperf")
}
