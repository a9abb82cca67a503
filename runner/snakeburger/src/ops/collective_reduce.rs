//! Collectives that combine the values of several processes.

use super::collective::{
    MANY, gathered, no_group, nothing, parcel, part, roots, roots_ty, same_count,
};
use super::groups::{ChannelHandle, ReplicaGroups, Strategy, channel_of, exchange, group_of};
use super::{Add, Arity, Check, Count, Infer, OpDef};
use crate::eval::parallel::Parcel;
use crate::eval::{Cx, EvalResult, Num, Tensor, Value};
use crate::ir::{DType, DYNAMIC, Elem, Kind, TensorTy, Ty, dims_compatible};
use crate::text::Form;

/// Whether values of one element type may be combined in another.
fn promotable(from: &Elem, to: &Elem) -> bool {
    match (from, to) {
        (Elem::Quant(x), Elem::Quant(y)) => {
            x.expressed == y.expressed && x.storage.bits() <= y.storage.bits()
        }
        (Elem::Plain(x), Elem::Plain(y)) => {
            let kind = |dtype: &DType| match dtype.kind() {
                Kind::Unsigned => Kind::Signed,
                kind => kind,
            };
            kind(x) == kind(y) && x.bits() <= y.bits()
        }
        _ => false,
    }
}

/// The element type the region combines in, if it takes two scalars of one type and yields one.
fn region_elem(c: &Check<'_>) -> Option<Elem> {
    let region = c.region(0);
    let [Ty::Tensor(lhs), Ty::Tensor(rhs)] = region.arguments[..] else { return None };
    let [Ty::Tensor(out)] = region.results[..] else { return None };
    (lhs.rank() == 0 && lhs == rhs && rhs == out).then(|| lhs.elem.clone())
}

fn check_computation(c: &mut Check<'_>, number: &str, data: usize) -> Option<Elem> {
    let Some(elem) = region_elem(c) else {
        c.fail(number, "the computation must be (tensor<E>, tensor<E>) -> tensor<E>");
        return None;
    };
    for (i, ty) in c.operands(0).into_iter().take(data).enumerate() {
        c.require(promotable(&ty.elem, &elem), number, || {
            format!("operand {i}, {ty}, does not fit a computation in {elem}")
        });
    }
    Some(elem)
}

/// Results of the operands' shapes in the computation's element type.
fn check_results(c: &mut Check<'_>, elem: Option<&Elem>, data: usize, shape: &str, of: &str) {
    same_count(c, shape, data);
    for i in 0..data.min(c.result_types().len()) {
        let (ty, result) = (c.operand(i), c.result(i));
        c.require(dims_compatible(&ty.dims, &result.dims), shape, || {
            format!("operand {i} is {ty}, result {i} is {result}")
        });
        c.require(elem.is_none_or(|elem| *elem == result.elem), of, || {
            format!("result {i} is {result}, the computation is in another type")
        });
    }
}

/// A tensor in the element type of a computation.
fn to_elem(tensor: &Tensor, elem: &Elem) -> Tensor {
    if tensor.ty.elem == *elem {
        return tensor.clone();
    }
    let ty = tensor.ty.with_elem(elem.clone());
    if elem.quant().is_some() {
        let real = tensor.real_values();
        return Tensor::quantize(ty, |i| real[i]);
    }
    let (from, to) = (tensor.storage(), elem.storage());
    Tensor::from_nums(ty, |i| tensor.get(i).convert_from(from, to))
}

/// Combines tensors element by element, in order, with region 0.
fn combine(cx: &mut Cx<'_, '_>, tensors: &[&Tensor], elem: &Elem) -> EvalResult<Tensor> {
    let mut sum = to_elem(tensors[0], elem);
    let program = cx.program(0)?;
    for next in &tensors[1..] {
        let next = to_elem(next, elem);
        sum = match &program {
            Some(program) => {
                let pair = |i: usize| {
                    let mut scratch = program.scratch();
                    (scratch[0], scratch[1]) = (sum.get(i), next.get(i));
                    program.run(&mut scratch);
                    program.output(&scratch, 0)
                };
                Tensor::from_nums(sum.ty.clone(), pair)
            }
            None => combine_slowly(cx, &sum, &next)?,
        };
    }
    Ok(sum)
}

/// As [`combine`] for a region that is no straight line of scalar operations.
fn combine_slowly(cx: &mut Cx<'_, '_>, x: &Tensor, y: &Tensor) -> EvalResult<Tensor> {
    let mut out = Tensor::zeros(x.ty.clone());
    let scalar = |tensor: &Tensor, i| {
        let one = tensor.gather_elements([], None, |_| Some(i));
        Value::Tensor(one)
    };
    for i in 0..x.count() {
        let yielded = cx.region(0, vec![scalar(x, i), scalar(y, i)])?;
        match &yielded[..] {
            [Value::Tensor(one)] if one.storage() == out.storage() => out.set(i, one.get(0)),
            _ => return Err(cx.error("the computation must yield one scalar")),
        }
    }
    Ok(out)
}

/// What a group's processes brought for operand `i`, combined.
fn reduced(cx: &mut Cx<'_, '_>, parcels: &[Parcel], i: usize) -> EvalResult<Tensor> {
    let tensors = gathered(cx, parcels, i)?;
    let elem = cx.result_ty(i)?.elem.clone();
    cx.allow(&tensors[0].ty)?;
    combine(cx, &tensors, &elem)
}

payload! {
    /// Every process of a group gets the combination of all their values.
    AllReduce {
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
        use_global_device_ids: bool = false,
    }
}

impl OpDef for AllReduce {
    const NAME: &'static str = "stablehlo.all_reduce";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY.with_regions(1);

    fn check(&self, c: &mut Check<'_>) {
        self.replica_groups.check(c, "C1", "C3", true);
        let channel = channel_of(self.channel_handle);
        c.require(!self.use_global_device_ids || channel > 0, "C4", || {
            format!("use_global_device_ids with channel_id {channel}")
        });
        let data = c.operand_types().len();
        let elem = check_computation(c, "C5", data);
        check_results(c, elem.as_ref(), data, "C6", "C7");
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let Some(elem) = region_elem(c) else { return Infer::Declared };
        let types = c.operands(0).into_iter().map(|ty| ty.with_elem(elem.clone()).into());
        Infer::Types(types.collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let strategy = Strategy::global(channel, self.use_global_device_ids);
        let Some(group) = group_of(cx, &self.replica_groups, strategy)? else {
            return Err(no_group(cx));
        };
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        (0..cx.operand_count()).map(|i| Ok(reduced(cx, &parcels, i)?.into())).collect()
    }

    columns!(Opaque, Accumulated, Missing("runs on several processes"));
}

payload! {
    /// The combination of a group's values, a part of it for each process.
    ReduceScatter {
        scatter_dimension: i64,
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
        use_global_device_ids: bool = false,
    }
}

impl ReduceScatter {
    fn strategy(&self) -> Strategy {
        Strategy::global(channel_of(self.channel_handle), self.use_global_device_ids)
    }

    /// The operand's shape with one dimension split; unknown where the grid decides.
    fn shape(&self, ty: &TensorTy) -> Vec<i64> {
        let mut dims = ty.dims.to_vec();
        let Some(dim) = dims.get_mut(self.scatter_dimension as usize) else { return dims };
        let known = self.strategy() != Strategy::CrossReplicaAndPartition;
        *dim = match self.replica_groups.width().filter(|_| known) {
            Some(width) if *dim != DYNAMIC => *dim / width,
            _ => DYNAMIC,
        };
        dims
    }
}

impl OpDef for ReduceScatter {
    const NAME: &'static str = "stablehlo.reduce_scatter";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1).with_regions(1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result, dim) = (c.operand(0), c.result(0), self.scatter_dimension);
        c.require((0..operand.rank() as i64).contains(&dim), "C2", || {
            format!("scatter_dimension {dim} is no dimension of {operand}")
        });
        let size = operand.dims.get(dim as usize).copied().unwrap_or(DYNAMIC);
        let width = self.replica_groups.width().unwrap_or(1);
        c.require(size == DYNAMIC || size % width == 0, "C1", || {
            format!("dimension {dim} of {operand} does not split into {width} parts")
        });
        self.replica_groups.check(c, "C3", "C5", true);
        let channel = channel_of(self.channel_handle);
        c.require(!self.use_global_device_ids || channel > 0, "C6", || {
            format!("use_global_device_ids with channel_id {channel}")
        });
        let elem = check_computation(c, "C7", 1);
        let wanted = self.shape(operand);
        c.require(dims_compatible(&wanted, &result.dims), "C8", || {
            format!("{operand} becomes {result}, in groups of {width}")
        });
        c.require(elem.is_none_or(|elem| elem == result.elem), "C9", || {
            format!("the result is {result}, the computation is in another type")
        });
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let Some(group) = group_of(cx, &self.replica_groups, self.strategy())? else {
            return Err(no_group(cx));
        };
        let place = group.iter().position(|id| *id == cx.interpreter.process.id);
        let place = place.ok_or_else(|| no_group(cx))?;
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        let whole = reduced(cx, &parcels, 0)?;
        let (dim, count) = (self.scatter_dimension as usize, group.len());
        if whole.dims()[dim] % count as i64 != 0 {
            return Err(cx.error(format!("{} does not split into {count} parts", whole.ty)));
        }
        let part = part(&whole, dim, count, place);
        cx.result_of(0, part.dims())?;
        Ok(vec![part.into()])
    }

    columns!(Opaque, Accumulated, Missing("runs on several processes"));
}

payload! {
    /// One process of each group gets the combination of the group's values, the others zeros.
    CollectiveReduce {
        replica_groups: ReplicaGroups,
        channel_handle: Option<ChannelHandle> = None,
        has_dynamic_root: bool = false,
    }
}

impl OpDef for CollectiveReduce {
    const NAME: &'static str = "stablehlo.collective_reduce";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = MANY.with_regions(1);

    fn check(&self, c: &mut Check<'_>) {
        self.replica_groups.check(c, "C1", "C2", false);
        let operands = c.operand_types().len();
        let mut data = operands;
        if self.has_dynamic_root {
            data = operands.saturating_sub(1);
            let (found, wanted) = (c.operand_types()[operands - 1], roots_ty(operands));
            c.require(found.compatible(&wanted), "C3", || {
                format!("the root is {found}, it must be {wanted}")
            });
        }
        let elem = check_computation(c, "C4", data);
        check_results(c, elem.as_ref(), data, "C3", "C4");
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let channel = channel_of(self.channel_handle);
        let results = cx.operand_count() - usize::from(self.has_dynamic_root);
        let empty = |cx: &Cx<'_, '_>, i| {
            let ty = cx.result_of(i, cx.tensor(i)?.dims())?;
            Ok(nothing(cx, &ty)?.into())
        };
        let Some(group) = group_of(cx, &self.replica_groups, Strategy::simple(channel))? else {
            return (0..results).map(|i| empty(cx, i)).collect();
        };
        let roots = roots(cx, self.has_dynamic_root, group.len(), results)?;
        let parcels = exchange(cx, Self::NAME, channel, &group, parcel(cx)?)?;
        let own = cx.interpreter.process.id;
        let one = |(i, root): (usize, usize)| {
            if group[root] == own { Ok(reduced(cx, &parcels, i)?.into()) } else { empty(cx, i) }
        };
        roots.into_iter().enumerate().map(one).collect()
    }

    columns!(Opaque, Accumulated, Missing("runs on several processes"));
}

payload! {
    /// The sum over replicas; deprecated in favour of `all_reduce`.
    CrossReplicaSum { replica_groups: ReplicaGroups }
}

impl OpDef for CrossReplicaSum {
    const NAME: &'static str = "stablehlo.cross-replica-sum";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        self.replica_groups.check(c, "", "", true);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        Infer::Types(vec![c.operand(0).clone().into()])
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let Some(group) = group_of(cx, &self.replica_groups, Strategy::CrossReplica)? else {
            return Err(no_group(cx));
        };
        let parcels = exchange(cx, Self::NAME, 0, &group, parcel(cx)?)?;
        let tensors = gathered(cx, &parcels, 0)?;
        let ty = cx.result_of(0, tensors[0].dims())?;
        if ty.elem.quant().is_some() {
            let real: Vec<_> = tensors.iter().map(|tensor| tensor.real_values()).collect();
            let sum = |i: usize| real.iter().map(|values| values[i]).sum();
            return Ok(vec![Tensor::quantize(ty, sum).into()]);
        }
        let dtype = ty.elem.storage();
        let add = |x: Num, y: Num| Add::ROW.num(&[x, y], dtype).fit(dtype);
        let sum = |i: usize| tensors[1..].iter().fold(tensors[0].get(i), |x, t| add(x, t.get(i)));
        Ok(vec![Tensor::from_nums(ty, sum).into()])
    }

    columns!(Opaque, Accumulated, Missing("runs on several processes"));
}
