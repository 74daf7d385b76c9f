package size

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"pgregory.net/rapid"
)

// vocabulary counts tokens of made-up texts: a sum like the estimate's own, with a deviation of each text's.
type vocabulary struct {
	template, message, tool, latin, start, digit, mark, cjk, other float64
	spread                                                         float64
}

var (
	wide   = vocabulary{12, 2, 0.25, 0.07, 0.85, 1.5, 0.03, 0.2, 0.14, 0.05} // as of 150,000 entries, digits one by one
	narrow = vocabulary{40, 4, 0.4, 0.21, 0.9, 1.1, 0.1, 1.04, 1.0, 0.05}    // as of 4,000 entries
)

func (v *vocabulary) count(t *text, rng *rand.Rand) int {
	n := v.tool*float64(t.Tools) + v.latin*float64(t.latin) + v.start*float64(t.Starts) + v.digit*float64(t.Digits) +
		v.mark*float64(t.marks) + v.cjk*float64(t.CJK) + v.other*float64(t.Other)
	if rng != nil {
		n *= 1 + v.spread*rng.NormFloat64()
	}
	if t.Messages > 0 {
		n += v.template + v.message*float64(t.Messages)
	}
	return int(math.Round(n))
}

// text is a made-up text: its features, and bytes of letters and of punctuation, which only tokenizers count.
type text struct {
	fleet.Text
	latin, marks int
}

// made is a text of a kind, with the shares of features that such texts have.
func made(kind string, bytes int, rng *rand.Rand) (x text) {
	vary := func(share float64) int { return int(float64(bytes) * share * (0.9 + 0.2*rng.Float64())) }
	switch kind {
	case "english":
		x.latin, x.Starts, x.Digits, x.marks = vary(0.94), vary(0.19), vary(0.005), vary(0.05)
	case "code":
		x.latin, x.Starts, x.Digits, x.marks = vary(0.62), vary(0.29), vary(0.02), vary(0.36)
	case "chinese":
		x.latin, x.Starts, x.Digits, x.marks, x.CJK = vary(0.04), vary(0.02), vary(0.01), vary(0.02), vary(0.93)
	default:
		panic(kind)
	}
	x.Messages = 1 + rng.IntN(5)
	return x
}

// size is a length in bytes from 300 to 40,000.
func size(rng *rand.Rand) int { return int(300 * math.Pow(40_000.0/300, rng.Float64())) }

// wrongBy is the mean relative error over new texts of a kind.
func wrongBy(r *Model, v *vocabulary, kind string, rng *rand.Rand) float64 {
	sum := 0.0
	for range 200 {
		t := made(kind, size(rng), rng)
		n := float64(v.count(&t, nil))
		sum += math.Abs(float64(r.estimate(&t.Text))-n) / n
	}
	return sum / 200
}

var textKinds = []string{"english", "chinese", "code"}

// TestRatiosLearn: vocabularies and templates far from the first ratios are learnt in 50 requests, and stay learnt.
func TestRatiosLearn(t *testing.T) {
	for name, v := range map[string]*vocabulary{"wide": &wide, "narrow": &narrow} {
		for _, requests := range []int{50, 5000} {
			rng := rand.New(rand.NewPCG(1, 1))
			r := NewModel()
			for i := range requests {
				x := made(textKinds[i%3], size(rng), rng)
				r.learnText(&x.Text, v.count(&x, rng))
			}
			for _, kind := range textKinds {
				most := 0.06
				if v == &narrow { // whose letters and marks cost much, too
					most = 0.2
				}
				if off := wrongBy(&r, v, kind, rng); off > most {
					t.Errorf("%s after %d requests: %s is wrong by %.1f %%", name, requests, kind, 100*off)
				}
			}
		}
	}
}

// TestRatiosChange: a pool whose model is exchanged is learnt anew.
func TestRatiosChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	r := NewModel()
	for i := range 3000 {
		v := &wide
		if i >= 2000 {
			v = &narrow
		}
		x := made(textKinds[i%3], size(rng), rng)
		r.learnText(&x.Text, v.count(&x, rng))
	}
	for _, kind := range textKinds {
		if off := wrongBy(&r, &narrow, kind, rng); off > 0.18 {
			t.Errorf("%s is wrong by %.1f %% 1000 requests after the change", kind, 100*off)
		}
	}
}

// TestRatiosLiar: one engine in five that counts wrongly costs the others little.
func TestRatiosLiar(t *testing.T) {
	for name, lie := range map[string]func(int) int{
		"ten times":      func(n int) int { return 10 * n },
		"only uncached":  func(n int) int { return max(n/20, 1) },
		"always one":     func(int) int { return 1 },
		"always a lot":   func(int) int { return 1 << 40 },
		"none":           func(int) int { return 0 },
		"below none":     func(n int) int { return -n },
		"three quarters": func(n int) int { return 3 * n / 4 },
	} {
		for _, first := range []int{0, 4} { // the liar speaks first, or last of five
			rng := rand.New(rand.NewPCG(3, 3))
			r := NewModel()
			for i := range 150 {
				x := made(textKinds[i%3], size(rng), rng)
				n := wide.count(&x, rng)
				if i%5 == first {
					n = lie(n)
				}
				r.learnText(&x.Text, n)
			}
			for _, kind := range textKinds {
				if off := wrongBy(&r, &wide, kind, rng); off > 0.25 {
					t.Errorf("%s: %s is wrong by %.1f %%", name, kind, 100*off)
				}
			}
		}
	}
}

// TestRatiosFirst: the estimates before any report, and those of prompts that are hardly any.
func TestRatiosFirst(t *testing.T) {
	for _, row := range []struct {
		name        string
		text        fleet.Text
		least, most int
	}{
		{"nothing", fleet.Text{}, 0, 0},
		{"one letter", fleet.Text{Starts: 1}, 1, 2},
		{"one message", fleet.Text{Starts: 3, Messages: 1}, 5, 15},
		{"English, 4 kB", fleet.Text{Starts: 780, Digits: 10}, 800, 1100},
		{"code, 4 kB", fleet.Text{Starts: 1150, Digits: 60}, 1000, 1400},
		{"Chinese, 3 kB", fleet.Text{CJK: 3000}, 550, 1000},
		{"one image", fleet.Text{Media: 1}, 256, 1500},
	} {
		r := NewModel()
		if n := r.estimate(&row.text); n < row.least || n > row.most {
			t.Errorf("%s: %d tokens, want %d to %d", row.name, n, row.least, row.most)
		}
	}
}

// TestRatiosMedia: images have a price of their own and do not spoil the price of text.
func TestRatiosMedia(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	r := NewModel()
	for i := range 200 {
		x := made("english", size(rng), rng)
		n := wide.count(&x, rng)
		if i%2 == 0 {
			x.Media = 1 + i%3
			n += 1300 * x.Media
		}
		r.learnText(&x.Text, n)
	}
	if off := wrongBy(&r, &wide, "english", rng); off > 0.06 {
		t.Errorf("text is wrong by %.1f %%", 100*off)
	}
	if n := r.estimate(&fleet.Text{Media: 2}); n < 2*1100 || n > 2*1500 {
		t.Errorf("two images: %d tokens, want about 2600", n)
	}
}

// TestRatiosAnything: whatever is learnt, estimates are finite and not negative, and one wild report moves an estimate
// by half at most.
func TestRatiosAnything(t *testing.T) {
	count := rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 1<<20), rapid.IntRange(0, 1<<30))
	rapid.Check(t, func(t *rapid.T) {
		r := NewModel()
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			x := fleet.Text{
				Starts: count.Draw(t, "starts"), Digits: count.Draw(t, "digits"),
				CJK: count.Draw(t, "cjk"), Other: count.Draw(t, "other"),
				Messages: rapid.IntRange(0, 500).Draw(t, "messages"), Tools: count.Draw(t, "tools"),
				Media: rapid.IntRange(0, 2).Draw(t, "media"),
			}
			before := float64(r.estimate(&x))
			r.learnText(&x, rapid.Int().Draw(t, "tokens"))
			if n := float64(r.estimate(&x)); n < 0 || n > 1.5*before+1 || n < before/1.5-1 {
				t.Fatalf("%v tokens, before %v", n, before)
			}
		}
	})
}

func TestRatiosAllocate(t *testing.T) {
	x := fleet.Text{Starts: 700, Messages: 2}
	r := NewModel()
	if n := testing.AllocsPerRun(100, func() { r.learnText(&x, 900+r.estimate(&x)%3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRatios(b *testing.B) {
	x := fleet.Text{Starts: 700, Messages: 2}
	r := NewModel()
	b.Run("estimate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.estimate(&x)
		}
	})
	b.Run("learn", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.learnText(&x, 900)
		}
	})
}
