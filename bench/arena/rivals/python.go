package rivals

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// installLimit bounds the installation of one router.
const installLimit = 10 * time.Minute

// inVenv finds a program in the virtual environment of a router; the path is relative to it, and may have stars.
func inVenv(name, pattern string) func(home string) (string, error) {
	return func(home string) (string, error) {
		found, _ := filepath.Glob(filepath.Join(home, name, pattern))
		if len(found) == 0 {
			return "", fmt.Errorf("%w (go run ./arena -install)", ErrMissing)
		}
		return found[0], nil
	}
}

// pinned is the version of a package in a file of pins.
func pinned(file, distribution string) string {
	data, _ := pins.ReadFile("pins/" + file)
	for line := range strings.Lines(string(data)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), "=="); ok && name == distribution {
			return version
		}
	}
	return "?"
}

// Install makes the virtual environment of a router with its pinned packages, unless it is there with these very pins.
// Routers that the system's package manager has are left to it.
func (r Rival) Install(ctx context.Context, home string, say io.Writer) error {
	if r.pins == "" {
		return nil
	}
	want, err := pins.ReadFile("pins/" + r.pins)
	if err != nil {
		return err
	}
	dir := filepath.Join(home, r.Name)
	mark := filepath.Join(dir, "installed")
	if have, err := os.ReadFile(mark); err == nil && bytes.Equal(have, want) {
		return nil
	}
	python, err := python311()
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "installing %s into %s ...\n", r.Name, dir)
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	list := filepath.Join(dir, "pins.txt")
	if err := os.WriteFile(list, want, 0o644); err != nil {
		return err
	}
	for _, step := range [][]string{
		{python, "-m", "venv", dir},
		{
			filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
			"--no-input", "--no-deps", "-r", list,
		},
	} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("arena: install %s: %s: %w\n%s", r.Name, strings.Join(step, " "), err, out)
		}
	}
	return os.WriteFile(mark, want, 0o644)
}

// python311 finds a Python 3.11, for which the pins were resolved.
func python311() (string, error) {
	const test = "import sys; sys.exit(sys.version_info[:2] != (3, 11))"
	for _, name := range []string{os.Getenv("PYTHON"), "python3.11", "python3"} {
		if name != "" && exec.Command(name, "-c", test).Run() == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf(
		"%w: needs Python 3.11 with venv (Debian 12: apt-get install python3-venv; PYTHON names another)", ErrMissing)
}
