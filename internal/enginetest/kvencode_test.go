package enginetest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
)

// TestEncodedAsCaptured reads what real engines published and writes it again: to the byte the same.
func TestEncodedAsCaptured(t *testing.T) {
	for dialect, name := range map[fleet.Kind]string{fleet.KindVLLM: "kv_vllm_0.32.txt", fleet.KindSGLang: "kv_sglang_0.5.23.txt"} {
		text, err := os.ReadFile("../../engine/testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var frames [][]byte
		messages := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			b, err := hex.DecodeString(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if frames = append(frames, b); len(frames) < 3 {
				continue
			}
			payload := frames[2]
			seq := binary.BigEndian.Uint64(frames[1])
			frames = nil
			var batch kvstream.Batch
			if err := engine.ReadKVBatch(payload, &batch); err != nil {
				t.Fatal(err)
			}
			var events []kvEvent
			for _, e := range batch.Events {
				events = again(events, dialect, &e, payload)
			}
			if got := kvBatch(dialect, false, batch.At, events, batch.Rank); !bytes.Equal(got, payload) {
				t.Errorf("%s, message %d:\n%x\nwant\n%x", name, seq, got[:min(len(got), 300)], payload[:min(len(payload), 300)])
			}
			messages++
		}
		if messages < 5 {
			t.Errorf("%s: %d messages", name, messages)
		}
	}
}

// again is the event as it would be published.
func again(events []kvEvent, dialect fleet.Kind, e *kvstream.Event, payload []byte) []kvEvent {
	switch e.Kind {
	case kvstream.Cleared:
		return append(events, kvEvent{})
	case kvstream.Removed:
		if n := len(events); dialect == fleet.KindVLLM && n > 0 && events[n-1].removed != nil {
			events[n-1].removed = append(events[n-1].removed, e.Hashes...)
			return events
		}
		return append(events, kvEvent{removed: append([]uint64(nil), e.Hashes...)})
	}
	s := &kvStored{hashes: e.Hashes, parent: e.Parent, first: !e.HasParent, tokens: e.Tokens, size: e.BlockTokens, session: e.Session, salt: e.Salt}
	if len(e.Extra) > 0 { // vLLM names the salt in clear, as the only text of its kind
		_, rest, _ := bytes.Cut(payload, []byte("extra_keys"))
		at := bytes.IndexByte(rest, 0x91)
		s.salt = string(rest[at+2 : at+2+int(rest[at+1]&0x1f)])
	}
	return append(events, kvEvent{stored: s})
}
