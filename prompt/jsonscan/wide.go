package jsonscan

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// wide reports that pass can be used. It is a constant of the machine.
var wide = runtime.GOARCH == "amd64" && cpu.X86.HasPOPCNT && cpu.X86.HasAVX2

// pass skips whole blocks of 64 bytes from d[i] on, which is within a string and not escaped, up to the first block
// with the string's end, a control character, or an escape of more than one letter. passed is the number of bytes
// skipped, escapes the number of escapes that end in them; open is 1 when their last byte begins one, else 0.
func pass(d []byte, i int) (passed, escapes, open int) {
	if runtime.GOARCH != "amd64" {
		return 0, 0, 0
	}
	return passAVX2(&d[i], len(d)-i)
}

// passAVX2 is in wide_amd64.s. It is not called on other architectures.
//
//go:noescape
func passAVX2(p *byte, n int) (passed, escapes, open int)
