package config

import (
	"slices"
	"strings"
	"testing"
)

// TestModelSettings: each fault is told with its place; what an entry sets is told in words.
func TestModelSettings(t *testing.T) {
	for text, want := range map[string]string{
		"- {match: [a], retries: 0, timeouts: {answer: 1m}}": "",
		"- {match: a, body: 64MiB}":                          "",
		"- {retries: 0}":                                     "f:3:5: models.settings[0].match: must name a model",
		"- {match: []}":                                      "models.settings[0].match: must name a model",
		"- {match: ['']}":                                    "f:3:14: models.settings[0].match[0]: must be 1 to 256 bytes",
		"- {match: a, retries: -1}":                          "f:3:16: models.settings[0].retries: is -1, must be between 0 and 100",
		"- {match: a, timeouts: {idle: -1s}}":                "f:3:27: models.settings[0].timeouts.idle: is -1s, must be above 0",
		"- {match: a, timeouts: {idel: 1s}}":                 `f:3:27: unknown key "idel"; did you mean "idle"?`,
		"- {match: a, body: 600MiB}\nlimits: {memory: 1GiB}": "f:3:16: models.settings[0].body: is 600MiB, must be at most half of limits.memory (1GiB)",
	} {
		_, err := Parse("f", []byte("models:\n  settings:\n  "+text), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	c, err := Parse("f", []byte("models: {settings: [{match: a, retries: 0, body: 1kB, timeouts: {answer: 90s}}]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Models.Settings[0].Describe(), "body 1kB, retries 0, timeouts.answer 1m30s"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}

// TestModelSettingsThatMeanNothing: a pattern that no model matches, and an entry that an earlier one hides, are told.
func TestModelSettingsThatMeanNothing(t *testing.T) {
	const stated = "endpoints: [{url: 'http://127.0.0.1:1', models: [llama-8b, embed-1]}]\n"
	for text, want := range map[string]string{
		stated + "models: {settings: [{match: 'llama-*', retries: 0}]}":                                      "",
		stated + "models: {aliases: {fast: [llama-8b]}, settings: [{match: fast, retries: 0}]}":              "",
		stated + "models: {settings: [{match: llama-8b}]}":                                                   "models.settings[0]: sets nothing",
		stated + "models: {settings: [{match: 'lama-8b', retries: 0}]}":                                      `models.settings[0].match[0]: no endpoint serves a model, and no alias is, "lama-8b"; did you mean "llama-8b"?`,
		"endpoints: ['http://127.0.0.1:1']\nmodels: {settings: [{match: 'lama-8b', retries: 0}]}":            "",
		stated + "models: {settings: [{match: '*', retries: 0}, {match: [llama-8b], retries: 1}]}":           `models.settings[1].match[0]: "llama-8b" is matched by models.settings[0]`,
		stated + "models: {settings: [{match: ['embed-*'], retries: 0}, {match: ['embed-1*'], retries: 1}]}": `models.settings[1].match[0]: "embed-1*" is matched`,
		stated + "models: {settings: [{match: ['embed-1*'], retries: 0}, {match: ['embed-*'], retries: 1}]}": "",
	} {
		c, err := Parse("f", []byte(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all := c.Warnings()
		told := slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, "models.settings") })
		if told != (want != "") || want != "" && !slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
	}
}
