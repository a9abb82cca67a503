//! A forward pass of the size of BERT-base, whole and in its parts:
//! `cargo bench -p warpforge-snakeburger --bench bert`.

#![allow(clippy::format_push_string, reason = "programs are written line by line")]

use divan::{Bencher, black_box};
use warpforge_snakeburger::eval::{Interpreter, Num, Tensor, Value};
use warpforge_snakeburger::ir::{DType, Module, Ty};
use warpforge_snakeburger::text::{self, Options};
use warpforge_snakeburger::verify;

const LAYERS: usize = 12;
const TOKENS: usize = 128;
const HIDDEN: usize = 768;
const HEADS: usize = 12;
const INNER: usize = 3072;
const WORDS: usize = 30522;

fn main() {
    divan::main();
}

/// A function under construction: its arguments, its lines, and how many values it has.
#[derive(Default)]
struct Builder {
    arguments: Vec<String>,
    body: String,
    values: usize,
}

impl Builder {
    fn argument(&mut self, ty: &str) -> String {
        let name = format!("%arg{}", self.arguments.len());
        self.arguments.push(format!("{name}: {ty}"));
        name
    }

    fn op(&mut self, text: &str) -> String {
        let name = format!("%{}", self.values);
        self.values += 1;
        self.body += &format!("  {name} = {text}\n");
        name
    }

    fn splat(&mut self, value: &str, ty: &str) -> String {
        self.op(&format!("stablehlo.constant dense<{value}> : {ty}"))
    }

    fn two(&mut self, op: &str, x: &str, y: &str, ty: &str) -> String {
        self.op(&format!("stablehlo.{op} {x}, {y} : {ty}"))
    }

    fn one(&mut self, op: &str, x: &str, ty: &str) -> String {
        self.op(&format!("stablehlo.{op} {x} : {ty}"))
    }

    fn broadcast(&mut self, x: &str, dims: &str, from: &str, to: &str) -> String {
        self.op(&format!("stablehlo.broadcast_in_dim {x}, dims = [{dims}] : ({from}) -> {to}"))
    }

    fn reduce(
        &mut self,
        op: &str,
        x: &str,
        init: &str,
        dim: usize,
        from: &str,
        to: &str,
    ) -> String {
        let init = self.splat(init, "tensor<f32>");
        self.op(&format!(
            "stablehlo.reduce({x} init: {init}) applies stablehlo.{op} across dimensions = [{dim}] : \
             ({from}, tensor<f32>) -> {to}"
        ))
    }

    /// `x w + b` with new weights.
    fn linear(&mut self, x: &str, from: usize, to: usize) -> String {
        let (input, output) = (tensor(&[TOKENS, from]), tensor(&[TOKENS, to]));
        let (weights, bias) = (tensor(&[to, from]), tensor(&[to]));
        let (w, b) = (self.argument(&weights), self.argument(&bias));
        // As exporters write a linear layer: the weights transposed, then a product.
        let turned = tensor(&[from, to]);
        let w =
            self.op(&format!("stablehlo.transpose {w}, dims = [1, 0] : ({weights}) -> {turned}"));
        let product = self.op(&format!(
            "stablehlo.dot_general {x}, {w}, contracting_dims = [1] x [0] : ({input}, {turned}) -> {output}"
        ));
        let b = self.broadcast(&b, "1", &bias, &output);
        self.two("add", &product, &b, &output)
    }

    fn layer_norm(&mut self, x: &str) -> String {
        let (ty, row, line) = (tensor(&[TOKENS, HIDDEN]), tensor(&[TOKENS]), tensor(&[HIDDEN]));
        let size = self.splat(&format!("{HIDDEN}.0"), &row);
        let sum = self.reduce("add", x, "0.0", 1, &ty, &row);
        let mean = self.two("divide", &sum, &size, &row);
        let mean = self.broadcast(&mean, "0", &row, &ty);
        let centred = self.two("subtract", x, &mean, &ty);
        let squared = self.two("multiply", &centred, &centred, &ty);
        let sum = self.reduce("add", &squared, "0.0", 1, &ty, &row);
        let variance = self.two("divide", &sum, &size, &row);
        let epsilon = self.splat("1.0e-12", &row);
        let variance = self.two("add", &variance, &epsilon, &row);
        let scale = self.one("rsqrt", &variance, &row);
        let scale = self.broadcast(&scale, "0", &row, &ty);
        let x = self.two("multiply", &centred, &scale, &ty);
        let (gamma, beta) = (self.argument(&line), self.argument(&line));
        let gamma = self.broadcast(&gamma, "1", &line, &ty);
        let beta = self.broadcast(&beta, "1", &line, &ty);
        let x = self.two("multiply", &x, &gamma, &ty);
        self.two("add", &x, &beta, &ty)
    }

    fn heads(&mut self, x: &str) -> String {
        let (flat, split, turned) = (
            tensor(&[TOKENS, HIDDEN]),
            tensor(&[1, TOKENS, HEADS, HIDDEN / HEADS]),
            tensor(&[1, HEADS, TOKENS, HIDDEN / HEADS]),
        );
        let x = self.op(&format!("stablehlo.reshape {x} : ({flat}) -> {split}"));
        self.op(&format!("stablehlo.transpose {x}, dims = [0, 2, 1, 3] : ({split}) -> {turned}"))
    }

    fn softmax(&mut self, x: &str) -> String {
        let (ty, row) = (tensor(&[1, HEADS, TOKENS, TOKENS]), tensor(&[1, HEADS, TOKENS]));
        let top = self.reduce("maximum", x, "0xFF800000", 3, &ty, &row);
        let top = self.broadcast(&top, "0, 1, 2", &row, &ty);
        let x = self.two("subtract", x, &top, &ty);
        let x = self.one("exponential", &x, &ty);
        let sum = self.reduce("add", &x, "0.0", 3, &ty, &row);
        let sum = self.broadcast(&sum, "0, 1, 2", &row, &ty);
        self.two("divide", &x, &sum, &ty)
    }

    fn attention(&mut self, x: &str) -> String {
        let (head, scores) =
            (tensor(&[1, HEADS, TOKENS, HIDDEN / HEADS]), tensor(&[1, HEADS, TOKENS, TOKENS]));
        let [q, k, v] = [(); 3].map(|()| {
            let projected = self.linear(x, HIDDEN, HIDDEN);
            self.heads(&projected)
        });
        let product = self.op(&format!(
            "stablehlo.dot_general {q}, {k}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : \
             ({head}, {head}) -> {scores}"
        ));
        let scale = self.splat("0.125", &scores);
        let scaled = self.two("multiply", &product, &scale, &scores);
        let weights = self.softmax(&scaled);
        let mixed = self.op(&format!(
            "stablehlo.dot_general {weights}, {v}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : \
             ({scores}, {head}) -> {head}"
        ));
        let (split, flat) =
            (tensor(&[1, TOKENS, HEADS, HIDDEN / HEADS]), tensor(&[TOKENS, HIDDEN]));
        let mixed = self
            .op(&format!("stablehlo.transpose {mixed}, dims = [0, 2, 1, 3] : ({head}) -> {split}"));
        let mixed = self.op(&format!("stablehlo.reshape {mixed} : ({split}) -> {flat}"));
        self.linear(&mixed, HIDDEN, HIDDEN)
    }

    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    fn gelu(&mut self, x: &str) -> String {
        let ty = tensor(&[TOKENS, INNER]);
        let [half, one, root] = ["0.5", "1.0", "0.70710677"].map(|v| self.splat(v, &ty));
        let scaled = self.two("multiply", x, &root, &ty);
        let erf = self.op(&format!("chlo.erf {scaled} : {ty} -> {ty}"));
        let erf = self.two("add", &erf, &one, &ty);
        let x = self.two("multiply", x, &half, &ty);
        self.two("multiply", &x, &erf, &ty)
    }

    fn embedding(&mut self) -> String {
        let (table, ids) = (tensor(&[WORDS, HIDDEN]), format!("tensor<{TOKENS}xi32>"));
        let (table_name, ids_name) = (self.argument(&table), self.argument(&ids));
        let ty = tensor(&[TOKENS, HIDDEN]);
        self.op(&format!(
            "\"stablehlo.gather\"({table_name}, {ids_name}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], \
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {HIDDEN}>, \
             indices_are_sorted = false}}> : ({table}, {ids}) -> {ty}"
        ))
    }

    fn finish(self, result: &str, ty: &str) -> Program {
        let text = format!(
            "func.func @main({}) -> {ty} {{\n{}  return {result} : {ty}\n}}\n",
            self.arguments.join(", "),
            self.body
        );
        Program::new(&text)
    }
}

fn tensor(dims: &[usize]) -> String {
    let dims: String = dims.iter().map(|dim| format!("{dim}x")).collect::<Vec<_>>().concat();
    format!("tensor<{dims}f32>")
}

/// A verified program with arguments: small numbers that follow from their places.
struct Program {
    module: Module,
    arguments: Vec<Value>,
}

impl Program {
    fn new(text: &str) -> Self {
        let parsed = text::parse(text, Options::default()).unwrap();
        let module = verify::verify(parsed).unwrap().into_module();
        let func = module.func("main").unwrap();
        let argument = |ty| {
            let Ty::Tensor(ty) = module.ty(ty) else { unreachable!("tensors only") };
            Value::Tensor(match ty.dtype() {
                Some(DType::F32) => Tensor::from_nums(ty.clone(), |i| {
                    Num::F(((i * 2_654_435_761) % 2048) as f64 / 20480.0 - 0.05)
                }),
                _ => Tensor::from_nums(ty.clone(), |i| Num::I((i * 7919 % WORDS) as i64)),
            })
        };
        let arguments = func.arguments.iter().map(|ty| argument(*ty)).collect();
        Self { module, arguments }
    }

    fn bench(&self, bencher: Bencher<'_, '_>) {
        bencher.with_inputs(|| self.arguments.clone()).bench_local_values(|arguments| {
            black_box(Interpreter::new(&self.module).call("main", arguments).unwrap())
        });
    }
}

fn encoder(layers: usize) -> Program {
    let mut b = Builder::default();
    let ty = tensor(&[TOKENS, HIDDEN]);
    let embedded = b.embedding();
    let mut x = b.layer_norm(&embedded);
    for _ in 0..layers {
        let mixed = b.attention(&x);
        let sum = b.two("add", &mixed, &x, &ty);
        x = b.layer_norm(&sum);
        let inner = b.linear(&x, HIDDEN, INNER);
        let inner = b.gelu(&inner);
        let outer = b.linear(&inner, INNER, HIDDEN);
        let sum = b.two("add", &outer, &x, &ty);
        x = b.layer_norm(&sum);
    }
    b.finish(&x, &ty)
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn forward(bencher: Bencher<'_, '_>) {
    encoder(LAYERS).bench(bencher);
}

/// One part of the model at a time, on an argument of its own.
#[divan::bench(args = ["layer_norm", "softmax", "gelu", "heads", "linear", "embedding", "broadcast", "add", "exponential", "erf"], sample_count = 10, sample_size = 1)]
fn part(bencher: Bencher<'_, '_>, name: &str) {
    let mut b = Builder::default();
    let hidden = tensor(&[TOKENS, HIDDEN]);
    let ty = match name {
        "softmax" => tensor(&[1, HEADS, TOKENS, TOKENS]),
        "gelu" | "add" | "exponential" | "erf" => tensor(&[TOKENS, INNER]),
        _ => hidden.clone(),
    };
    let x = b.argument(&ty);
    let (result, out) = match name {
        "layer_norm" => (b.layer_norm(&x), hidden),
        "softmax" => (b.softmax(&x), ty),
        "gelu" => (b.gelu(&x), ty),
        "heads" => (b.heads(&x), tensor(&[1, HEADS, TOKENS, HIDDEN / HEADS])),
        "linear" => (b.linear(&x, HIDDEN, INNER), tensor(&[TOKENS, INNER])),
        "embedding" => (b.embedding(), hidden),
        "broadcast" => {
            let line = b.argument(&tensor(&[HIDDEN]));
            (b.broadcast(&line, "1", &tensor(&[HIDDEN]), &hidden), hidden)
        }
        "add" => (b.two("add", &x, &x, &ty), ty),
        "exponential" => (b.one("exponential", &x, &ty), ty),
        "erf" => (b.op(&format!("chlo.erf {x} : {ty} -> {ty}")), ty),
        other => unreachable!("{other}"),
    };
    b.finish(&result, &out).bench(bencher);
}
