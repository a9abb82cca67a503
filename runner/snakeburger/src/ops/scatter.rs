//! Updates written, by a function of old and new elements, to where indices say.

use super::elementwise::Loop;
use super::indexing::{DimNumbers, Rules, bound, dim_at, is_index, per_tensor, same_elem};
use super::{Arity, Check, Count, Infer, OpDef};
use super::{fold, index_grad};
use crate::eval::{Cx, EvalError, EvalResult, Program, Tensor, Value, strides, unravel};
use crate::ir::{DType, Elem, Ints, Kind, TensorTy, Ty, dims_compatible};
use crate::text::Form;

struct_attr! {
    /// Which dimension plays which part.
    ScatterDims ("stablehlo.scatter", "an attribute #stablehlo.scatter<…>") {
        update_window_dims: Ints = Ints::default(),
        inserted_window_dims: Ints = Ints::default(),
        input_batching_dims: Ints = Ints::default(),
        scatter_indices_batching_dims: Ints = Ints::default(),
        scatter_dims_to_operand_dims: Ints = Ints::default(),
        index_vector_dim: i64 = 0,
    }
}

impl ScatterDims {
    fn numbers(&self) -> DimNumbers<'_> {
        DimNumbers {
            window: &self.update_window_dims,
            dropped: &self.inserted_window_dims,
            batching: &self.input_batching_dims,
            index_batching: &self.scatter_indices_batching_dims,
            map: &self.scatter_dims_to_operand_dims,
            vector: self.index_vector_dim,
        }
    }
}

const RULES: Rules = Rules {
    window: "update_window_dims",
    dropped: "inserted_window_dims",
    batching: "input_batching_dims",
    index_batching: "scatter_indices_batching_dims",
    map: "scatter_dims_to_operand_dims",
    rank: "C2",
    vector_range: "C22",
    map_size: "C19",
    window_sorted: "C7",
    window_range: "C8",
    dropped_unique: "C9",
    dropped_sorted: "C10",
    dropped_range: "C11",
    batching_sorted: "C12",
    batching_range: "C13",
    index_batching_unique: "C14",
    index_batching_range: "C15",
    vector_apart: "C16",
    batching_count: "C17",
    batching_sizes: "C18",
    map_unique: "C20",
    map_range: "C21",
};

payload! {
    /// Combines updates with the elements of inputs that indices name.
    Scatter {
        scatter_dimension_numbers: ScatterDims,
        indices_are_sorted: bool = false,
        unique_indices: bool = false,
    }
}

impl OpDef for Scatter {
    const NAME: &'static str = "stablehlo.scatter";
    const FORM: Form = Form::Generic;
    const ARITY: Arity = Arity {
        operands: Count::AtLeast(1),
        results: Count::AtLeast(1),
        regions: Count::Exactly(1),
        tensors: true,
    };

    fn check(&self, c: &mut Check<'_>) {
        let before = c.problem_count();
        let count = c.operand_types().len();
        let n = count / 2;
        if count.is_multiple_of(2) || n == 0 {
            let message = format!("{count} operands are not n inputs, indices and n updates");
            return c.fail("C5", message);
        }
        let (inputs, indices) = (c.operands(0)[..n].to_vec(), c.operand(n));
        let updates = c.operands(n + 1);
        c.require(is_index(indices), "I2", || format!("the indices {indices} must be integers"));
        for (input, update) in inputs.iter().zip(&updates) {
            per_tensor(c, "I1", input);
            same_elem(c, "C6", input, update);
            same_shape(c, "C1", inputs[0], input);
            same_shape(c, "C3", updates[0], update);
        }
        self.scatter_dimension_numbers.numbers().check(
            c,
            inputs[0],
            indices,
            updates[0].rank(),
            &RULES,
        );
        if c.problem_count() == before {
            self.check_updates(c, inputs[0], indices, updates[0]);
        }
        check_computation(c, &inputs);
    }

    fn infer(&self, c: &Check<'_>) -> Infer {
        let arguments = c.region(0).arguments;
        let n = c.operand_types().len() / 2;
        let types = (0..n).map(|i| match arguments.get(i).and_then(|ty| ty.as_tensor()) {
            Some(scalar) => Ty::Tensor(c.operand(i).with_elem(scalar.elem.clone())),
            None => Ty::Tensor(c.operand(i).clone()),
        });
        Infer::Types(types.collect())
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let n = cx.operand_count() / 2;
        let mut results = Vec::with_capacity(n);
        let mut updates = Vec::with_capacity(n);
        for i in 0..n {
            let elem = &cx.result_ty(i)?.elem;
            results.push(to_elem(cx.tensor(i)?, elem));
            updates.push(to_elem(cx.tensor(n + 1 + i)?, elem));
            results[i].ty = cx.result_of(i, results[i].dims())?;
        }
        let targets = self.targets(cx, &results, cx.tensor(n)?, &updates)?;
        match cx.program(0)? {
            Some(program) if run_rows(cx, &program, &targets, &mut results, &updates)? => {}
            Some(program) => run_program(cx, &program, &targets, &mut results, &updates)?,
            None => run_region(cx, &targets, &mut results, &updates)?,
        }
        Ok(results.into_iter().map(Value::from).collect())
    }

    columns!(Opaque, Accumulated, Rule(index_grad::of_scatter));
}

fn same_shape(c: &mut Check<'_>, number: &str, a: &TensorTy, b: &TensorTy) {
    c.require(dims_compatible(&a.dims, &b.dims), number, || format!("{a} and {b} differ in shape"));
}

/// Whether one element type can become another without loss of range.
fn promotable(from: &Elem, to: &Elem) -> bool {
    let family = |elem: &Elem| match elem {
        Elem::Quant(quant) => (None, Some(quant.expressed)),
        Elem::Plain(dtype) => match dtype.kind() {
            Kind::Signed | Kind::Unsigned => (Some(Kind::Signed), None),
            kind => (Some(kind), None),
        },
    };
    family(from) == family(to) && from.storage().bits() <= to.storage().bits()
}

/// C23 to C25: the region's type, and the results' that follows from it.
fn check_computation(c: &mut Check<'_>, inputs: &[&TensorTy]) {
    let n = inputs.len();
    let arguments = c.region(0).arguments;
    let scalar = |i: usize| match arguments.get(i).and_then(|ty| ty.as_tensor()) {
        Some(ty) if ty.rank() == 0 => ty.elem.clone(),
        _ => inputs[i].elem.clone(),
    };
    let elems: Vec<Elem> = (0..n).map(scalar).collect();
    let scalars: Vec<Ty> = elems.iter().map(|elem| TensorTy::scalar(elem.clone()).into()).collect();
    c.region_is(0, "C23", &[scalars.clone(), scalars.clone()].concat(), &scalars);
    for (input, elem) in inputs.iter().zip(&elems) {
        c.require(promotable(&input.elem, elem), "C23", || {
            format!("the elements of {input} cannot be promoted to {elem}")
        });
    }
    let results = c.result_types().len();
    c.require(results == n, "C24", || format!("{results} results for {n} inputs"));
    for (i, (input, elem)) in inputs.iter().zip(&elems).enumerate().take(results) {
        let result = c.result(i);
        same_shape(c, "C24", input, result);
        c.require(result.elem == *elem, "C25", || {
            format!("result {i} is {result}, the computation yields {elem}")
        });
    }
}

impl Scatter {
    /// C4: the updates' shape.
    fn check_updates(
        &self,
        c: &mut Check<'_>,
        input: &TensorTy,
        indices: &TensorTy,
        updates: &TensorTy,
    ) {
        let numbers = self.scatter_dimension_numbers.numbers();
        let batch = numbers.batch_sizes(&indices.dims);
        let window: Vec<i64> = numbers.window.iter().map(|d| updates.dims[*d as usize]).collect();
        let wanted = updates.with_dims(numbers.combine(&batch, &window));
        c.require(dims_compatible(&updates.dims, &wanted.dims), "C4", || {
            format!("the updates are {updates}, they must be {wanted}")
        });
        for (size, d) in window.iter().zip(numbers.window_of(input.rank())) {
            c.require(*size <= bound(input.dims[d]), "C4", || {
                format!("a window of size {size} along dimension {d} of {input}")
            });
        }
    }

    /// Where the updates go, once all shapes are known.
    fn targets(
        &self,
        cx: &Cx<'_, '_>,
        results: &[Tensor],
        indices: &Tensor,
        updates: &[Tensor],
    ) -> EvalResult<Targets> {
        let numbers = self.scatter_dimension_numbers.numbers();
        let (result, update) = (&results[0], &updates[0]);
        let batch = numbers.batch_of(update.rank());
        let batch_dims: Vec<i64> = batch.iter().map(|d| update.dims()[*d]).collect();
        let length = dim_at(&indices.ty, numbers.vector).unwrap_or(1);
        let pairs = numbers.batching.iter().zip(numbers.index_batching);
        let fits = results.iter().all(|other| other.dims() == result.dims())
            && updates.iter().all(|other| other.dims() == update.dims())
            && batch_dims == numbers.batch_sizes(indices.dims())
            && length == numbers.map.len() as i64
            && pairs.into_iter().all(|(d, i)| dim_at(&result.ty, *d) == dim_at(&indices.ty, *i));
        if !fits {
            return Err(mismatch(cx, result, indices, update));
        }
        let mut roles = vec![Role::Batch(0); update.rank()];
        for (d, stride) in batch.into_iter().zip(strides(&batch_dims)) {
            roles[d] = Role::Batch(stride);
        }
        for (d, along) in numbers.window.iter().zip(numbers.window_of(result.rank())) {
            roles[*d as usize] = Role::Window(along);
        }
        // Without updates there may be more windows than memory has room for.
        let none = update.count() == 0;
        Ok(Targets {
            starts: if none { Vec::new() } else { numbers.starts(indices, result.rank()) },
            roles,
            count: update.count(),
            updates: update.dims().to_vec(),
            results: result.dims().to_vec(),
        })
    }
}

fn mismatch(cx: &Cx<'_, '_>, result: &Tensor, indices: &Tensor, update: &Tensor) -> EvalError {
    let (result, indices, update) = (&result.ty, &indices.ty, &update.ty);
    cx.error(format!("inputs {result}, indices {indices} and updates {update} do not fit together"))
}

/// What a dimension of the updates counts.
#[derive(Clone, Copy)]
enum Role {
    /// Windows; with its stride among them.
    Batch(usize),
    /// Elements along a dimension of the result.
    Window(usize),
}

/// Where each update goes.
struct Targets {
    /// Where each window starts: a row of the result's rank each.
    starts: Vec<i64>,
    /// Per dimension of the updates.
    roles: Vec<Role>,
    count: usize,
    updates: Vec<i64>,
    results: Vec<i64>,
}

impl Targets {
    /// Pairs of an update and the result element it goes to, in the updates' order; updates
    /// outside the result are left out.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count).filter_map(|update| Some((update, self.at(update)?)))
    }

    /// The length of rows of updates that go to rows of the result, if their last dimension is
    /// the result's own.
    fn row(&self) -> Option<usize> {
        let (length, last) = (*self.updates.last()?, self.results.len().checked_sub(1)?);
        let starts_at_zero = || self.starts.iter().skip(last).step_by(last + 1).all(|i| *i == 0);
        let whole = matches!(self.roles.last(), Some(Role::Window(d)) if *d == last)
            && length == self.results[last]
            && length > 0
            && starts_at_zero();
        whole.then_some(length as usize)
    }

    fn at(&self, update: usize) -> Option<usize> {
        let index = unravel(update, &self.updates);
        let window: usize = self.roles.iter().zip(&index).fold(0, |at, (role, i)| match role {
            Role::Batch(stride) => at + *i as usize * stride,
            Role::Window(_) => at,
        });
        let rank = self.results.len();
        let mut place =
            smallvec::SmallVec::<[i64; 6]>::from_slice(&self.starts[window * rank..][..rank]);
        for (role, i) in self.roles.iter().zip(&index) {
            if let Role::Window(d) = role {
                place[*d] = place[*d].saturating_add(*i);
            }
        }
        place.iter().zip(&self.results).try_fold(0usize, |at, (i, dim)| {
            (0..*dim).contains(i).then(|| at * *dim as usize + *i as usize)
        })
    }
}

/// The same values as elements of another type.
fn to_elem(tensor: &Tensor, elem: &Elem) -> Tensor {
    if tensor.ty.elem == *elem {
        return tensor.clone();
    }
    let ty = TensorTy::new(tensor.dims().iter().copied(), elem.clone());
    if tensor.ty.elem.quant().is_some() || elem.quant().is_some() {
        let values = tensor.real_values();
        return Tensor::quantize(ty, |i| values[i]);
    }
    let (from, to) = (tensor.storage(), elem.storage());
    Tensor::from_nums(ty, |i| tensor.get(i).convert_from(from, to))
}

/// Updates that may pass between two looks at the clock.
const PATIENCE: usize = 1 << 14;

/// Whole rows of f32 at once, where the region is one arithmetic operation and the updates' last
/// dimension is the results'. Whether it was done.
fn run_rows(
    cx: &Cx<'_, '_>,
    program: &Program,
    targets: &Targets,
    results: &mut [Tensor],
    updates: &[Tensor],
) -> EvalResult<bool> {
    let ([result], [update]) = (&mut *results, updates) else { return Ok(false) };
    let narrow = |tensor: &Tensor| tensor.ty.elem.plain() == Some(DType::F32);
    let row = fold::row_of(program).map(|(_, row)| row.in_place);
    let (Some(Loop::Two(run)), Some(length)) = (row, targets.row()) else { return Ok(false) };
    if !narrow(result) || !narrow(update) {
        return Ok(false);
    }
    let (old, new): (&mut [f32], &[f32]) = (result.data.as_mut_slice(), update.data.as_slice());
    for (i, new) in new.chunks_exact(length).enumerate() {
        if i % PATIENCE == 0 {
            cx.interpreter.check_time()?;
        }
        // A row lies within the results or outside them, whole.
        if let Some(place) = targets.at(i * length) {
            run(&mut old[place..place + length], new);
        }
    }
    Ok(true)
}

fn run_program(
    cx: &Cx<'_, '_>,
    program: &Program,
    targets: &Targets,
    results: &mut [Tensor],
    updates: &[Tensor],
) -> EvalResult<()> {
    let n = results.len();
    let mut scratch = program.scratch();
    for (passed, (update, place)) in targets.pairs().enumerate() {
        if passed % PATIENCE == 0 {
            cx.interpreter.check_time()?;
        }
        for i in 0..n {
            scratch[i] = results[i].get(place);
            scratch[n + i] = updates[i].get(update);
        }
        program.run(&mut scratch);
        for (i, result) in results.iter_mut().enumerate() {
            result.set(place, program.output(&scratch, i));
        }
    }
    Ok(())
}

/// For regions that are more than arithmetic on single elements.
fn run_region(
    cx: &mut Cx<'_, '_>,
    targets: &Targets,
    results: &mut [Tensor],
    updates: &[Tensor],
) -> EvalResult<()> {
    let element = |tensor: &Tensor, i: usize| -> Value {
        tensor.gather_elements([], None, |_| Some(i)).into()
    };
    for (update, place) in targets.pairs() {
        let old = results.iter().map(|tensor| element(tensor, place));
        let new = updates.iter().map(|tensor| element(tensor, update));
        let values = cx.region(0, old.chain(new).collect())?;
        for (result, value) in results.iter_mut().zip(values) {
            let Value::Tensor(value) = value else {
                return Err(cx.error("the computation yields no tensor"));
            };
            let size = result.storage().bytes();
            result.data.bytes_mut()[place * size..][..size].copy_from_slice(value.data.bytes());
        }
    }
    Ok(())
}
