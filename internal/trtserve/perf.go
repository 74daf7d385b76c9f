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
)

// perf joins what is known here of a split request with what both workers report of it, by the id of the hand-over.
type perf struct {
	most    int
	started time.Time

	mu       sync.Mutex
	requests map[string]*perfRequest // by id. Guarded by mu, as what follows
	order    []string
}

// perfRequest is one request; the reports are nil until they came.
type perfRequest struct {
	Context    string          `json:"ctx_server"`
	Generation string          `json:"gen_server"`
	Arrival    float64         `json:"disagg_server_arrival_time"` // seconds, of a clock that never goes back
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

// served remembers a request; the oldest is forgotten when there are too many.
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

// take adds what a worker reports.
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

// complete returns the requests that both workers reported, and forgets them.
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

// mostReport bounds what a worker may report at once.
const mostReport = 16 << 20

// admin reports whether a caller may do what operators do, as at the admin listener: with its token, or from this machine where it has none.
func (s *Server) admin(r *http.Request) bool {
	if s.cfg.AdminToken != "" {
		return guard.Bearer(r, s.cfg.AdminToken)
	}
	return s.cfg.Source(r).IsLoopback() && guard.IsLoopback(guard.Hostname(r.Host)) && http.NewCrossOriginProtection().Check(r) == nil
}

// perfMetrics asks all workers, which forget what they tell, and answers with what is complete. It is for operators: one who asks takes the
// reports from those who ask later, and makes every worker work.
func (s *Server) perfMetrics(w http.ResponseWriter, r *http.Request) {
	if !s.admin(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeJSON(w, http.StatusUnauthorized, map[string]string{"detail": "/perf_metrics is for operators: send \"Authorization: Bearer\" with admin.token, or ask from the router's own machine where there is no token"})
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
			if body, _ := s.fetch(ctx, e.Endpoint.URL+"/perf_metrics"); body != nil {
				s.perf.take(bare(e.Endpoint.URL), body)
			}
		})
	}
	wg.Wait()
	writeJSON(w, http.StatusOK, s.perf.complete())
}

// fetch asks a worker; the body is nil when it said no, and answered false when it said nothing.
func (s *Server) fetch(ctx context.Context, address string) (body []byte, answered bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.log.Warn("a worker cannot be asked", "address", address, "error", err)
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
