//! Windows that slide over a tensor: their number, and the elements in each.

use std::sync::Arc;

use super::Check;
use super::fold::{Groups, Source, Visit};
use crate::eval::{EvalResult, strides, unravel};
use crate::ir::{DYNAMIC, Ints, Literal};

/// The attributes that describe windows, with what is left out filled in.
pub(crate) struct Windows {
    pub dims: Vec<Window>,
}

/// Windows along one dimension.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub size: i64,
    pub stride: i64,
    pub base_dilation: i64,
    pub dilation: i64,
    pub padding: [i64; 2],
}

impl Window {
    /// The size of a dimension with its holes and its padding.
    fn padded(&self, dim: i64) -> Option<i64> {
        let dilated = match dim {
            0 => 0,
            _ => dim.checked_sub(1)?.checked_mul(self.base_dilation)?.checked_add(1)?,
        };
        dilated.checked_add(self.padding[0])?.checked_add(self.padding[1])
    }

    /// How many windows fit; `None` if the numbers overflow.
    fn count(&self, dim: i64) -> Option<i64> {
        if dim == DYNAMIC {
            return Some(DYNAMIC);
        }
        let padded = self.padded(dim)?;
        let extent = (self.size - 1).checked_mul(self.dilation)?.checked_add(1)?;
        if padded <= 0 || extent > padded {
            return Some(0);
        }
        Some((padded - extent) / self.stride + 1)
    }

    /// The element under place `at` of window `window`, unless it is padding or a hole.
    fn element(&self, window: i64, at: i64, dim: i64) -> Option<i64> {
        let place = (window * self.stride + at * self.dilation).checked_sub(self.padding[0])?;
        if place < 0 || place % self.base_dilation != 0 {
            return None;
        }
        Some(place / self.base_dilation).filter(|element| *element < dim)
    }
}

impl Windows {
    /// Windows with these attributes; `None` if their lengths are not the rank or a number is
    /// out of range, which the checks report.
    pub fn new(
        rank: usize,
        sizes: Option<&Ints>,
        strides: Option<&Ints>,
        dilations: [Option<&Ints>; 2],
        padding: Option<&Literal>,
    ) -> Option<Self> {
        let list = |ints: Option<&Ints>| {
            let list = ints.map_or_else(|| vec![1; rank], |ints| ints.to_vec());
            (list.len() == rank && list.iter().all(|n| *n > 0)).then_some(list)
        };
        let (sizes, strides) = (list(sizes)?, list(strides)?);
        let (base, dilations) = (list(dilations[0])?, list(dilations[1])?);
        let padding = match padding {
            None => vec![[0, 0]; rank],
            Some(literal) => pairs(literal)?,
        };
        let window = |d: usize| Window {
            size: sizes[d],
            stride: strides[d],
            base_dilation: base[d],
            dilation: dilations[d],
            padding: padding[d],
        };
        (padding.len() == rank).then(|| Self { dims: (0..rank).map(window).collect() })
    }

    /// How many windows there are along each dimension; `None` if the numbers overflow.
    pub fn counts(&self, dims: &[i64]) -> Option<Vec<i64>> {
        self.dims.iter().zip(dims).map(|(window, dim)| window.count(*dim)).collect()
    }
}

/// The rows of an `n` x 2 constant.
fn pairs(literal: &Literal) -> Option<Vec<[i64; 2]>> {
    match literal.ty.dims[..] {
        [_, 2] => Some(literal.ints()?.as_chunks::<2>().0.to_vec()),
        _ => None,
    }
}

/// Reports a list of positive numbers, one per dimension, that is not one.
pub(crate) fn check_list(
    c: &mut Check<'_>,
    name: &str,
    list: Option<&Ints>,
    rank: usize,
    [length, range]: [&str; 2],
) {
    let Some(list) = list else { return };
    c.require(list.len() == rank, length, || {
        format!("{name} has {} numbers, there are {rank} dimensions", list.len())
    });
    c.require(list.iter().all(|n| *n > 0), range, || {
        format!("{name} is {list:?}, its numbers must be positive")
    });
}

/// Reports a padding that is not two integers per dimension.
pub(crate) fn check_padding(
    c: &mut Check<'_>,
    padding: Option<&Arc<Literal>>,
    rank: usize,
    constraint: &str,
) {
    let Some(padding) = padding else { return };
    let fits = padding.ty.dims[..] == [rank as i64, 2] && padding.ints().is_some();
    c.require(fits, constraint, || {
        format!("padding is {}, it must be tensor<{rank}x2xi64>", padding.ty)
    });
}

/// Windows over a tensor of known shape.
pub(crate) struct Sliding {
    windows: Vec<Window>,
    dims: Vec<i64>,
    strides: Vec<usize>,
    /// Per dimension: places of one window along all further ones.
    inner: Vec<usize>,
    counts: Vec<i64>,
}

impl Sliding {
    /// `None` if the numbers overflow.
    pub fn new(windows: Windows, dims: &[i64]) -> Option<Self> {
        let counts = windows.counts(dims)?;
        let mut inner = vec![1usize; dims.len()];
        for d in (1..dims.len()).rev() {
            inner[d - 1] = inner[d].saturating_mul(windows.dims[d].size as usize);
        }
        let (dims, strides) = (dims.to_vec(), strides(dims));
        Some(Self { windows: windows.dims, dims, strides, inner, counts })
    }

    /// How many windows there are along each dimension.
    pub fn counts(&self) -> &[i64] {
        &self.counts
    }

    fn walk(&self, d: usize, at: &[i64], start: usize, visit: Visit<'_>) -> EvalResult<()> {
        let Some(window) = self.windows.get(d) else {
            return visit(Source::Run { start, count: 1, step: 1 });
        };
        for place in 0..window.size {
            match window.element(at[d], place, self.dims[d]) {
                Some(element) => {
                    self.walk(d + 1, at, start + element as usize * self.strides[d], visit)?;
                }
                None => outside(self.inner[d], visit)?,
            }
        }
        Ok(())
    }
}

/// Visits places that hold the initial value, a few at a time: there may be any number of them.
fn outside(mut places: usize, visit: Visit<'_>) -> EvalResult<()> {
    while places > 0 {
        let some = places.min(1 << 16);
        visit(Source::Init(some))?;
        places -= some;
    }
    Ok(())
}

impl Groups for Sliding {
    fn size(&self) -> usize {
        self.windows.iter().fold(1, |size, window| size.saturating_mul(window.size as usize))
    }

    fn visit(&self, i: usize, visit: Visit<'_>) -> EvalResult<()> {
        self.walk(0, &unravel(i, &self.counts), 0, visit)
    }
}
