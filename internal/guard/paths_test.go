package guard

import "testing"

func TestPaths(t *testing.T) {
	p, err := ParsePaths([]string{"/sleep", "POST /flush_cache", "/api/*", "GET /slots*"})
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[[2]string]bool{
		{"POST", "/sleep"}: true, {"GET", "/sleep"}: true, {"POST", "/sleep/"}: false, {"POST", "/sleepy"}: false,
		{"POST", "/flush_cache"}: true, {"GET", "/flush_cache"}: false,
		{"DELETE", "/api/delete"}: true, {"DELETE", "/api"}: false, {"GET", "/slots/1"}: true, {"GET", "/slots"}: true,
		{"POST", "/slots/1"}: false, {"POST", "/x"}: false, {"", "/sleep"}: true,
	} {
		if got := p.Has(of[0], of[1]); got != want {
			t.Errorf("%v: %t, want %t", of, got, want)
		}
	}
	if all, err := ParsePaths([]string{"*"}); err != nil || !all.Has("PUT", "/x/y") || (*Paths)(nil).Has("GET", "/") {
		t.Errorf("* is not all, or nil is something: %v", err)
	}
	for _, bad := range []string{
		"", "sleep", "POST", "post /x", " /x", "POST  /x", "/a b c", "/a*b*", "GET *x", "/a?b", "x*",
	} {
		if p, err := ParsePaths([]string{bad}); err == nil {
			t.Errorf("%q is taken for %+v", bad, p)
		}
	}
}
