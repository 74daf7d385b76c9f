package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"strings"
)

// build identifies the program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source, "" when it was built without version control
	Modified bool   `json:"modified,omitempty"` // the source had changes that were not committed
	Time     string `json:"time,omitempty"`     // of the revision, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads the linker's information.
func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is one line.
func (b build) String() string {
	parts := []string{"warmpath " + b.Version}
	if b.Revision != "" {
		revision := "revision " + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			revision += " (modified)"
		}
		parts = append(parts, revision)
	}
	return strings.Join(append(parts, b.Go, b.Platform), ", ")
}
