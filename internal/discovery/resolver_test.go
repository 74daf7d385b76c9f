package discovery

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// says is a resolver that answers so.
type says struct{ err error }

func (s says) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return nil, s.err }

func (s says) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, s.err
}

// TestNoSuchNameIsChecked: package net says that there is no such name also where the server of the name has failed,
// and another domain of the search list does not have it. Then it is a failure; what else it says stands.
func TestNoSuchNameIsChecked(t *testing.T) {
	none, failed := &net.DNSError{IsNotFound: true}, &net.DNSError{IsTemporary: true}
	for name, tt := range map[string]struct {
		usual, strict error
		none          bool
	}{
		"found":                          {nil, failed, false},
		"a failure":                      {failed, none, false},
		"no such name":                   {none, none, true},
		"a failure in one of the places": {none, failed, false},
	} {
		r := checked{says{tt.usual}, says{tt.strict}}
		_, hosts := r.LookupNetIP(t.Context(), "ip4", "x")
		_, _, services := r.LookupSRV(t.Context(), "", "", "x")
		for _, err := range []error{hosts, services} {
			if isNotFound(err) != tt.none || (err == nil) != (tt.usual == nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestSystemFamilies: that an address is of the other family means that there is no such name; it is no failure.
func TestSystemFamilies(t *testing.T) {
	if _, err := System().LookupNetIP(t.Context(), "ip6", "127.0.0.1"); !isNotFound(err) {
		t.Errorf("an address of the other family: %v", err)
	}
	if isNotFound(errors.New("x")) || isNotFound(nil) {
		t.Error("any error is that there is no such name")
	}
}
