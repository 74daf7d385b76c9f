// Package timeouts limits how long a request waits for an engine.
//
// It owns the contexts of requests and of their attempts, the time limit and the last sign of life of each attempt, and
// the list of endpoints that are not worth waiting for.
//
// It promises that a context ends once and keeps its first cause, and that time limits are paused while the router
// waits for the client.
//
// It never ends an attempt by itself, decides what follows, or starts a waiting goroutine: its caller asks Overdue
// regularly.
package timeouts
