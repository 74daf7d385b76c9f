package wholefile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// TestWrite: a file that cannot be put in its place leaves nothing beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for _, want := range []string{"one", "two"} {
		if err := wholefile.Write(name, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%q, %v", text, err)
		}
	}
	taken := filepath.Join(dir, "taken", "within")
	if err := os.MkdirAll(taken, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := wholefile.Write(filepath.Dir(taken), nil); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("left behind: %v", files)
	}
}

// TestCheck: what Write could not put in its place is refused beforehand.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, ok := range map[string]bool{
		filepath.Join(dir, "f"): true, dir: false, filepath.Join(dir, "none", "f"): false,
	} {
		if err := wholefile.Check(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
