package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/kv"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
)

// TestEncodedAsCaptured reads what real engines published and writes it again: to the byte the same.
func TestEncodedAsCaptured(t *testing.T) {
	for dialect, name := range map[fleet.Kind]string{
		fleet.KindVLLM: "kv_vllm_0.32.txt", fleet.KindSGLang: "kv_sglang_0.5.23.txt",
	} {
		messages := 0
		for _, frames := range captured(t, name) {
			payload, seq := frames[2], binary.BigEndian.Uint64(frames[1])
			var batch kvstream.Batch
			if err := kv.ReadBatch(payload, &batch); err != nil {
				t.Fatal(err)
			}
			var events []event
			for _, e := range batch.Events {
				events = again(events, dialect, &e, payload)
			}
			if got := appendBatch(dialect, false, batch.At, events, batch.Rank); !bytes.Equal(got, payload) {
				t.Errorf("%s, message %d:\n%x\nwant\n%x",
					name, seq, got[:min(len(got), 300)], payload[:min(len(payload), 300)])
			}
			messages++
		}
		if messages < 5 {
			t.Errorf("%s: %d messages", name, messages)
		}
	}
}

// again is the event as it would be published.
func again(events []event, dialect fleet.Kind, e *kvstream.Event, payload []byte) []event {
	switch e.Kind {
	case kvstream.Cleared:
		return append(events, event{})
	case kvstream.Removed:
		if n := len(events); dialect == fleet.KindVLLM && n > 0 && events[n-1].removed != nil {
			events[n-1].removed = append(events[n-1].removed, e.Hashes...)
			return events
		}
		return append(events, event{removed: append([]uint64(nil), e.Hashes...)})
	}
	s := &storedRun{
		hashes: e.Hashes, parent: e.Parent, first: !e.HasParent, tokens: e.Tokens, size: e.BlockTokens,
		session: e.Session, salt: e.Salt,
	}
	if len(e.Extra) > 0 { // vLLM names the salt in clear, as the only text of its kind
		_, rest, _ := bytes.Cut(payload, []byte("extra_keys"))
		at := bytes.IndexByte(rest, 0x91)
		s.salt = string(rest[at+2 : at+2+int(rest[at+1]&0x1f)])
	}
	return append(events, event{stored: s})
}

// captured reads the frames of a file of messages that real engines published: topic, sequence, payload.
func captured(t *testing.T, name string) (out [][3][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../../engine/kv/testdata/" + name)
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
			out, frames = append(out, [3][]byte(frames)), nil
		}
	}
	return out
}

// TestCapturedHashes computes what a real engine named its blocks by.
func TestCapturedHashes(t *testing.T) {
	checked := 0
	for _, frames := range captured(t, "kv_sglang_0.5.23.txt") {
		seq := binary.BigEndian.Uint64(frames[1])
		if seq != 10 && seq != 28 {
			continue
		}
		var batch kvstream.Batch
		if err := kv.ReadBatch(frames[2], &batch); err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			if e.Kind != kvstream.Stored || e.HasParent {
				continue
			}
			var d []byte
			for i, h := range e.Hashes {
				d = sglangDigest(d, e.Tokens[i*32:i*32+32])
				if uint64(sglangNumber(d)) != h {
					t.Fatalf("SGLang, message %d, block %d: computed %d, the engine says %d",
						seq, i, sglangNumber(d), int64(h))
				}
				checked++
			}
		}
	}
	if checked == 0 {
		t.Error("no block was checked")
	}
}
