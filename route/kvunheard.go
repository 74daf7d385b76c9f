package route

import "time"

// kvUnheard is a prompt that has just been computed. Its blocks are in the cache, and the events that say so are still to come: at once where an engine
// tells by itself, at the next question where it has to be asked.
type kvUnheard struct {
	chain []uint64 // the router's own blocks of it
	at    time.Time
}

const mostUnheard = 32 // of an endpoint; the newest

// kvComputed notes that a flight's prompt has been computed.
func (r *Router) kvComputed(now time.Time, f *flight) {
	m := &f.ep.mirror
	if !m.trusted() || len(f.chain) == 0 || f.incarnation != f.ep.incarnation {
		return
	}
	if len(m.unheard) < mostUnheard {
		m.unheard = append(m.unheard, kvUnheard{})
	}
	u := &m.unheard[m.next%len(m.unheard)]
	m.next = (m.next + 1) % mostUnheard
	if cap(u.chain) > mostKeptChain {
		u.chain = nil
	}
	u.chain, u.at = append(u.chain[:0], f.chain...), now
}

// hear lets go of what the events that came have told: all that was computed before they were asked for. An engine that tells by itself does so before it
// gives the first token.
func (m *mirror) hear(now, asked time.Time) {
	if asked.IsZero() {
		asked = now
	}
	for i := range m.unheard {
		if u := &m.unheard[i]; !u.at.After(asked) {
			u.chain = u.chain[:0]
		}
	}
}
