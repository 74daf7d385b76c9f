package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/migrate"
	"github.com/warmpath/warmpath/internal/wholefile"
)

// traceFile is a trace being read, decompressed if necessary.
type traceFile struct {
	io.Reader
	name  string
	close func() error
}

// Close closes the file.
func (t *traceFile) Close() error { return t.close() }

// shown is a file's name made safe for terminals, tables and pages: control characters and invalid UTF-8 are replaced.
func shown(path string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r // strings.Map returns this for a byte that is not UTF-8
	}, path)
}

// openTrace opens a trace of any format; "-" is standard input. Gzip, also several files concatenated, is decompressed.
func openTrace(e env, path string) (*traceFile, error) {
	t := &traceFile{Reader: e.stdin, name: "standard input", close: func() error { return nil }}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		t.Reader, t.name, t.close = f, shown(path), f.Close
	}
	in := bufio.NewReaderSize(t.Reader, 1<<16)
	t.Reader = in
	if head, _ := in.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b { // RFC 1952, section 2.3.1
		return t, nil
	}
	packed, err := gzip.NewReader(in)
	if err != nil {
		_ = t.Close()
		return nil, fmt.Errorf("%s: looks like gzip, but: %w", t.name, err)
	}
	t.Reader = packed
	return t, nil
}

// readSome reads a file up to a size limit; migrate reports a larger one.
func readSome(path string) ([]byte, error) {
	f, err := wholefile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, migrate.MaxBytes+1))
}

// writable returns an error if the file that a flag names cannot be created.
func writable(flag, name string) error {
	if name == "" || name == "-" {
		return nil
	}
	if err := wholefile.Check(name); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}
