package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim"
)

// demoOptions are the demo's flags.
type demoOptions struct {
	duration time.Duration
	json     bool
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
the clients see, beside the same traffic through round robin on a second, identical fleet. Needs no GPU and no network.`,
		Example: `  warmpath demo                          until Ctrl-C
  warmpath demo --duration 20s           then a summary
  warmpath demo --duration 20s --json    one JSON object, for scripts
  warmpath demo --policy least_tokens    another policy against round robin`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), e, o) },
	}
	f := c.Flags()
	f.DurationVar(&o.duration, "duration", 0, "how long to play; 0 is until Ctrl-C")
	f.BoolVar(&o.json, "json", false, "print one JSON object at the end and nothing else on standard output")
	f.StringVar(&o.policy, "policy", o.policy, "policy to show beside round robin")
	f.IntVar(&o.engines, "engines", o.engines, "simulated engines in each fleet")
	f.Float64Var(&o.rate, "rate", o.rate, "new conversations a second")
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
		s, err := newSide(ctx, e, who[0], who[1], o, client)
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
		playBoth(ctx, sides, o)
	}()
	watch(talk, e.terminal && !o.json && roomForTable(), sides, done)
	if o.json {
		return json.NewEncoder(e.stdout).Encode(map[string]play.Summary{
			sides[0].name: sides[0].score.Summary(), sides[1].name: sides[1].score.Summary(),
		})
	}
	conclude(e.stdout, sides)
	return nil
}

func newSide(ctx context.Context, e env, name, policyName string, o demoOptions, client *http.Client) (*side, error) {
	s := &side{name: name}
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Policy.Name = policyName
	for i := range o.engines {
		engine, err := enginetest.New(enginetest.Options{Dialect: route.KindVLLM, Models: []string{"demo"}, Seed: uint64(i)})
		if err != nil {
			return nil, err
		}
		s.engines = append(s.engines, engine)
		url, err := engine.Listen("127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{Name: fmt.Sprintf("engine-%d", i+1), URL: url})
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	if s.router, err = start(ctx, &cfg, e.version, quiet); err != nil {
		s.close()
		return nil, err
	}
	s.router.waitReady(ctx, 5*time.Second)
	var names []string
	for i := range o.engines {
		names = append(names, fmt.Sprintf("engine-%d", i+1))
	}
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

// playBoth plays the same conversations to both sides at the same times, batch after batch.
func playBoth(ctx context.Context, sides []*side, o demoOptions) {
	w := sim.DefaultWorkload()
	w.PerSecond = o.rate
	w.Count = int(100 * o.rate) // some hundred seconds a batch; the next one goes on from there
	if o.duration > 0 {
		w.Count = int(o.rate*o.duration.Seconds()*2) + 10
	}
	const grace = 3 * time.Second
	finished := make(chan struct{}, len(sides))
	for _, s := range sides {
		go func() {
			defer func() { finished <- struct{}{} }()
			for batch := uint64(0); ctx.Err() == nil; batch++ {
				s.target.Play(ctx, w, w.Conversations(o.seed+batch), grace, s.score.Add)
			}
		}()
	}
	for range sides {
		<-finished
	}
}
