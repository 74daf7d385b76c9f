package terminal

import "testing"

func TestClip(t *testing.T) {
	if got, want := clip("┌──────┐\nab\nlast\n", 5, 2), "┌────\nab\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := clip("as it is\n", 80, 24), "as it is\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
