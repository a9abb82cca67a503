//! Floating-point formats narrower than f64: exact decoding, correctly rounded encoding.
//!
//! One description (`Format`) covers every format of the specification but f32 and f64, which
//! the hardware converts. Encoding rounds to nearest, ties to even, straight from f64, so a value
//! is never rounded twice.

use crate::ir::DType;

/// What a format does with values beyond its largest finite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beyond {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinity; the NaN is the all-ones code of each sign.
    NanAllOnes,
    /// No infinity and no negative zero; the code of negative zero is the NaN.
    NanNegativeZero,
    /// Neither infinity nor NaN: conversion saturates, a NaN becomes negative zero.
    Saturate,
}

/// Layout of a format: sign, `exp` exponent bits, `man` mantissa bits.
#[derive(Clone, Copy, Debug)]
struct Format {
    exp: u32,
    man: u32,
    bias: i32,
    beyond: Beyond,
}

impl Format {
    const fn of(dtype: DType) -> Option<Format> {
        let (exp, man, bias, beyond) = match dtype {
            DType::F4E2M1FN => (2, 1, 1, Beyond::Saturate),
            DType::F6E2M3FN => (2, 3, 1, Beyond::Saturate),
            DType::F6E3M2FN => (3, 2, 3, Beyond::Saturate),
            DType::F8E3M4 => (3, 4, 3, Beyond::Ieee),
            DType::F8E4M3 => (4, 3, 7, Beyond::Ieee),
            DType::F8E4M3FN => (4, 3, 7, Beyond::NanAllOnes),
            DType::F8E4M3FNUZ => (4, 3, 8, Beyond::NanNegativeZero),
            DType::F8E4M3B11FNUZ => (4, 3, 11, Beyond::NanNegativeZero),
            DType::F8E5M2 => (5, 2, 15, Beyond::Ieee),
            DType::F8E5M2FNUZ => (5, 2, 16, Beyond::NanNegativeZero),
            DType::BF16 => (8, 7, 127, Beyond::Ieee),
            DType::F16 => (5, 10, 15, Beyond::Ieee),
            DType::TF32 => (8, 10, 127, Beyond::Ieee),
            _ => return None,
        };
        Some(Format { exp, man, bias, beyond })
    }

    const fn sign_bit(self) -> u32 {
        1 << (self.exp + self.man)
    }

    /// The code of the largest finite magnitude.
    const fn max_code(self) -> u32 {
        let all_ones = self.sign_bit() - 1;
        match self.beyond {
            Beyond::Ieee => (((1 << self.exp) - 1) << self.man) - 1,
            Beyond::NanAllOnes => all_ones - 1,
            Beyond::NanNegativeZero | Beyond::Saturate => all_ones,
        }
    }

    const fn nan_code(self) -> u32 {
        match self.beyond {
            Beyond::Ieee => (((1 << self.exp) - 1) << self.man) | (1 << (self.man - 1)),
            Beyond::NanAllOnes => self.sign_bit() - 1,
            Beyond::NanNegativeZero | Beyond::Saturate => self.sign_bit(),
        }
    }

    fn decode(self, code: u32) -> f64 {
        let negative = code & self.sign_bit() != 0;
        let magnitude = code & (self.sign_bit() - 1);
        if self.beyond == Beyond::NanNegativeZero && code == self.sign_bit() {
            return f64::NAN;
        }
        let value = if magnitude > self.max_code() {
            let infinity = self.beyond == Beyond::Ieee && magnitude == self.max_code() + 1;
            if infinity { f64::INFINITY } else { f64::NAN }
        } else {
            let exponent = (magnitude >> self.man) as i32;
            let fraction = f64::from(magnitude & ((1 << self.man) - 1));
            let man = self.man as i32;
            if exponent == 0 {
                fraction * pow2(1 - self.bias - man)
            } else {
                (fraction + pow2(man)) * pow2(exponent - self.bias - man)
            }
        };
        if negative { -value } else { value }
    }

    fn encode(self, x: f64) -> u32 {
        let sign = if x.is_sign_negative() { self.sign_bit() } else { 0 };
        if x.is_nan() {
            return self.nan_code();
        }
        let code = self.magnitude(x.abs());
        if code <= self.max_code() {
            let unsigned_zero = code == 0 && self.beyond == Beyond::NanNegativeZero;
            return if unsigned_zero { 0 } else { sign | code };
        }
        match self.beyond {
            Beyond::Ieee => sign | (self.max_code() + 1),
            Beyond::NanAllOnes => sign | self.nan_code(),
            Beyond::NanNegativeZero => self.nan_code(),
            Beyond::Saturate => sign | self.max_code(),
        }
    }

    /// The rounded code of a magnitude; larger than `max_code` when it does not fit.
    fn magnitude(self, x: f64) -> u32 {
        if x.is_infinite() {
            return u32::MAX;
        }
        let bits = x.to_bits();
        let exponent = (bits >> 52) as i32 - 1023;
        if exponent < -300 {
            return 0; // far below half of any format's smallest value
        }
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        let smallest = 1 - self.bias;
        let dropped = 52 - self.man as i32 + (smallest - exponent).max(0);
        if dropped > 54 {
            return 0;
        }
        let rounded = round_shift(significand, dropped as u32) as u32;
        if exponent < smallest {
            return rounded;
        }
        // Adding lets a carry out of the mantissa move into the exponent by itself.
        let biased = exponent - smallest + 1;
        if biased >= 1 << (self.exp + 1) {
            return u32::MAX;
        }
        ((biased as u32) << self.man) + rounded - (1 << self.man)
    }
}

/// `value / 2^bits`, rounded to nearest, ties to even.
fn round_shift(value: u64, bits: u32) -> u64 {
    let kept = value >> bits;
    let rest = value & ((1 << bits) - 1);
    let half = 1u64 << (bits - 1);
    kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
}

/// 2 to an exponent within f64's normal range.
fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The value of a code of a format of at most 19 bits.
pub fn decode(dtype: DType, code: u32) -> f64 {
    match Format::of(dtype) {
        Some(format) => format.decode(code),
        None if code == 0xff => f64::NAN,
        None => pow2(code as i32 - 127), // f8E8M0FNU: an exponent and nothing else
    }
}

/// The code nearest to `x` in a format of at most 19 bits.
pub fn encode(dtype: DType, x: f64) -> u32 {
    match Format::of(dtype) {
        Some(format) => format.encode(x),
        None => encode_exponent(x),
    }
}

/// f8E8M0FNU: the nearest power of two from 2^-127 to 2^127; a NaN for what has no such.
fn encode_exponent(x: f64) -> u32 {
    if x.is_nan() || x.is_sign_negative() || x.is_infinite() {
        return 0xff;
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let fraction = bits & ((1 << 52) - 1);
    let half = 1u64 << 51;
    let code = exponent + 127;
    let up = fraction > half || (fraction == half && code & 1 == 1);
    match code + i32::from(up) {
        code if code > 254 => 0xff,
        code => code.max(0) as u32,
    }
}

/// Rounds `x` to the nearest value of a float type, staying in f64.
pub fn round_to(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F64 => x,
        DType::F32 => f64::from(x as f32),
        narrow => decode(narrow, encode(narrow, x)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: &[DType] = &[
        DType::F4E2M1FN,
        DType::F6E2M3FN,
        DType::F6E3M2FN,
        DType::F8E3M4,
        DType::F8E4M3,
        DType::F8E4M3FN,
        DType::F8E4M3FNUZ,
        DType::F8E4M3B11FNUZ,
        DType::F8E5M2,
        DType::F8E5M2FNUZ,
        DType::F8E8M0FNU,
        DType::BF16,
        DType::F16,
        DType::TF32,
    ];

    #[test]
    fn every_code_survives_a_round_trip() {
        for &dtype in NARROW {
            for code in 0..1u32 << dtype.bits() {
                let value = decode(dtype, code);
                if !value.is_nan() {
                    assert_eq!(encode(dtype, value), code, "{dtype} code {code:#x} = {value}");
                }
            }
        }
    }

    #[test]
    fn encoding_picks_the_nearest_code_and_the_even_one_of_two() {
        for &dtype in NARROW {
            let mut finite: Vec<(f64, u32)> = (0..1u32 << (dtype.bits() - 1))
                .map(|code| (decode(dtype, code), code))
                .filter(|(value, _)| value.is_finite())
                .collect();
            finite.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in finite.windows(2) {
                let ((low, low_code), (high, high_code)) = (pair[0], pair[1]);
                let middle = f64::midpoint(low, high);
                let even = if low_code & 1 == 0 { low_code } else { high_code };
                assert_eq!(encode(dtype, middle), even, "{dtype} between {low} and {high}");
                assert_eq!(encode(dtype, middle.next_down()), low_code);
                assert_eq!(encode(dtype, middle.next_up()), high_code);
            }
        }
    }

    #[test]
    fn values_beyond_the_range_follow_the_format() {
        let table = [
            (DType::F16, 65520.0, 0x7c00),
            (DType::F16, 65519.0, 0x7bff),
            (DType::BF16, f64::NEG_INFINITY, 0xff80),
            (DType::F8E5M2, 1e9, 0x7c),
            (DType::F8E4M3FN, 1e9, 0x7f),
            (DType::F8E4M3FN, -464.0, 0xfe),
            (DType::F8E4M3FNUZ, f64::INFINITY, 0x80),
            (DType::F8E4M3FNUZ, -0.0, 0x00),
            (DType::F4E2M1FN, 100.0, 0x7),
            (DType::F4E2M1FN, -100.0, 0xf),
            (DType::F8E8M0FNU, -1.0, 0xff),
            (DType::F8E8M0FNU, 0.0, 0x00),
        ];
        for (dtype, value, code) in table {
            assert_eq!(encode(dtype, value), code, "{dtype} of {value}");
        }
    }
}
