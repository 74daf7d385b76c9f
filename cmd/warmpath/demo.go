package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/sim/trace"
)

// demoOptions are the demo's flags.
type demoOptions struct {
	duration time.Duration
	json     bool
	disagg   bool
	policy   string
	engines  int
	rate     float64
	seed     uint64
}

func demoCommand(e env) *cobra.Command {
	o := demoOptions{policy: policy.Default, engines: 4, rate: 4, seed: 1}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work: simulated engines, real traffic, next to round robin",
		Long: `Starts simulated engines and the router on free loopback ports, plays multi-turn conversations through them, and shows what
the clients see, beside the same traffic through round robin on a second, identical fleet. Needs no GPU and no network.

With --disagg the fleets are two prefillers and two decoders, and four engines that do both; the traffic has short turns and long
prompts, and it is shown which of them were split, and why.`,
		Example: `  warmpath demo                          until Ctrl-C
  warmpath demo --duration 20s           then a summary
  warmpath demo --duration 20s --json    one JSON object, for scripts
  warmpath demo --policy least_tokens    another policy against round robin
  warmpath demo --disagg                 prompts here, answers there, where it pays`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.disagg && c.Flags().Changed("engines") {
				return usageError(errors.New("--disagg has two prefillers and two decoders; it takes no --engines"))
			}
			return runDemo(c.Context(), e, o)
		},
	}
	f := c.Flags()
	f.DurationVar(&o.duration, "duration", 0, "how long to play; 0 is until Ctrl-C")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end and nothing else on standard output")
	f.StringVar(&o.policy, "policy", o.policy, "policy to show beside round robin")
	f.IntVar(&o.engines, "engines", o.engines, "simulated engines in each fleet")
	f.Float64Var(&o.rate, "rate", o.rate, "new conversations a second")
	f.BoolVar(&o.disagg, "disagg", false, "prefillers and decoders, beside engines that do both")
	f.Uint64Var(&o.seed, "seed", o.seed, "seed of the conversations")
	completePolicies(c)
	return c
}

// side is one fleet with its router and what its clients saw.
type side struct {
	name    string
	engines []*enginetest.Server
	router  *router
	score   *play.Score
	target  play.Target
}

func runDemo(ctx context.Context, e env, o demoOptions) error {
	if o.engines < 1 || o.engines > 64 || o.rate <= 0 || o.rate > 100 || o.duration < 0 {
		return usageError(errors.New("--engines must be from 1 to 64, --rate above 0 and at most 100, and --duration not negative"))
	}
	if o.disagg {
		return runDisaggDemo(ctx, e, o)
	}
	talk := e.stdout
	if o.json {
		talk = e.stderr
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	defer client.CloseIdleConnections()
	var sides []*side
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	for _, who := range [][2]string{{"warmpath", o.policy}, {"round_robin", "round_robin"}} {
		o := o
		o.policy = who[1]
		var endpoints []discovery.EndpointConfig
		for i := range o.engines {
			endpoints = append(endpoints, discovery.EndpointConfig{Name: fmt.Sprintf("engine-%d", i+1)})
		}
		s, err := newSide(ctx, e, who[0], o, endpoints, client)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	introduce(talk, sides, o)

	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := trace.Chats()
		w.PerSecond = o.rate
		playAll(ctx, sides, []trace.Generator{w}, o)
	}()
	watch(talk, screen{terminal: e.terminal && !o.json && roomForTable(), table: scores, line: lines}, sides, done)
	if o.json {
		return json.NewEncoder(e.stdout).Encode(map[string]play.Summary{
			sides[0].name: sides[0].score.Summary(), sides[1].name: sides[1].score.Summary(),
		})
	}
	conclude(e.stdout, sides)
	return nil
}

// newSide starts an engine for each endpoint, which has no address yet, and a router in front of them.
func newSide(ctx context.Context, e env, name string, o demoOptions, endpoints []discovery.EndpointConfig, client *http.Client) (*side, error) {
	s := &side{name: name}
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Policy.Name = o.policy
	disaggConfig(&cfg, endpoints)
	var names []string
	for i, at := range endpoints {
		engine, err := enginetest.New(enginetest.Options{Dialect: fleet.KindVLLM, Models: []string{"demo"}, Seed: uint64(i), Connector: cfg.Disaggregation.Connector})
		if err != nil {
			return nil, err
		}
		s.engines = append(s.engines, engine)
		if at.URL, err = engine.Listen("127.0.0.1:0"); err != nil {
			return nil, err
		}
		cfg.Endpoints = append(cfg.Endpoints, at)
		if at.Role != string(fleet.RolePrefill) { // clients see who answers
			names = append(names, at.Name)
		}
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if s.router, err = start(ctx, &cfg, e.version, quiet); err != nil {
		s.close()
		return nil, err
	}
	s.router.waitReady(ctx, 5*time.Second)
	s.score = play.NewScore(names...)
	s.target = play.Target{URL: s.router.url, Model: "demo", Sessions: play.Adopt, IgnoreEOS: true, Client: client}
	return s, nil
}

func (s *side) close() {
	if s.router != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.router.stop(ctx)
	}
	for _, e := range s.engines {
		_ = e.Close()
	}
}

// playAll plays the same conversations to all sides at the same times, batch after batch.
func playAll(ctx context.Context, sides []*side, traffic []trace.Generator, o demoOptions) {
	const grace = 3 * time.Second
	var wg sync.WaitGroup
	for kind, w := range traffic {
		w.Conversations = int(100*w.PerSecond) + 1 // some hundred seconds a batch; the next one goes on from there
		if o.duration > 0 {
			w.Conversations = int(w.PerSecond*o.duration.Seconds()*2) + 10
		}
		for _, s := range sides {
			wg.Go(func() {
				for batch := uint64(0); ctx.Err() == nil; batch++ {
					s.target.Play(ctx, w.Draw(o.seed+batch+uint64(kind)<<32), grace, s.score.Add)
				}
			})
		}
	}
	wg.Wait()
}
