package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestSimulateFind: what is found is enough, and one endpoint less is not, also where endpoints differ.
func TestSimulateFind(t *testing.T) {
	t.Parallel()
	for _, fleet := range [][]string{{"--cache-tokens", "60000"}, {"--cache-tokens", "60000", "--mixed"}} {
		traffic := append([]string{
			"--generate", "conversations=120,turns=4,max_turns=8,think=1s", "--clients", "60", "--policy",
			"session,least_ttft", "--slo-ttft", "600ms",
		}, fleet...)
		found, said := simulatedFigures(t, append(traffic, "--find-endpoints")...)
		if len(found) != 2 || !strings.Contains(said, "The fewest endpoints with which 90 % of turns are good") {
			t.Fatalf("%v: %d were found; %s", fleet, len(found), said)
		}
		for i, f := range found {
			if f.Goodput < 0.9 || f.Endpoints < 2 {
				t.Errorf("%v, %s: %d endpoints keep %.3f", fleet, f.Policy, f.Endpoints, f.Goodput)
				continue
			}
			for _, n := range []int{f.Endpoints, f.Endpoints - 1} {
				plain, _ := simulatedFigures(t, append(traffic, "--endpoints", strconv.Itoa(n))...)
				if good := plain[i].Goodput; good >= 0.9 != (n == f.Endpoints) ||
					n == f.Endpoints && good != f.Goodput {
					t.Errorf("%v, %s with %d: %.3f are good, found were %d with %.3f",
						fleet, f.Policy, n, good, f.Endpoints, f.Goodput)
				}
			}
		}
	}
}

// TestSimulateFindsNone: a goal that no fleet keeps ends the search, and says so.
func TestSimulateFindsNone(t *testing.T) {
	t.Parallel()
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(roles, []byte("endpoints: [{role: prefill}, {role: decode}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--generate conversations=40 --clients 5 --slo-ttft 1ms", exitRuntime, "no policy keeps the goal"},
		{"--generate conversations=40 --slo-ttft 1s", exitUsage, "say how many are under way at a time with --clients"},
		{"--generate conversations=40 --clients 5 --endpoints 4", exitUsage, "--endpoints says how many there are"},
		{
			"--generate conversations=40 --prefill 1 --decode 1 --clients 5", exitUsage,
			"--prefill says how many there are",
		},
		{"--generate conversations=40 --clients 5 --fleet " + roles, exitUsage, "the endpoints have roles"},
		{"--generate conversations=40 --load 0.5", exitUsage, "--load grows with the fleet"},
		{
			"--generate conversations=40 --clients 5 --slo-share 1.5", exitUsage,
			"--slo-share must be above 0 and at most 1, got 1.5",
		},
		{"--generate conversations=40 --clients 5 --slo-ttft 0 --slo-itl 0", exitUsage, "needs a goal"},
	} {
		var out, log bytes.Buffer
		args := append([]string{"simulate", "--find-endpoints", "--policy", "session"}, strings.Fields(c.args)...)
		if code := Main(t.Context(), args, nil, nil, &out, &log); code != c.code ||
			!strings.Contains(log.String(), c.says) {
			t.Errorf("%s: %d, %s; want %d, %q", c.args, code, log.String(), c.code, c.says)
		}
	}
	var out, log bytes.Buffer
	if code := Main(t.Context(), []string{"simulate", "--generate", "conversations=40", "--slo-share", "0.5"},
		nil, nil, &out, &log); code != exitUsage {
		t.Errorf("--slo-share alone: %d, %s", code, log.String())
	}
}
