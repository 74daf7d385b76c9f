package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

// chat returns the trail of a chat: the first word is the system prompt, the others are messages.
func chat(system string, messages ...string) *Trail {
	var p Trail
	h := uint64(1)
	sys := xxh3.HashString(system)
	for i, m := range messages {
		h = xxh3.HashString(fmt.Sprint(h, m))
		if i == len(messages)-1 {
			p.Whole, p.Strict = h, h^sys
			break
		}
		p.Marks = append([]uint64{h}, p.Marks...)
		p.StrictMarks = append([]uint64{h ^ sys}, p.StrictMarks...)
	}
	return &p
}

var opener = strings.Repeat("once upon a time ", 10)

func by(user uint64, p *Trail) *Trail {
	p.Speaker = user
	return p
}

func in(space uint64, p *Trail) *Trail {
	p.Space = space
	return p
}

// growing returns the trail of a chat whose one message grows.
func growing(s string) *Trail {
	s = opener + s
	p, t := chat("", s), text(s)
	t.Whole, t.Strict = p.Whole, p.Strict
	return t
}

// text returns the trail of a plain text prompt.
func text(s string) *Trail {
	p := &Trail{Bytes: len(s), Least: 64, Text: xxh3.HashString(s), HashAt: func(n int) uint64 {
		return xxh3.HashString(s[:n])
	}}
	for i := TrailBlock; i <= len(s); i += TrailBlock {
		p.Blocks = append(p.Blocks, xxh3.HashString("block"+s[:i]))
	}
	return p
}

func TestTrailsOfChats(t *testing.T) {
	for _, tt := range []struct {
		name  string
		turns []*Trail
		want  string // one letter per turn, equal for turns of one conversation
	}{
		{"turns of one conversation", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "u2", "a2", "u3"),
		}, "aaa"},
		{"another opener is another conversation", []*Trail{
			chat("s", "u1"), chat("s", "v1"), chat("s", "v1", "a1", "v2"), chat("s", "u1", "a1", "u2"),
		}, "abba"},
		{"a retry is the same turn", []*Trail{chat("s", "u1"), chat("s", "u1"), chat("s", "u1", "a1", "u2")}, "aaa"},
		{"the same opener after somebody went on is new", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1"), chat("s", "u1", "b1", "w2"),
		}, "aabb"},
		{"a date in the system prompt changes nothing", []*Trail{
			chat("monday", "u1"), chat("tuesday", "u1", "a1", "u2"), chat("wednesday", "u1", "a1", "u2", "a2", "u3"),
		}, "aaa"},
		{"one task, two agents", []*Trail{
			chat("coder", "u1"), chat("critic", "u1"), chat("coder", "u1", "a1", "u2"), chat("critic",
				"u1", "b1", "u2"),
		}, "abab"},
		{"edited history is a branch", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "edited"),
		}, "aaa"},
		{"a retry of a later turn", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "u2"), chat("s", "u1",
				"a1", "u2", "a2", "u3"),
		}, "aaaa"},
		{"a later turn again, after it went on", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "u2", "a2", "u3"),
			chat("s", "u1", "a1", "u2"),
			chat("s", "u1", "a1", "u2", "b2", "w3"), chat("s", "u1", "a1", "u2", "a2", "u3", "a3", "u4"),
		}, "aaabba"},
		{"all of it once more, word for word", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "u2", "a2", "u3"),
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "u2", "a2", "u3"), chat("s", "u1", "a1",
				"u2", "a2", "u3", "a3", "u4"),
		}, "aaabbbb"},
		{"all of it three times", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1"),
			chat("s", "u1", "a1", "u2"),
		}, "aabbcc"},
		{"all of it once more as text", []*Trail{
			text(opener), text(opener + "x"), text(opener + "xy"), text(opener), text(opener + "x"),
			text(opener + "xy"), text(opener + "xyz"),
		}, "aaabbbb"},
		{"another answer to the same question is a branch", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "b1", "u2"),
		}, "aaa"},
		{"two agents begin alike, and one changes its system prompt", []*Trail{
			chat("coder", "u1"), chat("critic", "u1"), chat("coder at noon", "u1", "a1", "u2"), chat("critic",
				"u1", "b1", "u2"),
		}, "abcb"},
		{"the same of one that has gone on", []*Trail{
			chat("coder", "u1"), chat("coder", "u1", "a1", "u2"), chat("critic", "u1"), chat("coder at noon", "u1",
				"a1", "u2", "a2", "u3"), chat("critic", "u1", "b1", "u2"),
		}, "aabab"},
		{"a retry, and then a branch", []*Trail{
			chat("s", "u1"), chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "u1", "a1", "edited"),
			chat("s", "u1", "b1", "w2"), chat("s", "u1", "b1", "edited"),
		}, "aaaabb"},
		{"a system prompt that is another at each turn", []*Trail{
			chat("1", "u1"), chat("2", "u1", "a1", "u2"), chat("3", "u1"), chat("4", "u1", "b1", "w2"),
			chat("5", "u1", "a1", "edited"), chat("6", "u1", "b1", "edited"), chat("7", "u1", "a1", "u2", "a2", "u3"),
			chat("8", "u1", "b1", "w2", "b2", "w3"),
		}, "aabbabab"},
		{"the same, and the second is answered alike", []*Trail{
			chat("1", "u1"), chat("2", "u1", "a1", "u2"), chat("3", "u1"), chat("4", "u1", "a1", "w2"), chat("5", "u1",
				"a1", "w2", "b2", "w3"),
		}, "aabcc"},
		{"two agents are answered alike", []*Trail{
			chat("coder", "u1"), chat("critic", "u1"), chat("coder", "u1", "a1", "u2"),
			chat("critic", "u1", "a1", "u2"), chat("critic", "u1", "a1", "w2"),
		}, "ababb"},
		{"two users begin alike", []*Trail{
			by(1, chat("s", "u1")), by(2, chat("s", "u1")), by(1, chat("s", "u1", "a1", "u2")), by(2,
				chat("s", "u1", "a1", "u2")),
		}, "abab"},
		{"a user who is another at each turn", []*Trail{
			by(1, chat("s", "u1")), by(2, chat("s", "u1", "a1", "u2")),
		}, "aa"},
		{"two users begin alike in text", []*Trail{
			by(1, text(opener)), by(2, text(opener)), text(opener), by(1, text(opener+"x")), by(2, text(opener+"y")),
			by(3, text(opener+"z")), by(1, text(opener+"x and so on")),
		}, "abcabca"},
		{"a user of text who is another at each turn", []*Trail{
			by(1, text(opener)), by(2, text(opener+"x")), text(opener + "xy"),
		}, "aaa"},
		{"two adapters", []*Trail{
			in(1, chat("s", "u1")), in(2, chat("s", "u1")), in(1, chat("s", "u1", "a1", "u2")), in(2,
				chat("s", "u1", "a1", "u2")),
		}, "abab"},
		{"one message that grows", []*Trail{
			growing("x"), growing("x and y"), growing("x"), growing("x and z"),
		}, "aabb"},
		{"compaction is a new conversation", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "u2"), chat("s", "summary", "u3"),
		}, "aab"},
		{"a turn sent with several new messages", []*Trail{
			chat("s", "u1"), chat("s", "u1", "a1", "tool", "tool", "u2"), chat("s", "u1", "a1", "tool",
				"tool", "u2", "a2", "u3"),
		}, "aaa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := follow(NewTrails(100), tt.turns); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// opening marks the first n messages of a chat as too short to identify a conversation.
func opening(n int, p *Trail) *Trail {
	said := len(p.Marks) + 1
	p.Openings, p.Opening = max(0, min(n, len(p.Marks))), n >= said
	return p
}

// TestOpenings: the second turn of a chat whose first was too short to identify it belongs to it, if nobody else can
// have sent it.
func TestOpenings(t *testing.T) {
	short := func(system string, messages ...string) *Trail { return opening(1, chat(system, messages...)) }
	for _, tt := range []struct {
		name  string
		turns []*Trail
		want  string
	}{
		{"turns of one conversation", []*Trail{
			short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi", "a1", "u2", "a2", "u3"),
		}, "aaa"},
		{"two say hi, and either may have gone on", []*Trail{
			short("s", "hi"), short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi", "a1", "v2"), short("s",
				"hi", "a1", "v2", "a2", "v3"),
		}, "abcdd"},
		{"nor is it known of those who come later", []*Trail{
			short("s", "hi"), short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi"), short("s",
				"hi", "b1", "v2"),
		}, "abcde"},
		{"one after the other", []*Trail{
			short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi"), short("s", "hi", "b1", "v2"), short("s",
				"hi", "a1", "u2", "a2", "u3"),
		}, "aabba"},
		{"the same, answered alike: the second may be an edit of the first", []*Trail{
			short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi"), short("s", "hi", "a1", "v2"),
		}, "aabc"},
		{"an edit", []*Trail{short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi", "a1", "edited")}, "aaa"},
		{"an edit after somebody else said hi", []*Trail{
			short("s", "hi"), short("s", "hi", "a1", "u2"), short("s", "hi"), short("s", "hi", "a1", "edited"),
			short("s", "hi", "b1", "v2"),
		}, "aabcb"},
		{"two system prompts", []*Trail{
			short("s", "hi"), short("r", "hi"), short("s", "hi", "a1", "u2"), short("r", "hi", "a1", "u2"),
		}, "abab"},
		{"two users", []*Trail{
			by(1, short("s", "hi")), by(2, short("s", "hi")), by(1, short("s", "hi", "a1", "u2")), by(2,
				short("s", "hi", "a1", "u2")),
		}, "abab"},
		{"a user who did not say hi", []*Trail{by(1, short("s", "hi")), by(2, short("s", "hi", "a1", "u2"))}, "ab"},
		{"a date in the system prompt", []*Trail{short("monday", "hi"), short("tuesday", "hi", "a1", "u2")}, "aa"},
		{"two under a date", []*Trail{
			short("monday", "hi"), short("tuesday", "hi"), short("wednesday", "hi", "a1", "u2"),
		}, "abc"},
		{"several short turns", []*Trail{
			opening(5, chat("s", "hi")), opening(5, chat("s", "hi", "ho", "so")), opening(5, chat("s", "hi",
				"ho", "so", "no", "go")), opening(5, chat("s", "hi", "ho", "so", "no", "go", "a3", "u4")),
		}, "aaaa"},
		{"several short turns, and one like them", []*Trail{
			opening(3, chat("s", "hi")), opening(3, chat("s", "hi", "ho", "so")), opening(3, chat("s", "hi")),
			opening(3, chat("s", "hi", "ho", "so")), opening(3, chat("s", "hi", "ho", "so", "a2", "u3")),
		}, "aabcd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := follow(NewTrails(100), tt.turns); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func follow(m *Trails, turns []*Trail) string {
	names := map[string]byte{}
	var got []byte
	for i, p := range turns {
		id, _ := m.Follow(p, fmt.Sprint("fresh", i))
		if _, ok := names[id]; !ok {
			names[id] = byte('a' + len(names))
		}
		got = append(got, names[id])
	}
	return string(got)
}

func TestTrailsOfText(t *testing.T) {
	head := strings.Repeat("All of these agents share a long preamble. ", 20)
	a, b := head+"Task one: mend the build.", head+"Task two: write the docs."
	turns := []*Trail{
		text(a), text(b), text(a + "\nok\nnext"), text(b + "\nok\nnext"),
		text(a + "\nok\nnext" + strings.Repeat(" more", 100)),
		text("tiny"), text("tiny and longer"), text(strings.Repeat("x", 64)), text(strings.Repeat("x", 64) + "y"),
	}
	if got := follow(NewTrails(100), turns); got != "ababacdee" {
		t.Errorf("got %s", got)
	}
}

// TestTrailsAgainstNaiveModel: a text prompt that extends exactly one earlier prompt, which came once,
// gets that prompt's conversation; one that extends none is new.
func TestTrailsAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewTrails(1000)
		told, came := map[string]string{}, map[string]int{}
		for i := range rapid.IntRange(1, 60).Draw(t, "prompts") {
			s := strings.Repeat(string(rapid.SampledFrom([]byte("abc")).Draw(t, "head")), 64)
			for range rapid.IntRange(0, 12).Draw(t, "pieces") {
				s += strings.Repeat(string(rapid.SampledFrom([]byte("xy")).Draw(t, "letter")),
					rapid.SampledFrom([]int{1, 7, 64, 100, 128, 300}).Draw(t, "length"))
			}
			longest := ""
			for p := range told {
				if strings.HasPrefix(s, p) && len(p) > len(longest) {
					longest = p
				}
			}
			id, known := m.Follow(text(s), fmt.Sprint("fresh", i))
			if known != (longest != "") && longest == "" {
				t.Fatalf("%q is known and extends nothing", s)
			}
			if longest != "" && longest != s && came[longest] == 1 && known && id != told[longest] {
				t.Fatalf("%q got %s, want %s of %q", s, id, told[longest], longest)
			}
			told[s] = id
			came[s]++
		}
	})
}

func TestTrailsAreBounded(t *testing.T) {
	m := NewTrails(100)
	for i := range 10_000 {
		m.Follow(text(fmt.Sprint(strings.Repeat("z", 70), i)), "x")
	}
	if m.Len() > 300 || m.tails.len() > 100 || m.ends.used > 301 {
		t.Errorf("%d ends, %d tails", m.Len(), m.tails.len())
	}
}
