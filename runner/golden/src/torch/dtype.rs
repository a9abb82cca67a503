//! Element types: libtorch's numbers for them, and the names that tensor files use.

use safetensors::Dtype;

macro_rules! dtypes {
    ($($name:ident = $code:literal, $size:literal, $file:expr, $float:literal;)*) => {
        /// An element type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DType { $($name,)* }

        impl DType {
            /// `c10::ScalarType`'s number.
            pub fn code(self) -> i32 {
                match self { $(Self::$name => $code,)* }
            }

            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// Bytes of one element.
            pub fn size(self) -> usize {
                match self { $(Self::$name => $size,)* }
            }

            /// Whether a run in another precision converts tensors of this type.
            pub fn is_float(self) -> bool {
                match self { $(Self::$name => $float,)* }
            }

            /// How tensor files say it.
            pub fn in_file(self) -> Dtype {
                match self { $(Self::$name => $file,)* }
            }

            /// The type for what a tensor file says; the first of the list where two are
            /// written alike.
            pub fn of_file(dtype: Dtype) -> Option<Self> {
                [$(Self::$name,)*].into_iter().find(|known| known.in_file() == dtype)
            }
        }
    };
}

dtypes! {
    U8 = 0, 1, Dtype::U8, false;
    I8 = 1, 1, Dtype::I8, false;
    I16 = 2, 2, Dtype::I16, false;
    I32 = 3, 4, Dtype::I32, false;
    I64 = 4, 8, Dtype::I64, false;
    F16 = 5, 2, Dtype::F16, true;
    F32 = 6, 4, Dtype::F32, true;
    F64 = 7, 8, Dtype::F64, true;
    C64 = 9, 8, Dtype::C64, false;
    Bool = 11, 1, Dtype::BOOL, false;
    BF16 = 15, 2, Dtype::BF16, true;
    F8E5M2 = 23, 1, Dtype::F8_E5M2, false;
    F8E4M3FN = 24, 1, Dtype::F8_E4M3, false;
    F8E5M2FNUZ = 25, 1, Dtype::F8_E5M2FNUZ, false;
    F8E4M3FNUZ = 26, 1, Dtype::F8_E4M3FNUZ, false;
    U16 = 27, 2, Dtype::U16, false;
    U32 = 28, 4, Dtype::U32, false;
    U64 = 29, 8, Dtype::U64, false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_file_types_come_back() {
        for code in 0..64 {
            let Some(dtype) = DType::from_code(code) else { continue };
            assert_eq!(dtype.code(), code);
            assert_eq!(DType::of_file(dtype.in_file()), Some(dtype));
        }
        assert_eq!(DType::from_code(1), Some(DType::I8));
        assert_eq!(DType::from_code(12), None, "quantised types have no values of their own");
    }
}
