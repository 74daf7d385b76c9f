// Package fault turns errors into what clients see.
//
// It owns the table from errors to statuses, types and codes, the errors of the door and of the two legs of a split
// request, and the shape of an error in each API.
//
// It promises that each error of the door has one row, that an error names an endpoint but never its address, and that
// what an engine said of a prompt can be kept out of a log (Unsaid).
//
// It never writes to a client, and never decides whether a request is tried again.
package fault
