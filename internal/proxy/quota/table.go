package quota

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Limits are those of one tenant, or of all together. 0 is none.
type Limits struct {
	Requests          int           // open at once
	RequestsPerMinute int64         // that are begun
	TokensPerMinute   int64         // of prompts and answers
	Wait              time.Duration // at the router for a turn, at most
	Standing          fleet.Standing
}

// limited reports whether anything is counted.
func (l *Limits) limited() bool {
	return l.Requests > 0 || l.RequestsPerMinute > 0 || l.TokensPerMinute > 0
}

// Config is the limits of all.
type Config struct {
	All    Limits            // together; of its Standing the priority bounds that of everybody, where tenants have none of their own
	Each   Limits            // of a tenant that is not in Of
	Of     map[string]Limits // by tenant
	Tenant bool              // tenants are told apart
	Client Limits            // of one client address, or of one IPv6 network of 64 bits; Wait and Standing mean nothing
}

// Table is the accounts. A nil Table limits nothing.
type Table struct {
	counts  atomic.Bool // something is limited
	clients atomic.Bool // of client addresses

	mu      sync.Mutex
	cfg     Config
	all     account
	tenants map[string]*account
	callers map[netip.Prefix]*account
	swept   time.Time
	refused map[Refusal]uint64
}

// Refusal is why a request was refused, and whose.
type Refusal struct {
	Limit  string // requests, requests_per_minute, tokens_per_minute; of a client address with client_ before it
	Tenant string // "" where it was the limit of all together, or of a client address
}

// account is what one tenant, or all together, use now.
type account struct {
	limits   Limits
	open     int
	requests bucket
	tokens   bucket
	held     float64 // seconds that a request is open, of late
	answer   float64 // tokens of an answer, of late

	usedRequests, usedTokens int64 // since it was made
}

// mostTenants bounds the accounts, those of configured tenants not counted. Further tenants have one together.
const mostTenants = 10_000

// mostClients bounds the accounts of client addresses. Further ones have one together.
const mostClients = 10_000

// guessedAnswer is how long an answer is taken to be before any has come.
const guessedAnswer = 256

// New makes a table.
func New(now time.Time, c Config) *Table {
	t := &Table{tenants: map[string]*account{}, callers: map[netip.Prefix]*account{}, refused: map[Refusal]uint64{}}
	t.Set(now, c)
	return t
}

// Set puts other limits in force. What is used stays used.
func (t *Table) Set(now time.Time, c Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cfg = c
	t.clients.Store(c.Client.limited())
	counts := c.All.limited() || c.Client.limited() || c.Tenant && c.Each.limited()
	for name := range c.Of {
		l := c.Of[name]
		counts = counts || c.Tenant && l.limited()
	}
	t.counts.Store(counts)
	t.all.set(now, c.All)
	for name, a := range t.tenants {
		a.set(now, t.limitsOf(name))
	}
	for _, a := range t.callers {
		a.set(now, c.Client)
	}
}

// Clients reports whether client addresses have limits, so that Enter wants to know them.
func (t *Table) Clients() bool { return t != nil && t.clients.Load() }

func (a *account) set(now time.Time, l Limits) {
	a.limits = l
	a.requests.set(now, l.RequestsPerMinute)
	a.tokens.set(now, l.TokensPerMinute)
}

func (t *Table) limitsOf(tenant string) Limits {
	if l, ok := t.cfg.Of[tenant]; ok {
		return l
	}
	return t.cfg.Each
}

// Of is the limits of a tenant. Where tenants are not told apart its priority and wait are those of all.
func (t *Table) Of(tenant string) Limits {
	if t == nil {
		return Limits{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cfg.Tenant {
		return t.cfg.All
	}
	return t.limitsOf(tenant)
}

// account is a tenant's; nil when nothing of it is counted.
func (t *Table) account(now time.Time, tenant string) *account {
	if !t.cfg.Tenant {
		return nil
	}
	if a := t.tenants[tenant]; a != nil {
		return a
	}
	l := t.limitsOf(tenant)
	if !l.limited() {
		return nil
	}
	const others = "\x00" // no tenant is called so
	if _, known := t.cfg.Of[tenant]; !known && len(t.tenants) >= mostTenants+len(t.cfg.Of) {
		if t.sweep(now); len(t.tenants) >= mostTenants+len(t.cfg.Of) {
			if a := t.tenants[others]; a != nil {
				return a
			}
			tenant = others
		}
	}
	a := &account{}
	a.set(now, l)
	t.tenants[tenant] = a
	return a
}

// networkBits is how much of an IPv6 address tells clients apart: whoever has one has a network of so many bits (RFC 6177).
const networkBits = 64

// caller is the account of a client address; nil when it has no limits, or is not known.
func (t *Table) caller(now time.Time, at netip.Addr) *account {
	if !t.cfg.Client.limited() || !at.IsValid() {
		return nil
	}
	bits := at.BitLen()
	if at.Is6() {
		bits = networkBits
	}
	key, _ := at.Prefix(bits) // which is of this address
	a := t.callers[key]
	if a == nil && len(t.callers) >= mostClients {
		if t.sweep(now); len(t.callers) >= mostClients {
			key = netip.Prefix{} // of no address
			a = t.callers[key]
		}
	}
	if a == nil {
		a = &account{}
		a.set(now, t.cfg.Client)
		t.callers[key] = a
	}
	return a
}

// sweep forgets, once a second at most, the accounts that are as new ones would be.
func (t *Table) sweep(now time.Time) {
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for name, a := range t.tenants {
		if _, configured := t.cfg.Of[name]; a.isNew(now) && !configured {
			delete(t.tenants, name)
		}
	}
	for at, a := range t.callers {
		if a.isNew(now) {
			delete(t.callers, at)
		}
	}
}

// isNew reports whether an account is as a new one would be.
func (a *account) isNew(now time.Time) bool {
	a.requests.fill(now)
	a.tokens.fill(now)
	return a.open == 0 && a.requests.full() && a.tokens.full()
}

// clientPrefix begins the limits of a client address.
const clientPrefix = "client_"

// Kind is the limit without whose it is: requests, requests_per_minute or tokens_per_minute.
func (r Refusal) Kind() string { return strings.TrimPrefix(r.Limit, clientPrefix) }

// Error says that a limit is reached. Doors answer 429 with Retry-After.
type Error struct {
	Refusal
	Most       int64
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	whose := "of the router"
	kind, client := strings.CutPrefix(e.Limit, clientPrefix)
	switch {
	case client:
		whose = "of this client address"
	case e.Tenant != "":
		whose = "of this tenant"
	}
	what := "requests at once"
	switch kind {
	case "requests_per_minute":
		what = "requests a minute"
	case "tokens_per_minute":
		what = "tokens a minute"
	}
	return fmt.Sprintf("the limit %s of %d %s is reached; try again in %d s", whose, e.Most, what, seconds(e.RetryAfter))
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Ticket is one request on the accounts. The zero value is on none.
type Ticket struct {
	table     *Table
	tenant    string
	own       *account // nil when nothing of the tenant is counted
	caller    *account // nil when nothing of the client address is counted
	entered   time.Time
	estimated float64 // tokens that are charged
	prompt    int64   // of these, the prompt's
	seen      state   // for the headers of the answer
}

// Enter lets a request in, or returns an *Error. The ticket is to be ended by End. client is the address that it comes from; the zero Addr has
// no limits.
func (t *Table) Enter(now time.Time, tenant string, client netip.Addr) (Ticket, error) {
	if t == nil || !t.counts.Load() {
		return Ticket{}, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	own, caller := t.account(now, tenant), t.caller(now, client)
	if own == nil && caller == nil && !t.all.limits.limited() {
		return Ticket{}, nil
	}
	k := Ticket{table: t, tenant: tenant, own: own, caller: caller, entered: now}
	for _, a := range k.accounts() {
		a.requests.fill(now)
		a.tokens.fill(now)
		if most := a.limits.Requests; most > 0 && a.open >= most {
			return k.refuse("requests", a, int64(most), time.Duration(a.held/float64(max(a.open, 1))*float64(time.Second)))
		}
		if wait := a.requests.wait(1); wait > 0 {
			return k.refuse("requests_per_minute", a, a.limits.RequestsPerMinute, wait)
		}
		if wait := a.tokens.wait(1); wait > 0 { // it owes tokens
			return k.refuse("tokens_per_minute", a, a.limits.TokensPerMinute, wait)
		}
	}
	for _, a := range k.accounts() {
		a.open++
		a.requests.take(1)
	}
	k.seen = k.look()
	return k, nil
}

// refuse makes the error of a limit that is reached, and a ticket that only tells the limits.
func (k *Ticket) refuse(limit string, a *account, most int64, wait time.Duration) (Ticket, error) {
	r := Refusal{Limit: limit}
	switch a {
	case k.caller:
		r.Limit = clientPrefix + limit
	case k.own:
		r.Tenant = k.tenant
		if r.Tenant == "" {
			r.Tenant = "none"
		}
	}
	k.table.count(r)
	return Ticket{seen: k.look()}, &Error{Refusal: r, Most: most, RetryAfter: min(max(wait, time.Second), time.Hour)}
}

// mostRefusals bounds who is told apart among those who were refused.
const mostRefusals = 300

func (t *Table) count(r Refusal) {
	if _, known := t.refused[r]; !known && len(t.refused) >= mostRefusals {
		r.Tenant = "other"
	}
	t.refused[r]++
}

// accounts are those that the ticket is on, the tenant's first: its own limit is the one that it is told.
func (k *Ticket) accounts() []*account {
	out := make([]*account, 0, 3)
	if k.own != nil {
		out = append(out, k.own)
	}
	if k.caller != nil {
		out = append(out, k.caller)
	}
	return append(out, &k.table.all)
}

// Charge takes the tokens of a request that has been read: those of its prompt, and of its answer as many as are usual, at most so many as
// it asks for (0 for any number). Where they are not there, it returns an *Error and takes none.
func (k *Ticket) Charge(now time.Time, prompt, mostAnswer int64, answers bool) error {
	if k.table == nil {
		return nil
	}
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	tokens := float64(prompt)
	if answers {
		usual := t.all.answer
		if k.own != nil && k.own.answer > 0 {
			usual = k.own.answer
		}
		if usual == 0 {
			usual = guessedAnswer
		}
		if mostAnswer > 0 {
			usual = min(usual, float64(mostAnswer))
		}
		tokens += usual
	}
	for _, a := range k.accounts() {
		a.tokens.fill(now)
		if wait := a.tokens.wait(tokens); wait > 0 {
			refused, err := k.refuse("tokens_per_minute", a, a.limits.TokensPerMinute, wait)
			k.seen = refused.seen
			return err
		}
	}
	for _, a := range k.accounts() {
		a.tokens.take(tokens)
	}
	k.estimated, k.prompt = tokens, prompt
	k.seen = k.look()
	return nil
}

// Prompt is the tokens that the prompt was estimated to have.
func (k *Ticket) Prompt() int64 { return k.prompt }

// End takes the request off the accounts, once, and charges what it used in place of the estimate. served says that an engine was sent it: else
// nothing was used of any limit.
func (k *Ticket) End(now time.Time, served bool, prompt, answer int64) {
	if k.table == nil {
		return
	}
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if !served {
		prompt, answer = 0, 0
	}
	for _, a := range k.accounts() {
		a.open--
		a.requests.fill(now)
		a.tokens.fill(now)
		a.tokens.take(float64(prompt+answer) - k.estimated)
		if !served {
			a.requests.take(-1)
			continue
		}
		a.usedRequests++
		a.usedTokens += prompt + answer
		a.held = lately(a.held, now.Sub(k.entered).Seconds())
		if answer > 0 {
			a.answer = lately(a.answer, float64(answer))
		}
	}
	k.table = nil
}

// lately is a mean that follows what comes.
func lately(mean, x float64) float64 {
	if mean == 0 {
		return x
	}
	return mean + (x-mean)/16
}

// state is what the headers of an answer tell.
type state struct {
	requests, tokens rate
}

// rate is one limit; the zero value is none.
type rate struct {
	most, left int64
	full       time.Duration // until all is there again
}

// look takes, of each rate, the limit of the tenant, or else that of the client address, or else that of all.
func (k *Ticket) look() (s state) {
	for _, a := range k.accounts() {
		if s.requests.most == 0 {
			s.requests = rateOf(&a.requests)
		}
		if s.tokens.most == 0 {
			s.tokens = rateOf(&a.tokens)
		}
	}
	return s
}

func rateOf(b *bucket) rate {
	if b.perMinute <= 0 {
		return rate{}
	}
	return rate{most: int64(b.perMinute), left: max(0, int64(b.left)), full: b.until(b.perMinute)}
}

// Tell writes the limits into the header of an answer under OpenAI's names.
func (k *Ticket) Tell(h http.Header) {
	k.seen.requests.tell(h, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests")
	k.seen.tokens.tell(h, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens")
}

func (r rate) tell(h http.Header, most, left, full string) {
	if r.most == 0 {
		return
	}
	h[most] = []string{strconv.FormatInt(r.most, 10)}
	h[left] = []string{strconv.FormatInt(r.left, 10)}
	h[full] = []string{r.full.Round(time.Millisecond).String()}
}

// Usage is what one account uses, for metrics.
type Usage struct {
	Tenant   string // "" for all together
	Open     int
	Requests *int64 // left of those of a minute; nil without a limit
	Tokens   *int64 // the same

	UsedRequests, UsedTokens int64 // of requests that have ended
}

// Usages are those of all together, and of configured tenants.
func (t *Table) Usages(now time.Time) []Usage {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := func(name string, a *account) Usage {
		a.requests.fill(now)
		a.tokens.fill(now)
		return Usage{Tenant: name, Open: a.open, Requests: a.requests.remaining(), Tokens: a.tokens.remaining(), UsedRequests: a.usedRequests, UsedTokens: a.usedTokens}
	}
	out := []Usage{of("", &t.all)}
	for name := range t.cfg.Of {
		if a := t.tenants[name]; a != nil {
			out = append(out, of(name, a))
		}
	}
	return out
}

// Refused is how often each limit was reached.
func (t *Table) Refused() map[Refusal]uint64 {
	out := map[Refusal]uint64{}
	if t == nil {
		return out
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for r, n := range t.refused {
		out[r] = n
	}
	return out
}
