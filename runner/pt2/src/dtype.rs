//! Element types as PyTorch has them.

use crate::error::{Error, Result};

macro_rules! scalar_types {
    ($($variant:ident: export $code:literal, c10 $c10:literal, $bytes:literal bytes, $name:literal, $file:ident;)*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ScalarType { $($variant),* }

        impl ScalarType {
            pub const ALL: &'static [ScalarType] = &[$(ScalarType::$variant),*];

            /// The number the export schema has for it.
            pub fn code(self) -> i64 {
                match self { $(ScalarType::$variant => $code),* }
            }

            /// The number libtorch's dispatcher has for it.
            pub fn c10(self) -> i64 {
                match self { $(ScalarType::$variant => $c10),* }
            }

            pub fn bytes(self) -> usize {
                match self { $(ScalarType::$variant => $bytes),* }
            }

            /// As PyTorch prints it, without `torch.`.
            pub fn name(self) -> &'static str {
                match self { $(ScalarType::$variant => $name),* }
            }

            /// The type's name in a safetensors file.
            pub fn in_file(self) -> Option<safetensors::Dtype> {
                use safetensors::Dtype as D;
                match self { $(ScalarType::$variant => scalar_types!(@file D $file)),* }
            }
        }
    };
    (@file $d:ident NONE) => { None };
    (@file $d:ident $file:ident) => { Some($d::$file) };
}

scalar_types! {
    U8: export 1, c10 0, 1 bytes, "uint8", U8;
    I8: export 2, c10 1, 1 bytes, "int8", I8;
    I16: export 3, c10 2, 2 bytes, "int16", I16;
    I32: export 4, c10 3, 4 bytes, "int32", I32;
    I64: export 5, c10 4, 8 bytes, "int64", I64;
    F16: export 6, c10 5, 2 bytes, "float16", F16;
    F32: export 7, c10 6, 4 bytes, "float32", F32;
    F64: export 8, c10 7, 8 bytes, "float64", F64;
    C32: export 9, c10 8, 4 bytes, "complex32", NONE;
    C64: export 10, c10 9, 8 bytes, "complex64", C64;
    C128: export 11, c10 10, 16 bytes, "complex128", NONE;
    Bool: export 12, c10 11, 1 bytes, "bool", BOOL;
    BF16: export 13, c10 15, 2 bytes, "bfloat16", BF16;
    U16: export 28, c10 27, 2 bytes, "uint16", U16;
    F8E4M3FN: export 29, c10 24, 1 bytes, "float8_e4m3fn", F8_E4M3;
    F8E5M2: export 30, c10 23, 1 bytes, "float8_e5m2", F8_E5M2;
    F8E4M3FNUZ: export 31, c10 26, 1 bytes, "float8_e4m3fnuz", F8_E4M3FNUZ;
    F8E5M2FNUZ: export 32, c10 25, 1 bytes, "float8_e5m2fnuz", F8_E5M2FNUZ;
}

impl ScalarType {
    pub fn from_code(code: i64) -> Result<Self> {
        let known = Self::ALL.iter().copied().find(|ty| ty.code() == code);
        known.ok_or_else(|| Error::Graph(format!("the element type number {code} is not known")))
    }

    pub fn from_file(dtype: safetensors::Dtype) -> Option<Self> {
        Self::ALL.iter().copied().find(|ty| ty.in_file() == Some(dtype))
    }

    pub fn is_float(self) -> bool {
        use ScalarType as S;
        matches!(
            self,
            S::F16
                | S::F32
                | S::F64
                | S::BF16
                | S::F8E4M3FN
                | S::F8E5M2
                | S::F8E4M3FNUZ
                | S::F8E5M2FNUZ
        )
    }

    pub fn is_complex(self) -> bool {
        matches!(self, ScalarType::C32 | ScalarType::C64 | ScalarType::C128)
    }

    /// The widest type of the same family, if the family is one of floats.
    pub fn widest(self) -> Self {
        match self {
            ty if ty.is_float() => ScalarType::F64,
            ty if ty.is_complex() => ScalarType::C128,
            ty => ty,
        }
    }
}

impl std::fmt::Display for ScalarType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
