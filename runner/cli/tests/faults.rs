//! One fault at a time in Pass 2, made by an edited program or another configuration: each must
//! end in Fail, and the quantity in which it is first seen must be the one that is named. And the
//! other way round: right runs from other seeds must not fail.

mod common;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use common::edit::Program;
use common::{Scratch, read_json, text};
use warpforge_tests::{campaign, root};

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    /// The workload bert-squad, small.
    Bert,
    /// A model with batch norm, tied and frozen weights and dropout, by `AdamW`, with two
    /// micro-batches to a step and a warm-up.
    Adam,
    /// The same by SGD with Nesterov's momentum and clipping.
    Sgd,
}

const BERT: &str = "steps=4 forced=2 noise_runs=1 batch_size=8 evaluation_questions=0 expect={}";
const ADAM: &str = "--optimizer adamw --lr 0.01 --weight-decay 0.1 --no-norm-decay --accumulate 2 \
                    --schedule linear --warmup 2 --steps 6 --forced 3";
const SGD: &str = "--optimizer sgd --lr 0.1 --momentum 0.9 --nesterov --weight-decay 0.01 \
                   --clip-norm 0.5 --schedule step --every 2 --gamma 0.5 --steps 4 --forced 2";

/// How Pass 2 is made wrong.
#[derive(Clone, Copy)]
enum Wrong {
    /// A setting of the workload, told otherwise than to golden.
    Setting(&'static str, &'static str),
    /// The program that other options give: one text of them in the place of another.
    Options(&'static str, &'static str),
    /// Texts in the place of others in one function of the step's program.
    Text(&'static str, Changes),
    /// The step itself, edited.
    Step(fn(&mut Program)),
    /// The batches in another order.
    Order,
}

struct Fault {
    name: &'static str,
    on: On,
    wrong: Wrong,
    /// What the verdict must begin with.
    named: &'static str,
}

const fn fault(name: &'static str, on: On, wrong: Wrong, named: &'static str) -> Fault {
    Fault { name, on, wrong, named }
}

use On::{Adam, Bert, Sgd};
use Wrong::{Options, Order, Setting, Step, Text};

const FORWARD: &str = "aten.scaled_dot_product_attention";
const BACKWARD: &str = "aten.scaled_dot_product_attention_backward";
const WORDS: &str = "aten.embedding_backward_2";
const WORDS_GRADIENT: &str = "gradients at step 0: bert.embeddings.word_embeddings.weight";

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    // The optimiser, in which Pass 2 is told something else.
    fault("wrong first beta", Bert, Setting("beta1", "0.8"), "optimiser alone at step 0"),
    fault("wrong second beta", Bert, Setting("beta2", "0.99"), "optimiser alone at step 0"),
    fault("wrong epsilon", Bert, Setting("eps", "1e-4"), "optimiser alone at step 0"),
    fault("weight decay forgotten", Bert, Setting("weight_decay", "0.0"), "optimiser alone at step 0"),
    fault("learning rate off by 1 %", Bert, Setting("learning_rate", "3.03e-3"), "learning rate at step 0"),
    fault("clipping to another norm", Bert, Setting("clip_norm", "1e-3"), "optimiser alone at step 0"),
    fault("clipping forgotten", Bert, Setting("clip_norm", "null"), "optimiser alone at step 0"),
    fault("dropout from another seed", Bert, Setting("seed", "1"), "activations at step 0: dropout"),
    fault("questions cut short", Bert, Setting("max_question", "5"), "loss curve"),
    fault("batches in another order", Adam, Order, "loss curve"),
    // The optimiser, in the program.
    fault("bias correction off", Bert, Step(no_bias_correction), "weights at step 0"),
    fault("epsilon inside the root", Bert, Step(epsilon_inside), "weights at step 0"),
    fault("first average not kept", Bert, Step(stale_average), "optimiser state at step 0"),
    fault("parameter frozen by mistake", Bert, Step(frozen), "weights at step 0: qa_outputs.weight"),
    fault("weight decay on biases and norms", Adam, Options("--no-norm-decay", ""), "weights at step 2"),
    fault("weight decay coupled", Adam, Options("adamw", "adam"), "optimiser state at step 0"),
    fault("warm-up missing", Adam, Options("--warmup 2", "--warmup 0"), "learning rate at step 0"),
    fault("schedule off by one", Adam, Step(late_schedule), "learning rate at step 0"),
    fault("schedule forgotten", Adam, Options("linear", "constant"), "learning rate at step 4"),
    fault("tied parameter updated twice", Adam, Step(updated_twice), "weights at step 2: embedding.weight"),
    fault("wrong momentum", Sgd, Options("--momentum 0.9", "--momentum 0.8"), "weights at step 0"),
    fault("Nesterov forgotten", Sgd, Options("--nesterov ", ""), "weights at step 0"),
    fault("momentum dampened", Sgd, Options("--nesterov", "--dampening 0.5"), "weights at step 0"),
    fault("decay of the rate too early", Sgd, Options("--every 2", "--every 1"), "learning rate at step 2"),
    fault("clipping off", Sgd, Options("--clip-norm 0.5", ""), "weights at step 0"),
    fault("clipping tensor by tensor", Sgd, Step(clip_each), "weights at step 0"),
    // Micro-batches.
    fault("accumulation step dropped", Adam, Step(dropped), "gradients at step 0"),
    fault("micro-batches added, not averaged", Adam, Step(not_averaged), "gradients at step 0"),
    fault("first micro-batch twice", Adam, Step(same_batch), "loss at step 0"),
    fault("micro-batches share a mask", Adam, Step(same_mask), "loss at step 0"),
    // Buffers.
    fault("stale statistics", Adam, Step(stale_mean), "buffers at step 0: buffer/norm.running_mean"),
    fault("statistics at another momentum", Adam, Text("main", STATISTICS_SLOWER), "buffers at step 0"),
    fault("variance of the batch as it is", Adam, Text("main", BIASED_VARIANCE), "buffers at step 0: buffer/norm.running_var"),
    // The way back.
    fault("gradient of one use of tied weights", Adam, Step(half_tied), "gradients at step 0: embedding.weight"),
    fault("gradient without 1/sqrt(d)", Bert, Text(BACKWARD, NO_SCALE), "gradients at step 0"),
    fault("erf's derivative without 2/sqrt(pi)", Bert, Text("aten.gelu_backward", &[("dense<1.1283792>", "dense<1.0>")]), "gradients at step 0"),
    fault("dropout not scaled on the way back", Bert, Text("aten.dropout_backward", &[("dense<1.1111112>", "dense<1.0>")]), "gradients at step 0"),
    fault("softmax's gradient without its sum", Bert, Text("aten.softmax_backward", &[("subtract %arg1, %3", "maximum %arg1, %arg1")]), "gradients at step 0"),
    fault("norm's gradient without its mean", Bert, Text("aten.layer_norm_backward", &[("subtract %17, %32", "maximum %17, %17")]), "gradients at step 0"),
    fault("bias gradient over the wrong axes", Bert, Text("aten.linear_backward_1", ONE_TOKEN), "gradients at step 0"),
    fault("embedding's gradient overwritten", Bert, Text(WORDS, &[("add %arg8, %arg9", "maximum %arg9, %arg9")]), WORDS_GRADIENT),
    fault("padding gets a gradient", Bert, Text(WORDS, &[("select %2, %3, %arg1", "select %2, %arg1, %arg1")]), WORDS_GRADIENT),
    fault("residual's gradient lost", Bert, Step(no_residual), "gradients at step 0"),
    fault("weight gradients rounded to bf16", Bert, Text("aten.linear_backward_1", NARROW_GRADIENT), "gradients at step 0"),
    // The way forward.
    fault("products rounded to bf16", Bert, Text("aten.linear", NARROW_PRODUCT), "activations at step 0"),
    fault("attention without 1/sqrt(d)", Bert, Text(FORWARD, &[("dense<0.4204482>", "dense<1.0>")]), "activations at step 0: reshape"),
    fault("attention's mask dropped", Bert, Text(FORWARD, NO_MASK), "activations at step 0: reshape"),
    fault("gelu by tanh", Bert, Text("aten.gelu", BY_TANH), "activations at step 0: gelu"),
    fault("epsilon of a norm", Bert, Text("aten.layer_norm", &[("dense<1.0e-12>", "dense<1.0e-5>")]), "activations at step 0"),
    fault("mask of the node before", Bert, Text("main", NODE_BEFORE), "activations at step 0: dropout"),
    fault("mask of the step after", Bert, Step(next_mask), "activations at step 0: dropout"),
    fault("labels shifted by one", Bert, Step(shifted_labels), "loss at step 0"),
    fault("loss summed, not averaged", Bert, Text("aten.cross_entropy_loss", &[("divide %19, %17", "maximum %19, %19")]), "loss at step 0"),
];

/// Texts of a function, and what is put in their places.
type Changes = &'static [(&'static str, &'static str)];

const NO_SCALE: Changes = &[
    ("dot_general %35, %3,", "dot_general %35, %arg1,"),
    ("multiply %36, %0", "maximum %36, %36"),
];

/// The bias's gradient of the first token alone.
const ONE_TOKEN: Changes = &[
    (
        "%1 = stablehlo.reduce(%arg2",
        "%part = stablehlo.slice %arg2 [0:8, 0:1, 0:128] : (tensor<8x44x128xf32>) -> tensor<8x1x128xf32>
    %1 = stablehlo.reduce(%part",
    ),
    ("(tensor<8x44x128xf32>, tensor<f32>)", "(tensor<8x1x128xf32>, tensor<f32>)"),
];

const NARROW_GRADIENT: Changes = &[
    ("%3 = stablehlo.dot_general", "%wide = stablehlo.dot_general"),
    (
        "    func.return",
        "    %narrow = stablehlo.convert %wide : (tensor<128x128xf32>) -> tensor<128x128xbf16>
    %3 = stablehlo.convert %narrow : (tensor<128x128xbf16>) -> tensor<128x128xf32>
    func.return",
    ),
];

const NARROW_PRODUCT: Changes = &[
    ("%0 = stablehlo.dot_general", "%wide = stablehlo.dot_general"),
    (
        "    %2 = ",
        "    %narrow = stablehlo.convert %wide : (tensor<8x44x128xf32>) -> tensor<8x44x128xbf16>
    %0 = stablehlo.convert %narrow : (tensor<8x44x128xbf16>) -> tensor<8x44x128xf32>
    %2 = ",
    ),
];

const NO_MASK: Changes = &[("select %5, %4, %6 : tensor<8x4x44x44xi1>, ", "maximum %4, %4 : ")];

const STATISTICS_SLOWER: Changes =
    &[("dense<0.1> : tensor<24xf64>", "dense<0.01> : tensor<24xf64>")];

const BIASED_VARIANCE: Changes =
    &[("dense<23.0> : tensor<24xf32>", "dense<24.0> : tensor<24xf32>")];

const NODE_BEFORE: Changes =
    &[("dense<8> : tensor<1xui64> loc(\"dropout\"", "dense<7> : tensor<1xui64> loc(\"dropout\"")];

/// GELU's usual approximation: tanh(2/sqrt(pi) u (1 + 0.08943 u²)) in the place of erf(u).
const BY_TANH: Changes = &[(
    "    %2 = chlo.erf %1 : tensor<8x44x128xf32> -> tensor<8x44x128xf32>",
    "    %a = stablehlo.multiply %1, %1 : tensor<8x44x128xf32>
    %b = stablehlo.constant dense<0.08943> : tensor<8x44x128xf32>
    %c = stablehlo.multiply %a, %b : tensor<8x44x128xf32>
    %d = stablehlo.constant dense<1.0> : tensor<8x44x128xf32>
    %e = stablehlo.add %c, %d : tensor<8x44x128xf32>
    %f = stablehlo.multiply %1, %e : tensor<8x44x128xf32>
    %g = stablehlo.constant dense<1.1283792> : tensor<8x44x128xf32>
    %h = stablehlo.multiply %f, %g : tensor<8x44x128xf32>
    %2 = stablehlo.tanh %h : tensor<8x44x128xf32>",
)];

fn no_bias_correction(step: &mut Program) {
    for power in step.all("stablehlo.power") {
        step.remake(&power, "stablehlo.constant dense<0.0> : tensor<f64>");
    }
}

fn epsilon_inside(step: &mut Program) {
    for (i, square) in averages(step, "exp_avg_sq/").into_iter().enumerate() {
        let root = &step.all(&format!("stablehlo.sqrt {square} "))[0];
        let ty = step.ty(&square);
        let (epsilon, sum) = (format!("%epsilon{i}"), format!("%sum{i}"));
        step.before(root, &epsilon, &format!("stablehlo.constant dense<1.0e-8> : {ty}"));
        step.before(root, &sum, &format!("stablehlo.add {square}, {epsilon} : {ty}"));
        step.remake(root, &format!("stablehlo.sqrt {sum} : {ty}"));
    }
}

/// The values of one of the optimiser's averages after the step.
fn averages(step: &Program, slot: &str) -> Vec<String> {
    let names = step.names("optimizer");
    let names = names.iter().filter(|name| name.starts_with(slot));
    names.map(|name| step.result("optimizer", name)).collect()
}

fn stale_average(step: &mut Program) {
    let name = "exp_avg/qa_outputs.weight";
    let before = step.argument("optimizer", name);
    step.set_result("optimizer", name, &before);
}

fn frozen(step: &mut Program) {
    let before = step.argument("parameter", "qa_outputs.weight");
    step.set_result("parameter", "qa_outputs.weight", &before);
}

fn late_schedule(step: &mut Program) {
    let number = step.argument("step", "step");
    let now = &step.all(&format!("stablehlo.convert {number} : (tensor<i64>) -> tensor<f64>"))[0];
    step.before(now, "%one", "stablehlo.constant dense<1> : tensor<i64>");
    step.before(now, "%next", &format!("stablehlo.add {number}, %one : tensor<i64>"));
    step.remake(now, "stablehlo.convert %next : (tensor<i64>) -> tensor<f64>");
}

fn updated_twice(step: &mut Program) {
    let name = "embedding.weight";
    let (before, after) = (step.argument("parameter", name), step.result("parameter", name));
    let ty = step.ty(&after);
    step.last("%change", &format!("stablehlo.subtract {after}, {before} : {ty}"));
    step.last("%again", &format!("stablehlo.add {after}, %change : {ty}"));
    step.set_result("parameter", name, "%again");
}

/// Each gradient is scaled by its own norm in the place of the norm of all.
fn clip_each(step: &mut Program) {
    for (i, name) in step.names("gradient").into_iter().enumerate() {
        let gradient = step.result("gradient", &name);
        let ty = step.ty(&gradient);
        // The second product is by the factor; the first is the square for the norm.
        let clipped = step.all(&format!("stablehlo.multiply {gradient}, "))[1].clone();
        let axes: Vec<String> = (0..ty.matches('x').count()).map(|axis| axis.to_string()).collect();
        let named = |what: &str| format!("%{what}{i}");
        let mut add = |what: &str, operation: String| {
            step.before(&clipped, &named(what), &operation);
            named(what)
        };
        let square = add("square", format!("stablehlo.multiply {gradient}, {gradient} : {ty}"));
        let zero = add("zero", "stablehlo.constant dense<0.0> : tensor<f32>".into());
        let axes = axes.join(", ");
        let sum = add(
            "total",
            format!(
                "stablehlo.reduce({square} init: {zero}) applies stablehlo.add across dimensions = [{axes}] : ({ty}, tensor<f32>) -> tensor<f32>"
            ),
        );
        let norm = add("norm", format!("stablehlo.sqrt {sum} : tensor<f32>"));
        let limit = add("limit", "stablehlo.constant dense<0.5> : tensor<f32>".into());
        let share = add("share", format!("stablehlo.divide {limit}, {norm} : tensor<f32>"));
        let one = add("one", "stablehlo.constant dense<1.0> : tensor<f32>".into());
        let least = add("least", format!("stablehlo.minimum {share}, {one} : tensor<f32>"));
        let factor = add(
            "factor",
            format!("stablehlo.broadcast_in_dim {least}, dims = [] : (tensor<f32>) -> {ty}"),
        );
        step.remake(&clipped, &format!("stablehlo.multiply {gradient}, {factor} : {ty}"));
    }
}

/// What the first micro-batch gave is all there is.
fn dropped(step: &mut Program) {
    for name in step.names("gradient") {
        let gradient = step.result("gradient", &name);
        let (ty, first) = (step.ty(&gradient), step.operands(&gradient)[0].clone());
        step.remake(&gradient, &format!("stablehlo.maximum {first}, {first} : {ty}"));
    }
}

fn not_averaged(step: &mut Program) {
    let backward = step.all("composite \"aten.cross_entropy_loss_backward\"");
    assert_eq!(backward.len(), 2);
    for loss in backward {
        let seed = &step.operands(&loss)[2].clone();
        step.remake(seed, "stablehlo.constant dense<1.0> : tensor<f32>");
    }
}

fn same_batch(step: &mut Program) {
    for name in ["ids", "labels"] {
        let argument = |i: u32| step.argument("input", &format!("{name}@{i}"));
        let (first, second) = (argument(0), argument(1));
        step.reread(&second, &first, "");
    }
}

fn same_mask(step: &mut Program) {
    let places = step.all("stablehlo.constant dense<1> : tensor<ui64>");
    assert_eq!(places.len(), 1);
    step.remake(&places[0], "stablehlo.constant dense<0> : tensor<ui64>");
}

fn next_mask(step: &mut Program) {
    let places = step.all("stablehlo.constant dense<0> : tensor<ui64>");
    assert_eq!(places.len(), 1);
    step.remake(&places[0], "stablehlo.constant dense<1> : tensor<ui64>");
}

fn stale_mean(step: &mut Program) {
    let before = step.argument("buffer", "norm.running_mean");
    step.set_result("mutated", "norm.running_mean", &before);
}

/// Of the embedding and the head that share a weight, only the head.
fn half_tied(step: &mut Program) {
    let both = step.result("gradient", "embedding.weight");
    for sum in step.operands(&both) {
        let (ty, head) = (step.ty(&sum), step.operands(&sum)[0].clone());
        step.remake(&sum, &format!("stablehlo.maximum {head}, {head} : {ty}"));
    }
}

fn no_residual(step: &mut Program) {
    let sums = step.all("layer.0.intermediate.dense\"(");
    let sum = sums.iter().find(|value| step.operation(value).starts_with("stablehlo.add "));
    let sum = sum.expect("the gradients of both ways are added").clone();
    let (ty, branch) = (step.ty(&sum), step.operands(&sum)[1].clone());
    step.remake(&sum, &format!("stablehlo.maximum {branch}, {branch} : {ty}"));
}

fn shifted_labels(step: &mut Program) {
    let labels = step.argument("input", "start_positions");
    let ty = step.ty(&labels);
    step.before("%arg", "%shifted", &format!("stablehlo.add {labels}, %one : {ty}"));
    step.before("%arg", "%one", &format!("stablehlo.constant dense<1> : {ty}"));
    step.reread(&labels, "%shifted", "%shifted");
}

/// A right golden, Pass 2's program for it, and what judges another.
struct Bench {
    scratch: Scratch,
    bases: [OnceCell<String>; 3],
}

impl Bench {
    fn new() -> Self {
        Self { scratch: Scratch::new(), bases: Default::default() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn must(&self, args: &[&str]) -> String {
        let (code, shown) = self.scratch.golden(args);
        assert_eq!(code, 0, "{args:?}\n{shown}");
        shown
    }

    /// The step's program of a right run, which must pass.
    fn program(&self, on: On) -> &str {
        self.bases[on as usize].get_or_init(|| {
            if on == Bert {
                let (golden, ours) = (self.folder("bert"), self.folder("ours"));
                let mut args =
                    vec!["golden", "bert-squad", "--threads", "1", "--out", text(&golden)];
                args.extend(BERT.split(' ').flat_map(|setting| ["--set", setting]));
                self.must(&args);
                self.execute(&golden, &ours, None);
                let (code, shown) = self.validate(&golden, &ours);
                assert_eq!(code, 0, "{shown}");
                return fs::read_to_string(ours.join("step.mlir")).unwrap();
            }
            let (out, options) = self.model(on);
            let (code, shown) = self.train(options, &out, &[0, 1, 2, 3], None);
            assert_eq!(code, 0, "{shown}");
            fs::read_to_string(out.join("warpforge/step.mlir")).unwrap()
        })
    }

    fn model(&self, on: On) -> (PathBuf, &'static str) {
        if on == Adam { (self.folder("adam"), ADAM) } else { (self.folder("sgd"), SGD) }
    }

    fn execute(&self, golden: &Path, out: &Path, program: Option<&Path>) {
        let mut args = vec!["execute", "bert-squad", "--golden", text(golden), "--out", text(out)];
        if let Some(program) = program {
            args.extend(["--program", text(program)]);
        }
        self.must(&args);
    }

    fn validate(&self, golden: &Path, candidate: &Path) -> (i32, String) {
        let args = ["validate", "--golden", text(golden), "--candidate", text(candidate)];
        self.scratch.golden(&[&args[..], &["--fail-on-mismatch"]].concat())
    }

    /// Both passes of the small model; golden's is taken from the folder if it is there.
    fn train(
        &self,
        options: &str,
        out: &Path,
        order: &[u32],
        program: Option<&Path>,
    ) -> (i32, String) {
        let fixture = |name: &str| root().join("runner/workloads/tests/fixtures").join(name);
        let model = fixture("small.pt2");
        let inputs: Vec<PathBuf> =
            order.iter().map(|i| fixture(&format!("small.{i}.safetensors"))).collect();
        let mut args = vec!["run", "--model", text(&model), "--train", "--noise", "1"];
        args.extend(["--threads", "1", "--out", text(out)]);
        args.extend(inputs.iter().flat_map(|path| ["--inputs", text(path)]));
        args.extend(options.split_whitespace());
        if let Some(program) = program {
            args.extend(["--program", text(program)]);
        }
        self.scratch.golden(&args)
    }

    /// Runs a program in the place of the right one.
    fn judge(&self, on: On, edited: &str) -> (i32, String) {
        let file = self.scratch.write("wrong.mlir", edited);
        if on == Bert {
            let (golden, out) = (self.folder("bert"), self.folder("wrong"));
            fs::remove_dir_all(&out).ok();
            self.execute(&golden, &out, Some(&file));
            return self.validate(&golden, &out);
        }
        let (out, options) = self.model(on);
        self.train(options, &out, &[0, 1, 2, 3], Some(&file))
    }

    /// What Pass 2 comes to with a fault in it.
    fn outcome(&self, fault: &Fault) -> (i32, String) {
        let on = fault.on;
        let program = self.program(on);
        match fault.wrong {
            Setting(key, value) => {
                let (golden, told) = (self.folder("bert"), self.folder("told"));
                fs::remove_dir_all(&told).ok();
                copy(&golden, &told);
                let mut run = read_json(&told.join("run.json"));
                run["configuration"]["bert-squad"][key] = serde_json::from_str(value).unwrap();
                fs::write(told.join("run.json"), run.to_string()).unwrap();
                let out = self.folder("wrong");
                fs::remove_dir_all(&out).ok();
                self.execute(&told, &out, None);
                self.validate(&golden, &out)
            }
            Options(from, to) => {
                let (_, options) = self.model(on);
                let changed = options.replacen(from, to, 1);
                assert_ne!(changed, options, "{from}");
                let out = self.folder("other");
                fs::remove_dir_all(&out).ok();
                let (code, shown) = self.train(&changed, &out, &[0, 1, 2, 3], None);
                assert_eq!(code, 0, "{changed}\n{shown}");
                self.judge(on, &fs::read_to_string(out.join("warpforge/step.mlir")).unwrap())
            }
            Text(function, changes) => {
                let mut step = Program::new(program);
                for (from, to) in changes {
                    step.change(function, from, to);
                }
                self.judge(on, &step.text())
            }
            Step(edit) => {
                let mut step = Program::new(program);
                edit(&mut step);
                self.judge(on, &step.text())
            }
            Order => {
                let (right, options) = self.model(on);
                let out = self.folder("order");
                let order = [1, 0, 3, 2];
                let (code, shown) = self.train(options, &out, &order, None);
                assert_eq!(code, 0, "{shown}");
                // Golden of the right order, under the name of the other: only Pass 2 is told.
                let golden = out.join("golden");
                let run = fs::read(golden.join("run.json")).unwrap();
                fs::remove_dir_all(&golden).unwrap();
                copy(&right.join("golden"), &golden);
                let mut complete = read_json(&golden.join("complete.json"));
                complete["files"]["run.json"] = run.len().into();
                fs::write(golden.join("complete.json"), complete.to_string()).unwrap();
                fs::write(golden.join("run.json"), run).unwrap();
                fs::remove_dir_all(out.join("warpforge")).unwrap();
                self.train(options, &out, &order, None)
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Some of `all`, others for every commit; all of them with `--full`.
fn chosen<'a, T>(name: &str, all: &'a [T], sample: usize) -> Vec<&'a T> {
    let mut rest: Vec<&'a T> = all.iter().collect();
    let mut numbers = campaign::numbers(name);
    let mut chosen = Vec::new();
    for _ in 0..campaign::rounds(sample, all.len()) {
        chosen.push(rest.swap_remove(numbers.below(rest.len() as u64) as usize));
    }
    chosen
}

#[test]
fn every_fault_fails_and_what_it_is_seen_in_is_named() {
    assert!(FAULTS.len() >= 30);
    let bench = Bench::new();
    let mut problems = Vec::new();
    for fault in chosen("faults", FAULTS, 10) {
        let (code, shown) = bench.outcome(fault);
        let verdict =
            shown.lines().find_map(|line| line.strip_prefix("Fail: ")).unwrap_or_default();
        if code != 1 || !verdict.starts_with(fault.named) {
            problems.push(format!(
                "{}: exit {code}, and {} should be named\n{shown}",
                fault.name, fault.named
            ));
        }
    }
    assert!(
        problems.is_empty(),
        "WARPFORGE_TEST_SEED={}\n{}",
        campaign::seed(),
        problems.join("\n")
    );
}

#[test]
fn right_runs_from_other_seeds_pass() {
    let bench = Bench::new();
    let seeds: Vec<u64> = (1..=30).collect();
    let mut problems = Vec::new();
    for seed in chosen("clean", &seeds, 3) {
        let seed = seed.to_string();
        let (golden, ours) = (bench.folder("golden"), bench.folder("ours"));
        fs::remove_dir_all(&golden).ok();
        fs::remove_dir_all(&ours).ok();
        let mut args = vec!["golden", "bert-squad", "--seed", &seed, "--out", text(&golden)];
        args.extend(BERT.split(' ').flat_map(|setting| ["--set", setting]));
        bench.must(&args);
        bench.execute(&golden, &ours, None);
        let (code, shown) = bench.validate(&golden, &ours);
        if code != 0 {
            problems.push(format!("seed {seed}: exit {code}\n{shown}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
