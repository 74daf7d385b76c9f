package chance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestExponential compares with the standard library's logarithm and checks the mean.
func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sum := 0.0
	for range 100_000 {
		x := rng.Float64() + 1e-300
		if d := math.Abs(logarithm(x) - math.Log(x)); d > 1e-14*math.Abs(math.Log(x))+1e-15 {
			t.Fatalf("logarithm of %v is off by %v", x, d)
		}
		sum += Exponential(rng)
	}
	if mean := sum / 100_000; mean < 0.99 || mean > 1.01 {
		t.Errorf("mean %v", mean)
	}
}
