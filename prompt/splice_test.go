package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/prompt/jsonscan"
)

func TestSetFields(t *testing.T) {
	rows := []struct {
		name, body string
		edit       func(p *Prompt) []Edit
		want       string
	}{
		{
			"replace", `{"model" : "a" ,"x":1}`,
			func(p *Prompt) []Edit { return []Edit{p.SetModel("b\"c")} },
			`{"model" : "b\"c" ,"x":1}`,
		},
		{
			"insert", `{ "x":12345678901234567890}`,
			func(p *Prompt) []Edit { return []Edit{p.SetModel("b")} },
			`{"model":"b", "x":12345678901234567890}`,
		},
		{
			"insert into nothing", `{ }`,
			func(p *Prompt) []Edit { return []Edit{p.SetField("id_slot", []byte("3"))} },
			`{"id_slot":3 }`,
		},
		{
			"two into nothing", `{}`,
			func(p *Prompt) []Edit {
				return []Edit{p.SetField("id_slot", []byte("3")), p.SetModel("m")}
			},
			`{"id_slot":3,"model":"m"}`,
		},
		{
			"two into something, one replaced, given backwards", `{"x":1,"model":"a"}`,
			func(p *Prompt) []Edit {
				return []Edit{
					p.SetModel("m"), p.SetField("routed_dp_rank", []byte("1")), p.SetField("cache_salt", []byte(`"s"`)),
				}
			},
			`{"routed_dp_rank":1,"cache_salt":"s","x":1,"model":"m"}`,
		},
		{
			"both of two", `{"model":"a","x":{"model":"a"},"mod\u0065l" : "b"}`,
			func(p *Prompt) []Edit { return []Edit{p.SetModel("c")} },
			`{"model":"c","x":{"model":"a"},"mod\u0065l" : "c"}`,
		},
		{
			"three of three, set twice",
			`{"kv_transfer_params":{"a":1},"kv_transfer_params":null,"x":1,"kv_transfer_params":{"b":2}}`,
			func(p *Prompt) []Edit {
				return []Edit{
					p.SetField("kv_transfer_params", []byte("1")), p.SetModel("m"),
					p.SetField("kv_transfer_params", []byte("2")),
				}
			},
			`{"model":"m","kv_transfer_params":2,"kv_transfer_params":2,"x":1,"kv_transfer_params":2}`,
		},
		{
			"a null", `{"model":null}`,
			func(p *Prompt) []Edit { return []Edit{p.SetModel("c")} },
			`{"model":"c"}`,
		},
		{
			"an escaped name", `{"mode\u006c":"a"}`,
			func(p *Prompt) []Edit { return []Edit{p.SetModel("c")} },
			`{"mode\u006c":"c"}`,
		},
		{
			"usage, no options", `{"a":1}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage":true},"a":1}`,
		},
		{
			"usage, null options", `{"stream_options":null}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage":true}}`,
		},
		{
			"usage, empty options", `{"stream_options":{}}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage":true}}`,
		},
		{
			"usage, other options", `{"stream_options":{"continuous_usage_stats":true}}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		},
		{
			"usage, false", `{"stream_options":{"include_usage": false,"x":1}}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage": true,"x":1}}`,
		},
		{
			"usage, options twice", `{"stream_options":{"include_usage":true},"stream_options":[]}`,
			func(p *Prompt) []Edit { return []Edit{p.SetIncludeUsage()} },
			`{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`,
		},
	}
	parser := newParser(t)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p, err := parser.Parse(Chat, []byte(row.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			edits := row.edit(&p)
			if got := string(Splice([]byte("> "), []byte(row.body), edits...)); got != "> "+row.want {
				t.Errorf("got  %s\nwant > %s", got, row.want)
			}
		})
	}
}

func TestOurOwnMistakesPanic(t *testing.T) {
	panics := func(name string, f func()) {
		defer func() {
			if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "prompt: ") {
				t.Errorf("%s: recovered %v", name, r)
			}
		}()
		f()
	}
	body := []byte(`{"model":"a"}`)
	panics("overlap", func() {
		Splice(nil, body, Edit{At: jsonscan.Span{Start: 1, End: 5}}, Edit{At: jsonscan.Span{Start: 4, End: 6}})
	})
	panics("backwards", func() { Splice(nil, body, Edit{At: jsonscan.Span{Start: 5, End: 4}}) })
	panics("outside", func() { Splice(nil, body, Edit{At: jsonscan.Span{Start: 5, End: len(body) + 1}}) })
	panics("unknown member", func() { (&Prompt{}).Field("tools") })
	panics("no object", func() { (&Prompt{}).SetModel("x") })
}

// The caller's edits stay in their order.
func TestSpliceLeavesEditsAlone(t *testing.T) {
	edits := []Edit{
		{At: jsonscan.Span{Start: 3, End: 4}, With: []byte("x")},
		{At: jsonscan.Span{Start: 0, End: 1}, With: []byte("y")},
	}
	if got := string(Splice(nil, []byte("abcdef"), edits...)); got != "ybcxef" || edits[0].At.Start != 3 {
		t.Errorf("got %s, edits %v", got, edits)
	}
}

// TestRepeatedMembers: a body that repeats members too often is rejected, and Peek gives it no positions to edit.
func TestRepeatedMembers(t *testing.T) {
	parser := newParser(t)
	body := func(n int) []byte { return []byte(`{"x":1` + strings.Repeat(`,"n":1`, n) + `}`) }
	if _, err := parser.Parse(Chat, body(maxEarlier+1), nil); err != nil {
		t.Error(err)
	}
	if _, err := parser.Parse(Chat, body(maxEarlier+2), nil); !errors.Is(err, ErrRepeated) {
		t.Errorf("got %v, want %v", err, ErrRepeated)
	}
	if p, err := parser.Peek(body(maxEarlier+2), nil); p.InsertAt != 0 || !errors.Is(err, ErrRepeated) {
		t.Errorf("got %+v", p)
	}
}

// For any body, splicing changes the named members and no other byte: removing what was inserted restores the body, and
// the result has those members set.
func TestSpliceKeepsTheRest(t *testing.T) {
	parser := newParser(t)
	rapid.Check(t, func(t *rapid.T) {
		checkSplice(t, parser, drawObject(t), rapid.String().Draw(t, "model"))
	})
}

// TestSetTwice: for any sequence of edits nothing panics, each member has the value set last, and a member replaced as
// a whole loses what was set in it.
func TestSetTwice(t *testing.T) {
	parser := newParser(t)
	names := []string{"model", "stream_options", "kv_transfer_params", "disaggregated_params", "id_slot", "stream"}
	objects := rapid.Custom(drawObject).Filter(func(body []byte) bool {
		p, _ := parser.Peek(body, nil)
		return p.InsertAt > 0
	})
	rapid.Check(t, func(t *rapid.T) {
		body := objects.Draw(t, "body")
		p, _ := parser.Peek(body, nil)
		var edits []Edit
		want, usage := map[string]string{}, false
		for i := range rapid.IntRange(1, 8).Draw(t, "edits") {
			if rapid.Bool().Draw(t, "usage") {
				edits, usage = append(edits, p.SetIncludeUsage()), true
				continue
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			want[name] = strconv.Itoa(i)
			edits = append(edits, p.SetField(name, []byte(want[name])))
		}
		out := Splice(nil, body, edits...)
		if pieces := bytes.Join(Pieces(body, edits...), nil); !bytes.Equal(pieces, out) {
			t.Fatalf("in pieces %q, spliced %q", pieces, out)
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q became %q: %v", body, out, err)
		}
		for name, value := range want {
			if got := string(after[name]); got != value && (name != "stream_options" || !usage) {
				t.Fatalf("%q: %s is %s, want %s", out, name, got, value)
			}
		}
		if _, whole := want["stream_options"]; usage && !whole && !bytes.Contains(after["stream_options"],
			[]byte(`"include_usage":true`)) && !bytes.Contains(after["stream_options"], []byte("true")) {
			t.Fatalf("%q: usage is not asked for", out)
		}
		if n := strings.Count(string(out), `"kv_transfer_params"`); n > 1 {
			t.Fatalf("%q: a member stands there %d times", out, n)
		}
	})
}

// failer is the common part of rapid and testing.
type failer interface{ Fatalf(string, ...any) }

func checkSplice(t failer, parser *Parser, body []byte, model string) {
	p, _ := parser.Peek(body, nil)
	if p.InsertAt == 0 {
		return
	}
	out := Splice(nil, body, p.SetModel(model), p.SetIncludeUsage(), p.SetField("id_slot", []byte("3")))
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(body, &before); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatalf("%q became %q: %v", body, out, err)
	}
	var name string
	var options map[string]any
	wantName := string([]rune(model))
	if err := json.Unmarshal(after["model"], &name); err != nil || name != wantName {
		t.Fatalf("%q: model %q, want %q (%v)", out, name, wantName, err)
	}
	if err := json.Unmarshal(after["stream_options"], &options); err != nil || options["include_usage"] != true {
		t.Fatalf("%q: stream_options %v (%v)", out, options, err)
	}
	if string(after["id_slot"]) != "3" {
		t.Fatalf("%q: id_slot %s", out, after["id_slot"])
	}
	for _, set := range []string{"model", "stream_options", "id_slot"} {
		if _, there := before[set]; !there {
			before[set] = nil
		}
		delete(after, set)
		delete(before, set)
	}
	if len(before) != len(after) {
		t.Fatalf("%q became %q", body, out)
	}
	for name, want := range before {
		if !bytes.Equal(after[name], want) {
			t.Fatalf("%q: %q became %s, was %s", body, name, after[name], want)
		}
	}
	// Parsing the result finds what was set, and a second splice changes nothing.
	again, _ := parser.Peek(out, nil)
	if again.Model != wantName || !again.IncludeUsage {
		t.Fatalf("%q: parsed again as %+v", out, again)
	}
	if twice := Splice(nil, out, again.SetModel(model), again.SetIncludeUsage(),
		again.SetField("id_slot", []byte("3"))); !bytes.Equal(twice, out) {
		t.Fatalf("%q became %q", out, twice)
	}
}

// drawObject draws the text of a JSON object with odd white space, known members and others, some repeated.
func drawObject(t *rapid.T) []byte {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t", "\r "})
	names := rapid.SampledFrom([]string{
		"model", "mod\\u0065l", "stream", "stream_options", "id_slot", "messages", "x", "é", "", "n", "metadata",
	})
	values := rapid.SampledFrom([]string{
		`null`, `true`, `12345678901234567890`, `-0.0`, `1E400`, `"a\/b"`, `"\u0000\ud800"`, `[]`, `{}`, `[1, [2]]`,
		`{ "include_usage" : false }`, `{"include_usage":true,"include_usage":null}`, `{"a":{"model":"x"}}`,
		`"` + strings.Repeat("long ", 20) + `"`, "\"\xff\"",
	})
	var b strings.Builder
	b.WriteString(space.Draw(t, "space") + "{" + space.Draw(t, "space"))
	for i := range rapid.IntRange(0, 6).Draw(t, "members") {
		if i > 0 {
			b.WriteString("," + space.Draw(t, "space"))
		}
		b.WriteString(`"` + names.Draw(t, "name") + `"` + space.Draw(t, "space") + ":" + space.Draw(t, "space") +
			values.Draw(t, "value") + space.Draw(t, "space"))
	}
	b.WriteString("}" + space.Draw(t, "space"))
	return []byte(b.String())
}

func FuzzSplice(f *testing.F) {
	for _, body := range bodies {
		f.Add([]byte(body), "a \"model\"\n")
	}
	for _, doc := range documents {
		f.Add([]byte(doc), "")
	}
	parser := newParser(f)
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		checkSplice(t, parser, body, model)
	})
}
