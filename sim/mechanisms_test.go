package sim_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/route/ablation"
)

// setUps are what people run, each played by some cells. Cells that were made for one mechanism are one set-up
// together.
func setUps() map[string][]string {
	return map[string][]string{
		"mixed GPUs": {
			"uneven", "unstreamed", "documents", "excerpt_mooncake_conversation_mixed4",
			"excerpt_mooncake_synthetic_mixed4",
		},
		"short prompts, mixed GPUs": {"short_uneven"},
		"bursts near capacity": {
			"bursts", "overload", "excerpt_mooncake_conversation_mixed4", "excerpt_mooncake_synthetic_mixed4",
		},
		"one-turn batches": {"templates", "documents", "essays", "short"},
		"scarce places or memory": {
			"chat", "full_caches", "essays", "documents", "reasoning_uneven_caches", "two_small",
		},
		"agents with full caches": {"agents", "excerpt_coding_agent_even8", "excerpt_coding_agent_mixed4"},
		"a few long prompts":      {"few_prompts"},
		"reasoning":               {"reasoning", "reasoning_uneven_caches"},
		"a host tier":             {"host_cache"},
		"a new fleet":             {"table", "uneven", "hot_prefix", "join", "first_minute"},
		"an engine that warms up": {"compiles", "compiles_whole", "hiccups"},
		"engines at one address":  {"behind_one_address"},
		"split, answers":          {"split_free_documents"},
		"split, small caches":     {"split_time_small_cache"},
		"split, slow links":       {"split_time_slow_link", "split_free_slow_link"},
		"split, agents":           {"split_time_agents"},
		"split, a long trace":     {"split_time_excerpt_mooncake_synthetic"},
	}
}

// mechanism is a step of the path of docs/mechanisms.md.
type mechanism struct {
	name, setUp, figure string // the figure that it improves most
	seeds               uint64 // of the page
}

// mechanisms are in the order in which they were added to the simplest model; those of split requests follow.
func mechanisms() []mechanism {
	return []mechanism{
		{"queue", "bursts near capacity", "mean", 8},
		{"prompt_speed", "mixed GPUs", "p90", 8},
		{"order", "engines at one address", "mean", 4},
		{"residence", "scarce places or memory", "mean", 8},
		{"occupancy", "scarce places or memory", "mean", 8},
		{"later_turns", "one-turn batches", "p90", 8},
		{"returns", "agents with full caches", "p90", 16},
		{"warm_up", "one-turn batches", "p90", 8},
		{"spread", "a new fleet", "p90", 8},
		{"late", "an engine that warms up", "mean", 8},
		{"provisional", "an engine that warms up", "mean", 8},
		{"capacity", "a host tier", "mean", 8},
		{"copies", "a few long prompts", "mean", 8},
		{"answers", "reasoning", "last", 24},
		{"fixed_time", "short prompts, mixed GPUs", "mean", 8},
		{"answer_cost", "split, answers", "last", 12},
		{"utilisation", "split, answers", "last", 12},
		{"decode_speed", "split, slow links", "p90", 12},
		{"links", "split, slow links", "mean", 12},
		{"transfer_speed", "split, slow links", "mean", 12},
		{"interruptions", "split, small caches", "p90", 12},
		{"losses", "split, agents", "mean", 12},
		{"pending_transfers", "split, a long trace", "mean", 12},
	}
}

// firstJudge is added to the seeds: mechanisms were chosen by seeds from 201 on.
const firstJudge = 400

// TestMechanisms: none of the mechanisms is worth nothing. Without it the figure over all cells of its set-up is worse:
// with -long by 1 % at least, from the seeds of docs/mechanisms.md, whose table it compares; otherwise it is not better
// by 5 %, from two seeds. One that fails is to be removed, with its constants, cells and row.
func TestMechanisms(t *testing.T) {
	if racing {
		t.Skip("it runs in one goroutine: the race detector finds nothing here")
	}
	rows := mechanisms()
	var names, sorted []string
	for _, m := range rows {
		names = append(names, m.name)
	}
	if sorted = slices.Sorted(slices.Values(names)); !slices.Equal(sorted, ablation.Names()) {
		t.Fatalf("the mechanisms are %v, the tests are of %v", ablation.Names(), sorted)
	}
	text, err := os.ReadFile("../docs/mechanisms.md")
	if err != nil {
		t.Fatal(err)
	}
	byName, cellsOf := map[string]*measured{}, setUps()
	for _, cell := range mechanismCells(t) {
		byName[cell.name] = cell
	}
	page := tableOf(t, "../docs/mechanisms.md", "go test ./sim -run TestMechanisms -long -rewrite",
		"| Added | Set-up | Seeds | Mean | p90 | p99 | Last token | Hit rate |", names)
	for _, m := range rows {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(string(text), "\n| `"+m.name+"` |") {
				t.Errorf("docs/mechanisms.md has no row of it")
			}
			seeds, least := uint64(2), 0.95 // two seeds of agents say no more
			if *allSeeds {
				seeds, least = m.seeds, 1.01
			}
			got := compared{}
			for _, cell := range cellsOf[m.setUp] {
				byName[cell].pairsFrom(t, &got, m.name, firstJudge+1, seeds)
			}
			if times, _ := got.all()[m.figure].interval(); times < least {
				t.Errorf("it is worth nothing any more: without it the %s of %q is %.3f times as much. Remove it",
					m.figure, m.setUp, times)
			}
			if !*allSeeds {
				return
			}
			cells := []string{m.setUp, fmt.Sprint(seeds)}
			for _, p := range []*paired{&got.mean, &got.p90, &got.p99, &got.last, &got.hit} {
				if p.n < 2 { // nothing is found in caches, but of one seed
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
