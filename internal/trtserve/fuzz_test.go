package trtserve

import (
	"testing"
	"time"
)

// FuzzWorkers: what workers register and report is taken or left out, and a worker that is taken can be asked.
func FuzzWorkers(f *testing.F) {
	f.Add([]byte(`{"worker_id":"w","host":"10.0.0.1","port":8000,"role":0}`))
	f.Add([]byte(`{"host":"::1","port":65536}`))
	f.Add([]byte(`[{"ctx_request_id":7,"perf_metrics":{}},{"ctx_request_id":null},3]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, w := range list(map[string]string{"k": string(b)}) {
			if !isHost(w.Host) || w.Port <= 0 || w.Port > 65535 {
				t.Errorf("%+v", w)
			}
		}
		p := newPerf(2, time.Now())
		p.requests["7"] = &perfRequest{Context: "a", Generation: "b"}
		p.order = []string{"7"}
		p.take("a", b)
		p.take("b", b)
		if got := p.complete(); len(got)+len(p.requests) != 1 {
			t.Errorf("%d are complete, %d are left", len(got), len(p.requests))
		}
	})
}
