package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/policy"
)

// TestSimulateInterrupted: a run that is ended early says so, and writes no file.
func TestSimulateInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	var out, log bytes.Buffer
	args := []string{
		"simulate", "--generate", "conversations=2000", "--json", filepath.Join(dir, "a.json"), "--report",
		filepath.Join(dir, "a.html"),
	}
	if code := Main(ctx, args, nil, strings.NewReader(""), &out, &log); code != exitRuntime ||
		!strings.Contains(log.String(), "warmpath: interrupted; nothing was written") {
		t.Errorf("exit code %d, %s", code, log.String())
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// TestSimulatePolicies runs every policy there is, each told what it needs.
func TestSimulatePolicies(t *testing.T) {
	var out, log bytes.Buffer
	names := policy.Names()
	args := []string{
		"simulate", "--generate", "conversations=60,turns=3,prefixes=3", "--endpoints", "4", "--policy",
		strings.Join(names, ","), "--json", "-",
	}
	if code := Main(t.Context(), args, nil, strings.NewReader(""), &out, &log); code != exitOK {
		t.Fatalf("exit code %d, %s", code, log.String())
	}
	for _, name := range names {
		if !strings.Contains(out.String(), `"policy": "`+name+`"`) {
			t.Errorf("no figures of %s", name)
		}
	}
	if strings.Count(out.String(), `"failed": 0,`) != len(names) {
		t.Errorf("turns failed:\n%s", out.String())
	}
}
