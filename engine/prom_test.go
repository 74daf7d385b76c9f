package engine

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

type sample struct {
	name   string
	labels string
	value  float64
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func scanPage(page, prefix string) (out []sample) {
	s := samples{rest: []byte(page)}
	for s.next(prefix) {
		if v, ok := s.value(); ok {
			out = append(out, sample{string(s.name), string(s.labels), v})
		}
	}
	return out
}

func TestSamples(t *testing.T) {
	page := strings.Join([]string{
		`# HELP m:a Help with "quotes" and {braces} 5`, `# TYPE m:a gauge`, ``,
		`m:a 1`, `m:a{} 2`, "\t m:a\t{x=\"1\"}\t3\t1795201445000", `m:a{x="q\"u}o,te",y="a\\"} 4.5e-3`,
		`m:a{x="1",} NaN`, `m:a{x="2"} +Inf`, `m:a{x="3"} -Inf # {trace_id="x"} 0.5`, "m:a 7\r",
		`m:a`, `m:a{x="open} 1`, `m:a{x="1"}`, `m:a abc`, `m:a 0x10`, `m:a 1_0`, `other 1`, `m: 8`,
		`m:last{x="é"} 9`,
	}, "\n")
	want := []sample{
		{"m:a", ``, 1},
		{"m:a", ``, 2},
		{"m:a", `x="1"`, 3},
		{"m:a", `x="q\"u}o,te",y="a\\"`, 4.5e-3},
		{"m:a", `x="1",`, math.NaN()},
		{"m:a", `x="2"`, math.Inf(1)},
		{"m:a", `x="3"`, math.Inf(-1)},
		{"m:a", ``, 7},
		{"m:", ``, 8},
		{"m:last", `x="é"`, 9},
	}
	got := scanPage(page, "m:")
	if len(got) != len(want) {
		t.Fatalf("got %d samples %v, want %d", len(got), got, len(want))
	}
	for i, w := range want {
		if g := got[i]; g.name != w.name || g.labels != w.labels || !same(g.value, w.value) {
			t.Errorf("%d: got %v, want %v", i, g, w)
		}
	}
}

func TestLabel(t *testing.T) {
	s := samples{rest: []byte(`m{engine="1", model = "a\"b\\c\nd" ,empty="",engine_type="x"} 1`)}
	if !s.next("m") {
		t.Fatal("no sample")
	}
	if _, ok := s.value(); !ok {
		t.Fatal("no value")
	}
	for name, want := range map[string]string{
		"engine": "1", "model": "a\"b\\c\nd", "empty": "", "engine_type": "x", "type": "", "x": "",
	} {
		if got := unescape(s.label(name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// naive parses the same format by a regular expression.
var naive = regexp.MustCompile(
	`^[ \t]*([^\s{#"]+)[ \t]*(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]*([^ \t\r]{1,64})(?:[ \t\r].*)?$`)

func naivePage(page, prefix string) (out []sample) {
	for line := range strings.SplitSeq(page, "\n") {
		m := naive.FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[1], prefix) || strings.ContainsAny(m[3], "xXpP_") {
			continue
		}
		if v, err := strconv.ParseFloat(m[3], 64); err == nil {
			out = append(out, sample{m[1], m[2], v})
		}
	}
	return out
}

func TestSamplesOfRealPages(t *testing.T) {
	for _, test := range []struct {
		file, prefix string
		least        int
	}{
		{"sglang/0.5.23/metrics.txt", "sglang:", 500},
		{"vllm/0.32.0/metrics.txt", "vllm:", 10},
		{"llamacpp/0.7.0/metrics.txt", "llamacpp:", 2},
	} {
		page := string(fixture(t, test.file))
		got, want := scanPage(page, test.prefix), naivePage(page, test.prefix)
		if len(got) != len(want) || len(got) < test.least {
			t.Fatalf("%s: %d samples, the naive reader has %d", test.file, len(got), len(want))
		}
		for i := range got {
			if got[i].name != want[i].name || got[i].labels != want[i].labels || !same(got[i].value, want[i].value) {
				t.Errorf("%s: got %v, want %v", test.file, got[i], want[i])
			}
		}
	}
}

func FuzzSamples(f *testing.F) {
	f.Add(string(fixture(f, "vllm/0.32.0/metrics.txt")))
	f.Add("vllm:a{x=\"\\\"}\"} NaN 5 # {a=\"b\"} 1\nvllm:b +Inf")
	f.Fuzz(func(t *testing.T, page string) {
		s := samples{rest: []byte(page)}
		lines := strings.Count(page, "\n") + 1
		for s.next("vllm:") {
			if lines--; lines < 0 {
				t.Fatal("more samples than lines")
			}
			if !strings.HasPrefix(string(s.name), "vllm:") {
				t.Fatalf("name %q", s.name)
			}
			s.value()
			unescape(s.label("engine"))
		}
		for _, g := range scanPage(page, "vllm:") {
			if strings.ContainsAny(g.name, "\n{ \t") {
				t.Fatalf("name %q", g.name)
			}
		}
	})
}

func BenchmarkReadMetrics(b *testing.B) {
	for _, test := range []struct {
		name, file string
		read       func([]byte, *fleet.Report)
	}{
		{"vllm", "vllm/0.32.0/metrics.txt", func(p []byte, r *fleet.Report) { readVLLMMetrics(p, fleet.Part{}, r) }},
		{"sglang", "sglang/0.5.23/metrics.txt", func(p []byte, r *fleet.Report) {
			readSGLangMetrics(p, fleet.Part{}, r)
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			page := fixture(b, test.file)
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				var r fleet.Report
				test.read(page, &r)
			}
		})
	}
}
