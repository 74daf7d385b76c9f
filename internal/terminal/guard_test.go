package terminal

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// TestGuard: on a terminal texts of others are shown, and do nothing else; what this package draws passes.
func TestGuard(t *testing.T) {
	for text, want := range map[string]string{
		"m\n\tTTFT é 漢 😀 │█│":                "m\n\tTTFT é 漢 😀 │█│",
		"\x1b]0;title\x07":                   "�]0;title�",
		"\x1b]52;c;bHM=\x1b\\":               "�]52;c;bHM=�\\",
		"a\x1b[2Jb\x1b[9Ac\rd\x08e\x7ff\x00": "a�[2Jb�[9Ac�d�e�f�",
		"\u009b2J\u0090q\u009c":              "�2J�q�",
		"\u202egnp.exe\u2066x":               "�gnp.exe�x",
		Ink(true).Good("up"):                 "\x1b[32mup\x1b[0m",
		"\x1b[32;8mhidden":                   "�[32;8mhidden",
	} {
		var out bytes.Buffer
		if n, err := io.WriteString(Guarded{&out}, text); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %q, %d of %d, %v; want %q", text, out.String(), n, len(text), err, want)
		}
	}
	var out bytes.Buffer
	for _, b := range []byte("漢") { // a buffer may cut a character
		_, _ = Guarded{&out}.Write([]byte{b})
	}
	Line(Guarded{&out}, "a\x1b[2J")
	var area Area
	area.Draw(Guarded{&out}, "b\x1b[2J\n")
	area.Clear(Guarded{&out})
	if got := out.String(); got != "漢\r\x1b[Ka�[2Jb�[2J\n\x1b[1A\x1b[J" {
		t.Errorf("%q", got)
	}
	if w := Guard(&out); w != io.Writer(&out) || Guard(os.Stdin) == nil {
		t.Errorf("what is no terminal is guarded: %T", w)
	}
}
