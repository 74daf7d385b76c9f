package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestFilesThatCannotBeWritten: the page names each such file with why, until it can be written again.
func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"access", "explain"} {
		if err := os.Symlink("/dev/full", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no device that is always full")
	}
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	_, url := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	f := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "k", false, "'"+url+"'")+fmt.Sprintf(
		"access_log: {file: %[1]s/access}\nexplain: {file: %[1]s/explain}\n"+
			"state: {file: %[1]s/gone/state, every: 1s}\n", dir))
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	troubles := func(want bool, settings ...string) {
		t.Helper()
		eventually(t, fmt.Sprint(settings, " told ", want), func() bool {
			f.ask("k", 1)
			_, text := fetched(t, "GET", f.adminURL+"/admin/troubles", "")
			for _, s := range settings {
				if strings.Contains(text, s+" cannot be written") != want {
					return false
				}
			}
			return true
		})
	}
	troubles(true, "state.file", "access_log.file", "explain.file")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "access")); err != nil {
		t.Fatal(err)
	}
	troubles(false, "state.file", "access_log.file")
	troubles(true, "explain.file")
}
