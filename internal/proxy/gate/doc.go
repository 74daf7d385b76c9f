// Package gate says which requests may enter: under a host name that is known, on a path that is safe and passed on.
//
// It owns the list of the inference paths that engines have. It promises that a path which acts on an engine as a whole, or leads out of its
// folder however it is encoded, does not pass unless the configuration names it. It never answers a request, and knows neither tenants nor
// endpoints.
package gate
