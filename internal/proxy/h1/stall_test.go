package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// The earlier deadline holds, whoever set it, and that of a Write ends with it.
func TestWriteDeadline(t *testing.T) {
	var got time.Time
	d := writeDeadline{set: func(t time.Time) error { got = t; return nil }}
	now := time.Now()
	early, late := now.Add(time.Second), now.Add(time.Minute)
	for i, step := range []struct {
		ask, bound *time.Time
		want       time.Time
	}{
		{nil, &late, late},
		{&early, nil, early},
		{nil, &time.Time{}, early},
		{nil, &late, early},
		{&time.Time{}, nil, late},
		{nil, &early, early},
		{&late, nil, early},
		{nil, &time.Time{}, late},
	} {
		if step.ask != nil {
			_ = d.ask(*step.ask)
		}
		if step.bound != nil {
			d.bound(*step.bound)
		}
		if !got.Equal(step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}

// A Write that its client does not take fails at the limit or little later; one that waits in between does not, nor
// does one long after the last.
func TestBoundConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := bound(ours, time.Minute)
		defer c.Close()
		go func() {
			time.Sleep(59 * time.Second)
			_, _ = io.ReadFull(theirs, make([]byte, 10))
			time.Sleep(time.Hour)
			_, _ = io.ReadFull(theirs, make([]byte, 5))
		}()
		if n, err := c.Write(make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("%d %v", n, err)
		}
		time.Sleep(time.Hour)
		began := time.Now()
		n, err := c.Write(make([]byte, 10))
		if took := time.Since(began); n != 5 || !errors.Is(err, os.ErrDeadlineExceeded) || took < time.Minute ||
			took > 75*time.Second {
			t.Errorf("%d %v after %v", n, err, took)
		}
		if err := c.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
	})
}
