package fleet

// Load is the router's own books for one endpoint: what it sent there and what is still to be done.
type Load struct {
	Requests      int   // outstanding requests
	PrefillTokens int64 // uncached prompt tokens of requests whose first byte has not come
	DecodeTokens  int64 // answer tokens expected of outstanding requests
	InLine        int   // of Requests, those that wait at the router, see Queue
	ContextTokens int64 // prompt and answer tokens resident for outstanding requests
	Waiting       int   // requests in the engine's own queue by its latest report, 0 when not reported

	TransferRequests int   // requests that are computed and whose KV is still being transferred to another endpoint; not among Requests. Of a decoder: those of its Requests whose KV is still to come
	TransferTokens   int64 // prompt tokens of these
}

// Work is the tokens still to compute.
func (l Load) Work() int64 { return l.PrefillTokens + l.DecodeTokens }
