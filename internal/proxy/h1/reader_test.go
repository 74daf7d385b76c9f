package h1

import (
	"io"
	"strings"
	"testing"
)

// TestGrownBuffer: the buffer that a long head needed is let go once its bytes are read, however the rest is.
func TestGrownBuffer(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"
	for name, size := range map[string]int{"small reads": 100, "large reads": 32 << 10} {
		src := strings.NewReader(head + strings.Repeat("body", 100_000))
		r := &reader{src: src}
		b, err := r.block(1<<20, true)
		if err != nil || len(b) != len(head) {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		p := make([]byte, size)
		for range (len(head) + 256<<10) / size {
			if _, err := r.read(p, false); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.buf) > readBuffer {
			t.Errorf("%s: %d bytes are kept", name, len(r.buf))
		}
		rest, err := io.ReadAll(src)
		if err != nil || len(rest) == 0 {
			t.Errorf("%s: the body ended early", name)
		}
	}
}
