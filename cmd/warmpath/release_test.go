package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestRelease: a release holds what it should, its files exist, and nothing in it depends on who builds it and when.
func TestRelease(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var c any
	if err := yaml.Unmarshal([]byte(read(".goreleaser.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	build := at(c, "builds", 0)
	for key, want := range map[string]string{
		"goos": "[linux darwin]", "goarch": "[amd64 arm64]", "env": "[CGO_ENABLED=0]",
		"flags": "[-trimpath -buildvcs=true]", "tags": "[grpcnotrace]", "mod_timestamp": "{{ .CommitTimestamp }}",
	} {
		if got := fmt.Sprint(at(build, key)); got != want {
			t.Errorf("builds: %s is %s, want %s", key, got, want)
		}
	}
	packages := at(c, "nfpms", 0)
	if got := fmt.Sprint(at(packages, "formats")); got != "[deb rpm]" {
		t.Errorf("packages are %s", got)
	}
	if at(c, "sboms", 0) == nil || at(c, "checksum", "name_template") == nil {
		t.Error("there is no list of modules, or no checksums")
	}
	files := append(listOf(at(packages, "contents")), listOf(at(c, "archives", 0, "files"))...)
	for _, f := range files {
		src, _ := at(f, "src").(string)
		if at(f, "file_info", "mtime") == nil && at(f, "info", "mtime") == nil {
			t.Errorf("%s has the time of the build", src)
		}
		if strings.HasPrefix(src, ".release/") { // release/prepare.sh writes these
			continue
		}
		if found, _ := filepath.Glob(filepath.Join(root, src)); len(found) == 0 {
			t.Errorf("there is no %s", src)
		}
	}
	if len(files) < 10 {
		t.Errorf("%d files beside the program", len(files))
	}

	unit := strings.Split(read("release/systemd/warmpath.service"), "\n")
	for _, line := range []string{
		"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "DynamicUser=yes", "NoNewPrivileges=yes",
		"ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes", "MemoryDenyWriteExecute=yes",
		"CapabilityBoundingSet=", "RestrictNamespaces=yes", "SystemCallFilter=@system-service",
		"ExecStart=/usr/bin/warmpath serve -c /etc/warmpath/warmpath.yaml",
	} {
		if !slices.Contains(unit, line) {
			t.Errorf("the unit lacks %s", line)
		}
	}
}
