package body_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/proxy/body"
)

// TestLateBeforeTheReadReturns: net/http ends a request's context before the read that was too late returns. Who looks
// then is told that the client is late, not that it has left.
func TestLateBeforeTheReadReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		u := body.NewUpload(httptest.NewRecorder(), from,
			body.UploadBounds{Pause: 3 * time.Second, Whole: time.Hour, Bytes: 100}, func() {})
		if u.Late() {
			t.Error("it is late before it was read")
		}
		read := make(chan error)
		next := func() {
			go func() { _, err := u.Read(make([]byte, 10)); read <- err }()
			synctest.Wait()
		}
		next()
		time.Sleep(3*time.Second - time.Nanosecond)
		if u.Late() {
			t.Error("it is late before the pause is over")
		}
		_, _ = to.Write([]byte("abc"))
		if err := <-read; err != nil || u.Late() {
			t.Errorf("%v, late %v: it came in time", err, u.Late())
		}
		time.Sleep(time.Minute) // the engine takes its time
		if u.Late() {
			t.Error("the upload counts as late though nobody reads it")
		}
		next()
		time.Sleep(3 * time.Second)
		if !u.Late() {
			t.Error("it is not late though the pause is over")
		}
		_ = to.Close()
		<-read
	})
}

// deadlines is a ResponseWriter that notes the deadlines on reading.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// duplex is one of HTTP/1.1.
type duplex struct{ deadlines }

func (*duplex) EnableFullDuplex() error { return nil }

// TestNoDeadlineStaysOfAnUpload: over HTTP/2 net/http keeps what a client has reset until the deadline of the last
// read. Over HTTP/1.1 the deadline that wakes a read stays: net/http lifts it.
func TestNoDeadlineStaysOfAnUpload(t *testing.T) {
	past, none := time.Unix(1, 0), time.Time{}
	stream, connection := new(deadlines), new(duplex)
	for _, tt := range []struct {
		w    http.ResponseWriter
		at   *deadlines
		want time.Time
	}{{stream, stream, none}, {connection, &connection.deadlines, past}} {
		u := body.NewUpload(tt.w, io.NopCloser(strings.NewReader("abc")),
			body.UploadBounds{Pause: time.Minute, Whole: time.Hour, Bytes: 100}, func() {})
		if n, err := u.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if set := tt.at.set; len(set) != 1 || !set[0].After(time.Now()) {
			t.Fatalf("the read is bounded by %v", set)
		}
		u.Finish()
		if set := tt.at.set; len(set) < 2 || !set[1].Equal(past) || !set[len(set)-1].Equal(tt.want) {
			t.Errorf("%T: the deadlines are %v, want the last to be %v", tt.w, set, tt.want)
		}
	}
}
