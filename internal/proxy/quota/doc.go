// Package quota limits what each tenant, each client address, and all together may ask of the router.
//
// It owns the counts of open requests, and the requests and tokens left of a minute. Those of tenants are of all
// routers that know each other; package peers carries what they use (fleet.go).
//
// It promises that a Ticket is settled once on every path, that an account never has more left than its limit, and that
// accounts of unconfigured tenants are bounded. A request's tokens are estimated when it comes and corrected by its
// usage when it ends, so a tenant may go into debt, and then waits longer.
//
// It never waits, reads no clock of its own, and writes nothing to a client.
package quota
