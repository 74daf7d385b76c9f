// Package bound has the bounds that rooms share: of tables, of times, and of what one event does. Their exact numbers
// do not matter, since nothing that is usual comes near them.
//
// It owns these numbers, and Ring, which keeps the latest of many values. It knows nothing of what they bound.
package bound

import "time"

const (
	// Few entries are in a table that is searched from end to end, of an endpoint or of what is rare in a fleet.
	Few = 64
	// Many entries are in a table that only engines and the configuration can fill, and in memory that is used again.
	Many = 4096
	// Most entries are in a table with one for each conversation, request or name that clients and peers bring.
	Most = 1 << 16
	// Step is how many endpoints, pools, requests or conversations one event does something for. The rest is for the
	// next event, so that decisions do not wait.
	Step = 32
	// Tokens are more than any context has.
	Tokens = 1 << 27
	// Unproved is for how long something is believed that nothing has confirmed yet.
	Unproved = 10 * time.Minute
	// Look is how many leases, spans or names of blocks one event looks at, a few ten ns each.
	Look = 2048
)
