package fleet

// TenantUse is what one tenant uses of its limits at one router, as routers tell each other.
type TenantUse struct {
	Tenant   uint64  // hash of its name
	Requests float64 // of the latest minute's worth that have not been filled up again
	Tokens   float64 // the same, of prompts and answers
	Open     int     // requests that are under way
}
