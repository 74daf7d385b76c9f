// Package drive plays a trace through routers and simulated engines on a virtual clock. The routers are the live ones,
// with simulated time.
//
// It owns the event loop of a run: whole and split requests, retries, failures, and news between routers. It promises
// that a run is a function of its Replay, that every turn ends once, and that no router has open leases at the end. It
// never chooses an endpoint, except for the oracle, which only a simulation can have.
package drive
