// Package unixsocket is where Unix sockets stand in the place of host and port: listening on one, and reaching an
// engine behind one. It owns the form of their addresses and the files of the sockets it listens on. It promises that
// such a file is never there with more rights than stated, that the file of another running process is left alone, and
// that no file stays behind.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// prefix begins the address of a socket.
const prefix = "unix://"

// longest is how long the path of a socket may be: sun_path of Linux, less its end and what a listener's temporary name
// may have more.
const longest = 100

// defaultMode lets the owner and the group of the process connect.
const defaultMode = 0o660

// Is reports whether an address is meant to be that of a socket.
func Is(address string) bool { return strings.HasPrefix(address, "unix:") }

// Address is where to listen.
type Address struct {
	Path string
	Mode fs.FileMode // who may connect: who may write
}

// Parse reads unix:///PATH, with ?mode=0660 behind it where other rights are wanted.
func Parse(text string) (Address, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	path, query, _ := strings.Cut(rest, "?")
	if !ok {
		return Address{}, fmt.Errorf("%q is not unix:///PATH", text)
	}
	a := Address{Path: path, Mode: defaultMode}
	if err := checkPath(path); err != nil {
		return a, fmt.Errorf("%q: %w", text, err)
	}
	if query == "" {
		return a, nil
	}
	mode, ok := strings.CutPrefix(query, "mode=")
	n, err := strconv.ParseUint(mode, 8, 32)
	if !ok || err != nil || n > 0o777 {
		return a, fmt.Errorf("%q: only mode=0660 or another octal mode can follow the question mark", text)
	}
	a.Mode = fs.FileMode(n)
	return a, nil
}

// checkPath accepts what stands unescaped in a URL, and not for anything else there.
func checkPath(path string) error {
	switch {
	case !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/"):
		return errors.New("the path must be absolute and name a file: unix:///run/NAME.sock")
	case len(path) > longest:
		return fmt.Errorf("the path is longer than %d bytes", longest)
	case strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-@+") != "":
		return errors.New("the path may hold letters, digits and / . _ - @ + only")
	}
	return nil
}

// Listen listens. What another process has left behind is replaced; a socket on which somebody answers is an error, and
// so is another kind of file. Closing the listener removes the file, unless it is another one by then.
func (a Address) Listen() (net.Listener, error) {
	if err := a.vacant(); err != nil {
		return nil, err
	}
	// The socket is made where no other user can reach it, so that it has its rights before it has its name.
	hidden, err := os.MkdirTemp(filepath.Dir(a.Path), ".wp")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(hidden)
	at := filepath.Join(hidden, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	var made fs.FileInfo
	if err = os.Chmod(at, a.Mode); err == nil {
		if made, err = os.Lstat(at); err == nil {
			err = os.Rename(at, a.Path)
		}
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return &listener{UnixListener: l, path: a.Path, made: made}, nil
}

// vacant reports why the path cannot be listened on; nil if it can.
func (a Address) vacant() error {
	info, err := os.Lstat(a.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there already and is no socket", a.Path)
	}
	c, err := net.DialTimeout("unix", a.Path, time.Second)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("%s: another process listens there", a.Path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("%s may be another process's: %w", a.Path, err)
}

// listener removes its file when it is closed.
type listener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Addr is where clients find it, not where it was made.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends listening.
func (l *listener) Close() error {
	err := l.UnixListener.Close()
	if now, gone := os.Lstat(l.path); gone == nil && os.SameFile(now, l.made) {
		_ = os.Remove(l.path)
	}
	return err
}

// Base is the base address of an engine behind a socket, unix:///PATH or unix:///PATH:/BASE, in the form to which paths
// can be added: unix:///PATH:BASE. name is what the socket's file is called.
func Base(text string) (base, name string, err error) {
	path, below, _ := strings.Cut(strings.TrimPrefix(text, prefix), ":")
	if err := checkPath(path); err != nil {
		return "", "", fmt.Errorf("%q: %w", text, err)
	}
	if below = strings.TrimRight(below, "/"); below != "" {
		if u, err := url.Parse(below); err != nil || !strings.HasPrefix(below, "/") || u.Host != "" ||
			u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(below, "#") {
			return "", "", fmt.Errorf("%q: what follows the colon must be a path", text)
		}
	}
	return prefix + path + ":" + below, filepath.Base(path), nil
}

// An HTTP client connects to a host and port and keeps connections by them. A socket's path stands there with a sign
// that no host has in the place of its slashes.
const (
	slash = "!"
	port  = "80"
)

// Request is r as an HTTP client can send it whose connections Dial opens; r itself where it goes to no socket.
func Request(r *http.Request) *http.Request {
	if r.URL.Scheme != "unix" {
		return r
	}
	out, to := *r, *r.URL
	out.URL = &to
	path, _, _ := strings.Cut(to.Path, ":")
	to.Scheme, to.Host = "http", strings.ReplaceAll(path, "/", slash)
	to.Path = strings.TrimPrefix(to.Path, path+":")
	to.RawPath = strings.TrimPrefix(to.RawPath, path+":")
	if to.Path == "" {
		to.Path = "/"
	}
	if out.Host == "" {
		out.Host = "localhost"
	}
	return &out
}

// Dial is that of d, and to a socket for what Request has made.
func Dial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, slash) {
			network, address = "unix", strings.ReplaceAll(strings.TrimSuffix(address, ":"+port), slash, "/")
		}
		return d.DialContext(ctx, network, address)
	}
}
