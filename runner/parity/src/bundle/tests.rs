//! Bundles that are whole, cut off, split, damaged.

use std::fs;

use tempfile::TempDir;

use super::*;
use crate::compare::{Dtype, Tensor};

fn tensor(data: &[u8; 4]) -> Tensor<'_> {
    Tensor { dtype: Dtype::F32, shape: &[1], data }
}

fn write_side(folder: &Path, finish: bool) {
    let mut writer = Writer::create(folder).unwrap();
    let data = 1.5f32.to_le_bytes();
    writer.tensors(OUTPUTS, [("logits", tensor(&data))]).unwrap();
    writer.tensors(CHECKPOINT, [("w", tensor(&data))]).unwrap();
    writer.tensors(&activations(3), [("layer.0", tensor(&data))]).unwrap();
    writer.tensors(&gradients(3), [("w", tensor(&data))]).unwrap();
    let steps =
        vec![LossAt { step: 0, loss: Number(2.5) }, LossAt { step: 1, loss: Number(f64::NAN) }];
    writer.json(LOSS_CURVE, &LossCurve { version: 1, steps }).unwrap();
    writer.json(METRICS, &Metrics::from([("f1".to_owned(), Number(88.5))])).unwrap();
    if finish {
        writer.finish().unwrap();
    }
}

#[test]
fn what_is_written_is_read_with_its_kind() {
    let folder = TempDir::new().unwrap();
    write_side(&folder.path().join(GOLDEN), true);
    for path in [folder.path().to_owned(), folder.path().join(GOLDEN)] {
        let side = Side::open(&path, Role::Golden).unwrap();
        let found: Vec<(&str, Kind)> =
            side.names().map(|name| (name, side.entry(name).unwrap().0.kind)).collect();
        assert_eq!(
            found,
            [
                ("activations/step-3/layer.0", Kind::Activations),
                ("checkpoint/w", Kind::Weights),
                ("gradients/step-3/w", Kind::Gradients),
                ("loss_curve", Kind::Loss),
                ("metrics/f1", Kind::Metrics),
                ("outputs/logits", Kind::Outputs),
            ]
        );
        let (_, loss) = side.entry("loss_curve").unwrap();
        assert_eq!((loss.shape, loss.data.len()), (&[2][..], 16));
    }
    let partial = fs::read_dir(folder.path().join(GOLDEN)).unwrap();
    let names: Vec<_> = partial.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains("partial")), "{names:?}");
}

#[test]
fn a_bundle_that_was_cut_off_is_never_read_as_complete() {
    let incomplete = |folder: &Path| {
        matches!(Side::open(folder, Role::Candidate), Err(BundleError::Incomplete { .. }))
    };
    let folder = TempDir::new().unwrap();
    write_side(folder.path(), false);
    assert!(incomplete(folder.path()));

    // A second run into a folder that was whole makes it incomplete until it is done.
    write_side(folder.path(), true);
    assert!(Side::open(folder.path(), Role::Candidate).is_ok());
    drop(Writer::create(folder.path()).unwrap());
    assert!(incomplete(folder.path()));

    write_side(folder.path(), true);
    let outputs = folder.path().join(OUTPUTS);
    let bytes = fs::read(&outputs).unwrap();
    fs::write(&outputs, &bytes[..bytes.len() - 1]).unwrap();
    assert!(incomplete(folder.path()));
    fs::remove_file(&outputs).unwrap();
    assert!(incomplete(folder.path()));
    fs::write(folder.path().join(COMPLETE), "{").unwrap();
    let found = Side::open(folder.path(), Role::Candidate);
    assert!(matches!(found, Err(BundleError::Malformed { .. })));
}

#[test]
fn shards_are_one_group_and_must_not_overlap() {
    let folder = TempDir::new().unwrap();
    let data = 1f32.to_le_bytes();
    let bytes = |name: &str| {
        let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![1], &data).unwrap();
        safetensors::tensor::serialize([(name, view)], None).unwrap()
    };
    let put = |file: &str, name: &str| fs::write(folder.path().join(file), bytes(name)).unwrap();
    put("model-00001-of-00002.safetensors", "a");
    put("model-00002-of-00002.safetensors", "b");
    let side = Side::open(folder.path(), Role::Golden).unwrap();
    assert_eq!(side.names().collect::<Vec<_>>(), ["model/a", "model/b"]);
    assert_eq!(side.entry("model/a").unwrap().0.kind, Kind::Weights);
    put("model-00002-of-00002.safetensors", "a");
    let found = Side::open(folder.path(), Role::Golden);
    assert!(matches!(found, Err(BundleError::Duplicate { .. })));
}

#[test]
fn kinds_follow_from_names() {
    let kind = |path: &str| kind_of(Path::new(path));
    assert_eq!(kind("x/activations/step-0.safetensors"), Kind::Activations);
    assert_eq!(kind("gradients/step-0.safetensors"), Kind::Gradients);
    assert_eq!(kind("pytorch_model.safetensors"), Kind::Weights);
    assert_eq!(kind("outputs.safetensors"), Kind::Outputs);
    assert_eq!(kind("y.safetensors"), Kind::Outputs);
}
