//! What the kernels compute, in plain code: what they begin with, and what has to come of it.

/// What a kernel works on. Rows of a tile are 64 bytes apart, vectors follow one another.
#[repr(C, align(64))]
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    /// What is added to.
    pub sums: [u8; 6 * TILE],
    pub a: [u8; TILE],
    pub b: [u8; TILE],
}

/// Bytes of a tile register.
pub const TILE: usize = 1024;
const ROWS: usize = 16;
const ROW: usize = 64;

/// The kernels' arithmetic, by which they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each architecture has kernels for some of these")]
pub enum Arithmetic {
    /// x ← x·x + c with one rounding: chaotic, so that no lane's error stays small.
    SquareF32,
    SquareF64,
    /// x ← x + x·a, then x ← x + x·b, which nearly takes it back: for instructions that overwrite
    /// what they add to.
    BalanceF32,
    BalanceF64,
    /// The square with two roundings, for processors without fused arithmetic.
    RoughSquareF32,
    RoughSquareF64,
    /// f32 + two products of bf16. The numbers are small and whole, so every order gives the same.
    PairsBf16,
    /// i32 + four products of u8 and i8, in vectors of so many bytes.
    QuadsInt8(usize),
    /// A tile of f32 + the product of two tiles of bf16, the second with its rows in pairs.
    TileBf16,
    /// A tile of i32 + the product of two tiles of i8, the second with its rows in fours.
    TileInt8,
}

/// Between −2 and −1.5 the orbit neither settles nor leaves; no value comes near the subnormals.
const C: f64 = -1.9;
/// By half as much again, and by a third less.
const UP: f64 = 0.5;
const DOWN: f64 = -1.0 / 3.0;

impl State {
    /// What a kernel of this arithmetic begins with.
    pub fn seeded(arithmetic: Arithmetic) -> Box<Self> {
        let mut state = Box::new(Self { sums: [0; 6 * TILE], a: [0; TILE], b: [0; TILE] });
        let start = |i: usize| (i % 509) as f64 / 509.0;
        match arithmetic {
            Arithmetic::SquareF32 | Arithmetic::RoughSquareF32 => {
                fill(&mut state.sums, |i| start(i) as f32);
                fill(&mut state.a, |_| C as f32);
            }
            Arithmetic::SquareF64 | Arithmetic::RoughSquareF64 => {
                fill(&mut state.sums, start);
                fill(&mut state.a, |_| C);
            }
            Arithmetic::BalanceF32 => {
                fill(&mut state.sums, |i| 1.0 + start(i) as f32);
                fill(&mut state.a, |_| UP as f32);
                fill(&mut state.b, |_| DOWN as f32);
            }
            Arithmetic::BalanceF64 => {
                fill(&mut state.sums, |i| 1.0 + start(i));
                fill(&mut state.a, |_| UP);
                fill(&mut state.b, |_| DOWN);
            }
            Arithmetic::PairsBf16 | Arithmetic::TileBf16 => {
                fill(&mut state.sums, |i| (i % 101) as f32);
                fill(&mut state.a, |i| bf16((i % 5) as f32 - 2.0));
                fill(&mut state.b, |i| bf16((i % 7) as f32 - 3.0));
            }
            Arithmetic::QuadsInt8(_) | Arithmetic::TileInt8 => {
                fill(&mut state.sums, |i| i as i32);
                fill(&mut state.a, |i| (i * 7 % 127) as u8);
                fill(&mut state.b, |i| (i * 11 % 255) as i8);
            }
        }
        state
    }

    /// What so many iterations make of the first `bytes` of the sums.
    pub fn advance(&mut self, arithmetic: Arithmetic, iterations: u64, bytes: usize) {
        let sums = &mut self.sums[..bytes];
        let (a, b) = (&self.a, &self.b);
        let (c32, d32): (f32, f32) = (first(a), first(b));
        let (c64, d64): (f64, f64) = (first(a), first(b));
        match arithmetic {
            Arithmetic::SquareF32 => repeat(sums, iterations, |x: f32| x.mul_add(x, c32)),
            Arithmetic::SquareF64 => repeat(sums, iterations, |x: f64| x.mul_add(x, c64)),
            Arithmetic::BalanceF32 => repeat(sums, iterations, |x: f32| {
                let up = x.mul_add(c32, x);
                up.mul_add(d32, up)
            }),
            Arithmetic::BalanceF64 => repeat(sums, iterations, |x: f64| {
                let up = x.mul_add(c64, x);
                up.mul_add(d64, up)
            }),
            Arithmetic::RoughSquareF32 => repeat(sums, iterations, |x: f32| x * x + c32),
            Arithmetic::RoughSquareF64 => repeat(sums, iterations, |x: f64| x * x + c64),
            Arithmetic::PairsBf16 => {
                let each = |i| (0..2).map(|k| product_bf16(a, 2 * i + k, b, 2 * i + k)).sum();
                add_floats(sums, iterations, each, ROW / 4);
            }
            Arithmetic::QuadsInt8(width) => {
                let each = |i: usize| {
                    (0..4).map(|k| i64::from(a[4 * i + k]) * i64::from(b[4 * i + k] as i8)).sum()
                };
                add_integers(sums, iterations, each, width / 4);
            }
            Arithmetic::TileBf16 => {
                let each = |i: usize| {
                    let (row, column) = (i / ROWS, i % ROWS);
                    let term =
                        |k| product_bf16(a, row * 32 + k, b, (k / 2) * 32 + 2 * column + k % 2);
                    (0..32).map(term).sum()
                };
                add_floats(sums, iterations, each, ROWS * ROWS);
            }
            Arithmetic::TileInt8 => {
                let each = |i: usize| {
                    let (row, column) = (i / ROWS, i % ROWS);
                    let term = |k: usize| {
                        let other = b[(k / 4) * ROW + 4 * column + k % 4] as i8;
                        i64::from(a[row * ROW + k] as i8) * i64::from(other)
                    };
                    (0..ROW).map(term).sum()
                };
                add_integers(sums, iterations, each, ROWS * ROWS);
            }
        }
    }
}

fn first<T: bytemuck::Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}

fn fill<T: bytemuck::Pod>(bytes: &mut [u8], value: impl Fn(usize) -> T) {
    for (i, slot) in bytemuck::cast_slice_mut(bytes).iter_mut().enumerate() {
        *slot = value(i);
    }
}

fn repeat<T: bytemuck::Pod>(sums: &mut [u8], iterations: u64, step: impl Fn(T) -> T) {
    for slot in bytemuck::cast_slice_mut(sums) {
        *slot = (0..iterations).fold(*slot, |x, _| step(x));
    }
}

/// Adds `each(i)` to every sum, so many times; `each` is the same for every register.
fn add_floats(sums: &mut [u8], iterations: u64, each: impl Fn(usize) -> f64, width: usize) {
    for (i, slot) in bytemuck::cast_slice_mut::<_, f32>(sums).iter_mut().enumerate() {
        *slot = (f64::from(*slot) + iterations as f64 * each(i % width)) as f32;
    }
}

fn add_integers(sums: &mut [u8], iterations: u64, each: impl Fn(usize) -> i64, width: usize) {
    for (i, slot) in bytemuck::cast_slice_mut::<_, i32>(sums).iter_mut().enumerate() {
        let added = (iterations as i64).wrapping_mul(each(i % width));
        *slot = slot.wrapping_add(added as i32);
    }
}

fn bf16(x: f32) -> u16 {
    (x.to_bits() >> 16) as u16
}

fn product_bf16(a: &[u8; TILE], i: usize, b: &[u8; TILE], j: usize) -> f64 {
    let number = |bytes: &[u8; TILE], i: usize| {
        let bits = u16::from_ne_bytes([bytes[2 * i], bytes[2 * i + 1]]);
        f64::from(f32::from_bits(u32::from(bits) << 16))
    };
    number(a, i) * number(b, j)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_on_numbers_worked_out_by_hand() {
        let mut state = State::seeded(Arithmetic::SquareF64);
        state.advance(Arithmetic::SquareF64, 2, 64);
        let once = C;
        assert_eq!(first::<f64>(&state.sums), once.mul_add(once, C));

        let mut state = State::seeded(Arithmetic::BalanceF64);
        state.advance(Arithmetic::BalanceF64, 1, 64);
        assert_eq!(first::<f64>(&state.sums), 1.5_f64.mul_add(DOWN, 1.5));

        // a = −2, −1, 0, …; b = −3, −2, −1, …: the first pair adds 6 + 2.
        let mut state = State::seeded(Arithmetic::PairsBf16);
        state.advance(Arithmetic::PairsBf16, 3, 64);
        assert_eq!(first::<f32>(&state.sums), 24.0);

        // a = 0, 7, 14, 21; b = 0, 11, 22, 33: 77 + 308 + 693.
        let mut state = State::seeded(Arithmetic::QuadsInt8(32));
        state.advance(Arithmetic::QuadsInt8(32), 2, 64);
        assert_eq!(first::<i32>(&state.sums), 2 * 1078);
    }

    #[test]
    fn a_tile_is_a_product_of_matrices() {
        let mut state = State::seeded(Arithmetic::TileInt8);
        state.a = [0; TILE];
        state.b = [0; TILE];
        // Row 1 of a picks row 6 of b, which lies in the second group of four.
        state.a[ROW + 6] = 1;
        for column in 0..16 {
            state.b[ROW + 4 * column + 2] = column as u8;
        }
        let before = state.clone();
        state.advance(Arithmetic::TileInt8, 1, TILE);
        let sums = |state: &State| bytemuck::cast_slice::<_, i32>(&state.sums[..TILE]).to_vec();
        let added: Vec<_> =
            sums(&state).iter().zip(sums(&before)).map(|(after, before)| after - before).collect();
        let wanted: Vec<_> = (0..256).map(|i| if i / 16 == 1 { i % 16 } else { 0 }).collect();
        assert_eq!(added, wanted);
    }

    #[test]
    fn the_square_stays_within_its_bounds() {
        let mut state = State::seeded(Arithmetic::SquareF32);
        state.advance(Arithmetic::SquareF32, 10_000, TILE);
        let numbers: &[f32] = bytemuck::cast_slice(&state.sums[..TILE]);
        assert!(numbers.iter().all(|x| x.abs() <= 2.0));
        let distinct: std::collections::BTreeSet<_> = numbers.iter().map(|x| x.to_bits()).collect();
        assert!(distinct.len() > 100, "{}", distinct.len());
    }
}
