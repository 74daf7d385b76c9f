package tokenizer

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The fixtures of this package are made by testdata/make.py with Hugging Face's own libraries.

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type golden struct {
	Texts   []string              `json:"texts"`
	Plain   map[string][][]int32  `json:"plain"`
	Special map[string][]int32    `json:"special"`
	Pieces  map[string][][]string `json:"pieces"`
}

// writeModel puts the directory of a model there, and returns its path. linesOfMerges writes them the old way.
func writeModel(t testing.TB, name string, linesOfMerges bool, more map[string]string) string {
	t.Helper()
	var model map[string]any
	var variants map[string]map[string]json.RawMessage
	readJSON(t, "model.json", &model)
	readJSON(t, "variants.json", &variants)
	v, ok := variants[name]
	if !ok {
		t.Fatalf("no variant %s", name)
	}
	if v["ignore_merges"] != nil {
		model["ignore_merges"] = v["ignore_merges"]
	}
	if linesOfMerges {
		merges := model["merges"].([]any)
		for i, m := range merges {
			pair := m.([]any)
			merges[i] = pair[0].(string) + " " + pair[1].(string)
		}
	}
	file := map[string]any{"version": "1.0", "model": model}
	for _, key := range []string{"added_tokens", "normalizer", "pre_tokenizer", "post_processor"} {
		file[key] = v[key]
	}
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]string{"tokenizer.json": string(b)}
	if v["config"] != nil {
		files["tokenizer_config.json"] = string(v["config"])
	}
	maps.Copy(files, more)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(writeModel(t, name, false, nil))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestEncodeAsTheReferenceDoes(t *testing.T) {
	var g golden
	readJSON(t, "golden.json", &g)
	for _, name := range slices.Sorted(maps.Keys(g.Plain)) {
		t.Run(name, func(t *testing.T) {
			for _, lines := range []bool{false, true} {
				tok, err := Load(filepath.Join(writeModel(t, name, lines, nil), "tokenizer.json"))
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // once from the merges, once from the cache
					for i, text := range g.Texts {
						if got, want := tok.Encode(text, false), g.Plain[name][i]; !slices.Equal(got, want) {
							t.Errorf("%q\n got  %v\n want %v", text, got, want)
						}
					}
				}
				if got, want := tok.Encode("Hello world", true), g.Special[name]; !slices.Equal(got, want) {
					t.Errorf("with special tokens: got %v, want %v", got, want)
				}
			}
		})
	}
}

func TestSplitAsTheReferenceDoes(t *testing.T) {
	var g golden
	readJSON(t, "golden.json", &g)
	patterns := map[string]string{
		"gpt2": patternGPT2, "cl100k": patternCL100K, "qwen2": patternQwen2, "qwen35": patternQwen35,
		"o200k": patternO200K, "tekken": patternTekken,
		"three": patternThree, "cjk": patternCJK, "deepseek": patternDeepSeek,
	}
	for _, name := range slices.Sorted(maps.Keys(g.Pieces)) {
		split := splitters[canonical(patterns[name])].split
		for i, text := range g.Texts {
			if got, want := pieces(split, text), g.Pieces[name][i]; !slices.Equal(got, want) {
				t.Errorf("%s: %q\n got  %q\n want %q", name, text, got, want)
			}
		}
	}
}

func pieces(split splitter, s string) []string {
	out := []string{}
	for len(s) > 0 {
		n := split(s)
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}
