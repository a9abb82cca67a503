//! Deprecated Einstein sums, lowered to the same core as `dot_general`.

use super::dot::{DotDims, contract};
use super::shape::transpose;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalError, EvalResult, Num, Tensor, strides, unravel};
use crate::ir::{Ints, TensorTy};
use crate::text::{Form, Types, Word};

/// The first of the labels that stand for the dimensions under an ellipsis.
const ELLIPSIS: u32 = 0xE000;

/// A formula such as `ij,jk->ik`: the labels of each operand's dimensions and of the result's.
#[derive(Debug, PartialEq)]
struct Formula {
    operands: Vec<Vec<char>>,
    result: Vec<char>,
}

impl Formula {
    /// Reads a formula for operands of these ranks.
    fn read(text: &str, ranks: &[usize]) -> Result<Formula, String> {
        let (left, right) =
            text.split_once("->").ok_or_else(|| format!("\"{text}\" has no `->`"))?;
        let sides: Vec<&str> = left.split(',').collect();
        if sides.len() != ranks.len() {
            return Err(format!("\"{text}\" is for {} operands, not {}", sides.len(), ranks.len()));
        }
        let mut widest = 0;
        let mut operands = Vec::new();
        for (side, rank) in sides.iter().zip(ranks) {
            let letters = side.chars().filter(|c| c.is_alphabetic()).count();
            let hidden = rank.saturating_sub(letters);
            let labels = labels(side, hidden)?;
            if labels.len() != *rank {
                return Err(format!("\"{side}\" names {} of {rank} dimensions", labels.len()));
            }
            widest = if side.contains("...") { hidden.max(widest) } else { widest };
            operands.push(labels);
        }
        let result = labels(right, widest)?;
        Ok(Formula { operands, result })
    }
}

/// One operand's labels; an ellipsis stands for `hidden` dimensions, numbered from the right.
fn labels(text: &str, hidden: usize) -> Result<Vec<char>, String> {
    let mut labels = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix("...") {
            let numbers = (0..hidden.min(64) as u32).rev();
            labels.extend(numbers.filter_map(|i| char::from_u32(ELLIPSIS + i)));
            rest = behind;
        } else if first.is_alphabetic() {
            labels.push(first);
            rest = &rest[first.len_utf8()..];
        } else if first == ' ' {
            rest = &rest[1..];
        } else {
            return Err(format!("`{first}` is no label"));
        }
    }
    Ok(labels)
}

/// Checks a formula against the operands' types and the result's.
fn check_formula(c: &mut Check<'_>, text: &str) {
    let operands = c.operands(0);
    let ranks: Vec<usize> = operands.iter().map(|ty| ty.rank()).collect();
    let formula = match Formula::read(text, &ranks) {
        Ok(formula) => formula,
        Err(problem) => return c.fail("", format!("einsum_config: {problem}")),
    };
    let result = c.result(0);
    let named = || formula.operands.iter().flatten().zip(operands.iter().flat_map(|t| &t.dims));
    for (label, dim) in named() {
        let same = named().filter(|(other, _)| *other == label);
        for (_, other) in same {
            c.same_dim("", &format!("dimensions labelled {label}"), *dim, *other);
        }
    }
    c.unique(
        "the result's labels",
        &formula.result.iter().map(|l| *l as i64).collect::<Vec<_>>(),
        "",
    );
    c.require(formula.result.len() == result.rank(), "", || {
        format!("einsum_config \"{text}\" has a result of rank {}", formula.result.len())
    });
    for (label, dim) in formula.result.iter().zip(&result.dims) {
        match named().find(|(other, _)| *other == label) {
            Some((_, wanted)) => c.same_dim("", &format!("dimension {label}"), *wanted, *dim),
            None => c.fail("", format!("label {label} is in no operand")),
        }
    }
}

payload! {
    /// Deprecated: products of two tensors' elements, summed as a formula says.
    Einsum { einsum_config: Box<str> }
}

const FORM: Form = Form::Plain {
    words: &[Word { text: "config", attr: "einsum_config" }],
    types: Types::Functional,
};

impl OpDef for Einsum {
    const NAME: &'static str = "stablehlo.einsum";
    const FORM: Form = FORM;
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        check_formula(c, &self.einsum_config);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        einsum(cx, &self.einsum_config)
    }

    columns!(Contraction, Accumulated, Missing("has no rule; use dot_general"));
}

payload! {
    /// Deprecated: one tensor's elements, summed and reordered as a formula says.
    UnaryEinsum { einsum_config: Box<str> }
}

impl OpDef for UnaryEinsum {
    const NAME: &'static str = "stablehlo.unary_einsum";
    const FORM: Form = FORM;
    const ARITY: Arity = Arity::tensors(Count::Exactly(1), 1);

    fn check(&self, c: &mut Check<'_>) {
        let (operand, result) = (c.operand(0), c.result(0));
        c.require(operand.elem == result.elem, "", || {
            format!("the operand is {operand}, the result {result}")
        });
        check_formula(c, &self.einsum_config);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        einsum(cx, &self.einsum_config)
    }

    columns!(Contraction, Accumulated, Missing("has no rule; use reduce"));
}

/// A tensor and the labels of its dimensions.
struct Labelled {
    tensor: Tensor,
    labels: Vec<char>,
}

impl Labelled {
    /// Where a label stands.
    fn at(&self, label: char) -> Option<usize> {
        self.labels.iter().position(|l| *l == label)
    }

    /// Keeps the diagonal where a label stands twice.
    fn diagonal(self) -> Labelled {
        let mut labels = self.labels.clone();
        labels.sort_unstable();
        labels.dedup();
        if labels.len() == self.labels.len() {
            return self;
        }
        let from = strides(self.tensor.dims());
        let place = |label: &char| self.at(*label).unwrap_or(0);
        let dims: Vec<i64> = labels.iter().map(|l| self.tensor.dims()[place(l)]).collect();
        let step = |label: &char| -> usize {
            let own = self.labels.iter().zip(&from).filter(|(l, _)| *l == label);
            own.map(|(_, stride)| stride).sum()
        };
        let steps: Vec<usize> = labels.iter().map(step).collect();
        let source = |i: usize| {
            let index = unravel(i, &dims);
            index.iter().zip(&steps).map(|(i, step)| *i as usize * step).sum()
        };
        let tensor = self.tensor.gather_elements(dims.clone(), None, |i| Some(source(i)));
        Labelled { tensor, labels }
    }

    /// Sums over the labels that nothing else mentions: a product with ones.
    fn summed(self, keep: impl Fn(char) -> bool) -> Labelled {
        let gone: Vec<usize> = (0..self.labels.len()).filter(|d| !keep(self.labels[*d])).collect();
        if gone.is_empty() {
            return self;
        }
        let ones = ones_like(&self.tensor.ty, &gone);
        let labels: Vec<char> = self.labels.iter().copied().filter(|l| keep(*l)).collect();
        let dims = DotDims {
            lhs_batching_dimensions: Ints::default(),
            rhs_batching_dimensions: Ints::default(),
            lhs_contracting_dimensions: gone.iter().map(|d| *d as i64).collect(),
            rhs_contracting_dimensions: (0..gone.len() as i64).collect(),
        };
        let kept = dims.result_dims(self.tensor.dims(), ones.dims());
        let ty = self.tensor.ty.with_dims(kept);
        Labelled { tensor: contract(&self.tensor, &ones, &dims, ty), labels }
    }

    /// The tensor with its dimensions in this order.
    fn ordered(&self, labels: &[char]) -> Tensor {
        let order: Vec<i64> = labels.iter().filter_map(|l| self.at(*l)).map(|d| d as i64).collect();
        transpose(&self.tensor, &order)
    }
}

/// Ones with some of a type's dimensions; quantized ones stand for plain floats.
fn ones_like(ty: &TensorTy, dims: &[usize]) -> Tensor {
    let sizes: Vec<i64> = dims.iter().map(|d| ty.dims[*d]).collect();
    Tensor::from_nums(TensorTy::new(sizes, ty.elem.expressed()), |_| {
        Num::I(1).convert(ty.elem.expressed())
    })
}

fn einsum(cx: &Cx<'_, '_>, text: &str) -> Result<Vec<crate::eval::Value>, EvalError> {
    let tensors = cx.tensors(0)?;
    let ranks: Vec<usize> = tensors.iter().map(|t| t.rank()).collect();
    let formula = Formula::read(text, &ranks).map_err(|problem| cx.error(problem))?;
    let mut sides = Vec::new();
    for (i, (tensor, labels)) in tensors.iter().zip(&formula.operands).enumerate() {
        let elsewhere = |label: char| {
            let others = formula.operands.iter().enumerate().filter(|(j, _)| *j != i);
            formula.result.contains(&label) || others.flat_map(|(_, l)| l).any(|l| *l == label)
        };
        check_sizes(cx, &formula, &tensors)?;
        let side = Labelled { tensor: (*tensor).clone(), labels: labels.clone() };
        sides.push(side.diagonal().summed(elsewhere));
    }
    let declared = cx.result_ty(0)?;
    let joined = match &sides[..] {
        [lhs, rhs] => join(lhs, rhs, &formula.result, declared),
        _ => sides.swap_remove(0),
    };
    let mut result = joined.ordered(&formula.result);
    result.ty = cx.result_of(0, result.dims())?;
    Ok(vec![result.into()])
}

/// Equal labels must mean equal sizes at run time too.
fn check_sizes(cx: &Cx<'_, '_>, formula: &Formula, tensors: &[&Tensor]) -> Result<(), EvalError> {
    let mut seen: Vec<(char, i64)> = Vec::new();
    for (labels, tensor) in formula.operands.iter().zip(tensors) {
        for (label, dim) in labels.iter().zip(tensor.dims()) {
            match seen.iter().find(|(l, _)| l == label) {
                Some((_, size)) if size != dim => {
                    return Err(cx.error(format!("dimension {label} is {size} and {dim}")));
                }
                _ => seen.push((*label, *dim)),
            }
        }
    }
    Ok(())
}

/// Multiplies two tensors and sums over the shared labels that the result does not have.
fn join(lhs: &Labelled, rhs: &Labelled, result: &[char], declared: &TensorTy) -> Labelled {
    let shared: Vec<char> = lhs.labels.iter().copied().filter(|l| rhs.at(*l).is_some()).collect();
    let (batch, sum): (Vec<char>, Vec<char>) = shared.iter().partition(|l| result.contains(l));
    let places = |side: &Labelled, list: &[char]| -> Ints {
        list.iter().filter_map(|l| side.at(*l)).map(|d| d as i64).collect()
    };
    let dims = DotDims {
        lhs_batching_dimensions: places(lhs, &batch),
        rhs_batching_dimensions: places(rhs, &batch),
        lhs_contracting_dimensions: places(lhs, &sum),
        rhs_contracting_dimensions: places(rhs, &sum),
    };
    let free = |side: &Labelled| side.labels.clone().into_iter().filter(|l| !shared.contains(l));
    let labels: Vec<char> = batch.iter().copied().chain(free(lhs)).chain(free(rhs)).collect();
    let ty = declared.with_dims(dims.result_dims(lhs.tensor.dims(), rhs.tensor.dims()));
    Labelled { tensor: contract(&lhs.tensor, &rhs.tensor, &dims, ty), labels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_name_every_dimension() {
        let formula = Formula::read("ij,jk->ik", &[2, 2]).unwrap();
        assert_eq!(formula.result, ['i', 'k']);
        let hidden = Formula::read("...ij->...ji", &[4]).unwrap();
        assert_eq!(hidden.operands[0][..2], hidden.result[..2]);
        assert!(Formula::read("ij->ik", &[3]).is_err());
        assert!(Formula::read("ij", &[2]).is_err());
    }
}
