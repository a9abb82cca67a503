//! Vector kernels for ARM: as many sums as four units with a latency of four cycles take,
//! and half as many again.

#![expect(unsafe_code, reason = "vectors are read from and written to memory by pointer")]

use std::arch::aarch64::{float32x4_t, float64x2_t, vfmaq_f32, vfmaq_f64};

use super::kernel::{Family, Kernel};
use super::state::{Arithmetic, State};

macro_rules! kernel {
    ($name:ident, $vector:ty, $fma:ident) => {
        #[target_feature(enable = "neon")]
        fn $name(iterations: u64, state: &mut State) {
            // SAFETY: the arrays are at least as long as 24 vectors of 16 bytes, and any bits are
            // a vector.
            let (mut sums, a, b) = unsafe {
                (
                    state.sums.as_ptr().cast::<[$vector; 24]>().read_unaligned(),
                    state.a.as_ptr().cast::<$vector>().read_unaligned(),
                    state.b.as_ptr().cast::<$vector>().read_unaligned(),
                )
            };
            for _ in 0..iterations {
                for factor in [a, b] {
                    for sum in &mut sums {
                        *sum = $fma(*sum, *sum, factor);
                    }
                }
            }
            // SAFETY: as above; the state is borrowed mutably.
            unsafe { state.sums.as_mut_ptr().cast::<[$vector; 24]>().write_unaligned(sums) };
        }
    };
}

kernel!(f64_128, float64x2_t, vfmaq_f64);
kernel!(f32_128, float32x4_t, vfmaq_f32);

/// Every 64-bit ARM has these.
pub const KERNELS: &[Kernel] = &[
    Kernel {
        family: Family::F64,
        isa: "neon",
        instruction: "128-bit FMA",
        operations: 4,
        instructions: 48,
        bytes: 384,
        arithmetic: Arithmetic::BalanceF64,
        available: || true,
        run: f64_128,
    },
    Kernel {
        family: Family::F32,
        isa: "neon",
        instruction: "128-bit FMA",
        operations: 8,
        instructions: 48,
        bytes: 384,
        arithmetic: Arithmetic::BalanceF32,
        available: || true,
        run: f32_128,
    },
];
