// Package tune fits Go's runtime to what a router does: how much garbage may gather, and how many processors are used.
// It owns these two settings of the process while it runs, and gives the processors back at its end. It promises never
// to use more than Go itself would. It never reads the environment: who sets GOGC or GOMAXPROCS is asked by the caller.
package tune

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/procfs"
)

// A router's work is many short pieces, each begun by a packet. Where Go may use several processors, threads wake one
// another for pieces that take less time than the waking, and what one of them has in its cache the other needs. So it
// uses as few as do the work.
const (
	procsTick  = 250 * time.Millisecond
	procsBusy  = 0.6  // of the processors in use: beyond that, what is ready waits longer than it takes
	procsCalm  = 0.4  // of half as many: below that, they are enough
	procsSpare = 0.5  // idle processors of the machine. Where there are none, one more of ours computes little more
	procsRest  = 8    // ticks of calm before there are fewer
	procsFull  = 0.95 // of the processors in use: that is all that there is
	procsLong  = 20   // ticks at procsFull after which more are used even if other processes keep the machine busy
	procsLook  = 240  // ticks after which Go is asked again how many there are: a container's limit may have changed

	// With that many processors at least two are used, so that long work of the collector or of the admin page delays
	// no request.
	procsMany = 4
)

// Processors sets how many processors Go uses by how busy they are, until ctx ends. Where there is no /proc all are
// used.
func Processors(ctx context.Context) {
	used, idle, ok := processorTimes()
	if !ok {
		return
	}
	last, _ := used()
	defer runtime.SetDefaultGOMAXPROCS()
	p := procs{idle: idle}
	tick := time.NewTicker(procsTick)
	defer tick.Stop()
	at := time.Now()
	for set, ticks := 0, 0; ; ticks++ {
		if ticks%procsLook == 0 {
			runtime.SetDefaultGOMAXPROCS()
			set = runtime.GOMAXPROCS(0)
			p.limit(set)
		}
		if p.n != set {
			set = p.n
			runtime.GOMAXPROCS(set) // stops the world
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		was, then := last, at
		at = time.Now()
		if last, ok = used(); !ok {
			return
		}
		p.look(last-was, at.Sub(then).Seconds())
	}
}

// processorTimes returns readers of how many seconds of processor time this process has used, and of how many all
// processors of the machine were idle.
func processorTimes() (used, idle func() (float64, bool), ok bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, nil, false
	}
	self, err := fs.Self()
	if err != nil {
		return nil, nil, false
	}
	used = func() (float64, bool) {
		s, err := self.Stat()
		return s.CPUTime(), err == nil
	}
	idle = func() (float64, bool) {
		s, err := fs.Stat()
		return s.CPUTotal.Idle + s.CPUTotal.Iowait, err == nil
	}
	_, ok = idle()
	return used, idle, ok
}

// procs decides how many processors are used.
type procs struct {
	n, least, most int                    // now, and the bounds of that
	idle           func() (float64, bool) // see processorTimes; asked only while they are busy
	busy           bool                   // they were at the last look
	idleAt         float64                // what idle said then
	calm, full     int                    // looks in a row at which they were
}

// limit takes in how many processors there are.
func (p *procs) limit(most int) {
	p.least, p.most = 1, most
	if most >= procsMany {
		p.least = 2
	}
	p.n = min(max(p.n, p.least), p.most)
}

// look takes in how many seconds of processor time were used in how many seconds.
func (p *procs) look(used, seconds float64) {
	of := used / (float64(p.n) * seconds)
	if p.full++; of < procsFull {
		p.full = 0
	}
	busy := p.n < p.most && of > procsBusy
	if busy {
		at, ok := p.idle()
		spare := p.busy && (!ok || at-p.idleAt >= procsSpare*seconds)
		if p.idleAt = at; spare || p.full >= procsLong {
			p.n, p.calm, p.full, busy = min(2*p.n, p.most), 0, 0, false
		}
	}
	p.busy = busy
	if p.n == p.least || used > procsCalm*float64(p.n/2)*seconds {
		p.calm = 0
		return
	}
	if p.calm++; p.calm >= procsRest {
		p.n, p.calm = max(p.n/2, p.least), 0
	}
}
