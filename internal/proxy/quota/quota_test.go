package quota

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	start = time.Unix(1_000_000, 0)
	here  = netip.MustParseAddr("192.0.2.1")
)

// TestLimits: what is refused, for how long, and that it is let in when that time is over.
func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		of     Limits
		begin  func(t *testing.T, table *Table) // what is used before
		limit  string
		after  time.Duration
		tokens int64
	}{
		{"open at once", Limits{Requests: 1}, func(t *testing.T, x *Table) { enter(t, x) }, "requests", time.Second, 0},
		{
			"requests a minute",
			Limits{RequestsPerMinute: 2},
			func(t *testing.T, x *Table) { use(t, x, 0); use(t, x, 0) }, "requests_per_minute", 30 * time.Second, 0,
		},
		{
			"tokens a minute",
			Limits{TokensPerMinute: 600},
			func(t *testing.T, x *Table) { use(t, x, 500) }, "tokens_per_minute", 20 * time.Second, 300,
		},
		{
			"tokens are owed",
			Limits{TokensPerMinute: 600},
			func(t *testing.T, x *Table) { use(t, x, 900) }, "tokens_per_minute", 31 * time.Second, 1,
		},
		{
			"more than a minute's tokens",
			Limits{TokensPerMinute: 600},
			func(t *testing.T, x *Table) { use(t, x, 60) }, "tokens_per_minute", 6 * time.Second, 5000,
		},
	} {
		for _, whose := range []string{"all", "tenant", "client"} {
			t.Run(tt.name+", "+whose, func(t *testing.T) {
				c, at := Config{All: tt.of}, netip.Addr{}
				switch whose {
				case "tenant":
					c = Config{Tenant: true, Each: tt.of}
				case "client":
					c, at = Config{Client: tt.of}, here
				}
				x := New(start, c)
				tt.begin(t, x)
				ask := func(now time.Time) error {
					k, err := x.Enter(now, "a", at)
					if err != nil {
						return err
					}
					defer k.End(now, false, 0, 0)
					return k.Charge(now, tt.tokens, 0, false)
				}
				var limit *Error
				if err := ask(start); !errors.As(err, &limit) || limit.Kind() != tt.limit ||
					(limit.Limit != tt.limit) != (whose == "client") || (limit.Tenant == "a") != (whose == "tenant") {
					t.Fatalf("got %v, want %s", err, tt.limit)
				}
				if d := limit.RetryAfter - tt.after; d < -time.Second || d > time.Second {
					t.Errorf("retry after %v, want %v", limit.RetryAfter, tt.after)
				}
				if tt.limit == "requests" {
					return
				}
				if err := ask(start.Add(limit.RetryAfter + time.Millisecond)); err != nil {
					t.Errorf("after as long as was asked for: %v", err)
				}
				if whose == "tenant" {
					if k, err := x.Enter(start, "b", netip.Addr{}); err != nil || k.table == nil {
						t.Errorf("another tenant: %v", err)
					}
				}
				if whose == "client" {
					if k, err := x.Enter(start, "a", netip.MustParseAddr("192.0.2.2")); err != nil || k.table == nil {
						t.Errorf("another client: %v", err)
					}
				}
			})
		}
	}
}

func enter(t *testing.T, x *Table) Ticket {
	t.Helper()
	k, err := x.Enter(start, "a", here)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// use has a request that used so many tokens.
func use(t *testing.T, x *Table, tokens int64) {
	t.Helper()
	k := enter(t, x)
	k.End(start, true, tokens, 0)
}

func TestNothingIsLimited(t *testing.T) {
	var none *Table
	for _, x := range []*Table{none, New(start, Config{}), New(start, Config{Tenant: true})} {
		k, err := x.Enter(start, "a", netip.Addr{})
		if err != nil || k.table != nil {
			t.Errorf("%+v, %v", k, err)
		}
		h := http.Header{}
		if k.Tell(h); k.Charge(start, 1e9, 0, true) != nil || len(h) != 0 {
			t.Errorf("header %v", h)
		}
		k.End(start, true, 5, 5)
	}
}

func TestHeaders(t *testing.T) {
	x := New(start, Config{Tenant: true, All: Limits{TokensPerMinute: 6000}, Each: Limits{RequestsPerMinute: 60}})
	k := enter(t, x)
	if err := k.Charge(start, 900, 100, true); err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	k.Tell(h)
	for name, want := range map[string]string{
		"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59", "x-ratelimit-reset-requests": "1s",
		"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-tokens": "5000", "x-ratelimit-reset-tokens": "10s",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// TestAgainstModel: whatever comes and however it ends, what is left is what a naive account of all that happened says,
// and when all has ended and a minute has passed nothing is used.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const perMinute, requests, most = 6000, 120, 5
		x, now := New(start, Config{
			Tenant: true, Each: Limits{Requests: most, RequestsPerMinute: requests, TokensPerMinute: perMinute},
		}), start
		type naive struct {
			left, asked float64
			open        int
		}
		model := map[string]*naive{"a": {perMinute, requests, 0}, "b": {perMinute, requests, 0}}
		type ticket struct {
			Ticket
			of       *naive
			reserved float64
		}
		var open []ticket
		end := func(i int) {
			k := open[i]
			open = append(open[:i], open[i+1:]...)
			served, used := rapid.Bool().Draw(t, "served"), rapid.Int64Range(0, 9000).Draw(t, "used")
			k.End(now, served, used/2, used-used/2)
			k.End(now, served, used, used) // a second time is nothing
			k.of.open--
			if served {
				k.of.left = min(perMinute, k.of.left+k.reserved-float64(used))
			} else {
				k.of.left, k.of.asked = min(perMinute, k.of.left+k.reserved), min(requests, k.of.asked+1)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			passed := time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
			now = now.Add(passed)
			for _, m := range model {
				m.left, m.asked = min(perMinute, m.left+perMinute*passed.Minutes()),
					min(requests, m.asked+requests*passed.Minutes())
			}
			if len(open) > 0 && rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
				end(rapid.IntRange(0, len(open)-1).Draw(t, "which"))
				continue
			}
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant")
			m := model[name]
			k, err := x.Enter(now, name, netip.Addr{})
			if ok := m.open < most && m.asked >= 1 && m.left >= 1; ok != (err == nil) && !close(m.asked, 1) &&
				!close(m.left, 1) {
				t.Fatalf("entered %v; the model has %+v", err, *m)
			}
			if err != nil {
				continue
			}
			m.open, m.asked = m.open+1, m.asked-1
			tokens := rapid.Int64Range(0, 8000).Draw(t, "tokens")
			fits := m.left >= min(float64(tokens), perMinute)
			reserved := 0.0
			if err := k.Charge(now, tokens, 0, false); (err == nil) != fits && !close(m.left, float64(tokens)) &&
				!close(m.left, perMinute) {
				t.Fatalf("charged %d: %v; the model has %+v", tokens, err, *m)
			} else if err == nil {
				reserved = float64(tokens)
				m.left -= reserved
			}
			open = append(open, ticket{k, m, reserved})
			if a := x.tenants[hashOf(name)]; !close(a.tokens.left(), m.left) || !close(a.requests.left(), m.asked) ||
				a.open != m.open {
				t.Fatalf("%+v; the model has %+v", *a, *m)
			}
		}
		for len(open) > 0 {
			end(0)
		}
		for name, m := range model {
			a := x.tenants[hashOf(name)]
			if a == nil {
				continue
			}
			if a.fill(now); a.open != 0 || !close(a.tokens.left(), m.left) {
				t.Fatalf("left: %+v; the model has %+v", *a, *m)
			}
		}
		x.sweep(now.Add(time.Hour))
		if len(x.tenants) != 0 {
			t.Fatalf("%d accounts are left", len(x.tenants))
		}
	})
}

func close(a, b float64) bool { return a-b < 1e-3 && b-a < 1e-3 }

// TestTenantsAreBounded: names that anybody may make up do not fill the memory, and still have limits.
func TestTenantsAreBounded(t *testing.T) {
	x := New(start, Config{
		Tenant: true, Each: Limits{RequestsPerMinute: 1}, Of: map[string]Limits{"known": {Requests: 1}},
	})
	refused := 0
	for i := range 2 * mostTenants {
		k, err := x.Enter(start, fmt.Sprint("t", i), netip.Addr{})
		if err != nil {
			refused++
			continue
		}
		k.End(start, true, 1, 1)
	}
	if n := len(x.tenants); n > mostTenants+2 || refused < mostTenants-10 {
		t.Errorf("%d accounts, %d of %d refused", n, refused, 2*mostTenants)
	}
	if _, err := x.Enter(start, "known", netip.Addr{}); err != nil {
		t.Error(err)
	}
	if n := len(x.Refused()); n > mostRefusals+1 {
		t.Errorf("%d who were refused are told apart", n)
	}
}

// TestClientsAreToldApart: IPv6 addresses of one network are one client, and who is not known has no limits.
func TestClientsAreToldApart(t *testing.T) {
	x := New(start, Config{Client: Limits{Requests: 1}})
	for _, c := range []struct {
		at   string
		want bool
	}{
		{"192.0.2.1", true},
		{"192.0.2.1", false},
		{"192.0.2.2", true},
		{"2001:db8:0:1::1", true},
		{"2001:db8:0:1:ffff::2", false},
		{"2001:db8:0:2::1", true},
		{"", true},
		{"", true},
	} {
		at, _ := netip.ParseAddr(c.at)
		if _, err := x.Enter(start, "", at); (err == nil) != c.want {
			t.Errorf("%s: %v, want in: %t", c.at, err, c.want)
		}
	}
	if !x.Clients() || (*Table)(nil).Clients() || New(start, Config{All: Limits{Requests: 1}}).Clients() {
		t.Error("whether clients have limits is not told")
	}
	if n := x.Refused()[Refusal{Limit: "client_requests"}]; n != 2 {
		t.Errorf("%d refusals, want 2: %v", n, x.Refused())
	}
}

// TestClientsAreBounded: addresses that anybody may have many of do not fill the memory, and still have limits; those
// that have ended are forgotten.
func TestClientsAreBounded(t *testing.T) {
	x := New(start, Config{Client: Limits{Requests: 1, RequestsPerMinute: 100}})
	at, in := netip.MustParseAddr("10.0.0.0"), 0
	var last Ticket
	for range 2 * mostClients {
		if k, err := x.Enter(start, "", at); err == nil {
			in, last = in+1, k
		}
		at = at.Next()
	}
	if n := len(x.callers); n != mostClients+1 || in != n {
		t.Errorf("%d accounts, %d were let in", n, in)
	}
	last.End(start, true, 0, 0)
	if _, err := x.Enter(start, "", at); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	x.Set(start, Config{})
	x.sweep(start.Add(time.Hour))
	if n := len(x.callers); n != mostClients+1 { // all are open
		t.Errorf("%d accounts are left", n)
	}
}

// TestSet: other limits hold at once, and what was used stays used.
func TestSet(t *testing.T) {
	x := New(start, Config{Tenant: true, Each: Limits{TokensPerMinute: 1000}})
	use(t, x, 600)
	x.Set(start, Config{Tenant: true, Each: Limits{TokensPerMinute: 2000}})
	if left := x.tenants[hashOf("a")].tokens.left(); left != 1400 {
		t.Errorf("%v are left of 2000, want 1400", left)
	}
	x.Set(start, Config{Tenant: true, Each: Limits{TokensPerMinute: 500}})
	if left := x.tenants[hashOf("a")].tokens.left(); left != -100 {
		t.Errorf("%v are left of 500, want -100", left)
	}
}

// TestConnections: what bounds connections, and that one that ends makes room.
func TestConnections(t *testing.T) {
	there := netip.MustParseAddr("192.0.2.2")
	carries := func(tenant string, at, told netip.Addr) func(*testing.T, *Table) (*Connection, error) {
		return func(t *testing.T, x *Table) (*Connection, error) {
			c := connect(t, x, at)
			return c, c.Carry(start, tenant, told)
		}
	}
	connects := func(at netip.Addr) func(*testing.T, *Table) (*Connection, error) {
		return func(_ *testing.T, x *Table) (*Connection, error) { return x.Connect(start, at) }
	}
	for _, tt := range []struct {
		name    string
		of      Config
		opened  func(*testing.T, *Table) (*Connection, error) // takes the last place
		others  func(*testing.T, *Table) (*Connection, error) // not counted for the same
		setting string
		limit   Refusal
		status  int
	}{
		{"of all", Config{All: Limits{
			Connections: 1,
		}}, connects(here), nil, "limits.connections", Refusal{Limit: "connections"}, 503},
		{"of a client address", Config{Client: Limits{
			Connections: 1,
		}}, connects(here), connects(there), "limits.client.connections", Refusal{Limit: "client_connections"}, 429},
		{
			"of proxies",
			Config{Client: Limits{Connections: 1}},
			connects(here), connects(netip.Addr{}), "limits.client.connections",
			Refusal{Limit: "client_connections"},
			429,
		},
		{
			"of an address that a header tells",
			Config{Client: Limits{Connections: 1}},
			carries("a", netip.Addr{}, here), carries("a", netip.Addr{}, there), "limits.client.connections",
			Refusal{Limit: "client_connections"},
			429,
		},
		{
			"of each tenant",
			Config{Tenant: true, Each: Limits{Connections: 1}},
			carries("a", here, here), carries("b", here, here), "tenants.each.connections",
			Refusal{Limit: "connections", Tenant: "a"},
			429,
		},
		{
			"of one tenant",
			Config{Tenant: true, Of: map[string]Limits{"a": {Connections: 1}}},
			carries("a", here, here), carries("b", here, here), "tenants.limits.connections",
			Refusal{Limit: "connections", Tenant: "a"},
			429,
		},
		{
			"without a tenant",
			Config{Tenant: true, Each: Limits{Connections: 1}},
			carries("", here, here), connects(here), "tenants.each.connections",
			Refusal{Limit: "connections", Tenant: "none"},
			429,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := New(start, tt.of)
			c, err := tt.opened(t, x)
			if err != nil {
				t.Fatal(err)
			}
			if tt.others != nil {
				if _, err := tt.others(t, x); err != nil {
					t.Errorf("another: %v", err)
				}
			}
			_, err = tt.opened(t, x)
			var limit *Error
			if !errors.As(err, &limit) || limit.Refusal != tt.limit || limit.Setting != tt.setting ||
				limit.Status() != tt.status || limit.RetryAfter <= 0 {
				t.Fatalf("got %+v, want %+v of %s with %d", err, tt.limit, tt.setting, tt.status)
			}
			if n := x.Refused()[tt.limit]; n != 1 {
				t.Errorf("%d refusals are counted", n)
			}
			c.Close()
			c.Close() // does nothing
			if _, err := tt.opened(t, x); err != nil {
				t.Errorf("in the place of one that has ended: %v", err)
			}
			if _, err := tt.opened(t, x); err == nil {
				t.Error("one that has ended makes room for two")
			}
		})
	}
}

func connect(t *testing.T, x *Table, at netip.Addr) *Connection {
	t.Helper()
	c, err := x.Connect(start, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConnectionsAgainstModel: whatever connections carry, and whenever limits change, an account has as many as are
// open with its name, and none is left at the end.
func TestConnectionsAgainstModel(t *testing.T) {
	type one struct {
		at     netip.Addr
		tenant string // "-" before the first request
		c      *Connection
	}
	addrs := []netip.Addr{{}, here, netip.MustParseAddr("192.0.2.2")}
	rapid.Check(t, func(t *rapid.T) {
		limits := func() Config {
			most := rapid.IntRange(1, 4)
			return Config{
				All: Limits{Connections: most.Draw(t, "all") + 4}, Tenant: true,
				Each: Limits{Connections: most.Draw(t, "each")}, Client: Limits{Connections: most.Draw(t, "client")},
			}
		}
		cfg := limits()
		x := New(start, cfg)
		var open []*one
		of := func(is func(*one) bool) (n int) {
			for _, o := range open {
				if is(o) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				cfg = limits()
				x.Set(start, cfg)
			case 1, 2, 3:
				at := rapid.SampledFrom(addrs).Draw(t, "address")
				room := len(open) < cfg.All.Connections &&
					(!at.IsValid() || of(func(o *one) bool { return o.at == at }) < cfg.Client.Connections)
				c, err := x.Connect(start, at)
				if room != (err == nil) {
					t.Fatalf("room %v, but %v", room, err)
				}
				if err == nil {
					open = append(open, &one{at, "-", c})
				}
			case 4:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "closes")
					open[i].c.Close()
					open = append(open[:i], open[i+1:]...)
				}
			default:
				if len(open) == 0 {
					continue
				}
				o := rapid.SampledFrom(open).Draw(t, "carries")
				tenant := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant")
				at := rapid.SampledFrom(addrs).Draw(t, "from")
				told := !o.at.IsValid() && at.IsValid()
				clientFull := told && of(func(o *one) bool { return o.at == at }) >= cfg.Client.Connections
				tenantFull := o.tenant != tenant &&
					of(func(o *one) bool { return o.tenant == tenant }) >= cfg.Each.Connections
				err := o.c.Carry(start, tenant, at)
				if (clientFull || tenantFull) != (err != nil) {
					t.Fatalf("client full %v, tenant full %v, but %v", clientFull, tenantFull, err)
				}
				if told && !clientFull {
					o.at = at
				}
				if err == nil {
					o.tenant = tenant
				}
			}
			if n := x.Connected(); n != len(open) {
				t.Fatalf("%d connected, %d open", n, len(open))
			}
		}
		for _, o := range open {
			o.c.Close()
		}
		for name, a := range x.tenants {
			if a.conns != 0 {
				t.Fatalf("tenant %d is left with %d", name, a.conns)
			}
		}
		for at, a := range x.callers {
			if a.conns != 0 {
				t.Fatalf("%v is left with %d", at, a.conns)
			}
		}
		if x.Connected() != 0 {
			t.Fatal("some are left")
		}
	})
}
