package pool

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/split"
)

// named is a policy that says for what it was made.
type named string

func (n named) Needs() pick.Needs { return pick.Needs{Name: string(n)} }

func (named) Hooks() pick.Hooks { return pick.Hooks{} }

func (named) Pick(*pick.View, *fleet.Request) pick.Choice { return pick.Choice{} }

// policies are rules of which some pools have others, which split without roles when the rest does not.
func policies(free bool, some fleet.Names, aliases []fleet.Alias) Config {
	of := func(s named) func() pick.Policy { return func() pick.Policy { return s } }
	when := map[bool]fleet.SplitWhen{true: fleet.WhenFree}
	c := Config{Rules: Rules{
		Policy: of("whole"), Decode: of("decode"), Prefill: of("prefill"), Split: split.Rule{When: when[free]},
	}, Aliases: aliases}
	if some != nil {
		own := Rules{Policy: of("own whole"), Decode: of("own decode"), Prefill: of("own prefill"), Split: split.Rule{
			When: when[!free],
		}}
		c.Some = []SomeRules{{some, own}, {fleet.Names{"*"}, c.Rules}, {some, c.Rules}}
	}
	return c
}

// TestMembersFollow: pools have the members and policies that pools made anew would have, whatever changes: endpoints
// that come, go, move, are declared otherwise or report other models, aliases, and whether requests are split without
// roles.
func TestMembersFollow(t *testing.T) {
	names := []string{"", Any, "m1", "m2", "m3", "chat", "other"}
	rapid.Check(t, func(t *rapid.T) {
		of := registry.New()
		table := New(of.Reader, policies(false, nil, nil))
		now, some := time.Unix(1000, 0), fleet.Names(nil)
		keep := func() {
			for _, name := range names {
				table.Keep(table.Named(name))
			}
		}
		spec := func(i int) fleet.Endpoint {
			e := fleet.Endpoint{Name: fmt.Sprint("e", i), Weight: 1}
			e.Role = rapid.SampledFrom([]fleet.Role{
				fleet.RoleBoth, fleet.RoleBoth, fleet.RolePrefill, fleet.RoleDecode,
			}).Draw(t, "role")
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				e.Kind = fleet.KindSGLang
			}
			if rapid.IntRange(0, 3).Draw(t, "stated") == 0 {
				e.Models = []string{rapid.SampledFrom([]string{"m1", "m2", "chat"}).Draw(t, "model")}
			}
			return e
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				i := rapid.IntRange(0, 5).Draw(t, "endpoint")
				e := of.Named(fmt.Sprint("e", i))
				switch what := rapid.IntRange(0, 7).Draw(t, "what"); {
				case !e.Exists():
					s := spec(i)
					of.Enter(of.Allocate(s), s, "s")
				case what == 0:
					of.Leave(time.Time{}, e)
					of.Forget(e)
					of.Free(e)
				case what == 1: // it moves
					s := spec(i)
					of.Leave(time.Time{}, e)
					moved := of.Allocate(s)
					of.Enter(moved, s, "s")
					of.Replace(e, moved)
					of.Forget(e)
					of.Free(e)
				case what == 2:
					of.Redeclare(e, spec(i), "s")
				case what == 3:
					aliases := []fleet.Alias{
						{Name: "chat", Models: []string{"m1", "m2"}},
						{Name: Any, Models: []string{"m2"}},
						{Name: "other", Models: []string{"m3"}},
						{Name: "m1", Models: []string{"m3"}},
					}
					next := rapid.SampledFrom([]fleet.Names{nil, {"m1"}, {"m*"}, {"chat", "m2"}, {""}}).Draw(t, "some")
					anew := rapid.Bool().Draw(t, "policies") || !slices.Equal(next, some)
					some = next
					table.SetConfig(policies(rapid.Bool().Draw(t, "free"), some,
						aliases[:rapid.IntRange(0, 4).Draw(t, "aliases")]))
					if anew {
						table.RenewPolicies()
					}
				default:
					var models []fleet.Model
					for _, id := range []string{"m1", "m2", "m3"} {
						if rapid.Bool().Draw(t, "serves") {
							models = append(models, fleet.Model{
								ID: id, ContextTokens: rapid.IntRange(1, 2).Draw(t, "context"),
							})
						}
					}
					kind := rapid.SampledFrom([]fleet.Kind{fleet.KindUnknown, fleet.KindVLLM, fleet.KindSGLang}).Draw(t,
						"kind")
					of.Report(now, e, &fleet.Report{Healthy: true, Kind: kind, Models: models})
				}
			}
			table.Refresh()
			of.ClearTouched()
			keep()
			names := table.Names()
			if table.names = nil; !slices.Equal(names, table.Names()) {
				t.Fatalf("the names of all pools are %q, want %q", names, table.names)
			}
			for _, p := range table.kept {
				fresh := state{endpoints: of.Reader, name: p.s.name, rules: table.rules(p.s.name)}
				table.fill(&fresh)
				table.equip(&fresh)
				for i := range fresh.members { // names have the numbers in which they came
					fresh.members[i].model = p.s.called(fresh.models[fresh.members[i].model])
				}
				compared := func(s *state) state {
					return state{
						name: s.name, members: s.members, slots: s.slots, roles: s.roles, halves: s.halves,
						takeWhole: s.takeWhole, uniform: s.uniform, splits: s.splits, policy: s.policy,
						prefill: s.prefill,
					}
				}
				got, want := compared(p.s), compared(&fresh)
				if len(fresh.members) == 0 { // a pool keeps its policies until it has members again
					got.splits, got.policy, got.prefill = fresh.splits, fresh.policy, fresh.prefill
				}
				if len(got.members)+len(want.members) == 0 {
					got.members, want.members, got.slots, want.slots = nil, nil, nil, nil
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("the pool %q is\n%+v, want\n%+v", p.s.name, got, want)
				}
			}
		}
	})
}
