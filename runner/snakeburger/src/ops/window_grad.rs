//! Derivatives of sliding windows.

use super::Direction;
use super::reduce_grad::fold_of;
use super::reduce_window::ReduceWindow;
use super::select_and_scatter::SelectAndScatter;
use super::windows::Window as Slide;
use crate::build::{Emitter, Fold, V, Window};
use crate::derive::{Derive, Derived};
use crate::eval::Num;
use crate::ir::{DType, TensorTy};

pub(crate) fn of_reduce_window(op: &ReduceWindow, d: &mut Derive<'_>) -> Derived {
    let region = d.regions()[0];
    let Some(fold) = fold_of(d.e, region).filter(|_| d.operands().len() == 2) else {
        return Err("reduces windows by a function that has no derivative here".into());
    };
    if d.wants(1) {
        return Err("is differentiated by its initial value".into());
    }
    let x = d.operand(0);
    let dims = d.e.dims(x);
    let Some(windows) = op.windows(dims.len()) else { return Err("has bad windows".into()) };
    let slides = windows.dims;
    d.one(0, |e, g| {
        if e.dims(g).contains(&0) || dims.contains(&0) {
            return e.zeros_like(x);
        }
        match fold {
            Fold::Max | Fold::Min => extreme(e, x, g, &slides, fold),
            _ => sum(e, g, &dims, &slides),
        }
    })?;
    if matches!(fold, Fold::Mul) { Err("multiplies windows".into()) } else { Ok(()) }
}

/// The sum of the cotangents of all windows an element is in: windows over the cotangent.
fn sum(e: &mut Emitter, g: V, dims: &[i64], slides: &[Slide]) -> V {
    let counts = e.dims(g);
    let mut window = Window::new(dims.len());
    for (i, slide) in slides.iter().enumerate() {
        let reach = (slide.size - 1) * slide.dilation;
        let (spread, own) =
            ((counts[i] - 1) * slide.stride + 1, (dims[i] - 1) * slide.base_dilation + 1);
        let low = reach - slide.padding[0];
        window.sizes[i] = slide.size;
        window.dilation[i] = slide.dilation;
        window.base[i] = slide.stride;
        window.strides[i] = slide.base_dilation;
        (window.low[i], window.high[i]) = (low, own + reach - spread - low);
    }
    e.reduce_window(g, Fold::Add, &window)
}

/// Whether the element found so far stays: the first of equals, the last of NaNs.
fn stays(e: &mut Emitter, best: V, next: V, fold: Fold) -> V {
    let direction = if fold == Fold::Min { Direction::Lt } else { Direction::Gt };
    let better = e.compare(direction, next, best);
    let nan = e.compare(Direction::Ne, next, next);
    let taken = e.same(super::Or {}, &[better, nan]);
    e.same(super::Not {}, &[taken])
}

fn extreme(e: &mut Emitter, x: V, g: V, slides: &[Slide], fold: Fold) -> V {
    let plain = slides.iter().all(|slide| slide.dilation == 1 && slide.base_dilation == 1);
    if plain { by_selection(e, x, g, slides, fold) } else { by_place(e, x, g, slides, fold) }
}

fn by_selection(e: &mut Emitter, x: V, g: V, slides: &[Slide], fold: Fold) -> V {
    let dtype = e.dtype(x);
    let scalar = TensorTy::scalar(dtype);
    let select =
        e.region(&[scalar.clone(), scalar], |e, args| vec![stays(e, args[0], args[1], fold)]);
    let scatter = e.folder(Fold::Add, dtype);
    let start = e.zeros(&[], dtype);
    let op = SelectAndScatter {
        window_dimensions: Some(slides.iter().map(|slide| slide.size).collect()),
        window_strides: Some(slides.iter().map(|slide| slide.stride).collect()),
        padding: window(slides).op().padding,
    };
    let ty = e.ty(x).clone();
    e.push_many(op, &[x, g, start], &[ty], &[select, scatter])[0]
}

fn window(slides: &[Slide]) -> Window {
    let mut window = Window::new(slides.len());
    for (i, slide) in slides.iter().enumerate() {
        window.sizes[i] = slide.size;
        window.strides[i] = slide.stride;
        window.dilation[i] = slide.dilation;
        window.base[i] = slide.base_dilation;
        (window.low[i], window.high[i]) = (slide.padding[0], slide.padding[1]);
    }
    window
}

/// With holes: each window's choice is found by its number, to which the cotangent is added.
fn by_place(e: &mut Emitter, x: V, g: V, slides: &[Slide], fold: Fold) -> V {
    let ty = e.ty(x).clone();
    let dtype = ty.elem.storage();
    let count: i64 = ty.dims.iter().product();
    let line = e.iota(&[count], DType::S64, 0);
    let numbers = e.reshape(line, &ty.dims);
    let (value, place) = (TensorTy::scalar(dtype), TensorTy::scalar(DType::S64));
    let types = [value.clone(), place.clone(), value, place];
    let region = e.region(&types, |e, args| {
        let stays = stays(e, args[0], args[2], fold);
        let unset = e.compare_to(Direction::Lt, args[1], 0.0);
        let padding = e.compare_to(Direction::Lt, args[3], 0.0);
        let set = e.same(super::Not {}, &[unset]);
        let keeps = e.same(super::And {}, &[stays, set]);
        let keeps = e.same(super::Or {}, &[keeps, padding]);
        vec![e.select(keeps, args[0], args[2]), e.select(keeps, args[1], args[3])]
    });
    let start = e.neutral(fold, dtype);
    let none = e.full(&[], DType::S64, Num::I(-1));
    let counts = e.dims(g);
    let results = [e.ty(g).clone(), TensorTy::new(counts.iter().copied(), DType::S64)];
    let operands = [x, numbers, start, none];
    let chosen = e.push_many(window(slides).op(), &operands, &results, &[region])[1];
    let many: i64 = counts.iter().product();
    let (chosen, g) = (e.reshape(chosen, &[many]), e.reshape(g, &[many]));
    let zeros = e.zeros(&[count], dtype);
    let flat = e.scatter_at(zeros, &[0], &[chosen], 0, g, Some(Fold::Add));
    e.reshape(flat, &ty.dims)
}

/// What was scattered is read where its window selected.
pub(crate) fn of_select_and_scatter(op: &SelectAndScatter, d: &mut Derive<'_>) -> Derived {
    let (x, source) = (d.operand(0), d.operand(1));
    let regions = d.regions();
    if fold_of(d.e, regions[1]) != Some(Fold::Add) {
        return Err("scatters by a function that is no sum".into());
    }
    let Some(windows) = op.windows(d.e.rank(x)) else { return Err("has bad windows".into()) };
    let ty = d.e.ty(source).clone();
    d.one(1, |e, g| {
        let dtype = e.dtype(g);
        let dims = e.dims(x);
        let real = e.full(&dims, DType::I1, Num::B(true));
        let (value, truth) = (TensorTy::scalar(dtype), TensorTy::scalar(DType::I1));
        let side = [value.clone(), value, truth];
        let types = [side.clone(), side].concat();
        let body = e.region(&types, |e, args| {
            let [a, ga, real_a, b, gb, real_b] = [0, 1, 2, 3, 4, 5].map(|i| args[i]);
            let keep = e.replay(regions[0], &[a, b])[0];
            let keep = e.same(super::And {}, &[keep, real_a]);
            let missing = e.same(super::Not {}, &[real_b]);
            let keep = e.same(super::Or {}, &[keep, missing]);
            vec![e.select(keep, a, b), e.select(keep, ga, gb), e.select(keep, real_a, real_b)]
        });
        let zero = e.zeros(&[], dtype);
        let no = e.full(&[], DType::I1, Num::B(false));
        let results = [ty.clone(), ty.clone(), ty.with_elem(DType::I1)];
        let window = window(&windows.dims).op();
        e.push_many(window, &[x, g, real, zero, zero, no], &results, &[body])[1]
    })?;
    d.one(2, |e, g| {
        let all: Vec<usize> = (0..e.rank(g)).collect();
        e.reduce(g, Fold::Add, &all)
    })
}
