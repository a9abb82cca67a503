//! Collectives that move values between processes.

use super::groups::{
    ChannelHandle, ReplicaGroups, Rows, Strategy, channel_of, exchange, group_of, partners,
};
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::parallel::{Meeting, Parcel};
use crate::eval::{Cx, EvalError, EvalResult, Tensor, Value};
use crate::ir::{DType, DYNAMIC, TensorTy, Ty, dim_compatible, dims_compatible};
use crate::text::Form;

/// At least one tensor in, as many out.
pub(crate) const MANY: Arity = Arity {
    operands: Count::AtLeast(1),
    results: Count::AtLeast(1),
    regions: Count::Exactly(0),
    tensors: true,
};

/// All operands, to send.
pub(crate) fn parcel(cx: &Cx<'_, '_>) -> EvalResult<Parcel> {
    (0..cx.operand_count()).map(|i| cx.operand(i).cloned()).collect()
}

/// The tensors at place `i` of every parcel.
fn nth(parcels: &[Parcel], i: usize) -> Vec<&Tensor> {
    let tensors = parcels.iter().filter_map(|parcel| match parcel.get(i) {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    });
    tensors.collect()
}

/// What a process outside every group gets: zeros, or the codes of zero.
pub(crate) fn nothing(cx: &Cx<'_, '_>, ty: &TensorTy) -> EvalResult<Tensor> {
    cx.allow(ty)?;
    Ok(if ty.elem.quant().is_some() {
        Tensor::quantize(ty.clone(), |_| 0.0)
    } else {
        Tensor::zeros(ty.clone())
    })
}

pub(crate) fn no_group(cx: &Cx<'_, '_>) -> EvalError {
    let process = &cx.interpreter.process;
    cx.error(format!(
        "process ({}, {}) is in none of the replica_groups",
        process.replica(),
        process.partition()
    ))
}

/// As many results as operands.
pub(crate) fn same_count(c: &mut Check<'_>, number: &str, operands: usize) {
    let results = c.result_types().len();
    c.require(results == operands, number, || format!("{results} results for {operands} operands"));
}

/// Puts tensors of one shape (but for `dim`) behind each other along `dim`.
pub(crate) fn concatenate(parts: &[Tensor], dim: usize, ty: TensorTy) -> Tensor {
    let inner = ty.dims[dim + 1..].iter().product::<i64>().max(0) as usize;
    let size = ty.elem.storage().bytes();
    let mut out = Tensor::zeros(ty);
    let chunk = |tensor: &Tensor| tensor.dims()[dim] as usize * inner * size;
    let row: usize = parts.iter().map(chunk).sum();
    if row == 0 {
        return out;
    }
    for (o, out) in out.data.bytes_mut().chunks_exact_mut(row).enumerate() {
        let mut at = 0;
        for part in parts {
            let len = chunk(part);
            out[at..at + len].copy_from_slice(&part.data.bytes()[o * len..(o + 1) * len]);
            at += len;
        }
    }
    out
}

/// Part `index` of `count` equal ones along `dim`.
pub(crate) fn part(tensor: &Tensor, dim: usize, count: usize, index: usize) -> Tensor {
    let mut dims = tensor.ty.dims.clone();
    let full = dims[dim] as usize;
    dims[dim] = (full / count.max(1)) as i64;
    let inner = dims[dim + 1..].iter().product::<i64>().max(1) as usize;
    let (row, own) = (full * inner, dims[dim] as usize * inner);
    let from = |i: usize| i / own.max(1) * row + index * own + i % own.max(1);
    tensor.gather_elements(dims, None, |i| Some(from(i)))
}

/// Whether every tensor has the type of the first; processes may run different programs.
fn all_alike(cx: &Cx<'_, '_>, tensors: &[&Tensor]) -> EvalResult<()> {
    let other = tensors.iter().find(|tensor| tensor.ty != tensors[0].ty);
    match other {
        Some(other) => Err(cx
            .error(format!("processes bring tensors of types {} and {}", tensors[0].ty, other.ty))),
        None => Ok(()),
    }
}

/// The tensors of one operand from every process of the group, all of one type.
pub(crate) fn gathered<'p>(
    cx: &Cx<'_, '_>,
    parcels: &'p [Parcel],
    i: usize,
) -> EvalResult<Vec<&'p Tensor>> {
    let tensors = nth(parcels, i);
    if tensors.len() != parcels.len() {
        return Err(cx.error("processes bring different numbers of operands"));
    }
    all_alike(cx, &tensors)?;
    Ok(tensors)
}

payload! {
    /// Every process of a group gets the values of all of them, one behind the other.
    AllGather {
        all_gather_dim: i64,
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
        use_global_device_ids: bool = false,
    }
}

impl AllGather {
    fn strategy(&self) -> Strategy {
        Strategy::global(channel_of(self.channel_handle), self.use_global_device_ids)
    }
}

impl OpDef for AllGather {
    const NAME: &'static str = "stablehlo.all_gather";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY;

    fn check(&self, c: &mut Check<'_>) {
        self.replica_groups.check(c, "C2", "C4", true);
        let channel = channel_of(self.channel_handle);
        c.require(!self.use_global_device_ids || channel > 0, "C5", || {
            format!("use_global_device_ids with channel_id {channel}")
        });
        same_count(c, "C6", c.operand_types().len());
        let dim = self.all_gather_dim;
        for (i, ty) in c.operands(0).into_iter().enumerate() {
            let fits = (0..ty.rank() as i64).contains(&dim);
            c.require(fits, "C1", || format!("all_gather_dim {dim} is no dimension of {ty}"));
            if fits && c.result_types().len() > i {
                let result = c.result(i);
                let wanted = scaled_dims(ty, dim as usize, self.replica_groups.width(), |a, b| {
                    a.checked_mul(b)
                });
                c.require(ty.elem == result.elem, "C6", || format!("{ty} becomes {result}"));
                let exact = self.strategy() != Strategy::CrossReplicaAndPartition;
                let good = gathers_to(&wanted, &result.dims, dim as usize, exact);
                c.require(good, "C6", || format!("{ty} becomes {result}"));
            }
        }
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let Some(group) = group_of(cx, &self.replica_groups, self.strategy())? else {
            return Err(no_group(cx));
        };
        let channel = channel_of(self.channel_handle);
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        let dim = self.all_gather_dim as usize;
        let one = |i: usize| {
            let tensors = gathered(cx, &parcels, i)?;
            let mut dims = tensors[0].ty.dims.clone();
            dims[dim] = dims[dim].saturating_mul(tensors.len() as i64);
            let ty = cx.result_of(i, &dims)?;
            let parts: Vec<Tensor> = tensors.into_iter().cloned().collect();
            Ok(concatenate(&parts, dim, ty).into())
        };
        (0..cx.operand_count()).map(one).collect()
    }

    columns!(Opaque, Exact, Missing("runs on several processes"));
}

/// A shape with one dimension scaled by what may not be known.
fn scaled_dims(
    ty: &TensorTy,
    dim: usize,
    by: Option<i64>,
    scale: impl Fn(i64, i64) -> Option<i64>,
) -> Vec<i64> {
    let mut dims = ty.dims.to_vec();
    dims[dim] = match (dims[dim], by) {
        (DYNAMIC, _) | (_, None) => DYNAMIC,
        (size, Some(by)) => scale(size, by).unwrap_or(DYNAMIC),
    };
    dims
}

/// Whether `found` is `wanted`; where the number of partitions counts too, a multiple of it.
fn gathers_to(wanted: &[i64], found: &[i64], dim: usize, exact: bool) -> bool {
    if exact || wanted.len() != found.len() {
        return dims_compatible(wanted, found);
    }
    wanted.iter().zip(found).enumerate().all(|(i, (a, b))| {
        let multiple = i == dim && *a > 0 && *b > 0 && b % a == 0;
        multiple || dim_compatible(*a, *b)
    })
}

payload! {
    /// Every process of a group sends a different part of its value to each other one.
    AllToAll {
        split_dimension: i64,
        concat_dimension: i64,
        split_count: i64,
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
    }
}

impl AllToAll {
    fn shape(&self, ty: &TensorTy) -> Vec<i64> {
        let (split, concat) = (self.split_dimension as usize, self.concat_dimension as usize);
        if split == concat {
            return ty.dims.to_vec();
        }
        let by = Some(self.split_count);
        let part = scaled_dims(ty, split, by, i64::checked_div);
        scaled_dims(&ty.with_dims(part), concat, by, i64::checked_mul)
    }
}

impl OpDef for AllToAll {
    const NAME: &'static str = "stablehlo.all_to_all";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY;

    fn check(&self, c: &mut Check<'_>) {
        let (split, concat, count) =
            (self.split_dimension, self.concat_dimension, self.split_count);
        for (i, ty) in c.operands(0).into_iter().enumerate() {
            let rank = ty.rank() as i64;
            c.require((0..rank).contains(&split), "C1", || {
                format!("split_dimension {split} is no dimension of operand {i}, {ty}")
            });
            let size = ty.dims.get(split as usize).copied().unwrap_or(DYNAMIC);
            c.require(size == DYNAMIC || count <= 0 || size % count == 0, "C2", || {
                format!("dimension {split} of {ty} does not split into {count} parts")
            });
            c.require((0..rank).contains(&concat), "C3", || {
                format!("concat_dimension {concat} is no dimension of operand {i}, {ty}")
            });
        }
        c.require(count > 0, "C4", || format!("split_count is {count}"));
        self.replica_groups.check(c, "C5", "C7", true);
        let width = self.replica_groups.width();
        c.require(width.is_none_or(|width| width == count), "C8", || {
            format!("groups of {} for split_count {count}", width.unwrap_or(0))
        });
        same_count(c, "C9", c.operand_types().len());
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let types = c.operands(0).into_iter().map(|ty| ty.with_dims(self.shape(ty)).into());
        Infer::By("C9", types.collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let Some(group) = group_of(cx, &self.replica_groups, Strategy::simple(channel))? else {
            return Err(no_group(cx));
        };
        let count = self.split_count as usize;
        if group.len() != count {
            return Err(cx.error(format!("a group of {} for {count} parts", group.len())));
        }
        let place = group.iter().position(|id| *id == cx.interpreter.process.id);
        let place = place.ok_or_else(|| no_group(cx))?;
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        let (split, concat) = (self.split_dimension as usize, self.concat_dimension as usize);
        let one = |i: usize| {
            let tensors = gathered(cx, &parcels, i)?;
            if tensors[0].dims()[split] % self.split_count != 0 {
                return Err(cx.error(format!("{} does not split", tensors[0].ty)));
            }
            let ty = cx.result_of(i, &self.shape(&tensors[0].ty))?;
            let parts: Vec<Tensor> =
                tensors.into_iter().map(|tensor| part(tensor, split, count, place)).collect();
            Ok(concatenate(&parts, concat, ty).into())
        };
        (0..cx.operand_count()).map(one).collect()
    }

    columns!(Opaque, Exact, Missing("runs on several processes"));
}

payload! {
    /// Every process of a group gets the value of its first one, or of one chosen at run time.
    CollectiveBroadcast {
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
        has_dynamic_root: bool = false,
    }
}

/// The type the operand with the roots must have: one number for each of the others.
pub(crate) fn roots_ty(operands: usize) -> Ty {
    Ty::tensor([operands.saturating_sub(1) as i64], DType::S32)
}

/// The roots of a group: its first process, or what the last operand says.
pub(crate) fn roots(
    cx: &Cx<'_, '_>,
    dynamic: bool,
    group: usize,
    results: usize,
) -> EvalResult<Vec<usize>> {
    if !dynamic {
        return Ok(vec![0; results]);
    }
    let tensor = cx.tensor(results)?;
    let root = |root: &i64| match usize::try_from(*root) {
        Ok(root) if root < group => Ok(root),
        _ => Err(cx.error(format!("the root {root} is not in a group of {group}"))),
    };
    let roots: Vec<usize> = tensor.ints().iter().map(root).collect::<Result<_, _>>()?;
    if roots.len() == results {
        Ok(roots)
    } else {
        Err(cx.error(format!("{} roots for {results} results", roots.len())))
    }
}

impl OpDef for CollectiveBroadcast {
    const NAME: &'static str = "stablehlo.collective_broadcast";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY;

    fn check(&self, c: &mut Check<'_>) {
        self.replica_groups.check(c, "C1", "C2", false);
        let operands = c.operand_types().len();
        let mut data = operands;
        if self.has_dynamic_root {
            c.require(operands >= 2, "C4", || "has no operand but the root".into());
            data = operands.saturating_sub(1);
            let wanted = roots_ty(operands);
            let found = c.operand_types()[operands - 1];
            c.require(found.compatible(&wanted), "C4", || {
                format!("the root is {found}, it must be {wanted}")
            });
        }
        same_count(c, "C5", data);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let types = c.operand_types().iter().take(c.result_types().len());
        Infer::Types(types.map(|ty| (*ty).clone()).collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let results = cx.operand_count() - usize::from(self.has_dynamic_root);
        let Some(group) = group_of(cx, &self.replica_groups, Strategy::simple(channel))? else {
            let empty = |i| Ok(nothing(cx, &cx.tensor(i)?.ty)?.into());
            return (0..results).map(empty).collect();
        };
        let roots = roots(cx, self.has_dynamic_root, group.len(), results)?;
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        let one = |(i, root): (usize, &usize)| {
            let tensors = gathered(cx, &parcels, i)?;
            Ok(tensors[*root].clone().into())
        };
        roots.iter().enumerate().map(one).collect()
    }

    columns!(Opaque, Exact, Missing("runs on several processes"));
}

payload! {
    /// Values go from sources to targets; who is no target gets zeros.
    CollectivePermute {
        source_target_pairs: Rows,
        channel_handle: Option<ChannelHandle> = None,
    }
}

impl OpDef for CollectivePermute {
    const NAME: &'static str = "stablehlo.collective_permute";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY;

    fn check(&self, c: &mut Check<'_>) {
        self.source_target_pairs.check_pairs(c);
        same_count(c, "C5", c.operand_types().len());
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::By("C5", c.operand_types().iter().map(|ty| (*ty).clone()).collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let strategy = Strategy::simple(channel);
        let (to, from) = partners(cx, &self.source_target_pairs, strategy)?;
        let process = &cx.interpreter.process;
        let meeting = |source: usize, target: usize| {
            let members = vec![source, target];
            Meeting { op: Self::NAME, channel, members }
        };
        if let Some(target) = to {
            process.post(meeting(process.id, target), parcel(cx)?);
        }
        let Some(source) = from else {
            let empty = |i| Ok(nothing(cx, &cx.tensor(i)?.ty)?.into());
            return (0..cx.operand_count()).map(empty).collect();
        };
        let got = process.take(&meeting(source, process.id), cx.interpreter.limits.deadline)?;
        for (i, value) in got.iter().enumerate() {
            let (found, wanted) = (value.ty(), cx.tensor(i)?.ty.clone());
            if found != Ty::Tensor(wanted.clone()) {
                return Err(cx.error(format!("{found} was sent where {wanted} is expected")));
            }
        }
        if got.len() == cx.operand_count() {
            Ok(got)
        } else {
            Err(cx.error("processes bring different numbers of operands"))
        }
    }

    columns!(Opaque, Exact, Missing("runs on several processes"));
}
