package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestKey: a key is let in by the form that is printed for the configuration, and by nothing else that is printed; no two are the same.
func TestKey(t *testing.T) {
	t.Parallel()
	made := func(args ...string) string {
		t.Helper()
		var out, said bytes.Buffer
		if code := Main(t.Context(), append([]string{"key"}, args...), nil, nil, &out, &said); code != exitOK {
			t.Fatalf("code %d: %s", code, said.String())
		}
		return out.String()
	}
	var k newKey
	if err := json.Unmarshal([]byte(made("--json")), &k); err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(made())
	if len(f) != 4 || f[0] != "key" || f[2] != "config" || f[1] == k.Key || len(f[1]) != len(k.Key) {
		t.Errorf("printed %q beside %+v", f, k)
	}
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	r := newFileRig(t, fmt.Sprintf(reloadable, false, "least_ttft", "'"+k.Config+"'", true, "'"+engine+"'"))
	for key, want := range map[string]int{k.Key: http.StatusOK, k.Config: http.StatusUnauthorized, f[1]: http.StatusUnauthorized, "": http.StatusUnauthorized} {
		if status, said := r.ask(key, 1); status != want {
			t.Errorf("key %q: %d %s, want %d", key, status, said, want)
		}
	}
}
