package route

// Keeping is a Policy with books of its own on the requests of its pool, beside those of the router: a weight in another measure,
// or what only counts once it was answered.
type Keeping interface {
	Policy
	// Reserved tells that a request of the pool went to a candidate, whoever chose it. View and Request are those of the decision
	// and may not be kept.
	Reserved(l Lease, c *Candidate, v *View, r *Request)
	// Released ends what Reserved began, once for each lease. answered means that the engine answered in full.
	Released(l Lease, answered bool)
}

// tellReserved tells a pool's policy of a decision, if it keeps books.
func (r *Router) tellReserved(req *Request, l Lease, index int) {
	if k, ok := r.flight(l).policy.(Keeping); ok {
		k.Reserved(l, &r.view.Candidates[index], &r.view, req)
	}
}

// tellReleased tells it of the end.
func tellReleased(f *flight, ev *Finished) {
	if k, ok := f.policy.(Keeping); ok {
		k.Released(ev.Lease, ev.Outcome == OK)
	}
}
