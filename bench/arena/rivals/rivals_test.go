package rivals

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestPick(t *testing.T) {
	some, err := Pick(All(""), "nginx, warmpath")
	if err != nil || len(some) != 2 || some[0].Name != "nginx" || some[1].Name != "warmpath" {
		t.Errorf("%v (%v)", some, err)
	}
	if _, err := Pick(All(""), "nginx,other"); err == nil || !strings.Contains(err.Error(), "haproxy") {
		t.Errorf("%v does not list the names", err)
	}
}

// TestSettings holds that each router gets every engine, and the header where it has a rule for it.
func TestSettings(t *testing.T) {
	for _, r := range All("/bin/warmpath") {
		for _, job := range []Job{Plain, Header} {
			t.Run(r.Name+" "+string(job), func(t *testing.T) {
				s := Site{Dir: t.TempDir(), Listen: "127.0.0.1:1001", Admin: "127.0.0.1:1002", Engines: []string{
					"127.0.0.1:2001", "127.0.0.1:2002",
				}, Model: "m"}
				cmd, err := r.Command("/bin/program", job, s)
				if err != nil {
					t.Fatal(err)
				}
				given := strings.Join(cmd.Args, " ")
				files, err := filepath.Glob(filepath.Join(s.Dir, "*"))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					text, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					given += string(text)
				}
				for _, port := range []string{"1001", "2001", "2002"} {
					if !strings.Contains(given, port) {
						t.Errorf("port %s is not in %s", port, given)
					}
				}
				shown, err := r.Shown(job)
				if err != nil || shown == "" || strings.Contains(shown, "<no value>") {
					t.Errorf("shown: %q (%v)", shown, err)
				}
				if r.Settings[job] == "" {
					t.Error("no words for the report")
				}
			})
		}
	}
}

func TestPinsAreExact(t *testing.T) {
	exact := regexp.MustCompile(`^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!-]*$`)
	for _, r := range All("") {
		if r.pins == "" {
			continue
		}
		text, err := pins.ReadFile("pins/" + r.pins)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !exact.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: %q is no pin", r.pins, line)
			}
		}
		if v := r.version(""); v == "?" {
			t.Errorf("%s: its own version is not pinned", r.Name)
		}
	}
}

// TestInstallOnce holds that a finished installation is left alone, so that a run needs no network then.
func TestInstallOnce(t *testing.T) {
	home := t.TempDir()
	t.Setenv("PATH", t.TempDir()) // an attempt to install would fail
	t.Setenv("PYTHON", "")
	r := smg()
	if err := r.Install(context.Background(), home, io.Discard); err == nil {
		t.Error("installed without Python")
	}
	want, err := pins.ReadFile("pins/" + r.pins)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(home, r.Name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, r.Name, "installed"), want, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Install(context.Background(), home, io.Discard); err != nil {
		t.Errorf("installed again: %v", err)
	}
}
