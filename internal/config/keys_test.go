package config

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
)

// hashOf is a key as its file has it.
func hashOf(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }

// TestKeyLines: what warmpath key writes is read as it was meant.
func TestKeyLines(t *testing.T) {
	all := []TenantKey{
		{Key: hashOf("a"), Tenant: "blue"},
		{Key: hashOf("b"), Tenant: `gr"een: [x], #`, Name: "Ä's key", Models: fleet.Names{"llama-*", "meta/llama: 8b"}},
		{Key: hashOf("c"), Tenant: "red", Ends: Moment{time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC)}},
	}
	text := "api_keys:\n"
	for _, k := range all {
		text += k.Line()
	}
	got, err := DecodeKeys("keys.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Error(diff)
	}
}

// TestKeysFileFaults: each fault has its place, and none tells a key.
func TestKeysFileFaults(t *testing.T) {
	good := `{tenant: a, key: "` + hashOf("k") + `"}`
	for _, tt := range []struct{ text, want string }{
		{"", `k:1: no keys; the file needs a list under the key "api_keys"`},
		{"api_keys:\n", `no keys`},
		{"keys: []\n", `k:1:1: unknown key "keys"; did you mean "api_keys"?`},
		{
			"api_keys:\n- {tenant: a, key: wp-secret}\n",
			`k:2:15: api_keys[0].key: must be "sha256:" and the key's SHA-256`,
		},
		{"api_keys:\n- wp-secret\n", `k:2:3: api_keys[0]: want a mapping such as {tenant`},
		{
			"api_keys:\n- " + good + "\n- {tenant: b, key: \"" + hashOf("k") + "\"}\n",
			`k:3:3: api_keys[1]: the key of "a" is given to "b" too`,
		},
		{"api_keys:\n- {key: \"" + hashOf("k") + "\"}\n", `k:2:3: api_keys[0].tenant: must be 1 to 128 bytes`},
		{"api_keys:\n- {tenant: a, key: \"sha256:abc\"}\n", `k:2:3: api_keys[0]: needs either key or sha256`},
		{"api_keys:\n- {tenant: a, key: \"" + hashOf("k") + "\", models: []}\n", `is an empty list`},
		{"api_keys:\n- {tenant: a, key: \"" + hashOf("k") + "\", ends: soon}\n", `want a time such as`},
		{"api_keys:\n- " + good + "\n  bad: [\n", `k:`},
		{"api_keys:\n" + strings.Repeat("- "+good+"\n", mostKeys+1), `10001 keys, must be 10000 or fewer`},
	} {
		_, err := DecodeKeys("k", []byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.80q: got %.200v, want %s", tt.text, err, tt.want)
		} else if strings.Contains(err.Error(), "wp-secret") {
			t.Errorf("the key is told: %v", err)
		}
	}
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, KeysFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Default()
	for file, want := range map[string]string{big: "is larger than 4 MiB", big + ".none": "no such file"} {
		c.Tenants.KeysFile = file
		if err := c.CheckFiles(discovery.Keys{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestKeysOfBoth: the keys of the file are added to those of the configuration, and none may be in both.
func TestKeysOfBoth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	c, err := Parse("f",
		[]byte("tenants: {required: true, keys_file: '"+file+"', api_keys: [{tenant: a, key: ka}]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"api_keys: []": "",
		"api_keys:\n" + (TenantKey{Key: hashOf("kb"), Tenant: "b", Models: fleet.Names{"m"}}).Line(): "b",
		"api_keys:\n" + (TenantKey{Key: hashOf("ka"), Tenant: "a"}).Line():                           "!",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := c.Tenants.Keys()
		switch {
		case want == "!":
			if err == nil || !strings.Contains(err.Error(), "in tenants.api_keys too") {
				t.Errorf("%q: %v", text, err)
			}
		case err != nil || keys[sha256.Sum256([]byte("ka"))].Tenant != "a" ||
			keys[sha256.Sum256([]byte("kb"))].Tenant != want:
			t.Errorf("%q: %v, %v", text, keys, err)
		}
	}
}

// TestMoments: an end is a time, or a day.
func TestMoments(t *testing.T) {
	for text, want := range map[string]string{
		"2027-01-31":                "2027-01-31T00:00:00Z",
		"2027-01-31T18:00:00+02:00": "2027-01-31T16:00:00Z",
		"31.1.2027":                 "",
		"":                          "",
	} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); (err != nil) != (want == "") || m.String() != want {
			t.Errorf("%q: %q, %v", text, m, err)
		}
	}
}

// FuzzKeysFile: whatever a file of keys says, what is read of it can be written and read again as it is, and is a hash.
func FuzzKeysFile(f *testing.F) {
	f.Add([]byte("api_keys:\n" + (TenantKey{
		Key: hashOf("k"), Tenant: "t", Name: "n", Models: fleet.Names{"m*"}, Ends: Moment{time.Unix(2e9, 0).UTC()},
	}).Line()))
	f.Add([]byte(`{"api_keys":[{"tenant":"a","sha256":"` + strings.Repeat("0", 64) + `","ends":"2027-01-01"}]}`))
	f.Add([]byte("api_keys: [wp-secret]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := DecodeKeys("f", data)
		if err != nil {
			return
		}
		text := "api_keys:\n"
		for _, k := range keys {
			if !k.hashed() || k.Tenant == "" {
				t.Fatalf("%+v", k)
			}
			sum, _ := k.sum()
			k.Key, k.SHA256 = fmt.Sprintf("sha256:%x", sum), ""
			text += k.Line()
		}
		if len(keys) == 0 {
			return
		}
		again, err := DecodeKeys("f", []byte(text))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%q: %v", text, err)
		}
		for i := range keys {
			if again[i].Tenant != keys[i].Tenant || again[i].Name != keys[i].Name ||
				!cmp.Equal(again[i].Models, keys[i].Models) || !again[i].Ends.Equal(keys[i].Ends.Time) {
				t.Fatalf("%+v became %+v", keys[i], again[i])
			}
		}
	})
}
