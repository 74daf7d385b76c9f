package trtserve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
)

// perf joins the router's times of a split request with the reports of both workers, by the id of the hand-over.
type perf struct {
	most    int
	started time.Time

	mu       sync.Mutex
	requests map[string]*perfRequest // by id; guarded by mu, as is order
	order    []string
}

// perfRequest is one request. The reports are nil until they arrive.
type perfRequest struct {
	Context    string          `json:"ctx_server"`
	Generation string          `json:"gen_server"`
	Arrival    float64         `json:"disagg_server_arrival_time"` // seconds, monotonic
	First      float64         `json:"disagg_server_first_token_time"`
	CtxMetrics json.RawMessage `json:"ctx_perf_metrics"`
	GenMetrics json.RawMessage `json:"gen_perf_metrics"`
}

func newPerf(most int, started time.Time) *perf {
	return &perf{most: most, started: started, requests: map[string]*perfRequest{}}
}

func bare(address string) string {
	_, host, _ := strings.Cut(address, "://")
	return host
}

// served adds a request and drops the oldest ones above the bound.
func (p *perf) served(v *live.Served) {
	if p.most == 0 || v.HandOver == "" || v.Outcome != fleet.OK {
		return
	}
	r := &perfRequest{
		Context: bare(v.Prefill.Endpoint.URL), Generation: bare(v.Decision.Endpoint.URL),
		Arrival: v.Started.Sub(p.started).Seconds(), First: v.FirstByte.Sub(p.started).Seconds(),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests[v.HandOver] == nil {
		p.order = append(p.order, v.HandOver)
	}
	p.requests[v.HandOver] = r
	for len(p.requests) > p.most {
		delete(p.requests, p.order[0])
		p.order = p.order[1:]
	}
}

// take adds the report of a worker.
func (p *perf) take(at string, report []byte) {
	var items []json.RawMessage
	if json.Unmarshal(report, &items) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, item := range items {
		var v struct {
			ID json.Number `json:"ctx_request_id"`
		}
		if json.Unmarshal(item, &v) != nil {
			continue
		}
		r := p.requests[v.ID.String()]
		switch {
		case r == nil:
		case r.Context == at && r.CtxMetrics == nil:
			r.CtxMetrics = item
		case r.Generation == at:
			r.GenMetrics = item
		}
	}
}

// complete removes and returns the requests that both workers have reported.
func (p *perf) complete() []*perfRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, rest := []*perfRequest{}, p.order[:0]
	for _, id := range p.order {
		r := p.requests[id]
		if r.CtxMetrics == nil || r.GenMetrics == nil {
			rest = append(rest, id)
			continue
		}
		out = append(out, r)
		delete(p.requests, id)
	}
	p.order = rest
	return out
}

// mostReport bounds the size of one report.
const mostReport = 16 << 20

// admin reports whether a caller is an operator, by the rule of the admin listener: its token, or a loopback address if
// there is no token.
func (s *Server) admin(r *http.Request) bool {
	if s.cfg.AdminToken != "" {
		return guard.Bearer(r, s.cfg.AdminToken)
	}
	return s.cfg.Source(r).IsLoopback() && guard.IsLoopback(guard.Hostname(r.Host)) &&
		http.NewCrossOriginProtection().Check(r) == nil
}

// perfMetrics fetches the reports of all workers and answers with the complete requests. Only operators may call it:
// workers drop what they have reported, and each call costs all workers time.
func (s *Server) perfMetrics(w http.ResponseWriter, r *http.Request) {
	if !s.admin(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeJSON(w, http.StatusUnauthorized, map[string]string{
			"detail": "/perf_metrics is for operators: send \"Authorization: Bearer\" with admin.token, " +
				"or ask from the router's own machine where there is no token",
		})
		return
	}
	if s.cfg.PerfMetrics == 0 {
		writeJSON(w, http.StatusOK, []any{})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, e := range s.fleet.Status() {
		if e.Gone || e.Kind != fleet.KindTRTLLM {
			continue
		}
		wg.Go(func() {
			panics.Catch(s.log, panics.TRTServe, func() {
				if body, _ := s.fetch(ctx, e.Endpoint.URL+"/perf_metrics"); body != nil {
					s.perf.take(bare(e.Endpoint.URL), body)
				}
			})
		})
	}
	wg.Wait()
	writeJSON(w, http.StatusOK, s.perf.complete())
}

// fetch gets a page of a worker. body is nil unless the status was 200; answered is false if there was no answer.
func (s *Server) fetch(ctx context.Context, address string) (body []byte, answered bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.log.Warn("a worker cannot be reached", "address", address, "error", err)
		return nil, false
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, mostReport))
	switch {
	case err != nil:
		return nil, false
	case res.StatusCode != http.StatusOK:
		return nil, true
	}
	return body, true
}
