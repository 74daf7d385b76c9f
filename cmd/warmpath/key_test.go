package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestCheckTellsKeys: check says how many keys there are, and whether clients need one.
func TestCheckTellsKeys(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	for _, c := range []struct{ text, want string }{
		{
			"{api_keys: [{tenant: a, key: k1}]}",
			"1, tenants: 1; clients without a key are served too (tenants.required: true refuses them)\n",
		},
		{
			"{required: true, api_keys: [{tenant: a, key: k1}, {tenant: b, key: k2, models: [m], ends: 2020-01-31}]}",
			"2, tenants: 2, for some models only: 1, ended: 1\n",
		},
	} {
		if err := os.WriteFile(file, []byte("endpoints: [http://a:1]\ntenants: "+c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		code := Main(t.Context(), []string{"check", "-c", file}, nil, nil, &out, &said)
		if code != exitOK || !strings.Contains(out.String(), "keys       "+c.want) {
			t.Errorf("%s: code %d: %s%s; want %q", c.text, code, &out, &said, c.want)
		}
	}
}

// TestKey: a key is let in by the form that is printed for the configuration, and by nothing else that is printed; no
// two are the same.
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
	for key, want := range map[string]int{
		k.Key: http.StatusOK, k.Config: http.StatusUnauthorized, f[1]: http.StatusUnauthorized,
		"": http.StatusUnauthorized,
	} {
		if status, said := r.ask(key, 1); status != want {
			t.Errorf("key %q: %d %s, want %d", key, status, said, want)
		}
	}
}

// TestKeyIsAdded: a key is added to any file of keys that a router takes, which keeps what it has.
func TestKeyIsAdded(t *testing.T) {
	t.Parallel()
	old := "key: \"sha256:" + strings.Repeat("0", 64) + "\", tenant: green"
	for before, keeps := range map[string]string{
		"":                                 "",
		"api_keys: []":                     "",
		"api_keys: [ ] # none yet\n":       "# none yet",
		"# ours\napi_keys: []\n\n":         "# ours",
		"api_keys:\n- {" + old + "}\n":     "green",
		"api_keys:\n  - {" + old + "}":     "green",
		"api_keys:\n    - {" + old + "}\n": "green",
		"api_keys:\n# first\n- key: \"sha256:" + strings.Repeat("1", 64) + "\"\n  tenant: green\n": "# first",
	} {
		file := filepath.Join(t.TempDir(), "keys.yaml")
		if err := os.WriteFile(file, []byte(before), 0o640); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			var out, said bytes.Buffer
			if code := Main(t.Context(), []string{
				"key", "--tenant", "blue", "--file", file,
			}, nil, nil, &out, &said); code != exitOK {
				t.Errorf("%q: code %d: %s", before, code, said.String())
				break
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			keys, err := config.DecodeKeys(file, text)
			want := n + 1 + strings.Count(before, "green")
			if err != nil || len(keys) != want || !strings.Contains(string(text), keeps) {
				t.Errorf("%q became %q: %d keys, %v; want %d", before, text, len(keys), err, want)
			}
		}
		if s, err := os.Stat(file); err != nil || s.Mode().Perm() != 0o640 {
			t.Errorf("%v %v", s.Mode(), err)
		}
	}
}

const keysInFile = `
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
reload: {watch: true}
probe: {interval: 50ms, load_interval: 50ms, timeout: 2m}
tenants: {keys_file: '%s', required: true}
endpoints: ['%s']
`

// TestKeysFile: a key that is added to the file is good without a restart, also where Kubernetes swaps a link; a
// version with faults keeps the keys of before and is told; keys are listed with when they were used.
func TestKeysFile(t *testing.T) {
	t.Parallel()
	run := func(code int, args ...string) string {
		t.Helper()
		var out, said bytes.Buffer
		if got := Main(t.Context(), append([]string{"key"}, args...), nil, nil, &out, &said); got != code {
			t.Fatalf("%q: code %d: %s", args, got, said.String())
		}
		return out.String() + said.String()
	}
	dir := t.TempDir()
	volume := func(name string) string { return filepath.Join(dir, name, "keys.yaml") }
	for _, name := range []string{"v1", "v2", "v3"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	swap := func(to string) {
		t.Helper()
		next := filepath.Join(dir, "..next")
		if err := os.Symlink(to, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	made := func(file string, args ...string) string {
		t.Helper()
		var k newKey
		if err := json.Unmarshal([]byte(run(exitOK, append([]string{"--json", "--file", file}, args...)...)),
			&k); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), k.Key) ||
			!strings.Contains(string(text), k.Line) {
			t.Fatalf("%v: %s", err, text)
		}
		return k.Key
	}
	file := filepath.Join(dir, "keys.yaml")
	one := made(file, "--tenant", "blue", "--models", "m", "--name", "the first")
	_, engine := simEngine(t, enginetest.Options{Models: []string{"m"}, Speed: 20})
	r := newFileRig(t, fmt.Sprintf(keysInFile, file, engine))
	good := func(key string, want int) {
		t.Helper()
		settled(func() bool { status, _ := r.ask(key, 1); return status == want })
		if status, said := r.ask(key, 1); status != want {
			t.Fatalf("%d %s, want %d", status, said, want)
		}
	}
	good(one, 200)
	two := made(file, "--tenant", "blue", "--models", "other") // added to the file itself
	good(two, 404)
	if err := os.Rename(file, volume("v1")); err != nil {
		t.Fatal(err)
	}
	swap("v1")
	if err := os.Symlink("..data/keys.yaml", file); err != nil {
		t.Fatal(err)
	}
	three := made(volume("v2"), "--tenant", "green", "--ends", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	four := made(volume("v2"), "--tenant", "green", "--ends", "90d")
	swap("v2")
	good(four, 200)
	good(three, 401)
	good(one, 401)

	if err := os.WriteFile(volume("v3"), []byte("api_keys:\n- {tenant: red, key: wp-told}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	swap("v3")
	settled(func() bool { return r.stats().Fault != "" })
	if fault := r.stats().Fault; !strings.Contains(fault, "keys.yaml:2:17") || strings.Contains(fault, "wp-told") {
		t.Errorf("the fault is told as %q", fault)
	}
	good(four, 200)
	if said := run(exitUsage, "--tenant", "a", "--file", volume("v3")); !strings.Contains(said, "keys.yaml:2:17") {
		t.Errorf("a line is added to a file with faults: %s", said)
	}

	list := run(exitOK, "--list", "--admin", r.adminURL)
	lines := strings.Split(strings.TrimSpace(list), "\n")
	if len(lines) != 3 || strings.Contains(lines[1], " -") || !strings.Contains(lines[2], "over") ||
		!strings.HasSuffix(strings.TrimSpace(lines[2]), "-") {
		t.Errorf("the key that was used comes first, the one that has ended never was:\n%s", list)
	}
	if list := run(exitOK, "--list", "--tenant", "red", "--json", "--admin", r.adminURL); !strings.Contains(list,
		`"keys":[]`) {
		t.Errorf("of another tenant: %s", list)
	}
	for _, args := range [][]string{
		{"--list", "--ends", "1d"},
		{"--name", "x"},
		{"--tenant", "a", "--ends", "soon"},
		{"--tenant", "a\nb"},
		{"--tenant", "a", "--models", ""},
	} {
		run(exitUsage, args...)
	}
}
