//! Parameters that are lists, such as `copy,triad`.

use crate::suite::{Context, Unable};

/// Those of `exist` that the parameter names, in the order of `exist`.
pub fn choose<'a>(cx: &Context<'_>, name: &str, exist: &[&'a str]) -> Result<Vec<&'a str>, Unable> {
    pick(name, cx.text(name), exist)
}

fn pick<'a>(name: &str, text: &str, exist: &[&'a str]) -> Result<Vec<&'a str>, Unable> {
    let asked: Vec<_> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if let Some(word) = asked.iter().find(|word| !exist.contains(word)) {
        let exist = exist.join(", ");
        return Err(Unable::Failed(format!("{name}: there is no {word}; there are {exist}")));
    }
    if asked.is_empty() {
        return Err(Unable::Failed(format!(
            "{name}: nothing is named; there are {}",
            exist.join(", ")
        )));
    }
    Ok(exist.iter().copied().filter(|word| asked.contains(word)).collect())
}

/// The whole numbers that the parameter names, each within `range`, in the order given.
pub fn numbers(
    cx: &Context<'_>,
    name: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<Vec<usize>, Unable> {
    parse(name, cx.text(name), &range)
}

fn parse(
    name: &str,
    text: &str,
    range: &std::ops::RangeInclusive<usize>,
) -> Result<Vec<usize>, Unable> {
    let number = |word: &str| {
        word.trim().parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            Unable::Failed(format!("{name}: {word:?} is no whole number from {low} to {high}"))
        })
    };
    text.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_picked_and_unknown_ones_refused() {
        let pick = |text| pick("kernels", text, &["copy", "add"]);
        assert_eq!(pick("add, copy"), Ok(vec!["copy", "add"]));
        assert_eq!(pick("add"), Ok(vec!["add"]));
        let refused = |text| pick(text).unwrap_err().to_string();
        assert_eq!(refused("ad"), "kernels: there is no ad; there are copy, add");
        assert_eq!(refused(" ,"), "kernels: nothing is named; there are copy, add");
    }

    #[test]
    fn numbers_within_their_range() {
        let parse = |text| parse("sizes", text, &(1..=100));
        assert_eq!(parse("5, 7"), Ok(vec![5, 7]));
        for wrong in ["", "x", "0", "101", "5,,7", "-1"] {
            assert!(matches!(parse(wrong), Err(Unable::Failed(_))), "{wrong:?}");
        }
    }
}
