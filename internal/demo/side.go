package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// Options says what is shown, and where.
type Options struct {
	Duration time.Duration // 0 is until the context ends
	JSON     bool          // one JSON object on Out at the end, words on Talk
	// routers that tell each other what they do, beside one and beside as many that do not; 0 shows something else
	Replicas int
	Agents   bool    // sessions that need more KV cache than there is, with admission and without it
	Disagg   bool    // prefillers and decoders, beside engines that do both
	Policy   string  // beside round robin
	Engines  int     // in each fleet
	Rate     float64 // new conversations a second
	Seed     uint64

	Start func(ctx context.Context, f Fleet) (*Router, error) // of a router that is ready

	Out, Talk io.Writer // figures, and words
	Live      bool      // Talk is a terminal with room for a table that is drawn over
}

// Fleet is what a router is started in front of.
type Fleet struct {
	Policy    string
	Connector string // protocol that hands KV cache over, "" for none
	Endpoints []Endpoint
	Engine    engine.Config // of each engine; zero has the default
	Admission bool
	Routers   int  // before the endpoints; 0 is one
	Share     bool // they tell each other what they do
}

// Endpoint is an engine of a fleet.
type Endpoint struct {
	Name, URL string
	Role      string
}

// named is a fleet with the name of its side.
type named struct {
	name string
	Fleet
}

// Router is a router that runs.
type Router struct {
	URL      string // for clients
	AdminURL string
	Others   []string // addresses of those beside it
	Stop     func(context.Context) error
}

// side is one fleet with its router and what its clients saw.
type side struct {
	name    string
	engines []*enginetest.Server
	router  *Router
	score   *play.Score
	target  play.Target
}

// newSide starts an engine for each endpoint, which has no address yet, and a router in front of them.
func newSide(ctx context.Context, o *Options, name string, f Fleet, client *http.Client) (*side, error) {
	s := &side{name: name}
	var names []string
	for i := range f.Endpoints {
		at := &f.Endpoints[i]
		served, err := enginetest.New(enginetest.Options{
			Dialect: fleet.KindVLLM, Models: []string{"demo"}, Seed: uint64(i), Connector: f.Connector,
			Engine: f.Engine, ContextTokens: f.Engine.CacheTokens,
		})
		if err != nil {
			s.close()
			return nil, err
		}
		s.engines = append(s.engines, served)
		if at.URL, err = served.Listen("127.0.0.1:0"); err != nil {
			s.close()
			return nil, err
		}
		if at.Role != string(fleet.RolePrefill) { // clients see who answers
			names = append(names, at.Name)
		}
	}
	var err error
	if s.router, err = o.Start(ctx, f); err != nil {
		s.close()
		return nil, err
	}
	s.score = play.NewScore(names...)
	s.target = play.Target{URL: s.router.URL, Model: "demo", Sessions: play.Adopt, IgnoreEOS: true, Client: client}
	if o.Replicas > 0 {
		s.target.Sessions = play.None
		if s.target.Client, err = newInTurn(append([]string{s.router.URL}, s.router.Others...), client); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *side) close() {
	if s.router != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.router.Stop(ctx)
	}
	for _, e := range s.engines {
		_ = e.Close()
	}
}

// endpoints makes n endpoints with numbered names.
func endpoints(name, role string, n int) (out []Endpoint) {
	for i := range n {
		out = append(out, Endpoint{Name: fmt.Sprintf("%s-%d", name, i+1), Role: role})
	}
	return out
}

// playAll plays the same conversations to all sides at the same times, batch after batch.
func playAll(ctx context.Context, sides []*side, traffic []trace.Generator, o *Options) {
	const grace = 3 * time.Second
	var wg sync.WaitGroup
	for kind, w := range traffic {
		w.Conversations = int(100*w.PerSecond) + 1 // some hundred seconds a batch; the next one goes on from there
		if o.Duration > 0 {
			w.Conversations = int(w.PerSecond*o.Duration.Seconds()*2) + 10
		}
		for _, s := range sides {
			wg.Go(func() {
				for batch := uint64(0); ctx.Err() == nil; batch++ {
					s.target.Play(ctx, w.Draw(o.Seed+batch+uint64(kind)<<32), grace, s.score.Add)
				}
			})
		}
	}
	wg.Wait()
}
