package starter_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/starter"
)

// commented is a setting that is not in force; other comments have one space before their text.
var commented = regexp.MustCompile(`^#(?:[a-z]|  )`)

// sections are the blocks of commented settings, and the file with each of them in force.
func sections(text string) map[string]string {
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if !commented.MatchString(lines[i]) {
			continue
		}
		changed, first := append([]string(nil), lines...), i
		for ; i < len(lines) && commented.MatchString(lines[i]); i++ {
			changed[i] = lines[i][1:]
		}
		if first > 0 && lines[first-1] == "endpoints: []" {
			changed[first-1] = "endpoints:"
		}
		out[changed[first]] = strings.Join(changed, "\n")
	}
	return out
}

// TestFile: the file is accepted, says nothing that is not the default, and stays accepted with any of its commented
// sections in force.
func TestFile(t *testing.T) {
	for name, endpoints := range map[string][]starter.Endpoint{
		"none": nil,
		"some": {
			{URL: "http://10.0.0.1:8000,weight=2,name=a"},
			{URL: `http://10.0.0.2:8000`, Kind: "vllm", Notes: []string{
				"It does not report cached tokens.", "  start it with: --enable-prompt-tokens-details",
			}},
			{URL: `http://10.0.0.3:8000`, Kind: "sglang", Ranks: 4},
			{URL: `http://10.0.0.4:8000`, Kind: "llamacpp", Slots: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := starter.File(endpoints)
			c, err := config.Parse("warmpath.yaml", []byte(text), nil)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if len(c.Endpoints) != len(endpoints) {
				t.Errorf("%d endpoints, want %d", len(c.Endpoints), len(endpoints))
			}
			c.Endpoints = nil
			if got, want := c.Hash(), config.Default().Hash(); got != want {
				t.Error("the file sets something to other than its default")
			}
			for line := range strings.Lines(text) {
				if n := len(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "sha256") {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			all := sections(text)
			if len(all) < 10 {
				t.Errorf("%d commented sections were found", len(all))
			}
			for section, text := range all {
				if _, err := config.Parse("warmpath.yaml", []byte(text), nil); err != nil {
					t.Errorf("with %q in force: %v", section, err)
				}
			}
		})
	}
}
