//! Operations: one definition each, one list of all of them.
//!
//! An operation is a payload struct (its attributes as typed fields) that implements [`OpDef`]:
//! text form, arity, types, constraints, reference meaning, fusion class, tolerance, derivative. The
//! `ops!` list below makes the closed [`Op`] enum, the table of names and the only exhaustive dispatch.
//! `docs/adding-an-op.md` walks through a new one.

#[macro_use]
mod payload;
mod batch_norm;
mod boxes;
mod channel;
mod check;
mod checks;
mod chlo_broadcast;
mod chlo_math;
mod chlo_misc;
mod chlo_ragged_dot;
mod chlo_scan;
mod collective;
mod collective_reduce;
mod compare;
mod composite;
mod concatenate;
mod constant;
mod contract;
mod control;
mod control_grad;
mod conv_eval;
mod conv_grad;
mod convert;
mod convolution;
mod custom_call;
mod dot;
mod dot_algorithm;
mod dot_grad;
mod dynamic_shape;
mod einsum;
mod elementwise;
mod elementwise_grad;
mod fft;
mod fold;
mod func;
mod gather;
mod groups;
mod index_grad;
mod indexing;
mod linalg;
mod linalg_grad;
mod pad;
mod process;
mod quantize;
mod reduce;
mod reduce_grad;
mod reduce_window;
mod reverse;
mod rng;
mod scatter;
mod select_and_scatter;
mod shape;
mod slice;
mod sort;
mod spec;
mod values;
mod window_grad;
mod windows;

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

pub use check::{Check, RegionSig};
pub use compare::{CompareType, Direction};
pub use composite::Attributes;
pub use contract::Precision;
pub use control_grad::captures;
pub use convolution::{ConvDims, Padding};
pub use dot::DotDims;
pub use fft::FftType;
pub use func::Symbol;
pub use gather::GatherDims;
pub use linalg::TransposeA;
pub use payload::Payload;
pub use rng::Algorithm;
pub use scatter::ScatterDims;
pub use spec::SPEC;

use crate::derive::{Derivative, Derive, Derived};
use crate::eval::{Cx, EvalResult, LaneFn};
use crate::ir::{AttrError, DType, Dict, Ty};
use crate::text::Form;

/// How many operands, results or regions an operation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    Exactly(usize),
    AtLeast(usize),
    Between(usize, usize),
}

impl Count {
    pub fn allows(self, n: usize) -> bool {
        match self {
            Count::Exactly(m) => n == m,
            Count::AtLeast(m) => n >= m,
            Count::Between(low, high) => (low..=high).contains(&n),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Count::Exactly(n) => write!(f, "{n}"),
            Count::AtLeast(n) => write!(f, "at least {n}"),
            Count::Between(low, high) => write!(f, "{low} to {high}"),
        }
    }
}

/// The outline of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Arity {
    pub operands: Count,
    pub results: Count,
    pub regions: Count,
    /// Whether operands and results are all tensors; tokens and tuples are refused then.
    pub tensors: bool,
}

impl Arity {
    /// Tensors in, tensors out, no regions.
    pub const fn tensors(operands: Count, results: usize) -> Self {
        let (results, regions) = (Count::Exactly(results), Count::Exactly(0));
        Self { operands, results, regions, tensors: true }
    }

    pub const fn with_regions(mut self, regions: usize) -> Self {
        self.regions = Count::Exactly(regions);
        self
    }
}

/// What shape inference says.
#[derive(Clone, Debug, PartialEq)]
pub enum Infer {
    /// The results have these types, or ones compatible with them.
    Types(Vec<Ty>),
    /// The same, and the specification states it as this constraint.
    By(&'static str, Vec<Ty>),
    /// The results' types do not follow from the operands; the program declares them.
    Declared,
}

/// How an operation can take part in a fused kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// One element in, one element out, by this scalar function.
    Elementwise(Scalar),
    /// Elements change places only.
    Move,
    /// Many elements become one.
    Reduce,
    /// A sum of products: matrix multiplication, convolution.
    Contraction,
    /// Nothing is known that would help.
    Opaque,
}

/// Scalar functions that backends spell in their own language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    Abs,
    Add,
    And,
    Atan2,
    Cbrt,
    Ceil,
    Clamp,
    Compare,
    Complex,
    Constant,
    Convert,
    Cos,
    CountLeadingZeros,
    Div,
    Exp,
    Expm1,
    Floor,
    Imag,
    IsFinite,
    Log,
    Log1p,
    Logistic,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Popcnt,
    Pow,
    Real,
    ReducePrecision,
    Rem,
    RoundAfz,
    RoundEven,
    Rsqrt,
    Select,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Sign,
    Sin,
    Sqrt,
    Sub,
    Tan,
    Tanh,
    Xor,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BesselI1e,
    Conj,
    Cosh,
    Digamma,
    Erf,
    ErfInv,
    Erfc,
    IsInf,
    IsNegInf,
    IsPosInf,
    Lgamma,
    NextAfter,
    Polygamma,
    Sinh,
    Square,
    Zeta,
}

/// How far a backend's result may be from the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Bit for bit.
    Exact,
    /// Units in the last place of the result's type.
    Ulp(u32),
    /// Relative to the sum of the magnitudes that were added up, times the type's epsilon.
    Accumulated,
}

/// Everything there is to know about one operation. No method has a default: a forgotten column
/// does not compile.
pub trait OpDef: Payload {
    const NAME: &'static str;
    const FORM: Form;
    const ARITY: Arity;

    /// Reports every constraint of the specification that does not hold, by its number. Called
    /// only when the arity is right.
    fn check(&self, c: &mut Check<'_>);
    /// The results' types, for operands that passed `check`.
    fn infer(&self, c: &Check<'_>) -> Infer;
    /// The reference meaning.
    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult;
    /// The operation on single elements of these types, if it is elementwise.
    fn lane(&self, ins: &[DType], out: DType) -> Option<LaneFn>;
    fn fusion(&self) -> Fusion;
    fn tolerance(&self) -> Tolerance;
    /// How cotangents of the results become those of the operands.
    fn derivative(&self) -> Derivative<Self>;
}

/// What is known of an operation before it has a payload.
pub struct OpInfo {
    pub name: &'static str,
    pub form: Form,
    pub arity: Arity,
    /// The names of its own attributes.
    pub fields: &'static [&'static str],
    pub read: fn(&Dict) -> Result<Op, AttrError>,
}

macro_rules! ops {
    ($($variant:ident in $module:ident),* $(,)?) => {
        /// Any operation.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($variant(Box<$module::$variant>),)*
        }

        /// Every operation, in the order of the list.
        pub static OPS: &[OpInfo] = &[$(OpInfo {
            name: <$module::$variant as OpDef>::NAME,
            form: <$module::$variant as OpDef>::FORM,
            arity: <$module::$variant as OpDef>::ARITY,
            fields: <$module::$variant as Payload>::FIELDS,
            read: |attrs| Payload::read(attrs).map(|payload| Op::$variant(Box::new(payload))),
        },)*];

        /// The position of each variant in [`OPS`].
        #[derive(Clone, Copy)]
        enum Index { $($variant,)* }

        impl Op {
            fn index(&self) -> usize {
                (match self { $(Op::$variant(_) => Index::$variant,)* }) as usize
            }

            /// The operation's attributes as the text has them.
            pub fn write(&self) -> Dict {
                match self { $(Op::$variant(op) => op.write(),)* }
            }

            pub fn check(&self, c: &mut Check<'_>) {
                match self { $(Op::$variant(op) => op.check(c),)* }
            }

            pub fn infer(&self, c: &Check<'_>) -> Infer {
                match self { $(Op::$variant(op) => op.infer(c),)* }
            }

            pub fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
                match self { $(Op::$variant(op) => op.eval(cx),)* }
            }

            pub fn lane(&self, ins: &[DType], out: DType) -> Option<LaneFn> {
                match self { $(Op::$variant(op) => op.lane(ins, out),)* }
            }

            pub fn fusion(&self) -> Fusion {
                match self { $(Op::$variant(op) => op.fusion(),)* }
            }

            pub fn tolerance(&self) -> Tolerance {
                match self { $(Op::$variant(op) => op.tolerance(),)* }
            }

            /// Whether cotangents can flow through, or would if there were a rule.
            pub fn flows(&self) -> bool {
                match self { $(Op::$variant(op) => op.derivative().flows(),)* }
            }

            /// Applies the derivative's rule.
            pub fn derive(&self, d: &mut Derive<'_>) -> Derived {
                match self { $(Op::$variant(op) => op.derivative().apply(op, d),)* }
            }
        }

        $(impl From<$module::$variant> for Op {
            fn from(op: $module::$variant) -> Self {
                Op::$variant(Box::new(op))
            }
        })*

        $(pub use $module::$variant;)*
    };
}

ops! {
    Abs in elementwise,
    Add in elementwise,
    And in elementwise,
    Atan2 in elementwise,
    Cbrt in elementwise,
    Ceil in elementwise,
    Cosine in elementwise,
    CountLeadingZeros in elementwise,
    Divide in elementwise,
    Exponential in elementwise,
    ExponentialMinusOne in elementwise,
    Floor in elementwise,
    Imag in elementwise,
    IsFinite in elementwise,
    Log in elementwise,
    LogPlusOne in elementwise,
    Logistic in elementwise,
    Maximum in elementwise,
    Minimum in elementwise,
    Multiply in elementwise,
    Negate in elementwise,
    Not in elementwise,
    Or in elementwise,
    Popcnt in elementwise,
    Power in elementwise,
    Real in elementwise,
    Remainder in elementwise,
    RoundNearestAfz in elementwise,
    RoundNearestEven in elementwise,
    Rsqrt in elementwise,
    ShiftLeft in elementwise,
    ShiftRightArithmetic in elementwise,
    ShiftRightLogical in elementwise,
    Sign in elementwise,
    Sine in elementwise,
    Sqrt in elementwise,
    Subtract in elementwise,
    Tan in elementwise,
    Tanh in elementwise,
    Xor in elementwise,
    Compare in compare,
    Select in compare,
    Clamp in compare,
    Complex in compare,
    Convert in convert,
    BitcastConvert in convert,
    ReducePrecision in convert,
    Constant in constant,
    Iota in constant,
    Reshape in shape,
    BroadcastInDim in shape,
    Transpose in shape,
    Slice in slice,
    DynamicSlice in slice,
    DynamicUpdateSlice in slice,
    RealDynamicSlice in slice,
    Pad in pad,
    DynamicPad in pad,
    Concatenate in concatenate,
    Reverse in reverse,
    Gather in gather,
    DynamicGather in gather,
    TorchIndexSelect in gather,
    Scatter in scatter,
    DynamicReshape in dynamic_shape,
    DynamicBroadcastInDim in dynamic_shape,
    Broadcast in dynamic_shape,
    DynamicIota in dynamic_shape,
    GetDimensionSize in dynamic_shape,
    SetDimensionSize in dynamic_shape,
    DotGeneral in dot,
    Dot in dot,
    Einsum in einsum,
    UnaryEinsum in einsum,
    Convolution in convolution,
    DynamicConv in convolution,
    Fft in fft,
    Cholesky in linalg,
    TriangularSolve in linalg,
    Rng in rng,
    RngBitGenerator in rng,
    UniformQuantize in quantize,
    UniformDequantize in quantize,
    CustomCall in custom_call,
    Reduce in reduce,
    ReduceWindow in reduce_window,
    SelectAndScatter in select_and_scatter,
    Sort in sort,
    Map in sort,
    While in control,
    If in control,
    Case in control,
    Composite in composite,
    OptimizationBarrier in values,
    Tuple in values,
    GetTupleElement in values,
    AfterAll in values,
    CreateToken in values,
    AsyncStart in values,
    AsyncDone in values,
    BatchNormInference in batch_norm,
    BatchNormTraining in batch_norm,
    BatchNormGrad in batch_norm,
    AllGather in collective,
    AllReduce in collective_reduce,
    AllToAll in collective,
    CollectiveBroadcast in collective,
    CollectivePermute in collective,
    CollectiveReduce in collective_reduce,
    CrossReplicaSum in collective_reduce,
    ReduceScatter in collective_reduce,
    Infeed in channel,
    Outfeed in channel,
    Recv in channel,
    Send in channel,
    PartitionId in process,
    ReplicaId in process,
    RunParallel in process,
    Print in process,
    Probe in process,
    Acos in chlo_math,
    Acosh in chlo_math,
    Asin in chlo_math,
    Asinh in chlo_math,
    Atan in chlo_math,
    Atanh in chlo_math,
    BesselI1e in chlo_math,
    ChloTan in chlo_math,
    Conj in chlo_math,
    Cosh in chlo_math,
    Digamma in chlo_math,
    Erf in chlo_math,
    ErfInv in chlo_math,
    Erfc in chlo_math,
    IsInf in chlo_math,
    IsNegInf in chlo_math,
    IsPosInf in chlo_math,
    Lgamma in chlo_math,
    Mulhi in chlo_math,
    NextAfter in chlo_math,
    Polygamma in chlo_math,
    Sinh in chlo_math,
    Square in chlo_math,
    Zeta in chlo_math,
    BroadcastAdd in chlo_broadcast,
    BroadcastAnd in chlo_broadcast,
    BroadcastAtan2 in chlo_broadcast,
    BroadcastCompare in chlo_broadcast,
    BroadcastComplex in chlo_broadcast,
    BroadcastDivide in chlo_broadcast,
    BroadcastMaximum in chlo_broadcast,
    BroadcastMinimum in chlo_broadcast,
    BroadcastMultiply in chlo_broadcast,
    BroadcastNextAfter in chlo_broadcast,
    BroadcastOr in chlo_broadcast,
    BroadcastPolygamma in chlo_broadcast,
    BroadcastPower in chlo_broadcast,
    BroadcastRemainder in chlo_broadcast,
    BroadcastSelect in chlo_broadcast,
    BroadcastShiftLeft in chlo_broadcast,
    BroadcastShiftRightArithmetic in chlo_broadcast,
    BroadcastShiftRightLogical in chlo_broadcast,
    BroadcastSubtract in chlo_broadcast,
    BroadcastXor in chlo_broadcast,
    BroadcastZeta in chlo_broadcast,
    ChloConstant in chlo_misc,
    ChloDynamicReshape in chlo_misc,
    ConstantLike in chlo_misc,
    MinimumBroadcastShapes in chlo_misc,
    TopK in chlo_misc,
    RaggedDot in chlo_ragged_dot,
    Scan in chlo_scan,
    Return in func,
    Call in func,
    FuncReturn in func,
    ExpectEq in checks,
    ExpectAlmostEq in checks,
    ExpectClose in checks,
    ExpectEqConst in checks,
    ExpectAlmostEqConst in checks,
    ExpectSerializedEq in process,
}

/// Looks an operation up by name; `return`, `call` and the like may go without their dialect.
pub fn info(name: &str) -> Option<&'static OpInfo> {
    static BY_NAME: LazyLock<FxHashMap<&str, &OpInfo>> = LazyLock::new(|| {
        let mut table: FxHashMap<&str, &OpInfo> =
            OPS.iter().map(|info| (info.name, info)).collect();
        for name in ["return", "call"] {
            if let Some(info) = OPS.iter().find(|i| i.name.strip_prefix("func.") == Some(name)) {
                table.insert(name, info);
            }
        }
        table
    });
    BY_NAME.get(name).copied()
}

/// What is known of an operation.
pub fn info_of(op: &Op) -> &'static OpInfo {
    &OPS[op.index()]
}

/// The known operation whose name is most like this one, if any is close.
pub fn nearest(name: &str) -> Option<&'static str> {
    OPS.iter()
        .map(|info| (strsim::jaro_winkler(info.name, name), info.name))
        .filter(|(likeness, _)| *likeness > 0.9)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

impl Op {
    pub fn name(&self) -> &'static str {
        info_of(self).name
    }

    /// Whether the operation ends a region.
    pub fn is_terminator(&self) -> bool {
        matches!(self.name(), "func.return" | "stablehlo.return")
    }
}
