package places_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/warmpath/warmpath/internal/places"
)

func at(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }

// TestPlaces: one source cannot take the places of others, and who leaves makes room.
func TestPlaces(t *testing.T) {
	p := places.New(5, 2)
	var leave []func()
	for i, c := range []struct {
		from string
		want error
	}{
		{"10.0.0.1:1", nil},
		{"[::ffff:10.0.0.1]:2", nil},
		{"10.0.0.1:3", places.ErrMany},
		{"10.0.0.2:1", nil},
		{"[fd00::1]:1", nil},
		{"[fd00::2]:1", nil},
		{"[fd00::3]:1", places.ErrFull},
		{"10.0.0.3:1", places.ErrFull},
	} {
		l, err := p.Take(at(c.from))
		if !errors.Is(err, c.want) {
			t.Errorf("%d: %s: %v, want %v", i, c.from, err, c.want)
		}
		if err == nil {
			leave = append(leave, l)
		}
	}
	leave[3]()
	if _, err := p.Take(at("[fd00::3]:1")); err != nil {
		t.Error("a place that is free again:", err)
	}
	leave[2]()
	if _, err := p.Take(at("[fd00::4]:1")); !errors.Is(err, places.ErrMany) {
		t.Error("a third one of a network of 64 bits:", err)
	}
}
