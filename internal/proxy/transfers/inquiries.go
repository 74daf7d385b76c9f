package transfers

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Inquiries caches prefillers' answers to a protocol's questions, so that requests seldom wait for them.
type Inquiries struct {
	mu      sync.Mutex
	answers map[string]inquiry // by address
}

type inquiry struct {
	at   time.Time
	body []byte // nil for no answer
}

const (
	inquiryLasts  = time.Minute     // a restarted prefiller is noticed sooner, by failures
	inquiryFails  = 2 * time.Second // how long one that did not answer is not asked again
	inquiryWait   = 2 * time.Second
	mostInquiries = 1024
	inquiryBytes  = 1 << 20
)

// Ask returns the answer of an address, from memory while it is fresh; nil for none.
func (q *Inquiries) Ask(ctx context.Context, transport http.RoundTripper, address string) []byte {
	now := time.Now()
	q.mu.Lock()
	known, ok := q.answers[address]
	q.mu.Unlock()
	if age := now.Sub(known.at); ok && (age < inquiryFails || known.body != nil && age < inquiryLasts) {
		return known.body
	}
	body := fetch(ctx, transport, address)
	now = time.Now() // a failed question took time; its pause begins now
	if ctx.Err() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.answers == nil || len(q.answers) >= mostInquiries {
		q.answers = map[string]inquiry{}
	}
	q.answers[address] = inquiry{at: now, body: body}
	return body
}

// Forget drops an address's answer, so that it is asked again.
func (q *Inquiries) Forget(address string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.answers, address)
}

// fetch is the body of a successful GET; nil otherwise.
func fetch(ctx context.Context, transport http.RoundTripper, address string) []byte {
	ctx, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil
	}
	req.Header.Set("Accept", "application/json")
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, inquiryBytes+1))
	if err != nil || res.StatusCode != http.StatusOK || len(body) > inquiryBytes {
		return nil
	}
	return body
}
