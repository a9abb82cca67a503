//! The operator's verdicts are the runner's: the two crates share no code, so that the runner needs
//! nothing of Kubernetes and the operator nothing of tensors.

use warpforge_operator_api::Verdict as Stated;
use warpforge_parity::verdict::Verdict as Found;

#[test]
fn names_order_and_exit_codes_are_the_same() {
    assert_eq!(Stated::ALL.len(), Found::ALL.len());
    for (stated, found) in Stated::ALL.into_iter().zip(Found::ALL) {
        assert_eq!(stated.name(), found.name());
        assert_eq!(stated.exit_code(), i32::from(found.exit_code()));
    }
    assert!(Stated::ALL.is_sorted() && Found::ALL.is_sorted());
}
