#include "textflag.h"

DATA bytes<>+0(SB)/1, $0x22 // "
DATA bytes<>+1(SB)/1, $0x5c // \
DATA bytes<>+2(SB)/1, $0x1f // the last control character
DATA bytes<>+3(SB)/1, $0x2f // /
DATA bytes<>+4(SB)/1, $0x62 // b
DATA bytes<>+5(SB)/1, $0x66 // f
DATA bytes<>+6(SB)/1, $0x6e // n
DATA bytes<>+7(SB)/1, $0x72 // r
DATA bytes<>+8(SB)/1, $0x74 // t
GLOBL bytes<>(SB), RODATA|NOPTR, $9

// LOOK sets, for the 32 bytes in Y0, the bits of AX: quotes, BX: backslashes, CX: control characters, DX: what may
// follow a backslash.
#define LOOK \
	VPCMPEQB  Y8, Y0, Y2  \
	VPMOVMSKB Y2, AX      \
	VPCMPEQB  Y9, Y0, Y3  \
	VPMOVMSKB Y3, BX      \
	VPMINUB   Y10, Y0, Y4 \
	VPCMPEQB  Y4, Y0, Y4  \
	VPMOVMSKB Y4, CX      \
	VPOR      Y3, Y2, Y2  \
	VPCMPEQB  Y11, Y0, Y3 \
	VPCMPEQB  Y12, Y0, Y4 \
	VPCMPEQB  Y13, Y0, Y5 \
	VPCMPEQB  Y14, Y0, Y6 \
	VPOR      Y4, Y3, Y3  \
	VPOR      Y6, Y5, Y5  \
	VPCMPEQB  Y15, Y0, Y4 \
	VPCMPEQB  Y7, Y0, Y6  \
	VPOR      Y3, Y2, Y2  \
	VPOR      Y6, Y4, Y4  \
	VPOR      Y5, Y2, Y2  \
	VPOR      Y4, Y2, Y2  \
	VPMOVMSKB Y2, DX

// func passAVX2(p *byte, n int) (passed, escapes, open int)
TEXT ·passAVX2(SB), NOSPLIT, $0-40
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), DI
	VPBROADCASTB bytes<>+0(SB), Y8
	VPBROADCASTB bytes<>+1(SB), Y9
	VPBROADCASTB bytes<>+2(SB), Y10
	VPBROADCASTB bytes<>+3(SB), Y11
	VPBROADCASTB bytes<>+4(SB), Y12
	VPBROADCASTB bytes<>+5(SB), Y13
	VPBROADCASTB bytes<>+6(SB), Y14
	VPBROADCASTB bytes<>+7(SB), Y15
	VPBROADCASTB bytes<>+8(SB), Y7
	MOVQ $0xaaaaaaaaaaaaaaaa, R15
	XORL R8, R8 // passed
	XORL R9, R9 // 1: the block begins with an escaped byte
	XORL R10, R10 // escapes

block:
	CMPQ DI, $64
	JLT  done
	VMOVDQU 32(SI)(R8*1), Y0
	LOOK
	MOVQ AX, R11
	MOVQ BX, R12
	MOVQ CX, R13
	MOVQ DX, R14
	VMOVDQU (SI)(R8*1), Y0
	LOOK
	SHLQ $32, R11
	SHLQ $32, R12
	SHLQ $32, R13
	SHLQ $32, R14
	ORQ  R11, AX
	ORQ  R12, BX
	ORQ  R13, CX
	ORQ  R14, DX

	// R12: the backslashes that begin an escape and the bytes that follow a run of backslashes of odd length. The
	// subtraction carries through each run (Langdale and Lemire, Parsing Gigabytes of JSON per Second, 2019, in the
	// form that simdjson has since 3.2).
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

	// A quote that is not escaped, a control character, or an escape that is no single letter ends it.
	MOVQ R11, R13
	NOTQ R13
	ANDQ AX, R13
	ORQ  CX, R13
	NOTQ DX
	ANDQ R11, DX
	ORQ  DX, R13
	JNZ  done

	POPCNTQ R11, R11
	ADDQ R11, R10
	ANDQ BX, R12
	SHRQ $63, R12
	MOVQ R12, R9
	ADDQ $64, R8
	SUBQ $64, DI
	JMP  block

done:
	VZEROUPPER
	MOVQ R8, passed+16(FP)
	MOVQ R10, escapes+24(FP)
	MOVQ R9, open+32(FP)
	RET
