// Package state is the file in which a router keeps what it has learnt, so that it is warm after a restart.
//
// The file holds the pieces of a route snapshot, each with its length and checksum, behind a mark, a version and the
// time. It is written whole or not at all, and judged whole before anything of it is taken. A file that is not ours, or
// a later version's, is never touched.
package state

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/route"
)

// The head of a file: the mark, the version and the time of writing in milliseconds since 1970. All numbers are
// big-endian.
const (
	mark    = "WARMPATH STATE\r\n"
	version = 1
	head    = len(mark) + 4 + 8

	frameHead = 8       // length and CRC-32C of a piece
	mostFrame = 4 << 20 // of a piece: those of today have some 100 kB at most
)

// What may be wrong with a file.
var (
	ErrForeign = errors.New("it is not a state file of warmpath")
	ErrEmpty   = errors.New("it is empty")
	ErrNewer   = errors.New("a later version of warmpath has written it")
	ErrOlder   = errors.New("an earlier version of warmpath has written it")
	ErrDamaged = errors.New("it is damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode is the content of a file. When it would be larger than most bytes, conversations that were used longest ago
// are left out.
func Encode(now time.Time, pieces func(yield func(*route.Piece) bool), most int64) ([]byte, error) {
	var frames [][]byte
	var faults error
	size, left := int64(head+frameHead), 0 // left is the first frame that may be left out
	pieces(func(p *route.Piece) bool {
		var frame bytes.Buffer
		frame.Write(make([]byte, frameHead))
		if faults = gob.NewEncoder(&frame).Encode(p); faults != nil {
			return false
		}
		b := frame.Bytes()
		binary.BigEndian.PutUint32(b, uint32(len(b)-frameHead))
		binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[frameHead:], castagnoli))
		if p.Conversations == nil {
			left = len(frames) + 1
		}
		frames = append(frames, b)
		size += int64(len(b))
		for size > most && left < len(frames) {
			size -= int64(len(frames[left]))
			frames[left] = nil
			left++
		}
		return size <= most
	})
	if faults != nil {
		return nil, faults
	}
	if size > most {
		return nil, fmt.Errorf("what is known of the endpoints alone takes more than %d bytes", most)
	}
	out := make([]byte, 0, size)
	out = append(out, mark...)
	out = binary.BigEndian.AppendUint32(out, version)
	out = binary.BigEndian.AppendUint64(out, uint64(now.UnixMilli()))
	for _, b := range frames {
		out = append(out, b...)
	}
	return append(out, make([]byte, frameHead)...), nil // an empty frame ends it
}

// Decode judges the content of a file and returns the pieces, and when they were taken.
func Decode(b []byte) (pieces []route.Piece, at time.Time, err error) {
	if err := judge(b); err != nil {
		return nil, at, err
	}
	at = time.UnixMilli(int64(binary.BigEndian.Uint64(b[len(mark)+4:])))
	for b = b[head:]; ; {
		if len(b) < frameHead {
			return nil, at, fmt.Errorf("%w: it has no end", ErrDamaged)
		}
		n, sum := int(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		b = b[frameHead:]
		if n == 0 && len(b) == 0 && sum == 0 {
			return pieces, at, nil
		}
		if n == 0 || n > mostFrame || n > len(b) || crc32.Checksum(b[:n], castagnoli) != sum {
			return nil, at, fmt.Errorf("%w: a checksum is wrong", ErrDamaged)
		}
		var p route.Piece
		if err := gob.NewDecoder(bytes.NewReader(b[:n])).Decode(&p); err != nil {
			return nil, at, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if !finite(reflect.ValueOf(p)) {
			return nil, at, fmt.Errorf("%w: it holds a figure that is not a number", ErrDamaged)
		}
		pieces = append(pieces, p)
		b = b[n:]
	}
}

// judge says whose file begins so.
func judge(b []byte) error {
	switch {
	case len(b) == 0:
		return ErrEmpty
	case len(b) < head && strings.HasPrefix(mark, string(b[:min(len(b), len(mark))])):
		return fmt.Errorf("%w: it has no end", ErrDamaged)
	case !bytes.HasPrefix(b, []byte(mark)):
		return ErrForeign
	case binary.BigEndian.Uint32(b[len(mark):]) > version:
		return ErrNewer
	case binary.BigEndian.Uint32(b[len(mark):]) < version:
		return ErrOlder
	}
	return nil
}

// finite reports whether all figures in a value are numbers.
func finite(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Float64:
		return !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0)
	case reflect.Pointer:
		return v.IsNil() || finite(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !finite(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k == reflect.Uint64 || k == reflect.String {
			return true
		}
		for i := range v.Len() {
			if !finite(v.Index(i)) {
				return false
			}
		}
	}
	return true
}

// read reads a file of at most so many bytes.
func read(name string, most int64) ([]byte, error) {
	f, err := wholefile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at, err := f.Stat()
	if err != nil || !at.Mode().IsRegular() {
		return nil, ErrForeign
	}
	var b []byte
	if at.Size() <= most {
		b, err = io.ReadAll(io.LimitReader(f, most+1)) // it may grow meanwhile
	}
	if err == nil && max(at.Size(), int64(len(b))) > most {
		err = fmt.Errorf("it is larger than %d bytes", most)
	}
	return b, err
}

// replaceable reports whether a file may be written over: there is none, or it is ours and not a later version's.
func replaceable(name string) error {
	f, err := wholefile.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if at, err := f.Stat(); err != nil || !at.Mode().IsRegular() {
		return ErrForeign
	}
	b := make([]byte, head)
	n, _ := io.ReadFull(f, b) // what is shorter is judged as it is
	if err := judge(b[:n]); !errors.Is(err, ErrOlder) && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrDamaged) {
		return err
	}
	return nil
}

// write replaces a file, unless it may not be.
func write(name string, data []byte) error {
	if err := replaceable(name); err != nil {
		return err
	}
	return wholefile.WritePrivate(name, data)
}
