package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/console"
	"github.com/warmpath/warmpath/internal/explain"
	"github.com/warmpath/warmpath/internal/shadow"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/policy/nearest"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	adminFlags
	last                   int
	endpoint, pool, reason string
	json, shadow, held     bool
}

func explainCommand(e env) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain [REQUEST_ID]",
		Short: "Say why requests went where they went",
		Long: `explain asks a running router why it sent a request to the endpoint it chose: the reason in words, the estimated cost of each
candidate in ms, and predicted beside observed values. REQUEST_ID is the X-Request-Id of an answer, also in the log;
without it the newest decision is explained.
A request that the router refused itself (429, 503) is told with the setting that has the limit.
The router keeps its newest decisions (explain.keep, 1,000), and a quarter as many refusals; of one that is
still running explain says where it is.`,
		Example: `  # The newest decision
  warmpath explain

  # Why did this request go there?
  warmpath explain 0d6c1d0e-8c38-4f6e-9f3b-0c1f2f9a7b11

  # The newest five, or the newest that left their conversation's endpoint
  warmpath explain --last 5
  warmpath explain --last 10 --reason leaves --endpoint gpu-1

  # Which requests got a 429 or 503 from the router, and by which limit?
  warmpath explain --last 10 --reason refused

  # Which sessions wait until the caches have room, and until when at most?
  warmpath explain --held

  # What would the policies of serve --shadow have done?
  warmpath explain --shadow

  # Another router, and JSON for scripts
  warmpath explain --last 100 --admin http://router:9190 --token SECRET --json`,
		Args: explainArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.fill(e)
			if o.held {
				return explainHeld(c.Context(), e, o)
			}
			if o.shadow {
				return explainShadow(c.Context(), e, o)
			}
			request := ""
			if len(args) > 0 {
				request = args[0]
			}
			return runExplain(c.Context(), e, o, request)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.IntVar(&o.last, "last", 0, "the newest `N` decisions; with REQUEST_ID, the newest N of its attempts")
	f.StringVar(&o.endpoint, "endpoint", "", "only those for the endpoint `NAME`")
	f.StringVar(&o.pool, "pool", "", "only those of the pool `MODEL`")
	f.StringVar(&o.reason, "reason", "", "only those with the reason `WORD`")
	o.add(c)
	f.BoolVar(&o.shadow, "shadow", false, "what other policies would have done (serve --shadow), in place of decisions")
	f.BoolVar(&o.held, "held", false,
		"the turns that are held before they are decided (admission), in place of decisions")
	f.BoolVar(&o.json, "json", false, "print JSON, one decision a line")
	for flag, words := range map[string][]cobra.Completion{
		"reason": reasons(), "last": nil, "endpoint": nil, "pool": nil,
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

// reasons are the words of --reason.
func reasons() []string {
	words := []string{explain.Refused}
	for _, r := range policy.Reasons() {
		words = append(words, string(r))
	}
	return words
}

// explainArgs takes one request id, or none with --last.
func explainArgs(c *cobra.Command, args []string) error {
	last := c.Flags().Changed("last")
	n, _ := c.Flags().GetInt("last")
	shadow, _ := c.Flags().GetBool("shadow")
	held, _ := c.Flags().GetBool("held")
	// of the decisions
	some := len(args) > 0 || slices.ContainsFunc([]string{"last", "endpoint", "pool", "reason"}, c.Flags().Changed)
	switch {
	case held && (shadow || some):
		return usageError(errors.New("--held lists all that are held: name no request, and give no --shadow, --last, " +
			"--endpoint, --pool or --reason"))
	case shadow && some:
		return usageError(errors.New(
			"--shadow covers all decisions: name no request, and give no --last, --endpoint, --pool or --reason"))
	case held, shadow:
		return nil
	case len(args) > 1:
		return usageError(fmt.Errorf("unexpected argument %q; see %s --help", args[1], c.CommandPath()))
	case last && (n < 1 || n > 1000):
		return usageError(fmt.Errorf("--last must be from 1 to 1000, not %d", n))
	}
	return nil
}

func runExplain(ctx context.Context, e env, o explainOptions, request string) error {
	if request == "" && o.last == 0 {
		o.last = 1
	}
	var held heldTurns
	var running runningLegs
	var unsaid error
	if request != "" { // in the order in which it goes through these, so that it is missed in none
		if held, unsaid = askHeld(ctx, o, request); unsaid == nil {
			running, unsaid = askRunning(ctx, o, request)
		}
	}
	a, err := askWhy(ctx, o, request)
	switch {
	case err != nil:
		return err
	case len(a.Decisions) > 0 || len(held.Held) > 0 || len(running.Running) > 0:
	case unsaid != nil:
		return unsaid
	default:
		return nothingFound(&a, o, request)
	}
	if err := showDecisions(e, o, a.Decisions); err != nil {
		return err
	}
	if len(a.Decisions) > 0 && !o.json && len(held.Held)+len(running.Running) > 0 {
		fmt.Fprintln(e.stdout) // earlier attempts and legs are above, and now it is here
	}
	if len(running.Running) > 0 {
		return showLines(e, o, running.Running, "Why it went there is told once it has ended.")
	}
	if len(held.Held) > 0 {
		return showHeld(e, o, held)
	}
	return nil
}

func showDecisions(e env, o explainOptions, decisions []explain.Decision) error {
	if o.json {
		return encodeLines(e, decisions)
	}
	for i := range decisions {
		if i > 0 {
			fmt.Fprintln(e.stdout)
		}
		decisions[i].Show(e.stdout)
	}
	if len(decisions) > 0 {
		fmt.Fprint(e.stdout, explain.Legend(decisions))
	}
	return nil
}

// explainShadow prints the findings of a running router's shadows.
func explainShadow(ctx context.Context, e env, o explainOptions) error {
	var r shadow.Report
	if err := askAdmin(ctx, &o.adminFlags, "/admin/shadow", url.Values{}, &r); err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(e.stdout).Encode(&r)
	}
	r.Show(e.stdout)
	return nil
}

// heldTurns is what GET /admin/held answers.
type heldTurns struct {
	Held []console.Held `json:"held"`
}

// askHeld gets the held turns, or that of a request.
func askHeld(ctx context.Context, o explainOptions, request string) (h heldTurns, err error) {
	query := url.Values{}
	if request != "" {
		query.Set("request", request)
	}
	err = askAdmin(ctx, &o.adminFlags, "/admin/held", query, &h)
	return h, err
}

// explainHeld prints the turns that are held now.
func explainHeld(ctx context.Context, e env, o explainOptions) error {
	h, err := askHeld(ctx, o, "")
	if err != nil {
		return err
	}
	return showHeld(e, o, h)
}

func showHeld(e env, o explainOptions, h heldTurns) error {
	return showLines(e, o, h.Held, fmt.Sprintf(
		"%d held: the caches have no room for their sessions beside those that go on (docs/agents.md).", len(h.Held)))
}

// showLines prints one line for each, and at the end what is true of all; with --json only the former.
func showLines[T fmt.Stringer](e env, o explainOptions, all []T, end string) error {
	if o.json {
		return encodeLines(e, all)
	}
	for _, one := range all {
		fmt.Fprintln(e.stdout, one)
	}
	fmt.Fprintln(e.stdout, end)
	return nil
}

// encodeLines prints a line of JSON for each.
func encodeLines[T any](e env, all []T) error {
	out := json.NewEncoder(e.stdout)
	out.SetEscapeHTML(false)
	for i := range all {
		if err := out.Encode(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// runningLegs is what GET /admin/running answers.
type runningLegs struct {
	Running []console.Running `json:"running"`
}

// askRunning gets where a request runs.
func askRunning(ctx context.Context, o explainOptions, request string) (r runningLegs, err error) {
	err = askAdmin(ctx, &o.adminFlags, "/admin/running", url.Values{"request": {request}}, &r)
	return r, err
}

// nothingFound says why there is nothing to show.
func nothingFound(a *explain.Answer, o explainOptions, request string) error {
	switch {
	case request != "" && a.Kept == a.Total:
		return fmt.Errorf("request %s does not run here, and is none of the %d that were decided since the router "+
			"began: it went through another router, or before that", request, a.Total)
	case request != "":
		return fmt.Errorf("request %s does not run here, and is not among the newest %d decisions of %d: it is too "+
			"old (explain.keep keeps more), or went through another router", request, a.Kept, a.Total)
	case a.Total == 0:
		return errors.New("no decided request has ended yet: send one, and ask again when it is answered")
	default:
		hint := ""
		if words := reasons(); o.reason != "" && !slices.Contains(words, o.reason) {
			hint = nearest.OrValid(o.reason, words, words) + ";"
		}
		return fmt.Errorf("none of the newest %d decisions fits %s%s see them all with --last N alone",
			a.Kept, filters(o), cmp.Or(hint, ";"))
	}
}

func filters(o explainOptions) string {
	var out []string
	for _, f := range [][2]string{{"--endpoint", o.endpoint}, {"--pool", o.pool}, {"--reason", o.reason}} {
		if f[1] != "" {
			out = append(out, f[0]+" "+f[1])
		}
	}
	return strings.Join(out, " ")
}

// askWhy gets decisions from the admin listener.
func askWhy(ctx context.Context, o explainOptions, request string) (explain.Answer, error) {
	var a explain.Answer
	query := url.Values{}
	for key, value := range map[string]string{
		"request": request, "endpoint": o.endpoint, "pool": o.pool, "reason": o.reason,
	} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if o.last > 0 {
		query.Set("last", strconv.Itoa(o.last))
	}
	err := askAdmin(ctx, &o.adminFlags, "/admin/decisions", query, &a)
	return a, err
}
