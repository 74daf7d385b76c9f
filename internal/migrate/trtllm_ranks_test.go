package migrate_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/migrate"
)

// TestTRTRanks: the options of attention_dp_config under the names of PRs 13198 and 14744 and what followed them.
func TestTRTRanks(t *testing.T) {
	const servers = `
context_servers: {num_instances: 1, urls: ["a:1"]}
generation_servers: {num_instances: 1, urls: ["b:1"]}
`
	for _, c := range []struct {
		yaml, policy, decode string
		notes                []string
	}{
		{
			"attention_dp_config: {kv_cache_routing_first_turn_round_robin: true}" + servers, "rank.first_turn", "",
			[]string{"becomes the policy rank.first_turn"},
		},
		{
			"attention_dp_config: {kv_cache_routing_first_turn_round_robin: true, " +
				"kv_cache_routing_conversation_affinity: true}" + servers, "rank.conversation", "",
			[]string{"becomes the policy rank.conversation"},
		},
		{"attention_dp_config: {enable_kv_cache_aware_routing: True, kv_cache_routing_first_turn_round_robin: false}" +
			servers, "rank.kv_cache_aware", "", []string{"becomes the policy rank.kv_cache_aware"}},
		{
			"attention_dp_config: {enable_kv_cache_aware_routing: true, kv_cache_routing_first_turn_round_robin: true}",
			"rank.first_turn", "",
			[]string{"becomes the policy rank.first_turn"},
		},
		{
			"attention_dp_config: {enable_balance: true, timeout_iters: 50, batching_wait_iters: 10}" + servers,
			"trtllm.round_robin", "", nil,
		},
		{
			"context_servers: {num_instances: 1, urls: ['a:1'], attention_dp_config: " +
				"{kv_cache_routing_conversation_affinity: true}}\ngeneration_servers: {num_instances: 1, urls: " +
				"['b:1'], router: {type: conversation}}", "rank.conversation", "trtllm.conversation",
			[]string{"becomes the policy rank.conversation"},
		},
		{
			"router: {type: load_balancing}\nattention_dp_config: {kv_cache_routing_conversation_affinity: true}" +
				servers, "trtllm.load_balancing", "",
			[]string{"policy.name: rank.conversation chooses endpoints by this rule"},
		},
		{
			"attention_dp_config: {kv_cache_routing_first_turn_round_robin: perhaps}" + servers, "trtllm.round_robin",
			"",
			[]string{"neither true nor false"},
		},
		{
			"attention_dp_config: {kv_cache_routing_fair_share_multiplier: 0.5, " +
				"kv_cache_routing_new_conv_placement: best}" + servers, "trtllm.round_robin", "",
			[]string{"takes 1 to", "round_robin is taken"},
		},
	} {
		got, err := migrate.File("trtllm", "d.yaml", []byte(c.yaml))
		if err != nil {
			t.Fatalf("%s: %v", c.yaml, err)
		}
		cfg, err := config.Parse("(result)", got.YAML, nil)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", c.yaml, err, got.YAML)
		}
		if cfg.Policy.Name != c.policy || cfg.Disaggregation.DecodePolicy != c.decode {
			t.Errorf("%s: policy %q, of decoders %q; want %q, %q",
				c.yaml, cfg.Policy.Name, cfg.Disaggregation.DecodePolicy, c.policy, c.decode)
		}
		if len(got.Missing) != len(c.notes) {
			t.Fatalf("%s: %v, want %q", c.yaml, got.Missing, c.notes)
		}
		for i, note := range c.notes {
			if !strings.Contains(got.Missing[i].String(), note) {
				t.Errorf("%s: %q, want %q", c.yaml, got.Missing[i], note)
			}
		}
	}
	got, err := migrate.File("trtllm", "d.yaml",
		[]byte("attention_dp_config: {kv_cache_routing_conversation_affinity: true, kv_cache_routing_max_sessions: "+
			"7, kv_cache_routing_load_balance_weight: 0.5, kv_cache_routing_match_rate_threshold: 0.2,"+
			" kv_cache_routing_fair_share_multiplier: 3, kv_cache_routing_cold_start_warmup: "+
			"true, kv_cache_routing_account_for_in_transfer: false, kv_cache_routing_new_conv_placement: least_queued}"+
			servers))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("(result)", got.YAML, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := cfg.Policy.Rank; r.MaxSessions != 7 || r.Weight != 0.5 || r.Threshold != 0.2 || r.Multiplier != 3 ||
		!r.Warmup || r.InTransfer || r.Placement != "least_queued" {
		t.Errorf("%+v", r)
	}
}

// TestTRTSeenIDs: max_sessions of PR 14744 bounds the ids by which the orchestrator tells first turns, whatever its
// router; of the router conversation it bounds the sessions.
func TestTRTSeenIDs(t *testing.T) {
	for _, c := range []struct {
		router         string
		seen, sessions int
		note           string
	}{
		{"{type: round_robin, max_sessions: 50}", 50, 100_000, ""},
		{"{type: kv_cache_aware, max_sessions: 50}", 50, 100_000, ""},
		{"{type: conversation, max_sessions: 50}", 100_000, 50, ""},
		{"{type: load_balancing}", 100_000, 100_000, ""},
		{"{type: load_balancing, max_sessions: 0}", 100_000, 100_000, "takes 1 to"},
	} {
		got, err := migrate.File("trtllm",
			"d.yaml", []byte("context_servers: {num_instances: 1, urls: ['a:1'], router: "+c.router+
				"}\ngeneration_servers: {num_instances: 1, urls: ['b:1']}"))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("(result)", got.YAML, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.router, err)
		}
		if seen, sessions := cfg.Sessions.SeenIDs,
			cfg.Policy.WithDefaults().TRTLLM.Conversation.MaxSessions; seen != c.seen || sessions != c.sessions {
			t.Errorf("%s: %d ids, %d sessions; want %d, %d", c.router, seen, sessions, c.seen, c.sessions)
		}
		if notes := len(got.Missing); c.note == "" && notes != 0 ||
			c.note != "" && (notes != 1 || !strings.Contains(got.Missing[0].String(), c.note)) {
			t.Errorf("%s: %v", c.router, got.Missing)
		}
	}
}

// TestTRTIDForm: the form of conversation ids, for the workers of one section or of both.
func TestTRTIDForm(t *testing.T) {
	for _, c := range []struct{ yaml, context, generation, note string }{
		{
			"context_servers: {num_instances: 1, urls: ['a:1'], conversation_id: disaggregated_params}\n" +
				"generation_servers: {num_instances: 1, urls: ['b:1']}", "disaggregated_params", "", "",
		},
		{
			"conversation_id: disaggregated_params\ncontext_servers: {num_instances: 1, urls: ['a:1']}\n" +
				"generation_servers: {num_instances: 1, urls: ['b:1'], conversation_id: 'off'}",
			"disaggregated_params", "off", "",
		},
		{"context_servers: {num_instances: 1, urls: ['a:1'], conversation_id: body}\ngeneration_servers: " +
			"{num_instances: 1, urls: ['b:1']}", "", "", "known: auto, conversation_params, disaggregated_params, off"},
	} {
		got, err := migrate.File("trtllm", "d.yaml", []byte(c.yaml))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("(result)", got.YAML, nil)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", c.yaml, err, got.YAML)
		}
		if e := cfg.Endpoints; len(e) != 2 || e[0].ConversationID != c.context || e[1].ConversationID != c.generation {
			t.Errorf("%s: %+v", c.yaml, e)
		}
		if notes := len(got.Missing); c.note == "" && notes != 0 ||
			c.note != "" && (notes != 1 || !strings.Contains(got.Missing[0].String(), c.note)) {
			t.Errorf("%s: %v", c.yaml, got.Missing)
		}
	}
}
