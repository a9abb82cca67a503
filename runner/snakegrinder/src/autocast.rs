//! `torch.autocast` on the CPU: which operators run in the lower precision, which in float32,
//! and which in the widest type of their operands.

use warpforge_pt2::Node;
use warpforge_snakeburger::ir::DType;

use crate::cx::{Cx, Res, element};
use crate::value::Val;

/// Operators with a kernel that casts, and those that are made of nothing else.
const LOWER: &[&str] = &[
    "_addmm_activation",
    "_native_multi_head_attention",
    "addbmm",
    "addmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "inner",
    "linalg_matmul",
    "linalg_multi_dot",
    "linalg_vecdot",
    "linear",
    "matmul",
    "mkldnn_rnn_layer",
    "mm",
    "prelu",
    "scaled_dot_product_attention",
    "tensordot",
];

const FLOAT32: &[&str] = &[
    "avg_pool3d",
    "binary_cross_entropy",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "polar",
    "prod",
    "quantile",
    "nanquantile",
    "stft",
    "cdist",
    "trace",
    "view_as_complex",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "inverse",
    "lu_solve",
    "orgqr",
    "ormqr",
    "pinverse",
    "max_pool3d",
    "max_unpool2d",
    "max_unpool3d",
    "adaptive_avg_pool3d",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "mse_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "nll_loss_nd",
    "hinge_embedding_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "cross_entropy_loss",
    "l1_loss",
    "huber_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "ctc_loss",
    "kl_div",
    "multilabel_margin_loss",
    "binary_cross_entropy_with_logits",
    "fft_fft",
    "fft_ifft",
    "fft_fft2",
    "fft_ifft2",
    "fft_fftn",
    "fft_ifftn",
    "fft_rfft",
    "fft_irfft",
    "fft_rfft2",
    "fft_irfft2",
    "fft_rfftn",
    "fft_irfftn",
    "fft_hfft",
    "fft_ihfft",
    "linalg_cond",
    "linalg_matrix_rank",
    "linalg_solve",
    "linalg_cholesky",
    "linalg_svdvals",
    "linalg_eigvals",
    "linalg_eigvalsh",
    "linalg_inv",
    "linalg_householder_product",
    "linalg_tensorinv",
    "linalg_tensorsolve",
    "fake_quantize_per_tensor_affine",
    "geqrf",
    "_lu_with_info",
    "qr",
    "svd",
    "triangular_solve",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "adaptive_max_pool3d",
    "multilabel_margin_loss_forward",
    "linalg_qr",
    "linalg_cholesky_ex",
    "linalg_svd",
    "linalg_eig",
    "linalg_eigh",
    "linalg_lstsq",
    "linalg_inv_ex",
];

const WIDEST: &[&str] = &["stack", "cat", "index_copy"];

/// Casts the call's float arguments as the region it stands in asks.
pub fn apply(cx: &mut Cx<'_>, node: &Node, name: &str) -> Res<()> {
    let Some(autocast) = &node.mode.autocast else { return Ok(()) };
    if !autocast.enabled || &*autocast.device != "cpu" {
        return Ok(());
    }
    let lower = autocast.dtype.map_or(Ok(DType::BF16), element)?;
    let name = name.trim_start_matches("aten::");
    let target = if LOWER.contains(&name) || (name == "einsum" && contracts(cx)) {
        lower
    } else if FLOAT32.contains(&name) || (name == "pad" && copies(cx)) {
        DType::F32
    } else if WIDEST.contains(&name) {
        widest(cx, lower)
    } else {
        return Ok(());
    };
    let mut args = std::mem::take(&mut cx.args);
    for (_, val) in &mut args {
        cast(cx, val, target);
    }
    cx.args = args;
    Ok(())
}

/// Whether a product of several tensors sums over an axis they share: then it is a matrix product,
/// else a plain multiplication.
fn contracts(cx: &Cx<'_>) -> bool {
    let Ok(equation) = cx.str("equation") else { return false };
    let (terms, result) = match equation.split_once("->") {
        Some((terms, result)) => (terms, Some(result)),
        None => (&*equation, None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    terms.iter().flat_map(|term| term.chars()).filter(|c| c.is_alphabetic()).any(|c| {
        let shared = terms.iter().filter(|term| term.contains(c)).count() > 1;
        shared && !result.is_some_and(|result| result.contains(c))
    })
}

/// Whether padding repeats elements of up to three axes, which is done in float32.
fn copies(cx: &mut Cx<'_>) -> bool {
    let axes = cx.ints("pad").map_or(0, |pad| pad.len() / 2);
    match cx.str("mode").as_deref() {
        Ok("reflect") => axes < 3,
        Ok("replicate") => axes < 4,
        _ => false,
    }
}

/// Float64 tensors are left alone, as PyTorch leaves them.
fn cast(cx: &mut Cx<'_>, val: &mut Val, target: DType) {
    match val {
        Val::Tensor(slot) => {
            let value = cx.read(*slot);
            let from = cx.e.dtype(value);
            if from.is_float() && from != DType::F64 && from != target {
                let value = cx.e.convert(value, target);
                *slot = cx.slots.add(value);
            }
        }
        Val::List(items) => items.iter_mut().for_each(|item| cast(cx, item, target)),
        _ => {}
    }
}

fn widest(cx: &mut Cx<'_>, lower: DType) -> DType {
    let mut any = false;
    let mut args = std::mem::take(&mut cx.args);
    for (_, val) in &mut args {
        each(cx, val, &mut |dtype| any |= dtype == DType::F32);
    }
    cx.args = args;
    if any { DType::F32 } else { lower }
}

fn each(cx: &mut Cx<'_>, val: &Val, f: &mut dyn FnMut(DType)) {
    match val {
        Val::Tensor(slot) => {
            let value = cx.read(*slot);
            f(cx.e.dtype(value));
        }
        Val::List(items) => items.iter().for_each(|item| each(cx, item, f)),
        _ => {}
    }
}
