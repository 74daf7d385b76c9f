package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
)

// kept is a fleet whose snapshot is a list of pieces.
type kept struct {
	pieces []route.Piece
	taken  []route.Piece
	later  time.Duration
}

func (k *kept) Snapshot(f func(*route.Piece) bool) {
	for i := range k.pieces {
		if !f(&k.pieces[i]) {
			return
		}
	}
}

func (k *kept) Restore(pieces []route.Piece, later time.Duration) { k.taken, k.later = pieces, later }

func some() *kept {
	k := &kept{pieces: []route.Piece{
		{Fleet: &learnt.Fleet{}}, {Endpoint: "a", Chains: []learnt.Chain{{Rest: []uint64{1, 2}}}},
	}}
	for i := range 40 {
		c := &learnt.Conversations{Names: []string{"a", ""}}
		for j := range 200 {
			c.Claimed = append(c.Claimed, learnt.Conversation{Hi: math.MaxUint64, Lo: uint64(i<<32 | j), Turns: 1})
		}
		k.pieces = append(k.pieces, route.Piece{Conversations: c})
	}
	return k
}

var noon = time.UnixMilli(1_700_000_000_000)

func encode(t testing.TB, k *kept, most int64) []byte {
	t.Helper()
	b, err := Encode(noon, k.Snapshot, most)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with is a copy of b with bytes changed.
func with(b []byte, change func([]byte)) []byte {
	b = bytes.Clone(b)
	change(b)
	return b
}

func TestDecodeJudgesTheWhole(t *testing.T) {
	whole := encode(t, some(), 1e9)
	notANumber := encode(t, &kept{
		pieces: []route.Piece{{Fleet: &learnt.Fleet{}, Pools: []learnt.Pool{{Missing: math.NaN()}}}},
	}, 1e9)
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"whole":                   {whole, nil},
		"empty":                   {nil, ErrEmpty},
		"another program's":       {[]byte(strings.Repeat("model: llama\n", 100)), ErrForeign},
		"only a part of the mark": {whole[:8], ErrDamaged},
		"a later version's": {
			with(whole, func(b []byte) { binary.BigEndian.PutUint32(b[len(mark):], version+1) }), ErrNewer,
		},
		"an earlier version's": {
			with(whole, func(b []byte) { binary.BigEndian.PutUint32(b[len(mark):], version-1) }), ErrOlder,
		},
		"torn in a piece":     {whole[:len(whole)/2], ErrDamaged},
		"torn between pieces": {whole[:len(whole)-frameHead], ErrDamaged},
		"torn after the head": {whole[:head], ErrDamaged},
		"a bit is wrong":      {with(whole, func(b []byte) { b[len(b)/2] ^= 4 }), ErrDamaged},
		"something follows":   {append(bytes.Clone(whole), 'x'), ErrDamaged},
		"not a number":        {notANumber, ErrDamaged},
	} {
		pieces, at, err := Decode(c.file)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err != nil && pieces != nil {
			t.Errorf("%s: %d pieces were taken", name, len(pieces))
		}
		if err == nil && (len(pieces) != 42 || !at.Equal(noon)) {
			t.Errorf("%s: %d pieces of %v", name, len(pieces), at)
		}
	}
}

// TestEncodeIsBounded: what does not fit is the conversations used longest ago, which come first.
func TestEncodeIsBounded(t *testing.T) {
	whole := encode(t, some(), 1e9)
	most := int64(len(whole)) / 2
	b := encode(t, some(), most)
	pieces, _, err := Decode(b)
	if err != nil || int64(len(b)) > most {
		t.Fatalf("%d bytes, at most %d may be: %v", len(b), most, err)
	}
	last := pieces[len(pieces)-1].Conversations
	if pieces[0].Fleet == nil || pieces[1].Endpoint != "a" || last == nil || last.Claimed[0].Lo>>32 != 39 ||
		len(pieces) < 18 {
		t.Errorf("%d pieces are left, the last %+v", len(pieces), last)
	}
	if _, err := Encode(noon, some().Snapshot, 100); err == nil {
		t.Error("100 bytes are not enough, and nothing was said")
	}
}

// TestKeeper: which files are used, renamed, left alone, and written over.
func TestKeeper(t *testing.T) {
	whole := encode(t, some(), 1e9)
	newer := with(whole, func(b []byte) { binary.BigEndian.PutUint32(b[len(mark):], version+1) })
	older := with(whole, func(b []byte) { binary.BigEndian.PutUint32(b[len(mark):], version-1) })
	for name, c := range map[string]struct {
		before         []byte // nil for no file
		most           int64  // 0 for any size
		taken, renamed bool
		saved          bool
		said           string
	}{
		"none":      {saved: true, said: "no state file yet"},
		"ours":      {before: whole, taken: true, saved: true, said: "begins with what was learnt"},
		"torn":      {before: whole[:1000], renamed: true, saved: true, said: "it is damaged"},
		"empty":     {before: []byte{}, saved: true, said: "it is empty"},
		"in mark":   {before: whole[:5], renamed: true, saved: true, said: "it is damaged"},
		"in head":   {before: whole[:head-1], renamed: true, saved: true, said: "it is damaged"},
		"foreign":   {before: []byte("a: b\n"), said: "not a state file"},
		"newer":     {before: newer, said: "later version"},
		"older":     {before: older, saved: true, said: "earlier version"},
		"too large": {before: whole, most: int64(len(whole)) - 1, saved: true, said: "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "state")
			if c.before != nil {
				if err := os.WriteFile(file, c.before, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.most == 0 {
				c.most = 1e9
			}
			var log bytes.Buffer
			f := some()
			k := New(Config{File: file, Every: time.Minute, Most: c.most}, f,
				func() time.Time { return noon.Add(time.Hour) }, slog.New(slog.NewTextHandler(&log, nil)))
			k.Restore()
			if (f.taken != nil) != c.taken || c.taken && f.later != time.Hour {
				t.Errorf("taken %v, kept for %v", f.taken != nil, f.later)
			}
			if !strings.Contains(log.String(), c.said) {
				t.Errorf("the log says %q", log.String())
			}
			aside, err := os.ReadFile(file + ".damaged")
			if (err == nil) != c.renamed || c.renamed && !bytes.Equal(aside, c.before) {
				t.Errorf("renamed: %v", err)
			}
			k.Save()
			k.Save()
			now, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if c.saved {
				if _, at, err := Decode(now); err != nil || !at.Equal(noon.Add(time.Hour)) {
					t.Errorf("saved at %v: %v", at, err)
				}
				if at, _ := os.Stat(file); at.Mode().Perm() != 0o600 {
					t.Errorf("others may read it: %v", at.Mode())
				}
			} else if !bytes.Equal(now, c.before) {
				t.Error("it was written over")
			}
			want := Figures{Failures: 2, Restored: c.taken}
			if c.saved {
				want = Figures{Saved: noon.Add(time.Hour), Bytes: int64(len(now)), Restored: c.taken}
			}
			if got := k.Figures(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			if n := strings.Count(log.String(), "cannot be saved"); n > 1 || (n == 1) == c.saved {
				t.Errorf("said %d times that it cannot be saved", n)
			}
		})
	}
}

// TestSameFaultIsSaidOnce: a disk that stays full is told once, though each attempt has a file of another name.
func TestSameFaultIsSaidOnce(t *testing.T) {
	var log bytes.Buffer
	k := New(Config{File: filepath.Join(t.TempDir(), "gone", "state"), Every: time.Minute, Most: 1e9}, some(), time.Now,
		slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		k.Save()
	}
	if n := strings.Count(log.String(), "cannot be saved"); n != 1 || k.Figures().Failures != 3 {
		t.Errorf("said %d times, %d failures:\n%s", n, k.Figures().Failures, log.String())
	}
}

// TestTwoRoutersWithOneFile: the second says so and leaves the file alone; when the first has ended it saves there.
func TestTwoRoutersWithOneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state")
	var log bytes.Buffer
	now := noon
	begin := func(said io.Writer) (k *Keeper, end func()) {
		now = now.Add(time.Hour)
		at := now // each saves something else than the one before
		k = New(Config{File: file, Every: time.Hour, Most: 1e9}, some(), func() time.Time { return at },
			slog.New(slog.NewTextHandler(said, nil)))
		_ = k.claim() // or it would do so in Run, some time later
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		return k, func() { cancel(); <-done }
	}
	_, end := begin(io.Discard)
	for range 2 {
		second, endSecond := begin(&log)
		endSecond()
		if _, err := os.Stat(file); err == nil || second.Figures().Failures != 2 {
			t.Errorf("it was written: %v, %d failures", err, second.Figures().Failures)
		}
		if n := strings.Count(log.String(), "another process writes it"); n != 1 {
			t.Errorf("said %d times: %s", n, log.String())
		}
		log.Reset()
	}
	end()
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last, endLast := begin(&log)
	endLast()
	if again, err := os.ReadFile(file); err != nil || bytes.Equal(again, written) || last.Figures().Failures != 0 {
		t.Errorf("the next one did not save: %v %s", err, log.String())
	}
}

// FuzzDecode: whatever is in the file, it is taken whole or refused, and a router takes what is taken. The bytes are
// tried as a file, and as a piece whose checksum is right.
func FuzzDecode(f *testing.F) {
	small := encode(f, &kept{pieces: some().pieces[:2]}, 1e9)
	f.Add(small)
	f.Add(small[head+frameHead : len(small)-frameHead])
	f.Add([]byte(mark))
	f.Fuzz(func(t *testing.T, b []byte) {
		piece := bytes.Clone(small[:head])
		piece = binary.BigEndian.AppendUint32(piece, uint32(len(b)))
		piece = binary.BigEndian.AppendUint32(piece, crc32.Checksum(b, castagnoli))
		piece = append(append(piece, b...), make([]byte, frameHead)...)
		for _, file := range [][]byte{b, piece} {
			pieces, _, err := Decode(file)
			if err != nil {
				continue
			}
			r := newRouter(t)
			for i := range pieces {
				r.Restore(noon, &pieces[i], time.Second)
			}
		}
	})
}
