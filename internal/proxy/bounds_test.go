package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/warmpath/warmpath/internal/proxy"
)

// fieldsOf are the names and values of that many header fields.
func fieldsOf(n, bytes int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("X-A%d", i), strings.Repeat("b", bytes))
	}
	return list
}

// waiting is an engine that reads its request and does not answer.
func waiting(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// TestHeads: heads are bounded in fields and bytes, and count in the memory of requests while their requests are open.
func TestHeads(t *testing.T) {
	r := newRig(t, proxy.Config{HeaderBytes: 32 << 10, MemoryBytes: 100 << 10, BodyBytes: 1 << 10}, waiting)
	for name, header := range map[string][]string{
		"countless fields": fieldsOf(300, 1),
		"a long field":     {"X-A", strings.Repeat("b", 33<<10)},
		"long fields":      fieldsOf(9, 4<<10),
	} {
		res, body := r.post("/v1/chat/completions", chatBody, header...)
		if res.StatusCode != 431 || !strings.Contains(body, "limits.header") ||
			!strings.Contains(body, "header_too_large") {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("b", 30<<10) +
		"\r\nContent-Length: " + fmt.Sprint(len(chatBody)) + "\r\n\r\n" + chatBody
	var open []net.Conn
	for n := range 3 {
		open = append(open, r.open(head))
		r.eventually("its head is held", func() bool { return r.proxy.BodyMemory().Held > int64(n+1)*30<<10 })
	}
	if res, body := r.post("/v1/chat/completions", chatBody,
		"X-A", strings.Repeat("b", 30<<10)); res.StatusCode != 503 || !strings.Contains(body, "limits.memory") {
		t.Errorf("beyond the memory: %d %s", res.StatusCode, body)
	}
	for _, c := range open {
		_ = c.Close()
	}
	r.eventually("they are let go of", func() bool { return r.proxy.BodyMemory().Held == 0 })
}

// TestAnswerHeads: heads of answers are bounded too.
func TestAnswerHeads(t *testing.T) {
	for name, header := range map[string][]string{
		"countless fields": fieldsOf(300, 1),
		"a long field":     {"X-A", strings.Repeat("b", 80<<10)},
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Add(header[i], header[i+1])
			}
			_, _ = io.WriteString(w, chatAnswer)
		})
		if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 502 {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
}

// TestAnswersThatAreNotHTTP: what a client is told of them differs from an engine that broke off, and one that says
// twice that its answer is chunked is understood, as is a length beside it.
func TestAnswersThatAreNotHTTP(t *testing.T) {
	if netHTTP() {
		t.Skip("over net/http the client is told that the answer broke off: net/http has no type for a malformed one")
	}
	const chunked = "Transfer-Encoding: chunked\r\n"
	in := func(fields string) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + fields +
			fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(chatAnswer), chatAnswer)
	}
	for name, row := range map[string]struct {
		raw    string
		status int
		body   string
	}{
		"chunked twice":     {in(chunked + chunked), 200, chatAnswer},
		"chunks and length": {in(chunked + "Content-Length: 7\r\n"), 200, chatAnswer},
		"another coding":    {in("Transfer-Encoding: gzip\r\n"), 502, "not valid HTTP/1.1"},
		"a space in a name": {in(chunked + "X A: b\r\n"), 502, "not valid HTTP/1.1"},
		"another protocol":  {"SSH-2.0-OpenSSH_9.2\r\n\r\n", 502, "not valid HTTP/1.1"},
		"a chunk of no size": {
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + chunked + "\r\nx\r\n", 502, "not valid HTTP/1.1",
		},
		"nothing": {"", 502, "broke off"},
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, row.raw)
			_ = c.Close()
		})
		res, body := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != row.status || !strings.Contains(body, row.body) {
			t.Errorf("%s: %d %s", name, res.StatusCode, body)
		}
	}
}

// TestUploadsAreBounded: a body that is passed on unread has the limits of any other, in size and in time.
func TestUploadsAreBounded(t *testing.T) {
	chunked := func(n int) string {
		return "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", 1000, strings.Repeat("x", 1000)), n) + "0\r\n\r\n"
	}
	for _, tt := range []struct {
		name, typ, sent string
		every           time.Duration // then a byte is sent; 0 for never
		want            int
	}{
		{"within", "audio/wav", "Content-Length: 3\r\n\r\nabc", 0, 200},
		{"said to be too long", "audio/wav", "Content-Length: 10001\r\n\r\n", 0, 413},
		{"multipart, too long", "multipart/form-data; boundary=b", "Content-Length: 10001\r\n\r\n", 0, 413},
		{"JSON of an unknown path, too long", "application/json", "Content-Length: 10001\r\n\r\n", 0, 413},
		{"in chunks, within", "audio/wav", chunked(9), 0, 200},
		{"in chunks, too long", "audio/wav", chunked(11), 0, 413},
		{"a pause", "audio/wav", "Content-Length: 1000\r\n\r\nabc", 0, 408},
		{"a byte a second", "audio/wav", "Content-Length: 1000\r\n\r\n", time.Second, 408},
		{"multipart, a pause", "multipart/form-data; boundary=b", "Content-Length: 1000\r\n\r\n--b", 0, 408},
		{
			"multipart, a byte a second", "multipart/form-data; boundary=b", "Content-Length: 1000\r\n\r\n",
			time.Second, 408,
		},
		{"of no type, a byte a second, in chunks", "", "Transfer-Encoding: chunked\r\n\r\n", time.Second, 408},
		{
			"a byte a second, in chunks", "application/octet-stream", "Transfer-Encoding: chunked\r\n\r\n",
			time.Second, 408,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := newRig(t, proxy.Config{
					BodyBytes: 10_000, ReadBody: 3 * time.Second,
				}, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				})
				began := time.Now()
				c := r.open("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: " + tt.typ +
					"\r\n" + tt.sent)
				defer c.Close()
				over := make(chan struct{})
				defer close(over)
				if tt.every > 0 {
					go func() {
						piece := "x"
						if strings.Contains(tt.sent, "chunked") {
							piece = "1\r\nx\r\n"
						}
						for {
							select {
							case <-over:
								return
							case <-time.After(tt.every):
							}
							if _, err := io.WriteString(c, piece); err != nil {
								return
							}
						}
					}()
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if took := time.Since(began); res.StatusCode != tt.want || took > 5*time.Second {
					t.Errorf("%d after %v, want %d", res.StatusCode, took, tt.want)
				}
				r.last(1)
				r.unblamed()
			})
		})
	}
}

// TestUploadTakesItsTime: one that comes steadily may take longer than read_body, and no longer than the whole may.
func TestUploadTakesItsTime(t *testing.T) {
	for _, c := range []struct {
		media string
		whole time.Duration
		want  int
	}{
		{"audio/wav", time.Hour, 200},
		{"audio/wav", 10 * time.Second, 408},
		{"multipart/form-data; boundary=b", time.Hour, 200},
		{"multipart/form-data; boundary=b", 10 * time.Second, 408},
		{"", time.Hour, 200},
		{"", 10 * time.Second, 408},
	} {
		t.Run(c.media+" "+c.whole.String(), func(t *testing.T) {
			whole, want := c.whole, c.want
			bubble(t, func(t *testing.T) {
				r := newRig(t, proxy.Config{
					ReadBody: 3 * time.Second, Upload: whole,
				}, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
				})
				c := r.open("POST /v1/audio/transcriptions HTTP/1.1\r\nHost: x\r\nContent-Type: " + c.media +
					"\r\nContent-Length: 60000\r\n\r\n")
				var sends sync.WaitGroup
				defer sends.Wait()
				defer c.Close()
				sends.Go(func() {
					for range 30 {
						time.Sleep(time.Second)
						if _, err := io.WriteString(c, strings.Repeat("x", 2000)); err != nil {
							return
						}
					}
				})
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _ = res.Body.Close(); res.StatusCode != want {
					t.Errorf("%d, want %d", res.StatusCode, want)
				}
				r.last(1)
			})
		})
	}
}

// TestRefusalsOverHTTP2: a stream that is refused unread is reset, and its connection goes on without GOAWAY.
func TestRefusalsOverHTTP2(t *testing.T) {
	r := newRig(t, proxy.Config{BodyBytes: 10_000, MemoryBytes: 30_000}, answers(200, chatAnswer))
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	fields := hpack.NewEncoder(&block)
	for i, row := range []struct{ typ, length, want string }{
		{"audio/wav", "20000", "413"}, {"application/json", "20000", "413"}, {"application/json", "", "200"},
	} {
		block.Reset()
		for _, h := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "x"},
			{Name: ":path", Value: "/v1/other/transcriptions"},
			{Name: "content-type", Value: row.typ},
			{Name: "content-length", Value: row.length},
		} {
			if h.Name == ":path" {
				h.Value = "/v1/chat/completions"
			}
			if h.Value != "" {
				_ = fields.WriteField(h)
			}
		}
		id := uint32(2*i + 1)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
		if row.length == "" {
			_ = f.WriteData(id, true, []byte(chatBody))
		}
		status := ""
		for ended := false; !ended; {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch frame := frame.(type) {
			case *http2.GoAwayFrame:
				t.Fatalf("request %d is answered with GOAWAY", i)
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				status = frame.PseudoValue("status")
			case *http2.RSTStreamFrame:
				ended = frame.StreamID == id
			case *http2.DataFrame:
				ended = row.length == "" && frame.StreamEnded()
			}
		}
		if status != row.want {
			t.Errorf("request %d is answered %s, want %s", i, status, row.want)
		}
	}
}
