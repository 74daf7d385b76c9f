package policy

import (
	"testing"

	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

// make1 is one policy by name, with default options.
func make1(t testing.TB, name string) pick.Policy {
	t.Helper()
	return makeOf(t, Config{Name: name})
}

func makeOf(t testing.TB, c Config) pick.Policy {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f()
}

func makeFor(t *rapid.T, name string) pick.Policy {
	f, err := New(Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return f()
}
