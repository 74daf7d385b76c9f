package kvevents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/go-zeromq/zmq4/security/null"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/internal/guard"
)

// Bounds for engines that connect.
const (
	mostPublishers = 1024             // connections
	mostTopics     = 4096             // known topics and ranks, including those without an endpoint
	mostTopic      = 256              // bytes of a topic
	mostListened   = 64               // ports
	handshake      = 5 * time.Second  // time for a connection's handshake
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

// Listen opens the ports for engines that connect, if configured. It is called once, before Run, which closes them.
func (f *Follower) Listen(ctx context.Context) error {
	if f.cfg.Listen == "" {
		return nil
	}
	for rank := range f.cfg.ListenRanks {
		addr := strings.TrimPrefix(AddPort(f.cfg.Listen, rank), "tcp://")
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
	slots := make(chan struct{}, mostPublishers/max(1, len(f.listeners)))
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
			f.refuse(c)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			f.log.Warn("KV events: too many publishers dial in, one is refused", "address", c.RemoteAddr(), "most", cap(slots))
			_ = c.Close()
			continue
		}
		open.Go(func() {
			defer func() { <-slots }()
			if err := f.hear(ctx, c, rank); err != nil && ctx.Err() == nil {
				f.log.Debug("KV events: a publisher that dialled in is gone", "address", c.RemoteAddr(), "error", err)
			}
		})
	}
}

// tellAgain is the least interval between logged refusals in seconds: publishers retry again and again.
const tellAgain = 10

// refuse closes a connection from outside kv_events.allow.
func (f *Follower) refuse(c net.Conn) {
	f.refused.Add(1)
	now := time.Now().Unix()
	if last := f.refusedAt.Load(); now-last >= tellAgain && f.refusedAt.CompareAndSwap(last, now) {
		f.log.Warn("KV events: a publisher that dials in is refused, its address is not in kv_events.allow", "address", c.RemoteAddr())
	}
	_ = c.Close()
}

// hear reads what one connection publishes until it ends.
func (f *Follower) hear(ctx context.Context, c net.Conn, rank int) error {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		_ = c.Close()
	}()
	_ = c.SetDeadline(time.Now().Add(handshake))
	peer, err := zmq4.Open(newFramed(c), null.Security(), zmq4.Sub, nil, true, nil)
	if err != nil {
		return err
	}
	if err := peer.SendMsg(zmq4.NewMsg([]byte{1})); err != nil { // all topics
		return err
	}
	_ = c.SetDeadline(time.Time{})
	said := map[publication]*publisher{}
	defer func() { f.hungUp(ctx, said) }()
	for {
		m, err := peer.RecvMsg()
		if err != nil {
			return err
		}
		if m.Type == zmq4.CmdMsg {
			continue
		}
		f.deliver(ctx, said, rank, m.Frames)
	}
}

// deliver passes a message to its publisher's stream, and blocks while that is behind: the engine's own queue then overflows.
func (f *Follower) deliver(ctx context.Context, said map[publication]*publisher, rank int, frames [][]byte) {
	n := len(frames)
	if n < 3 || len(frames[0]) > mostTopic {
		f.untied.Add(1)
		return
	}
	if r := kv.Rank(frames[n-1]); r >= 0 {
		rank = r
	}
	pub := publication{string(frames[0]), rank}
	p := said[pub]
	if p == nil {
		if p = f.publisher(pub); p == nil {
			f.untied.Add(1)
			return
		}
		said[pub] = p
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
