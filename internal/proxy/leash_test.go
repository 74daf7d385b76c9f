package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A leash ends once, for everybody who asked in whatever way, and keeps its first cause.
func TestLeash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		cause := errors.New("why")
		l := &leash{Context: context.WithValue(context.Background(), key{}, "value")}
		var ran []string
		l.Tie(func() { ran = append(ran, "untied") })
		if !l.Untie() || l.Untie() {
			t.Error("untied wrongly")
		}
		l.Tie(func() { ran = append(ran, "tied") })
		stop := context.AfterFunc(l, func() { t.Error("ran what was stopped") })
		child, cancel := context.WithTimeout(l, time.Hour)
		defer cancel()
		early := l.Done()
		if l.Err() != nil || l.Cause() != nil || !stop() || child.Value(key{}) != "value" {
			t.Error("ended before its end")
		}
		l.end(cause)
		l.end(errors.New("another"))
		synctest.Wait()
		<-early
		<-l.Done()
		<-child.Done()
		if !errors.Is(l.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) || !errors.Is(l.Cause(), cause) || l.Untie() {
			t.Errorf("%v, %v, %v", l.Err(), child.Err(), l.Cause())
		}
		l.Tie(func() { ran = append(ran, "late") })
		late := make(chan struct{})
		if stop := context.AfterFunc(l, func() { close(late) }); stop() {
			t.Error("stopped after the end")
		}
		<-late
		if len(ran) != 2 || ran[0] != "tied" || ran[1] != "late" {
			t.Errorf("ran %v", ran)
		}
	})
}

// What nobody can watch ends with the context that net/http gives: HTTP/2, TLS, requests without a body.
func TestLeashOfAnUnwatchedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(context.Background())
		c := &call{r: httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)}
		c.tether()
		w := &watch{leash: leash{Context: c.ctx}}
		c.watch.Store(w)
		leave()
		synctest.Wait()
		if c.ctx.Err() == nil || w.Err() == nil || c.untether() {
			t.Error("goes on after its client left")
		}
		c = &call{r: httptest.NewRequest(http.MethodPost, "/", http.NoBody)}
		if c.tether(); !c.untether() || c.ctx.Err() == nil {
			t.Error("was not let go of")
		}
	})
}
