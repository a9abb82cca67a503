//! Loops over arrays far larger than the caches, in the widest vectors there are, with ordinary
//! stores, which read a line before they write it, and with streaming ones, which do not.

#![expect(unsafe_code, reason = "vector loads and stores go through pointers")]

/// What is done to every element: c is written, a and b are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Copy,
    Scale,
    Add,
    Triad,
    /// Reads a alone and adds it up.
    Read,
}

/// The factor of scale and triad.
pub const SCALAR: f64 = 3.0;
/// Arrays have a multiple of so many elements: as many as any loop takes at once.
pub const STEP: usize = 64;

impl Operation {
    pub const ALL: [Self; 5] = [Self::Copy, Self::Scale, Self::Add, Self::Triad, Self::Read];
    pub const NAMES: [&str; 5] = ["copy", "scale", "add", "triad", "read"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Bytes for every element, counted as STREAM does: what is read and what is written, and not
    /// the line that an ordinary store brings in.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Copy | Self::Scale => 16,
            Self::Add | Self::Triad => 24,
            Self::Read => 8,
        }
    }

    /// What c has to be where a and b are so; for read, what a contributes.
    pub fn wanted(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Copy | Self::Read => a,
            Self::Scale => SCALAR * a,
            Self::Add => a + b,
            Self::Triad => a + SCALAR * b,
        }
    }
}

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    Cached,
    Streaming,
}

impl Stores {
    pub const ALL: [Self; 2] = [Self::Streaming, Self::Cached];
    pub const NAMES: [&str; 2] = ["streaming", "cached"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Streaming => "streaming",
        }
    }
}

type Write = unsafe fn(&mut [f64], &[f64], &[f64]);

/// The loops for one instruction set.
pub struct Isa {
    pub name: &'static str,
    available: fn() -> bool,
    /// By operation, each with cached and with streaming stores.
    write: [[Write; 2]; 4],
    read: unsafe fn(&[f64]) -> f64,
}

/// The widest this processor has.
pub fn isa() -> &'static Isa {
    ISAS.iter().find(|isa| (isa.available)()).expect("the last is always there")
}

impl Isa {
    /// The operation once over all elements; the sum of what was read, or zero.
    ///
    /// Panics if the arrays differ in length or are no multiple of [`STEP`].
    pub fn run(
        &self,
        operation: Operation,
        stores: Stores,
        c: &mut [f64],
        a: &[f64],
        b: &[f64],
    ) -> f64 {
        assert!(c.len() == a.len() && a.len() == b.len() && a.len().is_multiple_of(STEP));
        assert!(c.as_ptr().addr().is_multiple_of(64), "streaming stores are of whole lines");
        // SAFETY: `isa` asked whether the instructions exist; lengths and the alignment of what
        // is written were just checked.
        unsafe {
            if operation == Operation::Read {
                return (self.read)(a);
            }
            (self.write[operation as usize][stores as usize])(c, a, b);
        }
        0.0
    }
}

/// The loops in vectors of `lanes`, four of them at once.
macro_rules! isa {
    ($module:ident, $features:literal, $lanes:literal, $zero:expr,
     $load:path, $set:path, $add:path, $mul:path, $store:path, $stream:path, $fence:expr) => {
        mod $module {
            use super::{Operation, SCALAR};
            #[cfg(target_arch = "aarch64")]
            use std::arch::aarch64::*;
            #[cfg(target_arch = "x86_64")]
            use std::arch::x86_64::*;

            /// The arrays are as long as each other, in multiples of four vectors; `c` begins
            /// with a line.
            #[target_feature(enable = $features)]
            pub unsafe fn write<const OPERATION: u8, const STREAMING: bool>(
                c: &mut [f64],
                a: &[f64],
                b: &[f64],
            ) {
                let factor = $set(SCALAR);
                let (a, b) = (a.as_ptr(), b.as_ptr());
                for i in (0..c.len()).step_by(4 * $lanes) {
                    // SAFETY: i + 4 vectors stay within the arrays, whose lengths are multiples
                    // of that; streaming stores are aligned as `c` is.
                    unsafe {
                        let value = |v: usize| {
                            let at = i + v * $lanes;
                            if OPERATION == Operation::Copy as u8 {
                                $load(a.add(at))
                            } else if OPERATION == Operation::Scale as u8 {
                                $mul(factor, $load(a.add(at)))
                            } else if OPERATION == Operation::Add as u8 {
                                $add($load(a.add(at)), $load(b.add(at)))
                            } else {
                                $add($load(a.add(at)), $mul(factor, $load(b.add(at))))
                            }
                        };
                        let values = [value(0), value(1), value(2), value(3)];
                        let at = c.as_mut_ptr().add(i);
                        if STREAMING {
                            $stream(at, values);
                        } else {
                            for (v, value) in values.into_iter().enumerate() {
                                $store(at.add(v * $lanes), value);
                            }
                        }
                    }
                }
                if STREAMING {
                    $fence;
                }
            }

            /// The array's length is a multiple of eight vectors.
            #[target_feature(enable = $features)]
            pub unsafe fn read(a: &[f64]) -> f64 {
                let mut sums = [$zero; 8];
                for i in (0..a.len()).step_by(8 * $lanes) {
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: i + 8 vectors stay within the array.
                        *sum = $add(*sum, unsafe { $load(a.as_ptr().add(i + v * $lanes)) });
                    }
                }
                let mut lanes = [0.0; 8 * $lanes];
                for (v, sum) in sums.into_iter().enumerate() {
                    // SAFETY: eight vectors are as long as the array.
                    unsafe { $store(lanes.as_mut_ptr().add(v * $lanes), sum) };
                }
                lanes.iter().sum()
            }
        }
    };
}

macro_rules! writes {
    ($module:ident) => {
        [
            [$module::write::<0, false>, $module::write::<0, true>],
            [$module::write::<1, false>, $module::write::<1, true>],
            [$module::write::<2, false>, $module::write::<2, true>],
            [$module::write::<3, false>, $module::write::<3, true>],
        ]
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128d, __m256d, __m512d, _mm_stream_pd, _mm256_stream_pd, _mm512_stream_pd,
    };

    macro_rules! stream {
        ($name:ident, $features:literal, $vector:ty, $lanes:literal, $one:ident) => {
            /// Four vectors from a whole line on.
            #[inline]
            #[target_feature(enable = $features)]
            pub unsafe fn $name(at: *mut f64, values: [$vector; 4]) {
                for (v, value) in values.into_iter().enumerate() {
                    // SAFETY: the caller's: four vectors fit there, and the first is aligned.
                    unsafe { $one(at.add(v * $lanes), value) };
                }
            }
        };
    }

    stream!(stream_512, "avx512f", __m512d, 8, _mm512_stream_pd);
    stream!(stream_256, "avx", __m256d, 4, _mm256_stream_pd);
    stream!(stream_128, "sse2", __m128d, 2, _mm_stream_pd);
}

#[cfg(target_arch = "x86_64")]
isa!(
    avx512,
    "avx512f",
    8,
    _mm512_setzero_pd(),
    _mm512_loadu_pd,
    _mm512_set1_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_storeu_pd,
    super::x86::stream_512,
    _mm_sfence()
);
#[cfg(target_arch = "x86_64")]
isa!(
    avx,
    "avx",
    4,
    _mm256_setzero_pd(),
    _mm256_loadu_pd,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_storeu_pd,
    super::x86::stream_256,
    _mm_sfence()
);
#[cfg(target_arch = "x86_64")]
isa!(
    sse2,
    "sse2",
    2,
    _mm_setzero_pd(),
    _mm_loadu_pd,
    _mm_set1_pd,
    _mm_add_pd,
    _mm_mul_pd,
    _mm_storeu_pd,
    super::x86::stream_128,
    _mm_sfence()
);

#[cfg(target_arch = "x86_64")]
const ISAS: &[Isa] = &[
    Isa {
        name: "avx512",
        available: || is_x86_feature_detected!("avx512f"),
        write: writes!(avx512),
        read: avx512::read,
    },
    Isa {
        name: "avx",
        available: || is_x86_feature_detected!("avx"),
        write: writes!(avx),
        read: avx::read,
    },
    Isa { name: "sse2", available: || true, write: writes!(sse2), read: sse2::read },
];

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::float64x2_t;
    use std::arch::asm;

    /// Four vectors from a whole line on, as pairs that the cache need not keep.
    #[inline]
    pub unsafe fn stream(at: *mut f64, values: [float64x2_t; 4]) {
        let [a, b, c, d] = values;
        // SAFETY: the caller's: 64 bytes fit there.
        unsafe {
            asm!(
                "stnp {a:q}, {b:q}, [{at}]",
                "stnp {c:q}, {d:q}, [{at}, #32]",
                a = in(vreg) a,
                b = in(vreg) b,
                c = in(vreg) c,
                d = in(vreg) d,
                at = in(reg) at,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
isa!(
    neon,
    "neon",
    2,
    vdupq_n_f64(0.0),
    vld1q_f64,
    vdupq_n_f64,
    vaddq_f64,
    vmulq_f64,
    vst1q_f64,
    super::arm::stream,
    ()
);

#[cfg(target_arch = "aarch64")]
const ISAS: &[Isa] =
    &[Isa { name: "neon", available: || true, write: writes!(neon), read: neon::read }];

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned([f64; 3 * STEP]);

    #[test]
    fn every_loop_of_this_processor_writes_what_the_operation_says() {
        let a: Vec<_> = (0..3 * STEP).map(|i| i as f64).collect();
        let b: Vec<_> = (0..3 * STEP).map(|i| 1000.0 - i as f64).collect();
        for isa in ISAS.iter().filter(|isa| (isa.available)()) {
            for operation in &Operation::ALL[..4] {
                for stores in [Stores::Cached, Stores::Streaming] {
                    let mut c = Box::new(Aligned([-1.0; 3 * STEP]));
                    isa.run(*operation, stores, &mut c.0, &a, &b);
                    for i in 0..a.len() {
                        let wanted = operation.wanted(a[i], b[i]);
                        assert_eq!(c.0[i], wanted, "{} {operation:?} {stores:?} {i}", isa.name);
                    }
                }
            }
            let mut c = Box::new(Aligned([-1.0; 3 * STEP]));
            let sum = isa.run(Operation::Read, Stores::Cached, &mut c.0, &a, &b);
            assert_eq!(sum, a.iter().sum::<f64>());
        }
    }

    #[test]
    fn names_and_bytes_are_those_of_stream() {
        let names: Vec<_> = Operation::ALL.iter().map(|operation| operation.name()).collect();
        assert_eq!(names, Operation::NAMES);
        assert_eq!(Operation::ALL.map(Operation::bytes), [16, 16, 24, 24, 8]);
        assert_eq!(Operation::ALL.map(|o| o.wanted(5.0, 7.0)), [5.0, 15.0, 12.0, 26.0, 5.0]);
    }

    #[test]
    #[should_panic(expected = "is_multiple_of(STEP)")]
    fn arrays_of_other_lengths_are_refused() {
        isa().run(Operation::Copy, Stores::Cached, &mut [0.0; 8], &[0.0; 8], &[0.0; 8]);
    }
}
