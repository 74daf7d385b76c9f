// Package body holds request bodies in memory, or passes them on as they stream in.
//
// It owns the pool of buffers, the budget of their bytes, the counted references to each body, and the reading of a client that sends one.
//
// It promises that a body takes memory in proportion to what has arrived of it, that its memory is given back once, after the last reader, and
// that edits are spliced between bytes which stay as they came.
//
// It never looks at what a body says, nor at which endpoint gets it.
package body
