//! The dispatcher, called for real.

use std::io::Write as _;

use super::*;

fn ops() -> Library {
    Library::default()
}

fn floats(shape: &[i64], values: &[f32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Tensor::from_bytes(&bytes, &Layout::dense(ScalarType::F32, shape)).unwrap().into()
}

fn read(value: &Value) -> Vec<f32> {
    let host = value.tensor().expect("a tensor").host().unwrap();
    assert_eq!(host.dtype, ScalarType::F32);
    host.bytes()
        .chunks_exact(4)
        .map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()))
        .collect()
}

fn named(name: &str, value: impl Into<Value>) -> (String, Value) {
    (name.to_owned(), value.into())
}

#[track_caller]
fn call(
    name: &str,
    overload: &str,
    arguments: &[Value],
    keywords: &[(String, Value)],
) -> Vec<Value> {
    ops().find(name, overload).unwrap().call(arguments, keywords).unwrap()
}

#[test]
fn the_loaded_version_is_the_expected_one() {
    assert_eq!(Context::version(), "2.11.0");
}

#[test]
fn positional_named_and_default_arguments() {
    let (a, b) = (floats(&[2], &[1.0, 2.0]), floats(&[2], &[10.0, 20.0]));
    assert_eq!(read(&call("aten::add", "Tensor", &[a.clone(), b.clone()], &[])[0]), [11.0, 22.0]);
    let scaled = call(
        "aten::add",
        "Tensor",
        &[a],
        &[named("alpha", 0.5), named("other", b.tensor().unwrap())],
    );
    assert_eq!(read(&scaled[0]), [6.0, 12.0]);
}

#[test]
fn numbers_become_what_the_schema_asks_for() {
    let x = floats(&[1, 1, 3, 3], &[1.0; 9]);
    // A number for a tensor.
    let tripled = call("aten::mul", "Tensor", &[x.clone(), Value::Int(3)], &[]);
    assert_eq!(read(&tripled[0]), [3.0; 9]);
    // One number for `int[2]`.
    let pooled = call("aten::avg_pool2d", "", &[x.clone(), Value::Int(3)], &[]);
    assert_eq!(pooled[0].tensor().unwrap().shape(), [1, 1, 1, 1]);
    // An int for a float, and a plain list for `int[]`.
    let shape = Value::List(vec![Value::Int(3)]);
    let normed = call("aten::layer_norm", "", &[x, shape], &[named("eps", Value::Int(1))]);
    assert_eq!(read(&normed[0]), [0.0; 9]);
}

#[test]
fn a_number_does_not_promote_a_reduced_precision_tensor() {
    let x = floats(&[1], &[3.0]);
    let half = call("aten::to", "dtype", &[x, ScalarType::BF16.into()], &[]);
    let scaled = call("aten::mul", "Tensor", &[half[0].clone(), Value::Float(0.5)], &[]);
    assert_eq!(scaled[0].tensor().unwrap().dtype(), Some(ScalarType::BF16));
}

#[test]
fn lists_optional_tensors_and_several_results() {
    let x = floats(&[2, 2], &[1.0, 4.0, 3.0, 2.0]);
    let most = call("aten::max", "dim", &[x.clone(), Value::Int(1)], &[]);
    assert_eq!((most.len(), read(&most[0])), (2, vec![4.0, 3.0]));
    let parts = call("aten::split", "Tensor", &[x.clone(), Value::Int(1)], &[]);
    let Value::List(parts) = &parts[0] else { panic!("{parts:?}") };
    assert_eq!(read(&parts[1]), [3.0, 2.0]);
    let joined = call("aten::cat", "", &[Value::List(parts.clone())], &[]);
    assert_eq!(read(&joined[0]), read(&x));
    let index =
        Tensor::from_bytes(&1_i64.to_ne_bytes(), &Layout::dense(ScalarType::I64, &[1])).unwrap();
    let indices = Value::List(vec![Value::None, index.into()]);
    assert_eq!(read(&call("aten::index", "Tensor", &[x, indices], &[])[0]), [4.0, 2.0]);
}

#[test]
fn strings_devices_types_and_no_results() {
    let x = floats(&[2], &[7.0, -7.0]);
    let floor = named("rounding_mode", Value::Str("floor".into()));
    assert_eq!(
        read(&call("aten::div", "Tensor_mode", &[x, Value::Int(2)], &[floor])[0]),
        [3.0, -4.0]
    );
    let zeros = call(
        "aten::zeros",
        "",
        &[Value::from(&[2_i64][..])],
        &[named("dtype", ScalarType::F64), named("device", Value::Device("cpu".into()))],
    );
    assert_eq!(zeros[0].tensor().unwrap().dtype(), Some(ScalarType::F64));
    let truth = call("aten::ones", "", &[Value::from(&[1_i64][..])], &[]);
    assert!(call("aten::_assert_async", "", &truth, &[]).is_empty());
}

#[test]
fn an_in_place_operator_is_seen_through_every_alias() {
    let x = floats(&[2], &[1.0, 2.0]);
    let alias = x.clone();
    call("aten::add_", "Tensor", &[x, Value::Int(1)], &[]);
    assert_eq!(read(&alias), [2.0, 3.0]);
}

#[test]
fn mistakes_are_told_in_words() {
    let x = floats(&[2, 3], &[0.0; 6]);
    let message = |name: &str, arguments: &[Value], keywords: &[(String, Value)]| {
        ops().find(name, "").unwrap().call(arguments, keywords).unwrap_err().to_string()
    };
    let shapes = message("aten::mm", &[x.clone(), x.clone()], &[]);
    assert!(shapes.contains("cannot be multiplied (2x3 and 2x3)"), "{shapes}");
    let missing = message("aten::mm", std::slice::from_ref(&x), &[]);
    assert!(missing.contains("parameter mat2 is missing"), "{missing}");
    let twice = message("aten::mm", &[x.clone(), x.clone()], &[named("self", 1)]);
    assert!(twice.contains("self is given twice"), "{twice}");
    let unknown = message("aten::mm", std::slice::from_ref(&x), &[named("eps", 1)]);
    assert!(unknown.contains("no parameter eps"), "{unknown}");
    let kind = message("aten::mm", &[x.clone(), Value::Str("y".into())], &[]);
    assert!(kind.contains("mat2"), "{kind}");
    let many = message("aten::relu", &[x.clone(), x], &[]);
    assert!(many.contains("2 arguments for"), "{many}");
    let device = Value::Device("abacus".into());
    assert!(message("aten::zeros", &[], &[named("device", device)]).contains("abacus"));
    let absent = ops().find("aten::frobnicate", "default").err().unwrap();
    assert_eq!(absent.to_string(), "libtorch has no operator aten::frobnicate.default");
}

#[test]
fn parameters_and_defaults_can_be_read() {
    let dropout = ops().find("aten::scaled_dot_product_attention", "default").unwrap();
    assert_eq!(&dropout.parameters()[..4], ["query", "key", "value", "attn_mask"]);
    assert_eq!(dropout.default(4).and_then(|value| value.float()), Some(0.0));
    assert!(dropout.default(0).is_none());
    assert!(dropout.schema().starts_with("aten::scaled_dot_product_attention("));
    assert!(Op::all().len() > 3000);
}

#[test]
fn grad_mode_and_autocast_end_with_their_guards() {
    let (a, b) = (floats(&[2, 2], &[1.0; 4]), floats(&[2, 2], &[1.0; 4]));
    let product =
        || call("aten::mm", "", &[a.clone(), b.clone()], &[])[0].tensor().unwrap().dtype();
    {
        let _outer = Autocast::enter("cpu", true, Some(ScalarType::BF16), true).unwrap();
        assert_eq!(product(), Some(ScalarType::BF16));
        {
            let _inner = Autocast::enter("cpu", false, None, true).unwrap();
            assert_eq!(product(), Some(ScalarType::F32));
        }
        assert_eq!(product(), Some(ScalarType::BF16));
    }
    assert_eq!(product(), Some(ScalarType::F32));
    a.tensor().unwrap().require_grad(true).unwrap();
    let tracked = || {
        call("aten::mm", "", &[a.clone(), b.clone()], &[])[0]
            .tensor()
            .unwrap()
            .tch()
            .requires_grad()
    };
    assert!(tracked());
    {
        let _off = GradMode::set(false);
        assert!(!tracked());
        let _on = GradMode::set(true);
        assert!(tracked());
    }
    assert!(tracked());
}

#[test]
fn memory_is_checked_and_given_back() {
    let f32s = |shape| Layout::dense(ScalarType::F32, shape);
    let wrong = Tensor::from_bytes(&[0; 7], &f32s(&[2])).unwrap_err();
    assert_eq!(wrong.to_string(), "float32 [2] takes 8 bytes, and there are 7");
    assert!(Tensor::from_bytes(&[], &f32s(&[-1])).is_err());
    assert!(Tensor::from_bytes(&[0; 8], &f32s(&[i64::MAX, i64::MAX])).is_err());
    let empty = Tensor::from_bytes(&[], &f32s(&[0, 3])).unwrap();
    assert_eq!((empty.shape(), empty.host().unwrap().bytes().len()), (vec![0, 3], 0));
    let columns = Layout { strides: vec![1, 2].into(), ..f32s(&[2, 2]) };
    let bytes: Vec<u8> = [1_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let turned = Tensor::from_bytes(&bytes, &columns).unwrap();
    assert_eq!(read(&turned.into()), [1.0, 3.0, 2.0, 4.0]);
}

#[test]
fn a_mapped_file_is_used_in_place_and_never_written() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[0; 64]).unwrap();
    file.write_all(&[0, 0, 128, 63, 0, 0, 128, 63]).unwrap();
    let map = Mapping::open(&file).unwrap();
    let one = Layout::dense(ScalarType::F32, &[1]);
    let aligned = Tensor::mapped(&map, 64..68, &one).unwrap();
    let odd = Tensor::mapped(&map, 68..72, &one).unwrap();
    assert!(Tensor::mapped(&map, 70..74, &one).is_err());
    assert_eq!((read(&(&aligned).into()), read(&odd.into())), (vec![1.0], vec![1.0]));
    assert_eq!(map.users(), 1, "the odd one was copied");
    call("aten::add_", "Tensor", &[(&aligned).into(), Value::Int(1)], &[]);
    assert_eq!(read(&aligned.into()), [2.0]);
    assert_eq!(map.users(), 0, "given back with the last tensor");
    let again = Tensor::mapped(&Mapping::open(&file).unwrap(), 64..68, &one).unwrap();
    assert_eq!(read(&again.into()), [1.0], "the file is as it was");
}
