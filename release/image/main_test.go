package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func build(t *testing.T, dir string) []byte {
	t.Helper()
	for name, content := range map[string]string{"amd64": "program", "arm64": "other program", "certs": "roots"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "image.tar")
	err := run([]string{
		"-out", out, "-tag", "1.2.3", "-at", "2026-01-02T03:04:05Z", "-certs", filepath.Join(dir, "certs"),
		"amd64=" + filepath.Join(dir, "amd64"), "arm64=" + filepath.Join(dir, "arm64"),
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheSameImageAgain(t *testing.T) {
	if !bytes.Equal(build(t, t.TempDir()), build(t, t.TempDir())) {
		t.Error("two builds differ")
	}
}

func TestImageIsNotRoot(t *testing.T) {
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(build(t, t.TempDir()))); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("%s has the time %v", h.Name, h.ModTime)
		}
	}
	architectures := ""
	for _, b := range files {
		var c struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
			}
		}
		if json.Unmarshal(b, &c) != nil || c.Architecture == "" {
			continue
		}
		architectures += c.Architecture + " "
		if c.Config.User != nobody || strings.Join(c.Config.Entrypoint, "") != "/warmpath" {
			t.Errorf("%s: %+v", c.Architecture, c.Config)
		}
	}
	if len(strings.Fields(architectures)) != 2 || files["oci-layout"] == nil || files["index.json"] == nil {
		t.Errorf("architectures %q, files %d", architectures, len(files))
	}
}
