# SPDX-License-Identifier: GPL-2.0-or-later
"""What instructions do besides running, against the manuals and against LLVM."""

import json
import re
import shutil
import subprocess

import pytest

from kentry.arch import ARCHES
from kentry.path.metrics import Effects, effects, readable_text
from kentry.results.recording import Instruction
from tests.unit.machines.sshd import skip

# Of each instruction, by the manuals: its bytes; what it does; its text.
# r reads and w writes data memory; b is a branch, of these c is conditional, i has its target in a
# register or in memory, C is a call, R is a return; a is atomic; a longer word is the name of a
# serialising instruction; - is nothing.
TABLES = {
    "arm64": """
20400091  -      add x0, x1, #16
030440f9  r      ldr x3, [x0, #8]
4178a3b8  r      ldrsw x1, [x2, x3, lsl #2]
200800b8  w      sttr w0, [x1]
fd7bbea9  w      stp x29, x30, [sp, #-32]!
00020058  r      ldr x0, #64
000080f9  -      prfm pldl1keep, [x0]
110200d8  -      prfm pstl1strm, #64
00809ff8  -      prfum pldl1keep, [x0, #-8]
00a0404c  r      ld1 {v0.16b, v1.16b}, [x0]
0024200d  w      st4 {v0.b, v1.b, v2.b, v3.b}[1], [x0]
2068223c  w      str b0, [x1, x2]
20fc9f88  w      stlr w0, [x1]
20c0bff8  r      ldapr x0, [x1]
20404099  r      ldapur w0, [x1, #4]
208000d9  w      stlur x0, [x1, #8]
047c5fc8  r a    ldxr x4, [x0]
027ce188  rw a   casa w1, w2, [x0]
82fc6048  rw a   caspal x0, x1, x2, x3, [x4]
4180e0f8  rw a   swpal x0, x1, [x2]
200420f8  r      ldraa x0, [x1]
200060d9  -      ldg x0, [x1]
200820d9  -      stg x0, [x1]
200860d9  w      stzg x0, [x1]
00d13ff8  r      ld64b x0, [x8]
40040119  rw     cpyfp [x0]!, [x1]!, x2!
2004c219  w      setp [x0]!, x1!, x2
20740bd5  w      dc zva, x0
00010014  b      b #1024
81ffff54  b c    b.ne #-16
800000b4  b c    cbz x0, #16
01011837  b c    tbnz x1, #3, #32
00040094  b C    bl #4096
00021fd6  b i    br x16
01081fd7  b i    braa x0, x1
20003fd6  b C i  blr x1
ff0b5fd6  b R    retaa
e0039fd6  eret   eret
010000d4  svc    svc #0
020000d4  hvc    hvc #0
030000d4  smc    smc #0
000021d4  brk    brk #0x800
df3f03d5  isb    isb
9f3b03d5  dsb    dsb ish
bf3903d5  -      dmb ishld
ff3003d5  sb     sb
7f2003d5  wfi    wfi
5f2003d5  -      wfe
004138d5  -      mrs x0, sp_el0
20421bd5  -      msr daif, x0
40d01bd5  -      msr tpidr_el0, x0
7fd01bd5  -      msr tpidrro_el0, xzr
80d018d5  -      msr tpidr_el1, x0
00a000a4  r      ld1b {z0.b}, p0/z, [x0]
20a082e5  w      st1d {z0.d}, p0, [x1, z2.d]
0000c085  -      prfb pldl1keep, p0, [x0]
00902825  -      wrffr p0.b
000020e1  w      str za[w12, 0], [x0]
002081a0  -      smopa za0.s, p0/m, p1/m, z0.b, z1.b
0068a1f8  -      prfm pldl1keep, [x0, x1]
00002084  -      prfb pldl1keep, p0, [x0, z0.s, uxtw]
00e00084  -      prfb pldl1keep, p0, [z0.s]
00c00184  -      prfb pldl1keep, p0, [x0, x1]
008060c4  -      prfb pldl1keep, p0, [x0, z0.d]
000020c4  -      prfb pldl1keep, p0, [x0, z0.d, uxtw]
00e000c4  -      prfb pldl1keep, p0, [z0.d]
20c020c4  r      ld1b {z0.d}, p0/z, [z1.d]
00400185  r      ld1w {z0.s}, p0/z, [x0, z1.s, uxtw]
000040a0  r      ld1b {z0.b, z1.b}, pn8/z, [x0]
000060a0  w      st1b {z0.b, z1.b}, pn8, [x0]
00009fe0  r      ld1w {za0h.s[w12, 0]}, p0/z, [x0]
00913ff8  w      st64b x0, [x8]
00b121f8  w      st64bv x1, x0, [x8]
00a121f8  w      st64bv0 x1, x0, [x8]
20008019  r      ldapursb x0, [x1]
2008c01d  r      ldapur q0, [x1]
401841d9  r      ldiapp x0, x1, [x2]
4004811d  rw     cpye [x0]!, [x1]!, x2!
2014e0d9  w      stz2g x0, [x1], #16
200020d9  w      stzgm x0, [x1]
200c1fd9  w      gcsstr x0, [x1]
80740bd5  w      dc gzva, x0
60740bd5  -      dc gva, x0
3f3e03d5  dsb    dsb synxs
ff0b9fd6  eret   eretaa
3f000055  b R    retaasppc #-4
002058d5  msr    msrr ttbr0_el1, x0, x1
""",
    "riscv64": """
13000000  -                nop
13850501  -                addi a0, a1, 16
37050100  -                lui a0, 16
97000100  -                auipc ra, 16
03b58500  r                ld a0, 8(a1)
23341100  w                sd ra, 8(sp)
2734a500  w                fsd fa0, 8(a0)
070c0502  r                vle8.v v24, (a0)
2fa50510  r a              lr.w a0, (a1)
2fa5c51a  w a              sc.w.rl a0, a2, (a1)
2fa5c506  rw a             amoadd.w.aqrl a0, a2, (a1)
6f001000  b                jal zero, 2048
ef001000  b C              jal ra, 2048
ef021000  b C              jal t0, 2048
e7020500  b C i            jalr t0, 0(a0)
67800000  b R              jalr zero, 0(ra)
67800200  b R              jalr zero, 0(t0)
e7800200  b C i            jalr ra, 0(t0)
6300b504  b c              beq a0, a1, 64
73250010  -                csrr a0, sstatus
73100510  csrrw            csrw sstatus, a0
73200510  csrrs            csrs sstatus, a0
73b50510  csrrc            csrrc a0, sstatus, a1
73600110  csrrsi           csrsi sstatus, 2
73750110  csrrci           csrrci a0, sstatus, 2
73500010  csrrwi           csrwi sstatus, 0
73650010  -                csrrsi a0, sstatus, 0
732510c0  -                rdtime a0
0f003003  -                fence rw, rw
0f100000  fence.i          fence.i
0f003083  -                fence.tso
73000012  sfence.vma       sfence.vma
7300b516  sinval.vma       sinval.vma a0, a1
73000018  sfence.w.inval   sfence.w.inval
73001018  sfence.inval.ir  sfence.inval.ir
7300b522  hfence.vvma      hfence.vvma a0, a1
73000000  ecall            ecall
73001000  ebreak           ebreak
73002010  sret             sret
73002030  mret             mret
73005010  wfi              wfi
13601500  -                prefetch.r 0(a0)
0f204500  w                cbo.zero (a0)
73c50568  r                hlv.w a0, (a1)
73c0a56e  w                hsv.d a0, (a1)
8865      r                c.ld a0, 8(a1)
c841      r                c.lw a0, 4(a1)
8825      r                c.fld fa0, 8(a1)
c8c1      w                c.sw a0, 4(a1)
88a5      w                c.fsd fa0, 8(a1)
1245      r                c.lwsp a0, 4(sp)
2225      r                c.fldsp fa0, 8(sp)
2ac2      w                c.swsp a0, 4(sp)
2aa4      w                c.fsdsp fa0, 8(sp)
e885      r                c.lh a0, 2(a1)
a88d      w                c.sh a0, 2(a1)
81a0      b                c.j 64
65f1      b c              c.bnez a0, -32
8287      b i              c.jr a5
8280      b R              c.jr ra
8282      b R              c.jr t0
8292      b C i            c.jalr t0
0290      ebreak           c.ebreak
0808      -                c.addi4spn a0, sp, 16
0565      -                c.lui a0, 1
""",
    "x86_64": """
48894708              w          movq %rax, 8(%rdi)
c7470401000000        w          movl $1, 4(%rdi)
48a18877665544332211  r          movabsq 0x1122334455667788, %rax
486307                r          movslq (%rdi), %rax
480107                rw         addq %rax, (%rdi)
483907                r          cmpq %rax, (%rdi)
f60701                r          testb $1, (%rdi)
48f717                rw         notq (%rdi)
c12702                rw         shll $2, (%rdi)
480f4407              r          cmoveq (%rdi), %rax
0f9407                w          sete (%rdi)
480fab07              rw         bts %rax, (%rdi)
488707                rw a       xchgq %rax, (%rdi)
3e0fb10f              rw a       ds cmpxchgl %ecx, (%rdi)
f0834424fc00          rw a       lock addl $0, -4(%rsp)
f0480fba2f05          rw a       lock btsq $5, (%rdi)
65480fc70e            rw         cmpxchg16b %gs:(%rsi)
3eff07                rw a       ds incl (%rdi)
3e488b07              r          ds movq (%rdi), %rax
55                    w          pushq %rbp
6aff                  w          pushq $-1
5d                    r          popq %rbp
8f07                  rw         popq (%rdi)
9c                    w          pushfq
9d                    r          popfq
c9                    r          leave
2ee810101010          w b C      cs call 0x1000
ff5008                rw b C i   callq *8(%rax)
ff64c808              r b i      jmpq *8(%rax,%rcx,8)
eb10                  b          jmp 0x10
e910101010            b          jmp 0x1000
7410                  b c        je 0x10
2e0f8510101010        b c        cs jne 0x1000
e210                  b c        loop 0x10
c20800                r b R      ret $8
f3c3                  r b R      repz ret
48cb                  r b R      lretq
f348ab                w          rep stosq
f3a4                  rw         rep movsb
ae                    r          scasb
6e                    r          outsb
6c                    w          insb
d7                    r          xlatb
660fae37              -          clwb (%rdi)
480fc307              w          movntiq %rax, (%rdi)
0f2907                w          movaps %xmm0, (%rdi)
0f2807                r          movaps (%rdi), %xmm0
660fd607              w          movq %xmm0, (%rdi)
f30f7e07              r          movq (%rdi), %xmm0
c5fd7f07              w          vmovdqa %ymm0, (%rdi)
c5f5ef07              r          vpxor (%rdi), %ymm1, %ymm0
c5fa7e07              r          vmovq (%rdi), %xmm0
480fae27              rw         xsave64 (%rdi)
480fae37              rw         xsaveopt64 (%rdi)
480fc72f              w          xsaves64 (%rdi)
db07                  r          fildl (%rdi)
480f38f107            w          movbeq %rax, (%rdi)
f2480f38f107          r          crc32q (%rdi), %rax
660f3a160701          w          pextrd $1, %xmm0, (%rdi)
66480f38f507          w          wrussq %rax, (%rdi)
0f0107                w          sgdt (%rdi)
0f0117                r lgdt     lgdt (%rdi)
0f011f                r lidt     lidt (%rdi)
0f00d8                ltr        ltr %ax
0f002d08000000        r verw     verw 8(%rip)
0f013f                invlpg     invlpg (%rdi)
660f388207            r invpcid  invpcid (%rdi), %rax
0f22c0                mov-cr0    movq %rax, %cr0
0f22d8                mov-cr3    movq %rax, %cr3
440f22c0              -          movq %rax, %cr8
0f23f8                mov-dr     movq %rax, %dr7
0f30                  wrmsr      wrmsr
0fa2                  cpuid      cpuid
0f01f8                swapgs     swapgs
0faee8                lfence     lfence
0faef0                mfence     mfence
0f01e8                serialize  serialize
0f01d1                xsetbv     xsetbv
f4                    hlt        hlt
0f05                  syscall    syscall
480f07                sysretq    sysretq
0f07                  sysretl    sysretl
48cf                  r iretq    iretq
cc                    int3       int3
cd80                  int        int $128
0f0b                  ud2        ud2
fe07                  rw         incb (%rdi)
d807                  r          fadds (%rdi)
d93f                  w          fnstcw (%rdi)
d92f                  r          fldcw (%rdi)
dd07                  r          fldl (%rdi)
dd1f                  w          fstpl (%rdi)
db1f                  w          fistpl (%rdi)
df2f                  r          fildll (%rdi)
df3f                  w          fistpll (%rdi)
660f3a0f0704          r          palignr $4, (%rdi), %xmm0
48ff1f                rw b C i   lcallq *(%rdi)
48ff2f                r b i      ljmpq *(%rdi)
0f0127                w          smsww (%rdi)
660ff7c1              w          maskmovdqu %xmm1, %xmm0
66480f38f607          r          adcxq (%rdi), %rax
480f38f607            w          wrssq %rax, (%rdi)
c5f8ae17              r          vldmxcsr (%rdi)
c5f8ae1f              w          vstmxcsr (%rdi)
c4e2750007            r          vpshufb (%rdi), %ymm1, %ymm0
c4e3fd000701          r          vpermq $1, (%rdi), %ymm0
c4e37d390701          w          vextracti128 $1, %ymm0, (%rdi)
c4e2758e07            w          vpmaskmovd %ymm0, %ymm1, (%rdi)
c5f97e07              w          vmovd %xmm0, (%rdi)
0f22d0                mov-cr2    movq %rax, %cr2
0f22e0                mov-cr4    movq %rax, %cr4
0f08                  invd       invd
0f09                  wbinvd     wbinvd
660f388007            r invept   invept (%rdi), %rax
660f388107            r invvpid  invvpid (%rdi), %rax
0f00d0                lldt       lldtw %ax
0f01c9                mwait      mwait
0f34                  sysenter   sysenter
0f35                  sysexit    sysexitl
cf                    r iretl    iretl
""",
}
# Those that LLVM 19 does not know, such as LSUI's and CMPBR's, or that end llvm-mca 22 with a
# segmentation fault.
UNCOMPARED = {
    "arm64": """
a0d018d5  msr         msr accdata_el1, x0
a0d01bd5  -           msr tpidr2_el0, x0
800001f4  b c    cbgt x0, x1, #16
207c5fc9  r a    ldtxr x0, [x1]
417cc0c9  rw a   casat x0, x1, [x2]
41042059  rw a   ldtadd x0, x1, [x2]
""",
    "x86_64": """
0fa8                  w          pushq %gs
0fa1                  r          popq %fs
""",
}
LINES = [
    (arch, *re.split(r" {2,}", line))
    for arch, table in [*TABLES.items(), *UNCOMPARED.items()]
    for line in table.strip().splitlines()
]
ROWS = [(arch, code, wanted) for arch, code, wanted, _ in LINES]
NAMES = [f"{arch} {text}" for arch, _, _, text in LINES]


def flags(of: Effects) -> str:
    kinds = [
        ("r", of.reads),
        ("w", of.writes),
        (" b", of.branch),
        (" c", of.conditional),
        (" C", of.call),
        (" i", of.indirect),
        (" R", of.returns),
        (" a", of.atomic),
        (f" {of.serialising}", bool(of.serialising)),
    ]
    return "".join(letter for letter, holds in kinds if holds).strip() or "-"


@pytest.mark.parametrize(("arch", "code", "wanted"), ROWS, ids=NAMES)
def test_an_instruction_does_what_the_manual_says(arch: str, code: str, wanted: str) -> None:
    assert flags(effects(code, ARCHES[arch])) == wanted


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("code", ["", "0f"])
def test_what_is_no_instruction_does_nothing(arch: str, code: str) -> None:
    assert flags(effects(code, ARCHES[arch])) == "-"


# How LLVM is asked about an architecture: triple, features, cores that have models of most
# instructions (of LSE only thunderx3t110); and LLVM's names of instructions by what they do to the
# flow of control.  riscv64's calls and returns are told by registers, which are not in the names.
LLVM = {
    "arm64": (
        "aarch64",
        "+all",
        ["neoverse-n2", "thunderx3t110"],
        {
            "branch": r"(B|BL|BR|BLR|RET|Bcc|CBN?Z|TBN?Z)[WX]?|(BR|BLR|RET)A[AB](Z|SPPC.)?",
            "conditional": r"Bcc|CBN?Z[WX]|TBN?Z[WX]",
            "call": r"BL|BLR(A[AB]Z?)?",
            "returns": r"RET(A[AB](SPPC.)?)?",
            "indirect": r"(BR|BLR)(A[AB]Z?)?",
        },
    ),
    "riscv64": (
        "riscv64",
        # Zacas is experimental in LLVM 19.
        "+m,+a,+f,+d,+c,+v,+h,+svinval,+zicbom,+zicboz,+zicbop,+zcb,+zacas,+experimental-zacas",
        ["sifive-p670"],
        {
            "branch": r"JALR?|B(EQ|NE|LTU?|GEU?)|C_(J|JR|JALR|BEQZ|BNEZ)",
            "conditional": r"B(EQ|NE|LTU?|GEU?)|C_B(EQ|NE)Z",
        },
    ),
    "x86_64": (
        "x86_64",
        "",
        ["znver4"],
        {
            "branch": r"((FAR)?(JMP|CALL)|JCC|L?RETI?)(64|_).*|JRCXZ|LOOP",
            "conditional": r"JCC_\d|JRCXZ|LOOP",
            "call": r"(FAR)?CALL64.*",
            "returns": r"L?RETI?64",
            "indirect": r"(FAR)?(JMP|CALL)64(r|m)(_NT)?",
        },
    ),
}
# Where LLVM has another view of memory than the manuals, by LLVM's names.  A compiler asks whether
# it may move an instruction, so LLVM says of many that they load and store.
LLVM_DIFFERS = [
    # Barriers, hints, prefetches, maintenance of caches, exceptions, registers of the system.
    r"HINT|[ID]SB|DMB|PRF.*|RDFFR_P|WRFFR|PAUSE|PREFETCH.*|CLFLUSH|CLWB|[LMS]FENCE|SERIALIZE",
    r"INT3?|TRAP|XSETBV|WRGSBASE64|(WB|WBNO)?INVD|MWAITrr",
    # It has both for what has to do with an exclusive monitor, or with a state in memory.
    r"LDA?X[RP].|STL?X[RP].|XSAVES64|XRSTORS64|FXSAVE64|V?LDMXCSR|WRU?SSQ",
    # It has both for a store of some elements of a vector.
    r"V?P?MASKMOV.*",
    # Allocation tags are no data; of two instructions LLVM 19 says nothing.
    r"LDG|STGi|STZGM|LDAPURSBXi",
    # It says nothing: the stack of calls and returns, strings, descriptors; dc zva.
    r"(FAR)?CALL64.*|L?RETI?64|IRET(32|64)|(STOS|MOVS|CMPS|LODS|SCAS|OUTS|INS)[BWQ]|[SL][GI]DT64m",
    r"INV(PCID|EPT|VPID)64|SMSW16m|SYSxt",
]


def newest_llvm() -> str:
    """The suffix of the newest LLVM's programs that is installed, 19 or later."""
    found = (f"-{version}" for version in range(40, 18, -1))
    suffix = next((one for one in found if shutil.which(f"llvm-mca{one}")), "")
    if not suffix:
        skip("LLVM 19 or later is not installed: scripts/install-packages packages/test.txt")
    return suffix


def llvm_names(suffix: str, arch: str, codes: list[str]) -> list[tuple[str, str]]:
    """LLVM's name and text of each instruction; a prefix that is one of its own left out."""
    given = "".join(" ".join(f"0x{byte:02x}" for byte in bytes.fromhex(c)) + "\n" for c in codes)
    triple, features, *_ = LLVM[arch]
    options = ["--disassemble", "--show-inst", f"--triple={triple}", f"--mattr={features}"]
    done = subprocess.run(
        [f"llvm-mc{suffix}", *options], input=given, capture_output=True, text=True, check=True
    )
    found = re.findall(r"^\t(.*?) *(?://|#) <MCInst #\d+ (\w+)", done.stdout, re.MULTILINE)
    return [(name, text) for text, name in found if not name.endswith("_PREFIX")]


def llvm_accesses(suffix: str, arch: str, texts: list[str]) -> dict[int, tuple[bool, bool]]:
    """By index: whether LLVM says that an instruction may load and may store.

    Those that no core has a model of are left out.
    """
    given = "".join(
        f"# LLVM-MCA-BEGIN {index}\n{text}\n# LLVM-MCA-END\n" for index, text in enumerate(texts)
    )
    triple, features, cores, _ = LLVM[arch]
    options = [f"--mtriple={triple}", f"--mattr={features}", "--json", "--instruction-info"]
    options += ["--skip-unsupported-instructions=any", "--iterations=1"]
    found = {}
    for core in cores:
        command = [f"llvm-mca{suffix}", *options, f"--mcpu={core}"]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
        for region in json.loads(done.stdout)["CodeRegions"]:
            for one in region["InstructionInfoView"]["InstructionList"]:
                found[int(region["Name"])] = one["mayLoad"], one["mayStore"]
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_llvm_has_the_same_view(arch: str) -> None:
    llvm = newest_llvm()
    codes = [line.split()[0] for line in TABLES[arch].strip().splitlines()]
    names = llvm_names(llvm, arch, codes)
    assert len(names) == len(codes)
    views = [effects(code, ARCHES[arch]) for code in codes]
    for view, (name, text) in zip(views, names, strict=True):
        for kind, pattern in LLVM[arch][3].items():
            assert getattr(view, kind) == bool(re.fullmatch(pattern, name)), (name, text, kind)
    accesses = llvm_accesses(llvm, arch, [text for _, text in names])
    assert len(accesses) > 0.7 * len(codes)
    differing = {
        names[index]
        for index, (loads, stores) in accesses.items()
        if (loads, stores) != (views[index].reads, views[index].writes)
    }
    assert {
        name for name in differing if not re.fullmatch("|".join(LLVM_DIFFERS), name[0])
    } == set()


# --- names, against objdump 2.40 ------------------------------------------


def readable(code: str, text: str, arch: str = "arm64") -> str:
    return readable_text(Instruction(0xFFFF800080010000, code, text, "f", 0), ARCHES[arch])


@pytest.mark.parametrize(
    ("code", "text", "wanted"),
    [
        ("5f4103d5", ".byte 0x5f, 0x41, 0x03, 0xd5", "msr dit, #1"),
        ("3f1022f8", ".byte 0x3f, 0x10, 0x22, 0xf8", "stclr x2, [x1]"),
        ("027ce188", ".byte 0x02, 0x7c, 0xe1, 0x88", "casa w1, w2, [x0]"),
        ("0fe41825", ".byte 0x0f, 0xe4, 0x18, 0x25", "pfalse p15.b"),
        ("00902825", ".byte 0x00, 0x90, 0x28, 0x25", "wrffr p0.b"),
        ("3f2303d5", "hint #0x19", "paciasp"),
        ("bf2303d5", "hint #0x1d", "autiasp"),
        ("9f2203d5", "hint #0x14", "csdb"),
        ("5f2403d5", "hint #0x22", "bti c"),
        ("ff2003d5", "hint #0x7", "xpaclri"),
    ],
)
def test_the_bytes_name_what_the_emulator_could_not(code: str, text: str, wanted: str) -> None:
    assert readable(code, text) == wanted


def test_other_text_stays() -> None:
    assert readable("1f2003d5", "nop") == "nop"
    assert readable("2058bf04", ".byte 0x20, 0x58, 0xbf, 0x04") == ".byte 0x20, 0x58, 0xbf, 0x04"
    assert readable("278c0202", ".byte 0x27", "riscv64") == ".byte 0x27"
