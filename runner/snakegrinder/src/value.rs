//! What a name of the exported graph stands for while it is lowered.
//!
//! Programs of StableHLO are functions of values; PyTorch's tensors share memory and are changed
//! in place. A [`Slot`] is a tensor as PyTorch sees it: its current value, and, if it is a view,
//! which tensor it is a view of. Writing to one writes through to what it views, and views of
//! what was written are taken anew when they are next read.

use warpforge_pt2::ScalarType;
use warpforge_snakeburger::eval::Num;
use warpforge_snakeburger::ir::DType;
use warpforge_snakeburger::ops;

use warpforge_snakeburger::build::{Emitter, V};

/// A tensor's place in [`Slots`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(usize);

/// An argument or result of a call.
#[derive(Clone, Debug)]
pub enum Val {
    None,
    Tensor(SlotId),
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Str(Box<str>),
    Type(ScalarType),
    List(Vec<Val>),
    /// A device, layout, memory format: where a tensor lies, which has no meaning here.
    Place,
}

/// How a view's elements lie in the tensor it views.
#[derive(Clone, Debug)]
pub enum View {
    /// The same elements in the same order.
    Reshape {
        outer: Vec<i64>,
        inner: Vec<i64>,
    },
    Permute(Vec<usize>),
    Slice {
        starts: Vec<i64>,
        limits: Vec<i64>,
        strides: Vec<i64>,
    },
    /// Repeated along new or size-one axes; cannot be written to.
    Expand(Vec<i64>),
    /// The diagonal of two axes, last in the result.
    Diagonal {
        offset: i64,
        first: usize,
        second: usize,
    },
    /// One part of a complex tensor.
    Part {
        imaginary: bool,
    },
    /// The tensor itself, but nothing flows back.
    Detached,
}

struct Slot {
    value: V,
    /// Counts the writes to this tensor.
    writes: u32,
    of: Option<Viewed>,
}

struct Viewed {
    base: SlotId,
    view: View,
    /// How often the base had been written to when this view was taken.
    seen: u32,
}

/// Every tensor of a function.
#[derive(Default)]
pub struct Slots(Vec<Slot>);

impl Slots {
    pub fn add(&mut self, value: V) -> SlotId {
        self.0.push(Slot { value, writes: 0, of: None });
        SlotId(self.0.len() - 1)
    }

    /// The tensor's current value.
    pub fn read(&mut self, e: &mut Emitter, id: SlotId) -> V {
        let Some(of) = &self.0[id.0].of else { return self.0[id.0].value };
        let (base, seen) = (of.base, of.seen);
        let value = self.read(e, base);
        let writes = self.0[base.0].writes;
        if writes != seen {
            let slot = &mut self.0[id.0];
            if let Some(of) = &mut slot.of {
                slot.value = of.view.take(e, value);
                of.seen = writes;
                slot.writes += 1;
            }
        }
        self.0[id.0].value
    }

    /// The tensor whose memory this one shares in the end.
    pub fn root(&self, id: SlotId) -> SlotId {
        match &self.0[id.0].of {
            Some(of) => self.root(of.base),
            None => id,
        }
    }

    /// A view of a tensor.
    pub fn view(&mut self, e: &mut Emitter, base: SlotId, view: View) -> SlotId {
        let whole = self.read(e, base);
        let value = view.take(e, whole);
        let seen = self.0[base.0].writes;
        self.0.push(Slot { value, writes: 0, of: Some(Viewed { base, view, seen }) });
        SlotId(self.0.len() - 1)
    }

    /// Changes a tensor in place; `None` if it is a view that cannot be written through.
    pub fn write(&mut self, e: &mut Emitter, id: SlotId, value: V) -> Option<()> {
        self.read(e, id);
        if let Some(of) = &self.0[id.0].of {
            let (base, view) = (of.base, of.view.clone());
            let whole = self.read(e, base);
            let whole = view.put(e, whole, value)?;
            self.write(e, base, whole)?;
            let writes = self.0[base.0].writes;
            if let Some(of) = &mut self.0[id.0].of {
                of.seen = writes;
            }
        }
        let slot = &mut self.0[id.0];
        slot.value = value;
        slot.writes += 1;
        Some(())
    }

    /// Makes a tensor the view of itself that another slot is: what was taken of it before stays
    /// as it is. `None` if the other is no view of it.
    pub fn adopt(&mut self, id: SlotId, as_view: SlotId) -> Option<()> {
        if id == as_view {
            return Some(());
        }
        let new = &self.0[as_view.0];
        let of = new.of.as_ref().filter(|of| of.base == id)?;
        let (value, view, seen) = (new.value, of.view.clone(), of.seen);
        let base = SlotId(self.0.len());
        let slot = &mut self.0[id.0];
        let old = Slot { value: slot.value, writes: slot.writes, of: slot.of.take() };
        slot.value = value;
        for other in &mut self.0 {
            if let Some(of) = &mut other.of
                && of.base == id
            {
                of.base = base;
            }
        }
        self.0[id.0].of = Some(Viewed { base, view, seen });
        self.0.push(old);
        Some(())
    }

    /// Whether the tensor was ever written to.
    pub fn written(&self, id: SlotId) -> bool {
        self.0[id.0].writes > 0
    }
}

impl View {
    /// The view of a tensor's value.
    fn take(&self, e: &mut Emitter, whole: V) -> V {
        match self {
            View::Reshape { inner, .. } => e.reshape(whole, inner),
            View::Permute(permutation) => e.transpose(whole, permutation),
            View::Slice { starts, limits, strides } => e.slice(whole, starts, limits, strides),
            View::Expand(dims) => e.broadcast_to(whole, dims),
            View::Detached if e.dtype(whole).is_float() || e.dtype(whole).is_complex() => {
                e.stop_gradient(whole)
            }
            View::Detached => whole,
            View::Diagonal { offset, first, second } => {
                diagonal(e, whole, *offset, *first, *second)
            }
            View::Part { imaginary } => {
                let ty = e.ty(whole).clone();
                let part = ty.with_elem(ty.elem.storage().part());
                if *imaginary {
                    e.push(ops::Imag {}, &[whole], part)
                } else {
                    e.push(ops::Real {}, &[whole], part)
                }
            }
        }
    }

    /// The whole tensor's value after the view was set to `part`.
    fn put(&self, e: &mut Emitter, whole: V, part: V) -> Option<V> {
        match self {
            View::Reshape { outer, .. } => Some(e.reshape(part, outer)),
            View::Permute(permutation) => {
                let mut inverse = vec![0; permutation.len()];
                permutation.iter().enumerate().for_each(|(to, from)| inverse[*from] = to);
                Some(e.transpose(part, &inverse))
            }
            View::Slice { starts, strides, .. } => Some(put_slice(e, whole, part, starts, strides)),
            View::Expand(dims) if e.dims(whole)[..] == dims[..] => Some(part),
            View::Expand(_) => None,
            View::Detached => Some(part),
            View::Diagonal { offset, first, second } => {
                Some(put_diagonal(e, whole, part, *offset, *first, *second))
            }
            View::Part { imaginary } => {
                let other = View::Part { imaginary: !imaginary }.take(e, whole);
                let parts = if *imaginary { [other, part] } else { [part, other] };
                let ty = e.ty(whole).clone();
                Some(e.push(ops::Complex {}, &parts, ty))
            }
        }
    }
}

fn put_slice(e: &mut Emitter, whole: V, part: V, starts: &[i64], strides: &[i64]) -> V {
    let (outer, inner) = (e.dims(whole), e.dims(part));
    if outer == inner {
        return part;
    }
    if inner.contains(&0) {
        return whole;
    }
    if strides.iter().all(|stride| *stride == 1) {
        let mut operands = vec![whole, part];
        for start in starts {
            operands.push(e.full(&[], DType::S64, Num::I(*start)));
        }
        return e.same(ops::DynamicUpdateSlice {}, &operands);
    }
    // Spread the part over the whole's shape, and choose by a mask spread alike.
    let inside: Vec<i64> = strides.iter().map(|stride| stride - 1).collect();
    let high: Vec<i64> =
        (0..outer.len()).map(|i| outer[i] - starts[i] - (inner[i] - 1) * strides[i] - 1).collect();
    let dtype = e.dtype(part);
    let spread = e.pad(part, starts, &high, &inside, Num::I(0).fit(dtype));
    let mask = e.full(&inner, DType::I1, Num::B(true));
    let mask = e.pad(mask, starts, &high, &inside, Num::B(false));
    e.select(mask, spread, whole)
}

/// The diagonal of two axes as the last axis.
fn diagonal(e: &mut Emitter, whole: V, offset: i64, first: usize, second: usize) -> V {
    let dims = e.dims(whole);
    let rest = (0..dims.len()).filter(|axis| *axis != first && *axis != second);
    let order: Vec<usize> = rest.chain([first, second]).collect();
    let moved = e.transpose(whole, &order);
    let rank = dims.len();
    let (rows, columns) = (dims[first], dims[second]);
    let (down, right) = ((-offset).max(0), offset.max(0));
    let length = (rows - down).min(columns - right).max(0);
    // Element k lies at down + k, right + k: flattened, every (columns + 1)-th element.
    let mut flat: Vec<i64> = e.dims(moved)[..rank - 2].to_vec();
    flat.push(rows * columns);
    let flat = e.reshape(moved, &flat);
    let start = down * columns + right;
    if length == 0 {
        return e.slice_axis(flat, rank - 2, 0, 0, 1);
    }
    let limit = start + (length - 1) * (columns + 1) + 1;
    e.slice_axis(flat, rank - 2, start, limit, columns + 1)
}

fn put_diagonal(e: &mut Emitter, whole: V, part: V, offset: i64, first: usize, second: usize) -> V {
    let dims = e.dims(whole);
    let rank = dims.len();
    let rest = (0..rank).filter(|axis| *axis != first && *axis != second);
    let order: Vec<usize> = rest.chain([first, second]).collect();
    let moved = e.transpose(whole, &order);
    let moved_dims = e.dims(moved);
    let (rows, columns) = (dims[first], dims[second]);
    let mut flat: Vec<i64> = moved_dims[..rank - 2].to_vec();
    flat.push(rows * columns);
    let flat = e.reshape(moved, &flat);
    let start = (-offset).max(0) * columns + offset.max(0);
    let mut starts = vec![0; rank - 1];
    let mut strides = vec![1; rank - 1];
    (starts[rank - 2], strides[rank - 2]) = (start, columns + 1);
    let changed = put_slice(e, flat, part, &starts, &strides);
    let changed = e.reshape(changed, &moved_dims);
    let mut inverse = vec![0; rank];
    order.iter().enumerate().for_each(|(to, from)| inverse[*from] = to);
    e.transpose(changed, &inverse)
}
