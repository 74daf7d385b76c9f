package body

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"testing/iotest"
)

// watched is a body that sees to it, whenever more of it is wanted, that what is held is in proportion to what has
// arrived.
type watched struct {
	t       *testing.T
	from    io.Reader
	budget  *Budget
	arrived int64
}

func (w *watched) Read(p []byte) (int, error) {
	if most := max(growLater*w.arrived, smallBody); w.budget.held.Load() > 2*most { // rounded up to a power of two
		w.t.Errorf("%d bytes held when %d had arrived", w.budget.held.Load(), w.arrived)
	}
	n, err := w.from.Read(p)
	w.arrived += int64(n)
	return n, err
}

func (w *watched) Close() error { return nil }

// pieces reads in pieces of random size.
type inPieces struct {
	r   io.Reader
	rng *rand.Rand
}

func (p inPieces) Read(b []byte) (int, error) {
	return p.r.Read(b[:min(len(b), 1+p.rng.IntN(9000))])
}

func bodyRequest(t *testing.T, in *Budget, from io.Reader, claim int64) *http.Request {
	t.Helper()
	return &http.Request{Body: &watched{t: t, from: from, budget: in}, ContentLength: claim}
}

// TestBodyGrows: bodies of any length come whole, in memory that follows what has arrived, whatever their length is
// said to be.
func TestBodyGrows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const limit = 3 << 20
	for _, n := range []int{
		1, 1000, 3071, 3072, 3073, 4095, 4096, 4097, 8 << 10, 32 << 10, 100 << 10, 500 << 10,
		512<<10 + 1, 1<<20 + 1, limit,
	} {
		want := make([]byte, n)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		for name, from := range map[string]func() io.Reader{
			"at once":   func() io.Reader { return bytes.NewReader(want) },
			"in pieces": func() io.Reader { return inPieces{bytes.NewReader(want), rng} },
			"with EOF":  func() io.Reader { return iotest.DataErrReader(bytes.NewReader(want)) },
			"by buffers": func() io.Reader {
				return io.MultiReader(bytes.NewReader(want[:n/3]), bytes.NewReader(want[n/3:]))
			},
		} {
			for _, claim := range []int64{int64(n), -1} {
				in := NewBudget(1 << 30)
				p, err := Read(bodyRequest(t, in, from(), claim), limit, in)
				if err != nil || !bytes.Equal(p.Bytes, want) {
					t.Fatalf("%d bytes %s, claimed %d: %v", n, name, claim, err)
				}
				if held := in.held.Load(); held != int64(cap(p.buf.bytes)) ||
					claim > 0 && held > max(2*claim, smallBody) {
					t.Errorf("%d bytes %s, claimed %d: %d bytes held for a buffer of %d",
						n, name, claim, held, cap(p.buf.bytes))
				}
				p.Release()
				if held := in.held.Load(); held != 0 {
					t.Errorf("%d bytes %s, claimed %d: %d bytes held afterwards", n, name, claim, held)
				}
			}
		}
	}
}

// TestClaimedBodyIsNotCopiedOften: bodies that come as they say are hardly copied on the way, and move three times at
// most.
func TestClaimedBodyIsNotCopiedOften(t *testing.T) {
	for claim, most := range map[int64]int64{
		1: 0, 1 << 10: 0, 4 << 10: 0, 8 << 10: 5 << 10, 100 << 10: 37 << 10, 500 << 10: 37 << 10,
	} {
		var moved, moves, room int64
		for room = nextRoom(0, claim, 0); room < claim; moves++ {
			moved += room
			room = int64(bufferSize(int(nextRoom(room, claim, 0))))
		}
		if moved > most || moves > 3 {
			t.Errorf("%d bytes: %d copied in %d moves", claim, moved, moves)
		}
	}
}

// TestBodyThatFails: whatever ends the reading of a body, nothing of it is held.
func TestBodyThatFails(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 200<<10)
	broken := errors.New("broken")
	for _, row := range []struct {
		name  string
		from  io.Reader
		claim int64
		room  int64
		want  error
	}{
		{"shorter than claimed", bytes.NewReader(long), 300 << 10, 1 << 30, ErrBadBody},
		{"nothing of what is claimed", bytes.NewReader(nil), 64 << 10, 1 << 30, ErrBadBody},
		{"breaks off", io.MultiReader(bytes.NewReader(long), iotest.ErrReader(broken)), 300 << 10, 1 << 30, ErrBadBody},
		{
			"breaks off, length unknown", io.MultiReader(bytes.NewReader(long), iotest.ErrReader(broken)), -1,
			1 << 30, ErrBadBody,
		},
		{
			"too slow", io.MultiReader(bytes.NewReader(long), iotest.ErrReader(os.ErrDeadlineExceeded)), 300 << 10,
			1 << 30, ErrSlowBody,
		},
		{"claims too much", bytes.NewReader(long), 300<<10 + 1, 1 << 30, ErrTooLarge},
		{"brings too much", io.MultiReader(bytes.NewReader(long), bytes.NewReader(long)), -1, 1 << 30, ErrTooLarge},
		{"no room to begin with", bytes.NewReader(long), 200 << 10, 500, ErrNoRoom},
		{"no room to grow", bytes.NewReader(long), 200 << 10, 64 << 10, ErrNoRoom},
		{"no room to grow, length unknown", bytes.NewReader(long), -1, 64 << 10, ErrNoRoom},
	} {
		in := NewBudget(row.room)
		p, err := Read(bodyRequest(t, in, row.from, row.claim), 300<<10, in)
		if !errors.Is(err, row.want) || p != nil || in.held.Load() != 0 {
			t.Errorf("%s: %v, %d bytes held", row.name, err, in.held.Load())
		}
		if refused := in.refused.Load(); refused != 0 != (row.want == ErrNoRoom) { //nolint:errorlint // the table's own value
			t.Errorf("%s: %d refused", row.name, refused)
		}
	}
	in := NewBudget(1 << 30)
	func() {
		defer func() { _ = recover() }()
		_, _ = Read(bodyRequest(t, in, readerFunc(func([]byte) (int, error) { panic("broken") }), 100), 1000, in)
	}()
	if held := in.held.Load(); held != 0 {
		t.Errorf("%d bytes held after a panic", held)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestPayloadReader: a body lent to net/http can be read in pieces, be closed at any time and more than once, and keeps
// its memory until then or until its end.
func TestPayloadReader(t *testing.T) {
	in := NewBudget(1 << 30)
	whole, err := Read(bodyRequest(t, in, bytes.NewReader([]byte("abcdef")), 6), 100, in)
	if err != nil {
		t.Fatal(err)
	}
	edited := whole.inPieces([][]byte{whole.Bytes[:2], nil, []byte("12345"), whole.Bytes[4:]})
	a, b := whole.reader(), edited.reader()
	c := edited.reader()
	whole.Release()
	edited.Release()
	for r, want := range map[*payloadReader]string{a: "abcdef", b: "ab12345ef", c: "ab1"} {
		if in.held.Load() == 0 {
			t.Error("the memory was given back while it is lent")
		}
		from := io.Reader(r)
		if r == c {
			from = io.LimitReader(r, 3)
		}
		if got, err := io.ReadAll(iotest.OneByteReader(from)); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		if r != c && r.lender != nil {
			t.Error("the memory is held by a reader that is at its end")
		}
		_ = r.Close()
		_ = r.Close()
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read after close: %v", err)
		}
	}
	if held := in.held.Load(); held != 0 {
		t.Errorf("%d bytes held in the end", held)
	}
	if whole.reader() != nil || edited.reader() != nil {
		t.Error("memory that has gone back is lent once more")
	}
}
