package trtserve

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// alignEvery is how often workers are looked for whose clocks were not aligned yet.
const alignEvery = 5 * time.Second

// align tells workers how far their clocks are from the router's, so that the times in /perf_metrics are of one clock
// (openai_disagg_server.py, steady_clock_offset). A worker is asked once, or until it answers; one that comes back is asked again.
func (s *Server) align(ctx context.Context) {
	done := map[string]bool{}
	for {
		up := map[string]bool{}
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, e := range s.fleet.Status() {
			if e.State != fleet.StateUp || e.Gone || e.Kind != fleet.KindTRTLLM || up[e.Endpoint.URL] {
				continue
			}
			address := e.Endpoint.URL
			if up[address] = true; done[address] {
				continue
			}
			wg.Go(func() {
				asked, cancel := context.WithTimeout(ctx, alignEvery)
				defer cancel()
				ok := s.alignOne(asked, address+"/steady_clock_offset")
				mu.Lock()
				done[address] = ok
				mu.Unlock()
			})
		}
		wg.Wait()
		for address := range done {
			if !up[address] {
				delete(done, address)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(alignEvery):
		}
	}
}

// clock is the router's, in seconds.
func (s *Server) clock() float64 { return time.Since(s.started).Seconds() }

// alignOne finds the offset of one worker's clock as NTP does (RFC 5905, section 8), and tells it the correction.
func (s *Server) alignOne(ctx context.Context, address string) bool {
	sent := s.clock()
	body, answered := s.fetch(ctx, address)
	back := s.clock()
	var v struct {
		Received *float64 `json:"receive_ts"`
		Sent     *float64 `json:"transmit_ts"`
	}
	if body == nil || json.Unmarshal(body, &v) != nil || v.Received == nil || v.Sent == nil {
		return answered // it has no such clock
	}
	offset := ((*v.Received - sent) + (*v.Sent - back)) / 2
	told := `{"offset":` + strconv.FormatFloat(-offset, 'f', -1, 64) + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(told))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode < http.StatusMultipleChoices
}
