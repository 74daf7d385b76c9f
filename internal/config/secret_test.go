package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSecrets: each secret is given itself or in a file, and an empty or a short one is told with what to do.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": "\ufeff 0123456789abcdef\r\n", "short": "abc\n", "empty": " \n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Default()
	for _, s := range []secret{
		c.Admin.token(), c.Admin.readToken(), c.Lease.secret(), c.EndpointToken.secret(), c.Tenants.saltKey(),
		c.Record.secret(), c.Peers.secret(), c.TRTLLM.authKey(), c.TRTLLM.Cluster.token(),
	} {
		long := s.least > 1
		for file, want := range map[string]string{
			"good": "", "short": "must be 16 or more: make one by", "empty": "is empty", "none": "no such file",
		} {
			s.file = filepath.Join(dir, file)
			got, err := s.read()
			switch {
			case file == "good" || file == "short" && !long:
				if err != nil || !slices.Contains([]string{"0123456789abcdef", "abc"}, got) {
					t.Errorf("%s, %s: %q, %v", s.path, file, got, err)
				}
			case err == nil || got != "" || !strings.HasPrefix(err.Error(), s.path+"_file: ") ||
				!strings.Contains(err.Error(), want):
				t.Errorf("%s, %s: %q, %v, want %s", s.path, file, got, err, want)
			}
		}
		s.given = "abc"
		key := s.path[strings.LastIndex(s.path, ".")+1:]
		if f := s.check(); len(f) != 1 ||
			!strings.Contains(f[0].Error(), s.path+": give "+key+" or "+key+"_file, not both") {
			t.Errorf("%s in both: %v", s.path, f)
		}
		s.file = ""
		if f := s.check(); len(f) == 1 != long {
			t.Errorf("%s of three bytes: %v", s.path, f)
		}
	}
}

// TestSecretsOfTheEnvironment: a secret in the environment, or the name of its file there, takes the place of what the
// file says in either way. Who gives both in the environment is told.
func TestSecretsOfTheEnvironment(t *testing.T) {
	pairs := 0
	all := Variables()
	for _, path := range all {
		file := append(slices.Clone(path[:len(path)-1]), path[len(path)-1]+"_file")
		if _, is := all[Variable(file)]; !is {
			continue
		}
		pairs++
		yaml := func(path []string) string {
			return strings.Join(path, ": {") + ": given" + strings.Repeat("}", len(path)-1)
		}
		for _, tt := range []struct {
			text string
			env  []string
			both bool
		}{
			{yaml(file), []string{Variable(path) + "=0123456789abcdef0123456789abcdef"}, false},
			{yaml(path), []string{Variable(file) + "=/none"}, false},
			// looked at with peers only
			{
				"",
				[]string{Variable(path) + "=0123456789abcdef0123456789abcdef", Variable(file) + "=/none"},
				!slices.Equal(path, []string{"peers", "secret"}),
			},
		} {
			_, err := Parse("f", []byte(tt.text), tt.env)
			if told := err != nil && strings.Contains(err.Error(), strings.Join(path, ".")+": give "); told != tt.both {
				t.Errorf("%s with %q: %v", tt.text, tt.env, err)
			}
		}
	}
	if pairs < 5 {
		t.Errorf("only %d secrets can be given in a file", pairs)
	}
}
