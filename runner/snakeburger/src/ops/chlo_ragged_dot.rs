//! `ragged_dot`: a dot product with one dimension cut into groups of different sizes.

use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalError, EvalResult, Num, Tensor, strides, unravel};
use crate::ir::{Attr, DType, DYNAMIC, Ints, Kind, TensorTy, dim_compatible, dims_compatible};
use crate::text::Form;

struct_attr! {
    /// Which dimensions are paired, summed over and cut.
    #[allow(clippy::struct_field_names, reason = "the attribute's own names")]
    RaggedDotDimensions ("chlo.ragged_dot", "#chlo.ragged_dot<…>") {
        lhs_batching_dimensions: Ints = Box::default(),
        rhs_batching_dimensions: Ints = Box::default(),
        lhs_contracting_dimensions: Ints = Box::default(),
        rhs_contracting_dimensions: Ints = Box::default(),
        lhs_ragged_dimensions: Ints = Box::default(),
        rhs_group_dimensions: Ints = Box::default(),
    }
}

/// Which kind of dimension is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// One of the left side's own: each group has a right side.
    Free,
    /// One that is summed over: each group has a result.
    Contracting,
    /// A paired one: only the end of the last group matters.
    Batch,
}

payload! {
    /// A dot product in groups.
    RaggedDot {
        ragged_dot_dimension_numbers: RaggedDotDimensions,
        precision_config: Option<Attr> = None,
    }
}

/// Dimensions of a rank that no list holds.
fn others(rank: usize, lists: &[&[i64]]) -> Vec<i64> {
    (0..rank as i64).filter(|d| !lists.iter().any(|list| list.contains(d))).collect()
}

impl RaggedDotDimensions {
    fn ragged(&self) -> i64 {
        self.lhs_ragged_dimensions.first().copied().unwrap_or(0)
    }

    fn mode(&self) -> Mode {
        match self.ragged() {
            d if self.lhs_batching_dimensions.contains(&d) => Mode::Batch,
            d if self.lhs_contracting_dimensions.contains(&d) => Mode::Contracting,
            _ => Mode::Free,
        }
    }

    fn lhs_free(&self, rank: usize) -> Vec<i64> {
        others(rank, &[&self.lhs_batching_dimensions, &self.lhs_contracting_dimensions])
    }

    fn rhs_free(&self, rank: usize) -> Vec<i64> {
        let (batching, contracting) =
            (&self.rhs_batching_dimensions, &self.rhs_contracting_dimensions);
        others(rank, &[batching, contracting, &self.rhs_group_dimensions])
    }

    /// The result's shape: groups if each has a result, then paired and own dimensions.
    fn result(&self, lhs: &[i64], rhs: &[i64], groups: i64) -> Vec<i64> {
        let group = (self.mode() == Mode::Contracting).then_some(groups);
        let batch = self.lhs_batching_dimensions.iter().map(|d| lhs[*d as usize]);
        let left = self.lhs_free(lhs.len()).into_iter().map(|d| lhs[d as usize]);
        let right = self.rhs_free(rhs.len()).into_iter().map(|d| rhs[d as usize]);
        group.into_iter().chain(batch).chain(left).chain(right).collect()
    }

    /// The left side's dimensions that group sizes may depend on: those in front of the cut one.
    fn prefix(&self, rank: usize) -> Vec<i64> {
        let before = |list: &[i64]| -> Vec<i64> {
            list.iter().copied().take_while(|d| *d != self.ragged()).collect()
        };
        let mut prefix = before(&self.lhs_batching_dimensions);
        match self.mode() {
            Mode::Batch => {}
            Mode::Free => prefix.extend(before(&self.lhs_free(rank))),
            Mode::Contracting => prefix.extend(before(&self.lhs_contracting_dimensions)),
        }
        prefix
    }

    fn check(&self, c: &mut Check<'_>) {
        let (lhs, rhs) = (c.operand(0), c.operand(1));
        let sides = [
            ("lhs", lhs, &self.lhs_batching_dimensions, &self.lhs_contracting_dimensions),
            ("rhs", rhs, &self.rhs_batching_dimensions, &self.rhs_contracting_dimensions),
        ];
        for (name, ty, batching, contracting) in sides {
            let list: Vec<i64> = batching.iter().chain(contracting.iter()).copied().collect();
            c.dimensions(&format!("the dimensions of {name}"), &list, ty.rank(), "", "");
        }
        c.dimensions("lhs_ragged_dimensions", &self.lhs_ragged_dimensions, lhs.rank(), "", "");
        c.dimensions("rhs_group_dimensions", &self.rhs_group_dimensions, rhs.rank(), "", "");
        c.require(self.lhs_ragged_dimensions.len() == 1, "", || {
            format!("lhs_ragged_dimensions is {:?}", self.lhs_ragged_dimensions)
        });
        let groups = usize::from(self.mode() == Mode::Free);
        c.require(self.rhs_group_dimensions.len() == groups, "", || {
            format!("rhs_group_dimensions is {:?}", self.rhs_group_dimensions)
        });
        let pairs = [
            (&self.lhs_batching_dimensions, &self.rhs_batching_dimensions),
            (&self.lhs_contracting_dimensions, &self.rhs_contracting_dimensions),
        ];
        for (left, right) in pairs {
            let size =
                |ty: &TensorTy, d: &i64| ty.dims.get(*d as usize).copied().unwrap_or(DYNAMIC);
            let same = left.len() == right.len()
                && left.iter().zip(right).all(|(a, b)| dim_compatible(size(lhs, a), size(rhs, b)));
            c.require(same, "", || format!("{left:?} of {lhs} and {right:?} of {rhs} differ"));
        }
    }
}

impl OpDef for RaggedDot {
    const NAME: &'static str = "chlo.ragged_dot";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let dims = &self.ragged_dot_dimension_numbers;
        let before = c.problem_count();
        dims.check(c);
        let (lhs, rhs, sizes, result) = (c.operand(0), c.operand(1), c.operand(2), c.result(0));
        let ints = sizes.rank() > 0 && sizes.dtype().is_some_and(DType::is_int);
        c.require(ints, "I3", || format!("group_sizes is {sizes}"));
        let plain = lhs.dtype().is_some() && rhs.dtype().is_some();
        c.require(plain, "I1", || format!("operands are {lhs} and {rhs}"));
        if c.problem_count() > before {
            return;
        }
        let groups = sizes.dims[sizes.rank() - 1];
        if let Some(group) = dims.rhs_group_dimensions.first() {
            c.same_dim("", "the number of groups", rhs.dims[*group as usize], groups);
        }
        let prefix = dims.prefix(lhs.rank());
        c.require(sizes.rank() == 1 || sizes.rank() == prefix.len() + 1, "", || {
            format!("group_sizes is {sizes}, it has one dimension or {}", prefix.len() + 1)
        });
        let wanted = dims.result(&lhs.dims, &rhs.dims, groups);
        c.require(dims_compatible(&wanted, &result.dims), "", || {
            format!("the result is {result}, its shape must be {wanted:?}")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let dims = &self.ragged_dot_dimension_numbers;
        let (lhs, rhs, sizes) = (cx.tensor(0)?, cx.tensor(1)?, cx.tensor(2)?);
        let groups = sizes.dims().last().copied().unwrap_or(0);
        let ty = cx.result_of(0, &dims.result(lhs.dims(), rhs.dims(), groups))?;
        let ends = Ends::new(dims, lhs, sizes).map_err(|problem| cx.error(problem))?;
        let shapes = dims.lhs_contracting_dimensions.iter().zip(&dims.rhs_contracting_dimensions);
        let paired = dims.lhs_batching_dimensions.iter().zip(&dims.rhs_batching_dimensions);
        for (a, b) in shapes.chain(paired) {
            if lhs.dims()[*a as usize] != rhs.dims()[*b as usize] {
                return Err(shape_error(cx, lhs, rhs));
            }
        }
        let group = dims.rhs_group_dimensions.first().map(|d| rhs.dims()[*d as usize]);
        if group.is_some_and(|group| group != groups) {
            return Err(shape_error(cx, lhs, rhs));
        }
        let dot = Dot { dims, lhs, rhs, ends };
        let shape = ty.dims.clone();
        Ok(vec![Tensor::from_nums(ty, |i| dot.element(&unravel(i, &shape))).into()])
    }

    columns!(Contraction, Accumulated, Missing("has no rule"));
}

fn shape_error(cx: &Cx<'_, '_>, lhs: &Tensor, rhs: &Tensor) -> EvalError {
    cx.error(format!("{} and {} do not fit", lhs.ty, rhs.ty))
}

/// Where each group ends, for every index in front of the cut dimension.
struct Ends {
    /// Running sums of the group sizes, row by row.
    sums: Vec<i64>,
    groups: usize,
    prefix: Vec<i64>,
    prefix_dims: Vec<i64>,
}

impl Ends {
    fn new(dims: &RaggedDotDimensions, lhs: &Tensor, sizes: &Tensor) -> Result<Self, String> {
        let groups = sizes.dims().last().copied().unwrap_or(0) as usize;
        let mut sums = sizes.ints().to_vec();
        if let Some(size) = sums.iter().find(|size| **size < 0) {
            return Err(format!("a group has the size {size}"));
        }
        for row in sums.chunks_mut(groups.max(1)) {
            for i in 1..row.len() {
                row[i] = row[i].saturating_add(row[i - 1]);
            }
        }
        let prefix = if sizes.rank() > 1 { dims.prefix(lhs.rank()) } else { Vec::new() };
        let prefix_dims: Vec<i64> = prefix.iter().map(|d| lhs.dims()[*d as usize]).collect();
        if prefix_dims[..] == sizes.dims()[..sizes.rank() - 1] {
            Ok(Self { sums, groups, prefix, prefix_dims })
        } else {
            Err(format!("group_sizes {} do not fit {}", sizes.ty, lhs.ty))
        }
    }

    /// The group that the element of the left side at this index is in.
    fn group(&self, index: &[i64], ragged: i64) -> Option<usize> {
        let place: Vec<i64> = self.prefix.iter().map(|d| index[*d as usize]).collect();
        let row = crate::eval::ravel(&place, &self.prefix_dims) * self.groups;
        let ends = &self.sums[row..row + self.groups];
        ends.iter().position(|end| index[ragged as usize] < *end)
    }
}

struct Dot<'a> {
    dims: &'a RaggedDotDimensions,
    lhs: &'a Tensor,
    rhs: &'a Tensor,
    ends: Ends,
}

impl Dot<'_> {
    /// One element of the result.
    fn element(&self, out: &[i64]) -> Num {
        let (dims, mode) = (self.dims, self.dims.mode());
        let (mut left, mut right) = (vec![0; self.lhs.rank()], vec![0; self.rhs.rank()]);
        let skip = usize::from(mode == Mode::Contracting);
        let mut places = out[skip..].iter().copied();
        for (a, b) in dims.lhs_batching_dimensions.iter().zip(&dims.rhs_batching_dimensions) {
            let place = places.next().unwrap_or(0);
            (left[*a as usize], right[*b as usize]) = (place, place);
        }
        for d in dims.lhs_free(self.lhs.rank()) {
            left[d as usize] = places.next().unwrap_or(0);
        }
        for d in dims.rhs_free(self.rhs.rank()) {
            right[d as usize] = places.next().unwrap_or(0);
        }
        let only = (mode == Mode::Contracting).then(|| out[0] as usize);
        if only.is_none() {
            let Some(group) = self.ends.group(&left, dims.ragged()) else { return Num::F(0.0) };
            if let Some(d) = dims.rhs_group_dimensions.first() {
                right[*d as usize] = group as i64;
            }
        }
        self.sum(left, right, only)
    }

    /// The sum over contracted dimensions, of one group alone if so asked.
    fn sum(&self, mut left: Vec<i64>, mut right: Vec<i64>, only: Option<usize>) -> Num {
        let dims = self.dims;
        let (lhs, rhs) = (&dims.lhs_contracting_dimensions, &dims.rhs_contracting_dimensions);
        let sizes: Vec<i64> = lhs.iter().map(|d| self.lhs.dims()[*d as usize]).collect();
        let (from, to) = (strides(self.lhs.dims()), strides(self.rhs.dims()));
        let at = |index: &[i64], strides: &[usize]| -> usize {
            index.iter().zip(strides).map(|(i, stride)| *i as usize * stride).sum()
        };
        let mut sum = Sum::default();
        for k in 0..sizes.iter().product::<i64>() {
            for ((place, a), b) in unravel(k as usize, &sizes).into_iter().zip(lhs).zip(rhs) {
                (left[*a as usize], right[*b as usize]) = (place, place);
            }
            if only.is_some() && self.ends.group(&left, dims.ragged()) != only {
                continue;
            }
            sum.add(self.lhs.get(at(&left, &from)), self.rhs.get(at(&right, &to)));
        }
        sum.value(self.lhs.storage())
    }
}

/// A sum of products in whatever domain they are.
#[derive(Default)]
struct Sum {
    float: f64,
    int: i64,
    complex: num_complex::Complex64,
}

impl Sum {
    fn add(&mut self, x: Num, y: Num) {
        match (x, y) {
            (Num::F(x), y) => self.float += x * y.float(),
            (Num::C(x), y) => self.complex += x * y.complex(),
            (x, y) => self.int = self.int.wrapping_add(x.int().wrapping_mul(y.int())),
        }
    }

    fn value(&self, dtype: DType) -> Num {
        match dtype.kind() {
            Kind::Float => Num::F(self.float),
            Kind::Complex => Num::C(self.complex),
            _ => Num::I(self.int),
        }
    }
}
