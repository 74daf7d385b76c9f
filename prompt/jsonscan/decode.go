package jsonscan

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

// deep reports that decodeBlocks can be used. It is a constant of the machine.
var deep = runtime.GOARCH == "amd64" && cpu.X86.HasPOPCNT && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW &&
	cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2

// decodeBlocks decodes whole blocks of 64 bytes of src, which begins within a string and not escaped, up to the first
// block with the string's end, a control character, or an escape of more than one letter. An escape cut off by the end
// of the last block is left out. high is not 0 if there were bytes beyond ASCII. Up to 64 bytes beyond the result are
// overwritten: dst must have room for those, and for the length of src; otherwise nothing is done.
func decodeBlocks(dst, src []byte) (read, written int, high uint64) {
	if runtime.GOARCH != "amd64" || len(src) < 64 || len(dst) < len(src)+64 {
		return 0, 0, 0
	}
	read, written, open, high := decodeVBMI2(&dst[0], &src[0], len(src))
	return read - open, written, high
}

// decodeVBMI2 is in decode_amd64.s. It is not called on other architectures.
//
//go:noescape
func decodeVBMI2(dst, src *byte, n int) (read, written, open int, high uint64)
