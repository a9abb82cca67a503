//! Floating-point formats as plain bits, and the noise that matrices and buffers are filled with.
//! A device's kernel and this module make the same numbers, so that what a GPU computes can be
//! told without reading its inputs back.

/// A binary floating-point format: a sign, an exponent and a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub exponent: u32,
    pub mantissa: u32,
    pub bias: u32,
}

pub(crate) const F32: Format = Format { exponent: 8, mantissa: 23, bias: 127 };
pub(crate) const BF16: Format = Format { exponent: 8, mantissa: 7, bias: 127 };
pub(crate) const F16: Format = Format { exponent: 5, mantissa: 10, bias: 15 };
/// Of the Open Compute Project: NVIDIA, and AMD from gfx950 on.
pub(crate) const E4M3: Format = Format { exponent: 4, mantissa: 3, bias: 7 };
/// AMD's older one, whose only zero is positive.
pub(crate) const E4M3_FNUZ: Format = Format { exponent: 4, mantissa: 3, bias: 8 };

impl Format {
    pub fn bytes(self) -> usize {
        (1 + self.exponent + self.mantissa) as usize / 8
    }

    /// A number between -1 and 1 in this format, cut off towards zero; what would be subnormal is
    /// zero.
    pub fn encode(self, x: f32) -> u32 {
        let bits = x.to_bits();
        let exponent = (bits >> F32.mantissa & 0xff) as i32 - F32.bias as i32 + self.bias as i32;
        if exponent <= 0 {
            return 0;
        }
        let mantissa = (bits & 0x7f_ffff) >> (F32.mantissa - self.mantissa);
        bits >> 31 << (self.exponent + self.mantissa)
            | (exponent as u32) << self.mantissa
            | mantissa
    }

    /// What the bits stand for. Infinities and NaNs are told for the formats that products come in.
    pub fn decode(self, bits: u32) -> f64 {
        let exponent = bits >> self.mantissa & ((1 << self.exponent) - 1);
        let part = (bits & ((1 << self.mantissa) - 1)) as f64 / (1_u64 << self.mantissa) as f64;
        let sign = if bits >> (self.exponent + self.mantissa) & 1 == 1 { -1.0 } else { 1.0 };
        if self.exponent > 4 && exponent == (1 << self.exponent) - 1 {
            return if part == 0.0 { sign * f64::INFINITY } else { f64::NAN };
        }
        let scale = |exponent: u32| 2_f64.powi(exponent as i32 - self.bias as i32);
        match exponent {
            0 => sign * part * scale(1),
            _ => sign * (1.0 + part) * scale(exponent),
        }
    }

    /// The elements of little-endian memory.
    pub fn decode_all(self, bytes: &[u8]) -> impl Iterator<Item = f64> {
        bytes.chunks_exact(self.bytes()).map(move |element| {
            let bits = element.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
            self.decode(bits)
        })
    }
}

/// Thirty-two random bits for a place in a buffer.
pub(crate) fn noise(seed: u64, index: u64) -> u32 {
    let z = index.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 32) as u32
}

/// The bits that the kernel `fill` leaves at a place: a number spread evenly between -1 and 1,
/// in steps of 2⁻²³ as PyTorch's `uniform_` has them.
pub(crate) fn noise_bits(format: Format, seed: u64, index: u64) -> u32 {
    format.encode((noise(seed, index) as i32 >> 8) as f32 * 2_f32.powi(-23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_precision_is_kept_as_it_is() {
        for x in [0.0_f32, 1.0, -1.0, 0.1, -0.999_999_9, 1e-30] {
            assert_eq!(F32.encode(x), x.to_bits(), "{x}");
            assert_eq!(F32.decode(x.to_bits()), f64::from(x), "{x}");
        }
        assert!(F32.decode(f32::NAN.to_bits()).is_nan());
        assert_eq!(F32.decode(f32::NEG_INFINITY.to_bits()), f64::NEG_INFINITY);
        assert_eq!(F32.decode(1), f64::from(f32::from_bits(1)));
    }

    #[test]
    fn narrow_formats_are_cut_off_towards_zero() {
        // 0.7 = 1.4 / 2, and 1.4 is 1.375 with three bits.
        for format in [E4M3, E4M3_FNUZ] {
            assert_eq!(format.decode(format.encode(0.7)), 0.6875);
            assert_eq!(format.decode(format.encode(-0.7)), -0.6875);
            assert_eq!(format.encode(-1e-6), 0, "no negative zero, which E4M3_FNUZ reads as NaN");
        }
        assert_eq!(E4M3.encode(1.0), 0x38);
        assert_eq!(F16.encode(-1.0), 0xbc00);
        assert_eq!(BF16.encode(0.7), 0.7_f32.to_bits() >> 16);
        assert_eq!(F16.decode(0x3555), 0.333_251_953_125);
    }

    #[test]
    fn memory_is_read_element_by_element() {
        let values: Vec<_> = BF16.decode_all(&[0x80, 0x3f, 0x00, 0xc0]).collect();
        assert_eq!(values, [1.0, -2.0]);
        let values: Vec<_> = F32.decode_all(&1.5_f32.to_le_bytes()).collect();
        assert_eq!(values, [1.5]);
        assert_eq!((F32.bytes(), BF16.bytes(), F16.bytes(), E4M3.bytes()), (4, 2, 2, 1));
    }

    #[test]
    fn noise_fills_the_range_evenly() {
        let values: Vec<_> =
            (0..100_000).map(|index| F32.decode(noise_bits(F32, 7, index))).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|x| x * x).sum::<f64>() / n;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((square - 1.0 / 3.0).abs() < 0.01, "{square}");
        assert!(values.iter().all(|x| (-1.0..=1.0).contains(x)));
        assert_ne!(noise(1, 0), noise(2, 0));
    }
}
