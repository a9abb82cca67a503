//! Element types: what one element of a tensor is, in which format, and how it is quantized.

use std::fmt;
use std::sync::Arc;

/// An element type of the specification, without quantization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    I1,
    S2,
    S4,
    S8,
    S16,
    S32,
    S64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    /// MLIR's `index`, which shape computations use; behaves as `i64`.
    Index,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E3M4,
    F8E4M3,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    BF16,
    F16,
    TF32,
    F32,
    F64,
    C64,
    C128,
}

/// The families that constraints speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

impl DType {
    /// Every element type with its spelling; the first spelling of a type is the printed one.
    pub const SPELLINGS: &'static [(&'static str, DType)] = &[
        ("i1", DType::I1),
        ("i2", DType::S2),
        ("i4", DType::S4),
        ("i8", DType::S8),
        ("i16", DType::S16),
        ("i32", DType::S32),
        ("i64", DType::S64),
        ("si2", DType::S2),
        ("si4", DType::S4),
        ("si8", DType::S8),
        ("si16", DType::S16),
        ("si32", DType::S32),
        ("si64", DType::S64),
        ("ui2", DType::U2),
        ("ui4", DType::U4),
        ("ui8", DType::U8),
        ("ui16", DType::U16),
        ("ui32", DType::U32),
        ("ui64", DType::U64),
        ("index", DType::Index),
        ("f4E2M1FN", DType::F4E2M1FN),
        ("f6E2M3FN", DType::F6E2M3FN),
        ("f6E3M2FN", DType::F6E3M2FN),
        ("f8E3M4", DType::F8E3M4),
        ("f8E4M3", DType::F8E4M3),
        ("f8E4M3FN", DType::F8E4M3FN),
        ("f8E4M3FNUZ", DType::F8E4M3FNUZ),
        ("f8E4M3B11FNUZ", DType::F8E4M3B11FNUZ),
        ("f8E5M2", DType::F8E5M2),
        ("f8E5M2FNUZ", DType::F8E5M2FNUZ),
        ("f8E8M0FNU", DType::F8E8M0FNU),
        ("bf16", DType::BF16),
        ("f16", DType::F16),
        ("tf32", DType::TF32),
        ("f32", DType::F32),
        ("f64", DType::F64),
        ("complex<f32>", DType::C64),
        ("complex<f64>", DType::C128),
    ];

    pub fn parse(text: &str) -> Option<Self> {
        Self::SPELLINGS.iter().find(|(name, _)| *name == text).map(|(_, dtype)| *dtype)
    }

    pub fn name(self) -> &'static str {
        Self::SPELLINGS.iter().find(|(_, dtype)| *dtype == self).map_or("?", |(name, _)| name)
    }

    pub fn kind(self) -> Kind {
        use DType as D;
        match self {
            D::I1 => Kind::Bool,
            D::S2 | D::S4 | D::S8 | D::S16 | D::S32 | D::S64 | D::Index => Kind::Signed,
            D::U2 | D::U4 | D::U8 | D::U16 | D::U32 | D::U64 => Kind::Unsigned,
            D::C64 | D::C128 => Kind::Complex,
            _ => Kind::Float,
        }
    }

    /// Width of the value in bits, as `bitcast_convert` and the specification's `num_bits` see it.
    pub fn bits(self) -> u32 {
        use DType as D;
        match self {
            D::I1 => 1,
            D::S2 | D::U2 => 2,
            D::S4 | D::U4 | D::F4E2M1FN => 4,
            D::F6E2M3FN | D::F6E3M2FN => 6,
            D::S8
            | D::U8
            | D::F8E3M4
            | D::F8E4M3
            | D::F8E4M3FN
            | D::F8E4M3FNUZ
            | D::F8E4M3B11FNUZ
            | D::F8E5M2
            | D::F8E5M2FNUZ
            | D::F8E8M0FNU => 8,
            D::S16 | D::U16 | D::BF16 | D::F16 => 16,
            D::TF32 => 19,
            D::S32 | D::U32 | D::F32 => 32,
            D::S64 | D::U64 | D::Index | D::F64 | D::C64 => 64,
            D::C128 => 128,
        }
    }

    /// Bytes one element takes in a buffer: elements narrower than a byte take a whole one.
    pub fn bytes(self) -> usize {
        (self.bits() as usize).div_ceil(8).next_power_of_two()
    }

    pub fn is_bool(self) -> bool {
        self.kind() == Kind::Bool
    }

    /// An integer, signed or unsigned; `i1` is not one.
    pub fn is_int(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    pub fn is_signed(self) -> bool {
        self.kind() == Kind::Signed
    }

    pub fn is_unsigned(self) -> bool {
        self.kind() == Kind::Unsigned
    }

    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    pub fn is_complex(self) -> bool {
        self.kind() == Kind::Complex
    }

    /// The type of a complex number's parts; any other type is its own part.
    pub fn part(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// The complex type whose parts are of this type.
    pub fn complex_of(self) -> Option<DType> {
        match self {
            DType::F32 => Some(DType::C64),
            DType::F64 => Some(DType::C128),
            _ => None,
        }
    }

    /// Smallest and largest value of an integer type.
    pub fn int_range(self) -> (i128, i128) {
        let bits = self.bits();
        match self.kind() {
            Kind::Signed => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Uniform quantization of an element type: `real = (stored - zero_point) * scale`.
#[derive(Clone, Debug)]
pub struct Quant {
    pub storage: DType,
    pub storage_min: i64,
    pub storage_max: i64,
    pub expressed: DType,
    /// The quantized dimension of a per-axis type; `None` for per-tensor.
    pub axis: Option<i64>,
    pub scales: Box<[f64]>,
    pub zero_points: Box<[i64]>,
}

impl Quant {
    /// The scale and zero point in force at index `i` of the quantized dimension.
    pub fn at(&self, i: usize) -> (f64, i64) {
        let i = if self.axis.is_some() { i } else { 0 };
        (self.scales[i], self.zero_points[i])
    }

    fn key(&self) -> impl PartialEq + std::hash::Hash + '_ {
        let scales: Vec<u64> = self.scales.iter().map(|s| s.to_bits()).collect();
        let types = (self.storage, self.storage_min, self.storage_max, self.expressed, self.axis);
        (types, scales, &self.zero_points)
    }
}

impl PartialEq for Quant {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Quant {}

impl std::hash::Hash for Quant {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for Quant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The quant dialect spells an unsigned storage type `u8`, not `ui8`.
        let storage = self.storage.name().replace("ui", "u");
        write!(f, "!quant.uniform<{storage}")?;
        if (i128::from(self.storage_min), i128::from(self.storage_max)) != self.storage.int_range()
        {
            write!(f, "<{}:{}>", self.storage_min, self.storage_max)?;
        }
        write!(f, ":{}", self.expressed)?;
        let one = |i: usize| match self.zero_points[i] {
            0 => format!("{:?}", self.scales[i]),
            zero => format!("{:?}:{zero}", self.scales[i]),
        };
        match self.axis {
            None => write!(f, ", {}>", one(0)),
            Some(axis) => {
                let all: Vec<String> = (0..self.scales.len()).map(one).collect();
                write!(f, ":{axis}, {{{}}}>", all.join(", "))
            }
        }
    }
}

/// The element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    Plain(DType),
    Quant(Arc<Quant>),
}

impl Elem {
    /// The type elements are stored in: the storage type of a quantized one.
    pub fn storage(&self) -> DType {
        match self {
            Elem::Plain(dtype) => *dtype,
            Elem::Quant(quant) => quant.storage,
        }
    }

    /// The type elements stand for: the expressed type of a quantized one.
    pub fn expressed(&self) -> DType {
        match self {
            Elem::Plain(dtype) => *dtype,
            Elem::Quant(quant) => quant.expressed,
        }
    }

    pub fn quant(&self) -> Option<&Quant> {
        match self {
            Elem::Plain(_) => None,
            Elem::Quant(quant) => Some(quant),
        }
    }

    pub fn plain(&self) -> Option<DType> {
        match self {
            Elem::Plain(dtype) => Some(*dtype),
            Elem::Quant(_) => None,
        }
    }
}

impl From<DType> for Elem {
    fn from(dtype: DType) -> Self {
        Elem::Plain(dtype)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elem::Plain(dtype) => dtype.fmt(f),
            Elem::Quant(quant) => quant.fmt(f),
        }
    }
}
