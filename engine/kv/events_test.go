package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/warmpath/warmpath/kvstream"
)

// captured reads the frames of a file in testdata: topic, sequence, payload.
func captured(t testing.TB, name string) (out [][3][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, b); len(frames) == 3 {
			out = append(out, [3][]byte(frames))
			frames = nil
		}
	}
	if len(out) == 0 {
		t.Fatal("no messages in ", name)
	}
	return out
}

// read reads the message with a sequence number.
func readCaptured(t *testing.T, name string, seq uint64) *kvstream.Batch {
	t.Helper()
	for _, m := range captured(t, name) {
		if binary.BigEndian.Uint64(m[1]) == seq {
			var b kvstream.Batch
			if err := ReadBatch(m[2], &b); err != nil {
				t.Fatal(err)
			}
			return &b
		}
	}
	t.Fatalf("%s has no message %d", name, seq)
	return nil
}

func TestCapturedVLLM(t *testing.T) {
	b := readCaptured(t, "kv_vllm_0.32.txt", 1)
	if b.At != 1795195049.5013444 || b.Rank != 0 || b.Skipped != 0 || len(b.Events) != 1 {
		t.Fatalf("got %v, rank %d, %d skipped, %d events", b.At, b.Rank, b.Skipped, len(b.Events))
	}
	e := b.Events[0]
	if diff := cmp.Diff([]uint64{
		7397536317841547495, 16819613724100113685, 8185291406455929620,
	}, e.Hashes); diff != "" {
		t.Error(diff)
	}
	if e.Kind != kvstream.Stored || e.HasParent || len(e.Tokens) != 96 || e.Tokens[0] != 3395 || e.BlockTokens != 32 ||
		e.Medium != "GPU" || e.Windowed || len(e.Extra) != 0 {
		t.Errorf("got %+v", e)
	}
	next := readCaptured(t, "kv_vllm_0.32.txt", 2).Events[0]
	if !next.HasParent || next.Parent != e.Hashes[2] || len(next.Hashes) != 2 {
		t.Errorf("the prompt that goes on: %+v", next)
	}
	salted := readCaptured(t, "kv_vllm_0.32.txt", 5).Events[0]
	if len(salted.Extra) != 3 || salted.Extra[0] == 0 || salted.Extra[1] != 0 {
		t.Errorf("extra keys %v, want them in the first block only", salted.Extra)
	}
	if s := readCaptured(t, "kv_vllm_0.32.txt", 7).Events[0].Session; s == "" {
		t.Error("no session")
	}
	first, again := readCaptured(t, "kv_vllm_0.32.txt", 7).Events[0], readCaptured(t, "kv_vllm_0.32.txt", 8).Events[0]
	if again.Hashes[len(again.Hashes)-1] != first.Hashes[len(first.Hashes)-1] {
		t.Error("message 8 stores the last block of 7 again")
	}
	cleared := readCaptured(t, "kv_vllm_0.32.txt", 11)
	if cleared.Events[0].Kind != kvstream.Cleared || cleared.Events[1].Kind != kvstream.Stored {
		t.Errorf("got %+v", cleared.Events)
	}
	if e := readCaptured(t, "kv_vllm_0.32.txt", 43).Events; e[0].Kind != kvstream.Removed || len(e[0].Hashes) != 1 ||
		e[0].Medium != "GPU" {
		t.Errorf("got %+v", e[0])
	}
}

// TestCapturedVLLM33: what vLLM 0.33 sends is read as before; the tokens behind a block that its hash covers too are
// left out.
func TestCapturedVLLM33(t *testing.T) {
	const name = "kv_vllm_0.33.txt"
	if e := readCaptured(t, name, 0).Events[0]; e.Kind != kvstream.Stored || e.Session != "s1" || len(e.Hashes) != 2 ||
		len(e.Tokens) != 64 || e.BlockTokens != 32 || e.Medium != "GPU" {
		t.Errorf("got %+v", e)
	}
	if e := readCaptured(t, name, 1).Events[0]; len(e.Extra) != 2 || e.Extra[0] == 0 || e.Extra[1] != 0 {
		t.Errorf("with a salt: %+v", e)
	}
	if e := readCaptured(t, name, 2).Events; len(e) != 1 || e[0].Kind != kvstream.Cleared {
		t.Errorf("got %+v", e)
	}
	b := readCaptured(t, name, 3)
	if e := b.Events; b.Skipped != 0 || len(e) != 1 || len(e[0].Hashes) != 2 || len(e[0].Tokens) != 64 ||
		e[0].Tokens[63] != 63 {
		t.Errorf("with lookahead tokens: %+v", b)
	}
}

func TestCapturedSGLang(t *testing.T) {
	if e := readCaptured(t, "kv_sglang_0.5.23.txt", 9).Events; len(e) != 1 || e[0].Kind != kvstream.Cleared {
		t.Errorf("got %+v", e)
	}
	if e := readCaptured(t, "kv_sglang_0.5.23.txt", 13).Events[0]; e.Salt == "" {
		t.Errorf("no salt in %+v", e)
	}
	b := readCaptured(t, "kv_sglang_0.5.23.txt", 28)
	var kinds []kvstream.Kind
	for _, e := range b.Events {
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]kvstream.Kind{kvstream.Removed, kvstream.Stored, kvstream.Removed}, kinds); diff != "" {
		t.Error(diff)
	}
}

// TestCapturedSGLangLoad: SGLang's load messages are not batches of events. A subscription to the port of the load
// publisher gives an error and no events.
func TestCapturedSGLangLoad(t *testing.T) {
	for _, m := range captured(t, "load_sglang_0.5.23.txt") {
		var b kvstream.Batch
		if err := ReadBatch(m[2], &b); err == nil || len(b.Events) > 0 {
			t.Errorf("%x is read as %d events, error %v", m[2], len(b.Events), err)
		}
	}
}

// TestPublishedBatches are the payloads in the description of vLLM's format, in both encodings.
func TestPublishedBatches(t *testing.T) {
	stored := kvstream.Event{
		Kind: kvstream.Stored, Hashes: []uint64{0xb0147556276afc9c}, Tokens: []uint32{1, 2, 3, 4},
		BlockTokens: 4, Medium: "GPU",
	}
	for name, c := range map[string]struct {
		hex  string
		want []kvstream.Event
		rank int
	}{
		"map stored": {"93cb41d954fc402000009188a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfb0147556276afc9cb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c000", []kvstream.Event{stored}, 0},
		"array stored": {
			"93cb41d954fc402000009198ab426c6f636b53746f72656491cfb0147556276afc9cc0940102030404c0a3475055c000",
			[]kvstream.Event{stored},
			0,
		},
		"map removed": {
			"93cb41d954fc402000009183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cfb0147556276afc9ca66d656469756da347505500", []kvstream.Event{{Kind: kvstream.Removed, Hashes: []uint64{0xb0147556276afc9c}, Medium: "GPU"}}, 0,
		},
		"map cleared": {"93cb41d954fc402000009181a474797065b0416c6c426c6f636b73436c656172656400", []kvstream.Event{
			{Kind: kvstream.Cleared},
		}, 0},
		"array cleared": {"92cb41d954fc402000009191b0416c6c426c6f636b73436c6561726564", []kvstream.Event{
			{Kind: kvstream.Cleared},
		}, -1},
	} {
		raw, _ := hex.DecodeString(c.hex)
		var b kvstream.Batch
		if err := ReadBatch(raw, &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b.Rank != c.rank || b.At != 1700000000.5 && b.At == 0 {
			t.Errorf("%s: rank %d at %v", name, b.Rank, b.At)
		}
		if diff := cmp.Diff(c.want, b.Events, cmp.Transformer("empty", func(in []uint32) []uint32 {
			return in[:len(in):len(in)]
		}), emptyIsNil()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		for cut := range raw {
			_ = ReadBatch(raw[:cut], &b) // an error, or nothing lost but the rank: never a panic
		}
	}
}

func emptyIsNil() cmp.Option {
	return cmp.FilterValues(func(a, b any) bool { return isEmpty(a) && isEmpty(b) }, cmp.Ignore())
}

func isEmpty(v any) bool {
	switch x := v.(type) {
	case []uint64:
		return len(x) == 0
	case []uint32:
		return len(x) == 0
	}
	return false
}

// TestForeignEvents puts malformed or unknown events between two good ones.
func TestForeignEvents(t *testing.T) {
	good := func(b []byte) []byte {
		return msgp.AppendString(msgp.AppendArrayHeader(b, 1), "AllBlocksCleared")
	}
	hashes := func(b []byte, n uint32) []byte {
		b = msgp.AppendArrayHeader(b, n)
		for i := range n {
			b = msgp.AppendUint64(b, uint64(i))
		}
		return b
	}
	for name, foreign := range map[string][]byte{
		"unknown kind":       msgp.AppendString(msgp.AppendArrayHeader(nil, 1), "BlockMoved"),
		"a number":           msgp.AppendInt(nil, 3),
		"an empty array":     msgp.AppendArrayHeader(nil, 0),
		"a map without type": msgp.AppendInt(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "x"), 1),
		"negative tokens": msgp.AppendInt(msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendNil(hashes(
			msgp.AppendString(msgp.AppendArrayHeader(nil, 5), "BlockStored"), 1)), 1), -4), 1),
		"tokens that do not fill the blocks": msgp.AppendInt(
			msgp.AppendInt(msgp.AppendArrayHeader(msgp.AppendNil(hashes(
				msgp.AppendString(msgp.AppendArrayHeader(nil, 5), "BlockStored"), 2)), 1), 4), 1),
		"a block size of 2^40": msgp.AppendInt64(msgp.AppendArrayHeader(msgp.AppendNil(hashes(
			msgp.AppendString(msgp.AppendArrayHeader(nil, 5), "BlockStored"), 1)), 0), 1<<40),
		"no hashes": hashes(msgp.AppendString(msgp.AppendArrayHeader(nil, 2), "BlockRemoved"), 0),
		"hashes of 3 bytes": msgp.AppendBytes(
			msgp.AppendArrayHeader(msgp.AppendString(msgp.AppendArrayHeader(nil, 2), "BlockRemoved"), 1), []byte{
				1, 2, 3,
			}),
	} {
		raw := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 1)
		raw = good(append(good(msgp.AppendArrayHeader(raw, 3)), foreign...))
		var b kvstream.Batch
		if err := ReadBatch(raw, &b); err != nil || b.Skipped != 1 || len(b.Events) != 2 {
			t.Errorf("%s: %d events, %d skipped, %v; want the two good ones", name, len(b.Events), b.Skipped, err)
		}
	}
	for name, raw := range map[string][]byte{
		"nothing": nil, "a text": msgp.AppendString(nil, "hello"),
		"one item":                msgp.AppendInt(msgp.AppendArrayHeader(nil, 1), 1),
		"a list of 2^32-1 events": {0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		var b kvstream.Batch
		if ReadBatch(raw, &b) == nil {
			t.Errorf("%s was taken for a batch", name)
		}
	}
}

// TestEventOfTooManyFields: the head of an event announces 2^32-1 fields. Decoding costs no more than what is present.
func TestEventOfTooManyFields(t *testing.T) {
	raw := append([]byte{0x92, 0x01, 0x91, 0xdd, 0xff, 0xff, 0xff, 0xff, 0xab}, "BlockStored"...)
	read := make(chan error, 1)
	go func() {
		var b kvstream.Batch
		read <- ReadBatch(raw, &b)
	}()
	select {
	case err := <-read:
		if err == nil {
			t.Error("an event that ends too early was taken for one")
		}
	case <-time.After(10 * time.Second): // it took half a minute
		t.Error("still reading")
	}
}

// TestCrowdedBatches: hashes, keys and tokens of a byte each would take many times the message. Events with more than
// engines send in the longest message are skipped, one or many; of a field that is given again the last counts.
func TestCrowdedBatches(t *testing.T) {
	list := func(item string, n int) string {
		return string(msgp.AppendArrayHeader(nil, uint32(n))) + strings.Repeat(item, n)
	}
	str := func(s string) string { return string(msgp.AppendString(nil, s)) }
	removed := func(n int) string { return "\x92" + str("BlockRemoved") + list("\x01", n) }
	stored := func(tokens string) string {
		return "\x95" + str("BlockStored") + list("\x01", 1) + "\xc0" + tokens + "\xcd\x01\x00"
	}
	extra := func(n int) string {
		return "\x83" + str("type") + str("BlockStored") + str("block_hashes") + list("\x01", 1) + str("extra_keys") +
			list("\xc0", n)
	}
	again := strings.Repeat(str("token_ids")+list("\x05", 256), 1000)
	for name, c := range map[string]struct {
		events        []string
		whole, hashes int
	}{
		"as many as may be": {[]string{removed(maxHashes), removed(1)}, 1, maxHashes},
		"hashes":            {[]string{removed(maxHashes + 1), removed(2)}, 1, 2},
		"in many events":    {slices.Repeat([]string{removed(maxHashes / 4)}, 6), 4, maxHashes},
		"tokens":            {[]string{stored(list("\x05", maxTokens+1)), stored(list("\x05", 256))}, 1, 1},
		"extra keys":        {[]string{extra(maxHashes + 1), extra(1)}, 1, 1},
		"tokens again and again": {[]string{
			"\xde\x03\xeb" + str("type") + str("BlockStored") + str("block_hashes") + list("\x01", 1) + again +
				str("block_size") + "\xcd\x01\x00",
		}, 1, 1},
	} {
		var b kvstream.Batch
		raw := "\x92\x01" + list("", len(c.events)) + strings.Join(c.events, "")
		if err := ReadBatch([]byte(raw), &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hashes, room := 0, 0
		for i := range b.Events {
			hashes += len(b.Events[i].Hashes)
			room += 8*cap(b.Events[i].Hashes) + 8*cap(b.Events[i].Extra) + 4*cap(b.Events[i].Tokens)
		}
		if len(b.Events) != c.whole || b.Skipped != len(c.events)-c.whole || hashes != c.hashes {
			t.Errorf("%s: %d events with %d hashes, %d skipped; want %d with %d",
				name, len(b.Events), hashes, b.Skipped, c.whole, c.hashes)
		}
		if most := 8*maxHashes + 1<<20; room > most {
			t.Errorf("%s: they take %d bytes, more than %d", name, room, most)
		}
	}
}

// TestBlockHashTypes: the digest in bytes and its number give the same hash; SGLang's are signed.
func TestBlockHashTypes(t *testing.T) {
	removed := func(hash func(b []byte) []byte) uint64 {
		raw := msgp.AppendArrayHeader(msgp.AppendInt(msgp.AppendArrayHeader(nil, 2), 1), 1)
		raw = hash(msgp.AppendArrayHeader(msgp.AppendString(msgp.AppendArrayHeader(raw, 2), "BlockRemoved"), 1))
		var b kvstream.Batch
		if err := ReadBatch(raw, &b); err != nil || len(b.Events) != 1 {
			t.Fatal(err, b)
		}
		return b.Events[0].Hashes[0]
	}
	const number = 12687895063098490012
	// of vLLM's sha256_cbor
	d, err := hex.DecodeString("d830de3d42c00f25a2949b5d12d98642664a44872c1614c5b0147556276afc9c")
	if err != nil {
		t.Fatal(err)
	}
	asBytes := removed(func(b []byte) []byte { return msgp.AppendBytes(b, d) })
	asNumber := removed(func(b []byte) []byte { return msgp.AppendUint64(b, number) })
	if asBytes != asNumber || asBytes != number {
		t.Errorf("bytes %d, number %d", asBytes, asNumber)
	}
	if n := removed(func(b []byte) []byte {
		return msgp.AppendInt64(b, math.MinInt64+5)
	}); int64(n) != math.MinInt64+5 {
		t.Errorf("signed: %d", int64(n))
	}
}

func TestTRTEvents(t *testing.T) {
	const body = `[
	 {"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[100,0]},"window_size":128},
	 {"event_id":1,"attention_dp_rank":3,"data":{"type":"stored","parent_hash":null,"blocks":[
	  {"type":"stored_block","block_hash":16443243144690205867,"tokens":[{"type":"unique_token","token_id":1,"token_extra_id":0},{"type":"unique_token","token_id":2,"token_extra_id":0}],"cache_level":0,"priority":35},
	  {"type":"stored_block","block_hash":8460888372051954880,"tokens":[{"type":"unique_token","token_id":3,"token_extra_id":0}],"cache_level":0,"priority":35}]},"window_size":128},
	 {"type":"removed","block_hashes":["e432228522a304ab556d66e6e40979ad05575f28b19b554264dd3c6277aaf073"]},
	 {"event_id":2,"data":{"type":"updated","block_hash":5,"cache_level":null,"priority":{"type":"event_diff","new_value":1,"old_value":2}},"window_size":128},
	 {"event_id":3,"data":{"type":"stored","parent_hash":1.5,"blocks":[]}}, 7, {"event_id":4,"data":{"type":"exploded"}}]`
	got, err := ReadTRTEvents([]byte(body))
	if err != nil || got.Skipped != 3 || len(got.Batches) != 4 {
		t.Fatalf("%d batches, %d skipped, %v", len(got.Batches), got.Skipped, err)
	}
	s := got.Batches[1]
	if s.ID != 1 || s.Batch.Rank != 3 || len(s.Batch.Events) != 2 {
		t.Fatalf("got %+v", s)
	}
	if e := s.Batch.Events[1]; e.Parent != 16443243144690205867 || !e.HasParent || e.BlockTokens != 1 {
		t.Errorf("the last block: %+v", e)
	}
	// v2_sha256's digits and v2_sha256_64's number name the same block.
	if r := got.Batches[2]; r.ID != -1 || r.Batch.Events[0].Hashes[0] != 16443243144690205867 {
		t.Errorf("got %+v", r)
	}
	if _, err := ReadTRTEvents([]byte(`{"error":"no events"}`)); err == nil {
		t.Error("an object was taken for a list")
	}
}

// TestTRTEventsCrowded: answers of values that are next to nothing take many times their memory once read, and are
// refused before.
func TestTRTEventsCrowded(t *testing.T) {
	const n = 1 << 17
	for name, body := range map[string]string{
		"events": "[" + strings.Repeat("1,", n) + "1]",
		"blocks": `[{"type":"stored","blocks":[` + strings.Repeat("{},", n) + `{}]}]`,
		"tokens": `[{"type":"stored","blocks":[{"tokens":[` + strings.Repeat("{},", n) + `{}]}]}]`,
		"hashes": `[{"type":"removed","block_hashes":[` + strings.Repeat("1,", n) + `1]}]`,
	} {
		if _, err := ReadTRTEvents([]byte(body)); err == nil {
			t.Errorf("%s: a crowded answer is read", name)
		}
	}
	token := `{"token_id":5,"token_extra_id":0}`
	block := `{"block_hash":7,"tokens":[` + strings.Repeat(token+",", 31) + token + `],"cache_level":0,"lora_id":0}`
	event := `{"event_id":1,"type":"stored","blocks":[` + strings.Repeat(block+",", 99) + block + `]}`
	got, err := ReadTRTEvents([]byte("[" + strings.Repeat(event+",", 99) + event + "]"))
	if err != nil || len(got.Batches) != 100 {
		t.Errorf("a hundred events of a hundred blocks: %d, %v", len(got.Batches), err)
	}
}

// TestTRTEventsCaptured: the answer of TensorRT-LLM's own handler, whose block of 32 tokens follows one that begins a
// prompt.
func TestTRTEventsCaptured(t *testing.T) {
	body, err := os.ReadFile("../testdata/trtllm/0076e939/kv_cache_events.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadTRTEvents(body)
	if err != nil || got.Skipped != 0 || len(got.Batches) != 3 {
		t.Fatalf("%d batches, %d skipped, %v", len(got.Batches), got.Skipped, err)
	}
	for i, b := range got.Batches {
		if b.ID != int64(i) || len(b.Batch.Events) != min(i, 1) {
			t.Errorf("batch %d: %+v", i, b)
		}
	}
	first, second := got.Batches[1].Batch.Events[0], got.Batches[2].Batch.Events[0]
	if first.HasParent || !second.HasParent || second.Parent != first.Hashes[0] || first.BlockTokens != 32 ||
		second.BlockTokens != 32 {
		t.Errorf("got %+v and %+v", first, second)
	}
}

func FuzzReadKVBatch(f *testing.F) {
	for _, name := range []string{"kv_vllm_0.32.txt", "kv_vllm_0.33.txt", "kv_sglang_0.5.23.txt"} {
		for _, m := range captured(f, name) {
			f.Add(m[2])
		}
	}
	raw, _ := hex.DecodeString("92cb41d954fc402000009191b0416c6c426c6f636b73436c6561726564")
	f.Add(raw)
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b, again kvstream.Batch
		before := bytes.Clone(payload)
		err := ReadBatch(payload, &b)
		if !bytes.Equal(before, payload) {
			t.Fatal("the payload was changed")
		}
		for _, e := range b.Events {
			if e.Kind == kvstream.Stored && len(e.Tokens) > 0 && len(e.Tokens) != len(e.Hashes)*e.BlockTokens {
				t.Fatalf("%d tokens for %d blocks of %d", len(e.Tokens), len(e.Hashes), e.BlockTokens)
			}
			if len(e.Extra) != 0 && len(e.Extra) != len(e.Hashes) {
				t.Fatalf("%d extra keys for %d blocks", len(e.Extra), len(e.Hashes))
			}
		}
		_ = ReadBatch([]byte{0x92, 0x01, 0x90}, &again)
		if (ReadBatch(payload, &again) == nil) != (err == nil) || len(again.Events) != len(b.Events) {
			t.Fatal("memory used again changes what is read")
		}
	})
}

func FuzzReadTRTEvents(f *testing.F) {
	f.Add([]byte(`[{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":1,"tokens":[{"token_id":1}]}]},"window_size":128}]`))
	f.Add([]byte(`[{"type":"removed","block_hashes":["e432228522a304ab"]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := ReadTRTEvents(body)
		if err != nil && len(got.Batches) > 0 {
			t.Fatal("an error, and events")
		}
		for _, b := range got.Batches {
			for _, e := range b.Batch.Events {
				if e.Kind == kvstream.Stored && len(e.Tokens) != len(e.Hashes)*e.BlockTokens {
					t.Fatalf("%d tokens for %d blocks of %d", len(e.Tokens), len(e.Hashes), e.BlockTokens)
				}
			}
		}
	})
}

func BenchmarkReadKVBatch(b *testing.B) {
	raw := msgp.AppendArrayHeader(msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 3), 1), 10)
	for i := range uint64(10) {
		raw = msgp.AppendString(msgp.AppendArrayHeader(raw, 7), "BlockStored")
		raw = msgp.AppendArrayHeader(raw, 8)
		for j := range uint64(8) {
			raw = msgp.AppendUint64(raw, (i*8+j)*0x9e3779b97f4a7c15)
		}
		raw = msgp.AppendArrayHeader(msgp.AppendNil(raw), 128)
		for j := range 128 {
			raw = msgp.AppendInt(raw, j*997%32000)
		}
		raw = msgp.AppendString(msgp.AppendNil(msgp.AppendInt(raw, 16)), "GPU")
	}
	raw = msgp.AppendInt(raw, 0)
	var batch kvstream.Batch
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := ReadBatch(raw, &batch); err != nil || len(batch.Events) != 10 {
			b.Fatal(err, batch.Skipped)
		}
	}
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
