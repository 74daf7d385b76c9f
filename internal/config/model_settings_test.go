package config

import (
	"fmt"
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
		"- {match: ['']}": "f:3:14: models.settings[0].match[0]: " +
			"must be 1 to 256 bytes",
		"- {match: a, retries: -1}": "f:3:16: models.settings[0].retries: is -1, " +
			"must be between 0 and 100",
		"- {match: a, timeouts: {idle: -1s}}": "f:3:27: models.settings[0].timeouts.idle: is -1s, " +
			"must be above 0",
		"- {match: a, timeouts: " +
			"{comments: 10ms}}": "f:3:27: models.settings[0].timeouts.comments: is 10ms, " +
			"must be 0 or at least 1s",
		"- {match: a, retries: 0}\n" +
			"timeouts: {comments: 10ms}": "f:4:12: timeouts.comments: is 10ms, must be 0 or at least 1s",
		"- {match: a, timeouts: {comments: 15s}}": "",
		"- {match: a, timeouts: {idel: 1s}}":      `f:3:27: unknown key "idel"; did you mean "idle"?`,
		"- {match: a, body: 600MiB}\nlimits: {memory: 1GiB}": "f:3:16: models.settings[0].body: " +
			"is 600MiB, must be at most half of limits.memory (1GiB)",
		"- {match: a, policy: round_robin}":                                "",
		"- {match: a, policy: {name: least_tokens}, split: {when: never}}": "",
		"- {match: a, policy: round_robbin}":                               `f:3:16: models.settings[0].policy.name: `,
		"- {match: a, split: {when: sometimes}}": `f:3:24: models.settings[0].split.when: ` +
			`is "sometimes", must be one of`,
		"- {match: a, split: {threshold: 5}}": "models.settings[0].split.threshold: says nothing with when: time",
		"- {match: a, queue: sometimes}": `f:3:16: models.settings[0].queue: is ` +
			`"sometimes", must be one of off`,
		"- {match: a, policy: session}\ndisaggregation: stack.conditional": "models.settings[0]: " +
			"has a policy or a rule for splitting, which disaggregation.preset sets",
		"- {match: a, policy: {name: trtllm.kv_cache_aware, trtllm: {kv_cache_aware: " +
			"{tokenizer_dir: d}}}}": "give it in kv_events.tokenizer",
	} {
		_, err := Parse("f", []byte("models:\n  settings:\n  "+text), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	c, err := Parse("f", []byte("models: {settings: [{match: a, retries: 0, body: 1kB, timeouts: {answer: 90s}, "+
		"policy: least_tokens, split: {when: tokens, threshold: 5}}]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Models.Settings[0].Describe(), "body 1kB, retries 0, timeouts.answer 1m30s, "+
		"policy least_tokens, split.when tokens, split.threshold 5"; got != want {
		t.Errorf("described as %q, want %q", got, want)
	}
}

// TestModelSettingsThatMeanNothing: a pattern that no model matches, and an entry that an earlier one hides, are told.
func TestModelSettingsThatMeanNothing(t *testing.T) {
	const stated = "endpoints: [{url: 'http://127.0.0.1:1', models: [llama-8b, embed-1]}]\n"
	for text, want := range map[string]string{
		stated + "models: {settings: [{match: 'llama-*', retries: 0}]}":                         "",
		stated + "models: {aliases: {fast: [llama-8b]}, settings: [{match: fast, retries: 0}]}": "",
		stated + "models: {settings: [{match: " +
			"llama-8b}]}": "models.settings[0]: sets nothing",
		stated + "models: {settings: [{match: 'lama-8b', retries: 0}]}":                           `models.settings[0].match[0]: no endpoint serves a model, and no alias is, "lama-8b"; did you mean "llama-8b"?`,
		"endpoints: ['http://127.0.0.1:1']\nmodels: {settings: [{match: 'lama-8b', retries: 0}]}": "",
		stated + "models: {settings: [{match: '*', retries: 0}, {match: [llama-8b], " +
			"retries: 1}]}": `models.settings[1].match[0]: "llama-8b" is matched by models.settings[0]`,
		stated + "models: {settings: [{match: ['embed-*'], retries: 0}, {match: ['embed-1*'], " +
			"retries: 1}]}": `models.settings[1].match[0]: "embed-1*" is matched`,
		stated + "models: {settings: [{match: ['embed-1*'], retries: 0}, {match: ['embed-*'], retries: 1}]}": "",
	} {
		c, err := Parse("f", []byte(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all := c.Warnings()
		told := slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, "models.settings") })
		if told != (want != "") ||
			want != "" && !slices.ContainsFunc(all, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
	}
}

// TestPlacing: requests for the models of an entry are placed by its policy and rule, else by those of all. A policy
// that does exactly what another router does sends at once, unless the queue is said to be on.
func TestPlacing(t *testing.T) {
	c, err := Parse("f", []byte(`
policy: least_ttft
disaggregation: {when: tokens, threshold: 100, prefill_policy: round_robin}
models: {settings: [{match: a, policy: {name: trtllm.round_robin}}, {match: b, split: {threshold: 5}}, {match: c, retries: 0}, {match: d, queue: off}]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"trtllm.round_robin trtllm.round_robin trtllm.round_robin tokens 100 true",
		"least_ttft round_robin least_ttft tokens 5 false",
		"least_ttft round_robin least_ttft tokens 100 false", "least_ttft round_robin least_ttft tokens 100 true",
	} {
		p := c.Placing(i)
		got := fmt.Sprint(p.Policy.Name, " ", p.PolicyNamed(p.Disaggregation.PrefillPolicy).Name,
			" ", p.DecodePolicyConfig().Name, " ", p.Disaggregation.When, " ", p.Disaggregation.Threshold,
			" ", c.SentAtOnce(i))
		if got != want {
			t.Errorf("entry %d: %s, want %s", i, got, want)
		}
	}
	c.Queue.Mode = QueueOn
	if c.SentAtOnce(0) {
		t.Error("queue: on does not hold for a policy of another router")
	}
}
