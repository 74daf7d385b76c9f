package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// TestOverflow: the models of an alias in order are read, shown and checked.
func TestOverflow(t *testing.T) {
	const endpoints = "endpoints: [http://127.0.0.1:1]\n"
	c, err := config.Parse("w.yaml", []byte(endpoints+
		"models: {aliases: {fast: [{model: big, overflow: 10s}, {model: middle, overflow: 0s}, small]}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := c.AliasList()[0]
	if !slices.Equal(a.Overflow, []time.Duration{10 * time.Second, 0, 0}) || a.Shares != nil {
		t.Errorf("%+v", a)
	}
	if got := strings.Join(c.Models.Aliases["fast"].Shown(), ", "); got != "big (up to 10s, then the next), "+
		"middle (then the next), small" {
		t.Errorf("shown as %q", got)
	}
	for models, want := range map[string]string{
		"[{model: a, overflow: 1s}, b, c]": "needs overflow for each of its models " +
			"but the last",
		"[{model: a, overflow: 1s}, {model: b, overflow: 1s}]":       "none at the last model",
		"[{model: a, overflow: -1s}, b]":                             "must be 0 or more",
		"[{model: a, overflow: 1s}]":                                 "at least two",
		"[{model: a, overflow: 1s}, a]":                              "twice",
		"[{model: a, overflow: 1s, share: 1}, {model: b, share: 1}]": "shares and overflow",
		"[{model: a, overflow: soon}, b]":                            "soon",
	} {
		_, err := config.Parse("w.yaml", []byte(endpoints+"models:\n  aliases:\n    fast: "+models+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "w.yaml:4:") {
			t.Errorf("%s: %v, want %q", models, err, want)
		}
	}
}
