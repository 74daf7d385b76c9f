// Package fleet is the vocabulary of the decision core, as values: endpoints, probe reports, requests, leases, outcomes
// and usage.
//
// It defines the terms, their units and their zero values. It keeps no state and decides nothing; every other package
// of the core may import it.
package fleet
