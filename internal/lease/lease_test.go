package lease

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
)

// door is one that sends each request to the same endpoint, and remembers how the exchanges ended.
type door struct{ ends chan error }

func (d door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		d.ends <- err
		return
	}
	res, err := external.Of(r.Context()).Carry(
		httptest.NewRequestWithContext(r.Context(), r.Method, "http://e"+r.URL.Path, nil), fleet.Endpoint{Name: "e"})
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	d.ends <- err
}

// TestExpires: a lease ends once, so long after it was given, or after its first byte was told.
func TestExpires(t *testing.T) {
	for _, tt := range []struct {
		name    string
		begins  time.Duration // when the first byte is told; 0 for never
		expires time.Duration // when it is over
	}{{"nobody speaks", 0, time.Minute}, {"it has begun", 50 * time.Second, 110 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := door{make(chan error, 1)}
				s := New(Config{
					Door: d, Memory: body.NewBudget(1 << 20), Expires: time.Minute, Most: 1,
					Log: slog.New(slog.DiscardHandler),
				})
				began := time.Now()
				post := func(path string) int {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader("")))
					return w.Code
				}
				if code := post("/v1/route"); code != http.StatusOK || s.Open() != 1 {
					t.Fatal(code, s.Open())
				}
				id := s.only()
				if tt.begins > 0 {
					time.Sleep(tt.begins)
					if code := post("/v1/route/" + id + "/first_byte"); code != http.StatusNoContent {
						t.Fatal(code)
					}
				}
				err := <-d.ends
				synctest.Wait()
				if took := time.Since(began); err == nil || took != tt.expires || s.Open() != 0 || s.Expired() != 1 ||
					len(s.open) != 0 {
					t.Errorf("%v after %v, %d open, %d expired, %d known; want an error after %v",
						err, took, s.Open(), s.Expired(), len(s.open), tt.expires)
				}
				if code := post("/v1/route/" + id + "/finish"); code != http.StatusNotFound {
					t.Errorf("its end afterwards got %d", code)
				}
				if code := post("/v1/route"); code != http.StatusOK {
					t.Errorf("the next one got %d", code)
				}
				s.Close()
				if s.Open() != 0 || s.Expired() != 1 {
					t.Errorf("%d open, %d expired at the end", s.Open(), s.Expired())
				}
			})
		})
	}
}

// TestHashesCountInMemory: blocks made of hashes count in the memory of requests while their lease is open, and are
// given back once, however it ends. A lease for which there is no room is refused by the door.
func TestHashesCountInMemory(t *testing.T) {
	const held = 8 * 2048 / fleet.BlockBytes // one block of 512 tokens
	for name, end := range map[string]func(post func(path, body string) int, at string, s *Server) int{
		"finished": func(post func(string, string) int, at string, _ *Server) int { return post(at+"/finish", "{}") },
		"cancelled": func(post func(string, string) int, at string, _ *Server) int {
			return post(at+"/finish", `{"failed":"cancelled"}`)
		},
		"broken": func(post func(string, string) int, at string, _ *Server) int {
			return post(at+"/finish", `{"failed":"broken"}`)
		},
		"expired": func(func(string, string) int, string, *Server) int {
			time.Sleep(time.Hour)
			return http.StatusNoContent
		},
		"the router stops": func(_ func(string, string) int, _ string, s *Server) int {
			s.Close()
			return http.StatusNoContent
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, memory := door{make(chan error, 9)}, body.NewBudget(held+held/2)
				s := New(Config{
					Door: d, Memory: memory, Expires: time.Minute, Most: 9, Log: slog.New(slog.DiscardHandler),
				})
				post := func(path, body string) int {
					w := httptest.NewRecorder()
					s.ServeHTTP(w,
						httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+path, strings.NewReader(body)))
					return w.Code
				}
				const prompt = `{"prompt_hashes":[1],"prompt_tokens":512}`
				if code := post("/v1/route/hashes", prompt); code != http.StatusOK || memory.Memory().Held != held {
					t.Fatalf("%d, %d bytes are held; want %d", code, memory.Memory().Held, held)
				}
				at := "/v1/route/" + s.only()
				if code := post("/v1/route/hashes", prompt); code != http.StatusServiceUnavailable ||
					memory.Memory().Held != held || s.Open() != 1 {
					t.Errorf("one beyond the memory: %d, %d bytes are held, %d open",
						code, memory.Memory().Held, s.Open())
				}
				if err := <-d.ends; !errors.Is(err, body.ErrNoRoom) {
					t.Errorf("the door was told %v", err)
				}
				if code := end(post, at, s); code != http.StatusNoContent {
					t.Errorf("the end got %d", code)
				}
				synctest.Wait()
				if memory.Memory().Held != 0 || s.Open() != 0 {
					t.Errorf("%d bytes are held at the end, %d open", memory.Memory().Held, s.Open())
				}
				s.Close()
			})
		})
	}
}

// only is the id of the only open lease.
func (s *Server) only() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		return id
	}
	return ""
}

// waits is a door that never chooses an endpoint.
type waits struct{}

func (waits) ServeHTTP(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// TestCloses: the end of the router ends leases that wait for an endpoint too, cuts their connections, and has none
// begin.
func TestCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{
			Door: waits{}, Memory: body.NewBudget(1), Expires: time.Hour, Most: 9, Log: slog.New(slog.DiscardHandler),
		})
		post := func() (code int, cut any) {
			w := httptest.NewRecorder()
			defer func() { code, cut = w.Code, recover() }()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/route", strings.NewReader("{}")))
			return w.Code, nil
		}
		over := make(chan any)
		go func() {
			_, cut := post()
			over <- cut
		}()
		synctest.Wait()
		if s.Open() != 1 {
			t.Errorf("%d are open", s.Open())
		}
		s.Close()
		if cut := <-over; cut != http.ErrAbortHandler { //nolint:errorlint // the value itself is compared, as in net/http
			t.Errorf("one that waited ended with %v", cut)
		}
		if code, _ := post(); code != http.StatusServiceUnavailable || s.Open() != 0 {
			t.Errorf("one after the end got %d, %d are open", code, s.Open())
		}
	})
}

// TestSlowCallers: who does not send what it announced about a lease, or hashes, loses its connection after Patience.
func TestSlowCallers(t *testing.T) {
	for _, path := range []string{"/v1/route/hashes", "/v1/route/X/finish", "/v1/route/X/first_byte"} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{
				Door: waits{}, Memory: body.NewBudget(1), Expires: time.Hour, Patience: time.Minute, Most: 9,
				Log: slog.New(slog.DiscardHandler),
			})
			near, far := net.Pipe()
			defer near.Close()
			server := &http.Server{Handler: s, ReadHeaderTimeout: time.Second}
			done := make(chan error)
			go func() { done <- server.Serve(&oneConn{conn: far, over: make(chan struct{})}) }()
			began := time.Now()
			if _, err := io.WriteString(near,
				"POST "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(near)
			if took := time.Since(began); err != nil || took < time.Minute || took > 2*time.Minute ||
				!bytes.Contains(answer, []byte(" 400 ")) {
				t.Errorf("%s: %v after %v: %s", path, err, took, answer)
			}
			_ = server.Close()
			<-done
		})
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn net.Conn
	over chan struct{}
}

func (l *oneConn) Accept() (c net.Conn, err error) {
	if c, l.conn = l.conn, nil; c == nil {
		<-l.over
		return nil, net.ErrClosed
	}
	return c, nil
}

func (l *oneConn) Close() error {
	close(l.over)
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// FuzzHashes: prompts given by hashes are refused or within their bounds, and equal beginnings have equal blocks.
func FuzzHashes(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","prompt_hashes":[1,2],"prompt_tokens":1000}`, `{"prompt_hashes":[18446744073709551615],"prompt_tokens":9,"block_tokens":16,"max_tokens":3,"stream":true}`,
		`{"prompt_hashes":[],"prompt_tokens":0}`, `{"prompt_hashes":[-1],"prompt_tokens":1}`,
		`{"prompt_tokens":4194304,"block_tokens":1,"prompt_hashes":[1,2,3]}`, `[]`, `{} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := readHashes(bytes.NewReader(raw))
		if err != nil {
			return
		}
		n := len(h.content.Blocks)
		if n > mostHashBlocks || n*fleet.BlockBytes > h.content.Bytes ||
			n*fleet.BlockBytes > len(h.Hashes)*h.Block*tokenBytes {
			t.Fatalf("%d blocks of %d bytes, %d hashes", n, h.content.Bytes, len(h.Hashes))
		}
		if len(h.Hashes) > 1 {
			shorter := *h
			shorter.Hashes = h.Hashes[:len(h.Hashes)-1]
			shorter.divide()
			for i, b := range shorter.content.Blocks {
				if b != h.content.Blocks[i] {
					t.Fatalf("block %d differs", i)
				}
			}
		}
	})
}

// FuzzReport: what is said of a lease never ends it with figures out of bounds.
func FuzzReport(f *testing.F) {
	f.Add([]byte(
		`{"status":200,"usage":{"prompt_tokens":5,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":5}}}`))
	f.Add([]byte(`{"failed":"broken","retry_after":1e9}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":-1}}`))
	s := New(Config{Memory: body.NewBudget(1 << 20), Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/route/x/finish", bytes.NewReader(raw)))
		if w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
