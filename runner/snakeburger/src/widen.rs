//! Evaluating a program in float64: every float and complex type becomes its widest one.
//!
//! A rewrite of the program, not a mode of the interpreter: what runs afterwards is an ordinary
//! program. Conversions between float formats become copies and nothing is rounded on the way, so
//! the result is what the arithmetic means without the formats' errors.

use std::sync::Arc;

use crate::eval::{Num, Tensor};
use crate::ir::{Attr, DType, Dict, Elem, Kind, Literal, Module, TensorTy, Ty, TypeId};
use crate::ops::{self, Op};

/// Why a program has no float64 version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WidenError {
    #[error("{op} looks at the bits of a float, which float64 does not share")]
    Bits { op: &'static str },
    #[error("{op} has quantized operands, which have no float64 version")]
    Quantized { op: &'static str },
}

/// The program with f64 in place of every float type and `complex<f64>` of every complex one.
pub fn to_f64(mut module: Module) -> Result<Module, WidenError> {
    check(&module)?;
    let mut types = std::mem::take(&mut module.types);
    let mut widen = |id: &mut TypeId| {
        let ty = widen_ty(types.get(*id));
        *id = types.intern(ty);
    };
    for func in module.funcs_mut() {
        func.arguments.iter_mut().for_each(&mut widen);
        func.results.iter_mut().for_each(&mut widen);
        let Some(graph) = &mut func.body else { continue };
        graph.types_mut().for_each(&mut widen);
        graph.nodes_mut().for_each(|node| node.op = widen_op(&node.op));
    }
    module.types = types;
    Ok(module)
}

fn check(module: &Module) -> Result<(), WidenError> {
    for graph in module.funcs().iter().filter_map(|func| func.body.as_ref()) {
        for (id, node) in graph.nodes() {
            let values = graph.operands(id).iter().copied().chain(graph.results(id));
            let types: Vec<&TensorTy> =
                values.filter_map(|value| module.value_ty(graph, value).as_tensor()).collect();
            let op = node.op.name();
            if types.iter().any(|ty| ty.elem.quant().is_some()) {
                return Err(WidenError::Quantized { op });
            }
            let float = types.iter().any(|ty| ty.elem.storage().is_float());
            if matches!(node.op, Op::BitcastConvert(_)) && float {
                return Err(WidenError::Bits { op });
            }
        }
    }
    Ok(())
}

fn widen_dtype(dtype: DType) -> DType {
    match dtype.kind() {
        Kind::Float => DType::F64,
        Kind::Complex => DType::C128,
        _ => dtype,
    }
}

fn widen_tensor(ty: &TensorTy) -> TensorTy {
    match ty.elem {
        Elem::Plain(dtype) => ty.with_elem(widen_dtype(dtype)),
        Elem::Quant(_) => ty.clone(),
    }
}

fn widen_ty(ty: &Ty) -> Ty {
    match ty {
        Ty::Tensor(tensor) => Ty::Tensor(widen_tensor(tensor)),
        Ty::Tuple(types) => Ty::Tuple(types.iter().map(widen_ty).collect()),
        Ty::Future(types) => Ty::Future(types.iter().map(widen_ty).collect()),
        other => other.clone(),
    }
}

/// Widens the constants among an operation's attributes; a rounding operation becomes a copy.
fn widen_op(op: &Op) -> Op {
    if matches!(op, Op::ReducePrecision(_)) {
        return ops::Convert {}.into();
    }
    let mut dict = op.write();
    let mut changed = false;
    for (_, attr) in &mut dict {
        if let Attr::Dense(literal) = attr
            && widen_tensor(&literal.ty) != literal.ty
        {
            *attr = Attr::Dense(Arc::new(widen_literal(literal)));
            changed = true;
        }
    }
    if changed { read_back(op, &dict) } else { op.clone() }
}

fn read_back(op: &Op, dict: &Dict) -> Op {
    (ops::info_of(op).read)(dict).unwrap_or_else(|_| op.clone())
}

fn widen_literal(literal: &Literal) -> Literal {
    let stored = TensorTy::new(
        [(literal.data.len() / literal.ty.elem.storage().bytes()) as i64],
        literal.ty.elem.clone(),
    );
    let narrow = Tensor { ty: stored.clone(), data: literal.data.clone() };
    let wide = Tensor::from_nums(widen_tensor(&stored), |i| -> Num { narrow.get(i) });
    Literal { ty: widen_tensor(&literal.ty), data: wide.data, splat: literal.splat }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Interpreter, Value};
    use crate::text::{Options, parse};

    #[test]
    fn a_bf16_sum_is_exact_in_f64() {
        let text = "func.func @main() -> tensor<f32> {
            %0 = stablehlo.constant dense<1.0> : tensor<bf16>
            %1 = stablehlo.constant dense<0.00390625> : tensor<bf16>
            %2 = stablehlo.add %0, %1 : tensor<bf16>
            %3 = stablehlo.convert %2 : (tensor<bf16>) -> tensor<f32>
            return %3 : tensor<f32>
        }";
        let run = |module: &Module| match &Interpreter::new(module).call("main", vec![]).unwrap()[..]
        {
            [Value::Tensor(tensor)] => (tensor.storage(), tensor.get(0).float()),
            other => panic!("{other:?}"),
        };
        let module = parse(text, Options::default()).unwrap();
        assert_eq!(run(&module), (DType::F32, 1.0));
        assert_eq!(run(&to_f64(module).unwrap()), (DType::F64, 1.003_906_25));
    }

    #[test]
    fn bits_of_floats_are_refused() {
        let text = "func.func @main(%arg0: tensor<f32>) -> tensor<i32> {
            %0 = stablehlo.bitcast_convert %arg0 : (tensor<f32>) -> tensor<i32>
            return %0 : tensor<i32>
        }";
        let module = parse(text, Options::default()).unwrap();
        let op = "stablehlo.bitcast_convert";
        assert_eq!(to_f64(module).unwrap_err(), WidenError::Bits { op });
    }
}
