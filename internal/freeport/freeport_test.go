package freeport_test

import (
	"net"
	"testing"

	"github.com/warmpath/warmpath/internal/freeport"
)

func TestAddress(t *testing.T) {
	given := map[string]bool{}
	for range 100 {
		at := freeport.Address()
		if given[at] {
			t.Errorf("%s was given twice", at)
		}
		given[at] = true
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}
