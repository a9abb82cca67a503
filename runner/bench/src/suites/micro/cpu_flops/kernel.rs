//! The table of kernels, and those of them that this processor can run.

#![expect(unsafe_code, reason = "a kernel may only be called where its instructions exist")]

use super::state::{Arithmetic, State};

/// Kernels of one family compute the same; the first that can run stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "each architecture has kernels for some of these")]
pub enum Family {
    F64,
    F32,
    Bf16Tiles,
    Bf16,
    Int8Tiles,
    Int8,
}

impl Family {
    pub fn precision(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Bf16Tiles | Self::Bf16 => "bf16",
            Self::Int8Tiles | Self::Int8 => "int8",
        }
    }
}

/// A loop of one instruction.
pub struct Kernel {
    pub family: Family,
    /// In the kernel's spelling of the processor's flags, where it is one.
    pub isa: &'static str,
    pub instruction: &'static str,
    /// Additions and multiplications of one instruction.
    pub operations: u64,
    /// Instructions of one iteration.
    pub instructions: u64,
    /// How much of the sums it works on.
    pub bytes: usize,
    pub arithmetic: Arithmetic,
    pub available: fn() -> bool,
    pub run: unsafe fn(u64, &mut State),
}

/// A kernel whose instructions exist here.
#[derive(Clone, Copy)]
pub struct Ready(&'static Kernel);

impl std::ops::Deref for Ready {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        self.0
    }
}

impl Ready {
    pub fn run(self, iterations: u64, state: &mut State) {
        // SAFETY: `ready` made this after asking whether the instructions exist.
        unsafe { (self.0.run)(iterations, state) }
    }

    pub fn seeded(self) -> Box<State> {
        State::seeded(self.0.arithmetic)
    }

    /// The state that so many iterations lead to, computed in plain code.
    pub fn wanted(self, iterations: u64) -> Box<State> {
        let mut state = self.seeded();
        state.advance(self.0.arithmetic, iterations, self.0.bytes);
        state
    }

    /// Where the sums differ from what they have to be, in words.
    pub fn difference(self, found: &State, wanted: &State) -> Option<String> {
        let bytes = self.bytes;
        let at = (0..bytes).step_by(8).find(|&i| found.sums[i..i + 8] != wanted.sums[i..i + 8])?;
        let word = |state: &State| {
            u64::from_ne_bytes(state.sums[at..at + 8].try_into().expect("eight bytes"))
        };
        let (precision, isa) = (self.family.precision(), self.isa);
        let (found, wanted) = (word(found), word(wanted));
        Some(format!(
            "{precision} with {isa}: byte {at} of the sums: wanted {wanted:#018x}, found {found:#018x}"
        ))
    }
}

#[cfg(target_arch = "aarch64")]
use super::neon::KERNELS;
#[cfg(target_arch = "x86_64")]
use super::x86::KERNELS;

/// All kernels that can run here.
pub fn ready() -> Vec<Ready> {
    KERNELS.iter().filter(|kernel| (kernel.available)()).map(Ready).collect()
}

/// The first of each family.
pub fn best() -> Vec<Ready> {
    let mut best = ready();
    best.dedup_by_key(|kernel| kernel.family);
    best
}

/// For processors without any of the vectors: one number at a time, each product rounded.
#[cfg(target_arch = "x86_64")]
pub const fn scalar_f32(isa: &'static str) -> Kernel {
    Kernel {
        family: Family::F32,
        isa,
        instruction: "multiplication and addition",
        operations: 2,
        instructions: SCALARS as u64,
        bytes: SCALARS * 4,
        arithmetic: Arithmetic::RoughSquareF32,
        available: || true,
        run: |iterations, state| scalar::<f32>(iterations, state),
    }
}

#[cfg(target_arch = "x86_64")]
pub const fn scalar_f64(isa: &'static str) -> Kernel {
    Kernel {
        family: Family::F64,
        isa,
        instruction: "multiplication and addition",
        operations: 2,
        instructions: SCALARS as u64,
        bytes: SCALARS * 8,
        arithmetic: Arithmetic::RoughSquareF64,
        available: || true,
        run: |iterations, state| scalar::<f64>(iterations, state),
    }
}

#[cfg(target_arch = "x86_64")]
const SCALARS: usize = 32;

#[cfg(target_arch = "x86_64")]
fn scalar<T>(iterations: u64, state: &mut State)
where
    T: bytemuck::Pod + std::ops::Mul<Output = T> + std::ops::Add<Output = T>,
{
    let c: T = bytemuck::pod_read_unaligned(&state.a[..size_of::<T>()]);
    let slots = bytemuck::cast_slice_mut::<u8, T>(&mut state.sums[..SCALARS * size_of::<T>()]);
    let mut sums: [T; SCALARS] = std::array::from_fn(|i| slots[i]);
    for _ in 0..iterations {
        for sum in &mut sums {
            *sum = *sum * *sum + c;
        }
    }
    slots.copy_from_slice(&sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_this_processor_computes_what_plain_code_does() {
        for kernel in ready() {
            for iterations in [0, 1, 2, 777] {
                let mut state = kernel.seeded();
                kernel.run(iterations, &mut state);
                let difference = kernel.difference(&state, &kernel.wanted(iterations));
                assert_eq!(difference, None, "{iterations} iterations");
            }
        }
    }

    #[test]
    fn a_wrong_bit_is_found_and_named() {
        for kernel in best() {
            let mut state = kernel.seeded();
            kernel.run(100, &mut state);
            state.sums[kernel.bytes - 1] ^= 1;
            let difference = kernel.difference(&state, &kernel.wanted(100)).unwrap();
            assert!(difference.contains(kernel.isa), "{difference}");
        }
    }

    #[test]
    fn rows_say_what_their_loops_do() {
        let families: Vec<_> = KERNELS.iter().map(|kernel| kernel.family).collect();
        assert!(families.is_sorted(), "`best` takes the first of neighbours");
        for kernel in KERNELS {
            assert!(kernel.bytes.is_multiple_of(8), "{}", kernel.isa);
            let precisions: Vec<_> =
                best().iter().map(|kernel| kernel.family.precision()).collect();
            assert!(precisions.contains(&"f64") && precisions.contains(&"f32"));
        }
    }
}
