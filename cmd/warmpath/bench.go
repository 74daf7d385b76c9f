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
	"github.com/warmpath/warmpath/sim/trace"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	target   play.Target
	sessions string
	streamed float64
	timeout  time.Duration
	seed     uint64
	json     bool
	work     trace.Generator
}

func benchCommand(e env) *cobra.Command {
	o := benchOptions{work: trace.Chats(), sessions: string(play.Adopt), streamed: 1, timeout: 10 * time.Minute}
	c := &cobra.Command{
		Use:   "bench --url URL",
		Short: "Measure any OpenAI address with conversations",
		Long: `Plays multi-turn conversations in closed loop against an OpenAI-compatible address (an engine, warmpath, or any other router),
and prints time to first token, inter-token latency, time to the end of the answer, token hit rate and balance, as its clients see
them. The hit rate is what the engines report in usage. Balance needs the endpoint of each answer, which warmpath gives in
X-Warmpath-Endpoint (name another header with --endpoint-header). With --leaving the clients of some turns leave, half of
them before the first token, and ask again at once: it prints how many, and times and hit rate of the other turns. The exit
code is 1 if a turn failed. To compare two routers on the same texts, name a --seed and restart the engines in between: the
second router would find warm caches.`,
		Example: `  warmpath bench --url http://127.0.0.1:8080 --model m
  warmpath bench --url http://127.0.0.1:8080 --conversations 40 \
    --rate 2 --sessions none
  warmpath bench --url http://127.0.0.1:8080 --streamed 0.1
  warmpath bench --url http://127.0.0.1:8080 --leaving 0.15
  warmpath bench --url http://127.0.0.1:8080 --json`,
		RunE: func(c *cobra.Command, _ []string) error { return runBench(c.Context(), e, o) },
	}
	f := c.Flags()
	f.StringVar(&o.target.URL, "url", "", "base address, with or without /v1 (required)")
	f.StringVar(&o.target.Model, "model", "", "model to ask for; empty takes the first that the address lists")
	f.StringVar(&o.target.APIKey, "api-key", "", "bearer token")
	f.StringVar(&o.sessions, "sessions", o.sessions, "how clients name their conversation: adopt (send back the X-Session-Id of the first answer), send (an own X-Session-ID), none")
	f.StringVar(&o.target.EndpointHeader, "endpoint-header", "X-Warmpath-Endpoint", "answer header that names the endpoint")
	f.BoolVar(&o.target.IgnoreEOS, "ignore-eos", true, "ask engines for answers of exactly the length the workload says")
	f.Float64Var(&o.streamed, "streamed", o.streamed, "share of turns, 0 to 1, whose answers are streamed; the others come as a whole, and have no time to first token")
	f.Float64Var(&o.target.Leaving, "leaving", 0,
		"share of turns, 0 to 1, whose clients leave, half of them before the first token, and ask again at once")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "end after this time at the latest")
	f.Uint64Var(&o.seed, "seed", o.seed, "seed of the conversations; 0 draws one, so that no engine has seen the texts before")
	f.BoolVar(&o.json, "json", false, "print one JSON object and nothing else on standard output")
	f.IntVar(&o.work.Conversations, "conversations", o.work.Conversations, "how many")
	f.Float64Var(&o.work.PerSecond, "rate", o.work.PerSecond, "conversations that begin a second; 0 all at once")
	f.IntVar(&o.work.System, "system-tokens", o.work.System, "tokens of the system prompt that all share (4 bytes a token)")
	f.Float64Var(&o.work.Turns, "turns", o.work.Turns, "mean number of turns after the first")
	f.Float64Var(&o.work.User, "user-tokens", o.work.User, "typical tokens of a user's turn")
	f.Float64Var(&o.work.Answer, "answer-tokens", o.work.Answer, "typical tokens of an answer")
	f.DurationVar(&o.work.Think, "think", o.work.Think, "mean time between an answer and the next turn")
	_ = c.RegisterFlagCompletionFunc("sessions", cobra.FixedCompletions([]string{"adopt", "send", "none"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *benchOptions) validate() error {
	// clients' base URLs end with it
	o.target.URL = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(o.target.URL, "/"), "/v1"), "/")
	o.target.Sessions, o.target.Whole = play.Sessions(o.sessions), 1-o.streamed
	var errs []error
	switch {
	case o.target.URL == "":
		errs = append(errs, errors.New("--url is required, for example --url http://127.0.0.1:8080"))
	case !strings.HasPrefix(o.target.URL, "http://") && !strings.HasPrefix(o.target.URL, "https://"):
		errs = append(errs, fmt.Errorf("--url %q must begin with http:// or https://", o.target.URL))
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
	return errors.Join(append(errs, o.work.Validate())...)
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
		return fmt.Errorf("%s: connection refused; start a router (warmpath serve) or an engine (warmpath engine) there, or name another address with --url", what)
	case strings.Contains(in.Err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s: %w; write http:// in --url", what, in.Err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w; if it has TLS, write https:// in --url", what, in.Err)
	}
	return fmt.Errorf("%s: %w; check the address given with --url", what, in.Err)
}

func runBench(ctx context.Context, e env, o benchOptions) error {
	if err := o.validate(); err != nil {
		return usageError(err)
	}
	talk := e.stdout
	if o.json {
		talk = e.stderr
	}
	o.target.Client = httpclient.New(&http.Transport{MaxIdleConnsPerHost: 1024})
	defer o.target.Client.CloseIdleConnections()
	if o.target.Model == "" {
		if _, err := url.Parse(o.target.URL + "/v1/models"); err != nil {
			return usageError(err)
		}
		model, err := o.target.FirstModel(ctx)
		if err != nil {
			return unreachable(err)
		}
		o.target.Model = model
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	fmt.Fprintf(talk, "%d conversations against %s, model %s, seed %d\n", o.work.Conversations, o.target.URL, o.target.Model, o.seed)
	conversations := o.work.Draw(o.seed)
	turns := 0
	for _, c := range conversations {
		turns += len(c.Turns)
	}
	score := play.NewScore()
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		o.target.Play(ctx, conversations, 10*time.Second, score.Add)
	}()
	score.Watch(talk, e.terminal, turns, done)
	s := score.Summary()
	if o.json {
		if err := json.NewEncoder(e.stdout).Encode(s); err != nil {
			return err
		}
	} else {
		s.Show(e.stdout, turns, time.Since(began))
	}
	if s.Failed > 0 || s.Requests == 0 {
		return fmt.Errorf("%d of %d turns failed", s.Failed, s.Requests)
	}
	return nil
}
