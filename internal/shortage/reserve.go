package shortage

import (
	"net"
	"os"
	"syscall"
)

// The system gives each new file the lowest free number. So one with a number near the limit says that only those above
// are left: clients and engines leave these, so that operators are answered and others can be watched in a crowd.
const (
	reserveShare = 16  // of the limit
	reserveLeast = 16  // files, but no more than reserveMost says
	reserveMost  = 256 // files
	reserveOf    = 4   // the limit divided by this is the most that is reserved of a small one
)

// Reserve says how many of a limit of files clients leave to all others, and how many connections to engines leave.
// Connections to engines leave fewer, since the requests of clients need them.
func Reserve(files int64) (clients, engines int64) {
	clients = min(max(files/reserveShare, min(reserveLeast, files/reserveOf)), reserveMost)
	return clients, clients / 2
}

// traffic is the listener of clients.
type traffic struct {
	net.Listener
	first int // number of the first reserved file
}

// Traffic is l, which accepts no connection while only reserved files are left. As if none were left, http.Server tries
// again by itself, and clients wait until then.
func Traffic(l net.Listener) net.Listener {
	files := openFiles()
	if files <= 0 {
		return l
	}
	clients, _ := Reserve(files)
	return &traffic{Listener: l, first: int(files - clients)}
}

// Accept is l's.
func (l *traffic) Accept() (net.Conn, error) {
	if l.short(nextFile()) {
		return nil, &net.OpError{
			Op: "accept", Net: "tcp", Addr: l.Addr(), Err: os.NewSyscallError("accept", syscall.EMFILE),
		}
	}
	return l.Listener.Accept()
}

// short reports whether a connection would get a reserved file, or none, if the next file has this number or fails so.
// One that may not be opened proves nothing.
func (l *traffic) short(next int, err error) bool { return Is(err) || err == nil && next >= l.first }

// ToEngine is a control function of a net.Dialer. It fails where only files are left that connections to engines leave
// to others.
func ToEngine() func(network, address string, c syscall.RawConn) error {
	files := openFiles()
	if files <= 0 {
		return nil
	}
	_, engines := Reserve(files)
	first := uintptr(files - engines)
	return func(_, _ string, c syscall.RawConn) error {
		var short error
		err := c.Control(func(fd uintptr) {
			if fd >= first {
				short = os.NewSyscallError("socket", syscall.EMFILE)
			}
		})
		if err != nil {
			return err
		}
		return short
	}
}
