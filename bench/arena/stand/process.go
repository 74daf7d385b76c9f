// Package stand is the ground that routers are tried on: processes that end with the run, free ports, and simulated
// engines whose counters and faults are reached over HTTP.
package stand

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Process is a program that was started here, with everything that it started itself.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  tail
	done chan struct{} // closed when it has ended
}

// Start starts a program in a process group of its own, so that its workers end with it.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("arena: start %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Pid is the process id of the program.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Log is the end of what the program said.
func (p *Process) Log() string { return p.log.String() }

// Ended reports whether the program has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends the group at once, as a crash would.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// given are the ports that FreePort has returned.
var given sync.Map

// FreePort returns a loopback address on which nothing listens now, another one each time. It is below the ports that
// Linux gives to outgoing connections: one of those could take it before its server listens.
func FreePort() (addr string, err error) {
	for range 100 {
		addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(12_000)))
		var ln net.Listener
		if ln, err = net.Listen("tcp", addr); err != nil {
			continue
		}
		_ = ln.Close()
		if _, again := given.LoadOrStore(addr, true); !again {
			return addr, nil
		}
	}
	return "", fmt.Errorf("no free port was found (the last error: %v)", err)
}

// WaitUntil asks try until it has no error, for at most limit, and gives up early when the process ends.
func (p *Process) WaitUntil(limit time.Duration, try func() error) error {
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return nil
		}
		if p.Ended() {
			return fmt.Errorf("arena: %s ended at once\n%s", p.Name, p.Log())
		}
	}
	return fmt.Errorf("arena: %s is not ready after %v: %w\n%s", p.Name, limit, err, p.Log())
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// Dir makes a temporary folder that cleanup removes.
func Dir() (dir string, cleanup func(), err error) {
	dir, err = os.MkdirTemp("", "warmpath-arena-")
	if err != nil {
		return "", nil, err
	}
	// nginx's workers run as another user where the run is root's, and read their folders.
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
