// Package content is what rules of other routers read of a prompt: its blocks, its length and its characters.
//
// It reads a request and keeps nothing. A prompt that was not read has no blocks and no length.
package content

import "github.com/warmpath/warmpath/fleet"

// BytesPerToken is what estimates of tokens by characters commonly take.
const BytesPerToken = 4

// Blocks is the chain of block hashes of a request's prompt, nil when it is not known.
func Blocks(r *fleet.Request) []uint64 {
	if r.Content == nil {
		return nil
	}
	return r.Content.Blocks
}

// Bytes is the length of a request's prompt in canonical bytes, 0 when it is not known.
func Bytes(r *fleet.Request) int {
	if r.Content == nil {
		return 0
	}
	return r.Content.Bytes
}

// Characters is how many code points so many bytes of a prompt are. What is not ASCII is converted by how many bytes a character
// usually has: three of Chinese, Japanese and Korean, two of others.
func Characters(bytes int, c *fleet.Content) int {
	if c == nil {
		return bytes
	}
	return max(0, bytes-c.Text.CJK*2/3-c.Text.Other/2)
}
