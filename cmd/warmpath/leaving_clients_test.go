package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

// someLeave is the share of turns whose clients leave.
const someLeave = 0.2

// A held generation has come to an engine, which does not see it before the director lets it.
type held struct{ let chan struct{} }

// gate stands before an engine.
type gate struct {
	came   chan<- held
	engine http.Handler
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/chat/completions" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h := held{make(chan struct{})}
		select {
		case g.came <- h:
		case <-r.Context().Done():
			return
		}
		select {
		case <-h.let:
		case <-r.Context().Done(): // the router takes it back
			return
		}
	}
	g.engine.ServeHTTP(w, r)
}

// sent is a client's request, which the director sends on.
type sent struct {
	req    *http.Request
	answer chan outcome
	closed chan struct{} // the client has read the answer, or left it
	cancel context.CancelFunc
}

type outcome struct {
	res *http.Response
	err error
}

// seat is a client's way to the router.
type seat struct {
	sent chan *sent
	over <-chan struct{}
}

func (s *seat) RoundTrip(req *http.Request) (*http.Response, error) {
	a := &sent{req: req, answer: make(chan outcome, 2), closed: make(chan struct{})}
	select {
	case s.sent <- a:
	case <-s.over:
		return nil, context.Canceled
	}
	select {
	case got := <-a.answer:
		return got.res, got.err
	case <-s.over:
		return nil, context.Canceled
	}
}

// director has clients ask one after the other, each when all is over that the one before it did but what it holds.
type director struct {
	*rig
	t     *testing.T
	came  chan held
	seats []*seat
	pool  *http.Transport
	holds int // requests at closed gates
}

// await receives, or ends the test.
func await[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(aWhile):
		t.Fatal("waited in vain for " + what)
	}
	return got
}

// send takes a client's next request to the router. It is at a gate then.
func (d *director) send(client int) (*sent, held) {
	d.t.Helper()
	a := await(d.t, "a client's request", d.seats[client].sent)
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		res, err := d.pool.RoundTrip(a.req.Clone(ctx))
		if err == nil {
			res.Body = &lastByte{ReadCloser: res.Body, closed: sync.OnceFunc(func() { close(a.closed) })}
		}
		a.answer <- outcome{res, err}
	}()
	return a, await(d.t, "a request at an engine", d.came)
}

// finish lets the engine answer and the client read, or leave at the first token.
func (d *director) finish(a *sent, h held) {
	d.t.Helper()
	close(h.let)
	await(d.t, "the client", a.closed)
	a.cancel()
	d.settle()
}

// settle waits until nothing runs but what is held.
func (d *director) settle() {
	d.t.Helper()
	if !settled(func() bool {
		for _, e := range d.engines {
			if st := e.Stats(); st.Open != 0 || st.Ranks[0].Running+st.Ranks[0].Waiting != 0 {
				return false
			}
		}
		return d.fleet.Stats().Leases == d.holds
	}) {
		d.t.Fatalf("not over: %d are held; %+v", d.holds, d.fleet.Stats())
	}
}

// An early client is to leave before the first token, which the engine does not compute before.
type early struct {
	client int
	asked  *sent
	at     held
}

// ask has a client ask that is to leave before the first token.
func (d *director) ask(client int) early {
	d.t.Helper()
	asked, at := d.send(client)
	d.holds++
	return early{client, asked, at}
}

// again has it leave and ask again, and the router hears the former after the latter. One that stays after all has its
// answer.
func (d *director) again(e early, leaves bool) {
	d.t.Helper()
	if leaves {
		await(d.t, "the end of a client's patience", e.asked.req.Context().Done())
		e.asked.answer <- outcome{nil, e.asked.req.Context().Err()}
		asked, at := d.send(e.client)
		e.asked.cancel()
		d.settle() // it is the second that is held
		e.asked, e.at = asked, at
	}
	d.holds--
	d.finish(e.asked, e.at)
}

// round plays a turn of each conversation. In the first one, those that are to leave before the first token ask first,
// and leave when the others have their answers: what these computed was not there when those were placed.
func (d *director) round(conversations []trace.Conversation, turn int, leave bool) {
	d.t.Helper()
	var waiting []early
	var after []int
	for i := range conversations {
		if leaves, at := conversations[i].Leaves(turn, someLeave); turn == 0 && leaves && at < 0.5 {
			waiting = append(waiting, d.ask(i))
		} else {
			after = append(after, i)
		}
	}
	for _, i := range after {
		switch leaves, at := conversations[i].Leaves(turn, someLeave); {
		case leaves && at < 0.5:
			d.again(d.ask(i), leave)
		case leaves && leave:
			d.finish(d.send(i)) // to the first token
			d.finish(d.send(i))
		default:
			d.finish(d.send(i))
		}
	}
	for _, e := range waiting {
		d.again(e, leave)
	}
}

// leavingRounds is how many turns each conversation has.
const leavingRounds = 6

// leavingConversations share a short system prompt, and each begins with a long question. The first two are left in
// their first turn, which is placed before any engine has computed anything.
func leavingConversations() []trace.Conversation {
	seed := uint64(0)
	out := make([]trace.Conversation, 12)
	for i := range out {
		c := &out[i]
		*c = trace.Conversation{System: 1, SystemTokens: 100}
		for range leavingRounds {
			seed++
			c.Turns = append(c.Turns, trace.Exchange{Seed: seed, User: 100, Answer: 20})
		}
		c.Turns[0].User = 1000
		early := func() bool { leaves, at := c.Leaves(0, someLeave); return leaves && at < 0.5 }
		for i < 2 && !early() {
			c.Turns[0].Seed += 1000
		}
	}
	return out
}

// directed plays the conversations. It returns the score of the turns whose clients stay in any case, with the hit rate
// that engines report, and how many left. If none is to leave, all ask in the same order.
func directed(
	t *testing.T, policy string, conversations []trace.Conversation, leave bool,
) (stayed play.Summary, left int) {
	t.Helper()
	d := &director{t: t, came: make(chan held), pool: &http.Transport{MaxIdleConnsPerHost: len(conversations)}}
	var engines []*enginetest.Server
	d.rig = newRig(t, 0, func(c *config.Config) {
		c.Policy.Name = policy
		for i := range 2 {
			e, err := enginetest.New(enginetest.Options{Models: []string{"m"}, Seed: uint64(i), Speed: 50})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(&gate{d.came, e})
			t.Cleanup(func() {
				server.Close()
				_ = e.Close()
			})
			engines = append(engines, e)
			c.Endpoints = append(c.Endpoints, discovery.EndpointConfig{URL: server.URL, Name: fmt.Sprint("e", i)})
		}
	})
	d.engines = engines
	defer d.pool.CloseIdleConnections()
	var clients sync.WaitGroup
	defer clients.Wait()
	over := make(chan struct{})
	defer close(over)
	share := 0.0
	if leave {
		share = someLeave
	}
	score, gone := play.NewScore(), make(chan play.Turn, len(conversations)*leavingRounds)
	for i := range conversations {
		at := &seat{make(chan *sent), over}
		d.seats = append(d.seats, at)
		target := play.Target{
			URL: d.url, Model: "m", Sessions: play.None, IgnoreEOS: true, Client: &http.Client{Transport: at},
			Leaving: share,
		}
		clients.Go(func() {
			n := 0
			target.Play(context.Background(), conversations[i:i+1], aWhile, func(turn play.Turn) {
				if turn.Left {
					gone <- turn
					return
				}
				if leaves, _ := conversations[i].Leaves(n, someLeave); !leaves {
					score.Add(turn)
				}
				n++
			})
		})
	}
	for n := range leavingRounds {
		d.round(conversations, n, leave)
	}
	clients.Wait()
	d.settle()
	return score.Summary(), len(gone)
}

// TestLeavingTakesNothingFromOthers: clients that leave do not cost the turns of others what engines have computed for
// them. The default policy places by learnt times, dynamo.kv by numbers of tokens: a departed client could mislead
// either.
func TestLeavingTakesNothingFromOthers(t *testing.T) {
	conversations := leavingConversations()
	for _, policy := range []string{"least_ttft", "dynamo.kv"} {
		t.Run(policy, func(t *testing.T) {
			all, none := directed(t, policy, conversations, false)
			some, left := directed(t, policy, conversations, true)
			t.Logf("%d left; hit rate of %d others %.4f, %.4f where none leaves",
				left, some.Requests, some.HitRate, all.HitRate)
			if none != 0 || left < 10 || left != len(conversations)*leavingRounds-some.Requests ||
				some.Requests != all.Requests {
				t.Errorf("%d and %d left, %d and %d turns stayed", none, left, all.Requests, some.Requests)
			}
			if all.Failed+some.Failed != 0 || all.HitRate < 0.6 {
				t.Errorf("%+v; where none leaves %+v", some, all)
			}
			if math.Abs(some.HitRate-all.HitRate) > 0.01*all.HitRate {
				t.Errorf("hit rate %.4f, %.4f where none leaves", some.HitRate, all.HitRate)
			}
		})
	}
}
