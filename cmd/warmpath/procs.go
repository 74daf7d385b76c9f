package main

import (
	"context"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/procfs"
)

// A router's work is many short pieces, each begun by a packet. Where Go may use several processors, threads wake one another for pieces
// that take less time than the waking, and what one of them has in its cache the other needs: with one processor the same requests take
// 10 to 25 % less CPU time on two cores. So it uses as few as do the work.
const (
	procsTick  = 250 * time.Millisecond
	procsBusy  = 0.6 // of the processors in use: beyond that, what is ready waits longer than it takes
	procsCalm  = 0.4 // of half as many: below that, they are enough
	procsSpare = 0.5 // processors of the machine that nobody used. Where there are none, one more of ours does not compute more
	procsRest  = 8   // ticks of calm before there are fewer
)

// allProcs is what Go would use: the cores of the machine or the container's limit.
var allProcs = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

// tuneProcs sets how many processors Go uses by how busy they are, until ctx ends. Whoever sets GOMAXPROCS decides for himself, and
// where there is no /proc all are used.
func tuneProcs(ctx context.Context) {
	most := allProcs()
	if os.Getenv("GOMAXPROCS") != "" || most < 2 {
		return
	}
	used, idle, ok := processorTimes()
	if !ok {
		return
	}
	last, _ := used()
	defer runtime.GOMAXPROCS(most)
	p := procs{n: 1, most: most, idle: idle}
	set := most
	tick := time.NewTicker(procsTick)
	defer tick.Stop()
	for at := time.Now(); ; {
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

// processorTimes returns readers of how many seconds of processor time this process has used, and of how many all processors of the
// machine were idle.
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
	n, most int                    // now and at most
	idle    func() (float64, bool) // see processorTimes; asked only while they are busy
	busy    bool                   // they were at the last look
	idleAt  float64                // what idle said then
	calm    int                    // looks since they were not
}

// look takes in that so many seconds of processor time were used in the last so many seconds.
func (p *procs) look(used, seconds float64) {
	busy := p.n < p.most && used > procsBusy*float64(p.n)*seconds
	if busy {
		at, ok := p.idle()
		if ok && p.busy && at-p.idleAt >= procsSpare*seconds {
			p.n, p.calm, busy = min(2*p.n, p.most), 0, false
		}
		p.idleAt = at
	}
	p.busy = busy
	if p.n == 1 || used > procsCalm*float64(p.n/2)*seconds {
		p.calm = 0
		return
	}
	if p.calm++; p.calm >= procsRest {
		p.n, p.calm = p.n/2, 0
	}
}
