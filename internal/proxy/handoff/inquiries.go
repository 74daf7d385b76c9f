package handoff

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Inquiries keep what prefillers answered to the questions of a protocol, so that a request seldom waits for it.
type Inquiries struct {
	mu   sync.Mutex
	told map[string]inquiry // by address
}

type inquiry struct {
	at   time.Time
	body []byte // nil when there was no answer
}

const (
	inquiryLasts  = time.Minute     // a prefiller that starts again is noticed sooner, by what fails
	inquiryFails  = 2 * time.Second // for so long one that does not answer is not asked again
	inquiryWait   = 2 * time.Second
	mostInquiries = 1024
	inquiryBytes  = 1 << 20
)

// Ask returns what an address answers, from memory where that is fresh; nil for nothing.
func (q *Inquiries) Ask(ctx context.Context, transport http.RoundTripper, address string) []byte {
	now := time.Now()
	q.mu.Lock()
	known, ok := q.told[address]
	q.mu.Unlock()
	if age := now.Sub(known.at); ok && (age < inquiryFails || known.body != nil && age < inquiryLasts) {
		return known.body
	}
	body := fetch(ctx, transport, address)
	now = time.Now() // what did not answer took its time, and is to be left alone from here on
	if ctx.Err() != nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.told == nil || len(q.told) >= mostInquiries {
		q.told = map[string]inquiry{}
	}
	q.told[address] = inquiry{at: now, body: body}
	return body
}

// Forget has an address asked again.
func (q *Inquiries) Forget(address string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.told, address)
}

// fetch is the body of a GET that succeeds, nil otherwise.
func fetch(ctx context.Context, transport http.RoundTripper, address string) []byte {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"Accept": {"application/json"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}
	res, err := transport.RoundTrip(req.WithContext(ctx))
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
