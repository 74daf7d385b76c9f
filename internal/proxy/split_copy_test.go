package proxy_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// TestSplitCopiesNothing: a prompt of 500 kB reaches both engines whole, and what the router allocates for it is the
// buffer it is read into and little more.
func TestSplitCopiesNothing(t *testing.T) {
	const size = 1200 << 10 // larger than what is pooled, so that each copy shows
	text := strings.Repeat("word ", size/5)
	body := chatOf(text, `,"max_tokens":4`)
	var bad string
	handler := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n, last := int64(0), make([]byte, 32<<10)
			for {
				k, err := r.Body.Read(last)
				n += int64(k)
				if err != nil {
					break
				}
			}
			if n != r.ContentLength || n < int64(len(body)) {
				bad = "a body was cut"
			}
			_, _ = io.WriteString(w, answer)
		}
	}
	p := httptest.NewServer(handler(`{"choices":[],"kv_transfer_params":{"do_remote_prefill":true,"remote_engine_id":"e","remote_block_ids":[1],"remote_request_id":"r","remote_host":"h","remote_port":1}}`))
	defer p.Close()
	d := httptest.NewServer(handler(chatAnswer))
	defer d.Close()
	rig := splitRig(t, pairs{split: always, proxy: proxy.Config{}}, []fleet.Endpoint{
		{Name: "p", URL: p.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
		{Name: "d", URL: d.URL, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
	})
	// The least of several requests: a collection in between takes what is pooled, and other goroutines allocate too.
	each := uint64(math.MaxUint64)
	for range 16 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if res, got := rig.post("/v1/chat/completions", body); res.StatusCode != 200 ||
			res.Header.Get("X-Warmpath-Prefill") != "p" {
			t.Fatalf("%d %s", res.StatusCode, got)
		}
		runtime.ReadMemStats(&after)
		each = min(each, after.TotalAlloc-before.TotalAlloc)
	}
	if each > size*7/4 && !racing {
		t.Errorf("a request of %d bytes allocates %d: it was copied", len(body), each)
	}
	if bad != "" {
		t.Error(bad)
	}
}
