package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/shortlist"
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/internal/split"
)

// asked is a request with what is known of it before an endpoint is looked at. No later step changes it.
type asked struct {
	now   time.Time
	req   *fleet.Request
	pool  pool.Pool           // of the model, with its policies
	who   *conversation.Found // the conversation, in the scope of the answer
	size  size.Prompt         // tokens, and where each block ends
	asker backlog.Asker
	away  Away // that holds the response

	*scratch
}

// noticed is what the steps come upon, for note to write down also of a request that is refused.
type noticed struct {
	missed   cache.Missed
	panicked uint8 // bits of the legs for which ejections for failed requests were ignored
}

// scratch is memory that decisions reuse. What a step has put there, the next ones get as parameters that point to it.
type scratch struct {
	found         [fleet.LegPrefill + 1]conversation.Found // the conversation, in the scope of each side
	lookups       cache.Lookups                            // cached prefixes at all endpoints
	free          split.Free
	turn          admission.Turn
	members       []pool.Member // of a selection
	others        pool.Others   // some of these
	options       []option      // of chooseModel, as are serving and servingOthers
	serving       []pool.Member
	servingOthers pool.Others
	cached        []pick.Cached                         // of fill
	shared        []int64                               // of admit, by row: tokens that members have there
	views         [fleet.LegDecode + 1]pick.View        // of each leg
	rows          [fleet.LegDecode + 1][]pick.Candidate // of these
	arrived       pick.View                             // see fillArrived
	arrivedRows   []pick.Candidate                      // of that
	list          shortlist.List
	not           []int32 // of shortlisted, as is named
	named         []int32
	chance        [fleet.LegPrefill + 1]chance // for choosing who answers, and who computes the prompt
}

// chance is a generator of random numbers.
type chance struct {
	source *rand.PCG
	rand   *rand.Rand
}

func newChance() chance {
	source := rand.NewPCG(0, 0)
	return chance{source, rand.New(source)}
}

// grown is memory for n rows, used again.
func grown(rows *[]pick.Candidate, n int) []pick.Candidate {
	*rows = slices.Grow((*rows)[:0], n)[:n]
	return *rows
}

// identify finds out what is known of a request: its pool, its conversation and the size of its prompt. On an error
// only the pool is set, if that was found.
func (r *readers) identify(now time.Time, req *fleet.Request, s *scratch) (q asked, err error) {
	q = asked{now: now, req: req, who: &s.found[fleet.LegUnsplit], asker: r.asker(req), scratch: s}
	if !r.budget.Allows(now, req) {
		return q, ErrRetryBudget
	}
	if err := r.owns(now, req); err != nil {
		return q, err
	}
	if q.pool, err = r.poolFor(now, req); err != nil {
		return q, err
	}
	r.conversations.Find(now, q.scope(fleet.LegUnsplit), req, q.who)
	last := size.Last{}
	switch reuse := q.pool.AnswerReuse(); {
	case q.who.Unsaid:
		last.Unsaid = reuse.Kept(&q.who.Entry)
	case q.who.Known:
		last.Bytes, last.Tokens = q.who.Entry.Bytes, q.who.Entry.Prompt
	}
	q.size = q.pool.Measure(req, last)
	return q, nil
}

// asker is what the queue needs to know about the request's owner.
func (r *readers) asker(req *fleet.Request) backlog.Asker {
	who := backlog.Asker{Tenant: req.Tenant, QueueClass: req.QueueClass}
	if r.replicas { // other routers are not told names
		who.Tenant = tenantMark(tenantHash(req.Tenant))
	}
	return who
}

// owns reports an id among those that must be known for the request's tenant which is not: it is another tenant's, was
// forgotten, or never existed, and all three look alike.
func (r *readers) owns(now time.Time, req *fleet.Request) error {
	for _, id := range req.Owned {
		if _, ok := r.conversations.Holder(now, req.Tenant, id); !ok {
			return &UnknownIDError{id}
		}
	}
	return nil
}

func (r *readers) poolFor(now time.Time, req *fleet.Request) (pool.Pool, error) {
	name := req.Model
	if name == "" {
		several := false
		switch {
		case req.Class != fleet.Auxiliary && !req.Native:
			name, several = r.pools.Base()
		case req.Native: // engines of the kind that has the API answer, whatever they serve
			several = !r.pools.OneModel(func(e registry.Endpoint) bool {
				return e.Kind() == fleet.KindSGLang && !slices.Contains(req.Exclude, e.Name())
			})
		case req.Binds:
			several = !r.pools.OneModel(func(registry.Endpoint) bool { return true })
		}
		if several {
			return pool.Pool{}, &ModelRequiredError{Known: r.pools.SomeNames()}
		}
		return r.pools.Named(name), nil
	}
	if p := r.pools.Named(name); p.Len() > 0 {
		return p, nil
	}
	if !req.Spelt {
		if listed := r.pools.Listed(name); listed != "" {
			return r.pools.Named(listed), nil
		}
	}
	if p := r.pools.Named(pool.Any); p.Len() > 0 {
		return p, nil
	}
	if r.registry.Len() == 0 {
		return r.pools.Named(""), nil // that there is none is told when its rows are filled
	}
	alias := r.pools.AliasOf(req.Model)
	for _, model := range append(slices.Clip(alias), req.Model) {
		if ago, ok := r.registry.DepartedSince(now, model); ok {
			why := fmt.Sprintf("the last endpoint with %s left %v ago", model, ago.Round(time.Second))
			return pool.Pool{}, &NoEndpointError{Pool: req.Model, Why: why, RetryAfter: time.Second, Departed: true}
		}
	}
	return pool.Pool{}, &UnknownModelError{Model: req.Model, Known: r.pools.SomeNames(), Alias: alias}
}

// tried is the endpoints at which the leg has failed.
func tried(req *fleet.Request, l fleet.Leg) []string {
	if l == fleet.LegPrefill {
		return req.TriedPrefill
	}
	return req.Tried
}

// scope is the namespace of a leg's conversations.
func (q *asked) scope(l fleet.Leg) conversation.Scope {
	return conversation.Scope{Tenant: q.req.Tenant, Pool: q.pool.Namespace(l)}
}

// drawn is the number by which the request's conversation draws a model.
func (q *asked) drawn() uint64 {
	if q.who.ID != "" {
		return placeHash(q.req, q.who.ID)
	}
	return q.req.Seed
}

// placeHash is the hash by which a request without a home is placed.
func placeHash(req *fleet.Request, id string) uint64 {
	if req.HashKey != "" {
		id = req.HashKey
	}
	return blocks.Hash(req.Tenant, id)
}
