// Package body holds request bodies in memory, or streams them to the engine.
//
// It owns the pool of buffers, the budget of their bytes, the counted references to each body, and the reading of a
// client that sends one.
//
// It promises that a body takes memory in proportion to the bytes that have arrived, that its memory is given back
// once, after the last reader, and that edits leave all other bytes unchanged.
//
// It never interprets a body, nor knows which endpoint gets it.
package body
