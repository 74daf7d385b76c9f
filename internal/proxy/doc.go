// Package proxy is the HTTP door. It reads a request once, asks the fleet where to send it, sends its bytes there, and
// relays the answer piece by piece.
//
// It owns the requests being served, the loop over their attempts, the order of the two legs of a split request, and
// the relay of answers. The packages below it own the rest:
//
//   - gate: which requests may enter
//   - who: tenant, caller and conversation of a request
//   - body: its bytes
//   - send: the request sent to one endpoint
//   - patience: time limits towards engines
//   - client: writing to a client, with time limits
//   - rewrite: changes of answers
//   - fault: errors for clients
//   - handoff: state that split requests leave for later ones
//   - catalog: the lists of models
//   - h1: the connections to engines in plain text
//
// It promises that each reservation is ended exactly once on each path, that nothing is retried once the client has
// seen a byte, and that an engine stops computing for a client that left.
//
// It never chooses an endpoint: the fleet does.
package proxy
