package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size. It is written as "64MiB", "500kB" or a plain number of bytes.
type Bytes int64

type byteUnit struct {
	name string
	size float64
}

// byteUnits lists the units, longest name first, since each ends in B.
var byteUnits = []byteUnit{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {
		"GB", 1e9,
	}, {"B", 1}, {"", 1},
}

// Wants says how a size is written.
func (b *Bytes) Wants() string { return `a size such as "64MiB"` }

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		n *= u.size
		if err != nil || math.IsNaN(n) {
			break
		}
		if n < 0 || n >= math.MaxInt64 {
			return errors.New("the size is out of range")
		}
		*b = Bytes(n)
		return nil
	}
	return fmt.Errorf("want %s, got %q", b.Wants(), s)
}

// String is the size in the largest unit that divides it, binary units first.
func (b Bytes) String() string {
	for _, u := range []byteUnit{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3},
	} {
		if n := int64(u.size); b != 0 && int64(b)%n == 0 {
			return strconv.FormatInt(int64(b)/n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText is String.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
