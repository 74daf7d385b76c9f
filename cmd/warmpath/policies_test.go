package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/policy"
)

// TestPoliciesAreListed: every policy, in 80 columns, and one of them the default.
func TestPoliciesAreListed(t *testing.T) {
	var out, log strings.Builder
	if code := Main(t.Context(), []string{"policies"}, nil, strings.NewReader(""), &out, &log); code != 0 {
		t.Fatalf("exit %d: %s", code, &log)
	}
	for _, name := range policy.Names() {
		if !strings.Contains(out.String(), "\n"+name+" ") && !strings.HasPrefix(out.String(), name+" ") {
			t.Errorf("%s is not listed", name)
		}
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	out.Reset()
	if code := Main(t.Context(), []string{"policies", "--json"}, nil, strings.NewReader(""), &out, &log); code != 0 {
		t.Fatalf("exit %d: %s", code, &log)
	}
	var listed []listedPolicy
	if err := json.Unmarshal([]byte(out.String()), &listed); err != nil {
		t.Fatal(err)
	}
	defaults := 0
	for _, p := range listed {
		if p.Default {
			defaults++
		}
	}
	if len(listed) != len(policy.Names()) || defaults != 1 {
		t.Errorf("%d policies, %d defaults", len(listed), defaults)
	}
}

func TestVersionFlag(t *testing.T) {
	var command, flag, log strings.Builder
	Main(t.Context(), []string{"version"}, nil, strings.NewReader(""), &command, &log)
	if code := Main(t.Context(), []string{"--version"}, nil, strings.NewReader(""), &flag, &log); code != 0 ||
		flag.String() != command.String() {
		t.Errorf("--version: exit %d, %q, want %q", code, &flag, &command)
	}
}
