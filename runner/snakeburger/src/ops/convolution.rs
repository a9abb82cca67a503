//! Convolutions: their attributes, constraints and text. How one is computed is in `conv_eval`.

use super::contract::Precision;
use super::conv_eval::{self, Geometry};
use super::conv_grad;
use super::dot::check_precision;
use super::{Arity, Check, Count, Infer, OpDef};
use crate::eval::{Cx, EvalResult, Tensor};
use crate::ir::{
    Attr, AttrValue, Buffer, DType, DYNAMIC, Dict, Dims, Ints, Literal, NodeId, TensorTy,
    dims_compatible,
};
use crate::text::{Form, Parse, Parser, Printer, Types, form};

struct_attr! {
    /// Which dimensions are batch, features and space.
    ConvDims ("stablehlo.conv_raw", "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>") {
        input_batch_dimension: i64,
        input_feature_dimension: i64,
        input_spatial_dimensions: Ints = Ints::default(),
        kernel_input_feature_dimension: i64,
        kernel_output_feature_dimension: i64,
        kernel_spatial_dimensions: Ints = Ints::default(),
        output_batch_dimension: i64,
        output_feature_dimension: i64,
        output_spatial_dimensions: Ints = Ints::default(),
    }
}

/// Low and high padding of each spatial dimension: `dense<…> : tensor<Nx2xi64>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padding(pub Vec<[i64; 2]>);

impl AttrValue for Padding {
    const EXPECTED: &'static str = "pairs of integers";

    fn from_attr(attr: &Attr) -> Option<Self> {
        let pair = |ints: &[i64]| <[i64; 2]>::try_from(ints).ok();
        match attr {
            Attr::Dense(literal) if literal.ty.rank() == 2 && literal.ty.dims[1] == 2 => {
                Some(Self(literal.ints()?.chunks_exact(2).filter_map(pair).collect()))
            }
            Attr::Array(items) => items
                .iter()
                .map(|item| Ints::from_attr(item).and_then(|ints| pair(&ints)))
                .collect::<Option<_>>()
                .map(Self),
            _ => None,
        }
    }

    fn to_attr(&self) -> Attr {
        let ty = TensorTy::new([self.0.len() as i64, 2], DType::S64);
        let data = Buffer::from_slice(&self.0.concat());
        Attr::Dense(Literal { ty, data, splat: false }.into())
    }
}

payload! {
    /// Sums products of windows of one tensor with another.
    Convolution {
        window_strides: Option<Ints> = None,
        padding: Option<Padding> = None,
        lhs_dilation: Option<Ints> = None,
        rhs_dilation: Option<Ints> = None,
        window_reversal: Option<Box<[bool]>> = None,
        dimension_numbers: ConvDims,
        feature_group_count: i64,
        batch_group_count: i64,
        precision_config: Vec<Precision> = Vec::new(),
    }
}

payload! {
    /// A convolution whose padding is a value.
    DynamicConv {
        window_strides: Option<Ints> = None,
        lhs_dilation: Option<Ints> = None,
        rhs_dilation: Option<Ints> = None,
        window_reversal: Option<Box<[bool]>> = None,
        dimension_numbers: ConvDims,
        feature_group_count: i64,
        batch_group_count: i64,
        precision_config: Vec<Precision> = Vec::new(),
    }
}

impl DynamicConv {
    /// The same convolution but for the padding. Lists longer than there are spatial dimensions
    /// are cut: programs that frameworks export have such.
    fn fixed(&self, rank: usize) -> Convolution {
        let spatial = rank.saturating_sub(2);
        let cut = |list: &Option<Ints>| list.as_ref().map(|l| l[..l.len().min(spatial)].into());
        let reversal = self.window_reversal.as_ref();
        Convolution {
            window_strides: cut(&self.window_strides),
            padding: None,
            lhs_dilation: cut(&self.lhs_dilation),
            rhs_dilation: cut(&self.rhs_dilation),
            window_reversal: reversal.map(|l| l[..l.len().min(spatial)].into()),
            dimension_numbers: self.dimension_numbers.clone(),
            feature_group_count: self.feature_group_count,
            batch_group_count: self.batch_group_count,
            precision_config: self.precision_config.clone(),
        }
    }
}

fn size(dims: &[i64], d: i64) -> Option<i64> {
    usize::try_from(d).ok().and_then(|d| dims.get(d)).copied()
}

impl ConvDims {
    /// Batch, spatial, feature.
    pub(crate) fn input(&self) -> Vec<i64> {
        let ends = [self.input_batch_dimension, self.input_feature_dimension];
        [&ends[..1], &self.input_spatial_dimensions, &ends[1..]].concat()
    }

    /// Spatial, input feature, output feature.
    pub(crate) fn kernel(&self) -> Vec<i64> {
        let features = [self.kernel_input_feature_dimension, self.kernel_output_feature_dimension];
        [&self.kernel_spatial_dimensions[..], &features].concat()
    }

    /// Batch, spatial, feature.
    pub(crate) fn output(&self) -> Vec<i64> {
        let ends = [self.output_batch_dimension, self.output_feature_dimension];
        [&ends[..1], &self.output_spatial_dimensions, &ends[1..]].concat()
    }

    /// C12, C13 and C17 to C20.
    fn check(&self, c: &mut Check<'_>, rank: usize) {
        let sides = [
            ("input", "C12", "C13", &self.input_spatial_dimensions, self.input()),
            ("kernel", "C17", "C18", &self.kernel_spatial_dimensions, self.kernel()),
            ("output", "C19", "C20", &self.output_spatial_dimensions, self.output()),
        ];
        for (side, count, range, spatial, all) in sides {
            c.require(spatial.len() + 2 == rank, count, || {
                format!("{} {side} spatial dimensions for rank {rank}", spatial.len())
            });
            c.dimensions(&format!("{side} dimensions"), &all, rank, range, range);
        }
    }
}

impl Convolution {
    /// The window along each spatial dimension, with what is left out filled in.
    pub(crate) fn geometry(&self, rank: usize, padding: Option<&[[i64; 2]]>) -> Vec<Geometry> {
        let at = |list: &Option<Ints>, d: usize| {
            list.as_ref().and_then(|list| list.get(d)).copied().unwrap_or(1)
        };
        let padding = padding.or(self.padding.as_ref().map(|p| &p.0[..])).unwrap_or(&[]);
        let reversed =
            |d: usize| self.window_reversal.as_ref().and_then(|r| r.get(d)) == Some(&true);
        (0..rank.saturating_sub(2))
            .map(|d| Geometry {
                stride: at(&self.window_strides, d),
                padding: padding.get(d).copied().unwrap_or([0, 0]),
                base: at(&self.lhs_dilation, d),
                window: at(&self.rhs_dilation, d),
                reversed: reversed(d),
            })
            .collect()
    }

    /// C25; a size that does not follow is dynamic.
    pub(crate) fn result_dims(
        &self,
        lhs: &[i64],
        rhs: &[i64],
        windows: Option<&[Geometry]>,
    ) -> Dims {
        let numbers = &self.dimension_numbers;
        let mut dims = Dims::from_elem(DYNAMIC, lhs.len());
        let mut set = |d: i64, value: Option<i64>| {
            if let (Some(place), Some(value)) =
                (usize::try_from(d).ok().and_then(|d| dims.get_mut(d)), value)
            {
                *place = value;
            }
        };
        let known = |size: Option<i64>| size.filter(|size| *size != DYNAMIC);
        let batch = known(size(lhs, numbers.input_batch_dimension));
        set(numbers.output_batch_dimension, batch.map(|b| b / self.batch_group_count.max(1)));
        let features = size(rhs, numbers.kernel_output_feature_dimension);
        set(numbers.output_feature_dimension, features);
        for (i, window) in windows.unwrap_or(&[]).iter().enumerate() {
            let of = |list: &Ints, dims: &[i64]| known(list.get(i).and_then(|d| size(dims, *d)));
            let input = of(&numbers.input_spatial_dimensions, lhs);
            let kernel = of(&numbers.kernel_spatial_dimensions, rhs);
            let Some(place) = numbers.output_spatial_dimensions.get(i) else { continue };
            if let (Some(input), Some(kernel)) = (input, kernel) {
                set(*place, window.count(input, kernel));
            }
        }
        dims
    }

    /// C2 to C9.
    fn check_window(&self, c: &mut Check<'_>, rank: usize) {
        let spatial = rank.saturating_sub(2);
        let lists = [
            ("window_strides", "C2", "C3", &self.window_strides),
            ("lhs_dilation", "C5", "C6", &self.lhs_dilation),
            ("rhs_dilation", "C7", "C8", &self.rhs_dilation),
        ];
        for (name, count, positive, list) in lists {
            let Some(list) = list else { continue };
            c.require(list.len() == spatial, count, || {
                format!("{name} has {} entries for {spatial} spatial dimensions", list.len())
            });
            c.require(list.iter().all(|x| *x > 0), positive, || {
                format!("{name} {list:?} must be positive")
            });
        }
        let padding = self.padding.as_ref().map_or(spatial, |p| p.0.len());
        c.require(padding == spatial, "C4", || {
            format!("padding has {padding} pairs for {spatial} spatial dimensions")
        });
        let reversal = self.window_reversal.as_ref().map_or(spatial, |r| r.len());
        c.require(reversal == spatial, "C9", || {
            format!("window_reversal has {reversal} entries for {spatial} spatial dimensions")
        });
    }

    /// C10, C11, C14 to C16 and C21 to C23.
    fn check_groups(&self, c: &mut Check<'_>) {
        let (groups, batches) = (self.feature_group_count, self.batch_group_count);
        c.require(groups > 0, "C21", || format!("feature_group_count is {groups}"));
        c.require(batches > 0, "C22", || format!("batch_group_count is {batches}"));
        c.require(groups == 1 || batches == 1, "C23", || {
            format!("feature_group_count is {groups} and batch_group_count {batches}")
        });
        if groups <= 0 || batches <= 0 {
            return;
        }
        let (lhs, rhs, numbers) = (c.operand(0), c.operand(1), &self.dimension_numbers);
        let [batch, features] = [numbers.input_batch_dimension, numbers.input_feature_dimension]
            .map(|d| size(&lhs.dims, d).unwrap_or(DYNAMIC));
        let [inputs, outputs] =
            [numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension]
                .map(|d| size(&rhs.dims, d).unwrap_or(DYNAMIC));
        let divisions = [
            ("C10", "the batch", batch, "batch_group_count", batches),
            ("C11", "the input features", features, "feature_group_count", groups),
            ("C15", "the output features", outputs, "batch_group_count", batches),
            ("C16", "the output features", outputs, "feature_group_count", groups),
        ];
        for (number, what, size, by, count) in divisions {
            c.require(size == DYNAMIC || size % count == 0, number, || {
                format!("{what} {size} cannot be divided by {by} {count}")
            });
        }
        if features != DYNAMIC {
            let what = "the kernel's input features and the features of a group";
            c.same_dim("C14", what, inputs, features / groups);
        }
    }

    /// C27 to C34.
    fn check_elements(&self, c: &mut Check<'_>) {
        let (lhs, rhs, result) = (c.operand(0), c.operand(1), c.result(0));
        let [left, right, out] = [lhs, rhs, result].map(|ty| ty.elem.quant());
        let all = || format!("lhs is {lhs}, rhs {rhs}, the result {result}");
        if left.is_none() && right.is_none() && out.is_none() {
            // Sums may be held in a wider type of the same kind, as programs in use do.
            let [from, to] = [lhs, result].map(|ty| ty.elem.storage());
            let widened = from.kind() == to.kind() && from.bits() <= to.bits();
            c.require(lhs.elem == rhs.elem && widened, "C27", all);
            return;
        }
        c.require(right.is_some() && left.is_some() == out.is_some(), "C28", all);
        c.require(left.is_none_or(|q| q.axis.is_none()), "I1", || {
            format!("lhs is {lhs}, which is not quantized per tensor")
        });
        let numbers = &self.dimension_numbers;
        let axis = right.and_then(|q| q.axis);
        c.require(
            axis.is_none_or(|axis| axis == numbers.kernel_output_feature_dimension),
            "C29",
            || format!("{rhs} must be quantized along its output features"),
        );
        let out_axis = out.and_then(|q| q.axis);
        c.require(
            out_axis.is_none_or(|axis| axis == numbers.output_feature_dimension),
            "C30",
            || format!("{result} must be quantized along its features"),
        );
        let Some(right) = right else { return };
        let Some(left) = left else {
            let same = lhs.elem.expressed() == right.expressed && lhs.elem == result.elem;
            c.require(same, "C34", all);
            return;
        };
        c.require(left.storage == right.storage, "C31", all);
        let expressed = [left.expressed, right.expressed, result.elem.expressed()];
        c.require(expressed.iter().all(|e| *e == expressed[0]), "C32", all);
        c.require(axis.is_some() || out_axis.is_none(), "C33", all);
    }

    /// Everything; `padded` says whether the padding is known.
    fn check_all(&self, c: &mut Check<'_>, padded: bool) {
        let (lhs, rhs, result) = (c.operand(0), c.operand(1), c.result(0));
        let rank = lhs.rank();
        c.require(rank == rhs.rank() && rank >= 2, "C1", || {
            format!("operands are {lhs} and {rhs}, of one rank from 2 on they must be")
        });
        if rank != rhs.rank() || rank < 2 {
            return;
        }
        self.check_window(c, rank);
        self.dimension_numbers.check(c, rank);
        self.check_groups(c);
        check_precision(c, &self.precision_config, "C24");
        let windows = padded.then(|| self.geometry(rank, None));
        let positive = |w: &Geometry| w.stride > 0 && w.base > 0 && w.window > 0;
        let windows = windows.filter(|windows| windows.iter().all(positive));
        c.require(result.rank() == rank, "C26", || {
            format!("the result is {result}, of rank {rank} it must be")
        });
        if result.rank() == rank {
            let wanted = self.result_dims(&lhs.dims, &rhs.dims, windows.as_deref());
            c.require(dims_compatible(&wanted, &result.dims), "C25", || {
                let wanted = lhs.with_dims(wanted.iter().copied());
                format!("the result is {result}, its shape must be that of {wanted}")
            });
        }
        self.check_elements(c);
    }

    fn run(&self, cx: &Cx<'_, '_>, padding: Option<&[[i64; 2]]>) -> EvalResult {
        let (lhs, rhs) = (cx.tensor(0)?, cx.tensor(1)?);
        let windows = self.geometry(lhs.rank(), padding);
        let numbers = &self.dimension_numbers;
        let features = size(lhs.dims(), numbers.input_feature_dimension).unwrap_or(0);
        let inputs = size(rhs.dims(), numbers.kernel_input_feature_dimension).unwrap_or(0);
        let outputs = size(rhs.dims(), numbers.kernel_output_feature_dimension).unwrap_or(0);
        let batch = size(lhs.dims(), numbers.input_batch_dimension).unwrap_or(0);
        let (groups, batches) = (self.feature_group_count, self.batch_group_count);
        let divides = features == inputs * groups
            && outputs % groups == 0
            && outputs % batches == 0
            && batch % batches == 0;
        if !divides {
            return Err(cx.error(format!("{} and {} do not fit together", lhs.ty, rhs.ty)));
        }
        let dims = self.result_dims(lhs.dims(), rhs.dims(), Some(&windows));
        let ty = cx.result_of(0, &dims)?;
        Ok(vec![conv_eval::convolve(self, &windows, lhs, rhs, ty).into()])
    }
}

impl OpDef for Convolution {
    const NAME: &'static str = "stablehlo.convolution";
    const FORM: Form = Form::Custom { parse: parse_conv, print: print_conv };
    const ARITY: Arity = Arity::tensors(Count::Exactly(2), 1);

    fn check(&self, c: &mut Check<'_>) {
        self.check_all(c, true);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        self.run(cx, None)
    }

    columns!(Contraction, Accumulated, Rule(conv_grad::of_convolution));
}

impl OpDef for DynamicConv {
    const NAME: &'static str = "stablehlo.dynamic_conv";
    const FORM: Form = Form::Custom { parse: parse_conv, print: print_conv };
    const ARITY: Arity = Arity::tensors(Count::Exactly(3), 1);

    fn check(&self, c: &mut Check<'_>) {
        let rank = c.operand(0).rank();
        let padding = c.operand(2);
        let integer = super::elementwise::I.allows(&padding.elem);
        c.require(integer, "I3", || format!("padding is {padding}, not of integers"));
        let shape = [rank as i64 - 2, 2];
        c.require(dims_compatible(&padding.dims, &shape), "C4", || {
            format!("padding is {padding}, of shape {shape:?} it must be")
        });
        self.fixed(rank).check_all(c, false);
    }

    fn infer(&self, _: &Check<'_>) -> Infer {
        Infer::Declared
    }

    fn eval(&self, cx: &mut Cx<'_, '_>) -> EvalResult {
        let padding: &Tensor = cx.tensor(2)?;
        let rank = cx.tensor(0)?.rank();
        if padding.dims() != [rank as i64 - 2, 2] {
            return Err(cx.error(format!("padding is {} for rank {rank}", padding.ty)));
        }
        let pairs: Vec<[i64; 2]> =
            padding.ints().chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        self.fixed(rank).run(cx, Some(&pairs))
    }

    columns!(Contraction, Accumulated, Missing("has padding that is not known"));
}

/// The words of a window, with their attributes.
const WINDOW: [(&str, &str); 5] = [
    ("stride", "window_strides"),
    ("pad", "padding"),
    ("lhs_dilate", "lhs_dilation"),
    ("rhs_dilate", "rhs_dilation"),
    ("reverse", "window_reversal"),
];

/// `(%a, %b) dim_numbers = […]x[…]->[…], window = {stride = [1], …} {…} : …`.
fn parse_conv(p: &mut Parser<'_>, _: &'static super::OpInfo) -> Parse<form::RawOp> {
    let mut raw =
        form::RawOp { operands: p.list("(", ")", Parser::operand)?, ..Default::default() };
    p.cur.expect_word("dim_numbers")?;
    p.cur.expect("=")?;
    let numbers = Attr::Struct("stablehlo.conv_raw".into(), p.conv_dimensions()?);
    raw.attrs.push(("dimension_numbers".into(), numbers));
    p.cur.expect(",")?;
    p.cur.expect_word("window")?;
    p.cur.expect("=")?;
    let entries = p.list("{", "}", |p| {
        let at = p.cur.at;
        let word = p.cur.word("stride, pad, lhs_dilate, rhs_dilate or reverse")?;
        let Some((_, name)) = WINDOW.iter().find(|(text, _)| *text == word) else {
            let message = "expected stride, pad, lhs_dilate, rhs_dilate or reverse";
            return p.cur.fail_at(at, message);
        };
        p.cur.expect("=")?;
        let attr = p.attr()?;
        Ok(((*name).into(), if word == "reverse" { as_booleans(attr) } else { attr }))
    })?;
    raw.attrs.extend(entries);
    form::attributes(p, &mut raw)?;
    form::parse_types(p, &mut raw, Types::Functional)?;
    Ok(raw)
}

/// `reverse = [0, 1]` is an older way to write `[false, true]`.
fn as_booleans(attr: Attr) -> Attr {
    let Attr::Array(items) = attr else { return attr };
    let one = |item| match item {
        Attr::Int(value @ (0 | 1), None) => Attr::Bool(value == 1),
        other => other,
    };
    Attr::Array(items.into_iter().map(one).collect())
}

fn print_conv(p: &mut Printer<'_>, node: NodeId, mut attrs: Dict) {
    p.push("(");
    p.values(p.graph().operands(node));
    p.push(") dim_numbers = ");
    if let Some(Attr::Struct(_, numbers)) = form::take(&mut attrs, "dimension_numbers") {
        p.push(&crate::text::conv::text(&numbers));
    }
    p.push(", window = {");
    let mut separator = "";
    for (word, name) in WINDOW {
        if let Some(attr) = form::take(&mut attrs, name) {
            p.push(&format!("{separator}{word} = {}", window_text(&attr)));
            separator = ", ";
        }
    }
    p.push("}");
    p.attributes(&attrs);
    form::print_types(p, node, Types::Functional);
}

fn window_text(attr: &Attr) -> String {
    match attr {
        Attr::DenseInts(DType::I1, ints) => {
            format!("{:?}", ints.iter().map(|i| *i != 0).collect::<Vec<_>>())
        }
        Attr::DenseInts(_, ints) => format!("{ints:?}"),
        other => format!("{:?}", Padding::from_attr(other).map(|p| p.0).unwrap_or_default()),
    }
}
