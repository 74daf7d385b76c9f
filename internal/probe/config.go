// Package probe learns how the engines are: whether each is alive, what it serves and how loaded it is. It asks over
// HTTP on the wall clock what package engine says to ask, and tells what it learnt as route.Probed events.
package probe

import (
	"errors"
	"fmt"
	"time"
)

// Config says how often engines are asked. The zero value of each field takes its default.
type Config struct {
	// Interval is the time between two questions whether an engine is alive. An engine that is down is asked sooner at
	// first, and never less often. Default 2s.
	Interval time.Duration `yaml:"interval"`
	// LoadInterval is the time between two questions about load. The router's own books come first, these figures only
	// correct them. Default 1s.
	LoadInterval time.Duration `yaml:"load_interval"`
	// ModelsInterval is the time between two questions about models, adapters and capacity. Default 15s.
	ModelsInterval time.Duration `yaml:"models_interval"`
	// Timeout bounds one question and its answer. Default 2s.
	Timeout time.Duration `yaml:"timeout"`
	// Failures is how many questions in a row must time out or be answered with an error before an engine that was
	// alive counts as down: a busy engine is slow to answer. A refused connection counts at once. Default 2.
	Failures int `yaml:"failures"`
	// Computing is how long an engine that has requests may leave these questions unanswered; after that, each counts
	// as a failure. Some servers answer nothing else while they compute a prompt. Meanwhile the engine keeps the
	// requests that it has, and new ones go elsewhere. An engine of an unknown kind gets four times as long. The longer
	// this is, the later an engine that really hangs is found, unless health.silent finds it first. Default 30s.
	Computing time.Duration `yaml:"computing"`
}

// WithDefaults fills in what is zero.
func (c Config) WithDefaults() Config {
	fill := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	fill(&c.Interval, 2*time.Second)
	fill(&c.LoadInterval, time.Second)
	fill(&c.ModelsInterval, 15*time.Second)
	fill(&c.Timeout, 2*time.Second)
	fill(&c.Computing, 30*time.Second)
	if c.Failures == 0 {
		c.Failures = 2
	}
	return c
}

// Validate reports all faults of a Config.
func (c Config) Validate() error {
	var errs []error
	atLeast := func(name string, d, least time.Duration) {
		if d != 0 && d < least {
			errs = append(errs, fmt.Errorf("probe: %s is %v, must be at least %v", name, d, least))
		}
	}
	atLeast("interval", c.Interval, 10*time.Millisecond)
	atLeast("load_interval", c.LoadInterval, 10*time.Millisecond)
	atLeast("models_interval", c.ModelsInterval, 100*time.Millisecond)
	atLeast("timeout", c.Timeout, time.Millisecond)
	atLeast("computing", c.Computing, time.Millisecond)
	if c.Failures < 0 || c.Failures > 100 {
		errs = append(errs, fmt.Errorf("probe: failures is %d, must be from 1 to 100", c.Failures))
	}
	return errors.Join(errs...)
}
