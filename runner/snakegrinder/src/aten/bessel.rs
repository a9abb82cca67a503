//! Bessel functions, by the rational approximations PyTorch uses.

use warpforge_snakeburger::ops::{self, Direction};

use super::Lower;
use super::math::{abs, cos, exp, polynomial, sin, sqrt};
use super::special::wide;
use warpforge_snakeburger::build::{Emitter, V};

pub const ROWS: &[(&str, Lower)] = &[
    ("aten::i0", |cx| wide(cx, |e, x| i0(e, x, false))),
    ("aten::special_bessel_j0", |cx| wide(cx, |e, x| j(e, x, &J0))),
    ("aten::special_bessel_j1", |cx| {
        wide(cx, |e, x| {
            let size = abs(e, x);
            let y = j(e, size, &J1);
            let negative = e.compare_to(Direction::Lt, x, 0.0);
            let below = e.neg(y);
            e.select(negative, below, y)
        })
    }),
    ("aten::special_i0", |cx| wide(cx, |e, x| i0(e, x, false))),
    ("aten::special_i0e", |cx| wide(cx, |e, x| i0(e, x, true))),
    ("aten::special_i1", |cx| {
        wide(cx, |e, x| {
            let scaled = e.same(ops::BesselI1e {}, &[x]);
            let size = abs(e, x);
            let factor = exp(e, size);
            e.mul(scaled, factor)
        })
    }),
    ("aten::special_i1e", |cx| wide(cx, |e, x| e.same(ops::BesselI1e {}, &[x]))),
    ("aten::special_modified_bessel_i0", |cx| wide(cx, |e, x| i0(e, x, false))),
];

/// Clenshaw's sum of Chebyshev polynomials.
fn chebyshev(e: &mut Emitter, x: V, coefficients: &[f64]) -> V {
    let zero = e.like(x, 0.0);
    let (mut now, mut last, mut before) = (zero, zero, zero);
    for coefficient in coefficients {
        before = last;
        last = now;
        let product = e.mul(x, last);
        let difference = e.sub(product, before);
        now = e.shift(difference, *coefficient);
    }
    let difference = e.sub(now, before);
    e.scale(difference, 0.5)
}

/// The modified function of order zero, over exp(|x|) if scaled.
fn i0(e: &mut Emitter, x: V, scaled: bool) -> V {
    let size = abs(e, x);
    let half = e.scale(size, 0.5);
    let near = e.shift(half, -2.0);
    let near = chebyshev(e, near, &I0_NEAR);
    // Where the near series holds, the far one must stay finite.
    let eight = e.like(size, 8.0);
    let above = e.max(size, eight);
    let most = e.like(above, 32.0);
    let far = e.div(most, above);
    let far = e.shift(far, -2.0);
    let far = chebyshev(e, far, &I0_FAR);
    let root = sqrt(e, above);
    let far = e.div(far, root);
    let close = e.compare_to(Direction::Le, size, 8.0);
    let y = e.select(close, near, far);
    if scaled {
        return y;
    }
    let factor = exp(e, size);
    e.mul(factor, y)
}

/// The approximation of one function: rational up to 5, a damped wave above.
struct Tables {
    near: [&'static [f64]; 2],
    cosine: [&'static [f64]; 2],
    sine: [&'static [f64]; 2],
    /// The squares of the first two positive zeros.
    zeros: [f64; 2],
    phase: f64,
    odd: bool,
}

const J0: Tables = Tables {
    near: [&J0_RP, &J0_RQ],
    cosine: [&J0_PP, &J0_PQ],
    sine: [&J0_QP, &J0_QQ],
    zeros: [5.783_185_962_946_785, 30.471_262_343_662_087],
    phase: std::f64::consts::FRAC_PI_4,
    odd: false,
};

const J1: Tables = Tables {
    near: [&J1_RP, &J1_RQ],
    cosine: [&J1_PP, &J1_PQ],
    sine: [&J1_QP, &J1_QQ],
    zeros: [14.681_970_642_123_893, 49.218_456_321_694_6],
    phase: 3.0 * std::f64::consts::FRAC_PI_4,
    odd: true,
};

fn ratio(e: &mut Emitter, x: V, [above, below]: [&[f64]; 2]) -> V {
    let (above, below) = (polynomial(e, x, above), polynomial(e, x, below));
    e.div(above, below)
}

fn j(e: &mut Emitter, x: V, tables: &Tables) -> V {
    let x = abs(e, x);
    let square = e.mul(x, x);
    let mut near = ratio(e, square, tables.near);
    if tables.odd {
        near = e.mul(near, x);
    }
    for zero in tables.zeros {
        let distance = e.shift(square, -zero);
        near = e.mul(near, distance);
    }
    let five = e.like(x, 5.0);
    let above = e.max(x, five);
    let inverse = e.div(five, above);
    let inverse_square = e.mul(inverse, inverse);
    let (p, q) = (ratio(e, inverse_square, tables.cosine), ratio(e, inverse_square, tables.sine));
    let angle = e.shift(above, -tables.phase);
    let (cos, sin) = (cos(e, angle), sin(e, angle));
    let p = e.mul(p, cos);
    let q = e.mul(q, inverse);
    let q = e.mul(q, sin);
    let wave = e.sub(p, q);
    let wave = e.scale(wave, (2.0 / std::f64::consts::PI).sqrt());
    let root = sqrt(e, above);
    let far = e.div(wave, root);
    let close = e.compare_to(Direction::Le, x, 5.0);
    e.select(close, near, far)
}

/// Chebyshev's coefficients of exp(-x) I0(x) up to 8.
const I0_NEAR: [f64; 30] = [
    -4.415_341_646_479_339_5e-18,
    3.330_794_518_822_238_4e-17,
    -2.431_279_846_547_955e-16,
    1.715_391_285_555_133e-15,
    -1.168_533_287_799_345_1e-14,
    7.676_185_498_604_936e-14,
    -4.856_446_783_111_929e-13,
    2.955_052_663_129_64e-12,
    -1.726_826_291_441_556e-11,
    9.675_809_035_373_237e-11,
    -5.189_795_601_635_263e-10,
    2.659_823_724_682_386_6e-9,
    -1.300_025_009_986_248e-8,
    6.046_995_022_541_919e-8,
    -2.670_793_853_940_612e-7,
    1.117_387_539_120_103_7e-6,
    -4.416_738_358_458_750_5e-6,
    1.644_844_807_072_889_6e-5,
    -5.754_195_010_082_104e-5,
    0.000_188_502_885_095_841_65,
    -0.000_576_375_574_538_582_4,
    0.001_639_475_616_941_335_7,
    -0.004_324_309_995_050_576,
    0.010_546_460_394_594_998,
    -0.023_737_414_805_899_47,
    0.049_305_284_239_670_71,
    -0.094_901_097_048_047_64,
    0.171_620_901_522_208_77,
    -0.304_682_672_343_198_4,
    0.676_795_274_409_476_1,
];

/// Those of exp(-x) sqrt(x) I0(x) above 8.
const I0_FAR: [f64; 25] = [
    -7.233_180_487_874_754e-18,
    -4.830_504_485_944_182e-18,
    4.465_621_420_296_76e-17,
    3.461_222_867_697_461e-17,
    -2.827_623_980_516_583_6e-16,
    -3.425_485_619_677_219e-16,
    1.772_560_133_056_526_3e-15,
    3.811_680_669_352_622_4e-15,
    -9.554_846_698_828_307e-15,
    -4.150_569_347_287_222e-14,
    1.540_086_217_521_41e-14,
    3.852_778_382_742_142_6e-13,
    7.180_124_451_383_666e-13,
    -1.794_178_531_506_806_2e-12,
    -1.321_581_184_044_771_3e-11,
    -3.149_916_527_963_241_6e-11,
    1.188_914_710_784_643_9e-11,
    4.940_602_388_224_97e-10,
    3.396_232_025_708_386_5e-9,
    2.266_668_990_498_178e-8,
    2.048_918_589_469_063_8e-7,
    2.891_370_520_834_756_7e-6,
    6.889_758_346_916_825e-5,
    0.003_369_116_478_255_694_3,
    0.804_490_411_014_108_8,
];

/// Of J0.
const J0_PP: [f64; 7] = [
    0.000_796_936_729_297_347_1,
    0.082_835_239_210_744_08,
    1.239_533_716_464_143,
    5.447_250_030_587_687,
    8.747_165_001_998_17,
    5.303_240_382_353_949,
    1.0,
];

/// Of J0.
const J0_PQ: [f64; 7] = [
    0.000_924_408_810_558_863_7,
    0.085_628_847_435_447_45,
    1.253_527_439_010_589_5,
    5.470_977_403_304_171,
    8.761_908_832_370_695,
    5.306_052_882_353_947,
    1.0,
];

/// Of J0.
const J0_QP: [f64; 8] = [
    -0.011_366_383_889_846_916,
    -1.282_527_186_705_093_1,
    -19.553_954_425_773_597,
    -93.206_015_212_376_83,
    -177.681_167_980_488_06,
    -147.077_505_154_951_18,
    -51.410_532_676_659_93,
    -6.050_143_506_007_285,
];

/// Of J0.
const J0_QQ: [f64; 7] = [
    64.317_825_611_817_8,
    856.430_025_976_980_6,
    3_882.401_836_054_016_3,
    7_240.467_741_956_525,
    5_930.727_011_873_169,
    2_062.093_316_603_278_3,
    242.005_740_240_291_4,
];

/// Of J0.
const J0_RP: [f64; 4] = [
    -4_794_432_209.782_018,
    1_956_174_919_465.565_7,
    -249_248_344_360_967.72,
    9_708_622_510_473_064.0,
];

/// Of J0.
const J0_RQ: [f64; 8] = [
    499.563_147_152_651,
    173_785.401_676_374_7,
    48_440_965.833_996_21,
    11_185_553_704.535_683,
    2_112_775_201_154.892,
    310_518_229_857_422.56,
    3.181_219_559_432_049_6e16,
    1.710_862_940_810_431_5e18,
];

/// Of J1.
const J1_PP: [f64; 7] = [
    0.000_762_125_616_208_173_1,
    0.073_139_705_694_091_76,
    1.127_196_081_296_849_3,
    5.112_079_511_468_076,
    8.424_045_901_417_724,
    5.214_515_986_823_615,
    1.0,
];

/// Of J1.
const J1_PQ: [f64; 7] = [
    0.000_571_323_128_072_548_7,
    0.068_845_590_875_449_54,
    1.105_142_326_340_617,
    5.073_863_861_286_015,
    8.399_855_543_276_042,
    5.209_828_486_823_619,
    1.0,
];

/// Of J1.
const J1_QP: [f64; 8] = [
    0.051_086_259_475_017_66,
    4.982_138_729_512_334,
    75.823_828_413_254_53,
    366.779_609_360_150_8,
    710.856_304_998_926_1,
    597.489_612_400_613_6,
    211.688_757_100_572_13,
    25.207_020_585_802_372,
];

/// Of J1.
const J1_QQ: [f64; 7] = [
    74.237_327_703_567_52,
    1_056.448_860_382_628_3,
    4_986.410_583_376_536,
    9_562.318_924_047_562,
    7_997.041_604_473_507,
    2_826.192_785_176_390_8,
    336.093_607_810_698_3,
];

/// Of J1.
const J1_RP: [f64; 4] = [
    -899_971_225.705_559_4,
    452_228_297_998.194_03,
    -72_749_424_522_181.83,
    3_682_957_328_638_529.0,
];

/// Of J1.
const J1_RQ: [f64; 8] = [
    620.836_478_118_054_3,
    256_987.256_757_748_84,
    83_514_679.143_194_93,
    22_151_159_547.979_25,
    4_749_141_220_799.914,
    784_369_607_876_235.9,
    8.952_223_361_846_274e16,
    5.322_786_203_326_801e18,
];
