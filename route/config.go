package route

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/session"
)

// Alias lets clients ask for one name and be served by any of several models.
type Alias struct {
	Name   string   // "*" stands for every name that nothing else serves
	Models []string // in order of preference for an endpoint that serves several of them
}

// Config is what a Router is made of. Zero values mean the defaults named at each field.
type Config struct {
	Policy     func() pick.Policy // makes the policy of one pool; required
	PolicyName string             // as in the configuration
	Aliases    []Alias
	Sessions   session.Config
	Explain    bool // keep the candidates of each decision until its end, for Ended.Candidates
	Counting   bool // reckon Candidate.ActiveTokens though no policy of a pool asks for them
	Awaiting   bool // the same of Candidate.ReturnsPerMs, for shadows

	Queue Queue // who waits at the router; the zero value has nobody wait

	Disaggregation Disaggregation // of pools whose endpoints have roles

	Responses   int           // response ids remembered; default 100,000
	ResponseTTL time.Duration // how long; default 24 h

	EjectAfter int           // failures in a row, by the endpoint's fault, that eject it; default 3
	EjectFor   time.Duration // the first ejection; doubles with each further one; default 1 s
	EjectMax   time.Duration // the longest ejection; default 30 s
	EjectShare float64       // of a pool's endpoints that may be ejected for failed requests at once, never the last; at least one of two may; default 0.5, negative none
	PanicShare float64       // of a pool's endpoints that must not be ejected for failed requests to count when choosing; default 0.5, negative none
	Silent     time.Duration // how long an endpoint whose answers are overdue may give no sign of life before it is ejected; default 10 s, negative for ever
	BusyFor    time.Duration // how long 429 or 503 without Retry-After keeps traffic away; default 1 s
	BusyMax    time.Duration // the longest Retry-After that is believed; default 30 s
	Ramp       time.Duration // how long an endpoint that joins or comes back takes to get its full share; default 10 s
	StaleAfter time.Duration // a load report older than this counts for nothing; default 10 s

	RetryShare float64 // retries of the last minute as a share of its requests; default 0.2, negative none
	RetryFloor int     // retries in a minute that are allowed however few requests there are; default 100, negative none
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	c.Sessions = c.Sessions.WithDefaults()
	c.Disaggregation.withDefaults(&c)
	if c.Queue.Patience == 0 {
		c.Queue.Patience = DefaultPatience
	}
	if c.Responses == 0 {
		c.Responses = 100_000
	}
	if c.EjectAfter == 0 {
		c.EjectAfter = 3
	}
	share := func(s *float64, v float64) {
		if *s == 0 {
			*s = v
		}
	}
	share(&c.EjectShare, 0.5)
	share(&c.PanicShare, 0.5)
	share(&c.RetryShare, 0.2)
	if c.RetryFloor == 0 {
		c.RetryFloor = 100
	}
	set(&c.ResponseTTL, 24*time.Hour)
	set(&c.EjectFor, time.Second)
	set(&c.EjectMax, 30*time.Second)
	set(&c.Silent, 10*time.Second)
	set(&c.BusyFor, time.Second)
	set(&c.BusyMax, 30*time.Second)
	set(&c.Ramp, 10*time.Second)
	set(&c.StaleAfter, 10*time.Second)
	return c
}

// Validate reports all faults.
func (c Config) Validate() error {
	var errs []error
	if c.Policy == nil {
		errs = append(errs, errors.New("no policy"))
	}
	seen := map[string]bool{}
	for _, a := range c.Aliases {
		if a.Name == "" || len(a.Models) == 0 {
			errs = append(errs, fmt.Errorf("alias %q needs a name and at least one model", a.Name))
		}
		if seen[a.Name] {
			errs = append(errs, fmt.Errorf("alias %q is declared twice", a.Name))
		}
		seen[a.Name] = true
	}
	if c.EjectAfter < 0 || c.Responses < 0 {
		errs = append(errs, errors.New("counts must not be negative"))
	}
	return errors.Join(append(errs, c.Disaggregation.validate(), c.Sessions.Validate())...)
}
