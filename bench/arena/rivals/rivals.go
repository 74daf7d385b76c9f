// Package rivals is the routers of the arena: where they come from, how each is configured for a job, and how it is
// started. To set a router up better, change its file and nothing else.
package rivals

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// Job is what a router is to do with conversations.
type Job string

// The jobs.
const (
	Plain  Job = "plain"  // clients send no id of their conversation
	Header Job = "header" // clients send X-Session-ID
)

// Site is what a router's command line depends on.
type Site struct {
	Dir           string   // a folder of its own
	Listen, Admin string   // host:port for traffic; a second one for metrics
	Engines       []string // host:port
	Model         string
	Root          bool // the run is root's
}

// Port is the port of an address.
func Port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// ListenPort and AdminPort are for command lines that want the host and the port apart.
func (s Site) ListenPort() string { return Port(s.Listen) }

// AdminPort is the port of the second address.
func (s Site) AdminPort() string { return Port(s.Admin) }

// URLs are the base addresses of the engines.
func (s Site) URLs() []string {
	var out []string
	for _, e := range s.Engines {
		out = append(out, "http://"+e)
	}
	return out
}

// Rival is one router.
type Rival struct {
	Name     string
	From     string         // how people get it
	Settings map[Job]string // in words: the best setting that it has for each job
	Rewrites bool           // its answers are written anew, so that their length may differ from the engine's
	Slow     bool           // its start takes many seconds: a short run leaves it out unless it is asked for

	Extra []string // further words of its command line

	find    func(home string) (string, error) // its program
	version func(program string) string
	pins    string // file of pinned Python packages, "" where it is not one
	command func(program string, job Job, s Site) (*exec.Cmd, error)
}

// evenSoon has smg and vllm-router prefer an idle engine to one that knows the prompt from two requests of difference
// on. Their default is tens of requests, which this load never reaches: vllm-router then sent all conversations that
// share a system prompt to one engine.
var evenSoon = []string{"--balance-abs-threshold", "2", "--balance-rel-threshold", "1.2"}

// ErrMissing says that a router is not installed.
var ErrMissing = errors.New("not installed")

// All are the routers in the order of the report. warmpath is the program under test.
func All(warmpath string) []Rival {
	return []Rival{ours(warmpath), smg(), vllmRouter(), litellm(), nginx(), haproxy(), envoy()}
}

// Pick returns the routers named in a list separated by commas; an empty one means all.
func Pick(all []Rival, only string) ([]Rival, error) {
	if only == "" {
		return all, nil
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	var out []Rival
next:
	for name := range strings.SplitSeq(only, ",") {
		for _, r := range all {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r)
				continue next
			}
		}
		return nil, fmt.Errorf("arena: no router %q; there are %s", name, strings.Join(names, ", "))
	}
	return out, nil
}

// With adds words to the command line of a router, given as NAME=WORDS.
func With(all []Rival, given string) error {
	name, words, ok := strings.Cut(given, "=")
	i := slices.IndexFunc(all, func(r Rival) bool { return r.Name == name })
	if !ok || i < 0 {
		return fmt.Errorf("arena: -with: %q is not like smg='--balance-abs-threshold 8', with a router that takes part",
			given)
	}
	all[i].Extra = append(all[i].Extra, strings.Fields(words)...)
	return nil
}

// Program finds a router's program, and says how to get it where it is missing.
func (r Rival) Program(home string) (program, version string, err error) {
	if program, err = r.find(home); err != nil {
		return "", "", fmt.Errorf("%s: %w", r.Name, err)
	}
	return program, r.version(program), nil
}

// Command is what starts the router for a job. Its configuration is written into the site's folder.
func (r Rival) Command(program string, job Job, s Site) (*exec.Cmd, error) {
	cmd, err := r.command(program, job, s)
	if err != nil {
		return nil, fmt.Errorf("arena: configure %s: %w", r.Name, err)
	}
	cmd.Args = append(cmd.Args, r.Extra...)
	cmd.Dir = s.Dir
	return cmd, nil
}

// Shown is what a router's setting looks like, for the report: its command line, and its configuration where it has a
// file.
func (r Rival) Shown(job Job) (string, error) {
	s := Site{Dir: "DIR", Listen: "127.0.0.1:PORT", Admin: "127.0.0.1:PORT2", Engines: []string{
		"ENGINE1", "ENGINE2",
	}, Model: "m"}
	text, isFile, err := configText(r.Name, job, s)
	if err != nil {
		return "", err
	}
	if isFile {
		return text, nil
	}
	cmd, err := r.command(r.Name, job, s)
	if err != nil {
		return "", err
	}
	return strings.Join(slices.Concat([]string{r.Name}, cmd.Args[1:], r.Extra), " ") + "\n", nil
}

//go:embed templates/*.tmpl
var templates embed.FS

//go:embed pins/*.txt
var pins embed.FS

// configText renders the configuration file of a router; isFile is false for one that takes flags.
func configText(name string, job Job, s Site) (text string, isFile bool, err error) {
	file := "templates/" + name + ".tmpl"
	if _, err := templates.Open(file); err != nil {
		return "", false, nil //nolint:nilerr // it has none
	}
	t, err := template.New(name+".tmpl").Funcs(template.FuncMap{"port": Port}).ParseFS(templates, file)
	if err != nil {
		return "", true, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Site
		Header bool
	}{s, job == Header}); err != nil {
		return "", true, err
	}
	return out.String(), true, nil
}

// writeConfig writes the configuration file of a router and returns its path.
func writeConfig(name, extension string, job Job, s Site) (string, error) {
	text, _, err := configText(name, job, s)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.Dir, name+extension)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// onPath finds a program of the system. Debian puts servers where an ordinary user's PATH does not look.
func onPath(name string) func(string) (string, error) {
	return func(string) (string, error) {
		for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
			if path, err := exec.LookPath(candidate); err == nil {
				return path, nil
			}
		}
		return "", fmt.Errorf("%w (Debian: apt-get install %s)", ErrMissing, name)
	}
}

// firstLine is the first line that a program prints with these arguments, after a prefix.
func firstLine(prefix string, args ...string) func(string) string {
	return func(program string) string {
		out, _ := exec.Command(program, args...).CombinedOutput()
		line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		_, after, found := strings.Cut(line, prefix)
		if !found {
			return line
		}
		version, _, _ := strings.Cut(strings.TrimSpace(after), " ")
		return strings.TrimSuffix(version, ",")
	}
}
