// Package send makes of a client's request what one endpoint is sent, and sends it.
//
// It owns the headers and the edits of the body by which an endpoint is told its rank, the tenant's salt, the conversation, whether to report
// usage, and its leg of a split request. It also owns the memory of which endpoints refuse to be asked or told, for ten minutes.
//
// It promises that every byte of the body which no edit names is sent as it came, that headers which end at a proxy do not go on, and that an
// endpoint which refuses what the router added gets the request once more without.
//
// It never chooses an endpoint, waits for its turn, judges an answer or relays one.
package send
