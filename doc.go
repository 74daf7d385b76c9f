// Package warmpath is the five-minute tour of this module. It holds no code.
//
// warmpath is a router for self-hosted LLM engines. Each engine keeps the KV cache of the conversations it has served,
// so a turn that returns to its engine skips most of its prefill. warmpath sends a turn there, unless the engine is
// gone, or busy for longer than computing the conversation again elsewhere takes; a new conversation goes where its
// first token is predicted soonest, what that costs others included.
//
// # The house
//
// The module has two floors, and the directory is the rule. Packages at the top level are pure: no I/O, no clock, no
// goroutine, no global chance. Packages under internal/ touch the world, and cmd/warmpath ties the two. The test
// house_test.go in this folder enforces who may import whom and what pure means.
//
//	fleet, pick   the words: endpoints and requests; what a policy sees and answers
//	prompt        reads a request body: model, conversation, size; splices fields without rewriting the rest
//	route         decides: state, requests and events in; decisions with reasons out. Each package below it owns one
//	              kind of state: conversation, size, health, cache, speed, backlog, arrivals, budget. Two have
//	              none: cost is what a placement costs, split says which legs a request has
//	policy        chooses one of the endpoints that may take a request
//	engine        speaks to each kind of engine: bytes in, values out
//	sim           engines and traffic in virtual time
//
// The same [github.com/warmpath/warmpath/route.Router] runs under two drivers: internal/live gives it the wall clock
// and a lock, sim gives it virtual time. The example of this package runs it in a program of its own.
//
// # The line of one request
//
// internal/proxy reads the body once. prompt finds what it says. internal/live asks route, which asks the pool's policy
// and enters the work into the endpoint's backlog. engine says how to address a rank or slot. internal/proxy passes the
// bytes on and relays the answer, and what became of it goes back through live as events: FirstByte, then Finished.
// internal/discovery and internal/probe tell the same router who is there and how they are. Metrics, logs and traces
// listen. Nothing calls backwards.
//
// # Five minutes
//
// Run it: go run ./cmd/warmpath demo starts simulated engines and the router, and plays conversations through both
// warmpath and round robin. Then read, in this order: Router.Decide in route/decide.go, the whole decision;
// policy/basic/least_tokens.go, a policy; route/testdata, conversations as golden scripts; attempt in internal/proxy,
// one try at one endpoint. docs/architecture.md has the rest, docs/glossary.md the words, docs/decisions the reasons,
// and CONTRIBUTING.md says where things go.
package warmpath
