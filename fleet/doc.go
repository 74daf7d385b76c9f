// Package fleet is the vocabulary of the decision core: endpoints and what probes report of them, requests, leases, outcomes and
// usage, as values.
//
// It owns the words, their units and their zero values. It keeps no state and decides nothing; every other package of the core
// may import it.
package fleet
