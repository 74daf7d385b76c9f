package route

import "github.com/warmpath/warmpath/pick"

// Plan is where a request goes: whole to one endpoint, or split over two.
type Plan struct {
	Decision          // of the whole request, or of the decode leg; Lease is 0 if only a prefill leg was decided
	Prefill  Decision // of the prefill leg; Lease is 0 when there is none

	News []News // for other routers, see Config.Replicas. Valid until the next call

	View *pick.View // what the policy saw; nil for a split request. Valid until the next decision, read-only
}

// Split reports whether the request goes to two endpoints.
func (p *Plan) Split() bool { return p.Prefill.Lease != 0 }
