// Package drive plays a trace through routers and simulated engines on a virtual clock. The routers are those that serve; here
// they are told the time of the simulation.
//
// It owns the one loop of a run: what is due, requests in one leg or two, retries, failures, and news between routers side by
// side. It promises that a run is a function of its Replay, that every turn ends once, and that no router holds anything at the
// end. It never chooses an endpoint, but for the oracle, which a simulation alone can have.
package drive
