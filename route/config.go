package route

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/health"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/split"
	"github.com/warmpath/warmpath/session"
)

// Config configures a Router. Zero values mean the defaults named at each field.
type Config struct {
	Policy   func() pick.Policy // makes the policy of one pool; required
	Models   []ModelRules       // other rules for some models; of several entries that have one the first counts
	Aliases  []fleet.Alias
	Sessions session.Config
	Explain  bool       // keep the candidates of each decision until its end, for Ended.Candidates
	Needs    pick.Needs // columns to fill in besides those that the policies need, for shadows

	// endpoints of a pool above which a policy that it suits (pick.Needs) sees a shortlist; default 64, negative never
	Shortlist int

	Replicas bool // fill in Made.News and Entry.News for other routers of the fleet

	Without ablation.Set // mechanisms switched off, for simulations; none when serving

	Queue QueueConfig // the router's queues; the zero value queues nothing

	Admission bool // hold turns back while the conversations under way need more KV cache than the engines have

	Disaggregation Disaggregation // of pools whose endpoints have roles

	Responses   int           // response ids remembered; default 100,000
	ResponseTTL time.Duration // how long; default 24 h

	EjectAfter int           // failures in a row, blamed on the endpoint, that eject it; default 3
	EjectFor   time.Duration // the first ejection; doubles with each further one; default 1 s
	EjectMax   time.Duration // the longest ejection; default 30 s
	// most endpoints of a pool ejected for failed requests at once, as a share, never the last; one of two is allowed;
	// default 0.5, negative none
	EjectShare float64
	// least share of a pool's endpoints not ejected for failed requests; below it these ejections are ignored; default
	// 0.5, negative never
	PanicShare float64
	// time without a sign of life while answers are overdue, after which an endpoint is ejected; default 10 s, negative
	// never
	Silent  time.Duration
	BusyFor time.Duration // how long 429 or 503 without Retry-After keeps traffic away; default 1 s
	BusyMax time.Duration // upper bound of Retry-After; default 30 s
	// time in which an endpoint that joins or recovers ramps up to its full share; default 10 s
	Ramp       time.Duration
	StaleAfter time.Duration // a load report older than this is ignored; default 10 s

	RetryShare float64 // retries of the last minute as a share of its requests; default 0.2, negative none
	RetryFloor int     // retries per minute that are always allowed; default 100, negative none
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	c.Sessions = c.Sessions.WithDefaults()
	c.Disaggregation.withDefaults(c.Policy)
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		c.Models[i].Disaggregation.withDefaults(c.Models[i].Policy)
	}
	c.Queue.Patience = cmp.Or(c.Queue.Patience, DefaultPatience)
	if c.Queue.Promote <= 0 {
		c.Queue.Promote = 30 * time.Second
	}
	c.Shortlist = cmp.Or(c.Shortlist, 64)
	c.Responses = cmp.Or(c.Responses, 100_000)
	c.ResponseTTL = cmp.Or(c.ResponseTTL, 24*time.Hour)
	c.EjectAfter = cmp.Or(c.EjectAfter, 3)
	c.EjectFor = cmp.Or(c.EjectFor, time.Second)
	c.EjectMax = cmp.Or(c.EjectMax, 30*time.Second)
	c.EjectShare = cmp.Or(c.EjectShare, 0.5)
	c.PanicShare = cmp.Or(c.PanicShare, 0.5)
	c.Silent = cmp.Or(c.Silent, 10*time.Second)
	c.BusyFor = cmp.Or(c.BusyFor, time.Second)
	c.BusyMax = cmp.Or(c.BusyMax, 30*time.Second)
	c.Ramp = cmp.Or(c.Ramp, 10*time.Second)
	c.StaleAfter = cmp.Or(c.StaleAfter, 10*time.Second)
	c.RetryShare = cmp.Or(c.RetryShare, 0.2)
	c.RetryFloor = cmp.Or(c.RetryFloor, 100)
	return c
}

// The parts of it for each room.
func (c Config) health() health.Config {
	return health.Config{
		EjectAfter: c.EjectAfter, EjectFor: c.EjectFor, EjectMax: c.EjectMax, EjectShare: c.EjectShare,
		PanicShare: c.PanicShare, BusyFor: c.BusyFor, BusyMax: c.BusyMax, Silent: c.Silent, Ramp: c.Ramp,
	}
}

func (c Config) conversations() conversation.Config {
	return conversation.Config{Sessions: c.Sessions, Responses: c.Responses, ResponseTTL: c.ResponseTTL}
}

func (c Config) backlog() backlog.Config {
	return backlog.Config{
		Ahead: c.Queue.Ahead, Patience: c.Queue.Patience, Promote: c.Queue.Promote, Most: c.Queue.Most,
		Silent: c.Silent, StaleAfter: c.StaleAfter, Without: c.Without,
	}
}

func (c Config) pools() pool.Config {
	p := pool.Config{Rules: rules(c.Policy, &c.Disaggregation), Aliases: c.Aliases}
	for i := range c.Models {
		m := &c.Models[i]
		p.Some = append(p.Some, pool.SomeRules{Names: m.Names, Rules: rules(m.Policy, &m.Disaggregation)})
	}
	return p
}

func rules(policy func() pick.Policy, d *Disaggregation) pool.Rules {
	return pool.Rules{
		Policy: policy, Prefill: d.Prefill, Decode: d.Decode,
		Split: split.Rule{When: d.When, Threshold: d.Threshold, Tokens: d.Tokens},
	}
}

// Validate reports all faults.
func (c Config) Validate() error {
	var errs []error
	if c.Policy == nil {
		errs = append(errs, errors.New("no policy"))
	}
	seen := map[string]bool{}
	for _, a := range c.Aliases {
		errs = append(errs, a.Validate())
		if seen[a.Name] {
			errs = append(errs, fmt.Errorf("alias %q is declared twice", a.Name))
		}
		seen[a.Name] = true
	}
	if c.EjectAfter < 0 || c.Responses < 0 {
		errs = append(errs, errors.New("counts must not be negative"))
	}
	for i := range c.Models {
		if c.Models[i].Policy == nil || len(c.Models[i].Names) == 0 {
			errs = append(errs, fmt.Errorf("the rules of %q need names and a policy", c.Models[i].Names))
		}
		errs = append(errs, c.Models[i].Disaggregation.validate())
	}
	return errors.Join(append(errs, c.Disaggregation.validate(), c.Sessions.Validate())...)
}

// ModelRules are by what requests for some models are placed. Nothing is taken from the Config around them, but for
// Disaggregation.NoFallback, which is one for all.
type ModelRules struct {
	Names          fleet.Names // of pools: models and aliases as requests name them
	Policy         func() pick.Policy
	Disaggregation Disaggregation
}

// Disaggregation configures pools with roles. The zero value splits by predicted time, and both sides use the router's
// policy.
type Disaggregation struct {
	When      fleet.SplitWhen
	Threshold int // tokens of a prompt, of fleet.WhenTokens and fleet.WhenUncached

	// Tokens measures a prompt for fleet.WhenTokens; nil uses the router's own estimate.
	Tokens func(*fleet.Request) int

	Prefill func() pick.Policy // policy for a pool's prefill legs; nil is Config.Policy
	Decode  func() pick.Policy // policy for decode legs and whole requests; nil is Config.Policy

	// NoFallback returns an error when no endpoint can compute the prompt of a request that should be split. Otherwise
	// the decoder computes it.
	NoFallback bool
}

func (d *Disaggregation) withDefaults(policy func() pick.Policy) {
	d.When = cmp.Or(d.When, fleet.WhenTime)
	if d.Prefill == nil {
		d.Prefill = policy
	}
	if d.Decode == nil {
		d.Decode = policy
	}
}

func (d *Disaggregation) validate() error {
	var errs []error
	if d.When != "" && !slices.Contains(fleet.SplitWhens(), d.When) {
		errs = append(errs,
			fmt.Errorf("%q is not a rule for splitting requests; known: %v", d.When, fleet.SplitWhens()))
	}
	if d.Threshold < 0 {
		errs = append(errs, fmt.Errorf("the threshold is %d tokens, must not be negative", d.Threshold))
	}
	return errors.Join(errs...)
}

// QueueConfig configures the router's queues, one for each endpoint: a prompt waits there while its endpoint has enough
// to compute, and shorter prompts go first. The zero value queues nothing: all prompts are sent at once.
type QueueConfig struct {
	Ahead    time.Duration // work sent to an endpoint in advance; 0 for no queue; DefaultAhead is a good value
	Patience float64       // times its own prefill time during which a prompt can be overtaken; default DefaultPatience
	Promote  time.Duration // wait after which a request counts as of the next higher priority; default 30 s
	Most     int           // most requests queued at all endpoints together; 0 for no limit
}

// The values of a queue, see QueueConfig.
const (
	DefaultAhead    = 500 * time.Millisecond
	DefaultPatience = 5
)
