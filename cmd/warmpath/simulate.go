package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/internal/simreport"
	"github.com/warmpath/warmpath/internal/simrun"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

func simulateCommand(e env) *cobra.Command {
	o := simulateOptions{
		policies: []string{"round_robin", "least_tokens", "consistent_hash", "session", "least_ttft"}, endpoints: 8,
		engine: "reference", routers: 1, load: 0.7, seed: 1, repeat: 1, jobs: runtime.GOMAXPROCS(0),
		transfer: simrig.DefaultTransfer(),
		slo:      figures.Objective{TTFT: 5 * time.Second, ITL: 250 * time.Millisecond}, share: 0.9,
	}
	c := &cobra.Command{
		Use:   "simulate (--trace FILE | --generate NAME=VALUE,...)",
		Short: "Replay a trace under any policy in virtual time, without GPUs",
		Long: `Replays recorded or generated traffic through the real router, on simulated engines and a virtual clock, and compares policies
side by side. Traces are JSON lines: recorded by serve (--record), in the format of Mooncake (FAST'25), or sessions of coding agents;
their keys tell which. They may be compressed with gzip.

--fit FILE replays nothing: it prints the fleet whose engines are as fast as a recording shows them to be, for --fleet.
--find-endpoints says how many engines each policy needs for the traffic as it was recorded: the fewest with which --slo-share of the
turns keep --slo-ttft and --slo-itl.

--load sets how often requests come: at 0.7 the work that would remain with an unlimited cache is 0.7 of what the fleet can do.
Policies that use conversation ids get the trace's true ones. Those that read prompts, such as least_ttft, get none and must
recognise conversations (--ids changes that). --set changes options of policies, named as below "policy" in a configuration; several
values are compared side by side. docs/simulate.md explains the figures.`,
		Example: `  warmpath simulate --trace mooncake_conversation.jsonl
  warmpath simulate --trace coding_agent.jsonl --policy session,least_ttft \
    --endpoints 8 --cache-tokens 4000000
  warmpath simulate --trace t.jsonl --fleet fleet.yaml --load 0.9 \
    --json figures.json
  warmpath simulate --generate conversations=2000,prefixes=20,burst=4
  warmpath simulate --generate tenants=4,greedy=10 --load 2 --tenant-running 24
  warmpath simulate --trace t.jsonl --without returns   # what is it worth?
  warmpath simulate --generate conversations=400 --policy rank.kv_cache_aware \
    --set rank.kv_cache_routing_match_rate_threshold=0,0.1,0.5
  warmpath simulate --trace t.jsonl --prefill 2 --decode 4 \
    --disagg-when tokens --disagg-threshold 1024,4096,16384
  warmpath simulate --fit recording.jsonl
  warmpath simulate --trace recording.jsonl --fleet fleet.yaml
  warmpath simulate --trace recording.jsonl --find-endpoints --slo-ttft 2s`,
		Args: noResults,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("fit") {
				return runFit(e, c, &o)
			}
			if c.Flags().Changed("speed") && !c.Flags().Changed("load") {
				o.load = 0
			}
			return runSimulate(c.Context(), e, c, o)
		},
	}
	f := c.Flags()
	f.SortFlags = false // the help lists them in the order of use
	f.StringVar(&o.trace, "trace", "", "file to replay; - is standard input")
	f.StringVar(&o.format, "format", "", "mooncake, agents or recorded; empty tells them apart by their keys")
	f.StringVar(&o.fit, "fit", "", "recording to fit engines to; prints a fleet for --fleet. - is standard input")
	f.StringSliceVar(&o.generate, "generate", nil,
		"draw the traffic instead of reading a trace: "+strings.Join(simtrace.GeneratorKeys(), ", "))
	f.StringSliceVar(&o.policies, "policy", o.policies,
		"policies to compare; oracle knows the engines and is for reference")
	f.Lookup("policy").DefValue = strings.Join(o.policies, ", ")
	f.IntVar(&o.endpoints, "endpoints", o.endpoints, "simulated engines")
	f.StringVar(&o.engine, "engine", o.engine, "kind of engine: "+strings.Join(fleetfile.Kinds(), ", "))
	f.IntVar(&o.cacheTokens, "cache-tokens", 0, "KV cache of each engine in tokens; 0 takes that of the kind")
	f.BoolVar(&o.mixed, "mixed", false, "every fourth engine at a third of the speed")
	f.BoolVar(&o.inStep, "in-step", false,
		"the engines are attention data-parallel ranks of one: each step takes as long as the slowest of them")
	f.StringVar(&o.fleetFile, "fleet", "",
		"YAML file that describes each engine, instead of --endpoints, --engine, --cache-tokens and --mixed")
	simulateSplitFlags(c, &o)
	f.IntVar(&o.routers, "routers", o.routers, "routers side by side, each with an even share of the requests")
	f.StringVar(&o.staleness, "staleness", "none",
		"how late routers side by side hear what the others decide and see, such as 50ms; none: never")
	f.StringSliceVar(&o.queues, "queue", []string{config.QueueAuto},
		"whether prompts wait at the router, auto, on or off (queue.mode); several with commas between are compared")
	f.DurationVar(&o.ahead, "queue-ahead", route.DefaultAhead, "work of prompts that an engine is sent in advance "+
		"where prompts wait at the router (queue.ahead); 0 for no queue")
	f.IntVar(&o.tenantRunning, "tenant-running", 0,
		"requests of each tenant at engines at one time, others wait (tenants.each.running); 0 for any number")
	f.Float64Var(&o.load, "load", o.load, "work that an unlimited cache leaves, as a share of the fleet's capacity")
	f.Float64Var(&o.speed, "speed", 0,
		"how many times as fast as recorded, instead of --load; for sessions, the times between their turns")
	f.Uint64Var(&o.seed, "seed", o.seed, "seed of arrivals and of chance in policies")
	f.IntVar(&o.clients, "clients", 0,
		"conversations at one time, instead of --load: the next begins when one ends; 0 uses --load")
	f.StringVar(&o.ids, "ids", "", "true or false: whether clients send conversation ids; empty follows the policy")
	f.IntVar(&o.repeat, "repeat", o.repeat, "how often each session of agents is played, as different conversations")
	f.IntVar(&o.half, "half", 0, "1 or 2: play one half of the conversations, to tune on the other; 0 plays all")
	f.DurationVar(&o.maxDelay, "max-delay", 0, "longest time between turns of a session; 0 as recorded")
	f.DurationVar(&o.horizon, "for", 0,
		"end the run then, with --clients; the seed draws the order of conversations. 0 plays all")
	f.BoolVar(&o.misses, "misses", false, "say for which causes prompts were not in the cache, in turns and tokens")
	f.BoolVar(&o.admission, "admission", true,
		"where prompts wait at the router, hold turns back while memory for conversations is short (admission)")
	f.DurationVar(&o.slo.TTFT, "slo-ttft", o.slo.TTFT, "time to first token that a good turn keeps")
	f.DurationVar(&o.slo.ITL, "slo-itl", o.slo.ITL, "mean gap between tokens that a good turn keeps")
	f.BoolVar(&o.find, "find-endpoints", false, "find the fewest engines with which --slo-share of the turns are "+
		"good, at the recorded rate times --speed, or with --clients")
	f.Float64Var(&o.share, "slo-share", o.share,
		"share of turns that are to keep --slo-ttft and --slo-itl, with --find-endpoints")
	f.StringArrayVar(&o.set, "set", nil,
		"an option of a policy, POLICY.OPTION=VALUE; several values with commas between are compared (repeatable)")
	f.StringSliceVar(&o.without,
		"without", nil, "learnt mechanisms to switch off, to measure their worth (docs/mechanisms.md): "+
			strings.Join(ablation.Names(), ", "))
	f.IntVar(&o.jobs, "jobs", o.jobs, "policies computed at a time")
	f.Lookup("jobs").DefValue = "processors" // the same in help and manual on every machine
	f.StringVar(&o.json, "json", "", "write the figures as JSON, an object for each policy; - is standard output")
	f.StringVar(&o.report, "report", "", "write a self-contained HTML report")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if moved := noResults(c, c.Flags().Args()); moved != nil {
			return moved
		}
		return flagError(c, err)
	})
	simulateCompletions(c)
	return c
}

// noResults refuses arguments, and says where the grid of results is measured.
func noResults(c *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "results" {
		return usageError(errors.New("results is a program of its own, in warmpath's sources: " +
			"cd bench && go run ./results -traces DIR; see docs/proof.md"))
	}
	return noArgs(c, args)
}

// simulateCompletions completes the values of flags.
func simulateCompletions(c *cobra.Command) {
	completePolicies(c)
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"mooncake", "agents", "recorded"},
		cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("engine",
		cobra.FixedCompletions(fleetfile.Kinds(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("without",
		cobra.FixedCompletions(ablation.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("ids",
		cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp))
}

// check reports every fault of the flags that can be found without reading a file.
func (o *simulateOptions) check(changed func(flag string) bool) error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault((o.trace == "") == (o.generate == nil), "give either --trace or --generate")
	fault(len(o.policies) == 0, "--policy names none")
	for i, name := range o.policies {
		if name != drive.OracleName {
			errs = append(errs, policy.Config{Name: name}.Validate())
		}
		fault(name == "", "--policy has an empty name")
		fault(slices.Contains(o.policies[:i], name), "--policy names %s twice", name)
	}
	fault(o.endpoints < 1 || o.endpoints > simrig.Most, "--endpoints must be in 1..%d, got %d",
		simrig.Most, o.endpoints)
	fault(o.routers < 1 || o.routers > 1024, "--routers must be in 1..1024, got %d", o.routers)
	_, _, err := o.shared()
	fault(err != nil, "--staleness: %v", err)
	fault(o.tenantRunning < 0, "--tenant-running must not be negative, got %d", o.tenantRunning)
	fault(len(o.queues) == 0, "--queue has no value, give auto, on or off")
	for i, mode := range o.queues {
		known := slices.Contains([]string{config.QueueAuto, config.QueueOn, config.QueueOff}, mode)
		fault(!known, "--queue must be auto, on or off, got %q", mode)
		fault(known && slices.Contains(o.queues[:i], mode), "--queue has %s twice", mode)
	}
	fault(o.ahead < 0, "--queue-ahead is %v, must not be negative", o.ahead)
	fault(changed("staleness") && o.staleness != "none" && o.routers < 2,
		"--staleness has no meaning with one router; give --routers")
	fault(!(o.load >= 0) || o.load > 100 || changed("load") && o.load == 0,
		"--load must be above 0 and at most 100, got %v", o.load)
	fault(changed("speed") && !(o.speed > 0 && o.speed <= 1e6), "--speed must be above 0, got %v", o.speed)
	fault(o.clients < 0, "--clients must not be negative, got %d", o.clients)
	fault(o.horizon < 0, "--for must not be negative, got %v", o.horizon)
	fault(o.horizon > 0 && o.clients == 0, "--for needs --clients")
	fault(o.clients > 0 && changed("load"), "give either --load or --clients: both say how often conversations begin")
	fault(o.ids != "" && o.ids != "true" && o.ids != "false", "--ids must be true or false, got %q", o.ids)
	fault(o.repeat < 1 || o.repeat > 1000, "--repeat must be in 1..1000, got %d", o.repeat)
	fault(o.half < 0 || o.half > 2, "--half must be 0, 1 or 2, got %d", o.half)
	fault(o.maxDelay < 0 || o.slo.TTFT < 0 || o.slo.ITL < 0,
		"--max-delay, --slo-ttft and --slo-itl must not be negative")
	errs = append(errs, o.checkSplit(changed), o.checkSettings(), o.checkFind(changed))
	fault(o.cacheTokens < 0, "--cache-tokens must not be negative, got %d", o.cacheTokens)
	if _, err := ablation.Of(o.without...); err != nil {
		errs = append(errs, fmt.Errorf("--without: %w", err))
	}
	fault(o.jobs < 1, "--jobs must be at least 1, got %d", o.jobs)
	for _, out := range [][2]string{{"--json", o.json}, {"--report", o.report}} {
		errs = append(errs, writable(out[0], out[1]))
	}
	if o.fleetFile != "" {
		for _, flag := range []string{"endpoints", "engine", "cache-tokens", "mixed"} {
			fault(changed(flag), "--%s has no meaning with --fleet, which says it for each engine", flag)
		}
	}
	return errors.Join(errs...)
}

func runSimulate(ctx context.Context, e env, c *cobra.Command, o simulateOptions) error {
	if err := o.check(c.Flags().Changed); err != nil {
		return usageError(err)
	}
	trace, err := o.traffic(e)
	if err != nil {
		return usageError(err)
	}
	fleet, engines, err := o.fleet(trace.Recording, trace.Name, c.Flags().Changed)
	if err != nil {
		return usageError(err)
	}
	if trace, err = o.part(trace); err != nil {
		return usageError(err)
	}
	if (trace.Timed || o.find && !trace.Closed) && !c.Flags().Changed("load") {
		o.load = 0 // as recorded
	} else if trace.Closed && o.load == 0 {
		o.load = 0.7 // sessions have no common clock: --speed sets how fast each goes, not how often they begin
	} else if !trace.Closed && o.speed > 0 && c.Flags().Changed("load") {
		return usageError(errors.New("give either --load or --speed: both set the times of this trace's requests"))
	}
	if o.clients > 0 && !trace.Closed {
		return usageError(fmt.Errorf(
			"--clients: the requests of %s have recorded times; only sessions begin one after another", o.trace))
	}
	if err := o.checkRoles(c.Flags().Changed, fleet); err != nil {
		return usageError(err)
	}
	unfit := simrun.Unfit(trace, fleet)
	if unfit > 0 && unfit == len(trace.Turns) {
		return usageError(fmt.Errorf("no request of %s fits the KV cache of an engine, prompt and answer together",
			trace.Name))
	}
	runs := o.runs(trace, fleet)
	shown := fleet
	if o.find {
		shown = resized(fleet, 1)
	}
	plan, err := shown.Plan(trace, o.load, o.speed, o.seed)
	if err != nil {
		return usageError(err)
	}
	talk := e.stdout
	if o.json == "-" {
		talk = e.stderr
	}
	simreport.Introduce(talk, trace, shown, plan)
	o.introduce(talk, engines, unfit)
	if o.find {
		if runs, err = o.search(ctx, e, talk, trace, fleet); err != nil {
			return err
		}
		return o.write(e, runs)
	}
	if err := simrun.All(ctx, talk, e.terminal && o.json != "-", runs, o.jobs); err != nil {
		return err
	}
	simrun.MeasureRouters(runs)
	if o.json != "-" {
		simreport.Tables(talk, runs)
	}
	return o.write(e, runs)
}

// introduce says what else is to be known before the figures: of the engines, and how many requests fit none.
func (o *simulateOptions) introduce(w io.Writer, engines string, unfit int) {
	if o.clients > 0 {
		fmt.Fprintf(w, "%d conversations at one time, regardless of the load: the next begins when one ends.\n",
			o.clients)
	}
	if engines != "" {
		fmt.Fprintln(w, engines)
	}
	if blind := o.blind(); len(blind) > 0 {
		fmt.Fprintf(w, "Warning: %s cannot tell first turns from later ones without conversation ids; "+
			"leave out --ids, or give --ids=true.\n", strings.Join(blind, ", "))
	}
	if legend := o.legend(); legend != "" {
		fmt.Fprintln(w, legend)
	}
	if unfit > 0 {
		fmt.Fprintf(w, "Note: %d requests fail: prompt and answer together fit no engine's KV cache.\n", unfit)
	}
}

// part is the half of the traffic to play, repeated as often as is asked for.
func (o *simulateOptions) part(t *simtrace.Trace) (*simtrace.Trace, error) {
	if o.repeat > 1 && !t.Closed {
		return nil, fmt.Errorf(
			"--repeat: the requests of %s have recorded times; only traces of sessions can be repeated", o.trace)
	}
	if o.maxDelay > 0 && !t.Closed {
		return nil, fmt.Errorf(
			"--max-delay: the requests of %s have recorded times; only turns of sessions wait for one another", o.trace)
	}
	if o.half > 0 {
		t = t.Half(o.half)
	}
	return t.Repeat(o.repeat), nil
}

// traffic reads or generates the traffic.
func (o *simulateOptions) traffic(e env) (*simtrace.Trace, error) {
	if o.generate != nil {
		g, err := simtrace.ParseGenerator(o.generate)
		if err != nil {
			return nil, err
		}
		return g.Trace(o.seed), nil
	}
	file, err := openTrace(e, o.trace)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return simtrace.Read(file.name, file, simtrace.Format(o.format))
}

// runs are the replays to do, one for each policy.
func (o *simulateOptions) runs(trace *simtrace.Trace, fleet simrig.Fleet) []*simrun.Run {
	var out []*simrun.Run
	share, staleness, _ := o.shared() // check has validated it
	without, _ := ablation.Of(o.without...)
	settings, _ := o.settings()
	for _, name := range o.policies {
		oracle := name == drive.OracleName
		variants, _ := o.variants(name, settings)
		for _, v := range variants {
			make, _ := policy.New(v.config)
			content := !oracle && policy.ReadsContent(v.config)
			for _, way := range o.ways(fleet) {
				out = append(out, &simrun.Run{
					SLO: o.slo, Label: v.label, Options: v.set, Way: way.name, Replay: drive.Replay{
						Standing: o.standing(), Without: without, Queue: v.queue, Disaggregation: way.Disaggregation,
						Transfer: o.transfer,
						Trace:    trace, Fleet: fleet, Policy: make, Oracle: oracle, Content: content,
						IDs: o.named(v.config, oracle), Routers: o.routers, Share: share, Staleness: staleness,
						Load: o.load, Speed: o.speed, Clients: o.clients, MaxDelay: o.maxDelay, Horizon: o.horizon,
						Seed: o.seed, Admission: o.admission && v.queue != (route.QueueConfig{}), Explain: o.misses,
					},
				})
			}
		}
	}
	return out
}

// named reports whether clients name their conversations: by default for policies that need ids, and for those that
// read no prompts.
func (o *simulateOptions) named(c policy.Config, oracle bool) bool {
	if o.ids != "" {
		return o.ids == "true"
	}
	return oracle || policy.NeedsIDs(c) || !policy.ReadsContent(c)
}

// blind lists the policies that need ids and get none.
func (o *simulateOptions) blind() []string {
	var out []string
	for _, name := range o.policies {
		if c := (policy.Config{Name: name}); name != drive.OracleName && policy.NeedsIDs(c) && !o.named(c, false) {
			out = append(out, name)
		}
	}
	return out
}

// write writes the files that the flags ask for, each completely or not at all.
func (o *simulateOptions) write(e env, runs []*simrun.Run) error {
	for _, f := range []struct {
		name   string
		stdout bool // the name is "-"
		of     func(runs []*simrun.Run) ([]byte, error)
	}{{o.json, o.json == "-", simreport.JSON}, {o.report, false, simreport.HTML}} {
		if f.name == "" {
			continue
		}
		data, err := f.of(runs)
		if err != nil {
			return err
		}
		if f.stdout {
			_, err = e.stdout.Write(data)
		} else {
			err = wholefile.Write(f.name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
