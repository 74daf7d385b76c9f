// Package quota says how much each tenant, and all of them together, may ask of the router.
//
// It owns the counts of requests that are open, and what is left of the requests and tokens of a minute. It promises that a Ticket is
// settled once, whichever way its request ends, that what an account has left is never more than its limit, and that the accounts of
// tenants that nobody configured are bounded. Tokens are charged by an estimate when a request comes and by its usage when it ends, so
// that a tenant may come to owe tokens; then it waits for longer.
//
// It never waits, reads no clock of its own, and writes nothing to a client.
package quota
