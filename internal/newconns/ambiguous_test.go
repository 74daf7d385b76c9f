package newconns_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/warmpath/warmpath/internal/newconns"
)

// TestCloseAmbiguous: after a request that could have been read to another end, nothing that follows it is taken for a
// request. After others the connection stays open, but for one in chunks where an earlier one stated a length: it is
// not known there where a head ends.
func TestCloseAmbiguous(t *testing.T) {
	const (
		chunked = "Transfer-Encoding: chunked\r\n"
		length  = "Content-Length: 5\r\n"
		body    = "0\r\n\r\n" // five bytes, or a body without chunks
		get     = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
		old     = " / HTTP/1.0\r\nConnection: keep-alive\r\n"
	)
	post := func(fields ...string) string {
		return "POST / HTTP/1.1\r\nHost: x\r\n" + strings.Join(fields, "") + "\r\n" + body
	}
	for name, row := range map[string]struct {
		sent      []string // one request after the other
		encrypted bool     // the server cannot see what was sent
		closes    bool     // the last
	}{
		"no body":      {sent: []string{get}},
		"a length":     {sent: []string{post(length)}},
		"chunks":       {sent: []string{post(chunked)}},
		"chunks twice": {sent: []string{post(chunked), get, post(chunked)}},
		"fields like a length": {
			sent: []string{post(chunked, "X-Content-Length: 5\r\nContent-Type: content-length\r\n")},
		},
		"a length after chunks": {sent: []string{post(chunked), post(length)}},
		"chunks after a length": {sent: []string{post(length), post(chunked)}, closes: true},
		"both":                  {sent: []string{post(length, chunked)}, closes: true},
		"both, the other way":   {sent: []string{post(chunked, length)}, closes: true},
		"both, in other letters": {
			sent: []string{post("cONTENT-lENGTH:5\r\nX: y\r\nTRANSFER-ENCODING: Chunked\r\n")}, closes: true,
		},
		"both, in lines without CR": {
			sent: []string{
				"POST / HTTP/1.1\nHost: x\nContent-Length: 5\nTransfer-Encoding: chunked\n\n" + body,
			},
			closes: true,
		},
		"HTTP/1.0":              {sent: []string{"GET" + old + "\r\n"}, closes: true},
		"HTTP/1.0, chunks":      {sent: []string{"POST" + old + chunked + "\r\n" + body}, closes: true},
		"HTTP/1.0, both":        {sent: []string{"POST" + old + chunked + length + "\r\n" + body}, closes: true},
		"encrypted, no body":    {sent: []string{get}, encrypted: true},
		"encrypted, a length":   {sent: []string{post(length)}, encrypted: true},
		"encrypted, maybe both": {sent: []string{post(chunked)}, encrypted: true, closes: true},
	} {
		for _, slowly := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, byte by byte %v", name, slowly), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testAmbiguous(t, row.sent, row.encrypted, slowly, row.closes) })
			})
		}
	}
}

func testAmbiguous(t *testing.T, sent []string, encrypted, slowly, closes bool) {
	var asked []string // one request after the other
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked = append(asked, r.URL.Path)
	})}
	newconns.CloseAmbiguous(server)
	p := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
	var l net.Listener = p
	if !encrypted {
		l = newconns.Plain(p, "traffic", slog.New(slog.DiscardHandler))
	}
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		<-done
	}()
	near, far := net.Pipe()
	defer near.Close()
	p.come <- far
	answers := bufio.NewReader(near)
	for i, text := range append(sent, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n") {
		go func() {
			var from io.Reader = strings.NewReader(text)
			if slowly {
				from = iotest.OneByteReader(from)
			}
			_, _ = io.Copy(struct{ io.Writer }{near}, from)
		}()
		res, err := http.ReadResponse(answers, nil)
		if closes && i == len(sent) {
			if err == nil {
				t.Errorf("what follows is answered %d", res.StatusCode)
			}
			continue
		}
		if err != nil || res.StatusCode != http.StatusOK || res.Close != (closes && i == len(sent)-1) {
			t.Fatalf("request %d of %d is answered %+v, %v", i+1, len(sent), res, err)
		}
		synctest.Wait() // all of it is sent
	}
	if next := len(asked) > len(sent); next == closes {
		t.Errorf("asked for %q", asked)
	}
}
