package fleet

import (
	"math"
	"testing"
)

// TestSharesAreChecked: shares that mean nothing are refused.
func TestSharesAreChecked(t *testing.T) {
	for _, shares := range [][]float64{{}, {1}, {0, 0}, {-1, 2}, {math.NaN(), 1}, {math.Inf(1), 1}, {1, 2, 3}} {
		if (Alias{Name: "x", Models: []string{"a", "b"}, Shares: shares}).Validate() == nil {
			t.Errorf("%v is accepted", shares)
		}
	}
}
