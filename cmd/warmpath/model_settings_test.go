package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestModelSettingsReload: settings for some models count from a reload on, for the door and for the choice of
// endpoints, and the admin API says which a model has.
func TestModelSettingsReload(t *testing.T) {
	t.Parallel()
	_, one := simEngine(t, enginetest.Options{Models: []string{"m", "n"}, Speed: 20})
	_, two := simEngine(t, enginetest.Options{Models: []string{"m", "n"}, Speed: 20})
	text := fmt.Sprintf(reloadable, false, "session", "k", false, one+", "+two)
	f := newFileRig(t, text)
	// where the same conversation goes in four turns, by the model
	turns := func(model string) (to []string) {
		t.Helper()
		for range 4 {
			body := `{"model":"` + model + `","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`
			res, _ := asked(t, f.url+"/v1/chat/completions", body, "X-Session-ID", "s-"+model,
				"X-Warmpath-Explain", "1")
			if res.StatusCode != 200 {
				return []string{res.Status}
			}
			to = append(to, res.Header.Get("X-Warmpath-Endpoint"))
		}
		return to
	}
	same := func(to []string) bool { return len(to) == 4 && to[0] == to[1] && to[1] == to[2] && to[2] == to[3] }
	if to := turns("n"); !same(to) {
		t.Fatalf("without settings a session goes to %v", to)
	}
	f.write(text + "models: {settings: [{match: 'n*', policy: round_robin}, {match: '*', body: 64kB}, {match: gone, " +
		"retries: 0}]}\n")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if to := turns("n"); same(to) {
		t.Errorf("with round_robin a session goes to %v", to)
	}
	if to := turns("m"); !same(to) {
		t.Errorf("another model's session goes to %v", to)
	}
	var models struct {
		Models []struct{ ID, Settings string }
	}
	_, got := fetched(t, "GET", f.adminURL+"/admin/models", "")
	if err := json.Unmarshal([]byte(got), &models); err != nil {
		t.Fatal(err)
	}
	for _, m := range models.Models {
		if want := map[string]string{"n": "policy round_robin", "m": "body 64kB"}[m.ID]; m.Settings != want {
			t.Errorf("%s has %q, want %q", m.ID, m.Settings, want)
		}
	}
	if _, got := fetched(t, "GET", f.adminURL+"/admin/stats", ""); !strings.Contains(got, `"unmatched_settings"`) ||
		!strings.Contains(got, `"gone"`) {
		t.Errorf("the stats do not name the pattern that matches no model: %s", got)
	}
	f.write(text + "models: {settings: [{match: '*', body: 10B}]}\n")
	if _, err := f.reload(); err != nil {
		t.Fatal(err)
	}
	if to := turns("n"); len(to) != 1 || !strings.HasPrefix(to[0], "413") {
		t.Errorf("a body that is too large: %v", to)
	}
}
