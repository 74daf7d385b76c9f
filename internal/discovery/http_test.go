package discovery

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/route"
)

// TestHTTPList: what lists declare, and which have faults.
func TestHTTPList(t *testing.T) {
	c := HTTPConfig{URL: "http://sd", Engine: EndpointConfig{Kind: "vllm", KVEvents: "tcp://*:5557"}}
	for list, want := range map[string]string{
		`[]`: "",
		`[{"targets": ["10.0.0.1:8000", "b.example:8000"], "labels": {"__meta_dc": "x", "warmpath_role": "prefill", "warmpath_models": "a,b"}}, {"targets": ["[::1]:8000"], "labels": {"__scheme__": "https"}}]`: "10.0.0.1:8000 http://10.0.0.1:8000 prefill [a b] tcp://10.0.0.1:5557; " +
			"b.example:8000 http://b.example:8000 prefill [a b] tcp://b.example:5557; [::1]:8000 https://[::1]:8000  " +
			"[] tcp://[::1]:5557",
		"\ufeff" + `[{"targets": ["a:1"]}]`: "a:1 http://a:1  [] tcp://a:5557",

		`null`:                   "!an empty one is []",
		`{"targets": []}`:        "!not the JSON of Prometheus",
		`[{"targets": ["x:y"]}]`: "!url",
		`[{"targets": [], "labels": {"warmpath_rolle": "x"}}]`:        "!label warmpath_rolle: is unknown; known: kind",
		`[{"targets": [], "labels": {"warmpath_api_key_file": "x"}}]`: "!is unknown",
		`[{"targets": [], "labels": {"warmpath_ranks": "x"}}]`:        "!ranks=x is not a number",

		// Prometheus takes equal targets for one
		`[{"targets": ["a:1", "a:1"]}, {"targets": ["a:1"], "labels": {"x": "y"}}]`: "a:1 http://a:1  [] tcp://a:5557",
	} {
		found, left, err := c.endpoints([]byte(list))
		if part, faulty := strings.CutPrefix(want, "!"); faulty {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", list, err, part)
			}
			continue
		}
		var got []string
		for _, e := range found {
			models := "[" + strings.Join(e.Models, " ") + "]"
			got = append(got, strings.Join([]string{e.Name, e.URL, string(e.Role), models, e.KVEvents}, " "))
		}
		if text := strings.Join(got, "; "); err != nil || text != want || len(left) > 0 {
			t.Errorf("%s:\n got %s, %v\nwant %s", list, text, err, want)
		}
	}
}

// TestHTTPListLeavesOut: a target or a group with faults does not keep the others from coming and going.
func TestHTTPListLeavesOut(t *testing.T) {
	found, left, err := HTTPConfig{URL: "http://sd"}.endpoints([]byte(`[
		{"targets": ["x:y", "b:1"], "labels": {"warmpath_role": "decode"}}, {"targets": ["b:1", "c:1"]},
		{"targets": ["d:1"], "labels": {"warmpath_rolle": "x"}}, {"targets": ["localhost:1", "127.0.0.1:1"]}]`))
	var names, why []string
	for _, e := range found {
		names = append(names, e.Name+" "+string(e.Role))
	}
	for _, e := range left {
		text, _, _ := strings.Cut(e.Error(), ";")
		why = append(why, text)
	}
	wantWhy := []string{
		`"x:y": url: "http://x:y" is not a URL: invalid port ":y" after host`,
		`"b:1": is the same as b:1, with other settings`,
		`group 3: the label warmpath_rolle: is unknown`,
		`"127.0.0.1:1": is the same as localhost:1, with other settings`,
	}
	if want := []string{"b:1 decode", "c:1 ", "localhost:1 "}; err != nil || !slices.Equal(names, want) ||
		!slices.Equal(why, wantWhy) {
		t.Errorf("found %q, left out %q, %v", names, why, err)
	}
}

// TestHTTPListIsBounded: a list of too many targets, groups or labels is refused as that, before anything is made of
// it.
func TestHTTPListIsBounded(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`":",`, MaxEndpoints), ",")
	for name, list := range map[string]string{
		"one group":    `[{"targets": [` + many + `, "a"]}]`,
		"two groups":   `[{"targets": [` + many + `]}, {"targets": ["a"]}]`,
		"no targets":   `[` + strings.Repeat(`{},`, mostGroups) + `{}]`,
		"labels":       `[{"targets": ["a"], "labels": {` + strings.Repeat(`"a":"",`, mostQuotes/4) + `"b":""}}]`,
		"each a group": `[` + strings.TrimSuffix(strings.Repeat(`{"targets":["/"]},`, MaxEndpoints+1), ",") + `]`,
	} {
		if _, _, err := (HTTPConfig{URL: "http://sd"}).endpoints([]byte(list)); err == nil ||
			!strings.HasPrefix(err.Error(), "more than 20000 endpoints") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// TestHTTP: a list that cannot be had, or has faults, is said once and changes nothing; one that is the same is not
// published again.
func TestHTTP(t *testing.T) {
	status, list, token := http.StatusOK, `[{"targets": ["a:1"]}]`, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, list)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	h, err := NewHTTP(HTTPConfig{URL: s.URL, TokenFile: file}, s.Client(), Keys{},
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var published [][]string
	look := func() {
		h.look(context.Background(), func(d route.Declared) {
			var names []string
			for _, e := range d.Endpoints {
				names = append(names, e.Name)
			}
			published = append(published, names)
		})
	}
	look()
	look()
	for range 2 { // each outage is said
		status = http.StatusInternalServerError
		look()
		look()
		status = http.StatusOK
		look()
	}
	list = `oops`
	look()
	look()
	list = `[{"targets": ["a:1", "b:1"]}]`
	look()
	for _, list = range []string{
		`[{"targets": ["a:1", "b:1", "c:x"]}]`, `[{"targets": ["c:x", "a:1"]}]`, `[{"targets": ["c:x"]}]`,
	} {
		look()
	}
	list = `[]`
	look()
	if want := [][]string{{"a:1"}, {"a:1", "b:1"}, {"a:1"}, nil}; !slices.EqualFunc(published, want, slices.Equal) {
		t.Errorf("published %v, want %v", published, want)
	}
	if token != "Bearer secret" {
		t.Errorf("the token sent was %q", token)
	}
	for part, times := range map[string]int{
		"500 Internal Server Error": 2, "not the JSON of Prometheus": 1, "can be read again": 4,
		"a part of the list is left out": 1,
	} {
		if n := strings.Count(log.String(), part); n != times {
			t.Errorf("%q is said %d times, want %d:\n%s", part, n, times, log.String())
		}
	}
}
