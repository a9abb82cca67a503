//! Element formats: how the bytes of one element become a value, and how far two elements lie
//! apart in representable values.

/// Elements that are handled together: large enough for vectors, small enough for the first-level
/// cache.
pub(super) const BLOCK: usize = 512;

/// One block of both sides, decoded.
#[repr(align(64))]
pub(super) struct Block {
    pub golden: [f64; BLOCK],
    pub candidate: [f64; BLOCK],
    /// |candidate − golden|
    pub error: [f64; BLOCK],
    /// Real part of candidate × conjugate of golden; filled for complex formats only.
    pub dot: [f64; BLOCK],
    /// Bucket of the distance in representable values: 0, 1, 2, 3-4, 5-8, … by their number.
    pub bucket: [u8; BLOCK],
}

impl Block {
    pub fn new() -> Self {
        Self {
            golden: [0.0; BLOCK],
            candidate: [0.0; BLOCK],
            error: [0.0; BLOCK],
            dot: [0.0; BLOCK],
            bucket: [0; BLOCK],
        }
    }

    /// Decodes elements; what lies behind the last one counts as equal.
    #[inline(always)]
    pub fn load<E: Element<N>, const N: usize>(
        &mut self,
        golden: &[[u8; N]],
        candidate: &[[u8; N]],
    ) {
        for (i, (g, c)) in golden.iter().zip(candidate).enumerate() {
            self.golden[i] = E::value(*g);
            self.candidate[i] = E::value(*c);
            self.error[i] = E::error(*g, *c);
            self.dot[i] = if E::COMPLEX { E::dot(*g, *c) } else { 0.0 };
            self.bucket[i] = E::bucket(*g, *c);
        }
        (golden.len()..BLOCK).for_each(|i| self.blank(i));
    }

    /// Makes the element count as equal; the caller takes it off the counts again.
    pub fn blank(&mut self, i: usize) {
        self.golden[i] = 0.0;
        self.candidate[i] = 0.0;
        self.error[i] = 0.0;
        self.dot[i] = 0.0;
        self.bucket[i] = 0;
    }
}

/// A format of `N` bytes.
pub(super) trait Element<const N: usize> {
    /// Whether errors can lie outside the range of f32, so that their histogram must be wide.
    const WIDE: bool;
    /// Whether values and errors are moduli, and the product of the sides is its own.
    const COMPLEX: bool;
    /// Whether whole checkpoints are of it: then it has code for every width of vectors. For the
    /// others that would be most of this crate's machine code, and speed them up little.
    const BULK: bool = false;
    fn value(bytes: [u8; N]) -> f64;
    fn error(golden: [u8; N], candidate: [u8; N]) -> f64;
    fn dot(golden: [u8; N], candidate: [u8; N]) -> f64;
    fn bucket(golden: [u8; N], candidate: [u8; N]) -> u8;
}

/// Buckets of distances: 0, 1, 2, 3-4, 5-8, … by their number.
#[inline(always)]
pub(super) fn bucket32(distance: u32) -> u8 {
    let bits = 33 - distance.wrapping_sub(1).leading_zeros() as u8;
    if distance == 0 { 0 } else { bits }
}

#[inline(always)]
fn bucket64(distance: u64) -> u8 {
    let bits = 65 - distance.wrapping_sub(1).leading_zeros() as u8;
    if distance == 0 { 0 } else { bits }
}

/// Numbers the values of a sign-and-magnitude format in order; both zeros are 0.
#[inline(always)]
fn ordered(bits: i32, sign: i32) -> i32 {
    (bits ^ sign).wrapping_sub(sign)
}

#[inline(always)]
fn ordered32(bytes: [u8; 4]) -> i32 {
    let bits = i32::from_le_bytes(bytes);
    ordered(bits & i32::MAX, bits >> 31)
}

#[inline(always)]
fn ordered16(bytes: [u8; 2]) -> i32 {
    let bits = i32::from(i16::from_le_bytes(bytes));
    ordered(bits & 0x7fff, bits >> 31)
}

#[inline(always)]
fn ordered8(bytes: [u8; 1]) -> i32 {
    let bits = i32::from(i8::from_le_bytes(bytes));
    ordered(bits & 0x7f, bits >> 31)
}

/// Formats whose values f64 holds exactly and whose order a 32-bit number shows.
macro_rules! reals {
    ($($name:ident $n:literal $bulk:literal: $value:expr, $order:expr;)*) => {$(
        pub(super) struct $name;
        impl Element<$n> for $name {
            const WIDE: bool = false;
            const COMPLEX: bool = false;
            const BULK: bool = $bulk;
            #[inline(always)]
            fn value(bytes: [u8; $n]) -> f64 {
                let value: fn([u8; $n]) -> f64 = $value;
                value(bytes)
            }
            #[inline(always)]
            fn error(golden: [u8; $n], candidate: [u8; $n]) -> f64 {
                (Self::value(candidate) - Self::value(golden)).abs()
            }
            #[inline(always)]
            fn dot(_: [u8; $n], _: [u8; $n]) -> f64 {
                0.0
            }
            #[inline(always)]
            fn bucket(golden: [u8; $n], candidate: [u8; $n]) -> u8 {
                let order: fn([u8; $n]) -> i32 = $order;
                bucket32(order(golden).abs_diff(order(candidate)))
            }
        }
    )*};
}

reals! {
    F32 4 true: |b| f64::from(f32::from_le_bytes(b)), ordered32;
    F16 2 true: |b| f64::from(half(u16::from_le_bytes(b))), ordered16;
    BF16 2 true: |b| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)), ordered16;
    F8E5M2 1 false: |b| f64::from(E5M2[usize::from(b[0])]), ordered8;
    F8E4M3 1 false: |b| f64::from(E4M3[usize::from(b[0])]), ordered8;
    F8E5M2Fnuz 1 false: |b| f64::from(E5M2_FNUZ[usize::from(b[0])]), ordered8;
    F8E4M3Fnuz 1 false: |b| f64::from(E4M3_FNUZ[usize::from(b[0])]), ordered8;
    F8E8M0 1 false: |b| f64::from(power_of_two(b[0])), |b| i32::from(b[0]);
    Bool 1 false: |b| f64::from(u8::from(b[0] != 0)), |b| i32::from(b[0] != 0);
    I8 1 false: |b| f64::from(i8::from_le_bytes(b)), |b| i32::from(i8::from_le_bytes(b));
    U8 1 false: |b| f64::from(b[0]), |b| i32::from(b[0]);
    I16 2 false: |b| f64::from(i16::from_le_bytes(b)), |b| i32::from(i16::from_le_bytes(b));
    U16 2 false: |b| f64::from(u16::from_le_bytes(b)), |b| i32::from(u16::from_le_bytes(b));
    I32 4 false: |b| f64::from(i32::from_le_bytes(b)), i32::from_le_bytes;
}

/// Integers whose differences need their own arithmetic: a 64-bit one does not fit f64, so the
/// error is taken before it is rounded and is never rounded to zero.
macro_rules! integers {
    ($($name:ident $ty:ty, $n:literal;)*) => {$(
        pub(super) struct $name;
        impl Element<$n> for $name {
            const WIDE: bool = false;
            const COMPLEX: bool = false;
            #[inline(always)]
            fn value(bytes: [u8; $n]) -> f64 {
                <$ty>::from_le_bytes(bytes) as f64
            }
            #[inline(always)]
            fn error(golden: [u8; $n], candidate: [u8; $n]) -> f64 {
                <$ty>::from_le_bytes(golden).abs_diff(<$ty>::from_le_bytes(candidate)) as f64
            }
            #[inline(always)]
            fn dot(_: [u8; $n], _: [u8; $n]) -> f64 {
                0.0
            }
            #[inline(always)]
            fn bucket(golden: [u8; $n], candidate: [u8; $n]) -> u8 {
                let (g, c) = (<$ty>::from_le_bytes(golden), <$ty>::from_le_bytes(candidate));
                bucket64(u64::from(g.abs_diff(c)))
            }
        }
    )*};
}

integers! {
    U32 u32, 4;
    I64 i64, 8;
    U64 u64, 8;
}

pub(super) struct F64;

impl Element<8> for F64 {
    const WIDE: bool = true;
    const COMPLEX: bool = false;
    const BULK: bool = true;
    #[inline(always)]
    fn value(bytes: [u8; 8]) -> f64 {
        f64::from_le_bytes(bytes)
    }
    #[inline(always)]
    fn error(golden: [u8; 8], candidate: [u8; 8]) -> f64 {
        (Self::value(candidate) - Self::value(golden)).abs()
    }
    #[inline(always)]
    fn dot(_: [u8; 8], _: [u8; 8]) -> f64 {
        0.0
    }
    #[inline(always)]
    fn bucket(golden: [u8; 8], candidate: [u8; 8]) -> u8 {
        let order = |bytes| {
            let bits = i64::from_le_bytes(bytes);
            let sign = bits >> 63;
            ((bits & i64::MAX) ^ sign).wrapping_sub(sign)
        };
        bucket64(order(golden).abs_diff(order(candidate)))
    }
}

/// Compared by the modulus of the difference, as PyTorch does; the distance is that of the part
/// that is further off.
pub(super) struct C64;

impl C64 {
    #[inline(always)]
    fn parts(bytes: [u8; 8]) -> [[u8; 4]; 2] {
        let [a, b, c, d, e, f, g, h] = bytes;
        [[a, b, c, d], [e, f, g, h]]
    }
}

impl Element<8> for C64 {
    const WIDE: bool = false;
    const COMPLEX: bool = true;
    #[inline(always)]
    fn value(bytes: [u8; 8]) -> f64 {
        let [re, im] = Self::parts(bytes).map(F32::value);
        // The squares of f32 values neither overflow nor vanish in f64.
        (re * re + im * im).sqrt()
    }
    #[inline(always)]
    fn error(golden: [u8; 8], candidate: [u8; 8]) -> f64 {
        let ([g_re, g_im], [c_re, c_im]) = (Self::parts(golden), Self::parts(candidate));
        let (re, im) = (F32::error(g_re, c_re), F32::error(g_im, c_im));
        (re * re + im * im).sqrt()
    }
    #[inline(always)]
    fn dot(golden: [u8; 8], candidate: [u8; 8]) -> f64 {
        let [g_re, g_im] = Self::parts(golden).map(F32::value);
        let [c_re, c_im] = Self::parts(candidate).map(F32::value);
        g_re * c_re + g_im * c_im
    }
    #[inline(always)]
    fn bucket(golden: [u8; 8], candidate: [u8; 8]) -> u8 {
        let ([g_re, g_im], [c_re, c_im]) = (Self::parts(golden), Self::parts(candidate));
        F32::bucket(g_re, c_re).max(F32::bucket(g_im, c_im))
    }
}

/// IEEE half precision, without a branch.
#[inline(always)]
fn half(bits: u16) -> f32 {
    const SCALE: f32 = f32::from_bits((127 + 112) << 23);
    let bits = u32::from(bits);
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent's offset is corrected by a product, which also normalises subnormal values.
    let finite = (f32::from_bits(magnitude) * SCALE).to_bits();
    let special = magnitude | 0x7f80_0000;
    let chosen = if bits & 0x7c00 == 0x7c00 { special } else { finite };
    f32::from_bits(chosen | (bits & 0x8000) << 16)
}

#[inline(always)]
fn power_of_two(exponent: u8) -> f32 {
    match exponent {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        e => f32::from_bits(u32::from(e) << 23),
    }
}

/// What the highest exponent and the negative zero of an 8-bit format mean.
#[derive(Clone, Copy, PartialEq)]
enum Specials {
    /// Infinity and NaN, as IEEE has them.
    Ieee,
    /// Only the highest code is NaN.
    Finite,
    /// Only the code of negative zero is NaN.
    NoNegativeZero,
}

static E5M2: [f32; 256] = eight_bits(2, 15, Specials::Ieee);
static E4M3: [f32; 256] = eight_bits(3, 7, Specials::Finite);
static E5M2_FNUZ: [f32; 256] = eight_bits(2, 16, Specials::NoNegativeZero);
static E4M3_FNUZ: [f32; 256] = eight_bits(3, 8, Specials::NoNegativeZero);

const fn eight_bits(mantissa_bits: u32, bias: u32, specials: Specials) -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let magnitude = code as u32 & 0x7f;
        let exponent = magnitude >> mantissa_bits;
        let mantissa = magnitude & ((1 << mantissa_bits) - 1);
        let highest = 0x7f >> mantissa_bits;
        let value = match specials {
            Specials::Ieee if exponent == highest && mantissa == 0 => f32::INFINITY,
            Specials::Ieee if exponent == highest => f32::NAN,
            Specials::Finite if magnitude == 0x7f => f32::NAN,
            Specials::NoNegativeZero if code == 0x80 => f32::NAN,
            _ if exponent == 0 => {
                mantissa as f32 * f32::from_bits((127 + 1 - bias - mantissa_bits) << 23)
            }
            _ => f32::from_bits((exponent + 127 - bias) << 23 | mantissa << (23 - mantissa_bits)),
        };
        table[code] = if code >= 0x80 { -value } else { value };
        code += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_0_1_2_then_doubling() {
        let buckets = [0, 1, 2, 3, 4, 5, 8, 9, u32::MAX].map(bucket32);
        assert_eq!(buckets, [0, 1, 2, 3, 3, 4, 4, 5, 33]);
        assert_eq!([0, 1, 2, 3, 4, 5, u64::MAX].map(bucket64), [0, 1, 2, 3, 3, 4, 65]);
    }

    #[test]
    fn neighbouring_floats_are_one_apart_across_zero_too() {
        let bucket = |a: f32, b: f32| F32::bucket(a.to_le_bytes(), b.to_le_bytes());
        assert_eq!(bucket(1.0, 1.0f32.next_up()), 1);
        assert_eq!(bucket(-1.0, (-1.0f32).next_up().next_up()), 2);
        assert_eq!(bucket(0.0, -0.0), 0);
        assert_eq!(bucket(f32::from_bits(1), -f32::from_bits(1)), 2);
        assert_eq!(bucket(f32::MAX, f32::MIN), 33);
    }

    #[test]
    fn halves_have_their_values() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 2f32.powi(-24)),
            (0x03ff, 1023.0 * 2f32.powi(-24)),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
            (0x8000, -0.0),
        ] {
            assert_eq!(half(bits).to_bits(), value.to_bits(), "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan() && half(0xfc01).is_nan());
    }

    #[test]
    fn eight_bit_floats_have_their_values() {
        assert_eq!([0x3c, 0x7b, 0x01, 0xbc].map(|c| E5M2[c]), [1.0, 57344.0, 2f32.powi(-16), -1.0]);
        assert!(E5M2[0x7c] == f32::INFINITY && E5M2[0x7d].is_nan() && E5M2[0xff].is_nan());
        assert_eq!([0x38, 0x7e, 0x01, 0xb8].map(|c| E4M3[c]), [1.0, 448.0, 2f32.powi(-9), -1.0]);
        assert!(E4M3[0x7f].is_nan() && E4M3[0xff].is_nan());
        assert_eq!([0x40, 0x7f].map(|c| E5M2_FNUZ[c]), [1.0, 57344.0]);
        assert_eq!([0x40, 0x7f, 0x01].map(|c| E4M3_FNUZ[c]), [1.0, 240.0, 2f32.powi(-10)]);
        assert!(E4M3_FNUZ[0x80].is_nan() && E5M2_FNUZ[0x80].is_nan());
        assert_eq!([0, 127, 254].map(power_of_two), [2f32.powi(-127), 1.0, 2f32.powi(127)]);
        assert!(power_of_two(255).is_nan());
    }
}
