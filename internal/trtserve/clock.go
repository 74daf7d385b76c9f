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
	"github.com/warmpath/warmpath/internal/panics"
)

// alignEvery is the interval between searches for workers whose clocks are not aligned yet.
const alignEvery = 5 * time.Second

// align sends each worker the offset of its clock from the router's, so that all times in /perf_metrics use one clock
// (openai_disagg_server.py, steady_clock_offset). A worker is asked until it answers, and again after it was down.
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
				ok := false
				panics.Catch(s.log, panics.TRTServe, func() { ok = s.alignOne(asked, address+"/steady_clock_offset") })
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

// clock is the router's clock, in seconds.
func (s *Server) clock() float64 { return time.Since(s.started).Seconds() }

// alignOne measures the offset of one worker's clock as NTP does (RFC 5905, section 8) and sends the correction.
func (s *Server) alignOne(ctx context.Context, address string) bool {
	sent := s.clock()
	body, answered := s.fetch(ctx, address)
	back := s.clock()
	var v struct {
		Received *float64 `json:"receive_ts"`
		Sent     *float64 `json:"transmit_ts"`
	}
	if body == nil || json.Unmarshal(body, &v) != nil || v.Received == nil || v.Sent == nil {
		return answered // the worker has no such clock
	}
	offset := ((*v.Received - sent) + (*v.Sent - back)) / 2
	correction := `{"offset":` + strconv.FormatFloat(-offset, 'f', -1, 64) + `}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(correction))
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
