// Package paths decides which requests may enter: under a known host name, on a path that is safe and passed on.
//
// It owns the list of the engines' inference paths.
//
// It promises that a path which acts on an engine as a whole, or leaves its folder in any encoding, does not pass
// unless the configuration names it.
//
// It never answers a request, and knows neither tenants nor endpoints.
package paths
