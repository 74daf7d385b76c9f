package kv

import "github.com/tinylib/msgp/msgp"

// Rank is the data-parallel rank in a message's payload; -1 for none or if it is not a batch. It skips the events.
func Rank(payload []byte) int {
	switch msgp.NextType(payload) {
	case msgp.ArrayType:
		n, rest, err := msgp.ReadArrayHeaderBytes(payload)
		if err != nil || n < 3 {
			return -1
		}
		for range 2 {
			if rest, err = msgp.Skip(rest); err != nil {
				return -1
			}
		}
		return rankOf(rest)
	case msgp.MapType:
		n, rest, err := msgp.ReadMapHeaderBytes(payload)
		for ; n > 0 && err == nil; n-- {
			var key []byte
			if key, rest, err = msgp.ReadMapKeyZC(rest); err != nil {
				break
			}
			switch string(key) {
			case "data_parallel_rank", "attn_dp_rank":
				return rankOf(rest)
			}
			rest, err = msgp.Skip(rest)
		}
	}
	return -1
}

// rankOf reads a rank's number; -1 if invalid.
func rankOf(b []byte) int {
	if n, _, err := msgp.ReadInt64Bytes(b); err == nil && n >= 0 && n < maxRank {
		return int(n)
	}
	return -1
}

// maxRank bounds the numbers of ranks.
const maxRank = 1 << 16
