package timeouts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A Cancelable ends once for all its listeners, and keeps its first cause.
func TestCancelable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		cause := errors.New("why")
		l := &Cancelable{Context: context.WithValue(context.Background(), key{}, "value")}
		var ran []string
		l.SetOnDone(func() { ran = append(ran, "untied") })
		if !l.ClearOnDone() || l.ClearOnDone() {
			t.Error("untied wrongly")
		}
		l.SetOnDone(func() { ran = append(ran, "tied") })
		stop := context.AfterFunc(l, func() { t.Error("ran what was stopped") })
		child, cancel := context.WithTimeout(l, time.Hour)
		defer cancel()
		early := l.Done()
		if l.Err() != nil || l.Cause() != nil || !stop() || child.Value(key{}) != "value" {
			t.Error("ended before its end")
		}
		l.End(cause)
		l.End(errors.New("another"))
		synctest.Wait()
		<-early
		<-l.Done()
		<-child.Done()
		if !errors.Is(l.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) ||
			!errors.Is(l.Cause(), cause) || l.ClearOnDone() {
			t.Errorf("%v, %v, %v", l.Err(), child.Err(), l.Cause())
		}
		l.SetOnDone(func() { ran = append(ran, "late") })
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
