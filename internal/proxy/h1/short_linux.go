package h1

import "syscall"

// stage is the progress of sendAndReceive.
type stage uint8

const (
	unsent      stage = iota
	unsolicited       // the peer has sent bytes, or has closed, before the request
	unfinished        // the socket takes no more bytes now, or failed
	allSent           // everything is written, and the next bytes are the answer
)

// writing is told when the memory that a connection was given to write is not needed any more.
type writing interface{ written() }

// sendAndReceive checks that the connection is silent, writes p and q, and reads once into the memory that m lends.
// done is told as soon as all is written. Three separate calls would cost three more system calls (one to check, one to
// look for an answer that cannot have arrived, one for the second wait). ok is false if the connection was not silent:
// nothing has been written then. n may be 0 without an error: the answer must still be read.
//
// The poller reports changes since it was armed, before the first look. So no later action of the peer is missed,
// although the next look waits for the poller.
func (l *leanConn) sendAndReceive(p, q []byte, done writing, m memory) (n int, ok bool, writeErr, readErr error) {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	in, out := &l.in, &l.out
	in.m, in.n, in.err = m, 0, nil
	out.p, l.more, out.n, out.err = p, q, 0, nil
	l.stage, l.writing = unsent, done
	readErr = l.raw.Read(l.stepFunc)
	switch {
	case l.stage == unfinished && out.err == nil:
		writeErr, readErr = l.raw.Write(out.run), nil
	case readErr == nil:
		readErr = in.err
	}
	if writeErr == nil {
		writeErr = out.err
	}
	in.p, in.m = nil, nil
	l.forget()
	l.writing = nil
	return in.n, l.stage != unsolicited, l.explain("write", writeErr), l.explain("read", readErr)
}

// sendReceiveStep is called until it returns true, each time but the first when there is something to read.
func (l *leanConn) sendReceiveStep(fd uintptr) bool {
	if l.stage == allSent {
		return l.receive(fd)
	}
	_, done, _ := readNow(fd, l.in.m.take())
	l.in.m.give()
	if done {
		l.stage = unsolicited
		return true
	}
	if !l.transmit(fd) || l.out.err != nil {
		l.stage = unfinished
		return true
	}
	l.stage = allSent
	l.forget()
	l.writing.written()
	return false
}

// forget drops the references to the caller's memory: a generation may take minutes.
func (l *leanConn) forget() {
	l.out.p, l.more, l.out.vec = nil, nil, [2]syscall.Iovec{}
}
