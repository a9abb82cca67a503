//! Shared randomness: the operators whose random numbers come from the generator that both
//! passes use, instead of libtorch's own. [`INTERCEPTED`] is the whole list; every other
//! operator is libtorch's. What is random of an operator is drawn here, and the rest of it is
//! computed by the operators that libtorch's own definition uses, in the same order, so that
//! autograd and rounding are as they would be.

mod more;
mod recurrent;

use warpforge_pt2::random::{self, Stream};

use crate::torch::{Fault, Layout, Library, Op, ScalarType, Tensor, Value};

/// A call with its arguments by name, the schema's defaults filled in.
pub struct Arguments<'a> {
    pub op: &'a Op,
    pub slots: &'a [Option<&'a Value>],
}

impl Arguments<'_> {
    fn get(&self, name: &str) -> Value {
        let Some(index) = self.op.parameters().iter().position(|p| p == name) else {
            return Value::None;
        };
        let given = self.slots[index].cloned();
        given.or_else(|| self.op.default(index)).unwrap_or(Value::None)
    }

    fn missing(&self, name: &str) -> Fault {
        Fault(format!("{name} is missing or of a wrong kind: {}", self.op.schema()))
    }

    fn tensor(&self, name: &str) -> Result<Tensor, Fault> {
        self.get(name).tensor().cloned().ok_or_else(|| self.missing(name))
    }

    fn float(&self, name: &str) -> Result<f64, Fault> {
        self.get(name).float().ok_or_else(|| self.missing(name))
    }

    fn int(&self, name: &str) -> Result<i64, Fault> {
        self.get(name).int().ok_or_else(|| self.missing(name))
    }

    fn sizes(&self) -> Result<Vec<i64>, Fault> {
        let Value::List(sizes) = self.get("size") else { return Err(self.missing("size")) };
        let sizes: Option<_> = sizes.iter().map(Value::int).collect();
        sizes.ok_or_else(|| self.missing("size"))
    }

    /// The type the result is asked to have, if it is.
    fn dtype(&self) -> Option<ScalarType> {
        let code = self.get("dtype").int()?;
        ScalarType::ALL.iter().copied().find(|dtype| dtype.c10() == code)
    }

    /// Whether the arguments leave nothing to chance, such as dropout outside of training.
    pub fn certain(&self) -> bool {
        let any = |names: [&str; 3], of: &dyn Fn(Value) -> bool| {
            names.into_iter().any(|name| of(self.get(name)))
        };
        any(["train", "training", "is_training"], &|value| value.bool() == Some(false))
            || any(["p", "dropout", "dropout_p"], &|value| value.float() == Some(0.0))
    }
}

/// Draws for one call.
pub struct Draw<'a> {
    pub library: &'a mut Library,
    pub stream: Stream,
    /// Where results belong.
    pub device: &'a str,
    /// What floats are made as where nothing says it.
    pub float: ScalarType,
}

/// Computes a call in libtorch's place.
pub type Run = fn(&mut Draw<'_>, &Arguments<'_>) -> Result<Vec<Value>, Fault>;

/// The one list, by name and overload.
const INTERCEPTED: &[(&str, &str, Run)] = &[
    ("aten::dropout", "", |d, a| d.dropout(a, Noise::ELEMENTS)),
    ("aten::dropout_", "", |d, a| d.dropout(a, Noise::ELEMENTS.in_place())),
    ("aten::feature_dropout", "", |d, a| d.dropout(a, Noise::FEATURES)),
    ("aten::feature_dropout_", "", |d, a| d.dropout(a, Noise::FEATURES.in_place())),
    ("aten::alpha_dropout", "", |d, a| d.dropout(a, Noise::ELEMENTS.alpha())),
    ("aten::alpha_dropout_", "", |d, a| d.dropout(a, Noise::ELEMENTS.alpha().in_place())),
    ("aten::feature_alpha_dropout", "", |d, a| d.dropout(a, Noise::FEATURES.alpha())),
    ("aten::feature_alpha_dropout_", "", |d, a| d.dropout(a, Noise::FEATURES.alpha().in_place())),
    ("aten::native_dropout", "", |d, a| d.native_dropout(a)),
    ("aten::scaled_dot_product_attention", "", |d, a| d.attention(a)),
    ("aten::lstm", "input", |d, a| d.recurrent(a)),
    ("aten::gru", "input", |d, a| d.recurrent(a)),
    ("aten::rnn_tanh", "input", |d, a| d.recurrent(a)),
    ("aten::rnn_relu", "input", |d, a| d.recurrent(a)),
    ("aten::bernoulli", "", |d, a| d.bernoulli(a, &a.get("self"))),
    ("aten::bernoulli", "p", |d, a| d.bernoulli(a, &a.get("p"))),
    ("aten::bernoulli_", "float", |d, a| d.bernoulli_fill(a)),
    ("aten::bernoulli_", "Tensor", |d, a| d.bernoulli_fill(a)),
    ("aten::rand", "", |d, a| d.fresh(a, Law::Uniform(0.0, 1.0))),
    ("aten::randn", "", |d, a| d.fresh(a, Law::Normal(0.0, 1.0))),
    ("aten::rand_like", "", |d, a| d.like(a, Law::Uniform(0.0, 1.0))),
    ("aten::randn_like", "", |d, a| d.like(a, Law::Normal(0.0, 1.0))),
    ("aten::randint", "", |d, a| d.fresh(a, Law::Ints(0, a.int("high")?))),
    ("aten::randint", "low", |d, a| d.fresh(a, Law::Ints(a.int("low")?, a.int("high")?))),
    ("aten::randint_like", "", |d, a| d.like(a, Law::Ints(0, a.int("high")?))),
    ("aten::randint_like", "low_dtype", |d, a| d.like(a, Law::Ints(a.int("low")?, a.int("high")?))),
    ("aten::uniform_", "", |d, a| d.fill(a, Law::Uniform(a.float("from")?, a.float("to")?))),
    ("aten::uniform", "", |d, a| d.like(a, Law::Uniform(a.float("from")?, a.float("to")?))),
    ("aten::normal_", "", |d, a| d.fill(a, Law::Normal(a.float("mean")?, a.float("std")?))),
    ("aten::exponential_", "", |d, a| d.fill(a, Law::Exponential(a.float("lambd")?))),
    ("aten::random_", "from", |d, a| d.fill(a, Law::Ints(a.int("from")?, a.int("to")?))),
    ("aten::random_", "to", |d, a| d.fill(a, Law::Ints(0, a.int("to")?))),
    ("aten::multinomial", "", |d, a| d.multinomial(a)),
    ("aten::randperm", "", |d, a| d.permutation(a)),
    ("aten::rrelu", "", |d, a| d.slopes(a, false)),
    ("aten::rrelu_", "", |d, a| d.slopes(a, true)),
    ("aten::normal_functional", "", |d, a| {
        d.like(a, Law::Normal(a.float("mean")?, a.float("std")?))
    }),
];

/// What runs in an operator's place, if it is on the list.
pub fn intercepted(name: &str, overload: &str) -> Option<Run> {
    let row = INTERCEPTED.iter().find(|row| (row.0, row.1) == (name, overload));
    row.map(|row| row.2)
}

/// Which form of dropout.
#[derive(Clone, Copy)]
struct Noise {
    /// Whole channels at once.
    features: bool,
    /// Keeping mean and variance.
    alpha: bool,
    in_place: bool,
}

impl Noise {
    const ELEMENTS: Self = Self { features: false, alpha: false, in_place: false };
    const FEATURES: Self = Self { features: true, ..Self::ELEMENTS };

    const fn alpha(self) -> Self {
        Self { alpha: true, ..self }
    }

    const fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }
}

/// How numbers are distributed.
#[derive(Clone, Copy)]
enum Law {
    Uniform(f64, f64),
    Normal(f64, f64),
    /// From the first to below the second.
    Ints(i64, i64),
    /// With this rate.
    Exponential(f64),
}

impl Draw<'_> {
    fn dropout(&mut self, arguments: &Arguments<'_>, noise: Noise) -> Result<Vec<Value>, Fault> {
        // The schemas call it so where it is changed in place.
        let input = if noise.in_place { "self" } else { "input" };
        let (input, p) = (arguments.tensor(input)?, arguments.float("p")?);
        probability(p)?;
        let mut shape = input.shape();
        if noise.features {
            if shape.len() < 2 {
                return Err(Fault("feature dropout needs an input of two axes or more".into()));
            }
            shape[2..].fill(1);
        }
        let like = self.mask(&shape, p)?;
        let dtype = input.dtype().unwrap_or(ScalarType::F32);
        let mut kept = self.op("aten::to", "dtype", &[like.into(), dtype.into()])?;
        let mut shift = None;
        if noise.alpha && p == 1.0 {
            // Nothing is kept, and nothing added.
        } else if noise.alpha {
            const ALPHA: f64 = 1.758_099_340_847_376_6;
            let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
            let b = self.op("aten::add", "Scalar", &[(&kept).into(), (-1.0).into()])?;
            let b = self.op("aten::mul", "Scalar", &[b.into(), (ALPHA * a).into()])?;
            shift = Some(self.op("aten::add", "Scalar", &[b.into(), (ALPHA * a * p).into()])?);
            kept = self.op("aten::mul", "Scalar", &[kept.into(), a.into()])?;
        } else if p < 1.0 {
            kept = self.op("aten::div", "Scalar", &[kept.into(), (1.0 - p).into()])?;
        }
        let (mul, add) =
            if noise.in_place { ("aten::mul_", "aten::add_") } else { ("aten::mul", "aten::add") };
        let mut result = self.op(mul, "Tensor", &[input.into(), kept.into()])?;
        if let Some(shift) = shift {
            result = self.op(add, "Tensor", &[result.into(), shift.into()])?;
        }
        Ok(vec![result.into()])
    }

    fn native_dropout(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let (input, p) = (arguments.tensor("input")?, arguments.float("p")?);
        probability(p)?;
        let mask = self.mask(&input.shape(), p)?;
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        let kept = self.op("aten::mul", "Tensor", &[input.into(), (&mask).into()])?;
        let result = self.op("aten::mul", "Scalar", &[kept.into(), scale.into()])?;
        Ok(vec![result.into(), mask.into()])
    }

    /// Attention by its definition, which takes a mask; the mask's elements are counted over
    /// the whole matrix of queries and keys.
    fn attention(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let (query, key) = (arguments.tensor("query")?, arguments.tensor("key")?);
        let p = arguments.float("dropout_p")?;
        probability(p)?;
        let mut shape = query.shape();
        let keys = key.shape();
        if let (Some(last), [.., rows, _]) = (shape.last_mut(), &keys[..]) {
            *last = *rows;
        }
        let mask = self.mask(&shape, p)?;
        let op = self.library.find("aten::_scaled_dot_product_attention_math", "");
        let op = op.map_err(|unknown| Fault(unknown.to_string()))?;
        let names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal"];
        let mut values: Vec<Value> = names.into_iter().map(|name| arguments.get(name)).collect();
        // The public operator turns a mask of booleans into summands; its definition only adds.
        if let Some(seen) =
            values[3].tensor().cloned().filter(|m| m.dtype() == Some(ScalarType::Bool))
        {
            let dtype = query.dtype().unwrap_or(ScalarType::F32);
            let seen = self.op("aten::to", "dtype", &[seen.into(), dtype.into()])?;
            values[3] = self.op("aten::log", "", &[seen.into()])?.into();
        }
        values.push(mask.into());
        let named = ["scale", "enable_gqa"].map(|name| (name.to_owned(), arguments.get(name)));
        let mut results = op.call(&values, &named)?;
        results.truncate(1);
        Ok(results)
    }

    fn bernoulli(&mut self, arguments: &Arguments<'_>, p: &Value) -> Result<Vec<Value>, Fault> {
        let like = arguments.tensor("self")?;
        let hits = self.hits(&like, p)?;
        let dtype = like.dtype().unwrap_or(ScalarType::F32);
        Ok(vec![self.op("aten::to", "dtype", &[hits.into(), dtype.into()])?.into()])
    }

    fn bernoulli_fill(&mut self, arguments: &Arguments<'_>) -> Result<Vec<Value>, Fault> {
        let target = arguments.tensor("self")?;
        let hits = self.hits(&target, &arguments.get("p"))?;
        Ok(vec![self.op("aten::copy_", "", &[target.into(), hits.into()])?.into()])
    }

    /// Where a uniform number is below `p`, a number or a tensor.
    fn hits(&mut self, like: &Tensor, p: &Value) -> Result<Tensor, Fault> {
        let uniform = self.numbers(&like.shape(), ScalarType::F64, Law::Uniform(0.0, 1.0))?;
        let overload = if p.tensor().is_some() { "Tensor" } else { "Scalar" };
        self.op("aten::lt", overload, &[uniform.into(), p.clone()])
    }

    fn fresh(&mut self, arguments: &Arguments<'_>, law: Law) -> Result<Vec<Value>, Fault> {
        let otherwise = if matches!(law, Law::Ints(..)) { ScalarType::I64 } else { self.float };
        let dtype = arguments.dtype().unwrap_or(otherwise);
        Ok(vec![self.numbers(&arguments.sizes()?, dtype, law)?.into()])
    }

    fn like(&mut self, arguments: &Arguments<'_>, law: Law) -> Result<Vec<Value>, Fault> {
        let like = arguments.tensor("self")?;
        let dtype = arguments.dtype().or(like.dtype()).unwrap_or(ScalarType::F32);
        Ok(vec![self.numbers(&like.shape(), dtype, law)?.into()])
    }

    fn fill(&mut self, arguments: &Arguments<'_>, law: Law) -> Result<Vec<Value>, Fault> {
        let target = arguments.tensor("self")?;
        let dtype = target.dtype().unwrap_or(ScalarType::F32);
        let numbers = self.numbers(&target.shape(), dtype, law)?;
        Ok(vec![self.op("aten::copy_", "", &[target.into(), numbers.into()])?.into()])
    }

    /// True where dropout keeps an element.
    fn mask(&mut self, shape: &[i64], p: f64) -> Result<Tensor, Fault> {
        let stream = self.stream;
        // As `Stream::keeps`, four elements at a time.
        let kept = words(stream, count(shape)).map(|word| u8::from(uniform(word) >= p));
        self.tensor(&kept.collect::<Vec<_>>(), ScalarType::Bool, shape)
    }

    fn numbers(&mut self, shape: &[i64], dtype: ScalarType, law: Law) -> Result<Tensor, Fault> {
        let (stream, count) = (self.stream, count(shape));
        let made = match law {
            Law::Ints(low, high) => {
                let span = high.checked_sub(low).and_then(|span| u32::try_from(span).ok());
                let Some(span) = span.filter(|span| *span > 0) else {
                    return Err(Fault(format!("no random ints from {low} to below {high}")));
                };
                let int = |index| stream.integer(index, low, low + i64::from(span));
                let bytes = (0..count).flat_map(|index| int(index).to_le_bytes());
                self.tensor(&bytes.collect::<Vec<_>>(), ScalarType::I64, shape)?
            }
            Law::Uniform(low, high) => {
                let number = |word| low + (high - low) * uniform(word);
                let bytes = words(stream, count).flat_map(|word| number(word).to_le_bytes());
                self.tensor(&bytes.collect::<Vec<_>>(), ScalarType::F64, shape)?
            }
            Law::Exponential(rate) => {
                // Shifted into (0, 1], where the logarithm is finite.
                let number = |word| (uniform(word) + 1.0 / 16_777_216.0).ln() * (-1.0 / rate);
                let bytes = words(stream, count).flat_map(|word| number(word).to_le_bytes());
                self.tensor(&bytes.collect::<Vec<_>>(), ScalarType::F64, shape)?
            }
            Law::Normal(mean, deviation) => {
                let number = |index| mean + deviation * stream.normal(index);
                let bytes = (0..count).flat_map(|index| number(index).to_le_bytes());
                self.tensor(&bytes.collect::<Vec<_>>(), ScalarType::F64, shape)?
            }
        };
        self.op("aten::to", "dtype", &[made.into(), dtype.into()])
    }

    fn tensor(&mut self, bytes: &[u8], dtype: ScalarType, shape: &[i64]) -> Result<Tensor, Fault> {
        let host = Tensor::from_bytes(bytes, &Layout::dense(dtype, shape))?;
        let device = Value::Device(self.device.to_owned());
        self.op("aten::to", "device", &[host.into(), device, dtype.into()])
    }

    fn op(&mut self, name: &str, overload: &str, arguments: &[Value]) -> Result<Tensor, Fault> {
        self.library.tensor(name, overload, arguments)
    }
}

fn probability(p: f64) -> Result<(), Fault> {
    let message = || Fault(format!("dropout probability has to be between 0 and 1, but got {p}"));
    if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(message()) }
}

fn count(shape: &[i64]) -> u64 {
    shape.iter().product::<i64>() as u64
}

/// The elements' random bits, as [`Stream::bits`] has them.
fn words(stream: Stream, count: u64) -> impl Iterator<Item = u32> {
    let high = stream.high();
    let block = move |low: u64| {
        let counter = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
        random::block(stream.seed, counter)
    };
    (0..count.div_ceil(4)).flat_map(block).take(count as usize)
}

/// As [`Stream::uniform`] has it.
fn uniform(word: u32) -> f64 {
    f64::from(word >> 8) * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Stream = Stream { seed: 7, step: 2, ordinal: 5 };

    /// Runs an operator of the list on its stream.
    fn run(name: &str, overload: &str, arguments: &[Value]) -> Vec<Vec<f32>> {
        let mut library = Library::default();
        let op = library.find(name, overload).unwrap();
        let slots = op.bind(arguments, &[]).unwrap();
        let arguments = Arguments { op: &op, slots: &slots };
        assert!(!arguments.certain());
        let run = intercepted(name, overload).expect("on the list");
        let float = ScalarType::F32;
        let mut draw = Draw { library: &mut library, stream: STREAM, device: "cpu", float };
        let results = run(&mut draw, &arguments).unwrap();
        results.iter().map(|result| floats(&mut library, result)).collect()
    }

    fn floats(library: &mut Library, value: &Value) -> Vec<f32> {
        let floats = library.tensor("aten::to", "dtype", &[value.clone(), ScalarType::F32.into()]);
        let host = floats.unwrap().host().unwrap();
        let chunks = host.bytes().chunks_exact(4);
        chunks.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn ones(shape: &[i64]) -> Value {
        let bytes: Vec<u8> = (0..count(shape)).flat_map(|_| 1_f32.to_le_bytes()).collect();
        Tensor::from_bytes(&bytes, &Layout::dense(ScalarType::F32, shape)).unwrap().into()
    }

    #[test]
    fn every_row_names_an_operator() {
        for (name, overload, _) in INTERCEPTED {
            assert!(Library::default().find(name, overload).is_ok(), "{name}.{overload}");
        }
    }

    #[test]
    fn dropout_keeps_what_the_stream_keeps_and_scales_it() {
        let kept = (0..10).map(|i| if STREAM.keeps(i, 0.25) { 1.0 / 0.75_f32 } else { 0.0 });
        let kept: Vec<f32> = kept.collect();
        let arguments = [ones(&[2, 5]), Value::Float(0.25), Value::Bool(true)];
        for name in ["aten::dropout", "aten::dropout_"] {
            assert_eq!(run(name, "", &arguments)[0], kept, "{name}");
        }
        let arguments = [ones(&[2, 5]), Value::Float(0.25), Value::Bool(true)];
        let native = run("aten::native_dropout", "", &arguments);
        assert_eq!(native[0], kept);
        assert_eq!(native[1], kept.iter().map(|x| x * 0.75).collect::<Vec<_>>());
    }

    #[test]
    fn feature_dropout_draws_once_for_a_channel() {
        let arguments = [ones(&[2, 3, 2]), Value::Float(0.5), Value::Bool(true)];
        let expected = (0..12).map(|i| if STREAM.keeps(i / 2, 0.5) { 2.0 } else { 0.0 });
        assert_eq!(run("aten::feature_dropout", "", &arguments)[0], expected.collect::<Vec<f32>>());
    }

    #[test]
    fn nothing_is_left_of_a_dropout_of_all() {
        let arguments = [ones(&[3]), Value::Float(1.0), Value::Bool(true)];
        assert_eq!(run("aten::dropout", "", &arguments)[0], [0.0; 3]);
        assert_eq!(run("aten::native_dropout", "", &arguments)[0], [0.0; 3]);
    }

    #[test]
    fn fills_are_the_streams_numbers() {
        let size = Value::from(&[7_i64][..]);
        let uniform: Vec<f32> = (0..7).map(|i| STREAM.uniform(i) as f32).collect();
        let normal: Vec<f32> = (0..7).map(|i| STREAM.normal(i) as f32).collect();
        assert_eq!(run("aten::rand", "", std::slice::from_ref(&size))[0], uniform);
        assert_eq!(run("aten::rand_like", "", &[ones(&[7])])[0], uniform);
        assert_eq!(run("aten::randn", "", std::slice::from_ref(&size))[0], normal);
        let shifted = run("aten::normal_", "", &[ones(&[7]), Value::Float(0.0), Value::Float(1.0)]);
        assert_eq!(shifted[0], normal);
        let low = [Value::Int(3), Value::Int(6), size];
        assert!(run("aten::randint", "low", &low)[0].iter().all(|x| (3.0..6.0).contains(x)));
        let below = [ones(&[7]), Value::Float(0.5)];
        let hits: Vec<f32> = uniform.iter().map(|u| f32::from(u8::from(*u < 0.5))).collect();
        assert_eq!(run("aten::bernoulli", "p", &below)[0], hits);
    }

    /// Two layers whose weights are all one, without biases and of one feature.
    fn layers(hidden: Value, dropout: f64, batch_first: bool) -> Vec<Value> {
        let weights = Value::List(vec![ones(&[1, 1]); 4]);
        let (time, batch) = (3, 2);
        let input = if batch_first { ones(&[batch, time, 1]) } else { ones(&[time, batch, 1]) };
        let flags = [false.into(), 2.into(), dropout.into(), true.into(), false.into()];
        let mut arguments = vec![input, hidden, weights];
        arguments.extend(flags);
        arguments.push(batch_first.into());
        arguments
    }

    #[test]
    fn recurrent_layers_drop_between_them_what_the_stream_drops() {
        let zeros = |shape: &[i64]| {
            let bytes = vec![0; 4 * count(shape) as usize];
            Value::from(Tensor::from_bytes(&bytes, &Layout::dense(ScalarType::F32, shape)).unwrap())
        };
        // relu with weights of one: each layer adds up what it is given.
        let arguments = layers(zeros(&[2, 2, 1]), 0.5, false);
        let result = run("aten::rnn_relu", "input", &arguments);
        let (mut sums, mut expected) = ([0.0_f32; 2], Vec::new());
        for time in 0..3_u64 {
            for batch in 0..2_u64 {
                let first = (time + 1) as f32;
                let kept = if STREAM.keeps(time * 2 + batch, 0.5) { 2.0 } else { 0.0 };
                sums[batch as usize] += first * kept;
                expected.push(sums[batch as usize]);
            }
        }
        assert_eq!(result[0], expected);
        assert_eq!(result[1], [3.0, 3.0, sums[0], sums[1]]);
        let swapped = layers(zeros(&[2, 2, 1]), 0.5, true);
        let other = run("aten::rnn_relu", "input", &swapped);
        let turned: Vec<f32> = [0, 2, 4, 1, 3, 5].map(|at| expected[at]).into();
        assert_eq!(other[0], turned);
        // Nothing is left of the first layer: the second sees zeros, as with dropout of all.
        for name in ["aten::lstm", "aten::gru"] {
            let gates = if name == "aten::lstm" { 4 } else { 3 };
            let state = zeros(&[2, 2, 1]);
            let both = Value::List(vec![state.clone(), state.clone()]);
            let mut arguments = layers(if name == "aten::lstm" { both } else { state }, 1.0, false);
            arguments[2] = Value::List(vec![ones(&[gates, 1]); 4]);
            let results = run(name, "input", &arguments);
            assert_eq!(results.len(), if name == "aten::lstm" { 3 } else { 2 });
            assert_eq!(results[0], [0.0; 6], "{name}");
        }
    }

    #[test]
    fn attention_without_its_dropped_weights() {
        // One query and four equal keys: each kept key adds a quarter of its value, doubled.
        let (query, key) = (ones(&[1, 1, 1, 2]), ones(&[1, 1, 4, 2]));
        let arguments = [query, key.clone(), key, Value::None, Value::Float(0.5)];
        let kept = (0..4).filter(|i| STREAM.keeps(*i, 0.5)).count();
        let expected = kept as f32 * 0.5;
        let result = run("aten::scaled_dot_product_attention", "", &arguments);
        assert_eq!(result[0], [expected; 2]);
    }

    #[test]
    fn attention_with_dropout_sees_what_a_boolean_mask_shows() {
        let (query, key) = (ones(&[1, 1, 1, 2]), ones(&[1, 1, 4, 2]));
        let layout = Layout::dense(ScalarType::Bool, &[1, 1, 1, 4]);
        let shown = Value::from(Tensor::from_bytes(&[1, 0, 0, 0], &layout).unwrap());
        let arguments = [query, key.clone(), key, shown, Value::Float(0.5)];
        let expected = if STREAM.keeps(0, 0.5) { 2.0 } else { 0.0 };
        let result = run("aten::scaled_dot_product_attention", "", &arguments);
        assert_eq!(result[0], [expected; 2]);
    }
}
