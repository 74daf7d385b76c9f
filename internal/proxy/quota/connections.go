package quota

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Connection is the place of one client connection in the accounts: of all together, of its client address, and of the
// tenant whose request it carried last. Connections of trusted proxies, which carry requests of many, count for all
// together only.
type Connection struct {
	table *Table

	mu     sync.Mutex // guards all below; taken before the table's
	closed bool
	client *account
	tenant *account
	name   string // of the tenant
}

// connRetry is the Retry-After of a refused connection: when one ends is unknown.
const connRetry = time.Second

// Connect counts a new connection, or returns an *Error. client is its address; the zero Addr counts for no address.
func (t *Table) Connect(now time.Time, client netip.Addr) (*Connection, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if most := t.all.limits.Connections; most > 0 && t.all.conns >= most {
		return nil, t.crowded(Refusal{Limit: "connections"}, "limits.", most)
	}
	c := &Connection{table: t}
	if a := t.caller(now, client); a != nil {
		if most := a.limits.Connections; most > 0 && a.conns >= most {
			return nil, t.crowded(Refusal{Limit: clientPrefix + "connections"}, "limits.client.", most)
		}
		c.client = a
		a.conns++
	}
	t.all.conns++
	return c, nil
}

func (t *Table) crowded(r Refusal, section string, most int) *Error {
	t.count(r)
	return &Error{Refusal: r, Setting: section + "connections", Most: int64(most), RetryAfter: connRetry}
}

// Connected is the number of open connections.
func (t *Table) Connected() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.conns
}

// Carry counts the connection for the tenant whose request it carries, and for the client address if that was unknown
// when it was opened. It returns an *Error if one of them has too many. A nil Connection counts for no limit.
func (c *Connection) Carry(now time.Time, tenant string, client netip.Addr) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.client != nil && c.tenant != nil && c.name == tenant {
		return nil
	}
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.caller(now, client); a != nil && c.client == nil {
		if most := a.limits.Connections; most > 0 && a.conns >= most {
			return t.crowded(Refusal{Limit: clientPrefix + "connections"}, "limits.client.", most)
		}
		c.client = a
		a.conns++
	}
	own := t.account(now, tenant)
	if own == c.tenant {
		return nil
	}
	if own != nil {
		if most := own.limits.Connections; most > 0 && own.conns >= most {
			r := Refusal{Limit: "connections", Tenant: tenant}
			if tenant == "" {
				r.Tenant = "none"
			}
			return t.crowded(r, t.section(tenant), most)
		}
		own.conns++
	}
	if c.tenant != nil {
		c.tenant.conns--
	}
	c.tenant, c.name = own, tenant
	return nil
}

// Close ends the connection's place. Calls after the first do nothing.
func (c *Connection) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.table.all.conns--
	for _, a := range []*account{c.client, c.tenant} {
		if a != nil {
			a.conns--
		}
	}
}

type connectionKey struct{}

// Context makes the connection available to its requests, if they need it.
func (c *Connection) Context(ctx context.Context) context.Context {
	if !c.table.Carries() {
		return ctx
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf is the connection of a request, nil if it was opened when no limit needed it.
func ConnectionOf(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}

// Carries reports whether a limit needs the connections of requests.
func (t *Table) Carries() bool { return t != nil && t.carries.Load() }
