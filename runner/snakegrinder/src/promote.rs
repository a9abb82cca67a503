//! Type promotion as PyTorch does it: tensors with axes outrank tensors without, which outrank
//! plain numbers; a lower rank matters only if its category is higher.

use warpforge_pt2::ScalarType;
use warpforge_snakeburger::ir::DType;

/// What takes part in a promotion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    Tensor(DType),
    /// A tensor without axes.
    Scalar(DType),
    Bool,
    Int,
    Float,
    Complex,
}

/// The element type StableHLO has for PyTorch's; `None` for complex32.
pub fn dtype(ty: ScalarType) -> Option<DType> {
    use ScalarType as S;
    Some(match ty {
        S::U8 => DType::U8,
        S::I8 => DType::S8,
        S::I16 => DType::S16,
        S::I32 => DType::S32,
        S::I64 => DType::S64,
        S::F16 => DType::F16,
        S::F32 => DType::F32,
        S::F64 => DType::F64,
        S::C32 => return None,
        S::C64 => DType::C64,
        S::C128 => DType::C128,
        S::Bool => DType::I1,
        S::BF16 => DType::BF16,
        S::U16 => DType::U16,
        S::F8E4M3FN => DType::F8E4M3FN,
        S::F8E5M2 => DType::F8E5M2,
        S::F8E4M3FNUZ => DType::F8E4M3FNUZ,
        S::F8E5M2FNUZ => DType::F8E5M2FNUZ,
    })
}

/// What a computation on floats of this type is done in: PyTorch widens the narrow ones.
pub fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F64 | DType::C64 | DType::C128 => dtype,
        dtype if dtype.is_float() => DType::F32,
        dtype => dtype,
    }
}

/// The float type an integer is taken for where floats are needed.
pub fn to_float(dtype: DType, default: DType) -> DType {
    if dtype.is_float() || dtype.is_complex() { dtype } else { default }
}

fn category(dtype: DType) -> u8 {
    match dtype {
        DType::I1 => 0,
        dtype if dtype.is_int() => 1,
        dtype if dtype.is_float() => 2,
        _ => 3,
    }
}

/// The common type of operands; `default` is the float type of plain numbers.
pub fn promote(parts: &[Part], default: DType) -> DType {
    let mut of_tensors: Option<DType> = None;
    let mut of_scalars: Option<DType> = None;
    let mut of_numbers: Option<DType> = None;
    let join = |known: &mut Option<DType>, new: DType| {
        *known = Some(known.map_or(new, |known| common(known, new)));
    };
    let complex = if default == DType::F64 { DType::C128 } else { DType::C64 };
    for part in parts {
        match part {
            Part::Tensor(dtype) => join(&mut of_tensors, *dtype),
            Part::Scalar(dtype) => join(&mut of_scalars, *dtype),
            Part::Bool => join(&mut of_numbers, DType::I1),
            Part::Int => join(&mut of_numbers, DType::S64),
            Part::Float => join(&mut of_numbers, default),
            Part::Complex => join(&mut of_numbers, complex),
        }
    }
    let over = |high: Option<DType>, low: Option<DType>| match (high, low) {
        (Some(high), Some(low)) if category(low) > category(high) => {
            // A complex number beside float64 tensors is complex128.
            Some(if low.is_complex() && high.is_float() { common(high, low) } else { low })
        }
        (Some(high), _) => Some(high),
        (None, low) => low,
    };
    over(of_tensors, over(of_scalars, of_numbers)).unwrap_or(default)
}

/// The smallest type both fit in, by PyTorch's table.
fn common(a: DType, b: DType) -> DType {
    use DType as D;
    if a == b {
        return a;
    }
    let (a, b) = if category(a) <= category(b) { (a, b) } else { (b, a) };
    match (category(a), category(b)) {
        (0, _) | (1, 2 | 3) => b,
        (1, 1) => match (a, b) {
            // Unsigned and signed of the same width meet in the next wider signed type.
            (D::U8, D::S8) | (D::S8, D::U8) => D::S16,
            _ if a.bits() > b.bits() => a,
            _ if b.bits() > a.bits() => b,
            _ => {
                if a.is_signed() {
                    a
                } else {
                    b
                }
            }
        },
        (2, 2) => match (a.bits(), b.bits()) {
            (16, 16) => D::F32,
            (x, y) if x > y => a,
            (x, y) if y > x => b,
            _ => D::F32,
        },
        (2, 3) => {
            if a == D::F64 {
                D::C128
            } else {
                b
            }
        }
        _ => D::C128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_pytorch_promotes() {
        use DType as D;
        use Part as P;
        let table: &[(&[Part], DType)] = &[
            (&[P::Tensor(D::S64), P::Float], D::F32),
            (&[P::Tensor(D::BF16), P::Float], D::BF16),
            (&[P::Tensor(D::BF16), P::Scalar(D::F32)], D::BF16),
            (&[P::Tensor(D::BF16), P::Tensor(D::F16)], D::F32),
            (&[P::Tensor(D::BF16), P::Tensor(D::F32)], D::F32),
            (&[P::Tensor(D::S32), P::Scalar(D::F64)], D::F64),
            (&[P::Tensor(D::I1), P::Int], D::S64),
            (&[P::Tensor(D::U8), P::Tensor(D::S8)], D::S16),
            (&[P::Tensor(D::U8), P::Int], D::U8),
            (&[P::Scalar(D::S32), P::Scalar(D::S64)], D::S64),
            (&[P::Tensor(D::F64), P::Complex], D::C128),
            (&[P::Tensor(D::F32), P::Complex], D::C64),
            (&[P::Bool, P::Bool], D::I1),
        ];
        for (parts, wanted) in table {
            assert_eq!(promote(parts, D::F32), *wanted, "{parts:?}");
        }
    }
}
