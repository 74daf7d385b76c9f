package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
)

// The upstreams stand for engines that answer at once. They run in a process of their own, so that their CPU time is
// not the router's, and speak just enough HTTP to be cheap: on a small machine everything shares the same cores.

// serveUpstreams runs n upstreams, prints their addresses on one line, and serves until standard input ends. With
// ticking their streams last until the client leaves.
func serveUpstreams(n int, ticking bool, out io.Writer) error {
	addrs := make([]string, n)
	for i := range addrs {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		addrs[i] = ln.Addr().String()
		go acceptLoop(ln, ticking)
	}
	fmt.Fprintln(out, strings.Join(addrs, " "))
	_, err := io.Copy(io.Discard, os.Stdin) // ends when the parent does
	return err
}

func acceptLoop(ln net.Listener, ticking bool) {
	canned := newAnswers()
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = canned.serve(c, ticking)
		}()
	}
}

// answers are the bytes that the upstreams send.
type answers struct {
	json     []byte
	streamed [][]byte // head with the first chunk, then chunk by chunk; each is one write, as an engine does it
	health   []byte
	models   []byte
	version  []byte
	metrics  []byte
	notFound []byte
}

func newAnswers() *answers {
	sized := func(status, kind, body string) []byte {
		return []byte("HTTP/1.1 " + status + "\r\nServer: canned\r\nContent-Type: " + kind + "\r\nContent-Length: " +
			strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	}
	a := &answers{
		json:   sized("200 OK", "application/json", completion),
		health: sized("200 OK", "text/plain", ""),
		models: sized("200 OK", "application/json",
			`{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","max_model_len":1000000}]}`),
		version: sized("200 OK", "application/json", `{"version":"0.32.0"}`),
		metrics: sized("200 OK", "text/plain; version=0.0.4", "vllm:num_requests_running{model_name=\"m\"} 0\n"+
			"vllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0\n"),
		notFound: sized("404 Not Found", "application/json", `{"detail":"Not Found"}`),
	}
	for i, e := range streamEvents() {
		chunk := fmt.Sprintf("%x\r\n%s\r\n", len(e), e)
		if i == 0 {
			chunk = "HTTP/1.1 200 OK\r\nServer: canned\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n" + chunk
		}
		if i == streamChunks-1 {
			chunk += "0\r\n\r\n"
		}
		a.streamed = append(a.streamed, []byte(chunk))
	}
	return a
}

// serve answers the requests of one connection.
func (a *answers) serve(c net.Conn, ticking bool) error {
	size := 64 << 10
	if ticking {
		size = 4 << 10
	}
	r := bufio.NewReaderSize(c, size)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		get := bytes.HasPrefix(line, []byte("GET "))
		_, path, _ := bytes.Cut(line, []byte(" "))
		path, _, _ = bytes.Cut(path, []byte(" "))
		answer := a.forPath(string(path))
		stream, err := skipRest(r)
		if err != nil {
			return err
		}
		switch {
		case get:
			_, err = c.Write(answer)
		case stream && ticking:
			return tick(c)
		case stream:
			for _, chunk := range a.streamed {
				if _, err = c.Write(chunk); err != nil {
					break
				}
			}
		default:
			_, err = c.Write(a.json)
		}
		if err != nil {
			return err
		}
	}
}

func (a *answers) forPath(path string) []byte {
	switch path {
	case "/health", "/ready", "/":
		return a.health
	case "/v1/models":
		return a.models
	case "/version":
		return a.version
	case "/metrics":
		return a.metrics
	}
	return a.notFound
}

// skipRest reads the header fields and the body of a request, and reports whether it asks for a stream.
func skipRest(r *bufio.Reader) (stream bool, err error) {
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return false, err
			}
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = true
		}
	}
	var asked wish
	if chunked {
		_, err := skipChunks(r, &asked)
		return asked.stream, err
	}
	err = asked.skip(r, length)
	return asked.stream, err
}

// wish is what a body says about streaming. The clients here say it at the beginning; a router that writes bodies anew
// may put it anywhere, so that all of such a body is searched.
type wish struct {
	said, stream bool
	end          []byte // of the part before, since the words may be split between two parts
}

var streamKey, streamWords = []byte(`"stream":`), [][]byte{[]byte(`"stream":true`), []byte(`"stream": true`)}

// skip reads n bytes of a body.
func (w *wish) skip(r *bufio.Reader, n int) error {
	for n > 0 {
		if w.said {
			_, err := r.Discard(n)
			return err
		}
		part, err := r.Peek(min(n, 256))
		if err != nil {
			return err
		}
		if more := min(n, r.Buffered()); more > len(part) && !bytes.Contains(part, streamKey) {
			if part, err = r.Peek(more); err != nil {
				return err
			}
		}
		both := append(w.end, part...)
		for _, words := range streamWords {
			w.stream = w.stream || bytes.Contains(both, words)
		}
		w.said = w.stream || bytes.Contains(part, []byte(`"stream":false`))
		w.end = append(w.end[:0], both[max(0, len(both)-len(streamWords[1])):]...)
		if _, err := r.Discard(len(part)); err != nil {
			return err
		}
		n -= len(part)
	}
	return nil
}

var errChunk = errors.New("malformed chunk")

// skipChunks reads a chunked body, notes what it says about streaming, and returns the number of data bytes.
func skipChunks(r *bufio.Reader, asked *wish) (int64, error) {
	var total int64
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return total, err
		}
		digits, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(";"))
		size, err := strconv.ParseInt(string(digits), 16, 32)
		if err != nil || size < 0 {
			return total, errChunk
		}
		total += size
		if err := asked.skip(r, int(size)); err != nil {
			return total, err
		}
		if line, err = r.ReadSlice('\n'); err != nil {
			return total, err
		}
		if len(bytes.TrimSpace(line)) != 0 {
			return total, errChunk // also for a trailer, which is not sent here
		}
		if size == 0 {
			return total, nil
		}
	}
}
