//! Python's scalar functions: sizes computed from sizes, known once the inputs' shapes are.

use crate::cx::{Number, Res, as_number, refuse};
use crate::value::Val;

/// Evaluates `_operator.mul` and the like.
pub fn call(name: &str, args: &[Val]) -> Res<Val> {
    let short = name.rsplit('.').next().unwrap_or(name);
    if short == "getitem" {
        return match args {
            [Val::List(items), Val::Int(i)] if (0..items.len() as i64).contains(i) => {
                Ok(items[*i as usize].clone())
            }
            _ => refuse("reads an element that is not there"),
        };
    }
    let numbers: Option<Vec<Number>> = args.iter().map(as_number).collect();
    let Some(numbers) = numbers else { return refuse("takes numbers") };
    let ints = || {
        numbers
            .iter()
            .map(|number| match number {
                Number::Int(n) => Some(*n),
                Number::Bool(b) => Some(i64::from(*b)),
                _ => None,
            })
            .collect::<Option<Vec<i64>>>()
    };
    let floats: Vec<f64> = numbers.iter().map(|number| number.float()).collect();
    if let Some(ints) = ints()
        && let Some(val) = of_ints(short, &ints)
    {
        return Ok(val);
    }
    match of_floats(short, &floats) {
        Some(val) => Ok(val),
        None => refuse("is no function that is known"),
    }
}

fn of_ints(name: &str, args: &[i64]) -> Option<Val> {
    Some(match (name, args) {
        ("add", [a, b]) => Val::Int(a.checked_add(*b)?),
        ("sub", [a, b]) => Val::Int(a.checked_sub(*b)?),
        ("mul", [a, b]) => Val::Int(a.checked_mul(*b)?),
        ("floordiv", [a, b]) if *b != 0 => {
            let quotient = a.checked_div(*b)?;
            Val::Int(quotient - i64::from(a % b != 0 && (a % b < 0) != (*b < 0)))
        }
        ("mod", [a, b]) if *b != 0 => {
            let rest = a.checked_rem(*b)?;
            Val::Int(if rest != 0 && (rest < 0) != (*b < 0) { rest + b } else { rest })
        }
        ("pow", [a, b]) if *b >= 0 => Val::Int(a.checked_pow(u32::try_from(*b).ok()?)?),
        ("neg", [a]) => Val::Int(-a),
        ("abs" | "sym_abs", [a]) => Val::Int(a.abs()),
        ("sym_max" | "max", list) if !list.is_empty() => Val::Int(*list.iter().max()?),
        ("sym_min" | "min", list) if !list.is_empty() => Val::Int(*list.iter().min()?),
        ("lshift", [a, b]) => Val::Int(a.checked_shl(u32::try_from(*b).ok()?)?),
        ("rshift", [a, b]) => Val::Int(a.checked_shr(u32::try_from(*b).ok()?)?),
        ("and_", [a, b]) => Val::Int(a & b),
        ("or_", [a, b]) => Val::Int(a | b),
        ("sym_sum", list) => Val::Int(list.iter().sum()),
        ("eq", [a, b]) => Val::Bool(a == b),
        ("ne", [a, b]) => Val::Bool(a != b),
        ("lt", [a, b]) => Val::Bool(a < b),
        ("le", [a, b]) => Val::Bool(a <= b),
        ("gt", [a, b]) => Val::Bool(a > b),
        ("ge", [a, b]) => Val::Bool(a >= b),
        ("not_" | "sym_not", [a]) => Val::Bool(*a == 0),
        ("sym_ite", [c, a, b]) => Val::Int(if *c != 0 { *a } else { *b }),
        ("pos" | "sym_int" | "trunc" | "floor" | "ceil" | "int", [a]) => Val::Int(*a),
        _ => return None,
    })
}

fn of_floats(name: &str, args: &[f64]) -> Option<Val> {
    Some(match (name, args) {
        ("add", [a, b]) => Val::Float(a + b),
        ("sub", [a, b]) => Val::Float(a - b),
        ("mul", [a, b]) => Val::Float(a * b),
        ("truediv", [a, b]) => Val::Float(a / b),
        ("floordiv", [a, b]) => Val::Float((a / b).floor()),
        ("mod", [a, b]) => Val::Float(a - b * (a / b).floor()),
        ("pow", [a, b]) => Val::Float(a.powf(*b)),
        ("neg", [a]) => Val::Float(-a),
        ("abs", [a]) => Val::Float(a.abs()),
        ("sym_max" | "max", list) => Val::Float(list.iter().copied().reduce(f64::max)?),
        ("sym_min" | "min", list) => Val::Float(list.iter().copied().reduce(f64::min)?),
        ("sym_float" | "float", [a]) => Val::Float(*a),
        ("trunc" | "sym_int" | "int", [a]) => Val::Int(a.trunc() as i64),
        ("ceil", [a]) => Val::Int(a.ceil() as i64),
        ("floor", [a]) => Val::Int(a.floor() as i64),
        ("round", [a]) => Val::Int(a.round_ties_even() as i64),
        ("sqrt" | "_sym_sqrt", [a]) => Val::Float(a.sqrt()),
        ("log2" | "_sym_log2", [a]) => Val::Float(a.log2()),
        ("eq", [a, b]) => Val::Bool(a == b),
        ("ne", [a, b]) => Val::Bool(a != b),
        ("lt", [a, b]) => Val::Bool(a < b),
        ("le", [a, b]) => Val::Bool(a <= b),
        ("gt", [a, b]) => Val::Bool(a > b),
        ("ge", [a, b]) => Val::Bool(a >= b),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_python_divides() {
        let int = |name: &str, a, b| match call(name, &[Val::Int(a), Val::Int(b)]) {
            Ok(Val::Int(n)) => n,
            other => panic!("{other:?}"),
        };
        for (a, b) in [(7, 2), (-7, 2), (7, -2), (-7, -2), (6, 3), (-6, 3)] {
            let floor = (a as f64 / b as f64).floor() as i64;
            assert_eq!(int("_operator.floordiv", a, b), floor, "{a} // {b}");
            assert_eq!(int("_operator.mod", a, b), a - b * floor, "{a} % {b}");
        }
        assert!(call("_operator.floordiv", &[Val::Int(1), Val::Int(0)]).is_ok(), "infinite");
        assert!(call("_operator.nothing", &[Val::Int(1)]).is_err());
    }
}
