package fleet_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// FuzzKVAddress checks that a parsed address is formatted so that it parses to the same value.
func FuzzKVAddress(f *testing.F) {
	f.Add("host:10.0.0.5,handshake:6301,notify:61005")
	f.Add("notify:1,host:::1,handshake:2,other:x")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := fleet.ParseKVAddress(s)
		if err != nil {
			return
		}
		if b, err := fleet.ParseKVAddress(a.String()); err != nil || a != b {
			t.Fatalf("%q is %+v, written %q is %+v, %v", s, a, a, b, err)
		}
	})
}
