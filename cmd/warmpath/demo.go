package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/demo"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/policy"
)

func demoCommand(e env) *cobra.Command {
	o := demo.Options{Policy: policy.Default, Engines: 4, Rate: 4, Seed: 1}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work on simulated engines, beside round robin",
		Long: `Starts simulated engines and the router on free loopback ports, plays multi-turn conversations through them, and shows what
the clients see, beside the same traffic through round robin on a second, identical fleet. Needs no GPU and no network.

With --replicas several routers share the engines and tell each other their decisions. They are compared with a single router, and
with as many routers that do not; requests go to the routers in turn.

With --agents half as many sessions again as the caches hold play in closed loop, with admission and without it: output, and the
slowest turn of a session, which is its price.

With --disagg two prefillers and two decoders are compared with four engines that do both. The traffic has short turns and long
prompts, and the demo shows which requests were split, and why.`,
		Example: `  warmpath demo                          until Ctrl-C
  warmpath demo --duration 20s           then a summary
  warmpath demo --duration 20s --json    one JSON object, for scripts
  warmpath demo --policy least_tokens    another policy against round robin
  warmpath demo --replicas 3             three routers as one
  warmpath demo --disagg                 prompts here, answers there
  warmpath demo --agents --duration 1m   more sessions than the caches hold`,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Disagg && c.Flags().Changed("engines") {
				return usageError(
					errors.New("--disagg has two prefillers and two decoders and cannot be combined with --engines"))
			}
			if c.Flags().Changed("replicas") && (o.Replicas < 2 || o.Replicas > 16 || o.Disagg) {
				return usageError(errors.New("--replicas must be from 2 to 16, without --disagg"))
			}
			if o.Agents && (o.Disagg || o.Replicas > 0 || c.Flags().Changed("rate")) {
				return usageError(errors.New(
					"--agents has sessions in closed loop and cannot be combined with --disagg, --replicas or --rate"))
			}
			return runDemo(c.Context(), e, o)
		},
	}
	f := c.Flags()
	f.DurationVar(&o.Duration, "duration", 0, "how long to play; 0 is until Ctrl-C")
	f.BoolVar(&o.JSON, "json", false, "print one JSON object at the end and nothing else on standard output")
	f.StringVar(&o.Policy, "policy", o.Policy, "policy to show beside round robin")
	f.IntVar(&o.Engines, "engines", o.Engines, "simulated engines in each fleet")
	f.Float64Var(&o.Rate, "rate", o.Rate, "new conversations a second")
	f.IntVar(&o.Replicas, "replicas", 0, "routers of the same engines, 2 to 16, sharing decisions and not")
	f.BoolVar(&o.Agents, "agents", false,
		"sessions that need more KV cache than there is, with admission and without it")
	f.BoolVar(&o.Disagg, "disagg", false, "prefillers and decoders, beside engines that do both")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the conversations")
	completePolicies(c)
	return c
}

func runDemo(ctx context.Context, e env, o demo.Options) error {
	if o.Engines < 1 || o.Engines > 64 || o.Rate <= 0 || o.Rate > 100 || o.Duration < 0 {
		return usageError(
			errors.New("--engines must be from 1 to 64, --rate above 0 and at most 100, and --duration not negative"))
	}
	o.Out, o.Talk = e.stdout, e.stdout
	if o.JSON {
		o.Talk = e.stderr
	}
	o.Live = e.terminal && !o.JSON && terminal.Holds(os.Stdout, 80, 24)
	o.Start = func(ctx context.Context, f demo.Fleet) (*demo.Router, error) { return startForDemo(ctx, e, f) }
	return demo.Run(ctx, o)
}

// startForDemo starts the routers in front of a fleet of the demo.
func startForDemo(ctx context.Context, e env, f demo.Fleet) (*demo.Router, error) {
	if f.Routers <= 1 {
		r, err := startOneForDemo(ctx, e, f, nil, nil)
		if err != nil {
			return nil, err
		}
		return &demo.Router{URL: r.url, AdminURL: r.adminURL, Stop: r.stop}, nil
	}
	var all []*router
	stop := func(ctx context.Context) error {
		var errs []error
		for _, r := range all {
			errs = append(errs, r.stop(ctx))
		}
		return errors.Join(errs...)
	}
	listeners, addresses, err := portsForDemo(f)
	if err != nil {
		return nil, err
	}
	d := &demo.Router{Stop: stop}
	for i := range f.Routers {
		var held sockets
		if f.Share {
			held = sockets{"peers": listeners[i]}
		}
		r, err := startOneForDemo(ctx, e, f, held, addresses)
		if err != nil {
			closeAll(listeners[min(i, len(listeners)):]...)
			return nil, errors.Join(err, stop(ctx))
		}
		if all = append(all, r); i == 0 {
			d.URL, d.AdminURL = r.url, r.adminURL
		} else {
			d.Others = append(d.Others, r.url)
		}
	}
	return d, nil
}

// portsForDemo opens the ports at which a fleet's routers reach each other.
func portsForDemo(f demo.Fleet) (listeners []net.Listener, addresses []string, err error) {
	for range f.Routers {
		if !f.Share {
			break
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			closeAll(listeners...)
			return nil, nil, err
		}
		listeners, addresses = append(listeners, l), append(addresses, l.Addr().String())
	}
	return listeners, addresses, nil
}

// startOneForDemo starts one router on an open socket. The addresses are those of the other routers.
func startOneForDemo(ctx context.Context, e env, f demo.Fleet, held sockets, addresses []string) (*router, error) {
	cfg := config.Default()
	if len(addresses) > 0 {
		cfg.Peers.Listen, cfg.Peers.Routers = "127.0.0.1:0", addresses
	}
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Policy.Name, cfg.Disaggregation.Connector = f.Policy, f.Connector
	if cfg.Admission = config.AdmissionOff; f.Admission {
		cfg.Admission = config.AdmissionOn
	}
	for _, at := range f.Endpoints {
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{Name: at.Name, URL: at.URL, Role: at.Role})
	}
	r, err := startOn(ctx, &cfg, e.version, held, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	r.waitReady(ctx, 5*time.Second)
	return r, nil
}
