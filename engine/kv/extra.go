package kv

import (
	"slices"

	"github.com/tinylib/msgp/msgp"
	"github.com/zeebo/xxh3"
)

// extra reads what each block depends on besides its tokens: null or a list per block. Only equality matters, so a hash
// of the bytes is kept.
func (r *reader) extra() {
	any := false
	n := r.list(&r.room.extra)
	for r.e.Extra = slices.Grow(r.e.Extra[:0], n); n > 0 && r.err == nil; n-- {
		h := uint64(0)
		if !r.null() {
			before := r.b
			if r.b, r.err = msgp.Skip(r.b); r.err != nil {
				return
			}
			h, any = xxh3.Hash(before[:len(before)-len(r.b)])|1, true
		}
		r.e.Extra = append(r.e.Extra, h)
	}
	if !any {
		r.e.Extra = r.e.Extra[:0]
	}
}

// SaltExtra is Event.Extra of a prompt's first block when vLLM gets a cache salt and nothing else.
func SaltExtra(salt string) uint64 {
	b := msgp.AppendArrayHeader(nil, 1)
	return xxh3.Hash(msgp.AppendString(b, salt)) | 1
}

// medium reads a medium; common ones allocate nothing.
func (r *reader) medium() string {
	if r.null() {
		return ""
	}
	s, rest, err := msgp.ReadStringZC(r.b)
	r.b, r.err = rest, err
	switch string(s) {
	case "GPU":
		return "GPU"
	case "CPU":
		return "CPU"
	}
	if len(s) > maxNameBytes {
		r.err = errShape
		return ""
	}
	return string(s)
}
