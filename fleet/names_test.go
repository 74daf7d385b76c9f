package fleet

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		names Names
		name  string
		want  bool
	}{
		{nil, "llama", true},
		{nil, "", true},
		{Names{"llama"}, "llama", true},
		{Names{"llama"}, "Llama", false},
		{Names{"llama"}, "llama:adapter", false},
		{Names{"llama"}, "", false},
		{Names{"*"}, "", true},
		{Names{"*"}, "meta/llama", true},
		{Names{"embed-*", "llama*"}, "llama", true},
		{Names{"meta-llama/*"}, "meta-llama/Llama-3.1-8B", true},
		{Names{"*-8B"}, "meta-llama/Llama-8B-8B", true},
		{Names{"a*b*c"}, "aXbbXc", true},
		{Names{"a*b*c"}, "aXbbXcd", false},
		{Names{"**"}, "x", true},
		{Names{""}, "x", false},
		{Names{"[a]?"}, "[a]?", true},
		{Names{"[a]?"}, "ab", false},
	} {
		if got := tt.names.Has(tt.name); got != tt.want {
			t.Errorf("%q has %q: %v, want %v", tt.names, tt.name, got, tt.want)
		}
	}
}

// FuzzNames: a pattern means what the same regular expression means.
func FuzzNames(f *testing.F) {
	f.Add("embed-*", "embed-8b")
	f.Add("a*b*c", "abbc")
	f.Add("*", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || strings.Count(pattern, "*") > 20 {
			return
		}
		parts := strings.Split(pattern, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		want := regexp.MustCompile(`(?s)\A` + strings.Join(parts, `.*`) + `\z`).MatchString(name)
		if got := (Names{pattern}).Has(name); got != want {
			t.Errorf("%q, %q: %v, want %v", pattern, name, got, want)
		}
	})
}
