package h1

// Stats are a Client's counts at one moment.
type Stats struct {
	Dialed  uint64 // connections opened so far
	Reused  uint64 // requests that began on a kept connection
	Retried uint64 // requests repeated because the kept connection was dead
	Open    int    // connections open now, idle ones included
	Idle    int    // connections kept for reuse now
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats {
	return Stats{
		Dialed:  c.dialed.Load(),
		Reused:  c.reused.Load(),
		Retried: c.retried.Load(),
		Open:    int(c.open.Load()),
		Idle:    c.pool.idle(),
	}
}

// Len returns the number of bytes not read yet.
func (b *Body) Len() int {
	n := len(b.data) - b.pos
	for _, p := range b.more {
		n += len(p)
	}
	return n
}

func (p *pool) idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}
