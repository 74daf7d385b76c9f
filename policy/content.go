package policy

import "github.com/warmpath/warmpath/fleet"

// bytesPerToken is what estimates of tokens by characters commonly take.
const bytesPerToken = 4

// blocksOf is the chain of block hashes of a request's prompt, nil when it is not known.
func blocksOf(r *fleet.Request) []uint64 {
	if r.Content == nil {
		return nil
	}
	return r.Content.Blocks
}

// bytesOf is the length of a request's prompt in canonical bytes, 0 when it is not known.
func bytesOf(r *fleet.Request) int {
	if r.Content == nil {
		return 0
	}
	return r.Content.Bytes
}

// characters is how many code points so many bytes of a prompt are. What is not ASCII is converted by how many bytes a character
// usually has: three of Chinese, Japanese and Korean, two of others.
func characters(bytes int, c *fleet.Content) int {
	if c == nil {
		return bytes
	}
	return max(0, bytes-c.Text.CJK*2/3-c.Text.Other/2)
}
