// Package proxy is the HTTP door. It reads a request once, asks the fleet where it goes, has its bytes sent there, and relays the answer piece by
// piece.
//
// It owns the requests being served, the loop over their attempts, the order of the two legs of a split request, and the relay of answers. The
// packages below it own the rest:
//
//   - gate: which requests may enter
//   - who: whose a request is
//   - body: its bytes
//   - send: what one endpoint is sent of it
//   - patience: for how long an engine is waited for
//   - client: writing to a client, and for how long it is waited for
//   - rewrite: what is changed of an answer on its way
//   - fault: what clients see of errors
//   - handoff: what split requests leave to later ones
//   - catalog: the lists of models
//   - h1: the connections to engines in plain text
//
// It promises that each reservation is ended exactly once on each path, that nothing is retried once the client has seen a byte, and that an engine
// stops computing for a client that left.
//
// It never chooses an endpoint: the fleet does.
package proxy
