package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/console"
	"github.com/warmpath/warmpath/internal/terminal"
)

// adminFlags select the router to ask.
type adminFlags struct{ admin, token, ca, cert, key string }

func (a *adminFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.admin, "admin", "http://"+config.Default().Admin.Listen, "`URL` of the router's admin listener")
	f.StringVar(&a.token, "token", "", "the listener's `TOKEN`, if it has one; also $"+tokenVariable)
	f.StringVar(&a.ca, "ca", "",
		"`FILE` with the authorities (PEM) that signed the listener's certificate, instead of the system's")
	f.StringVar(&a.cert, "cert", "",
		"`FILE` with a client certificate (PEM), where the router asks for one (admin.tls.client_ca)")
	f.StringVar(&a.key, "key", "", "`FILE` with the certificate's key")
	for flag, words := range map[string][]cobra.Completion{"admin": {"http://", "https://"}, "token": nil} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// fill takes the token from the environment if the flag is not given.
func (a *adminFlags) fill(e env) {
	if a.token == "" {
		a.token, _ = e.lookup(tokenVariable)
	}
}

func (a *adminFlags) fleet(ctx context.Context) (*console.Fleet, error) {
	var f console.Fleet
	if err := askAdmin(ctx, a, "/admin/endpoints", url.Values{}, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// look is how a terminal shows the fleet; a wide one has room for long names.
func look(e env) console.Look {
	columns, lines := terminal.Size(e.stdout)
	return console.Look{Columns: columns, Lines: lines, Ink: terminal.Colours(e.stdout, e.lookup), Whole: columns == 0}
}

func endpointsCommand(e env) *cobra.Command {
	var (
		a      adminFlags
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "endpoints [NAME...]",
		Short: "List the endpoints of a running router",
		Example: `  warmpath endpoints
  warmpath endpoints gpu-1 --json
  warmpath endpoints --admin http://router:9190 --token SECRET`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			a.fill(e)
			if asJSON {
				var all struct {
					Endpoints []json.RawMessage `json:"endpoints"`
				}
				if err := askAdmin(c.Context(), &a, "/admin/endpoints", url.Values{}, &all); err != nil {
					return err
				}
				return printEndpoints(e, all.Endpoints, names)
			}
			f, err := a.fleet(c.Context())
			if err != nil {
				return err
			}
			for _, name := range names {
				if !slices.ContainsFunc(f.Endpoints, func(p console.Endpoint) bool {
					return called(p.Name, p.URL, name)
				}) {
					return fmt.Errorf("the router has no endpoint %q; warmpath endpoints lists them", name)
				}
			}
			shown := slices.DeleteFunc(f.Endpoints, func(p console.Endpoint) bool {
				return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
					return called(p.Name, p.URL, name)
				})
			})
			_, err = fmt.Fprint(e.stdout, console.Table(shown, look(e)), "\n", console.Legend(look(e)))
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().SortFlags = false
	a.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one endpoint a line")
	return c
}

// called reports whether a user means an endpoint by a name: its own, or the URL that serve was given.
func called(name, url, by string) bool { return by == name || strings.TrimRight(by, "/") == url }

// printEndpoints prints the JSON of the endpoints with these names, or of all.
func printEndpoints(e env, all []json.RawMessage, names []string) error {
	found := map[string]bool{}
	for _, raw := range all {
		var p struct {
			Name string `json:"name"`
			URL  string `json:"url"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		asked := false
		for _, name := range names {
			if called(p.Name, p.URL, name) {
				asked, found[name] = true, true
			}
		}
		if len(names) > 0 && !asked {
			continue
		}
		var line bytes.Buffer
		if err := json.Compact(&line, raw); err != nil {
			return err
		}
		line.WriteByte('\n')
		if _, err := line.WriteTo(e.stdout); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !found[name] {
			return fmt.Errorf("the router has no endpoint %q; warmpath endpoints lists them", name)
		}
	}
	return nil
}

const (
	drainWait  = 30 * time.Second
	topEvery   = time.Second
	leastEvery = 100 * time.Millisecond
)

// drained is the output of drain --json.
type drained struct {
	Endpoint string `json:"endpoint"`
	Draining bool   `json:"draining"`
	Requests int    `json:"requests"` // that still run there
}

func drainCommand(e env) *cobra.Command {
	var (
		a            adminFlags
		undo, asJSON bool
		wait         time.Duration
	)
	say := func(d drained, format string, args ...any) error {
		if asJSON {
			return json.NewEncoder(e.stdout).Encode(d)
		}
		_, err := fmt.Fprintf(e.stdout, format+"\n", args...)
		return err
	}
	c := &cobra.Command{
		Use:   "drain NAME",
		Short: "Stop new traffic to an endpoint, and wait for what runs there",
		Long: `drain stops new traffic to an endpoint and waits until nothing is outstanding there. Its conversations move on to other endpoints.
The exit code is 1 if requests still run when the wait is over; the endpoint stays drained then.`,
		Example: `  warmpath drain gpu-1
  warmpath drain gpu-1 --wait 5m
  warmpath drain gpu-1 --undo
  warmpath drain gpu-1 --wait 0s --json`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usageError(errors.New("name one endpoint; warmpath endpoints lists them"))
			case wait < 0 || wait > time.Hour:
				return usageError(fmt.Errorf("--wait must be from 0s to 1h, not %s", wait))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			a.fill(e)
			at := "/admin/endpoints/" + url.PathEscape(args[0])
			if undo {
				if err := tellAdmin(c.Context(), &a, at+"/undrain", url.Values{}, 0, &struct{}{}); err != nil {
					return err
				}
				return say(drained{Endpoint: args[0]}, "%s takes traffic again", args[0])
			}
			var left struct {
				console.Endpoint
				Endpoints []console.Endpoint `json:"endpoints"` // ranks or slots of the engine with this name
			}
			if err := tellAdmin(c.Context(), &a, at+"/drain",
				url.Values{"wait": {wait.String()}}, wait, &left); err != nil {
				return err
			}
			running := left.Load.Requests
			for i := range left.Endpoints {
				running += left.Endpoints[i].Load.Requests
			}
			if running > 0 && wait > 0 {
				err := fmt.Errorf("%s is drained, and %d requests still run there after %s", args[0], running, wait)
				if asJSON {
					err = errors.Join(err, say(drained{args[0], true, running}, ""))
				}
				return err
			}
			return say(drained{args[0], true, running},
				"%s is drained, %d requests run there; warmpath drain %s --undo lets it take traffic again",
				args[0], running, args[0])
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().SortFlags = false
	c.Flags().DurationVar(&wait, "wait", drainWait, "how long to wait for what runs there; 0s does not wait")
	c.Flags().BoolVar(&undo, "undo", false, "let it take traffic again")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	a.add(c)
	return c
}

// tellAdmin is askAdmin with POST, for a call that may take up to wait.
func tellAdmin(ctx context.Context, a *adminFlags, path string, query url.Values, wait time.Duration, into any) error {
	return callAdmin(ctx, http.MethodPost, a, path, query, wait, into)
}

func topCommand(e env) *cobra.Command {
	var (
		a      adminFlags
		every  time.Duration
		asJSON bool
	)
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running router live",
		Long: `top shows the totals and the endpoints of a running router and draws them anew each second, until Ctrl-C. Where the window has no
room for all it shows those that are not up and the busiest. Where standard output is no terminal it prints one look. With --json it prints what GET
/admin/endpoints answers, once, or each time that --every is over.`,
		Example: `  warmpath top
  warmpath top --admin http://router:9190 --every 5s
  warmpath top --json --every 10s`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < leastEvery {
				return usageError(fmt.Errorf("--every must be at least %s, not %s", leastEvery, every))
			}
			a.fill(e)
			if asJSON {
				return topJSON(c.Context(), e, &a, every, c.Flags().Changed("every"))
			}
			return top(c.Context(), e, &a, every)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().DurationVar(&every, "every", topEvery, "time between two looks")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one look a line")
	a.add(c)
	return c
}

// top draws the fleet until ctx ends. After the first answer it waits for a router that does not answer.
func top(ctx context.Context, e env, a *adminFlags, every time.Duration) error {
	var (
		area   terminal.Area
		before *console.Fleet
		at     time.Time
	)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		now, err := a.fleet(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && before == nil:
			return err
		case err != nil:
			area.Draw(e.stdout, err.Error()+"\n")
		default:
			seen := time.Now()
			area.Draw(e.stdout, console.Screen(now, before, seen.Sub(at), look(e)))
			before, at = now, seen
		}
		if !e.terminal {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// topJSON prints one status a line, once or until ctx ends. A router that stops answering is an error.
func topJSON(ctx context.Context, e env, a *adminFlags, every time.Duration, goOn bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var look json.RawMessage
		err := askAdmin(ctx, a, "/admin/endpoints", url.Values{}, &look)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = json.NewEncoder(e.stdout).Encode(look) // on one line
		}
		if err != nil || !goOn {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
