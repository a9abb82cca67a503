//! Vector kernels for x86-64. Each keeps more independent sums in registers than two units with
//! a latency of five cycles can have under way, and nothing else is in the loop.

#![expect(unsafe_code, reason = "instructions that a processor may lack are unsafe to call")]

use std::arch::x86_64::{
    __m256, __m256d, __m256i, __m512, __m512bh, __m512d, __m512i, _mm256_dpbusd_avx_epi32,
    _mm256_fmadd_pd, _mm256_fmadd_ps, _mm512_dpbf16_ps, _mm512_dpbusd_epi32, _mm512_fmadd_pd,
    _mm512_fmadd_ps,
};

use super::kernel::{Family, Kernel, scalar_f32, scalar_f64};
use super::state::{Arithmetic, State};

/// `step` on each of `count` sums in vectors of type `sum`, with operands of type `operand`.
macro_rules! kernel {
    ($name:ident, $features:literal, [$sum:ty; $count:literal], $operand:ty, $step:expr) => {
        #[target_feature(enable = $features)]
        fn $name(iterations: u64, state: &mut State) {
            const { assert!(size_of::<[$sum; $count]>() <= super::state::TILE) };
            // SAFETY: the arrays are at least as long as what is read (asserted for the sums; an
            // operand is a vector), and any bits are a vector.
            let (mut sums, a, b) = unsafe {
                (
                    state.sums.as_ptr().cast::<[$sum; $count]>().read_unaligned(),
                    state.a.as_ptr().cast::<$operand>().read_unaligned(),
                    state.b.as_ptr().cast::<$operand>().read_unaligned(),
                )
            };
            for _ in 0..iterations {
                for sum in &mut sums {
                    *sum = $step(*sum, a, b);
                }
            }
            // SAFETY: as above; the state is borrowed mutably.
            unsafe { state.sums.as_mut_ptr().cast::<[$sum; $count]>().write_unaligned(sums) };
        }
    };
}

kernel!(f64_512, "avx512f", [__m512d; 16], __m512d, |x, c, _| _mm512_fmadd_pd(x, x, c));
kernel!(f32_512, "avx512f", [__m512; 16], __m512, |x, c, _| _mm512_fmadd_ps(x, x, c));
kernel!(f64_256, "avx2,fma", [__m256d; 12], __m256d, |x, c, _| _mm256_fmadd_pd(x, x, c));
kernel!(f32_256, "avx2,fma", [__m256; 12], __m256, |x, c, _| _mm256_fmadd_ps(x, x, c));
kernel!(bf16_512, "avx512f,avx512bf16", [__m512; 16], __m512bh, |x, a, b| {
    _mm512_dpbf16_ps(x, a, b)
});
kernel!(int8_512, "avx512f,avx512vnni", [__m512i; 16], __m512i, |x, a, b| {
    _mm512_dpbusd_epi32(x, a, b)
});
kernel!(int8_256, "avx2,avxvnni", [__m256i; 12], __m256i, |x, a, b| {
    _mm256_dpbusd_avx_epi32(x, a, b)
});

fn has_fma() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// The best of each family first.
pub const KERNELS: &[Kernel] = &[
    Kernel {
        family: Family::F64,
        isa: "avx512",
        instruction: "512-bit FMA",
        operations: 16,
        instructions: 16,
        bytes: 1024,
        arithmetic: Arithmetic::SquareF64,
        available: || is_x86_feature_detected!("avx512f"),
        run: f64_512,
    },
    Kernel {
        family: Family::F64,
        isa: "avx2",
        instruction: "256-bit FMA",
        operations: 8,
        instructions: 12,
        bytes: 384,
        arithmetic: Arithmetic::SquareF64,
        available: has_fma,
        run: f64_256,
    },
    scalar_f64("scalar"),
    Kernel {
        family: Family::F32,
        isa: "avx512",
        instruction: "512-bit FMA",
        operations: 32,
        instructions: 16,
        bytes: 1024,
        arithmetic: Arithmetic::SquareF32,
        available: || is_x86_feature_detected!("avx512f"),
        run: f32_512,
    },
    Kernel {
        family: Family::F32,
        isa: "avx2",
        instruction: "256-bit FMA",
        operations: 16,
        instructions: 12,
        bytes: 384,
        arithmetic: Arithmetic::SquareF32,
        available: has_fma,
        run: f32_256,
    },
    scalar_f32("scalar"),
    super::amx::BF16,
    Kernel {
        family: Family::Bf16,
        isa: "avx512_bf16",
        instruction: "512-bit VDPBF16PS",
        operations: 64,
        instructions: 16,
        bytes: 1024,
        arithmetic: Arithmetic::PairsBf16,
        available: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16"),
        run: bf16_512,
    },
    super::amx::INT8,
    Kernel {
        family: Family::Int8,
        isa: "avx512_vnni",
        instruction: "512-bit VPDPBUSD",
        operations: 128,
        instructions: 16,
        bytes: 1024,
        arithmetic: Arithmetic::QuadsInt8(64),
        available: || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni"),
        run: int8_512,
    },
    Kernel {
        family: Family::Int8,
        isa: "avx_vnni",
        instruction: "256-bit VPDPBUSD",
        operations: 64,
        instructions: 12,
        bytes: 384,
        arithmetic: Arithmetic::QuadsInt8(32),
        available: || is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni"),
        run: int8_256,
    },
];
