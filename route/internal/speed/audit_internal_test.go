package speed

import (
	"fmt"
	"math"

	"github.com/warmpath/warmpath/fit"
)

// Audit checks the invariants of an endpoint without open jobs: no provisional sample left, no estimate negative or not
// a number.
func (r Reader) Audit(slot int) error {
	e := r.t.endpoints.Get(slot)
	p, tr := &e.prefill, &e.transfer
	if p.early != (fit.IntSums{}) {
		return fmt.Errorf("%+v is left of batches that have ended", p.early)
	}
	for _, x := range []float64{
		p.PerToken, float64(p.Fixed), float64(p.PerAnswer), float64(p.Hold),
		tr.PerToken, float64(tr.Fixed),
	} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return fmt.Errorf("it has learnt %+v, %+v", *p, *tr)
		}
	}
	return nil
}
