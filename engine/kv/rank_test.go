package kv

import (
	"slices"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/kvstream"
)

// TestRank: the rank equals that of the decoded batch, for messages of real engines and for invalid ones.
func TestRank(t *testing.T) {
	var payloads [][]byte
	for _, name := range []string{"kv_vllm_0.32.txt", "kv_vllm_0.33.txt", "kv_sglang_0.5.23.txt"} {
		for _, frames := range captured(t, name) {
			payloads = append(payloads, frames[2])
		}
	}
	array := slices.Clip(msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1), 0))
	object := slices.Clip(msgp.AppendArrayHeader(
		msgp.AppendString(msgp.AppendFloat64(msgp.AppendString(msgp.AppendMapHeader(nil, 3), "ts"), 1), "events"), 0))
	payloads = append(
		payloads, msgp.AppendInt(array, 7), msgp.AppendNil(array), array, msgp.AppendInt(array, -3),
		msgp.AppendInt(array, maxRank), msgp.AppendInt(msgp.AppendString(object, "data_parallel_rank"), 5),
		msgp.AppendInt(msgp.AppendString(object, "attn_dp_rank"), 6), object, nil, []byte("not msgpack at all"),
	)
	ranks := map[int]int{}
	for _, p := range payloads {
		var b kvstream.Batch
		if err := ReadBatch(p, &b); err != nil {
			b.Rank = -1
		}
		if got := Rank(p); got != b.Rank {
			t.Errorf("%x: rank %d, want %d", p[:min(len(p), 40)], got, b.Rank)
		}
		ranks[b.Rank]++
	}
	if ranks[0] < 5 || ranks[7] != 1 || ranks[5] != 1 || ranks[6] != 1 {
		t.Errorf("ranks %v; the table does not hold what it should", ranks)
	}
	for i := range payloads[0] {
		_ = Rank(payloads[0][:i]) // a truncated message does no harm
	}
}
