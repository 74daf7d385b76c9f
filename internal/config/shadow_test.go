package config_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

// TestShadowNames: a name that is missing is told, wherever the list comes from; no list is none.
func TestShadowNames(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"round_robin, least_tokens": "",
		",":                         `an item of the list "," is empty`,
		"round_robin,,least_tokens": "is empty",
		"round_robin,":              "is empty",
		"round_robin,round_robin":   `names "round_robin" twice`,
	} {
		set := config.Override{Path: []string{"shadow", "policies"}, Text: text, From: "--shadow"}
		for from, load := range map[string]func() (config.Config, error){
			"flag": func() (config.Config, error) { return config.Parse("f", nil, nil, set) },
			"environment": func() (config.Config, error) {
				return config.Parse("f", nil, []string{config.Variable(set.Path) + "=" + text})
			},
			"file": func() (config.Config, error) { return config.Parse("f", []byte("shadow: \""+text+"\""), nil) },
		} {
			if _, err := load(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: %v, want %s", from, text, err, want)
			}
		}
	}
}
