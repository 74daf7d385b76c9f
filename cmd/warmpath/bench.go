package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/sim/text"
	"github.com/warmpath/warmpath/sim/trace"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	urls     []string
	target   play.Target // without its address
	sessions string
	streamed float64
	timeout  time.Duration
	seed     uint64
	json     bool
	work     trace.Generator
	loop     benchLoop
}

// benchLoop are the flags of sessions in closed loop.
type benchLoop struct {
	clients  int
	horizon  time.Duration
	file     string
	half     int
	repeat   int
	maxDelay time.Duration
}

func benchCommand(e env) *cobra.Command {
	o := benchOptions{
		work: trace.Chats(), sessions: string(play.Adopt), streamed: 1, timeout: 10 * time.Minute,
		loop: benchLoop{repeat: 1},
	}
	c := &cobra.Command{
		Use:   "bench --url URL",
		Short: "Measure any OpenAI address with conversations",
		Long: `Plays multi-turn conversations in closed loop against an OpenAI-compatible address (an engine, warmpath, or any other router),
and prints time to first token, inter-token latency, time to the end of the answer, token hit rate and balance, as its clients see
them. The hit rate is what the engines report in usage. Balance needs the endpoint of each answer, which warmpath gives in
X-Warmpath-Endpoint (name another header with --endpoint-header). Two short requests before the run tell how long a text is
that the engine counts as a token, so that prompts are as long as the workload says, without the chat template. With --leaving the clients of some turns leave, half of
them before the first token, and ask again at once: it prints how many, and times and hit rate of the other turns. The exit
code is 1 if a turn failed.

--clients N keeps N sessions open at a time, as agents do. A session waits for its answer, pauses, and sends its next turn. When
it ends, the next session begins. Bench then also prints output tokens a second, the slowest turn of a session until its first
token, and how many sessions have ended. --trace plays the sessions of a file, such as coding agents' with session_id and
shared_length; sub-agents are played with the session that starts them. --for ends the run.

Several addresses are played one after the other and shown beside each other, such as a router with admission and one
without. All get the same sessions. Each gets other words of the same lengths, so that none finds what another left in the
caches. The comparison is fair only if nothing else uses the engines. To compare two runs of bench on the same texts, name a
--seed and restart the engines in between: the second router would find warm caches.`,
		Example: `  warmpath bench --url http://127.0.0.1:8080 --model m
  warmpath bench --url http://127.0.0.1:8080 --conversations 40 \
    --rate 2 --sessions none
  warmpath bench --url http://127.0.0.1:8080 --streamed 0.1
  warmpath bench --url http://127.0.0.1:8080 --leaving 0.15
  warmpath bench --url http://127.0.0.1:8080 --json

  # Agents, with admission and without it
  warmpath bench --url http://127.0.0.1:8080 --url http://127.0.0.1:8081 \
    --clients 100 --for 30m --trace coding_agent.jsonl --max-delay 10s`,
		RunE: func(c *cobra.Command, _ []string) error { return runBench(c.Context(), e, o, c.Flags().Changed) },
	}
	f := c.Flags()
	f.StringArrayVar(&o.urls, "url", nil,
		"base address, with or without /v1 (required); several are played one after the other")
	f.StringVar(&o.target.Model, "model", "", "model to ask for; empty takes the first that each address lists")
	f.StringVar(&o.target.APIKey, "api-key", "", "bearer token")
	f.StringVar(&o.sessions, "sessions", o.sessions, "how clients name their conversation: "+
		"adopt (send back the X-Session-Id of the first answer), send (an own X-Session-ID), none")
	f.StringVar(&o.target.EndpointHeader, "endpoint-header", "X-Warmpath-Endpoint",
		"answer header that names the endpoint")
	f.BoolVar(&o.target.IgnoreEOS, "ignore-eos", true,
		"ask engines for answers of exactly the length the workload says")
	f.Float64Var(&o.streamed, "streamed", o.streamed, "share of turns, 0 to 1, whose answers are streamed; "+
		"the others come as a whole, and have no time to first token")
	f.Float64Var(&o.target.Leaving, "leaving", 0,
		"share of turns, 0 to 1, whose clients leave, half of them before the first token, and ask again at once")
	f.DurationVar(&o.timeout, "timeout", o.timeout,
		"end after this time at the latest, for each address; --for takes its place")
	f.Uint64Var(&o.seed, "seed", o.seed,
		"seed of the conversations; 0 draws one, so that no engine has seen the texts before")
	f.BoolVar(&o.json, "json", false,
		"print one JSON object for each address, a line each, and nothing else on standard output")
	f.IntVar(&o.work.Conversations, "conversations", o.work.Conversations, "how many")
	f.Float64Var(&o.work.PerSecond, "rate", o.work.PerSecond, "conversations that begin a second; 0 all at once")
	f.IntVar(&o.work.System, "system-tokens", o.work.System,
		"tokens of the system prompt that all share")
	f.Float64Var(&o.work.Turns, "turns", o.work.Turns, "mean number of turns after the first")
	f.Float64Var(&o.work.User, "user-tokens", o.work.User, "typical tokens of a user's turn")
	f.Float64Var(&o.work.Answer, "answer-tokens", o.work.Answer, "typical tokens of an answer")
	f.DurationVar(&o.work.Think, "think", o.work.Think, "mean time between an answer and the next turn")
	f.IntVar(&o.loop.clients, "clients", 0, "sessions at one time, instead of --rate: the next begins when one ends")
	f.DurationVar(&o.loop.horizon, "for", 0, "end the run then, with --clients; 0 plays all sessions")
	f.StringVar(&o.loop.file, "trace", "", "file with the sessions to play, with --clients; - is standard input")
	f.IntVar(&o.loop.half, "half", 0, "1 or 2: play one half of the sessions of --trace; 0 plays all")
	f.IntVar(&o.loop.repeat, "repeat", o.loop.repeat, "how often each session of --trace is played, as different ones")
	f.DurationVar(&o.loop.maxDelay, "max-delay", 0, "longest time between turns of a session of --trace; 0 as recorded")
	_ = c.RegisterFlagCompletionFunc("sessions",
		cobra.FixedCompletions([]string{"adopt", "send", "none"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *benchOptions) validate(changed func(flag string) bool) error {
	o.target.Sessions, o.target.Whole = play.Sessions(o.sessions), 1-o.streamed
	var errs []error
	if len(o.urls) == 0 {
		errs = append(errs, errors.New("--url is required, for example --url http://127.0.0.1:8080"))
	}
	for i, u := range o.urls {
		// clients' base URLs end with it
		o.urls[i] = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u, "/"), "/v1"), "/")
		switch u := o.urls[i]; {
		case u == "":
			errs = append(errs, errors.New("--url is required, for example --url http://127.0.0.1:8080"))
		case !strings.Contains(u, "://"):
			o.urls[i] = "http://" + u
		case !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://"):
			errs = append(errs, fmt.Errorf("--url %q must begin with http:// or https://", u))
		}
	}
	switch o.target.Sessions {
	case play.Adopt, play.Send, play.None:
	default:
		errs = append(errs, fmt.Errorf("--sessions %q must be adopt, send or none", o.sessions))
	}
	if !(o.streamed >= 0 && o.streamed <= 1) {
		errs = append(errs, fmt.Errorf("--streamed must be in 0..1, got %v", o.streamed))
	}
	if !(o.target.Leaving >= 0 && o.target.Leaving <= 1) {
		errs = append(errs, fmt.Errorf("--leaving must be in 0..1, got %v", o.target.Leaving))
	}
	return errors.Join(append(errs, o.loop.validate(changed), o.work.Validate())...)
}

// mostClients bounds the clients of a bench: each is a connection.
const mostClients = 10_000

func (l *benchLoop) validate(changed func(flag string) bool) error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(l.clients < 0 || l.clients > mostClients, "--clients must be in 0..%d, got %d", mostClients, l.clients)
	fault(l.half < 0 || l.half > 2, "--half must be 0, 1 or 2, got %d", l.half)
	fault(l.repeat < 1 || l.repeat > 1000, "--repeat must be in 1..1000, got %d", l.repeat)
	fault(l.horizon < 0 || l.maxDelay < 0, "--for and --max-delay must not be negative")
	for _, flag := range []string{"for", "trace"} {
		fault(changed(flag) && l.clients == 0, "--%s needs --clients, the number of sessions at one time", flag)
	}
	for _, flag := range []string{"half", "repeat", "max-delay"} {
		fault(changed(flag) && l.file == "", "--%s needs --trace", flag)
	}
	for _, flag := range []string{
		"conversations", "system-tokens", "turns", "user-tokens", "answer-tokens", "think", "streamed", "leaving",
	} {
		fault(changed(flag) && l.file != "", "--%s says nothing with --trace, whose sessions are as recorded", flag)
	}
	fault(changed("rate") && l.clients > 0, "--rate says nothing with --clients: a session begins when another ends")
	fault(changed("timeout") && l.horizon > 0, "--timeout says nothing with --for")
	return errors.Join(errs...)
}

// unreachable adds to a failed connection what to do about it, and leaves out what net/http says twice.
func unreachable(err error) error {
	in := (*url.Error)(nil)
	if !errors.As(err, &in) {
		return err
	}
	what, _, _ := strings.Cut(err.Error(), ": "+in.Op+" ") // such as: cannot ask http://127.0.0.1:8080 for its models
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: connection refused; start a router (warmpath serve) or an engine (warmpath engine) "+
			"there, or name another address with --url", what)
	case strings.Contains(in.Err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s: %w; write http:// in --url", what, in.Err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w; if it has TLS, write https:// in --url", what, in.Err)
	}
	return fmt.Errorf("%s: %w; check the address given with --url", what, in.Err)
}

func runBench(ctx context.Context, e env, o benchOptions, changed func(flag string) bool) error {
	if err := o.validate(changed); err != nil {
		return usageError(err)
	}
	talk := e.stdout
	if o.json {
		talk = e.stderr
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	work, err := o.draw(e)
	if err != nil {
		return err
	}
	var all []benched
	for i, address := range o.urls {
		b, err := o.play(ctx, e, talk, address, work(uint64(i)))
		if err != nil {
			return err
		}
		if all = append(all, b); ctx.Err() != nil {
			break
		}
	}
	if o.json {
		for i := range all {
			if err := json.NewEncoder(e.stdout).Encode(&all[i]); err != nil {
				return err
			}
		}
	} else if len(all) > 1 {
		beside(e.stdout, all)
	}
	for i := range all {
		switch s := &all[i].Summary; {
		case s.Requests == 0:
			return errors.New("no turn has ended: let it run longer (--for), or see what the engines are doing")
		case s.Failed > 0:
			return fmt.Errorf("%d of %d turns failed", s.Failed, s.Requests)
		}
	}
	return nil
}

// benchWork is what is played against one address.
type benchWork struct {
	what     string // in words
	recorded bool   // in a file
	turns    int
	play     func(ctx context.Context, t *play.Target, observe func(play.Turn)) *play.LoopFigures
}

// draw reads or draws the sessions. What is played against a further address has other words.
func (o *benchOptions) draw(e env) (func(address uint64) benchWork, error) {
	if o.loop.file != "" {
		return o.recorded(e)
	}
	conversations := o.work.Draw(o.seed)
	w := benchWork{what: fmt.Sprintf("%d conversations", len(conversations))}
	for _, c := range conversations {
		w.turns += len(c.Turns)
	}
	return func(address uint64) benchWork {
		talks := trace.Reworded(conversations, address)
		w.play = func(ctx context.Context, t *play.Target, observe func(play.Turn)) *play.LoopFigures {
			t.Play(ctx, talks, 10*time.Second, observe)
			return nil
		}
		if o.loop.clients > 0 {
			w.play = o.loop.played(func() func() play.Session { return play.Talks(talks) })
		}
		return w
	}, nil
}

// recorded reads the sessions of a file.
func (o *benchOptions) recorded(e env) (func(address uint64) benchWork, error) {
	file, err := openTrace(e, o.loop.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	t, err := trace.Read(file.name, file, trace.FormatAuto)
	if err != nil {
		return nil, err
	}
	if !t.Closed {
		return nil, usageError(fmt.Errorf("--trace: the requests of %s have recorded times; "+
			"sessions whose turns wait for one another are needed", file.name))
	}
	if o.loop.half > 0 {
		t = t.Half(o.loop.half)
	}
	t = t.Repeat(o.loop.repeat)
	return func(address uint64) benchWork {
		words := t.Reworded(o.seed + address<<32)
		return benchWork{
			what:     fmt.Sprintf("%d sessions of %s", len(t.Sessions), file.name),
			recorded: true, turns: len(t.Turns),
			play: o.loop.played(func() func() play.Session { return play.Recorded(words, o.seed, o.loop.maxDelay) }),
		}
	}, nil
}

// played plays sessions in closed loop.
func (l *benchLoop) played(
	sessions func() func() play.Session,
) func(context.Context, *play.Target, func(play.Turn)) *play.LoopFigures {
	return func(ctx context.Context, t *play.Target, observe func(play.Turn)) *play.LoopFigures {
		loop := play.Loop{Target: t, Clients: l.clients, Next: sessions()}
		loop.Play(ctx, observe)
		f := loop.Figures()
		return &f
	}
}

// benched is what one address showed.
type benched struct {
	URL        string  `json:"url"`
	Model      string  `json:"model"`
	Seed       uint64  `json:"seed"`
	TokenBytes float64 `json:"token_bytes,omitempty"` // see play.Target.TokenBytes; absent if the address did not say
	play.Summary
	*play.LoopFigures
}

// play plays against one address.
func (o *benchOptions) play(ctx context.Context, e env, talk io.Writer, address string, w benchWork) (benched, error) {
	target := o.target
	target.URL, target.Client = address, httpclient.New(&http.Transport{
		MaxIdleConnsPerHost: 1024, MaxResponseHeaderBytes: httpclient.HeadBytes,
	})
	defer target.Client.CloseIdleConnections()
	if target.Model == "" {
		if _, err := url.Parse(target.URL + "/v1/models"); err != nil {
			return benched{}, usageError(err)
		}
		model, err := target.FirstModel(ctx)
		if err != nil {
			return benched{}, unreachable(err)
		}
		target.Model = model
	}
	limit, clients := o.timeout, ""
	if o.loop.horizon > 0 {
		limit = o.loop.horizon
	}
	if o.loop.clients > 0 {
		clients = fmt.Sprintf(", %d at one time", o.loop.clients)
	}
	fmt.Fprintf(talk, "%s%s against %s, model %s, seed %d\n", w.what, clients, target.URL, target.Model, o.seed)
	o.learn(ctx, talk, &target, w.recorded)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b := benched{URL: target.URL, Model: target.Model, Seed: o.seed, TokenBytes: target.TokenBytes}
	score := play.NewScore()
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		b.LoopFigures = w.play(ctx, &target, score.Add)
	}()
	score.Watch(talk, e.terminal, w.turns, done)
	b.Summary = score.Summary()
	if !o.json {
		b.Summary.Show(e.stdout, w.turns, time.Since(began))
		if b.LoopFigures != nil {
			b.LoopFigures.Show(e.stdout)
		}
	}
	return b, nil
}

// learn learns how long tokens are at an address, and says so.
func (o *benchOptions) learn(ctx context.Context, talk io.Writer, target *play.Target, recorded bool) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := target.Learn(ctx, recorded); err != nil {
		fmt.Fprintf(talk, "texts have %d bytes a token, since what the engine counts is not known: %s\n",
			text.TokenBytes, err)
		return
	}
	fmt.Fprintf(talk, "the engine counts %.2f bytes of these texts as a token\n", target.TokenBytes)
}

// beside shows what several addresses have shown in one table.
func beside(w io.Writer, all []benched) {
	head := []string{""}
	for i := range all {
		head = append(head, all[i].URL)
	}
	t := terminal.NewTable(terminal.Framed, head...)
	row := func(name, format string, value func(b *benched) any) {
		cells := []any{name}
		for i := range all {
			cells = append(cells, fmt.Sprintf(format, value(&all[i])))
		}
		t.Row(cells...)
	}
	if all[0].LoopFigures != nil {
		row("output tokens/s", "%.0f", func(b *benched) any { return b.Output })
		row("sessions ended", "%d", func(b *benched) any { return b.Ended })
		row("slowest turn of a session, p50", "%.1f s", func(b *benched) any { return b.Slowest.P50 / 1000 })
		row("slowest turn of a session, p90", "%.1f s", func(b *benched) any { return b.Slowest.P90 / 1000 })
	}
	row("token hit rate", "%.1f %%", func(b *benched) any { return 100 * b.HitRate })
	row("TTFT p50", "%.0f ms", func(b *benched) any { return b.TTFT.P50 })
	row("TTFT p90", "%.0f ms", func(b *benched) any { return b.TTFT.P90 })
	row("TTFT p99", "%.0f ms", func(b *benched) any { return b.TTFT.P99 })
	row("turns", "%d", func(b *benched) any { return b.Requests })
	row("failed", "%d", func(b *benched) any { return b.Failed })
	fmt.Fprintln(w, t)
}
