//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// endless is an engine whose streams do not end, and which counts those that it is asked for and those whose end it
// sees.
type endless struct {
	begun, aborted atomic.Int64
	left           []atomic.Int64 // when the client left, in ns, by the number of the stream

	mu  sync.Mutex
	lag []time.Duration // from then until the engine saw it
}

// ServeHTTP answers as vLLM does, as far as it is asked here.
func (e *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}`)
		return
	case "/v1/chat/completions":
	default:
		return
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // it is no generation yet
	}
	e.begun.Add(1)
	defer func() {
		defer e.aborted.Add(1)
		n, err := strconv.Atoi(r.Header.Get("X-Stream"))
		if err != nil {
			return
		}
		if at := e.left[n].Load(); at > 0 {
			e.mu.Lock()
			e.lag = append(e.lag, time.Duration(time.Now().UnixNano()-at))
			e.mu.Unlock()
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	out := http.NewResponseController(w)
	for {
		if _, err := io.WriteString(w,
			`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}`+
				"\n\n"); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// lags says how long the engine took to see that clients had left since it was last asked.
func (e *endless) lags() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.Sort(e.lag)
	at := func(q float64) time.Duration {
		return e.lag[min(len(e.lag)-1, int(q*float64(len(e.lag))))].Round(10 * time.Microsecond)
	}
	said := fmt.Sprintf("%v (p50), %v (p99), %v (p99.99), %v at most", at(0.5), at(0.99), at(0.9999), at(1))
	e.lag = e.lag[:0]
	return said
}

// leave opens a stream and leaves it at a random point.
func (e *endless) leave(n int, traffic string, rng *rand.Rand) error {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	c, err := d.Dial("tcp", traffic)
	if err != nil {
		return err
	}
	body := fmt.Sprintf(
		`{"model":"m","stream":true,"max_tokens":100000,"messages":[{"role":"user","content":"question %d"}]}`, n%1000)
	said := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nX-Stream: %d\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", traffic, n, len(body), body)
	point := rng.IntN(8)
	if point == 0 {
		said = said[:1+rng.IntN(len(said)-1)]
	}
	_, err = io.WriteString(c, said)
	if err == nil && point > 1 {
		lines := bufio.NewReaderSize(c, 512)
		for range 1 + rng.IntN(40) { // within the head, or the stream
			if _, err = lines.ReadSlice('\n'); err != nil {
				break
			}
		}
	}
	e.left[n].Store(time.Now().UnixNano())
	if rng.IntN(2) == 0 {
		_ = c.(*net.TCPConn).SetLinger(0) // a reset, as of a process that was killed
	}
	if closed := c.Close(); err == nil {
		err = closed
	}
	return err
}

// hurtByLeaving: clients leave their streams at random points. The engine sees the end of each one that it was asked
// for, and no goroutine, lease, connection or memory stays.
func hurtByLeaving(t *testing.T, bin string) {
	streams := 300
	if n, err := strconv.Atoi(os.Getenv("WARMPATH_STREAMS")); err == nil {
		streams = n
	}
	e := &endless{left: make([]atomic.Int64, streams)}
	engine := httptest.NewServer(e)
	t.Cleanup(engine.Close)
	r := runRouter(t, bin, "", fmt.Sprintf("endpoints: [{url: %q, name: e0}]\n", engine.URL))
	r.up("e0")
	seed := rand.Uint64()
	t.Logf("%d streams, seed %d", streams, seed)
	began := time.Now()
	next, most := atomic.Int64{}, int64(0)
	play := func(at string, until int) {
		most = int64(until)
		var wg sync.WaitGroup
		for w := range 32 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(w)<<32|uint64(until)))
				for {
					n := next.Add(1) - 1
					if n >= most {
						return
					}
					if err := e.leave(int(n), strings.TrimPrefix(at, "http://"), rng); err != nil {
						t.Errorf("stream %d: %v", n, err)
						return
					}
				}
			})
		}
		wg.Wait()
		next.Store(most)
	}
	type held struct{ goroutines, files, memory float64 }
	look := func() held {
		_, page := fetched(t, http.MethodGet, r.admin+"/metrics", "")
		return held{
			sumOf(page, "go_goroutines"), sumOf(page, "process_open_fds"), sumOf(page, "process_resident_memory_bytes"),
		}
	}
	quiet := func() held {
		t.Helper()
		r.booksEmpty()
		r.await("the engine saw every end", func() bool { return e.begun.Load() == e.aborted.Load() })
		return look()
	}
	play(r.url, streams/5) // which fills pools and tables
	before := quiet()
	play(r.url, streams)
	after := quiet()
	// The engine's unused connections end after some seconds; what runs beside requests varies by a few.
	r.await("goroutines and connections are as few as before", func() bool {
		after = look()
		return after.goroutines <= before.goroutines+10 && (before.files == 0 || after.files <= before.files+10)
	})
	if most := before.memory + 64<<20; before.memory > 0 && after.memory > most {
		t.Errorf("%.0f MB resident, %.0f MB after the first fifth", after.memory/1e6, before.memory/1e6)
	}
	if e.begun.Load() < int64(streams)/2 {
		t.Errorf("the engine was asked for %d streams only", e.begun.Load())
	}
	t.Logf("in %v: %d begun at the engine and ended there, seen after %v; %.0f and %.0f goroutines, %.0f and %.0f "+
		"files, %.0f and %.0f MB resident before and after", time.Since(began).Round(time.Millisecond), e.begun.Load(),
		e.lags(), before.goroutines, after.goroutines, before.files, after.files, before.memory/1e6, after.memory/1e6)
	// The same without the router: what of it is the machine's.
	next.Store(0)
	play(engine.URL, streams)
	r.await("the engine saw every end", func() bool { return e.begun.Load() == e.aborted.Load() })
	t.Logf("asked directly: seen after %v", e.lags())
	r.ends()
}
