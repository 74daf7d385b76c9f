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

// Limits are the limits of one tenant, or of all together. 0 is none.
type Limits struct {
	Connections       int           // open at once
	Requests          int           // open at once
	RequestsPerMinute int64         // that are begun
	TokensPerMinute   int64         // of prompts and answers together
	Wait              time.Duration // longest wait in the router's queue
	QueueClass        fleet.QueueClass
}

// limited reports whether any limit of requests is set.
func (l *Limits) limited() bool {
	return l.Requests > 0 || l.RequestsPerMinute > 0 || l.TokensPerMinute > 0
}

// counts reports whether any limit is set.
func (l *Limits) counts() bool { return l.Connections > 0 || l.limited() }

// Config has the limits of all accounts.
type Config struct {
	All    Limits            // of all together; its QueueClass bounds the priority of tenants without their own
	Each   Limits            // of a tenant that is not in Of
	Of     map[string]Limits // by tenant
	Tenant bool              // tenants are distinguished
	// of one client address, or of one IPv6 network of 64 bits; Wait and QueueClass are ignored
	Client Limits
}

// Table has the accounts. A nil Table limits nothing.
type Table struct {
	counts  atomic.Bool // some limit is set
	clients atomic.Bool // client addresses have limits
	carries atomic.Bool // connections count for tenants or client addresses

	mu      sync.Mutex
	cfg     Config
	all     account
	tenants map[uint64]*account // by hash
	fleet   sharing             // what other routers tell
	callers map[netip.Prefix]*account
	swept   time.Time
	refused map[Refusal]uint64
}

// Refusal names the limit that rejected a request, and its tenant.
type Refusal struct {
	// connections, requests, requests_per_minute, tokens_per_minute; prefixed with client_ for a client address
	Limit  string
	Tenant string // "" for the limit of all together, or of a client address
}

// account is the usage of one tenant, one client address, or all together.
type account struct {
	limits   Limits
	open     int // requests
	conns    int // connections
	at       time.Time
	requests bucket // filled up until then
	tokens   bucket
	shared   *shared // with other routers; nil for what each counts alone
	held     float64 // recent mean of the seconds that a request is open
	answer   float64 // recent mean of the tokens of an answer

	usedRequests, usedTokens int64 // since the account was made
}

// mostTenants bounds the accounts besides configured tenants. Further tenants share one.
const mostTenants = 10_000

// mostClients bounds the accounts of client addresses. Further ones share one.
const mostClients = 10_000

// guessedAnswer is the assumed length of an answer in tokens before the first one.
const guessedAnswer = 256

// New makes a table.
func New(now time.Time, c Config) *Table {
	t := &Table{tenants: map[uint64]*account{}, callers: map[netip.Prefix]*account{}, refused: map[Refusal]uint64{}}
	t.fleet.heard, t.fleet.whole = 1, 1
	t.Set(now, c)
	return t
}

// Set applies other limits. Usage is kept.
func (t *Table) Set(now time.Time, c Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cfg = c
	t.clients.Store(c.Client.counts())
	counts := c.All.limited() || c.Client.limited() || c.Tenant && c.Each.limited()
	carries := c.Client.Connections > 0 || c.Tenant && c.Each.Connections > 0
	for name := range c.Of {
		l := c.Of[name]
		counts = counts || c.Tenant && l.limited()
		carries = carries || c.Tenant && l.Connections > 0
	}
	t.counts.Store(counts)
	t.carries.Store(carries)
	t.all.set(now, c.All)
	t.fleet.of = make(map[uint64]string, len(c.Of))
	for name := range c.Of {
		t.fleet.of[hashOf(name)] = name
	}
	for tenant, a := range t.tenants {
		a.set(now, t.limitsOfHash(tenant))
	}
	for _, a := range t.callers {
		a.set(now, c.Client)
	}
}

// Clients reports whether client addresses have limits, so that Enter needs them.
func (t *Table) Clients() bool { return t != nil && t.clients.Load() }

// set changes the limits and keeps the amounts used.
func (a *account) set(now time.Time, l Limits) {
	a.fill(now)
	a.limits = l
	a.requests.perMinute, a.tokens.perMinute = float64(l.RequestsPerMinute), float64(l.TokensPerMinute)
}

func (t *Table) limitsOf(tenant string) Limits {
	if l, ok := t.cfg.Of[tenant]; ok {
		return l
	}
	return t.cfg.Each
}

// limitsOfHash is the limits of a tenant as other routers name it.
func (t *Table) limitsOfHash(tenant uint64) Limits {
	if name, ok := t.fleet.of[tenant]; ok {
		return t.cfg.Of[name]
	}
	return t.cfg.Each
}

// Of is the limits of a tenant; of the queue's it is the part that these routers have, see SetRouters. If tenants are
// not distinguished, its priority and wait are those of all.
func (t *Table) Of(tenant string) Limits {
	if t == nil {
		return Limits{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cfg.Tenant {
		return t.cfg.All
	}
	l := t.limitsOf(tenant)
	q := &l.QueueClass
	q.MaxWaiting, q.MaxRunning = t.fleet.part(q.MaxWaiting), t.fleet.part(q.MaxRunning)
	return l
}

// account is a tenant's account; nil without limits.
func (t *Table) account(now time.Time, tenant string) *account {
	if !t.cfg.Tenant {
		return nil
	}
	hash := hashOf(tenant)
	if a := t.tenants[hash]; a != nil {
		return a
	}
	l := t.limitsOf(tenant)
	if !l.counts() {
		return nil
	}
	if _, known := t.cfg.Of[tenant]; !known && t.crowdedOut(now) {
		if a := t.tenants[otherTenants]; a != nil {
			return a
		}
		hash = otherTenants
	}
	return t.open(now, hash, l)
}

// crowdedOut reports whether there is no room for a tenant that is not configured.
func (t *Table) crowdedOut(now time.Time) bool {
	most := mostTenants + len(t.cfg.Of)
	if len(t.tenants) >= most {
		t.sweep(now)
	}
	return len(t.tenants) >= most
}

// open makes a tenant's account.
func (t *Table) open(now time.Time, hash uint64, l Limits) *account {
	a := &account{at: now}
	if hash != otherTenants {
		a.shared = &shared{tenant: hash}
	}
	a.set(now, l)
	t.tenants[hash] = a
	return a
}

// networkBits is the prefix of an IPv6 address that distinguishes clients: one customer has a network of at least this
// size (RFC 6177).
const networkBits = 64

// caller is the account of a client address; nil without limits, or if the address is unknown.
func (t *Table) caller(now time.Time, at netip.Addr) *account {
	if !t.cfg.Client.counts() || !at.IsValid() {
		return nil
	}
	bits := at.BitLen()
	if at.Is6() {
		bits = networkBits
	}
	key, _ := at.Prefix(bits) // the address is valid, so this cannot fail
	a := t.callers[key]
	if a == nil && len(t.callers) >= mostClients {
		if t.sweep(now); len(t.callers) >= mostClients {
			key = netip.Prefix{} // the shared account
			a = t.callers[key]
		}
	}
	if a == nil {
		a = &account{at: now}
		a.set(now, t.cfg.Client)
		t.callers[key] = a
	}
	return a
}

// sweep drops unused accounts, at most once a second.
func (t *Table) sweep(now time.Time) {
	if now.Sub(t.swept) < time.Second {
		return
	}
	t.swept = now
	for tenant, a := range t.tenants {
		if _, configured := t.fleet.of[tenant]; a.isNew(now) && !configured {
			delete(t.tenants, tenant)
		}
	}
	for at, a := range t.callers {
		if a.isNew(now) {
			delete(t.callers, at)
		}
	}
}

// isNew reports whether an account equals a new one.
func (a *account) isNew(now time.Time) bool {
	a.fill(now)
	return a.open == 0 && a.conns == 0 && a.requests.full() && a.tokens.full() &&
		(a.shared == nil || len(a.shared.others) == 0 && !a.shared.dirty)
}

// clientPrefix marks limits of a client address.
const clientPrefix = "client_"

// Kind is the limit without its prefix.
func (r Refusal) Kind() string { return strings.TrimPrefix(r.Limit, clientPrefix) }

// Error means that a limit is reached. The door answers 429 with Retry-After.
type Error struct {
	Refusal
	Setting    string // that has the limit
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
	case "connections":
		what = "connections"
	case "requests_per_minute":
		what = "requests a minute"
	case "tokens_per_minute":
		what = "tokens a minute"
	}
	const text = "the limit %s of %d %s is reached; try again in %d s"
	return fmt.Sprintf(text, whose, e.Most, what, seconds(e.RetryAfter))
}

// Status is the HTTP status for a client: 503 where the router is full, 429 where the client has too much.
func (e *Error) Status() int {
	if e.Limit == "connections" && e.Tenant == "" {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Ticket is one request's entry in its accounts. The zero value has none.
type Ticket struct {
	table     *Table
	tenant    string
	own       *account // nil if the tenant has no limits
	caller    *account // nil if the client address has no limits
	entered   time.Time
	estimated float64 // charged tokens
	prompt    int64   // of these, the prompt's
	seen      state   // for the headers of the answer
}

// Enter admits a request, or returns an *Error. The ticket must be ended with End. client is the client's address; the
// zero Addr has no limits.
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
		a.fill(now)
		cost := t.cost(a)
		if most, open := t.mostOpen(a), a.everywhere(); most > 0 && open >= most {
			each := time.Duration(a.held / float64(max(open, 1)) * float64(time.Second))
			return k.refuse("requests", a, int64(a.limits.Requests), each)
		}
		if wait := a.requests.wait(cost); wait > 0 {
			return k.refuse("requests_per_minute", a, a.limits.RequestsPerMinute, wait)
		}
		if wait := a.tokens.wait(cost); wait > 0 { // it is in debt
			return k.refuse("tokens_per_minute", a, a.limits.TokensPerMinute, wait)
		}
	}
	for _, a := range k.accounts() {
		a.open++
		a.requests.take(1, t.cost(a))
		t.mark(a)
	}
	k.seen = k.look()
	return k, nil
}

// refuse makes the error of a limit, and a ticket that only reports the limits.
func (k *Ticket) refuse(limit string, a *account, most int64, wait time.Duration) (Ticket, error) {
	r, setting := Refusal{Limit: limit}, "limits."
	switch a {
	case k.caller:
		r.Limit, setting = clientPrefix+limit, "limits.client."
	case k.own:
		r.Tenant, setting = k.tenant, k.table.section(k.tenant)
		if r.Tenant == "" {
			r.Tenant = "none"
		}
	}
	k.table.count(r)
	err := &Error{Refusal: r, Setting: setting + limit, Most: most, RetryAfter: min(max(wait, time.Second), time.Hour)}
	return Ticket{seen: k.look()}, err
}

// Waiting is the setting that bounds how many of a tenant's requests wait.
func (t *Table) Waiting(tenant string) string {
	if t == nil {
		return "limits.waiting"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.section(tenant) + "waiting"
}

// Wait is the setting that bounds how long a tenant's requests wait.
func (t *Table) Wait(tenant string) string {
	if t == nil {
		return "limits.wait"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limitsOf(tenant).Wait == t.cfg.All.Wait {
		return "limits.wait"
	}
	return t.section(tenant) + "wait"
}

// section is the part of the configuration that has a tenant's limits, with a dot after it.
func (t *Table) section(tenant string) string {
	if !t.cfg.Tenant {
		return "limits."
	}
	if _, own := t.cfg.Of[tenant]; own {
		return "tenants.limits."
	}
	return "tenants.each."
}

// mostRefusals bounds the rejected tenants that are counted separately.
const mostRefusals = 300

func (t *Table) count(r Refusal) {
	if _, known := t.refused[r]; !known && len(t.refused) >= mostRefusals {
		r.Tenant = "other"
	}
	t.refused[r]++
}

// accounts are the ticket's accounts, the tenant's first: its own limit is reported to it.
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

// Charge charges the tokens of a request that has been read: its prompt's, and an average answer's, at most mostAnswer
// (0 for no limit). If they are not available, it returns an *Error and charges nothing.
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
		a.fill(now)
		if wait := a.tokens.wait(tokens * t.cost(a)); wait > 0 {
			refused, err := k.refuse("tokens_per_minute", a, a.limits.TokensPerMinute, wait)
			k.seen = refused.seen
			return err
		}
	}
	for _, a := range k.accounts() {
		a.tokens.take(tokens, t.cost(a))
		t.mark(a)
	}
	k.estimated, k.prompt = tokens, prompt
	k.seen = k.look()
	return nil
}

// Prompt is the estimated tokens of the prompt.
func (k *Ticket) Prompt() int64 { return k.prompt }

// Answer is the estimated tokens of the answer.
func (k *Ticket) Answer() int64 { return int64(k.estimated) - k.prompt }

// End closes the ticket, once, and replaces the estimate by the tokens used. served means that the request was sent to
// an engine; otherwise no rate is charged.
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
		a.fill(now)
		t.mark(a)
		a.tokens.take(float64(prompt+answer)-k.estimated, t.cost(a))
		if !served {
			a.requests.take(-1, t.cost(a))
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

// lately is a moving mean.
func lately(mean, x float64) float64 {
	if mean == 0 {
		return x
	}
	return mean + (x-mean)/16
}

// state is the limits reported in an answer's headers.
type state struct {
	requests, tokens rate
}

// rate is one limit; the zero value is none.
type rate struct {
	most, left int64
	full       time.Duration // until it is full again
}

// look takes each rate's limit from the tenant, else from the client address, else from all together.
func (k *Ticket) look() (s state) {
	for _, a := range k.accounts() {
		cost := k.table.cost(a)
		if s.requests.most == 0 {
			s.requests = rateOf(&a.requests, cost)
		}
		if s.tokens.most == 0 {
			s.tokens = rateOf(&a.tokens, cost)
		}
	}
	return s
}

func rateOf(b *bucket, cost float64) rate {
	if b.perMinute <= 0 {
		return rate{}
	}
	return rate{most: int64(b.perMinute), left: max(0, int64(b.left()/cost)), full: b.until(b.perMinute)}
}

// Tell writes the limits into the header of an answer under OpenAI's names.
func (k *Ticket) Tell(h http.Header) {
	k.seen.requests.tell(
		h, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests",
	)
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

// Usage is the usage of one account, for metrics.
type Usage struct {
	Tenant   string // "" for all together
	Open     int    // at this router
	Requests *int64 // requests left of a minute, at all routers; nil without a limit
	Tokens   *int64 // tokens left of a minute, at all routers; nil without a limit

	UsedRequests, UsedTokens int64 // by requests that have ended
}

// Usages are the usage of all together and of configured tenants.
func (t *Table) Usages(now time.Time) []Usage {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := func(name string, a *account) Usage {
		a.fill(now)
		return Usage{
			Tenant:       name,
			Open:         a.open,
			Requests:     a.requests.remaining(t.cost(a)),
			Tokens:       a.tokens.remaining(t.cost(a)),
			UsedRequests: a.usedRequests,
			UsedTokens:   a.usedTokens,
		}
	}
	out := []Usage{of("", &t.all)}
	for name := range t.cfg.Of {
		if a := t.tenants[hashOf(name)]; a != nil {
			out = append(out, of(name, a))
		}
	}
	return out
}

// Refused is how often each limit rejected a request.
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
