package prompt

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sameListed compares what is exported.
func sameListed(a, b Listed) bool {
	return a.Bytes == b.Bytes && a.Whole == b.Whole && a.IDs == b.IDs && slices.Equal(a.Blocks, b.Blocks)
}

// Each prompt of a list has the blocks that it has in a request of its own; the first MaxListed of them.
func TestList(t *testing.T) {
	long := func(s string) string { return `"` + strings.Repeat(s, 300) + `"` }
	ids := func(from, n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprint(from+i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for _, tt := range []struct {
		name    string
		api     API
		field   string
		prompts []string
	}{
		{"texts", Completions, "prompt", []string{long("a"), long("b"), `"c"`, `""`}},
		{"texts with escapes", Completions, "prompt", []string{long(`\u00e9`), long(`\n`)}},
		{"ids", Completions, "prompt", []string{ids(1, 100), ids(7, 33), ids(1, 100)}},
		{"texts of generate", Generate, "text", []string{long("a"), long("b")}},
		{"ids of generate", Generate, "input_ids", []string{ids(1, 100), ids(7, 33)}},
		{"more than are looked at", Completions, "prompt", slices.Repeat([]string{long("a"), long("b")}, MaxListed)},
		{"one", Completions, "prompt", []string{long("a")}},
		{"one of ids", Completions, "prompt", []string{ids(1, 100)}},
		{"what is no prompt", Completions, "prompt", []string{long("a"), "null", `{"a":1}`, "true", "[]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkList(t, tt.api, tt.field, tt.prompts)
		})
	}
}

func checkList(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, api API, field string, prompts []string,
) {
	t.Helper()
	var p Parser
	var c, alone Chain
	body := `{"` + field + `":[` + strings.Join(prompts, ",") + `]}`
	if _, err := p.ParseChain(api, []byte(body), nil, &c); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	want := min(len(prompts), MaxListed)
	if len(prompts) < 2 {
		want = 0
	}
	if c.Prompts != len(prompts) || len(c.List) != want {
		t.Fatalf("%d prompts, %d in the list, want %d in %d", c.Prompts, len(c.List), len(prompts), want)
	}
	for i := range c.List {
		if _, err := p.ParseChain(api, []byte(`{"`+field+`":`+prompts[i]+`}`), nil, &alone); err != nil {
			t.Fatalf("%s: %v", prompts[i], err)
		}
		whole := alone.Whole
		wantIDs, _ := alone.TokenIDs(nil, 1<<20)
		if prompts[i] == "[]" || prompts[i][0] != '[' && prompts[i][0] != '"' { // alone it may be written otherwise
			alone.Reset()
			whole = 0
		}
		gotIDs, _ := c.ListedIDs(i, nil, 1<<20)
		if !sameListed(c.List[i], Listed{Blocks: alone.Blocks, Bytes: alone.Bytes, Whole: whole, IDs: len(wantIDs)}) ||
			!slices.Equal(gotIDs, wantIDs) {
			t.Fatalf("prompt %d is %+v with ids %v, alone it has %d bytes, blocks %x, ids %v",
				i, c.List[i], gotIDs, alone.Bytes, alone.Blocks, wantIDs)
		}
	}
}

func TestListOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			if rapid.Bool().Draw(t, "ids") {
				list, _ := json.Marshal(rapid.SliceOfN(rapid.Uint32Range(0, 200_000), 1, 200).Draw(t, "list"))
				return string(list)
			}
			text, _ := json.Marshal(rapid.StringN(0, 600, -1).Draw(t, "text"))
			return string(text)
		}), 1, 20).Draw(t, "prompts")
		checkList(t, Completions, "prompt", prompts)
	})
}
