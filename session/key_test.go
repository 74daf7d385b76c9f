package session

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesThatLookAlikeAreApart(t *testing.T) {
	names := [][3]string{
		{"a", "bc", "x"},
		{"ab", "c", "x"},
		{"", "abc", "x"},
		{"abc", "", "x"},
		{"a", "b", "cx"},
		{"a", "", "bcx"},
		{"", "", "abcx"},
		{"", "", "\x01a\x01bcx"},
		{"", "", "session-1"},
		{"", "", "session-12"},
		{"", "", "session-1 "},
		{"", "", "Session-1"},
		{"", "", ""},
	}
	seen := map[Key][3]string{}
	for _, n := range names {
		k := KeyOf(n[0], n[1], n[2])
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have one key", n, other)
		}
		seen[k] = n
	}
}

// Replicas exchange keys, so the hash must never change.
func TestKeyIsTheSameForever(t *testing.T) {
	if got, want := KeyOf("acme", "llama", "session-1").String(), "fcdae5bdb17044725d7fa563ebf4afe9"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNameIsUnambiguous(t *testing.T) {
	part := rapid.StringMatching(`[\x00-\x03ab]{0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		a := [3]string{part.Draw(t, "tenant"), part.Draw(t, "model"), part.Draw(t, "id")}
		b := [3]string{part.Draw(t, "tenant"), part.Draw(t, "model"), part.Draw(t, "id")}
		x, y := appendName(nil, a[0], a[1], a[2]), appendName(nil, b[0], b[1], b[2])
		if (a == b) != (string(x) == string(y)) {
			t.Fatalf("%q and %q become %q and %q", a, b, x, y)
		}
		if (a == b) != (KeyOf(a[0], a[1], a[2]) == KeyOf(b[0], b[1], b[2])) {
			t.Fatalf("keys of %q and %q", a, b)
		}
	})
}

func TestKeptIdentity(t *testing.T) {
	// two bytes are the lengths of tenant and model
	for _, length := range []int{0, 1, 32, longName - 3, longName - 2, longName - 1, 1 << 20} {
		id := strings.Repeat("x", length)
		identity := name("", "", id).keep()
		n := name("", "", id)
		for range 2 { // the second time by what it remembers
			if !n.is(identity) {
				t.Errorf("a name of %d bytes is not recognised", length)
			}
		}
		if len(identity) > longName+1 {
			t.Errorf("a name of %d bytes takes %d", length, len(identity))
		}
		for _, other := range []*Name{name("", "", id+"x"), name("x", "", id), name("", "x", id)} {
			if other.is(identity) || n.is(other.keep()) {
				t.Errorf("%q is taken for another name of %d bytes", other.keep()[:5], length)
			}
		}
		if length > 0 && name("", "", id[1:]+"y").is(identity) {
			t.Errorf("another name of %d bytes is taken for it", length)
		}
	}
	// A short name that spells a digest differs from the name with that digest.
	long := name("", "", strings.Repeat("x", 1000))
	if long.is(string(keptName) + long.keep()[1:]) {
		t.Error("a name is taken for a digest")
	}
}

// TestFoundAgain: where a name was found last is only a hint. Its place may hold another conversation meanwhile.
func TestFoundAgain(t *testing.T) {
	table := New(Config{Max: 2})
	a := name("", "m", "a")
	table.Put(start, a, Entry{Turns: 1})
	if e, ok := table.Peek(start, a); !ok || e.Turns != 1 {
		t.Fatalf("found %v %v", e, ok)
	}
	for i, id := range []string{"b", "c"} { // takes the place of a
		table.Put(start, name("", "m", id), Entry{Turns: 2 + i})
	}
	if e, ok := table.Peek(start, a); ok {
		t.Errorf("a was evicted; found %v", e)
	}
	table.Put(start, name("", "m", "a"), Entry{Turns: 4}) // elsewhere
	if e, ok := table.Get(start, a); !ok || e.Turns != 4 {
		t.Errorf("found %v %v, want the turns of a", e, ok)
	}
	for range 2 { // in another table too
		if _, ok := New(Config{}).Get(start, a); ok {
			t.Error("an empty table has it")
		}
	}
}
