package session

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestTrailsNeverMix: no two conversations get the same id, whatever they have in common (question, answer, next user
// message), and whether or not their system prompts change with each turn. Those with a fixed system prompt keep their
// id.
func TestTrailsNeverMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type talk struct {
			system   string
			volatile bool
			said     []string
			ids      map[string]bool
		}
		m := NewTrails(10_000)
		var talks []*talk
		owner := map[string]int{}
		words := rapid.SampledFrom([]string{"x", "y"})
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := len(talks)
			which := rapid.IntRange(0, n).Draw(t, "conversation")
			if which == n {
				talks = append(talks, &talk{
					system: fmt.Sprint("system ", n), volatile: rapid.Bool().Draw(t, "volatile"),
					ids: map[string]bool{}, said: []string{words.Draw(t, "opener")},
				})
			}
			c := talks[which]
			switch {
			case which == n:
			case len(c.said) > 1 && rapid.IntRange(0, 4).Draw(t, "edit") == 0:
				c.said[len(c.said)-1] = "edited " + words.Draw(t, "edited")
			default:
				answer := "answer"
				if rapid.Bool().Draw(t, "own") {
					answer = fmt.Sprint("answer of ", which)
				}
				c.said = append(c.said, answer, words.Draw(t, "next"))
			}
			system := c.system
			if c.volatile {
				system += fmt.Sprint(" at ", step)
			}
			id, _ := m.Follow(chat(system, c.said...), fmt.Sprint("fresh ", step))
			if before, ok := owner[id]; ok && before != which {
				t.Fatalf("step %d: conversation %d (%q under %q) has the id of %d", step, which, c.said, system, before)
			}
			owner[id] = which
			if c.ids[id] = true; !c.volatile && len(c.ids) > 1 {
				t.Fatalf("step %d: conversation %d (%q) has %d ids", step, which, c.said, len(c.ids))
			}
		}
	})
}

// TestOpeningsNeverMix: no two conversations that begin with the same few words under the same system prompt get the
// same id, whatever answers they have in common and whatever is edited.
func TestOpeningsNeverMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewTrails(10_000)
		short := rapid.IntRange(1, 4).Draw(t, "short")
		var talks [][]string
		var people []int // who has each
		owner := map[string]int{}
		words := rapid.SampledFrom([]string{"x", "y"})
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			which := rapid.IntRange(0, min(len(talks), 3)).Draw(t, "conversation")
			switch {
			case which == len(talks):
				talks, people = append(talks, []string{"hi"}), append(people, step)
			case rapid.IntRange(0, 5).Draw(t, "leave") == 0:
				talks[which], people[which] = []string{"hi"}, step
			case len(talks[which]) > 1 && rapid.IntRange(0, 4).Draw(t, "edit") == 0:
				c := append([]string(nil), talks[which]...)
				c[len(c)-1] = "edited " + words.Draw(t, "edited") + fmt.Sprint(" of ", people[which])
				talks[which] = c
			default:
				talks[which] = append(talks[which], "answer "+words.Draw(t, "answer"), words.Draw(t, "next"))
				if n := len(talks[which]); n > short {
					talks[which][n-1] += fmt.Sprint(" of ", people[which])
				}
			}
			p := opening(short, chat("s", talks[which]...))
			f := m.Find(p, fmt.Sprint("fresh ", step))
			m.Note(p, &f)
			if before, ok := owner[f.ID]; ok && before != people[which] {
				t.Fatalf("step %d: conversation %d (%q) has the id of %d", step, people[which], talks[which], before)
			}
			owner[f.ID] = people[which]
		}
	})
}

// BenchmarkFollow measures a turn of a long conversation, and the first turn of a new one that looks like one with a
// long history.
func BenchmarkFollow(b *testing.B) {
	m := NewTrails(100_000)
	turn := make([]string, 0, 201)
	for i := range 101 {
		turn = append(turn, fmt.Sprint("said ", i), fmt.Sprint("answered ", i))
	}
	trails := make([]*Trail, 100)
	for i := range trails {
		trails[i] = chat("s", turn[:2*i+1]...)
	}
	b.Run("turns", func(b *testing.B) {
		for i := range b.N {
			p := trails[i%len(trails)]
			p.Scope = uint64(i / len(trails))
			m.Follow(p, "id")
		}
	})
	b.Run("unknown of 100 turns", func(b *testing.B) {
		p := trails[len(trails)-1]
		for i := range b.N {
			p.Scope = uint64(i) + 1<<32
			m.Follow(p, "id")
		}
	})
}
