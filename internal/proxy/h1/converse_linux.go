package h1

import "syscall"

// stage is how far a conversation is.
type stage uint8

const (
	unsaid     stage = iota
	loud             // the peer has said something, or has closed, before it was asked
	unfinished       // the socket takes no more now, or failed
	said             // all is written, and what comes now is the answer
)

// converse asks whether the connection is quiet, writes p and q, and reads once into into, which is not empty: what three calls do with
// three system calls more, one to ask, one to look for an answer that cannot be there yet, and what waiting costs twice. ok is false
// when the connection was not quiet: nothing has been written then. n may be 0 without an error: the answer is still to be read.
//
// The poller tells of what comes after it was made ready, which is before the first look: so nothing that the peer does after that
// look is missed, though nobody looks again before the poller says so.
func (l *leanConn) converse(p, q, into []byte) (n int, ok bool, writeErr, readErr error) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	in, out := &l.in, &l.out
	in.p, in.n, in.err = into, 0, nil
	out.p, l.more, out.n, out.err = p, q, 0, nil
	l.said = unsaid
	readErr = l.raw.Read(l.talk)
	switch {
	case l.said == unfinished && out.err == nil:
		writeErr, readErr = l.raw.Write(out.run), nil
	case readErr == nil:
		readErr = in.err
	}
	if writeErr == nil {
		writeErr = out.err
	}
	in.p = nil
	l.forget()
	return in.n, l.said != loud, l.explain("write", writeErr), l.explain("read", readErr)
}

// speak is called until it returns true, each time but the first when there is something to read.
func (l *leanConn) speak(fd uintptr) bool {
	if l.said == said {
		return l.receive(fd)
	}
	if _, done, _ := readNow(fd, l.in.p); done {
		l.said = loud
		return true
	}
	if !l.transmit(fd) || l.out.err != nil {
		l.said = unfinished
		return true
	}
	l.said = said
	l.forget()
	return false
}

// forget lets go of the caller's memory: a generation may take minutes.
func (l *leanConn) forget() {
	l.out.p, l.more, l.out.vec = nil, nil, [2]syscall.Iovec{}
}
