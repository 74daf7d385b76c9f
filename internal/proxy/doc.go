// Package proxy serves clients over HTTP. It reads a request once, asks the fleet where to send it, sends its bytes
// there, and relays the answer piece by piece.
//
// It owns the requests being served, the loop over their attempts, the order of the two legs of a split request, and
// the relay of answers. The packages below it own the rest:
//
//   - paths: which requests may enter
//   - identity: tenant, caller and conversation of a request
//   - quota: limits of tenants and clients
//   - body: a request's bytes
//   - send: the request sent to one endpoint
//   - external: requests that another program sends, such as Envoy
//   - timeouts: time limits towards engines
//   - client: writing to a client, with time limits
//   - rewrite: changes of answers
//   - fault: errors for clients
//   - transfers: what split requests leave for later ones
//   - catalog: the lists of models
//   - h1: the connections to engines in plain text
//
// It promises that each reservation is ended exactly once on each path, that nothing is retried once the client has
// seen a byte, and that an engine stops computing for a client that left.
//
// It never chooses an endpoint: the fleet does.
package proxy
