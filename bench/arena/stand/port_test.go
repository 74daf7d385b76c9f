package stand

import "testing"

// TestFreePort: no two servers of a run get one port, though none listens yet.
func TestFreePort(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		addr, err := FreePort()
		if err != nil || seen[addr] {
			t.Fatalf("%s, %v: again %v", addr, err, seen[addr])
		}
		seen[addr] = true
	}
}
