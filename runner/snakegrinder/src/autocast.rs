//! `torch.autocast` on the CPU: which operators run in the lower precision, which in float32,
//! and which in the widest type of their operands.

use warpforge_pt2::Node;
use warpforge_snakeburger::ir::DType;

use crate::cx::{Cx, Res, element};
use crate::value::Val;

const LOWER: &[&str] = &[
    "conv1d",
    "conv2d",
    "conv3d",
    "bmm",
    "mm",
    "mv",
    "linalg_vecdot",
    "baddbmm",
    "addmm",
    "addbmm",
    "addmv",
    "linear",
    "_convolution",
    "matmul",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "prelu",
    "scaled_dot_product_attention",
    "einsum",
    "bilinear",
    "tensordot",
    "chain_matmul",
    "linalg_multi_dot",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
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
    let target = if LOWER.contains(&name) {
        lower
    } else if FLOAT32.contains(&name) {
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
