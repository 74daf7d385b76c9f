// Package h1 is a lean HTTP/1.1 client for engines that are reached in plain text, and the listeners of a server: one
// that bounds writes, and a lean one.
//
// The client is an [net/http.RoundTripper], interchangeable with [net/http.Transport] on that path. It exists because a
// router's cost is almost all in its two HTTP halves: http.Transport serves each connection with two goroutines and
// passes every request through channels between them, which is most of its time on short requests and most of its
// memory on thousands of open streams. Here the goroutine that calls RoundTrip writes the request and reads the answer
// itself. A goroutine is started in only two cases: a request body of unknown speed (an upload that is still arriving),
// and a body in memory that the engine does not take within [stallWait].
//
// It supports keep-alive connections (last in, first out, bounded, expiring), one retry on a fresh connection when a
// kept one is dead, cancellation that closes the connection in every phase, streaming of answers as their bytes arrive,
// chunked coding with extensions and trailers, bodies that end with the connection, informational answers, and
// upgrades. It reads strictly: an answer of ambiguous length (RFC 9112 §6.3 and §11.2) is an error.
//
// It deliberately omits TLS, HTTP/2, proxies from the environment, redirects, cookies, content decoding, Expect:
// 100-continue (never sent, so never awaited), request trailers, httptrace and Request.Cancel.
package h1
