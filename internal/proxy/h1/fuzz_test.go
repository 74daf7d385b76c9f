package h1

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readWith reads raw as the answer on a connection of its own, through the same code as RoundTrip.
func readWith(raw []byte, req *http.Request) (*http.Response, []byte, error) {
	c := New(Config{})
	cn := &conn{client: c, nc: nopConn{}}
	cn.in.src = bytes.NewReader(raw)
	x := &exchange{conn: cn, ctx: context.Background()}
	h, err := x.readHead(false, 1<<20)
	if err != nil {
		return nil, nil, err
	}
	resp, err := x.respond(req, &h)
	if err != nil {
		return nil, nil, err
	}
	x.resp = resp
	if x.kind == none {
		return resp, nil, nil
	}
	body, err := io.ReadAll(x)
	return resp, body, err
}

// FuzzResponse holds the reader against net/http's: whatever this package accepts, net/http must accept and read in
// the same way, but for chunked said twice. The other direction is covered by the table of TestAgreesWithTransport,
// which lists where this package is stricter.
func FuzzResponse(f *testing.F) {
	for _, row := range answers {
		f.Add([]byte(row.raw), row.method == http.MethodHead)
	}
	f.Fuzz(func(t *testing.T, raw []byte, isHead bool) {
		req := &http.Request{Method: http.MethodGet}
		if isHead {
			req.Method = http.MethodHead
		}
		got, gotBody, gotErr := readWith(raw, req)
		if got == nil {
			return
		}
		r := bufio.NewReader(bytes.NewReader(raw))
		var want *http.Response
		for {
			var err error
			if want, err = http.ReadResponse(r, req); err != nil {
				if strings.Contains(err.Error(), "too many transfer encodings") {
					return // chunked, said twice, which TestAnswers has
				}
				t.Fatalf("accepted %q, which net/http refuses: %v", raw, err)
			}
			if want.StatusCode >= 200 {
				break
			}
		}
		wantBody, wantErr := io.ReadAll(want.Body)
		if got.Header.Get("Pragma") == "no-cache" { // net/http derives a field from it
			got.Header.Del("Cache-Control")
			want.Header.Del("Cache-Control")
		}
		asNetHTTP(got)
		if got.Status != want.Status || got.ContentLength != want.ContentLength || got.Close != want.Close {
			t.Errorf("got %q %d %v, want %q %d %v", got.Status, got.ContentLength, got.Close, want.Status,
				want.ContentLength, want.Close)
		}
		if diff := cmp.Diff(want.Header, got.Header); diff != "" {
			t.Errorf("header: %s", diff)
		}
		if gotErr != nil { // stricter inside the body: what was read before must be the same
			if !bytes.HasPrefix(wantBody, gotBody) && !bytes.HasPrefix(gotBody, wantBody) {
				t.Errorf("body before the error: %q, want a part of %q", gotBody, wantBody)
			}
			return
		}
		if wantErr != nil || !bytes.Equal(gotBody, wantBody) {
			t.Errorf("body %q, want %q, %v", gotBody, wantBody, wantErr)
		}
	})
}

// FuzzChunkSplits reads the same bytes in one piece and in pieces of every size: where the network cuts must not show.
func FuzzChunkSplits(f *testing.F) {
	for _, row := range answers {
		f.Add([]byte(row.raw), uint8(3), uint8(7))
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece, room uint8) {
		req := &http.Request{Method: http.MethodGet}
		want, wantBody, wantErr := readWith(raw, req)
		cn := &conn{client: New(Config{}), nc: nopConn{}}
		cn.in.src = &pieces{data: raw, size: int(piece)%17 + 1}
		x := &exchange{conn: cn, ctx: context.Background()}
		h, err := x.readHead(false, 1<<20)
		if err == nil {
			x.resp, err = x.respond(req, &h)
		}
		if (err == nil) != (want != nil) {
			t.Fatalf("in pieces: %v; whole: %v, %v", err, want, wantErr)
		}
		if err != nil || x.kind == none {
			return
		}
		var got []byte
		buf := make([]byte, int(room)%23+1)
		for err == nil {
			var n int
			n, err = x.Read(buf)
			got = append(got, buf[:n]...)
		}
		if (err == io.EOF) != (wantErr == nil) || !bytes.Equal(got, wantBody) {
			t.Errorf("in pieces: %q, %v; whole: %q, %v", got, err, wantBody, wantErr)
		}
	})
}
