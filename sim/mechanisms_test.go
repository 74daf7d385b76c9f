package sim_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/route/ablation"
)

// mechanism is a row of docs/mechanisms.md: the cell that needs what is learnt, and the figure that shows it.
type mechanism struct {
	name, cell, figure string
	seeds              uint64 // of the page
}

func mechanisms() []mechanism {
	return []mechanism{
		{"answer_cost", "split_free_documents", "last", 12},
		{"answer_length", "reasoning_uneven_caches", "mean", 24},
		{"answers", "reasoning", "mean", 24},
		{"cache_ratio", "adapters", "mean", 8},
		{"cache_share", "agents", "mean", 8},
		{"decode_speed", "split_free_slow_link", "p90", 12},
		{"fixed_time", "short_uneven", "mean", 8},
		{"interruptions", "split_time_small_cache", "p90", 12},
		{"late_stream", "compiles", "mean", 8},
		{"late_whole", "compiles_whole", "mean", 8},
		{"later_turns", "templates", "p90", 8},
		{"links", "split_time_slow_link", "mean", 12},
		{"losses", "split_time_agents", "mean", 12},
		{"occupancy", "reasoning", "mean", 24},
		{"order", "behind_one_address", "p90", 8},
		{"pending_transfers", "split_time_excerpt_mooncake_synthetic", "mean", 12},
		{"prompt_speed", "uneven", "p90", 8},
		{"provisional", "compiles", "mean", 8},
		{"queue", "excerpt_mooncake_conversation_mixed4", "mean", 8},
		{"residence", "chat", "mean", 8},
		{"returns", "agents", "p90", 16},
		{"second_tier", "host_cache", "mean", 8},
		{"spread", "hot_prefix", "p90", 8},
		{"text_features", "tables", "mean", 16},
		{"transfer_speed", "split_time_slow_link", "mean", 12},
		{"turn_size", "hot_prefix", "p90", 8},
		{"warm_up", "templates", "p90", 8},
	}
}

// notShown are mechanisms that no cell shows. docs/mechanisms.md says of each what holds it.
func notShown() []string {
	return []string{"utilisation"}
}

// TestMechanisms: each mechanism is worth 2 % of a figure of the cell that needs it, from one seed. With -long it plays the seeds of
// docs/mechanisms.md and compares the page.
func TestMechanisms(t *testing.T) {
	if racing {
		t.Skip("nothing of it is concurrent")
	}
	rows := mechanisms()
	order := notShown()
	for _, m := range rows {
		order = append(order, m.name)
	}
	if slices.Sort(order); !slices.Equal(order, ablation.Names()) {
		t.Fatalf("the mechanisms are %v, the tests are of %v", ablation.Names(), order)
	}
	text, err := os.ReadFile("../docs/mechanisms.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ablation.Names() {
		if !strings.Contains(string(text), "\n| `"+name+"` |") {
			t.Errorf("docs/mechanisms.md has no row of %s", name)
		}
	}
	var names []string
	byName := map[string]*measured{}
	for _, cell := range mechanismCells(t) {
		byName[cell.name] = cell
	}
	for _, m := range rows {
		names = append(names, m.name)
	}
	page := tableOf(t, "../docs/mechanisms.md", "go test ./sim -run TestMechanisms -long -rewrite",
		"| Mechanism | Cell | Seeds | Mean, ms | Mean | p90 | p99 | Last token | Hit rate |", names)
	for _, m := range rows {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(1)
			if *allSeeds {
				seeds = m.seeds
			}
			got := byName[m.cell].pairs(t, m.name, seeds)
			if times, _ := got.all()[m.figure].interval(); times < 1.02 {
				t.Errorf("without it the %s of %s is %.3f times as much, want 1.02 at least", m.figure, m.cell, times)
			}
			if !*allSeeds {
				return
			}
			with, without := got.mean.both()
			cells := []string{"`" + m.cell + "`", fmt.Sprint(seeds), thousands(with) + " → " + thousands(without)}
			for _, p := range []*paired{&got.mean, &got.p90, &got.p99, &got.last, &got.hit} {
				if p.n == 0 { // nothing is found in caches
					cells = append(cells, "–")
					continue
				}
				times, half := p.interval()
				cells = append(cells, fmt.Sprintf("%.2f ± %.2f", times, half))
			}
			page.add(m.name, cells...)
		})
	}
}
