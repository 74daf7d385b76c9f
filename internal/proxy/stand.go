package proxy

import "time"

// stand waits until it is the request's turn to be sent, if it stands in the router's line; the time limit on the engine begins then. The
// error is that of the attempt's end: the client left, the endpoint is not worth waiting for any more, time is up, or the router is
// shutting down.
func (a *attempt) stand(limit time.Duration) error {
	if !a.d.Waits {
		return nil
	}
	turn := a.c.p.fleet.Turn(a.d.Lease)
	if turn == nil {
		return nil
	}
	a.waits = true
	select {
	case <-turn:
		a.waits = false
		a.watch.Wait(limit)
		return nil
	case <-a.watch.Done():
		return a.watch.Err()
	}
}
