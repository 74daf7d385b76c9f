package main

import "sync"

// tail keeps the last lines that a router wrote, to be shown when it fails.
type tail struct {
	mu  sync.Mutex
	buf []byte // guarded by mu
}

const tailSize = 4 << 10

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - tailSize; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
