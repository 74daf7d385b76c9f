package h1

import (
	"sync"
	"time"
)

// pool keeps unused connections by address. Each address has a stack: the connection used last is taken first, so that
// the others can age out after a burst. One timer for the whole pool, armed only while it is not empty, closes expired
// connections; no connection has a goroutine or timer of its own.
type pool struct {
	timeout time.Duration // immutable
	perHost int           // immutable

	mu    sync.Mutex
	hosts map[string][]*conn // oldest first; guarded by mu
	count int                // guarded by mu
	timer *time.Timer        // guarded by mu
	armed bool               // guarded by mu
}

func (p *pool) init(timeout time.Duration, perHost int) {
	p.timeout, p.perHost = timeout, perHost
	p.hosts = make(map[string][]*conn)
}

// take removes and returns the connection to addr that was used last, or nil. Connections older than the time-out are
// never returned, even when the timer is late.
func (p *pool) take(addr string, now time.Time) *conn {
	p.mu.Lock()
	stack := p.hosts[addr]
	if len(stack) == 0 {
		p.mu.Unlock()
		return nil
	}
	top := len(stack) - 1
	cn := stack[top]
	if now.Sub(cn.idleSince) >= p.timeout { // the youngest is too old, so all are
		delete(p.hosts, addr)
		p.count -= len(stack)
		p.mu.Unlock()
		closeConns(stack)
		return nil
	}
	stack[top] = nil
	p.hosts[addr] = stack[:top]
	p.count--
	p.mu.Unlock()
	return cn
}

// put keeps cn for the next request to its address.
func (p *pool) put(cn *conn, now time.Time) {
	var oldest *conn
	p.mu.Lock()
	cn.idleSince = now
	stack := p.hosts[cn.addr]
	if len(stack) >= p.perHost {
		oldest = stack[0]
		copy(stack, stack[1:])
		stack = stack[:len(stack)-1]
		p.count--
	}
	p.hosts[cn.addr] = append(stack, cn)
	p.count++
	if !p.armed {
		p.arm(p.timeout)
	}
	p.mu.Unlock()
	if oldest != nil {
		oldest.close()
	}
}

// arm starts the timer. The caller holds mu.
func (p *pool) arm(d time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(d, func() { p.sweep(time.Now()) })
		return
	}
	p.timer.Reset(d)
}

// sweep closes expired connections, forgets addresses without connections, and arms the timer for the next expiry.
func (p *pool) sweep(now time.Time) {
	var dead []*conn
	p.mu.Lock()
	p.armed = false
	next := p.timeout
	for addr, stack := range p.hosts {
		old := 0
		for old < len(stack) && now.Sub(stack[old].idleSince) >= p.timeout {
			old++
		}
		dead = append(dead, stack[:old]...)
		p.count -= old
		if old == len(stack) {
			delete(p.hosts, addr)
			continue
		}
		kept := copy(stack, stack[old:])
		clear(stack[kept:])
		p.hosts[addr] = stack[:kept]
		next = min(next, p.timeout-now.Sub(stack[0].idleSince))
	}
	if p.count > 0 {
		p.arm(next)
	}
	p.mu.Unlock()
	closeConns(dead)
}

// closeAll closes every kept connection and stops the timer.
func (p *pool) closeAll() {
	p.mu.Lock()
	var dead []*conn
	for _, stack := range p.hosts {
		dead = append(dead, stack...)
	}
	clear(p.hosts)
	p.count = 0
	if p.timer != nil {
		p.timer.Stop()
	}
	p.armed = false
	p.mu.Unlock()
	closeConns(dead)
}

func closeConns(conns []*conn) {
	for _, cn := range conns {
		cn.close()
	}
}
