package demo

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/play"
)

// replicas shows several routers that tell each other what they do, beside one alone and beside as many that do not.
// Requests are dealt to them in turn, as load balancers do, and clients name no conversation.
type replicas struct{ policies }

func (p replicas) fleets() []named {
	n := p.o.Replicas
	fleet := func(name string, routers int, share bool) named {
		return named{name, Fleet{
			Policy: p.o.Policy, Endpoints: endpoints("engine", "", p.o.Engines), Routers: routers, Share: share,
		}}
	}
	return []named{
		fleet("one router", 1, false), fleet(fmt.Sprintf("%d as one", n), n, true),
		fleet(fmt.Sprintf("%d apart", n), n, false),
	}
}

func (p replicas) introduce(w io.Writer, sides []*side) {
	s := sides[1]
	fmt.Fprintf(w, `warmpath demo: %d simulated engines behind one router, behind %d that tell each other what they place, and behind %d that do not.
Conversations of several turns begin %.3g times a second. No client names its conversation; requests are dealt to the routers in turn.

Try it:   curl -s %s/admin/replicas

`, len(s.engines), p.o.Replicas, p.o.Replicas, p.o.Rate, s.router.AdminURL)
}

func (p replicas) line(sides []*side) string {
	var lines []string
	for _, s := range sides {
		lines = append(lines, scoreLine(s))
	}
	return strings.Join(lines, "  |  ")
}

func (p replicas) figures(sides []*side) any {
	all := map[string]play.Summary{}
	for i, name := range []string{"one", "together", "apart"} {
		all[name] = sides[i].score.Summary()
	}
	return all
}

func (p replicas) conclude(w io.Writer, sides []*side) {
	fmt.Fprintln(w, p.table(sides))
	var sums []play.Summary
	for _, s := range sides {
		sums = append(sums, s.score.Summary())
	}
	fmt.Fprintf(w, "Hit rate: %.1f %% with one router, %.1f %% with %d as one, %.1f %% with %d apart.\n",
		100*sums[0].HitRate, 100*sums[1].HitRate, p.o.Replicas, 100*sums[2].HitRate, p.o.Replicas)
	complain(w, sums...)
}

// inTurn deals requests to several addresses.
type inTurn struct {
	to   []*url.URL
	next atomic.Uint64
	by   http.RoundTripper
}

// newInTurn has a client's requests dealt to the addresses.
func newInTurn(addresses []string, client *http.Client) (*http.Client, error) {
	d := &inTurn{by: client.Transport}
	for _, a := range addresses {
		u, err := url.Parse(a)
		if err != nil {
			return nil, err
		}
		d.to = append(d.to, u)
	}
	return httpclient.New(d), nil
}

// RoundTrip implements http.RoundTripper.
func (d *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	to := d.to[d.next.Add(1)%uint64(len(d.to))]
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	return d.by.RoundTrip(r)
}
