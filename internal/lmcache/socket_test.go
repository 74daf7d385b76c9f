package lmcache_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/lmcache"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// captured is the notification of LMCache for the hand-over "r1".
const captured = "82a474797065aa50726f78794e6f746966a67265715f6964a27231"

func notif(t testing.TB, id string) []byte {
	t.Helper()
	b, err := hex.DecodeString(captured)
	if err != nil {
		t.Fatal(err)
	}
	if len(id) > 31 {
		t.Fatal("too long for a fixstr")
	}
	return append(append(b[:len(b)-3], 0xa0|byte(len(id))), id...)
}

func TestReadNotif(t *testing.T) {
	b, err := hex.DecodeString(captured)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := lmcache.ReadNotif(b); err != nil || id != "r1" {
		t.Errorf("%q, %v", id, err)
	}
	more := append([]byte{0x83}, b[1:]...)
	more = append(more, "\xa4rank\x05"...)
	if id, err := lmcache.ReadNotif(more); err != nil || id != "r1" {
		t.Errorf("with a member that is not known: %q, %v", id, err)
	}
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut off": b[:len(b)-1], "more than a map": append(bytes.Clone(b), 1),
		"another type": bytes.Replace(b, []byte("ProxyNotif"), []byte("ProxyNotix"), 1), "no id": {
			0x81, 0xa4, 't', 'y', 'p', 'e', 0xa1, 'x',
		}, "a list": {0x92, 1, 2}, "an endless map": {0xdf, 0xff, 0xff, 0xff, 0xff},
	} {
		if id, err := lmcache.ReadNotif(bad); err == nil {
			t.Errorf("%s: read as %q", name, id)
		}
	}
}

func FuzzReadNotif(f *testing.F) {
	b, _ := hex.DecodeString(captured)
	f.Add(b)
	f.Add([]byte{0x82, 0xa4})
	f.Fuzz(func(t *testing.T, b []byte) {
		if id, err := lmcache.ReadNotif(b); err == nil && (id == "" || len(id) > 256) {
			t.Errorf("%q", id)
		}
	})
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func listen(t *testing.T, timeout time.Duration) *lmcache.Socket {
	t.Helper()
	s, err := lmcache.Listen("127.0.0.1:0", timeout, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// pusher is a prefiller's rank.
func pusher(t *testing.T, s *lmcache.Socket) *zmtp.Conn {
	t.Helper()
	push, err := zmtp.Dial(t.Context(), "tcp://"+s.Addr(), zmtp.Config{Kind: zmtp.Push})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = push.Close() })
	return push
}

// TestNotifications: a hand-over is complete when each rank has told, whichever order and connection they come in.
func TestNotifications(t *testing.T) {
	s := listen(t, 10*time.Second)
	ranks := []*zmtp.Conn{pusher(t, s), pusher(t, s), pusher(t, s)}
	var all sync.WaitGroup
	for i := range 20 {
		id := fmt.Sprint("hand-over-", i)
		wait, forget := s.Expect(id, len(ranks))
		all.Go(func() {
			defer forget()
			if !wait(context.Background()) {
				t.Errorf("%s did not come", id)
			}
		})
	}
	for _, r := range ranks {
		for i := range 20 {
			if err := r.Send(notif(t, fmt.Sprint("hand-over-", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	all.Wait()
	if got := s.Counts(); got != (lmcache.Counts{Taken: 60}) {
		t.Errorf("%+v", got)
	}
}

// TestNotificationsOfNoUse: what nobody waits for is counted and skipped, and so is what is no notification.
func TestNotificationsOfNoUse(t *testing.T) {
	s := listen(t, 10*time.Second)
	push := pusher(t, s)
	wait, forget := s.Expect("r1", 1)
	defer forget()
	for _, m := range [][]byte{notif(t, "r2"), []byte("oops"), notif(t, ""), notif(t, "r1")} {
		if err := push.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if !wait(context.Background()) {
		t.Fatal("it did not come")
	}
	if err := push.Send(notif(t, "r1")); err != nil { // once too often
		t.Fatal(err)
	}
	want := lmcache.Counts{Taken: 1, Unknown: 2, Malformed: 2}
	for range 20_000 { // a minute and more
		if s.Counts() == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%+v, want %+v", s.Counts(), want)
}

// TestNotificationsMissing: time is up, or the client left; and when nothing is ever heard, less time is given.
func TestNotificationsMissing(t *testing.T) {
	s := listen(t, 200*time.Millisecond)
	synctest.Test(t, func(t *testing.T) { notificationsMissing(t, s) })
}

func notificationsMissing(t *testing.T, s *lmcache.Socket) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	wait, forget := s.Expect("gone", 1)
	if wait(ctx) || s.Counts().Missing != 0 {
		t.Error("of a client that left")
	}
	forget()
	forget()
	var all sync.WaitGroup
	for i := range 8 {
		wait, forget := s.Expect(fmt.Sprint(i), 1)
		all.Go(func() {
			defer forget()
			if wait(context.Background()) {
				t.Error("it came")
			}
		})
	}
	all.Wait()
	began := time.Now()
	wait, forget = s.Expect("next", 1)
	defer forget()
	if wait(context.Background()) || time.Since(began) > 150*time.Millisecond {
		t.Errorf("it waits %v although nothing was ever heard", time.Since(began))
	}
	if got := s.Counts(); got.Missing != 9 {
		t.Errorf("%+v", got)
	}
}

// TestPeersThatDoNotSpeakIt: none of them holds anything up, and nothing that they announce is allocated.
func TestPeersThatDoNotSpeakIt(t *testing.T) {
	s := listen(t, 10*time.Second)
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'}, make([]byte, 48)...)
	ready := "\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"
	for _, bytes := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a: b\r\n", 20) + "\r\n", string(greeting[:20]),
		string(greeting) + "\x00\x04oops", string(greeting) + ready + "\x02\xff\xff\xff\xff\xff\xff\xff\xff",
		string(greeting) + ready + strings.Repeat("\x01\x00", 100), string(greeting) + ready + "\xf0\x00",
	} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, bytes); err != nil {
			t.Error(err)
		}
		if len(bytes) > 64 {
			_, _ = io.Copy(io.Discard, c) // ends, since the connection is not kept
		}
		_ = c.Close()
	}
	if got := s.Counts(); got.Taken > 0 || got.Refused < 2 {
		t.Errorf("%+v", got)
	}
	push := pusher(t, s)
	wait, forget := s.Expect("r1", 1)
	defer forget()
	if err := push.Send(notif(t, "r1")); err != nil || !wait(context.Background()) {
		t.Error("others are not heard any more")
	}
}

// TestPing: a peer that asks for a sign of life gets it.
func TestPing(t *testing.T) {
	s := listen(t, time.Second)
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 1, 'N', 'U', 'L', 'L'}, make([]byte, 48)...)
	if _, err := c.Write(append(greeting,
		"\x04\x1a\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH\x04\x09\x04PING\x00\x0aab"...)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 64+2+26+2+7)
	if _, err := io.ReadFull(c, got); err != nil || !strings.HasSuffix(string(got), "\x04\x07\x04PONGab") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestRegistryIsFollowed: a changed file counts within two seconds, a broken one does not.
func TestRegistryIsFollowed(t *testing.T) { synctest.Test(t, registryIsFollowed) }

func registryIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decoders.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"d":{"host":"a","init_port":1,"alloc_port":2}}`)
	r, err := lmcache.NewRegistry(path, 1, handover.Receivers{InitPorts: []int{8}, AllocPorts: []int{9}}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	d := fleet.Endpoint{Name: "d", URL: "http://b:1"}
	if to, ok := r.Of(d); !ok || to.Host != "a" {
		t.Errorf("%+v", to)
	}
	if to, ok := r.Of(fleet.Endpoint{Name: "e", URL: "http://c:1"}); !ok || to.Host != "c" || to.InitPorts[0] != 8 {
		t.Errorf("a decoder that is not in the file receives at %+v", to)
	}
	await := func(host string) {
		t.Helper()
		for range 400 {
			if to, _ := r.Of(d); to.Host == host {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("it is not taken over that the decoder receives at %q", host)
	}
	write(`{"d":{"host":"new-one","init_port":1,"alloc_port":2}}`)
	await("new-one")
	write(`{"d":{"host":"broken"}}`)
	time.Sleep(1200 * time.Millisecond)
	await("new-one")
	write(`{"d":{"host":"newest","init_port":1,"alloc_port":2}}`)
	await("newest")
	if _, err := lmcache.NewRegistry(path, 2, handover.Receivers{}, quiet()); err == nil ||
		!strings.Contains(err.Error(), "too few ports") {
		t.Errorf("with too few ports: %v", err)
	}
	if r, err := lmcache.NewRegistry(`{"d": {"host": "h", "init_port": 1, "alloc_port": 2}}`,
		1, handover.Receivers{}, quiet()); err != nil {
		t.Error(err)
	} else if got, ok := r.Of(fleet.Endpoint{Name: "d", URL: "http://10.0.0.1:1"}); !ok || got.Host != "h" ||
		got.InitPorts[0] != 1 {
		t.Errorf("of the JSON given: %v, %v", got, ok)
	}
	if _, err := lmcache.NewRegistry(path+"x", 2, handover.Receivers{}, quiet()); err == nil {
		t.Error("a file that is not there")
	}
}
