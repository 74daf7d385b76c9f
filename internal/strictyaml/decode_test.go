package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

type item struct {
	URL    string   `yaml:"url"`
	Weight *float64 `yaml:"weight"`
}

type settings struct {
	Name   string              `yaml:"name"`
	Count  int                 `yaml:"count"`
	Small  uint8               `yaml:"small"`
	Ratio  float64             `yaml:"ratio"`
	On     bool                `yaml:"on"`
	Wait   time.Duration       `yaml:"wait"`
	Words  []string            `yaml:"words"`
	Items  []item              `yaml:"items"`
	Table  map[string][]string `yaml:"table"`
	Inner  struct{ Deep item } `yaml:"-"`
	Nested item                `yaml:"nested"`
	Deep   *struct {
		Depth []struct {
			Odd int `yaml:"oddity"`
		} `yaml:"depth"`
	} `yaml:"deep"`
	Ignored string
}

var options = strictyaml.Options{Scalars: map[string]strictyaml.Scalar{
	"strictyaml_test.item": func(into any, text string) error {
		if text == "" {
			return errors.New("empty")
		}
		into.(*item).URL = text
		return nil
	},
}, Others: map[string]string{"number": "count"}}

func TestDecode(t *testing.T) {
	two := 2.0
	want := settings{
		Name: "a", Count: -3, Small: 255, Ratio: 0.5, On: true, Wait: 90 * time.Second, Words: []string{"x", "1"},
		Items: []item{{URL: "u"}, {URL: "v", Weight: &two}}, Table: map[string][]string{"*": {"m"}, "b.c": {"n", "o"}},
		Nested: item{URL: "kept"},
	}
	for name, text := range map[string]string{
		"block": "name: a\ncount: -3\nsmall: 255\nratio: .5\non: true\nwait: 1m30s\nwords: [x, 1]\nitems:\n- u\n" +
			"- url: v\n  weight: 2\ntable:\n  '*': m\n  b.c: [n, o]\n",
		"json": `{"name":"a","count":-3,"small":255,"ratio":0.5,"on":true,"wait":"1m30s","words":["x","1"],"items":["u",{"url":"v","weight":2}],"table":{"*":["m"],"b.c":["n","o"]}}`,
		"byte order mark": "\ufeffname: a\r\ncount: -3\r\nsmall: 255\r\nratio: .5\r\non: true\r\nwait: 90s\r\n" +
			"words: [x, 1]\r\nitems: [u, {url: v, weight: 2}]\r\ntable: {'*': m, b.c: [n, o]}\r\n",
		"alias": "name: &n a\ncount: -3\nsmall: 255\nratio: 0.5\non: true\nwait: 1m30s\nwords: [x, '1']\n" +
			"items: [u, {url: v, weight: 2}]\ntable: {'*': m, b.c: [n, o]}\nnested: ~\n",
		"shape": "---\n# a comment\nname: \"a\"\ncount: !!int -3\nsmall: 255\nratio: 5e-1\non: true\nwait: 90s\n" +
			"words: x, 1\nitems: [{url: u}, {weight: 2.0, url: v}]\ntable: {'*': [m], b.c: [n, o]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := settings{Nested: item{URL: "kept"}}
			if _, err := strictyaml.Decode("f.yaml", []byte(text), &got, options); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "name: null\n", "name:\n", "{}"} {
		got := settings{Name: "default", Count: 7}
		if _, err := strictyaml.Decode("f.yaml", []byte(text), &got, options); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got.Name != "default" || got.Count != 7 {
			t.Errorf("%q changed the defaults to %+v", text, got)
		}
	}
}

func TestDecodeFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "nmae: a", `f.yaml:1:1: unknown key "nmae"; did you mean "name"?`},
		{
			"unknown key below", "items:\n  - url: a\n    wieght: 1",
			`f.yaml:3:5: unknown key "wieght"; did you mean "weight"?`,
		},
		{
			"unknown key far from all", "nested: {zzzzzzzz: 1}",
			`f.yaml:1:10: unknown key "zzzzzzzz"; known here: url, weight`,
		},
		{
			"unknown key of a mapping below", "oddity: 1",
			`f.yaml:1:1: unknown key "oddity"; it belongs under "deep.depth"`,
		},
		{
			"unknown key of several mappings below", "url: 1",
			`f.yaml:1:1: unknown key "url"; known here: name, count, small, ratio, on, wait, words, items, table, ` +
				`nested, deep`,
		},
		{"another program's name", "Number: 1", `f.yaml:1:1: unknown key "Number"; here it is "count"`},
		{
			"an item that stands out", "items:\n- url: a\n weight: 2",
			"f.yaml:3:2: value is not allowed in this context: compare the indentation here and below, and quote a " +
				"text with \": \" in it",
		},
		{"no colon", "name a\ncount: 1", "f.yaml:1:1: a key is followed by a colon and a space"},
		{"twice", "name: a\ncount: 1\nname: b", `f.yaml:3:1: the key "name" is given twice, first in line 1`},
		{"number wanted", "count: many", `f.yaml:1:8: count: want a whole number, got "many"`},
		{"quoted number", "count: \"1\"", `f.yaml:1:8: count: want a whole number, got the text "1"`},
		{"fraction", "count: 1.5", `f.yaml:1:8: count: want a whole number, got "1.5"`},
		{"too large", "small: 256", `f.yaml:1:8: small: want a whole number, got "256"`},
		{"bool wanted", "on: 1", `f.yaml:1:5: on: want true or false, got "1"`},
		{"yes is no bool", "on: yes", `f.yaml:1:5: on: want true or false, got "yes"`},
		{"duration without unit", "wait: 5", `f.yaml:1:7: wait: want a duration such as "5s", got "5"`},
		{"text wanted", "name: [a]", `f.yaml:1:7: name: want a text, got a list`},
		{"list wanted", "items: {url: a}", `f.yaml:1:8: items: want a list, got a mapping; put "- " in front of it`},
		{"list wanted, one item", "items: a", `f.yaml:1:8: items: want a list, got the text "a"; write [a]`},
		{
			"list wanted, several lines", `items: "a\nb"`,
			`f.yaml:1:8: items: want a list, got the text "a\nb"; put "- " in front of it`,
		},
		{
			"list of mappings wanted", "deep: {depth: a}",
			`f.yaml:1:15: deep.depth: want a list, got the text "a"; an item has keys: oddity`,
		},
		{
			"mapping wanted", "nested: [a]",
			`f.yaml:1:9: nested: want a mapping of keys to values, got a list; its keys: url, weight`,
		},
		{
			"UTF-16", "\xff\xfen\x00a\x00m\x00e\x00:\x00 \x00a\x00",
			`f.yaml:1:1: the file is UTF-16, as PowerShell's > writes it; save it as UTF-8`,
		},
		{
			"root", "- a", `f.yaml:1:1: want a mapping of keys to values, got a list; its keys: name, count, small, ` +
				`ratio, on, wait, words, items, table, nested, deep`,
		},
		{
			"another program's file", strings.Repeat("server 10.0.0.1; ", 9),
			`f.yaml:1:1: want a mapping of keys to values, got the text "` + strings.Repeat("server 10.0.0.1; ", 5) +
				`server 10.0.0.1..."; its keys: name, count, small, ratio, on, wait, words, items, table, nested, deep`,
		},
		{"short form", "items: ['']", `f.yaml:1:9: items[0]: empty`},
		{"dangling alias", "name: *a", `f.yaml:1:7: name: the alias *a stands for nothing or for itself`},
		{"alias of the wrong type", "words: &w [*w]", `f.yaml:1:11: words[0]: want a text, got a list`},
		{
			"merge key", "nested: &n {url: a}\nitems:\n- <<: *n",
			`f.yaml:3:3: items[0]: merge keys (<<) are not supported; write the values out`,
		},
		{
			"another program's tag", "name: !env_var KEY",
			`f.yaml:1:7: name: the tag !env_var means nothing here; write the value itself`,
		},
		{
			"another program's tag at a mapping", "nested: !include {url: a}",
			`f.yaml:1:9: nested: the tag !include means nothing here; write the value itself`,
		},
		{
			"binary", "name: !!binary aGk=",
			`f.yaml:1:7: name: the tag !!binary means nothing here; write the value itself`,
		},
		{"two documents", "name: a\n---\nname: b", `f.yaml:3:1: a second document; one file holds one`},
		{"all at once", "nmae: a\ncount: x\non: 7", "f.yaml:1:1: unknown key \"nmae\"; did you mean \"name\"?\n" +
			"f.yaml:2:8: count: want a whole number, got \"x\"\nf.yaml:3:5: on: want true or false, got \"7\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got settings
			_, err := strictyaml.Decode("f.yaml", []byte(c.text), &got, options)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestSyntaxFaultsHavePlaces(t *testing.T) {
	for _, text := range []string{"a: [1", "{\"a\":", "items:\n\t- a", "name: \"a", "a: b: c"} {
		var got settings
		_, err := strictyaml.Decode("f.yaml", []byte(text), &got, options)
		if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want one line with a place", text, err)
		}
	}
}

// A few lines of aliases of aliases must not multiply without end.
func TestAliasesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("words: &w [" + strings.Repeat("a,", 1000) + "a]\ntable:\n")
	for i := range 300 {
		fmt.Fprintf(&text, "  k%d: *w\n", i)
	}
	var got settings
	_, err := strictyaml.Decode("f.yaml", []byte(text.String()), &got, options)
	if err == nil || !strings.Contains(err.Error(), "more than 250000 values") {
		t.Errorf("got %v, want the bound on values", err)
	}
}

// TestShapeIsBounded holds that texts whose parsing would take time and memory for the square of their length, or the
// whole stack, are refused before they are parsed, with the place.
func TestShapeIsBounded(t *testing.T) {
	many := strings.Repeat
	const n = 20_000
	for name, c := range map[string]struct{ text, want string }{
		"lists":                 {many("[", n), "f.yaml:1:101: values are nested"},
		"lists that end":        {"name: " + many("[", n) + many("]", n), "f.yaml:1:106: values are nested"},
		"mappings":              {many("{a: ", n), "f.yaml:1:401: values are nested"},
		"JSON":                  {many(`{"a":[`, n), "f.yaml:1:301: values are nested"},
		"dashes":                {many("- ", n), "f.yaml:1:201: values are nested"},
		"question marks":        {many("? ", n), "f.yaml:1:201: values are nested"},
		"question marks within": {"[" + many("? ", n), "directives, or tags and anchors"},
		"indented":              {steps(300), "f.yaml:101:102: values are nested"},
		"tags":                  {many("!a ", n), "directives, or tags and anchors"},
		"tags on lines":         {many("!a\n", n), "f.yaml:101:1: there are more than 100 directives, or tags"},
		"tags within":           {"a: [" + many("!a ", n), "directives, or tags and anchors"},
		"anchors":               {"a: " + many("&a ", n), "directives, or tags and anchors"},
		"directives":            {many("%YAML ", n), "directives, or tags and anchors"},
		"directives on lines":   {many("%YAML 1.2\n", n), "directives, or tags and anchors"},
		"keys":                  {many("k: 1\n", n), "f.yaml:10001:2: a mapping has more than 10000 keys"},
		"keys below": {
			"a:\n" + many("  k:\n    - 1\n", n), "f.yaml:20002:4: a mapping has more than 10000 keys",
		},
		"empty lines":         {"name: |\n" + many("\n", n), "empty lines in a row"},
		"empty lines of CR":   {"name: >\n" + many("\r", n), "empty lines in a row"},
		"empty lines of both": {"name: >\n" + many("\r\n", n), "empty lines in a row"},
		"values":              {"[" + many("1,", 1_500_000), "f.yaml:1: the file has too many values"},
		"words":               {many("- a\n", 1_500_000), "the file has too many values"},
	} {
		var got settings
		if _, err := strictyaml.Decode("f.yaml", []byte(c.text), &got, options); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.200v, want %q", name, err, c.want)
		}
	}
	for name, text := range map[string]string{
		"keys in braces": "{" + many("\"k\": 1,\n", 11_000) + "\"k\": 1}",
		"keys":           many("k: 1\n", 2_000),
		"levels":         steps(90),
		"flow levels":    many("[", 90) + many("]", 90),
		"tagged entries": many("- &a !!map {a: b, c: [d, e: f]}\n", 1_000),
		"empty lines":    many("- a\n\n\n", 2_000),
	} {
		if _, err := strictyaml.Parse("f.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// steps is a mapping of so many levels, each on a line of its own.
func steps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}

func TestPlaces(t *testing.T) {
	var got settings
	places, err := strictyaml.Decode("f.yaml", []byte("name: a\nitems:\n- url: b\n- c\nwords: 7x\n"), &got, options)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"items[0].url": "f.yaml:3:3: bad", "items[0].weight": "f.yaml:3:3: bad", "items[1]": "f.yaml:4:3: bad",
		"items[1].url": "f.yaml:4:3: bad", "items[9]": "f.yaml:2:1: bad", "nested.url": "f.yaml:1:1: bad",
	} {
		if got := places.Fault(path, errors.New("bad")).Error(); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if !places.Has("items[1].url") || places.Has("nested.url") {
		t.Error("Has does not tell what the file holds")
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"listen", "policy", "limits"}
	for got, want := range map[string]string{
		"polcy": "policy", "POLICY": "policy", "lisetn": "listen", "lim": "limits", "limit": "limits",
		"poilcy": "policy",
	} {
		if s := strictyaml.Suggest(got, names); s != fmt.Sprintf("; did you mean %q?", want) {
			t.Errorf("%s: %s, want %s", got, s, want)
		}
	}
	for _, got := range []string{"x", "zz", "zebra", "lime", "pol1tical", "", strings.Repeat("policy", 20)} {
		if s := strictyaml.Suggest(got, names); s != "; known here: listen, policy, limits" {
			t.Errorf("%s: %s, which it was not meant for", got, s)
		}
	}
	many := strings.Split("address bodies clients delays engines fleets grants hosts idles jokers keys limits marks",
		" ")
	for got, want := range map[string]string{"xylophone": "", "limts": `; did you mean "limits"?`} {
		if s := strictyaml.Suggest(got, many); s != want {
			t.Errorf("%s among many: %s, want %s", got, s, want)
		}
	}
	if s := strictyaml.Suggest("x", nil); s != "" {
		t.Errorf("no names: %q", s)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"name: a\nitems:\n- u\n- {url: v, weight: 2}\n", `{"a":[1,{"b":null}]}`, "x: &a [*a]", "<<: *x", "? a\n: b",
		"a: !!map {b: c}", "- - -", "name: |\n  x\n  y\n", "%YAML 1.2\n---\na: b", "{name: {}: 1}", "? {a: b}\n: c",
		"*a : b", "name: !x", "[*", "\"\": 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var out settings
		places, err := strictyaml.Decode("f", data, &out, options)
		if places == nil {
			t.Fatal("no places")
		}
		for _, e := range strictyaml.Sorted(err) {
			var fault *strictyaml.Fault
			if !errors.As(e, &fault) || e.Error() == "" {
				t.Fatalf("%v is not a Fault", e)
			}
		}
	})
}
