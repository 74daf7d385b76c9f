package send

import (
	"net/http"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
)

// The second node of a data-parallel deployment may call its ranks 4 to 7 in its metrics. Some versions of vLLM take
// these numbers in requests, others count from the node's first (input_processor.py: data_parallel_size_local where
// only local engines are addressed). The endpoints are counted from 0. The metrics' numbers are tried first, since the
// 400 of an engine that counts from 0 says what is wrong, and that of one that does not may not.

// rank is the part as its engine counts it.
func (a *Outgoing) rank() fleet.Part {
	part := a.d.Endpoint.Part
	if part.Kind != fleet.Rank || a.d.Peer.FirstRank == 0 {
		return part
	}
	if a.fromZero = a.s.asks.of(a.d.Endpoint.Name).fromZero; !a.fromZero {
		part.Index += a.d.Peer.FirstRank
	}
	return part
}

// sendRanked sends the request. An engine that rejects the number of its rank, so that it has not begun the request,
// gets it again with the number counted the other way, which is remembered unless it is no better.
func (a *Outgoing) sendRanked() (*http.Response, error) {
	res, err := a.sendAsking()
	if err != nil || !a.refusesRank(res) {
		return res, err
	}
	refused := a.fromZero
	a.countRanks(!refused)
	if a.carried() || a.c.Upload != nil { // it cannot be sent once more
		return res, nil
	}
	res.Body.Close()
	a.Withdraw()
	if res, err = a.sendAsking(); err == nil && a.refusesRank(res) {
		a.countRanks(refused)
	}
	return res, err
}

// refusesRank reports whether an answer rejects the number of a rank that can be counted in two ways.
func (a *Outgoing) refusesRank(res *http.Response) bool {
	return a.d.Endpoint.Part.Kind == fleet.Rank && a.d.Peer.FirstRank != 0 && refuses(res, engine.RankRefused)
}

// countRanks remembers how the endpoint's engine counts its ranks.
func (a *Outgoing) countRanks(fromZero bool) {
	a.s.asks.note(a.d.Endpoint.Name, func(n *askNote) { n.fromZero = fromZero })
}
