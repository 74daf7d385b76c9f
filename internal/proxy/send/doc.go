// Package send turns a client's request into the request for one endpoint, and sends it.
//
// It owns the headers and the edits of the body that tell an endpoint its rank, the tenant's salt, the conversation,
// whether to report usage, and its leg of a split request. It also owns the memory, of ten minutes, of endpoints that
// rejected such additions.
//
// It promises that every byte of the body outside edits is sent as received, that hop-by-hop headers are not forwarded,
// and that an endpoint that rejects an addition gets the request once more without it.
//
// It never chooses an endpoint, waits in a queue, judges an answer or relays one.
package send
