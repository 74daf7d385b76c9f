package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestVariablesOfTheRepository: a variable that some test, script or example here reads may be exported where a router
// starts.
func TestVariablesOfTheRepository(t *testing.T) {
	root, err := os.OpenRoot("../..")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	read := regexp.MustCompile(`(?:(?i:env)\("|environ[^A-Z]*|\$\{?)(WARMPATH_[A-Z0-9_]+)`)
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == ".git" || path == "bin" || path == "dist" || path == "_site" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".py", ".sh", ".yml", ".yaml"}, filepath.Ext(path)) {
			return nil
		}
		data, err := root.ReadFile(path)
		for _, found := range read.FindAllSubmatch(data, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	slices.Sort(names)
	names = slices.Compact(names)
	if err != nil || !slices.Contains(names, "WARMPATH_REAL") || !slices.Contains(names, "WARMPATH_IMAGE") {
		t.Fatalf("found %v, %v", names, err)
	}
	for _, name := range names {
		if _, err := config.Parse("", nil, []string{name + "=1"}); err != nil &&
			strings.Contains(err.Error(), "unknown variable") {
			t.Error(err)
		}
	}
	for _, wrong := range []string{"WARMPATH_REALM", "WARMPATH_"} {
		if _, err := config.Parse("", nil, []string{wrong + "=1"}); err == nil {
			t.Errorf("%s is no fault", wrong)
		}
	}
	t.Logf("%d variables: %v", len(names), names)
}
