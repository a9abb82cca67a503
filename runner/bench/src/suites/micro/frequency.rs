//! A core's clock, counted: additions of which each waits for the one before, one cycle each on
//! every processor these programs are made for. What the system says of frequencies is an
//! intention or an average; a virtual machine says nothing at all.

#![expect(unsafe_code, reason = "a chain of additions that no compiler shortens is assembly")]

use std::arch::asm;
use std::time::Instant;

/// Additions in the loop's body: enough for the loop's own instructions to hide behind them.
const BODY: u64 = 100;
/// About ten microseconds: long against reading the time, short against a change of frequency.
const TURNS: u64 = 300;

/// The frequency of this core at this moment, in cycles a second.
pub fn hertz() -> f64 {
    let from = Instant::now();
    chain(TURNS);
    (TURNS * BODY) as f64 / from.elapsed().as_secs_f64()
}

/// Register to register: additions of a constant are done ahead of time by some processors.
#[cfg(target_arch = "x86_64")]
fn chain(turns: u64) {
    // SAFETY: changes only the registers named and the flags, and ends after `turns` > 0 turns.
    unsafe {
        asm!(
            "2:",
            ".rept 100",
            "add {sum}, {step}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 0_u64 => _,
            step = in(reg) 3_u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
fn chain(turns: u64) {
    // SAFETY: changes only the registers named and the flags, and ends after `turns` > 0 turns.
    unsafe {
        asm!(
            "2:",
            ".rept 100",
            "add {sum}, {sum}, {step}",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            sum = inout(reg) 0_u64 => _,
            step = in(reg) 3_u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the chain of additions is written for x86-64 and AArch64");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_of_this_century() {
        let best = (0..100).map(|_| hertz()).fold(0.0, f64::max);
        assert!((0.2e9..10e9).contains(&best), "{best} Hz");
    }
}
