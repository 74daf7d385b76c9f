package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/bench/arena/faults"
	"github.com/warmpath/warmpath/bench/arena/report"
	"github.com/warmpath/warmpath/bench/arena/rivals"
	"github.com/warmpath/warmpath/bench/arena/stand"
	"github.com/warmpath/warmpath/bench/proc"
)

// contestant is a router that is installed.
type contestant struct {
	rivals.Rival
	program string
}

// arena is one run.
type arena struct {
	*options
	dir         string // temporary
	serial      int    // of folders
	contestants []contestant
	report      report.Run
}

// run does what the options say. failed says that warmpath failed something that it should not.
func run(ctx context.Context, o *options) (failed bool, err error) {
	dir, cleanup, err := stand.Dir()
	if err != nil {
		return false, err
	}
	defer cleanup()
	a := &arena{options: o, dir: dir}
	if o.from != "" {
		data, err := os.ReadFile(o.from)
		if err == nil {
			err = json.Unmarshal(data, &a.report)
		}
		if err != nil {
			return false, fmt.Errorf("arena: -from: %w", err)
		}
		return a.report.Failed(), a.write()
	}
	if err := a.prepare(ctx); err != nil || o.install {
		return false, err
	}
	began := time.Now()
	if o.has(conversations) {
		if err := a.conversations(ctx); err != nil {
			return false, err
		}
	}
	if o.has(overhead) {
		if err := a.overhead(ctx); err != nil {
			return false, err
		}
	}
	if o.has(brokenEngines) {
		if err := a.faults(ctx); err != nil {
			return false, err
		}
	}
	a.report.Took = time.Since(began).Round(time.Second).String()
	return a.report.Failed(), a.write()
}

var started = time.Now()

// say tells the progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
}

// prepare builds warmpath, installs the others, and begins the report.
func (a *arena) prepare(ctx context.Context) error {
	if a.warmpath == "" && !a.install {
		say("building warmpath ...")
		a.warmpath = filepath.Join(a.dir, "warmpath")
		if err := build(ctx, a.root, "./cmd/warmpath", a.warmpath); err != nil {
			return err
		}
	}
	all, err := a.picked(a.warmpath)
	if err != nil {
		return err
	}
	r := &a.report
	r.Time, r.CPUs, r.CPU = time.Now().UTC().Format("2006-01-02 15:04 MST"), runtime.NumCPU(), proc.CPUModel()
	r.Rounds, r.Seed, r.Engines = a.rounds, a.seed, "simulated engines"
	if len(a.engines) > 0 {
		r.Real, r.Engines = true, fmt.Sprintf("%d real engines", len(a.engines))
	}
	for _, rival := range all {
		if a.short && a.only == "" && rival.Slow {
			continue
		}
		if !a.offline {
			if err := rival.Install(ctx, a.home, os.Stderr); err != nil {
				a.leaveOut(fmt.Errorf("%s: %w", rival.Name, err))
				continue
			}
		}
		if a.install {
			continue
		}
		program, version, err := rival.Program(a.home)
		if err != nil {
			a.leaveOut(err)
			continue
		}
		if rival.Name == report.Ours && version == "(devel)" {
			version = commit(ctx, a.root)
		}
		router := report.Router{
			Name: rival.Name, Version: version, From: rival.From, Setting: map[string]string{},
			Config: map[string]string{},
		}
		for job, words := range rival.Settings {
			router.Setting[string(job)] = words
			if router.Config[string(job)], err = rival.Shown(job); err != nil {
				return err
			}
		}
		r.Routers = append(r.Routers, router)
		a.contestants = append(a.contestants, contestant{rival, program})
	}
	return nil
}

func (a *arena) leaveOut(why error) {
	say("left out: %v", why)
	line, _, _ := strings.Cut(why.Error(), "\n")
	a.report.LeftOut = append(a.report.LeftOut, line)
}

// excuse notes that a router could not be tried in a part, so that the others still are. It returns the error where it
// is warmpath's, or where the run is over.
func (a *arena) excuse(c contestant, part string, why error) error {
	if c.Name == report.Ours {
		return why
	}
	a.leaveOut(fmt.Errorf("%s, %s: %w", c.Name, part, why))
	return nil
}

// build builds a program of the module in dir.
func build(ctx context.Context, dir, what, to string) error {
	abs, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", abs, what)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("arena: build %s in %s: %w\n%s", what, dir, err, out)
	}
	return nil
}

// commit names the source that the program was built from, which a program built in a work tree does not know by
// itself.
func commit(ctx context.Context, dir string) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=10")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "development"
	}
	return strings.TrimSpace(string(out))
}

// startLimit bounds the start of a router: LiteLLM takes seconds on an idle machine.
const startLimit = 90 * time.Second

// start starts a router in front of engines and waits until it answers a request.
func (a *arena) start(
	c contestant, job rivals.Job, engines []string, model string,
) (p *stand.Process, url string, err error) {
	a.serial++
	s := rivals.Site{
		Dir: filepath.Join(a.dir, fmt.Sprintf("%s-%d", c.Name, a.serial)), Engines: engines, Model: model,
		Root: os.Geteuid() == 0,
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, "", err
	}
	for _, port := range []*string{&s.Listen, &s.Admin} {
		if *port, err = stand.FreePort(); err != nil {
			return nil, "", err
		}
	}
	cmd, err := c.Command(c.program, job, s)
	if err != nil {
		return nil, "", err
	}
	p, err = stand.Start(c.Name, cmd)
	if err != nil {
		return nil, "", err
	}
	url = "http://" + s.Listen
	if err := p.WaitUntil(startLimit, func() error { return answers(url, model) }); err != nil {
		p.Kill()
		return nil, "", err
	}
	return p, url, nil
}

var client = &http.Client{Timeout: 20 * time.Second}

// answers reports whether a router answers a small request.
func answers(url, model string) error {
	res, err := client.Post(url+"/v1/chat/completions", "application/json",
		strings.NewReader(
			fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"ready?"}],"max_tokens":1}`, model)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}

// conversations plays every scenario in every round through every router. Each has fresh engines, so that caches are
// cold, and the order is another one in each round. A router whose start is slow plays in the first round only.
func (a *arena) conversations(ctx context.Context) error {
	list := scenarios()
	if len(a.engines) > 0 {
		list = realScenarios()
	}
	if a.short {
		list = list[:1]
	}
	for _, s := range list {
		a.report.Scenarios = append(a.report.Scenarios, s.Scenario)
	}
	for round := range a.rounds {
		for n, s := range list {
			for i := range a.contestants {
				c := a.contestants[(i+round*(len(a.contestants)+1)/2)%len(a.contestants)]
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if c.Slow && round > 0 {
					continue
				}
				p, err := a.playOne(ctx, c, s, a.seed+uint64(100*round+n))
				if err != nil {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					if err := a.excuse(c, fmt.Sprintf("%s in round %d", s.Name, round+1), err); err != nil {
						return err
					}
					continue
				}
				p.Router, p.Scenario, p.Round = c.Name, s.Name, round
				a.report.Plays = append(a.report.Plays, p)
				say("round %d, %s, %s: mean TTFT %.0f ms, p90 %.0f, hit rate %.1f %%, %d of %d failed",
					round+1, s.Name, c.Name, p.TTFT.Mean, p.TTFT.P90, 100*p.HitRate, p.Failed, p.Requests)
			}
		}
	}
	return nil
}

// playOne plays one scenario through one router.
func (a *arena) playOne(ctx context.Context, c contestant, s scenario, seed uint64) (report.Play, error) {
	var engines []*stand.Engine
	addrs, model := a.realAddrs(), a.model
	if s.specs != nil {
		var err error
		if engines, err = stand.StartEngines(a.warmpath, s.specs); err != nil {
			return report.Play{}, err
		}
		defer stand.StopEngines(engines)
		addrs, model = stand.Addrs(engines), stand.Model
	} else if !flushed(addrs) {
		seed += uint64(1000 * (a.serial + 1)) // the engines keep their caches: every play has texts of its own
	}
	p, url, err := a.start(c, s.job, addrs, model)
	if err != nil {
		return report.Play{}, err
	}
	defer p.Kill() // its figures are taken by then: nothing of it is worth waiting for
	before, err := proc.Tree(p.Pid())
	if err != nil {
		return report.Play{}, err
	}
	played, err := play(ctx, a.warmpath, url, model, a.work, s.job, seed, engines)
	if err != nil {
		return played, err
	}
	after, err := proc.Tree(p.Pid())
	if err == nil && played.Requests > 0 {
		played.CPUMs = (after.CPU - before.CPU).Seconds() * 1000 / float64(played.Requests)
	}
	return played, err
}

// flushed empties the caches of real engines, and reports whether all did so: SGLang by default, vLLM with
// VLLM_SERVER_DEV_MODE=1.
func flushed(addrs []string) bool {
	for _, addr := range addrs {
		done := false
		for _, path := range []string{"/reset_prefix_cache", "/flush_cache"} {
			res, err := client.Post("http://"+addr+path, "application/json", nil)
			if err != nil {
				return false
			}
			_ = res.Body.Close()
			done = done || res.StatusCode == http.StatusOK
		}
		if !done {
			return false
		}
	}
	return true
}

func (a *arena) realAddrs() []string {
	var out []string
	for _, e := range a.engines {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(e, "http://"), "/"))
	}
	return out
}

// faults tries all routers at the same time, each with engines of its own: what they do takes time and hardly any CPU.
func (a *arena) faults(ctx context.Context) error {
	plan := faults.FullPlan()
	if a.short {
		plan = faults.ShortPlan()
	}
	type ready struct {
		name, url string
		engines   []*stand.Engine
	}
	var stands []ready
	for _, c := range a.contestants {
		engines, err := stand.StartEngines(a.warmpath, faults.Engines())
		if err != nil {
			return err
		}
		defer stand.StopEngines(engines)
		p, url, err := a.start(c, rivals.Plain, stand.Addrs(engines), stand.Model)
		if err != nil {
			if err := a.excuse(c, brokenEngines, err); err != nil {
				return err
			}
			continue
		}
		defer p.Kill() // its figures are taken by then
		stands = append(stands, ready{c.Name, url, engines})
	}
	found := make([]report.Faults, len(stands))
	var wg sync.WaitGroup
	for i, s := range stands {
		wg.Go(func() {
			found[i] = report.Faults{Router: s.name, Outcomes: faults.Try(ctx, s.url, s.engines, plan)}
			say("faults, %s: done", s.name)
		})
	}
	wg.Wait()
	a.report.Faults = found
	return ctx.Err()
}

// write writes the report where it was asked for.
func (a *arena) write() error {
	if a.jsonPath != "" {
		data, err := json.MarshalIndent(a.report, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(a.jsonPath, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if a.page != "" {
		return a.report.WriteInto(a.page)
	}
	a.report.Write(os.Stdout)
	return nil
}
