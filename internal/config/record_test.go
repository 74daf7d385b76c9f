package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
)

func TestRecordFaults(t *testing.T) {
	for text, want := range map[string]string{
		`record: {file: "-"}`: `record.file: is "-": it is renamed when it is full, and ` +
			`must be a file`,
		`{explain: {file: a}, record: {file: a}}`:        `record.file: is explain.file too`,
		`record: {files: -1}`:                            `record.files: is -1, must be from 0 to 1000`,
		`record: {file_bytes: 1kB}`:                      `record.file_bytes: is 1kB, must be at least 64KiB`,
		`record: {salt: 0123456789abcdef, salt_file: x}`: `record.salt: give salt or salt_file, not both`,
		`record: {salt: short}`:                          `record.salt: has 5 bytes, must be 16 or more`,
	} {
		if _, err := config.Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestFilesToWrite: what could not be written is told before anything starts, and nothing is made by looking.
func TestFilesToWrite(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "new"):        "",
		taken:                            "",
		"here.jsonl":                     "",
		dir:                              "is a directory",
		filepath.Join(dir, "none", "x"):  "no such file or directory",
		filepath.Join(taken, "x"):        "not a directory",
		filepath.Join(taken, "sub", "x"): "not a directory",
	} {
		record, explained := config.Default(), config.Default()
		record.Record.File, explained.Explain.File = name, name
		for path, c := range map[string]config.Config{"record.file": record, "explain.file": explained} {
			if err := c.CheckFiles(discovery.Keys{}); want == "" && err != nil ||
				want != "" && (err == nil || !strings.Contains(err.Error(), path+": open "+name+": "+want)) {
				t.Errorf("%s %s: %v, want %s", path, name, err, want)
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v are there, want the one of before", files, err)
	}
}

// TestRecordSalt: the salt comes from the file, is long enough, and is shown to nobody.
func TestRecordSalt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "salt")
	for content, want := range map[string]string{
		" 0123456789abcdef\n": "", "short": "holds 5 bytes, must be 16 or more",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := config.Default()
		c.Record.SaltFile = name
		got, err := c.Record.SaltBytes()
		if want == "" && (err != nil || string(got) != "0123456789abcdef") ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		if err := c.CheckFiles(discovery.Keys{}); (err == nil) != (want == "") {
			t.Errorf("%q: %v", content, err)
		}
	}
	c := config.Default()
	c.Record.Salt = "0123456789abcdef"
	if got := c.Redacted().Record.Salt; got != "(hidden)" {
		t.Errorf("the salt is shown: %q", got)
	}
}
