package chance

import (
	"math"
	"math/rand/v2"
)

// Mix spreads a seed over 64 bits (the finaliser of SplitMix64).
func Mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Exponential draws from the exponential distribution with mean 1, identically on every machine; the standard library's
// logarithm is assembly on some.
func Exponential(rng *rand.Rand) float64 {
	u := float64(rng.Uint64()>>11|1) / (1 << 53) // in (0, 1)
	return -logarithm(u)
}

// logarithm is the natural logarithm of a positive number by the series of the inverse hyperbolic tangent, each
// operation rounded separately.
func logarithm(x float64) float64 {
	fraction, exponent := math.Frexp(x) // fraction in [0.5, 1)
	s := (fraction - 1) / (fraction + 1)
	square := float64(s * s)
	sum := 0.0
	for k := 41; k > 0; k -= 2 {
		sum = float64(sum*square) + 1/float64(k)
	}
	return float64(float64(2*s)*sum) + float64(float64(exponent)*math.Ln2)
}

// Harmonic draws from 0..n-1, where k has the weight 1/(k+1).
func Harmonic(rng *rand.Rand, n int) int {
	if n == 1 {
		return 0
	}
	sum := 0.0
	for k := range n {
		sum += 1 / float64(k+1)
	}
	at := float64(sum * rng.Float64())
	for k := range n {
		if at -= 1 / float64(k+1); at < 0 {
			return k
		}
	}
	return n - 1
}
