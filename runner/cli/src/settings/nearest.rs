//! The right name nearest to a wrong one.

/// Below this likeness a suggestion confuses more than it helps.
const ALIKE: f64 = 0.8;

/// The candidate most like `name`, if one is like it at all.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    candidates
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_slip_and_nothing_far_fetched() {
        let keys = || ["color", "store.bucket", "store.endpoint"].into_iter();
        assert_eq!(nearest("colour", keys()), Some("color"));
        assert_eq!(nearest("store.buckets", keys()), Some("store.bucket"));
        assert_eq!(nearest("retries", keys()), None);
    }
}
