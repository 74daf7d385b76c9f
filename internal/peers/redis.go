package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/warmpath/warmpath/internal/panics"
)

// Redis carries frames over the channels of a Redis or Valkey server, or of a Cluster or the master that Sentinels
// name. Frames are not stored, so that a server that is full or read-only carries as well as any, and what another
// program keeps there is no matter. It is a Store too.
type Redis struct {
	options rueidis.ClientOption
	secure  func() *tls.Config // for the next connection, with TLS
	log     *slog.Logger

	mu       sync.Mutex
	queue    []letter
	bytes    int
	wake     chan struct{}
	problems [directions]error // nil for none

	storing sync.Mutex
	store   rueidis.Client // nil until it is needed
	opened  int            // cuts of stores before it was opened
	stores  links
}

// RedisOptions are what a URL does not say.
type RedisOptions struct {
	// of rediss://, as it is now, for each connection; nil for the system's authorities
	TLS      func() (*tls.Config, error)
	Password string // in place of the URL's
	// the same as it is now, for each connection; nil for Password. Sentinels, which have others, want that
	Renew            func() (string, error)
	SentinelUser     string // where Sentinels have users of their own
	SentinelPassword string
	Log              *slog.Logger // nil for none
}

// Each direction has a connection and problems of its own.
const (
	publishes = iota
	hears
	directions
)

var errFault = errors.New("what the server says cannot be read: see the log")

// letter is a frame to be sent; to is 0 for all.
type letter struct {
	to    uint64
	frame []byte
}

// NewRedis makes a transport of a URL: redis://[USER:PASSWORD@]HOST:PORT/DB, or rediss:// for TLS. ?addr=HOST:PORT adds
// further nodes of a Cluster, or with &master_set=NAME further Sentinels.
func NewRedis(url string, with RedisOptions) (*Redis, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	var secure func() *tls.Config
	if o.TLSConfig != nil && with.TLS != nil {
		first, err := with.TLS()
		if err != nil {
			return nil, err
		}
		secure = latest(first, with.TLS)
	}
	if with.Password != "" {
		o.Password = with.Password
	}
	if with.Renew != nil && o.Sentinel.MasterSet == "" {
		user, password := o.Username, latest(o.Password, with.Renew)
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: user, Password: password()}, nil
		}
	}
	o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig = with.SentinelUser,
		with.SentinelPassword, o.TLSConfig
	o.Sentinel.Dialer = net.Dialer{Timeout: dialFor, KeepAlive: silentFor}
	o.ClientName, o.DisableCache, o.ConnWriteTimeout = "warmpath", true, writeFor
	o.Dialer = net.Dialer{Timeout: dialFor, KeepAlive: silentFor}
	if with.Log == nil {
		with.Log = slog.New(slog.DiscardHandler)
	}
	return &Redis{options: o, secure: secure, log: with.Log, wake: make(chan struct{}, 1)}, nil
}

// latest asks get each time, and has what it said last without an error, or first.
func latest[T any](first T, get func() (T, error)) func() T {
	var last atomic.Pointer[T]
	last.Store(&first)
	return func() T {
		if now, err := get(); err == nil {
			last.Store(&now)
		}
		return *last.Load()
	}
}

// Publish implements Transport.
func (d *Redis) Publish(b []byte) { d.Send(0, b) }

// Send implements Transport. What the server is too slow for is dropped; others ask for it.
func (d *Redis) Send(to uint64, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytes += len(b); d.bytes > mostWaits {
		d.queue, d.bytes = nil, 0
		return
	}
	d.queue = append(d.queue, letter{to, b})
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Problem implements Transport.
func (d *Redis) Problem() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, err := range d.problems {
		if err != nil {
			return "Redis: " + err.Error()
		}
	}
	return ""
}

// Unheard implements Transport: which routers there should be is not known.
func (d *Redis) Unheard() string { return "" }

// note notes how a direction does. A problem lasts until a frame was carried: a server may take a connection and refuse
// what is asked for.
func (d *Redis) note(direction int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.problems[direction] = err
}

// open makes a client with these connections.
func (d *Redis) open(l *links) (rueidis.Client, error) {
	o := d.options
	o.DialCtxFn = d.dialer(l)
	return rueidis.NewClient(o)
}

// dialer dials with the authorities and the certificate as they are then.
func (d *Redis) dialer(l *links) func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	return func(ctx context.Context, address string, by *net.Dialer, over *tls.Config) (net.Conn, error) {
		if over != nil && d.secure != nil {
			if c := d.secure(); c != nil {
				c = c.Clone()
				c.ServerName, c.InsecureSkipVerify = over.ServerName, over.InsecureSkipVerify
				over = c
			}
		}
		return l.dial(ctx, address, by, over)
	}
}

// Run implements Transport. Frames come over a connection of their own, so that what is sent never waits for them.
func (d *Redis) Run(ctx context.Context, self Self, receive func([]byte)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for direction, part := range [directions]func(context.Context, rueidis.Client) error{
		publishes: func(ctx context.Context, c rueidis.Client) error { return d.publish(ctx, c, self) },
		hears: func(ctx context.Context, c rueidis.Client) error {
			channels := c.B().Subscribe().Channel(channel(self.Fleet, 0), channel(self.Fleet, self.Incarnation)).Build()
			first := true
			return c.Receive(ctx, channels, func(m rueidis.PubSubMessage) {
				if first { // at the latest this router's own
					first = false
					d.note(hears, nil)
				}
				receive([]byte(m.Message))
			})
		},
	} {
		wg.Go(func() {
			var l links
			defer l.within(ctx)()
			for ctx.Err() == nil {
				err := errFault
				panics.Catch(d.log, panics.Peers, func() {
					var c rueidis.Client
					if c, err = d.open(&l); err == nil {
						defer c.Close()
						err = errFault
						err = part(ctx, c)
					}
				})
				if ctx.Err() != nil {
					return
				}
				d.note(direction, err)
				select {
				case <-ctx.Done():
				case <-time.After(dialEvery):
				}
			}
		})
	}
}

// publish sends what waits until that fails.
func (d *Redis) publish(ctx context.Context, c rueidis.Client, self Self) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		}
		d.mu.Lock()
		queue := d.queue
		d.queue, d.bytes = nil, 0
		d.mu.Unlock()
		var all rueidis.Commands
		for _, l := range queue {
			all = append(all,
				c.B().Publish().Channel(channel(self.Fleet, l.to)).Message(rueidis.BinaryString(l.frame)).Build())
		}
		if len(all) == 0 {
			continue
		}
		limit, cancel := context.WithTimeout(ctx, writeFor)
		for _, r := range c.DoMulti(limit, all...) {
			if err := r.Error(); err != nil {
				cancel()
				return err
			}
		}
		cancel()
		d.note(publishes, nil)
	}
}

// channel is where the frames of a fleet to one router, or to all, are published.
func channel(fleet, to uint64) string {
	name := "wp:{" + strconv.FormatUint(fleet, 16) + "}:"
	if to == 0 {
		return name + "e"
	}
	return name + "to:" + strconv.FormatUint(to, 16)
}
