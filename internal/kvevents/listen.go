package kvevents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/instant"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/places"
	"github.com/warmpath/warmpath/internal/zmtp"
)

// Bounds for engines that connect.
const (
	mostPublishers = 1024             // connections
	mostFromOne    = 64               // connections from one address at one port
	mostStray      = 64               // topics and ranks from one address that belong to no endpoint
	mostTopics     = 4096             // known topics and ranks, including those without an endpoint
	mostTopic      = 256              // bytes of a topic
	mostListened   = 64               // ports
	idle           = 10 * time.Minute // after which an unused topic without an endpoint may be dropped to make room
)

// checkListen checks an address to listen at, with one port per rank.
func checkListen(addr string, ranks int) error {
	if ranks < 1 || ranks > mostListened {
		return fmt.Errorf("kvevents: listen_ranks is %d, must be between 1 and %d", ranks, mostListened)
	}
	if addr == "" {
		return nil
	}
	rest, ok := strings.CutPrefix(addr, "tcp://")
	_, port, err := net.SplitHostPort(rest)
	if !ok || err != nil {
		return fmt.Errorf("kvevents: listen is %q, must be tcp://HOST:PORT", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n+ranks-1 > 65535 || n == 0 && ranks > 1 {
		return fmt.Errorf("kvevents: listen has the port %q, must be a port (of every rank) between 1 and 65535", port)
	}
	return nil
}

// Listeners are the addresses HOST:PORT to listen at, one for each rank. There are none where they are not configured,
// or wrongly.
func (c Config) Listeners() (all []string) {
	if c.Listen == "" || checkListen(c.Listen, c.ListenRanks) != nil {
		return nil
	}
	for rank := range c.ListenRanks {
		all = append(all, strings.TrimPrefix(AddPort(c.Listen, rank), "tcp://"))
	}
	return all
}

// Listen opens the ports for engines that connect, if configured. It is called once, before Run, which closes them.
func (f *Follower) Listen(ctx context.Context) error {
	for _, addr := range f.cfg.Listeners() {
		if host, port, err := net.SplitHostPort(addr); err == nil && host == "*" {
			addr = net.JoinHostPort("", port)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		if err != nil {
			f.closeListeners()
			return fmt.Errorf("kv_events.listen: %w", err)
		}
		f.listeners = append(f.listeners, l)
	}
	return nil
}

func (f *Follower) closeListeners() {
	for _, l := range f.listeners {
		_ = l.Close()
	}
}

// accept accepts connections at the port of a rank until it is closed.
func (f *Follower) accept(ctx context.Context, l net.Listener, rank int) {
	var open sync.WaitGroup
	defer open.Wait()
	most := mostPublishers / max(1, len(f.listeners))
	seats := places.New(most, min(mostFromOne, most))
	for ctx.Err() == nil {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // most likely too many open files
			select {
			case <-ctx.Done():
			case <-time.After(reconnect):
			}
			continue
		}
		if !f.allowed.Contain(guard.SourceOf(c.RemoteAddr().String())) {
			f.refuse(c, "its address is not in kv_events.allow")
			continue
		}
		leave, err := seats.Take(c.RemoteAddr())
		if err != nil {
			f.refuse(c, err.Error())
			continue
		}
		open.Go(func() {
			defer leave()
			err := errPanic
			panics.Catch(f.log, panics.KVEvents, func() { err = f.hear(ctx, c, rank) })
			switch {
			case errors.Is(err, zmtp.ErrNoRoom), errors.Is(err, zmtp.ErrTooLong):
				f.refuse(c, err.Error())
			case err != nil && ctx.Err() == nil:
				f.log.Debug("KV events: a publisher that dialled in is gone", "address", c.RemoteAddr(), "error", err)
			}
		})
	}
}

// tellAgain is the least interval between logged refusals: publishers retry again and again.
const tellAgain = 10 * time.Second

// refuse closes a connection that is not heard.
func (f *Follower) refuse(c net.Conn, why string) {
	f.refused.Add(1)
	now := instant.Now()
	if last := f.refusedAt.Load(); now-last >= int64(tellAgain) && f.refusedAt.CompareAndSwap(last, now) {
		f.log.Warn("KV events: a publisher that dials in is refused, "+why, "address", c.RemoteAddr())
	}
	_ = c.Close()
}

// Refusing reports whether a connection was refused within the last minute.
func (f *Follower) Refusing() bool { return instant.Now()-f.refusedAt.Load() < int64(time.Minute) }

// hear reads what one connection publishes until it ends.
func (f *Follower) hear(ctx context.Context, c net.Conn, rank int) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		_ = c.Close()
	}()
	sub, err := zmtp.Open(c, socket(zmtp.Sub, f.room))
	if err != nil {
		return err
	}
	if err := sub.Subscribe(""); err != nil {
		return err
	}
	x := speaker{from: guard.SourceOf(c.RemoteAddr().String()), said: map[publication]*publisher{}}
	defer func() { f.hungUp(ctx, x.said) }()
	for {
		frames, err := sub.Receive()
		if err != nil {
			return err
		}
		f.deliver(ctx, &x, rank, frames)
	}
}

// speaker is one connection of a publisher.
type speaker struct {
	from netip.Addr
	said map[publication]*publisher
	deaf time.Time // until when topics that it has not sent before are dropped
}

// deafFor is how long a caller whose topic found no room is not asked about others.
const deafFor = time.Second

// deliver passes a message to its publisher's stream, and blocks while that is behind: the engine's own queue then
// overflows.
func (f *Follower) deliver(ctx context.Context, x *speaker, rank int, frames [][]byte) {
	n := len(frames)
	if n < 3 || len(frames[0]) > mostTopic {
		f.untied.Add(1)
		return
	}
	if r := kv.Rank(frames[n-1]); r >= 0 {
		rank = r
	}
	pub := publication{string(frames[0]), rank, x.from}
	p := x.said[pub]
	if p == nil {
		if now := time.Now(); now.After(x.deaf) {
			if p = f.publisher(pub); p == nil {
				x.deaf = now.Add(deafFor)
			}
		}
		if p == nil {
			f.untied.Add(1)
			return
		}
		x.said[pub] = p
	}
	select {
	case <-p.decided:
	case <-ctx.Done():
		return
	}
	if s := f.streamOf(p); s == nil || !s.give(ctx, frames) {
		f.untied.Add(1)
	}
}
