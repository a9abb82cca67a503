//! The update of parameters against `torch.optim` itself, for 20 steps of every rule.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use warpforge_compiler::{LEARNING_RATE, Remat, StepRequest, kind, slots};
use warpforge_snakeburger::eval::{Interpreter, Tensor, Value};
use warpforge_snakeburger::ir::{Attr, Buffer, DType, Dict, Module, TensorTy, Ty, lookup};
use warpforge_snakeburger::{text, verify};
use warpforge_tests::installed::python;
use warpforge_training::{Adam, Optimizer, Recipe, Schedule, Sgd};

const STEPS: u32 = 20;
/// Whole vectors: of bfloat16, PyTorch's kernels compute these in float32 and round once, and the
/// rest of a tensor is rounded at every operation.
const SHAPES: &[(&str, [i64; 2])] = &[("layer.weight", [5, 64]), ("layer.bias", [1, 64])];

fn recipes() -> Vec<Recipe> {
    let adam = Adam { betas: [0.9, 0.95], eps: 1e-6, weight_decay: 0.1 };
    let sgd = |momentum, dampening, nesterov, weight_decay| {
        Optimizer::Sgd(Sgd { momentum, dampening, nesterov, weight_decay })
    };
    let plain = |optimizer| Recipe::new(optimizer, 0.03);
    let with = |schedule| Recipe { schedule, ..plain(sgd(0.0, 0.0, false, 0.0)) };
    vec![
        plain(Optimizer::AdamW(adam)),
        Recipe { no_decay: vec!["layer.bias".into()], ..plain(Optimizer::AdamW(adam)) },
        Recipe { clip_norm: Some(0.5), ..plain(Optimizer::AdamW(Adam::default())) },
        plain(Optimizer::Adam(adam)),
        plain(Optimizer::Adam(Adam { betas: [0.3, 0.999], ..Adam::default() })),
        plain(sgd(0.0, 0.0, false, 0.1)),
        plain(sgd(0.9, 0.2, false, 0.0)),
        plain(sgd(0.9, 0.0, true, 0.01)),
        with(Schedule::Warmup { warmup: 5 }),
        with(Schedule::Linear { warmup: 4, total: 16 }),
        with(Schedule::Cosine { warmup: 0, total: 15 }),
        with(Schedule::Step { warmup: 2, every: 4, gamma: 0.7 }),
    ]
}

/// A program whose only interest is in its parameters' names and types.
fn forward(dtype: DType) -> Module {
    let mut arguments = Vec::new();
    for (i, (name, [rows, columns])) in SHAPES.iter().enumerate() {
        arguments.push(format!(
            "%arg{i}: tensor<{rows}x{columns}x{}> {{warpforge.name = \"{name}\", warpforge.kind = \"parameter\"}}",
            dtype.name()
        ));
    }
    let (arguments, ty) = (arguments.join(", "), dtype.name());
    let program = format!(
        "func.func @main({arguments}) -> tensor<{ty}> {{
           %0 = stablehlo.constant dense<0.0> : tensor<{ty}>
           return %0 : tensor<{ty}>
         }}"
    );
    text::parse(&program, text::Options::default()).unwrap()
}

/// Numbers of ordinary size, the same for every case.
fn number(seed: u32, i: usize) -> f64 {
    let mixed = (seed.wrapping_mul(0x9e37_79b9) ^ (i as u32)).wrapping_mul(0x85eb_ca6b);
    f64::from(mixed ^ (mixed >> 13)) / f64::from(u32::MAX) - 0.5
}

fn start(dtype: DType) -> BTreeMap<String, Tensor> {
    let mut named = BTreeMap::new();
    for (at, (name, dims)) in (0u32..).zip(SHAPES) {
        let tensor =
            |seed: u32| Tensor::from_floats(TensorTy::new(*dims, dtype), |i| number(seed, i));
        named.insert((*name).to_owned(), tensor(1000 + at));
        for step in 0..STEPS {
            named.insert(format!("{name}@{step}"), tensor(at * 100 + step));
        }
    }
    named
}

fn write(path: &Path, named: &BTreeMap<String, Tensor>) {
    let views = named.iter().map(|(name, tensor)| {
        let dtype = match tensor.storage() {
            DType::F64 => Dtype::F64,
            DType::BF16 => Dtype::BF16,
            _ => Dtype::F32,
        };
        let shape = tensor.dims().iter().map(|dim| *dim as usize).collect();
        (name, TensorView::new(dtype, shape, tensor.data.bytes()).unwrap())
    });
    fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn read(path: &Path, dtype: DType) -> BTreeMap<String, Tensor> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| {
            let ty = TensorTy::new(view.shape().iter().map(|dim| *dim as i64), dtype);
            (name.to_owned(), Tensor { ty, data: Buffer::from_slice(view.data()) })
        })
        .collect()
}

fn label(attrs: &Dict) -> (String, String) {
    let text = |key| match lookup(attrs, key) {
        Some(Attr::Str(text)) => text.to_string(),
        other => panic!("{key} is {other:?}"),
    };
    (text("warpforge.kind"), text("warpforge.name"))
}

/// The parameters after all steps, and the learning rate of each.
fn train(
    recipe: &Recipe,
    dtype: DType,
    given: &BTreeMap<String, Tensor>,
) -> (BTreeMap<String, Tensor>, Vec<f64>) {
    let forward = forward(dtype);
    let remat = Remat::default();
    let request = StepRequest {
        forward: &forward,
        loss: 0,
        trained: &[0, 1],
        recipe,
        gradients: false,
        remat: &remat,
    };
    let module =
        verify::verify(warpforge_compiler::update(&request).unwrap()).unwrap().into_module();
    let main = module.entry().unwrap();
    let mut state: BTreeMap<(String, String), Tensor> = BTreeMap::new();
    for (name, dims) in SHAPES {
        state.insert(("parameter".into(), (*name).into()), given[*name].clone());
        for slot in slots(recipe) {
            let zeros = Tensor::zeros(TensorTy::new(*dims, dtype));
            state.insert((kind::OPTIMIZER.into(), format!("{slot}/{name}")), zeros);
        }
    }
    let mut rates = Vec::new();
    for step in 0..STEPS {
        let arguments = main.argument_attrs.iter().zip(&main.arguments).map(|(attrs, ty)| {
            let (kind, name) = label(attrs);
            Value::Tensor(match kind.as_str() {
                kind::STEP => {
                    let Ty::Tensor(ty) = module.ty(*ty) else { panic!("{name}") };
                    Tensor::from_ints(ty.clone(), |_| i64::from(step))
                }
                kind::GRADIENT => given[&format!("{name}@{step}")].clone(),
                _ => state[&(kind, name)].clone(),
            })
        });
        let arguments = arguments.collect();
        let results = Interpreter::new(&module).call("main", arguments).unwrap();
        for (attrs, result) in main.result_attrs.iter().zip(results) {
            let Value::Tensor(tensor) = result else { panic!("{result:?}") };
            let key = label(attrs);
            if key.1 == LEARNING_RATE {
                rates.push(tensor.get(0).float());
            }
            state.insert(key, tensor);
        }
    }
    let own = state.into_iter().filter(|((kind, _), _)| kind == "parameter");
    (own.map(|((_, name), tensor)| (name, tensor)).collect(), rates)
}

/// How far apart two numbers are, in units of the larger one's last place; near zero, of the last
/// place of what they were computed from.
fn places(a: f64, b: f64, epsilon: f64) -> f64 {
    (a - b).abs() / (a.abs().max(b.abs()).max(0.1) * epsilon)
}

#[test]
fn every_rule_is_that_of_torch_optim() {
    let recipes = recipes();
    // PyTorch may round a product and a sum together where this program rounds twice.
    let formats = [
        (DType::F64, f64::EPSILON, 32.0),
        (DType::F32, f64::from(f32::EPSILON), 32.0),
        (DType::BF16, 2f64.powi(-7), 1.0),
    ];
    for (dtype, epsilon, most) in formats {
        let folder = tempfile::tempdir().unwrap();
        let given = start(dtype);
        write(&folder.path().join("start.safetensors"), &given);
        let cases = serde_json::to_string(&recipes).unwrap();
        fs::write(folder.path().join("cases.json"), cases).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/optimizers.py");
        let status = python().arg(script).arg(folder.path()).status().unwrap();
        assert!(status.success(), "{status}");
        for (i, recipe) in recipes.iter().enumerate() {
            let (ours, rates) = train(recipe, dtype, &given);
            let theirs = read(&folder.path().join(format!("{i}.safetensors")), dtype);
            for (name, theirs) in &theirs {
                let ours = &ours[name];
                let count = theirs.ty.count().unwrap();
                let worst = (0..count)
                    .map(|i| places(ours.get(i).float(), theirs.get(i).float(), epsilon))
                    .fold(0.0, f64::max);
                assert!(worst <= most, "case {i}, {dtype:?}, {name}: {worst} places, {recipe:?}");
            }
            let text = fs::read_to_string(folder.path().join(format!("{i}.json"))).unwrap();
            let theirs: Vec<f64> = serde_json::from_str(&text).unwrap();
            for (step, (ours, theirs)) in rates.iter().zip(&theirs).enumerate() {
                let apart = places(*ours, *theirs, f64::EPSILON);
                assert!(apart <= 4.0, "case {i}, step {step}: {ours} and {theirs}");
            }
        }
    }
}
