package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecrets: each secret is given itself or in a file, and an empty or a short one is told with what to do.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": " 0123456789abcdef\n", "short": "abc\n", "empty": " \n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Default()
	for _, s := range []secret{
		c.Admin.token(), c.Admin.readToken(), c.Lease.secret(), c.EndpointToken.secret(), c.Tenants.saltKey(), c.Record.secret(), c.Peers.secret(),
		c.TRTLLM.authKey(), c.TRTLLM.Cluster.token(),
	} {
		long := s.least > 1
		for file, want := range map[string]string{"good": "", "short": "must be 16 or more: make one by", "empty": "is empty", "none": "no such file"} {
			s.file = filepath.Join(dir, file)
			got, err := s.read()
			switch {
			case file == "good" || file == "short" && !long:
				if err != nil || strings.TrimSpace(got) != got || got == "" {
					t.Errorf("%s, %s: %q, %v", s.path, file, got, err)
				}
			case err == nil || got != "" || !strings.HasPrefix(err.Error(), s.path+"_file: ") || !strings.Contains(err.Error(), want):
				t.Errorf("%s, %s: %q, %v, want %s", s.path, file, got, err, want)
			}
		}
		s.given = "abc"
		key := s.path[strings.LastIndex(s.path, ".")+1:]
		if f := s.check(); len(f) != 1 || !strings.Contains(f[0].Error(), s.path+": give "+key+" or "+key+"_file, not both") {
			t.Errorf("%s in both: %v", s.path, f)
		}
		s.file = ""
		if f := s.check(); len(f) == 1 != long {
			t.Errorf("%s of three bytes: %v", s.path, f)
		}
	}
}
