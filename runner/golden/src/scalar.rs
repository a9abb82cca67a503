//! Python's functions on numbers, as they stand between the operators of an exported graph.

use crate::torch::{Fault, Value};

use Value::{Bool, Float, Int};

/// Calls a function by the name the graph has for it; `None` for one that is not known.
pub fn call(name: &str, arguments: &[Value]) -> Option<Result<Value, Fault>> {
    // Sizes are ints here, so the symbolic functions are the plain ones.
    let function = name.rsplit('.').next().unwrap_or(name).trim_start_matches("_sym_");
    let function = function.strip_prefix("sym_").unwrap_or(function);
    let result = match (function, arguments) {
        ("getitem", [Value::List(items), Int(index)]) => item(items, *index),
        ("add", [a, b]) => arithmetic(a, b, i64::checked_add, |a, b| a + b),
        ("sub", [a, b]) => arithmetic(a, b, i64::checked_sub, |a, b| a - b),
        ("mul", [a, b]) => arithmetic(a, b, i64::checked_mul, |a, b| a * b),
        ("floordiv", [a, b]) => arithmetic(a, b, floor_div, |a, b| (a / b).floor()),
        ("mod", [a, b]) => arithmetic(a, b, floor_mod, |a, b| a - b * (a / b).floor()),
        ("pow", [Int(a), Int(b @ 0..)]) => power(*a, *b),
        ("pow", [a, b]) => floats(a, b, f64::powf),
        ("truediv", [a, b]) => floats(a, b, |a, b| a / b),
        ("neg", [a]) => arithmetic(&Int(0), a, i64::checked_sub, |_, a| -a),
        ("pos", [a @ (Int(_) | Float(_))]) => Some(a.clone()),
        ("abs", [a]) => arithmetic(a, &Int(0), |a, _| a.checked_abs(), |a, _| a.abs()),
        ("max", [a, b]) => arithmetic(a, b, |a, b| Some(a.max(b)), f64::max),
        ("min", [a, b]) => arithmetic(a, b, |a, b| Some(a.min(b)), f64::min),
        ("sum", [Value::List(items)]) => items
            .iter()
            .try_fold(Int(0), |sum, item| arithmetic(&sum, item, i64::checked_add, |a, b| a + b)),
        ("eq", [a, b]) => compare(a, b, |a, b| a == b, |a, b| a == b),
        ("ne", [a, b]) => compare(a, b, |a, b| a != b, |a, b| a != b),
        ("lt", [a, b]) => compare(a, b, |a, b| a < b, |a, b| a < b),
        ("le", [a, b]) => compare(a, b, |a, b| a <= b, |a, b| a <= b),
        ("gt", [a, b]) => compare(a, b, |a, b| a > b, |a, b| a > b),
        ("ge", [a, b]) => compare(a, b, |a, b| a >= b, |a, b| a >= b),
        ("and_" | "and", [Bool(a), Bool(b)]) => Some(Bool(a & b)),
        ("or_" | "or", [Bool(a), Bool(b)]) => Some(Bool(a | b)),
        ("and_", [Int(a), Int(b)]) => Some(Int(a & b)),
        ("or_", [Int(a), Int(b)]) => Some(Int(a | b)),
        ("not_" | "not", [a]) => a.bool().map(|a| Bool(!a)),
        ("truth", [a]) => a.bool().map(Bool),
        ("ite", [Bool(condition), a, b]) => Some(if *condition { a } else { b }.clone()),
        ("int" | "trunc", [a]) => whole(a, f64::trunc),
        ("ceil", [a]) => whole(a, f64::ceil),
        ("floor", [a]) => whole(a, f64::floor),
        ("round", [a]) => whole(a, f64::round_ties_even),
        ("float", [a]) => a.float().map(Float),
        ("sqrt", [a]) => a.float().map(|a| Float(a.sqrt())),
        ("exp", [a]) => a.float().map(|a| Float(a.exp())),
        ("log", [a]) => a.float().map(|a| Float(a.ln())),
        ("log2", [a]) => a.float().map(|a| Float(a.log2())),
        _ => return None,
    };
    Some(result.ok_or_else(|| {
        let kinds: Vec<_> = arguments.iter().map(Value::kind).collect();
        Fault(format!("{name} of {} has no value here", kinds.join(" and ")))
    }))
}

fn item(items: &[Value], index: i64) -> Option<Value> {
    let index = if index < 0 { index + items.len() as i64 } else { index };
    items.get(usize::try_from(index).ok()?).cloned()
}

/// Ints stay ints unless one operand is a float.
fn arithmetic(
    a: &Value,
    b: &Value,
    ints: impl Fn(i64, i64) -> Option<i64>,
    floats: impl Fn(f64, f64) -> f64,
) -> Option<Value> {
    match (a.int(), b.int()) {
        (Some(a), Some(b)) => ints(a, b).map(Int),
        _ => self::floats(a, b, floats),
    }
}

fn floats(a: &Value, b: &Value, f: impl Fn(f64, f64) -> f64) -> Option<Value> {
    Some(Float(f(a.float()?, b.float()?)))
}

fn compare(
    a: &Value,
    b: &Value,
    ints: impl Fn(i64, i64) -> bool,
    floats: impl Fn(f64, f64) -> bool,
) -> Option<Value> {
    Some(Bool(match (a.int(), b.int()) {
        (Some(a), Some(b)) => ints(a, b),
        _ => floats(a.float()?, b.float()?),
    }))
}

fn whole(a: &Value, round: impl Fn(f64) -> f64) -> Option<Value> {
    match a.int() {
        Some(a) => Some(Int(a)),
        None => a.float().map(round).filter(|a| a.abs() < 9.0e18).map(|a| Int(a as i64)),
    }
}

/// Rounded down, as Python divides.
fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient })
}

/// With the divisor's sign.
fn floor_mod(a: i64, b: i64) -> Option<i64> {
    a.checked_sub(floor_div(a, b)?.checked_mul(b)?)
}

fn power(a: i64, b: i64) -> Option<Value> {
    a.checked_pow(u32::try_from(b).ok()?).map(Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, arguments: &[Value], expected: &str) {
        let shown = match call(name, arguments) {
            None => "unknown".to_owned(),
            Some(Err(fault)) => fault.to_string(),
            Some(Ok(value)) => format!("{value:?}"),
        };
        assert_eq!(shown, expected, "{name}{arguments:?}");
    }

    #[test]
    fn ints_divide_as_python_divides() {
        check("_operator.floordiv", &[Int(-7), Int(2)], "Int(-4)");
        check("_operator.floordiv", &[Int(7), Int(-2)], "Int(-4)");
        check("_operator.mod", &[Int(-7), Int(2)], "Int(1)");
        check("_operator.mod", &[Int(7), Int(-2)], "Int(-1)");
        check("_operator.truediv", &[Int(7), Int(2)], "Float(3.5)");
        let none = "_operator.floordiv of an int and an int has no value here";
        check("_operator.floordiv", &[Int(1), Int(0)], none);
    }

    #[test]
    fn kinds_are_kept_or_mixed_as_in_python() {
        check("_operator.add", &[Int(1), Int(2)], "Int(3)");
        check("_operator.add", &[Int(1), Float(2.5)], "Float(3.5)");
        check("_operator.pow", &[Int(2), Int(10)], "Int(1024)");
        check("_operator.pow", &[Int(2), Int(-1)], "Float(0.5)");
        check("_operator.neg", &[Float(1.5)], "Float(-1.5)");
        check("torch.sym_max", &[Int(1), Int(2)], "Int(2)");
        check("math.ceil", &[Float(1.2)], "Int(2)");
        check("torch.sym_float", &[Int(2)], "Float(2.0)");
        check("torch._sym_sqrt", &[Int(4)], "Float(2.0)");
        check("torch.sym_not", &[Bool(true)], "Bool(false)");
        check("_operator.ge", &[Int(2), Float(1.5)], "Bool(true)");
    }

    #[test]
    fn lists_are_indexed_from_both_ends() {
        let list = Value::List(vec![Int(1), Int(2)]);
        check("_operator.getitem", &[list.clone(), Int(-1)], "Int(2)");
        let none = "_operator.getitem of a list and an int has no value here";
        check("_operator.getitem", &[list, Int(2)], none);
    }

    #[test]
    fn what_is_not_known_is_said() {
        check("some.function", &[Int(1)], "unknown");
        let overflow = "_operator.mul of an int and an int has no value here";
        check("_operator.mul", &[Int(i64::MAX), Int(2)], overflow);
    }
}
