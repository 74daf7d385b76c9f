// Package content gives the rules of other routers a prompt's blocks, length and characters.
//
// It reads a request and keeps nothing. A prompt that was not parsed has no blocks and no length.
package content

import "github.com/warmpath/warmpath/fleet"

// BytesPerToken is the common estimate of tokens by characters.
const BytesPerToken = 4

// Blocks is the chain of block hashes of a request's prompt; nil when unknown.
func Blocks(r *fleet.Request) []uint64 {
	if r.Content == nil {
		return nil
	}
	return r.Content.Blocks
}

// Whole is the hash of a request's whole prompt; 0 when unknown.
func Whole(r *fleet.Request) uint64 {
	if r.Content == nil {
		return 0
	}
	return r.Content.Hash
}

// Bytes is the length of a request's prompt in canonical bytes; 0 when unknown.
func Bytes(r *fleet.Request) int {
	if r.Content == nil {
		return 0
	}
	return r.Content.Bytes
}

// Characters converts a number of a prompt's bytes to code points, by the usual bytes per character: three for Chinese,
// Japanese and Korean, two for others beyond ASCII.
func Characters(bytes int, c *fleet.Content) int {
	if c == nil {
		return bytes
	}
	return max(0, bytes-c.Text.CJK*2/3-c.Text.Other/2)
}
