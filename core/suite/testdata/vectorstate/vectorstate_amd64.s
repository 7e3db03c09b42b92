#include "textflag.h"

// func features() uint32
TEXT ·features(SB), NOSPLIT, $0-4
	MOVL $1, AX
	XORL CX, CX
	CPUID
	MOVL CX, ret+0(FP)
	RET

// func extended() uint32
TEXT ·extended(SB), NOSPLIT, $0-4
	MOVL $13, AX
	MOVL $1, CX
	CPUID
	MOVL AX, ret+0(FP)
	RET

// func inUse() uint32
TEXT ·inUse(SB), NOSPLIT, $0-4
	MOVL $1, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET

// func Soil()
TEXT ·Soil(SB), NOSPLIT|NOFRAME, $0-0
	VPCMPEQD Y0, Y0, Y0
	RET

// func Clear()
TEXT ·Clear(SB), NOSPLIT|NOFRAME, $0-0
	VZEROUPPER
	RET
