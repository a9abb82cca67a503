//! The tile kernels of AMX, in assembly, as the compiler's own names for these instructions are
//! not stable yet. Six tiles of sums cover the latency of 52 cycles at one product in 16.

#![expect(unsafe_code, reason = "the tile instructions and the system call that allows them")]

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::LazyLock;

use super::kernel::{Family, Kernel};
use super::state::{Arithmetic, State, TILE};

const SUMS: usize = 6;
/// Bytes of a row, and the distance from one to the next.
const ROW: usize = 64;

pub const BF16: Kernel = Kernel {
    family: Family::Bf16Tiles,
    isa: "amx_bf16",
    instruction: "TDPBF16PS",
    operations: 2 * 16 * 16 * 32,
    instructions: SUMS as u64,
    bytes: SUMS * TILE,
    arithmetic: Arithmetic::TileBf16,
    available: || usable(BF16_BIT),
    run: bf16,
};

pub const INT8: Kernel = Kernel {
    family: Family::Int8Tiles,
    isa: "amx_int8",
    instruction: "TDPBSSD",
    operations: 2 * 16 * 16 * 64,
    instructions: SUMS as u64,
    bytes: SUMS * TILE,
    arithmetic: Arithmetic::TileInt8,
    available: || usable(INT8_BIT),
    run: int8,
};

/// Bits of leaf 7 of CPUID, in EDX.
const BF16_BIT: u32 = 1 << 22;
const TILE_BIT: u32 = 1 << 24;
const INT8_BIT: u32 = 1 << 25;

fn usable(bit: u32) -> bool {
    let has = __cpuid_count(7, 0).edx;
    has & TILE_BIT != 0 && has & bit != 0 && *PERMITTED
}

/// Linux gives the tiles' state only to processes that ask for it, once for all threads to come.
static PERMITTED: LazyLock<bool> = LazyLock::new(|| {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XFEATURE_XTILEDATA: u64 = 18;
    let answer: i64;
    // SAFETY: the call takes two numbers and no pointer; the kernel changes rax, rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
});

/// What `ldtilecfg` loads: palette 1, and eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Shape {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static SHAPE: Shape = Shape {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

macro_rules! kernel {
    ($name:ident, $instruction:literal) => {
        // A plain function has no features of the processor to declare; the caller has asked
        // `usable`, as for every kernel.
        unsafe fn $name(iterations: u64, state: &mut State) {
            if iterations == 0 {
                return;
            }
            // SAFETY: the processor has the instructions and the process may use them (`usable`).
            // The shape lives for ever; tiles are read from and written to the three arrays,
            // which hold six, one and one of them; the loop ends after `iterations` > 0 turns;
            // the tiles' state is given back at the end.
            unsafe {
                asm!(
                    "ldtilecfg [{shape}]",
                    "tileloadd tmm0, [{sums} + {row}]",
                    "tileloadd tmm1, [{sums} + {row} + 0x400]",
                    "tileloadd tmm2, [{sums} + {row} + 0x800]",
                    "tileloadd tmm3, [{sums} + {row} + 0xc00]",
                    "tileloadd tmm4, [{sums} + {row} + 0x1000]",
                    "tileloadd tmm5, [{sums} + {row} + 0x1400]",
                    "tileloadd tmm6, [{a} + {row}]",
                    "tileloadd tmm7, [{b} + {row}]",
                    "2:",
                    concat!($instruction, " tmm0, tmm6, tmm7"),
                    concat!($instruction, " tmm1, tmm6, tmm7"),
                    concat!($instruction, " tmm2, tmm6, tmm7"),
                    concat!($instruction, " tmm3, tmm6, tmm7"),
                    concat!($instruction, " tmm4, tmm6, tmm7"),
                    concat!($instruction, " tmm5, tmm6, tmm7"),
                    "dec {turns}",
                    "jnz 2b",
                    "tilestored [{sums} + {row}], tmm0",
                    "tilestored [{sums} + {row} + 0x400], tmm1",
                    "tilestored [{sums} + {row} + 0x800], tmm2",
                    "tilestored [{sums} + {row} + 0xc00], tmm3",
                    "tilestored [{sums} + {row} + 0x1000], tmm4",
                    "tilestored [{sums} + {row} + 0x1400], tmm5",
                    "tilerelease",
                    shape = in(reg) &raw const SHAPE,
                    sums = in(reg) state.sums.as_mut_ptr(),
                    a = in(reg) state.a.as_ptr(),
                    b = in(reg) state.b.as_ptr(),
                    row = in(reg) ROW,
                    turns = inout(reg) iterations => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

kernel!(bf16, "tdpbf16ps");
kernel!(int8, "tdpbssd");
