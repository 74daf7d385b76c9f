#include "textflag.h"

// What stands for the byte after a backslash, 0 for what may not stand there.
DATA escaped<>+0x22(SB)/1, $0x22
DATA escaped<>+0x2f(SB)/1, $0x2f
DATA escaped<>+0x5c(SB)/1, $0x5c
DATA escaped<>+0x62(SB)/1, $0x08
DATA escaped<>+0x66(SB)/1, $0x0c
DATA escaped<>+0x6e(SB)/1, $0x0a
DATA escaped<>+0x72(SB)/1, $0x0d
DATA escaped<>+0x74(SB)/1, $0x09
GLOBL escaped<>(SB), RODATA|NOPTR, $128

DATA ends<>+0(SB)/1, $0x22 // "
DATA ends<>+1(SB)/1, $0x5c // \
DATA ends<>+2(SB)/1, $0x20 // the first that is no control character
GLOBL ends<>(SB), RODATA|NOPTR, $3

// func decodeVBMI2(dst, src *byte, n int) (read, written, open int, high uint64)
TEXT ·decodeVBMI2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	VPBROADCASTB ends<>+0(SB), Z8
	VPBROADCASTB ends<>+1(SB), Z9
	VPBROADCASTB ends<>+2(SB), Z10
	VMOVDQU64 escaped<>+0(SB), Z11
	VMOVDQU64 escaped<>+64(SB), Z12
	VPXORQ Z13, Z13, Z13 // all that was read, ored together
	MOVQ $0xaaaaaaaaaaaaaaaa, R15
	XORL R8, R8 // read
	XORL R9, R9 // 1: the block begins with an escaped byte
	XORL R10, R10 // written

block:
	CMPQ DX, $64
	JLT  done
	VMOVDQU64 (SI)(R8*1), Z0
	VPCMPEQB Z8, Z0, K1
	VPCMPEQB Z9, Z0, K2
	VPCMPUB $1, Z10, Z0, K3
	KMOVQ K1, AX // quotes
	KMOVQ K2, BX // backslashes
	KMOVQ K3, CX // control characters
	MOVQ BX, R11
	ORQ  R9, R11
	JNZ  escapes
	ORQ  AX, CX
	JNZ  done
	VMOVDQU64 Z0, (DI)(R10*1)
	VPORQ Z0, Z13, Z13
	ADDQ $64, R8
	ADDQ $64, R10
	SUBQ $64, DX
	JMP  block

escapes:
	// R12: the backslashes that begin an escape, and some bytes that are none. The subtraction carries through each run
	// (Langdale and Lemire, Parsing Gigabytes of JSON per Second, 2019, in the form that simdjson has since 3.2).
	MOVQ R9, R11
	NOTQ R11
	ANDQ BX, R11
	LEAQ (R11)(R11*1), R12
	ORQ  R15, R12
	SUBQ R11, R12
	XORQ R15, R12

	// R11: the bytes that are escaped.
	MOVQ BX, R11
	ORQ  R9, R11
	XORQ R12, R11
	ANDQ BX, R12

	// What they stand for.
	VMOVDQA64 Z0, Z1
	VPERMI2B Z12, Z11, Z1
	VPTESTNMB Z1, Z1, K4
	VPMOVB2M Z0, K5
	KORQ  K4, K5, K4
	KMOVQ K4, R13

	// A quote that is not escaped, a control character, or an escape that is no single letter ends it.
	ANDQ R11, R13
	ORQ  CX, R13
	MOVQ R11, CX
	NOTQ CX
	ANDQ AX, CX
	ORQ  CX, R13
	JNZ  done

	VPORQ Z0, Z13, Z13
	KMOVQ R11, K1
	VMOVDQU8 Z1, K1, Z0
	MOVQ R12, R13
	NOTQ R13
	KMOVQ R13, K2
	VPCOMPRESSB Z0, K2, Z2
	VMOVDQU64 Z2, (DI)(R10*1)
	POPCNTQ R13, R13
	ADDQ R13, R10
	SHRQ $63, R12
	MOVQ R12, R9
	ADDQ $64, R8
	SUBQ $64, DX
	JMP  block

done:
	VPMOVB2M Z13, K1
	KMOVQ K1, R11
	VZEROUPPER
	MOVQ R8, read+24(FP)
	MOVQ R10, written+32(FP)
	MOVQ R9, open+40(FP)
	MOVQ R11, high+48(FP)
	RET
