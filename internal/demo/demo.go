// Package demo plays the same conversations to two fleets of simulated engines side by side, and shows what their
// clients see: a policy beside round robin, or prefillers and decoders beside engines that do both. It owns the fleets,
// the traffic and the words and tables that are shown. It promises that both sides get the same conversations, at the
// same times or in the same order, and that nothing it started is left behind. It never makes a router: that is handed
// in, so that the one that is shown is the one that serves.
package demo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/warmpath/warmpath/internal/httpclient"
)

// scene is one of the demos.
type scene interface {
	view
	fleets() []named
	introduce(w io.Writer, sides []*side)
	figures(sides []*side) any
	conclude(w io.Writer, sides []*side)
	play(ctx context.Context, sides []*side)
}

// Run plays until the time is over or ctx ends.
func Run(ctx context.Context, o Options) error {
	client := httpclient.New(&http.Transport{
		MaxIdleConnsPerHost: 1024, MaxResponseHeaderBytes: httpclient.HeadBytes,
	})
	defer client.CloseIdleConnections()
	var show scene = policies{&o}
	if o.Replicas > 0 {
		show = replicas{policies{&o}}
	}
	if o.Agents {
		show = &agents{o: &o, client: client}
	}
	if o.Disagg {
		show = &splits{o: &o, client: client}
	}
	var sides []*side
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	for _, f := range show.fleets() {
		s, err := newSide(ctx, &o, f.name, f.Fleet, client)
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	show.introduce(o.Talk, sides)
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		show.play(ctx, sides)
	}()
	watch(o.Talk, o.Live, show, sides, done)
	if o.JSON {
		return json.NewEncoder(o.Out).Encode(show.figures(sides))
	}
	show.conclude(o.Out, sides)
	return nil
}
