//! Two training bundles without a training: parameters named as BERT's, gradients drawn at random
//! with the rounding noise of float32, `AdamW`'s real arithmetic on each side and in float64, loss
//! curves that drift apart as real ones do, and faults to switch on.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;
use std::path::Path;

use warpforge_parity::bundle::{
    self, Expect, Expectation, Forced, ForcedAt, LossAt, LossCurve, Metrics, Writer,
};
use warpforge_parity::compare::{Dtype, Number, Tensor};

/// What is wrong with the candidate, or with golden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// A layer's activation is another function.
    Activation,
    /// A gradient misses a factor, such as 1/√d.
    GradientScale,
    /// One gradient tensor has a wrong row.
    GradientRow,
    /// A gradient that should be zero is not.
    KeyBias,
    /// The whole step's gradients miss one of two micro-batches.
    DroppedMicrobatch,
    WrongBeta,
    NoBiasCorrection,
    DecayOnBias,
    WrongEpsilon,
    /// The optimiser's first moment is not written back by the whole step.
    StaleSlot,
    /// Batch statistics are not updated.
    StaleBuffer,
    /// The counter of batches is off by one.
    Counter,
    /// A frozen parameter moves.
    FrozenMoves,
    NanGradient,
    NanWeight,
    LossShift,
    LearningRate,
    MissingStep,
    MissingGradientFile,
    MissingTensor,
    ExtraTensor,
    /// The free run sees another batch at one step.
    OtherBatch,
    /// The free run's loss is a little too high all along.
    CurveBias,
    CurveNan,
    Metric,
    MissingMetric,
    /// Golden misses what is expected of it.
    Expectation,
    /// Golden computes something else the second time.
    Unstable,
    /// Golden's float32 loss is far from float64.
    NoisyLoss,
    /// The optimiser leaves parameters as they are.
    NoUpdate,
}

impl Fault {
    pub const ALL: [Self; 30] = [
        Self::Activation,
        Self::GradientScale,
        Self::GradientRow,
        Self::KeyBias,
        Self::DroppedMicrobatch,
        Self::WrongBeta,
        Self::NoBiasCorrection,
        Self::DecayOnBias,
        Self::WrongEpsilon,
        Self::StaleSlot,
        Self::StaleBuffer,
        Self::Counter,
        Self::FrozenMoves,
        Self::NanGradient,
        Self::NanWeight,
        Self::LossShift,
        Self::LearningRate,
        Self::MissingStep,
        Self::MissingGradientFile,
        Self::MissingTensor,
        Self::ExtraTensor,
        Self::OtherBatch,
        Self::CurveBias,
        Self::CurveNan,
        Self::Metric,
        Self::MissingMetric,
        Self::Expectation,
        Self::Unstable,
        Self::NoisyLoss,
        Self::NoUpdate,
    ];
}

#[derive(Clone, Debug)]
pub struct Synthetic {
    pub seed: u64,
    pub steps: u64,
    pub forced: Vec<u64>,
    pub perturbed: usize,
    /// How many steps the perturbed goldens run.
    pub noise_steps: u64,
    pub width: usize,
    pub learning_rate: f64,
    pub fault: Option<Fault>,
}

impl Default for Synthetic {
    fn default() -> Self {
        Self {
            seed: 0,
            steps: 240,
            forced: vec![0, 30, 90, 150, 239],
            perturbed: 3,
            noise_steps: 120,
            width: 32,
            learning_rate: 1e-3,
            fault: None,
        }
    }
}

/// Uniform and normal numbers, the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A parameter: its name, shape and how its gradient behaves.
struct Parameter {
    name: String,
    shape: Vec<usize>,
    /// The gradient's size; zero if it is nothing but rounding.
    size: f64,
}

/// Values of one tensor in float64, and what the two sides make of them.
#[derive(Clone, Default)]
struct Sides {
    exact: Vec<f64>,
    golden: Vec<f32>,
    candidate: Vec<f32>,
}

#[derive(Clone, Default)]
struct State {
    weight: Vec<f32>,
    m: Vec<f32>,
    v: Vec<f32>,
}

type Named = BTreeMap<String, (Vec<usize>, Dtype, Vec<u8>)>;

fn f32s(shape: &[usize], values: &[f32]) -> (Vec<usize>, Dtype, Vec<u8>) {
    (shape.to_vec(), Dtype::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

fn f64s(shape: &[usize], values: &[f64]) -> (Vec<usize>, Dtype, Vec<u8>) {
    (shape.to_vec(), Dtype::F64, values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

fn put(writer: &mut Writer, name: &str, tensors: &Named) {
    let view = |(name, (shape, dtype, data)): (&String, &(Vec<usize>, Dtype, Vec<u8>))| {
        (name.clone(), shape.clone(), *dtype, data.clone())
    };
    let owned: Vec<_> = tensors.iter().map(view).collect();
    let tensors = owned
        .iter()
        .map(|(name, shape, dtype, data)| (name.as_str(), Tensor { dtype: *dtype, shape, data }));
    writer.tensors(name, tensors).unwrap();
}

#[derive(Clone, Copy)]
struct Rules {
    betas: (f64, f64),
    epsilon: f64,
    decay: f64,
    correct: bool,
    decay_all: bool,
    frozen: bool,
}

const RULES: Rules = Rules {
    betas: (0.9, 0.999),
    epsilon: 1e-6,
    decay: 0.01,
    correct: true,
    decay_all: false,
    frozen: false,
};

fn decays(name: &str, rules: &Rules) -> bool {
    rules.decay_all || !(name.ends_with("bias") || name.contains("LayerNorm"))
}

impl Synthetic {
    fn parameters(&self) -> Vec<Parameter> {
        let (d, wide) = (self.width, 2 * self.width);
        let mut all = Vec::new();
        let mut put = |name: String, shape: &[usize], size: f64| {
            all.push(Parameter { name, shape: shape.to_vec(), size });
        };
        put("bert.embeddings.word_embeddings.weight".into(), &[6 * d, d], 2e-3);
        put("bert.embeddings.position_embeddings.weight".into(), &[2 * d, d], 3e-3);
        put("bert.embeddings.LayerNorm.weight".into(), &[d], 2e-2);
        put("bert.embeddings.LayerNorm.bias".into(), &[d], 2e-2);
        for layer in 0..2 {
            let at = |part: &str| format!("bert.encoder.layer.{layer}.{part}");
            for (part, size) in [("query", 4e-3), ("key", 4e-3), ("value", 2e-2)] {
                put(at(&format!("attention.self.{part}.weight")), &[d, d], size);
                let bias = if part == "key" { 0.0 } else { size };
                put(at(&format!("attention.self.{part}.bias")), &[d], bias);
            }
            put(at("attention.output.dense.weight"), &[d, d], 2e-2);
            put(at("attention.output.dense.bias"), &[d], 3e-2);
            put(at("attention.output.LayerNorm.weight"), &[d], 2e-2);
            put(at("attention.output.LayerNorm.bias"), &[d], 3e-2);
            put(at("intermediate.dense.weight"), &[wide, d], 1e-2);
            put(at("intermediate.dense.bias"), &[wide], 1e-2);
            put(at("output.dense.weight"), &[d, wide], 1e-2);
            put(at("output.dense.bias"), &[d], 3e-2);
            put(at("output.LayerNorm.weight"), &[d], 4e-2);
            put(at("output.LayerNorm.bias"), &[d], 5e-2);
        }
        put("qa_outputs.weight".into(), &[2, d], 1e-1);
        put("qa_outputs.bias".into(), &[2], 8e-2);
        all
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Golden's loss, with the noise of its batches.
    fn loss(&self, step: u64) -> f64 {
        let mut random = Random::new(self.seed * 7919 + step + 1);
        let at = step as f64 / self.steps as f64;
        let fall = 0.35 + 3.2 / (1.0 + (12.0 * (at - 0.3)).exp());
        fall * (1.0 + 0.07 * random.normal())
    }

    /// How far a run with other rounding has drifted: rounding at first, then more and more.
    fn drift(&self, run: u64) -> Vec<f64> {
        let mut random = Random::new(self.seed * 131 + run * 17 + 3);
        let start = 2e-7 * (0.5 + random.uniform());
        let rate = 9.0 + 3.0 * random.uniform();
        let size = |s: u64| (start * (s as f64 / rate).exp()).min(0.04);
        (0..self.steps).map(|s| self.loss(s) * size(s) * random.normal()).collect()
    }

    fn curve(&self, drift: &[f64], length: u64) -> LossCurve {
        let at = |step: u64| LossAt { step, loss: Number(self.loss(step) + drift[step as usize]) };
        LossCurve { version: 1, steps: (0..length.min(self.steps)).map(at).collect() }
    }

    fn rate(&self, step: u64) -> f64 {
        let warmup = 20.0_f64.min(self.steps as f64 / 4.0);
        let left = (self.steps - step) as f64 / (self.steps as f64 - warmup);
        self.learning_rate * (step as f64 / warmup).min(left)
    }

    fn gradients(&self, parameters: &[Parameter], step: u64) -> Vec<Sides> {
        let mut random = Random::new(self.seed * 1009 + step * 13 + 7);
        let each = |parameter: &Parameter| {
            let count: usize = parameter.shape.iter().product();
            let mut sides = Sides::default();
            for _ in 0..count {
                let (noise, exact) = if parameter.size == 0.0 {
                    (3e-9, 1e-18 * random.normal())
                } else {
                    // Many small ones and a few large ones, as gradients are.
                    let exact = parameter.size * random.normal() * (2.0 * random.uniform()).powi(3);
                    (parameter.size * 3e-7, exact)
                };
                sides.exact.push(exact);
                sides.golden.push((exact + noise * random.normal()) as f32);
                sides.candidate.push((exact + noise * random.normal()) as f32);
            }
            sides
        };
        let mut all: Vec<Sides> = parameters.iter().map(each).collect();
        self.spoil(parameters, &mut all);
        all
    }

    fn spoil(&self, parameters: &[Parameter], all: &mut [Sides]) {
        let place = |end: &str| parameters.iter().position(|p| p.name.ends_with(end)).unwrap();
        let query = place("layer.1.attention.self.query.weight");
        let scale = |values: &mut Vec<f32>, by: f32| values.iter_mut().for_each(|x| *x *= by);
        match self.fault {
            Some(Fault::GradientScale) => scale(&mut all[query].candidate, 1.12),
            Some(Fault::GradientRow) => scale_row(&mut all[query].candidate, self.width),
            Some(Fault::KeyBias) => {
                let bias = place("layer.0.attention.self.key.bias");
                all[bias].candidate.iter_mut().for_each(|x| *x += 2e-6);
            }
            Some(Fault::DroppedMicrobatch) => {
                for sides in all.iter_mut() {
                    scale(&mut sides.candidate, 0.5);
                }
            }
            Some(Fault::NanGradient) => all[query].candidate[5] = f32::NAN,
            _ => {}
        }
    }

    fn start(&self, parameters: &[Parameter], step: u64) -> Vec<State> {
        let mut random = Random::new(self.seed * 31 + step * 101 + 11);
        let each = |parameter: &Parameter| {
            let count: usize = parameter.shape.iter().product();
            let mut state = State::default();
            let size = if parameter.size == 0.0 { 3e-9 } else { parameter.size };
            for _ in 0..count {
                let bias = parameter.name.ends_with("bias") && step == 0;
                state.weight.push(if bias { 0.0 } else { (0.05 * random.normal()) as f32 });
                let moment = if step == 0 { 0.0 } else { size * 0.5 * random.normal() };
                state.m.push(moment as f32);
                let square = if step == 0 { 0.0 } else { size * size * random.uniform() };
                state.v.push(square as f32);
            }
            state
        };
        parameters.iter().map(each).collect()
    }

    /// Writes `golden/` and `warpforge/` below a folder.
    pub fn write(&self, folder: &Path) {
        let parameters = self.parameters();
        let mut golden = Writer::create(&folder.join(bundle::GOLDEN)).unwrap();
        let mut candidate = Writer::create(&folder.join(bundle::WARPFORGE)).unwrap();
        let mut losses = [Vec::new(), Vec::new(), Vec::new()];
        for (number, step) in self.forced.iter().copied().enumerate() {
            let skipped = self.is(Fault::MissingStep) && number == 2;
            self.forced_step(step, &parameters, &mut golden, &mut candidate, skipped);
            let mut random = Random::new(self.seed + step * 3 + 5);
            let exact = self.loss(step);
            let noisy = |random: &mut Random| Number(exact * (1.0 + 2e-7 * random.normal()));
            let at = |loss: Number, rate: f64| ForcedAt {
                step,
                loss,
                learning_rate: rate,
                gradient_norm: None,
            };
            let rate = self.rate(step);
            let (ours, theirs) = (noisy(&mut random), noisy(&mut random));
            let off = if self.is(Fault::NoisyLoss) { 1.01 } else { 1.0 };
            let shift = if self.is(Fault::LossShift) { 1.002 } else { 1.0 };
            let other = if self.is(Fault::LearningRate) { 1.05 } else { 1.0 };
            losses[0].push(at(ours, rate));
            losses[2].push(at(Number(exact * off), rate));
            if !skipped {
                losses[1].push(at(Number(theirs.0 * shift), rate * other));
            }
        }
        let [ours, theirs, exact] = losses.map(|steps| Forced { version: 1, steps });
        golden.json(bundle::FORCED, &ours).unwrap();
        golden.json(&format!("{}/{}", bundle::ORACLE, bundle::FORCED), &exact).unwrap();
        candidate.json(bundle::FORCED, &theirs).unwrap();
        self.free_run(&mut golden, &mut candidate);
        self.checkpoints(&parameters, &mut golden, &mut candidate);
        golden.finish().unwrap();
        candidate.finish().unwrap();
    }

    fn forced_step(
        &self,
        step: u64,
        parameters: &[Parameter],
        golden: &mut Writer,
        candidate: &mut Writer,
        skipped: bool,
    ) {
        let gradients = self.gradients(parameters, step);
        let before = self.start(parameters, step);
        let mut sets: [Named; 7] = Default::default();
        let [ours, theirs, exact, states, after, whole, alone] = &mut sets;
        let mut exact_after = Named::new();
        for ((parameter, sides), state) in parameters.iter().zip(&gradients).zip(&before) {
            let Parameter { name, shape, .. } = parameter;
            ours.insert(name.clone(), f32s(shape, &sides.golden));
            theirs.insert(name.clone(), f32s(shape, &sides.candidate));
            exact.insert(name.clone(), f64s(shape, &sides.exact));
            let rate = self.rate(step);
            let rules = self.rules();
            let other = if self.is(Fault::LearningRate) { 1.05 * rate } else { rate };
            put_state(states, name, shape, state);
            put_state(after, name, shape, &golden_step(state, &sides.golden, step, rate, name));
            let mut moved = candidate_step(state, &sides.candidate, step, other, name, &rules);
            if self.is(Fault::StaleSlot) {
                moved.m.clone_from(&state.m);
            }
            if self.is(Fault::NanWeight) && name.starts_with("qa") {
                moved.weight[0] = f32::NAN;
            }
            put_state(whole, name, shape, &moved);
            put_state(
                alone,
                name,
                shape,
                &candidate_step(state, &sides.golden, step, rate, name, &rules),
            );
            let precise: Vec<f64> = exact_step(state, &sides.exact, step, rate, name);
            exact_after.insert(format!("parameter/{name}"), f64s(shape, &precise));
        }
        self.buffers(step, states, after, whole);
        if self.is(Fault::MissingTensor) {
            theirs.remove("qa_outputs.bias");
        }
        if self.is(Fault::ExtraTensor) {
            theirs.insert("qa_outputs.extra".into(), f32s(&[1], &[0.0]));
        }
        let oracle = |name: &str| format!("{}/{name}", bundle::ORACLE);
        let (gradients, weights) = (bundle::gradients(step), bundle::weights(step));
        put(golden, &gradients, ours);
        put(golden, &oracle(&gradients), exact);
        put(golden, &bundle::states(step), states);
        put(golden, &weights, after);
        put(golden, &oracle(&weights), &exact_after);
        if step == self.forced[0] {
            let mut again = ours.clone();
            if self.is(Fault::Unstable) {
                again.values_mut().next().unwrap().2[0] ^= 1;
            }
            put(golden, &format!("{}/{gradients}", bundle::REPEAT), &again);
        }
        self.activations(step, golden, (!skipped).then_some(&mut *candidate));
        if skipped {
            return;
        }
        if !self.is(Fault::MissingGradientFile) || step != self.forced[1] {
            put(candidate, &gradients, theirs);
        }
        put(candidate, &weights, whole);
        put(candidate, &bundle::optimizer(step), alone);
    }

    fn rules(&self) -> Rules {
        let mut rules = RULES;
        match self.fault {
            Some(Fault::WrongBeta) => rules.betas.1 = 0.998,
            Some(Fault::NoBiasCorrection) => rules.correct = false,
            Some(Fault::DecayOnBias) => rules.decay_all = true,
            Some(Fault::WrongEpsilon) => rules.epsilon = 1e-8,
            Some(Fault::NoUpdate) => rules.frozen = true,
            _ => {}
        }
        rules
    }

    fn buffers(&self, step: u64, states: &mut Named, after: &mut Named, whole: &mut Named) {
        let mut random = Random::new(self.seed + step + 77);
        let old: Vec<f32> = (0..self.width).map(|_| random.normal() as f32).collect();
        let new: Vec<f32> = old.iter().map(|x| 0.9 * x + 0.1 * random.normal() as f32).collect();
        let near: Vec<f32> = new.iter().map(|x| x * (1.0 + 1e-7)).collect();
        let mean = "buffer/norm.running_mean".to_owned();
        let stale = self.is(Fault::StaleBuffer);
        states.insert(mean.clone(), f32s(&[self.width], &old));
        after.insert(mean.clone(), f32s(&[self.width], &new));
        whole.insert(mean, f32s(&[self.width], if stale { &old } else { &near }));
        let count = |count: u64| (vec![], Dtype::I64, count.to_le_bytes().to_vec());
        let counter = "buffer/norm.num_batches_tracked".to_owned();
        states.insert(counter.clone(), count(step));
        after.insert(counter.clone(), count(step + 1));
        let theirs = if self.is(Fault::Counter) { step } else { step + 1 };
        whole.insert(counter, count(theirs));
        let frozen = "parameter/bert.embeddings.token_type_embeddings.weight".to_owned();
        let moved: Vec<f32> = old.iter().map(|x| x + 1e-7).collect();
        states.insert(frozen.clone(), f32s(&[1, self.width], &old));
        after.insert(frozen.clone(), f32s(&[1, self.width], &old));
        let theirs = if self.is(Fault::FrozenMoves) { &moved } else { &old };
        whole.insert(frozen, f32s(&[1, self.width], theirs));
    }

    fn activations(&self, step: u64, golden: &mut Writer, candidate: Option<&mut Writer>) {
        let mut random = Random::new(self.seed * 5 + step + 19);
        let mut sets: [Named; 3] = Default::default();
        let mut order = bundle::Order::default();
        let mut wrong = false;
        let parts = ["attention.self", "attention.output", "intermediate", "output"];
        let names = (0..2).flat_map(|layer| parts.map(|part| (layer, part)));
        for (number, (layer, part)) in names.enumerate() {
            let name = format!("{}_{number}", part.replace('.', "_"));
            wrong |= self.is(Fault::Activation) && layer == 1 && part == "intermediate";
            let shape = [8, self.width];
            let noise = 2e-7 * (1.0 + number as f64 / 3.0);
            let (mut ours, mut theirs, mut exact) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..8 * self.width {
                let value = random.normal();
                let off = if wrong { 4e-3 * random.normal() } else { 0.0 };
                exact.push(value);
                ours.push((value + noise * random.normal()) as f32);
                theirs.push((value + noise * random.normal() + off) as f32);
            }
            sets[0].insert(name.clone(), f32s(&shape, &ours));
            sets[1].insert(name.clone(), f32s(&shape, &theirs));
            sets[2].insert(name.clone(), f64s(&shape, &exact));
            order.modules.insert(name.clone(), format!("bert.encoder.layer.{layer}.{part}"));
            order.activations.push(name);
        }
        let name = bundle::activations(step);
        order.parameters = self.parameters().into_iter().map(|p| p.name).collect();
        golden.json(bundle::ORDER, &order).unwrap();
        put(golden, &name, &sets[0]);
        put(golden, &format!("{}/{name}", bundle::ORACLE), &sets[2]);
        if let Some(candidate) = candidate {
            put(candidate, &name, &sets[1]);
        }
    }

    fn free_run(&self, golden: &mut Writer, candidate: &mut Writer) {
        let none = vec![0.0; self.steps as usize];
        golden.json(bundle::LOSS_CURVE, &self.curve(&none, self.steps)).unwrap();
        let mut drift = self.drift(100);
        match self.fault {
            Some(Fault::OtherBatch) => drift[4] += 0.2,
            Some(Fault::CurveBias) => drift.iter_mut().for_each(|x| *x += 0.004),
            Some(Fault::CurveNan) => drift[150] = f64::NAN,
            _ => {}
        }
        candidate.json(bundle::LOSS_CURVE, &self.curve(&drift, self.steps)).unwrap();
        let metrics = |f1: f64, em: f64, loss: f64| {
            Metrics::from(
                [("f1", f1), ("exact_match", em), ("loss", loss)]
                    .map(|(name, x)| (name.to_owned(), Number(x))),
            )
        };
        let golden_f1 = if self.is(Fault::Expectation) { 71.3 } else { 88.41 };
        golden.json(bundle::METRICS, &metrics(golden_f1, 81.96, 0.3512)).unwrap();
        let f1 = if self.is(Fault::Metric) { 86.9 } else { golden_f1 - 0.23 };
        let mut theirs = metrics(f1, 82.11, 0.3521);
        if self.is(Fault::MissingMetric) {
            theirs.remove("exact_match");
        }
        candidate.json(bundle::METRICS, &theirs).unwrap();
        for number in 0..self.perturbed {
            let drift = self.drift(number as u64 + 1);
            let curve = self.curve(&drift, self.noise_steps);
            golden.json(&bundle::noise_curve(number), &curve).unwrap();
            let by = 0.12 * (number as f64 + 1.0);
            let perturbed = metrics(golden_f1 + by, 81.96 - by, 0.3512);
            golden.json(&bundle::noise_metrics(number), &perturbed).unwrap();
        }
        let at = |at_least, at_most, absolute, relative| Expectation {
            at_least,
            at_most,
            absolute,
            relative,
        };
        let expect = Expect::from([
            ("f1".to_owned(), at(Some(85.0), None, Some(0.5), None)),
            ("exact_match".to_owned(), at(Some(75.0), None, Some(0.5), None)),
            ("loss".to_owned(), at(None, Some(0.5), None, Some(0.01))),
        ]);
        golden.json(bundle::EXPECT, &expect).unwrap();
    }

    fn checkpoints(&self, parameters: &[Parameter], golden: &mut Writer, candidate: &mut Writer) {
        let states = self.start(parameters, self.steps);
        let mut sets: [Named; 2] = Default::default();
        let mut random = Random::new(self.seed + 4242);
        for (parameter, state) in parameters.iter().zip(&states) {
            let name = format!("parameter/{}", parameter.name);
            let moved = |x: &f32| x + (4e-4 * random.normal()) as f32;
            let other: Vec<f32> = state.weight.iter().map(moved).collect();
            sets[0].insert(name.clone(), f32s(&parameter.shape, &state.weight));
            sets[1].insert(name, f32s(&parameter.shape, &other));
        }
        put(golden, bundle::CHECKPOINT, &sets[0]);
        put(candidate, bundle::CHECKPOINT, &sets[1]);
    }
}

fn scale_row(values: &mut [f32], width: usize) {
    values.iter_mut().skip(3 * width).take(width).for_each(|x| *x *= -1.0);
}

fn put_state(named: &mut Named, name: &str, shape: &[usize], state: &State) {
    named.insert(format!("parameter/{name}"), f32s(shape, &state.weight));
    named.insert(format!("optimizer/exp_avg/{name}"), f32s(shape, &state.m));
    named.insert(format!("optimizer/exp_avg_sq/{name}"), f32s(shape, &state.v));
}

/// `AdamW` as PyTorch's loop over tensors has it, in float32.
fn golden_step(state: &State, gradient: &[f32], step: u64, rate: f64, name: &str) -> State {
    let Rules { betas: (b1, b2), epsilon, decay, .. } = RULES;
    let t = step as i32 + 1;
    let (c1, c2) = (1.0 - b1.powi(t), (1.0 - b2.powi(t)).sqrt());
    let mut next = state.clone();
    for (i, g) in gradient.iter().enumerate() {
        if decays(name, &RULES) {
            next.weight[i] *= (1.0 - rate * decay) as f32;
        }
        next.m[i] += (1.0 - b1) as f32 * (g - next.m[i]);
        next.v[i] = next.v[i] * b2 as f32 + (1.0 - b2) as f32 * g * g;
        let root = next.v[i].sqrt() / c2 as f32 + epsilon as f32;
        next.weight[i] += -(rate / c1) as f32 * (next.m[i] / root);
    }
    next
}

/// The same in another order of rounding.
fn candidate_step(
    state: &State,
    gradient: &[f32],
    step: u64,
    rate: f64,
    name: &str,
    rules: &Rules,
) -> State {
    let Rules { betas: (b1, b2), epsilon, decay, correct, frozen, .. } = *rules;
    let t = step as i32 + 1;
    let (c1, c2) = if correct { (1.0 - b1.powi(t), 1.0 - b2.powi(t)) } else { (1.0, 1.0) };
    let mut next = state.clone();
    for (i, g) in gradient.iter().enumerate() {
        next.m[i] = b1 as f32 * state.m[i] + (1.0 - b1) as f32 * g;
        next.v[i] = b2 as f32 * state.v[i] + (1.0 - b2) as f32 * (g * g);
        let update = (next.m[i] / c1 as f32) / ((next.v[i] / c2 as f32).sqrt() + epsilon as f32);
        let kept = if decays(name, rules) {
            state.weight[i] - (rate * decay) as f32 * state.weight[i]
        } else {
            state.weight[i]
        };
        next.weight[i] = if frozen { state.weight[i] } else { kept - rate as f32 * update };
    }
    next
}

fn exact_step(state: &State, gradient: &[f64], step: u64, rate: f64, name: &str) -> Vec<f64> {
    let Rules { betas: (b1, b2), epsilon, decay, .. } = RULES;
    let t = step as i32 + 1;
    let each = |(i, g): (usize, &f64)| {
        let m = b1 * f64::from(state.m[i]) + (1.0 - b1) * g;
        let v = b2 * f64::from(state.v[i]) + (1.0 - b2) * g * g;
        let kept = if decays(name, &RULES) { 1.0 - rate * decay } else { 1.0 };
        let update = m / (1.0 - b1.powi(t)) / ((v / (1.0 - b2.powi(t))).sqrt() + epsilon);
        f64::from(state.weight[i]) * kept - rate * update
    };
    gradient.iter().enumerate().map(each).collect()
}
