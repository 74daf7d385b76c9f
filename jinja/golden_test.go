package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// golden is what Jinja2, with the settings of transformers, makes of templates (testdata/make.py).
type golden struct {
	Vars  json.RawMessage `json:"vars"`
	Cases []struct {
		Template string  `json:"template"`
		Text     *string `json:"text"`
		Error    string  `json:"error"`
	} `json:"cases"`
}

func readGolden(t testing.TB) golden {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "expressions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func variables(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	v, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	d := v.(*Dict)
	out := map[string]any{}
	for i := range d.Len() {
		key, value := d.At(i)
		out[key.(string)] = value
	}
	return out
}

// refused are templates that Jinja renders and this package does not: each is an error that says so.
var refused = map[string]string{
	"{{ s | wordwrap(5) }}":        `the filter "wordwrap" is not supported`,
	"{{ 'x' | urlencode }}":        `the filter "urlencode" is not supported`,
	"{{ d.items }}":                "cannot be printed",
	"{{ 10 ** 30 }}":               "too large",
	"{% block b %}x{% endblock %}": `the statement "block" is not supported`,
	"{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, x=2) }}": "more than it takes",
}

func TestAsJinjaDoes(t *testing.T) {
	g := readGolden(t)
	for _, c := range g.Cases {
		got := ""
		tpl, err := Parse(c.Template)
		if err == nil {
			got, err = tpl.Render(variables(t, g.Vars), time.Now(), DefaultBudget())
		}
		switch {
		case refused[c.Template] != "":
			if err == nil || !strings.Contains(err.Error(), refused[c.Template]) {
				t.Errorf("%s\n got  %q, %v\n want the error %s", c.Template, got, err, refused[c.Template])
			}
		case c.Text == nil:
			if err == nil {
				t.Errorf("%s\n got  %q\n want the error %s", c.Template, got, c.Error)
			}
		case err != nil:
			t.Errorf("%s\n error %v\n want %q", c.Template, err, *c.Text)
		case got != *c.Text:
			t.Errorf("%s\n got  %q\n want %q", c.Template, got, *c.Text)
		}
	}
}
