package body_test

import (
	"io"
	"net/http/httptest"
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
