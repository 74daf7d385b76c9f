package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/warmpath/warmpath/bench/proc"
)

//go:embed templates/*.tmpl
var templates embed.FS

// peer is one router under test.
type peer struct {
	target
	name string
	pid  int // 0: CPU and memory cannot be measured
	cmd  *exec.Cmd
	log  *tail
}

// site is what a router's configuration depends on.
type site struct {
	Dir       string
	Listen    string
	Upstreams []string // host:port
	Root      bool
}

// startFromTemplate writes the configuration of a router and starts it.
func startFromTemplate(name, file string, s site, command func(config string) *exec.Cmd) (*peer, error) {
	t, err := template.ParseFS(templates, "templates/"+file)
	if err != nil {
		return nil, err
	}
	var config bytes.Buffer
	if err := t.Execute(&config, s); err != nil {
		return nil, err
	}
	path := filepath.Join(s.Dir, strings.TrimSuffix(file, ".tmpl"))
	if err := os.WriteFile(path, config.Bytes(), 0o644); err != nil {
		return nil, err
	}
	return start(name, s.Listen, command(path))
}

// start starts a router and waits until it answers a request as the upstreams do.
func start(name, addr string, cmd *exec.Cmd) (*peer, error) {
	p := &peer{target: target{addr: addr}, name: name, cmd: cmd, log: &tail{}}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	if err := p.waitReady(15 * time.Second); err != nil {
		p.stop()
		return nil, fmt.Errorf("%w\n%s", err, p.log)
	}
	return p, nil
}

func (p *peer) waitReady(limit time.Duration) error {
	s := scenario{Size: 1 << 10, Bodies: bodiesFixed}
	c := newClient(p.target, s)
	defer c.close()
	head, b := requestHead(p.addr, s, ""), buildBodies(s, 1)[0]
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = c.do(head, b.data); err == nil {
			return nil
		}
		if p.cmd != nil && proc.Ended(p.pid) {
			return fmt.Errorf("bench: %s ended at once", p.name)
		}
	}
	return fmt.Errorf("bench: %s does not answer on %s: %w", p.name, p.addr, err)
}

// stop asks the router to end, and ends it if it does not.
func (p *peer) stop() {
	if p.cmd == nil {
		return // it was running before us
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	timer := time.AfterFunc(3*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait()
	timer.Stop()
}

// runningPeer parses "name=http://host:port" with an optional "@pid" at its end: a router that the user has started.
func runningPeer(arg string) (*peer, error) {
	name, rest, ok := strings.Cut(arg, "=")
	p := &peer{name: name}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		pid, err := strconv.Atoi(rest[at+1:])
		if err != nil {
			return nil, fmt.Errorf("-peer %q: process id: %w", arg, err)
		}
		p.pid, rest = pid, rest[:at]
	}
	u, err := url.Parse(rest)
	if err != nil || !ok || u.Scheme != "http" || u.Port() == "" {
		return nil, fmt.Errorf("-peer %q is not like name=http://host:port or name=http://host:port@pid", arg)
	}
	p.addr = u.Host
	return p, nil
}

var errMissing = errors.New("not on PATH")

// startNginx starts nginx, whose Debian package puts it where an ordinary user's PATH does not look.
func startNginx(s site) (*peer, error) {
	binary, err := look("nginx")
	if err != nil {
		return nil, err
	}
	return startFromTemplate("nginx", "nginx.conf.tmpl", s, func(config string) *exec.Cmd {
		return exec.Command(binary, "-p", s.Dir, "-e", "stderr", "-c", config)
	})
}

func startHAProxy(s site) (*peer, error) {
	binary, err := look("haproxy")
	if err != nil {
		return nil, err
	}
	return startFromTemplate("haproxy", "haproxy.cfg.tmpl", s, func(config string) *exec.Cmd {
		return exec.Command(binary, "-db", "-f", config)
	})
}

func look(name string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w (Debian: apt-get install %s)", name, errMissing, name)
}

// startWarmpath starts the router with one of its policies; an empty one means its default.
func startWarmpath(binary, name, policy string, s site) (*peer, error) {
	args := []string{"serve", "--listen", s.Listen, "--admin", "127.0.0.1:0"}
	for _, u := range s.Upstreams {
		args = append(args, "--endpoint", "http://"+u)
	}
	if policy != "" {
		args = append(args, "--policy", policy)
		name += " " + policy
	}
	return start(name, s.Listen, exec.Command(binary, args...))
}

// buildWarmpath builds the router from its source.
func buildWarmpath(root, dir string) (string, error) {
	binary := filepath.Join(dir, "warmpath")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/warmpath")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("bench: build warmpath in %s: %w\n%s", root, err, out)
	}
	return binary, nil
}
