package identity

import "testing"

func FuzzEndpointToken(f *testing.F) {
	t1, t2 := NewEndpointToken("x-session-token", []byte("one secret")),
		NewEndpointToken("x-session-token", []byte("another"))
	for _, s := range []string{
		"", "w1/", "w1/AAAA", "ZGVmYXVsdC9zaW0tYg==", "Lw==", "\x00", t1.seal("a"), t2.seal("a"),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		name := t1.open([]string{token})
		if name != "" && len(token) > 3 && token[:3] == tokenPrefix && t2.open([]string{token}) != "" {
			t.Errorf("two secrets open %q", token)
		}
		if got := t1.open([]string{t1.seal(token)}); len(token) < 2000 && got != token {
			t.Errorf("sealed %q, opened %q", token, got)
		}
		if got := t2.open([]string{t1.seal(token)}); got != "" {
			t.Errorf("sealed %q, another opened %q", token, got)
		}
	})
}
