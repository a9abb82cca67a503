"""Small models that between them hold every family of ops, for the tests of lowering.

A case is a function of tensors or a module. Several calls share a case, because
a file per call would be mostly file; when one is wrong, its output's number says
which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from _common import Sample

CASES: dict[str, Callable[[], Sample]] = {}
TRAINING: set[str] = set()

# An input: the shape of a normal random tensor, or a function that makes one.
Input = tuple[int, ...] | Callable[[], torch.Tensor]


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


class Several(nn.Module):
    """Modules that each take the same inputs."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.several = nn.ModuleList(modules)

    def forward(self, *tensors: torch.Tensor) -> tuple:
        return tuple(module(*tensors) for module in self.several)


def integers(low: int, high: int, *shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randint(low, high, shape)


def unit(*shape: int) -> Callable[[], torch.Tensor]:
    """Numbers between 0 and 1, and not too close to either."""
    return lambda: torch.rand(*shape) * 0.9 + 0.05


def fixed(*rows: Any) -> Callable[[], torch.Tensor]:
    return lambda: torch.tensor(rows)


def tensors(inputs: tuple[Input, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(one() if callable(one) else torch.randn(one) for one in inputs)


def function(*inputs: Input) -> Callable:
    """Adds a case: the decorated function on these inputs."""

    def add(body: Callable[..., Any]) -> Callable[..., Any]:
        CASES[body.__name__] = lambda: Sample(Function(body), tensors(inputs))
        return body

    return add


def module(*inputs: Input, train: bool = False) -> Callable:
    """Adds a case: the model that the decorated function makes, or the list of them."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        def sample() -> Sample:
            made = make()
            model = Several(made) if isinstance(made, list) else made
            return Sample(roughen(model), tensors(inputs))

        CASES[make.__name__] = sample
        if train:
            TRAINING.add(make.__name__)
        return make

    return add


def roughen(model: nn.Module) -> nn.Module:
    """Moves weights off their first values, where scales of 1 and biases of 0 hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.1)
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0, 0.2)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return model


# Arithmetic, elementwise


@function((4, 7))
def unary(x: Any) -> tuple:
    small, positive = x.sigmoid() * 0.9 + 0.05, x.abs() + 0.5
    signed = (x.abs(), x.neg(), x.sign(), x.ceil(), x.floor(), x.round(), x.trunc(), x.frac())
    waves = (x.sin(), x.cos(), x.tan(), x.atan(), x.sinh(), x.cosh(), x.tanh(), x.asinh())
    growth = (x.exp(), x.exp2(), x.expm1(), x.erf(), x.erfc(), x.sigmoid(), x.square(), x.sinc())
    roots = (positive.sqrt(), positive.rsqrt(), positive.reciprocal(), positive.log())
    logs = (positive.log2(), positive.log10(), positive.log1p(), positive.lgamma())
    inverse = (small.asin(), small.acos(), small.atanh(), small.erfinv(), small.logit())
    return signed + waves + growth + roots + logs + inverse


@function((3, 5), (3, 5))
def binary(a: Any, b: Any) -> tuple:
    plain = (a + b, a - b, a * b, a / b, a**2, a.abs() ** b, 2**a, 1 / a, 2 - a)
    whole = (a // b, a % b, a.fmod(b), torch.div(a, b, rounding_mode="trunc"))
    pairs = (a.maximum(b), a.minimum(b), a.atan2(b), torch.hypot(a, b), torch.logaddexp(a, b))
    mixes = (a.lerp(b, 0.3), torch.addcmul(a, a, b, value=0.5), torch.addcdiv(a, a, b, value=0.1))
    tests = (a < b, a >= 0.1, a != b, a.isclose(b), torch.logical_xor(a > 0, b > 0))
    return (
        plain + whole + pairs + mixes + tests + (a.add(b, alpha=0.5), torch.xlogy(a.abs(), b.abs()))
    )


@function(integers(-9, 9, 3, 5), integers(1, 5, 3, 5))
def whole_numbers(a: Any, b: Any) -> tuple:
    bits = (a & b, a | b, a ^ b, ~a, a << 2, a >> 1, a.bitwise_left_shift(b))
    quotients = (a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc"), a / b)
    narrow = (a.to(torch.int8) * 30, b.to(torch.uint8) + 253, a.to(torch.int16) // 2)
    return bits + quotients + narrow + (a.pow(2), a.clamp(0, 3), a.sum(), a.prod(), a.cumsum(0))


@function((3, 4), integers(0, 5, 3, 4), lambda: torch.randn(3, 4).bfloat16())
def promotion(x: Any, i: Any, h: Any) -> tuple:
    scalars = (x * 2, i * 2.5, h * 2.0, i + True, x / 3, i / 2, 2**i, i.sqrt(), 1 - h)
    mixed = (x + i, h + x, h + i, torch.add(x, i, alpha=2), x[0, 0] * h, x > i, h.float() + x)
    chosen = (torch.where(i > 2, x, 0), torch.where(i > 2, 1.0, 0.0), torch.where(i > 2, h, x))
    return (
        scalars + mixed + chosen + (torch.cat([x, i]), x + torch.tensor(2.0, dtype=torch.float64))
    )


@function((3, 4))
def casts(x: Any) -> tuple:
    x = x * 5
    reals = (x.bfloat16(), x.half(), x.double(), x.bfloat16().float() + 1)
    wholes = (x.int(), x.long(), x.to(torch.int8), x.abs().to(torch.uint8), x.bool())
    return reals + wholes + (x.view(torch.int32), x.bfloat16().view(torch.int16))


@function(fixed([1.0, float("nan"), -2.0, float("inf")], [0.0, -0.0, float("-inf"), 3.0]))
def special_values(x: Any) -> tuple:
    tests = (x.isnan(), x.isinf(), x.isfinite(), x.sign())
    kept = (x.clamp(-1, 1), x.relu(), x.maximum(torch.zeros_like(x)), x.max(), x.amax(1))
    return tests + kept + (x.nan_to_num(), x.nan_to_num(1.0, 2.0, 3.0), x.argmax(1))


# Activations and losses


@module((3, 17))
def activations() -> list:
    names = (
        "ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid PReLU ReLU ReLU6 SELU"
    )
    more = "CELU GELU Sigmoid SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink"
    return [getattr(nn, name)() for name in f"{names} {more}".split()]


@module((2, 6, 5, 4))
def activations_with_options() -> list:
    shaped = [nn.GLU(1), nn.Softmin(1), nn.Softmax(2), nn.LogSoftmax(1), nn.PReLU(6, 0.1)]
    steep = [nn.ELU(0.5), nn.LeakyReLU(0.2), nn.CELU(0.7), nn.Softplus(2, 3), nn.GELU("tanh")]
    return [*shaped, *steep, nn.Hardtanh(-0.5, 2), nn.Softshrink(0.2), nn.Threshold(0.1, 20)]


@module((4, 5), unit(4, 5))
def losses() -> list:
    kinds = (nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss)
    reduced = [kind(reduction=how) for kind in kinds for how in ("mean", "sum", "none")]
    return [*reduced, nn.SmoothL1Loss(beta=0.3), nn.HuberLoss(delta=0.4), nn.PoissonNLLLoss()]


@module((6, 5), integers(0, 5, 6))
def losses_of_classes() -> list:
    weight = torch.rand(5)
    plain = [nn.CrossEntropyLoss(reduction=how) for how in ("mean", "sum", "none")]
    smooth = nn.CrossEntropyLoss(weight=weight, label_smoothing=0.2, ignore_index=1)
    some = [nn.CrossEntropyLoss(weight=weight), nn.CrossEntropyLoss(ignore_index=2), smooth]
    return [
        *plain,
        *some,
        nn.NLLLoss(),
        nn.NLLLoss(weight=weight, reduction="sum"),
        nn.MultiMarginLoss(),
    ]


# Reductions, order


@function((3, 4, 5))
def reductions(x: Any) -> tuple:
    sums = (
        x.sum(),
        x.sum(1),
        x.mean((0, 2), keepdim=True),
        x.prod(1),
        x.sum((0, 2), dtype=torch.float64),
    )
    spread = (x.std(), x.var(1), x.std(2, correction=0), *torch.var_mean(x, 1))
    extremes = (
        *x.max(1),
        *x.min(2),
        x.amax((0, 1)),
        x.amin(2, keepdim=True),
        x.argmax(),
        x.argmin(1),
    )
    norms = (x.norm(), x.norm(1, 1), x.norm(float("inf")), x.norm(dim=(1, 2)), x.logsumexp(2))
    return sums + spread + extremes + norms + (x.any(), x.all(1), x.count_nonzero())


@function((3, 5))
def running(x: Any) -> tuple:
    return (
        x.cumsum(1),
        x.cumprod(0),
        x.cummax(1).values,
        x.cummin(1).indices,
        x.logcumsumexp(1),
        x.diff(dim=1),
    )


@function((4, 6))
def order(x: Any) -> tuple:
    return (
        *x.sort(1),
        *x.sort(0, descending=True),
        x.argsort(1),
        *x.topk(3),
        *x.topk(2, 0, largest=False),
    )


@function((3, 5), lambda: torch.linspace(-2, 2, 7))
def search(x: Any, edges: Any) -> tuple:
    right = torch.bucketize(x, edges, right=True, out_int32=True)
    return torch.bucketize(x, edges), right, torch.searchsorted(edges, x)


# Products


@function((2, 3, 4), (2, 4, 5), (3, 3), (4,))
def products(a: Any, b: Any, c: Any, v: Any) -> tuple:
    plain = (
        a @ b,
        a @ v,
        v @ b,
        c @ a,
        torch.mm(c, c),
        torch.bmm(a, b),
        torch.dot(v, v),
        torch.outer(v, v),
    )
    added = (torch.addmm(c, c, c, beta=0.5, alpha=2), torch.baddbmm(a @ b, a, b, beta=0.1))
    return (
        plain
        + added
        + (torch.mv(c, v[:3]), torch.tensordot(a, b, dims=([2], [1])), torch.kron(c, c))
    )


@function((2, 3, 4), (2, 4, 5), (4, 4))
def einsum(a: Any, b: Any, c: Any) -> tuple:
    one = (torch.einsum("ii->i", c), torch.einsum("ii", c), torch.einsum("bij->jib", a))
    two = (torch.einsum("bij,bjk->ik", a, b), torch.einsum("bij,kj->bki", a, c))
    return one + two + (torch.einsum("...i,...i->...", a, a),)


@function((4, 5), (6, 5))
def distances(a: Any, b: Any) -> tuple:
    angles = (F.cosine_similarity(a, a * 2 + 1), F.normalize(a), F.normalize(a, p=1, dim=0))
    return angles + (torch.cdist(a, b), torch.cdist(a, b, p=1), F.pairwise_distance(a, a + 1))


@function((4, 4), (4, 3))
def linear_algebra(a: Any, b: Any) -> tuple:
    lower = torch.linalg.cholesky(a @ a.mT + 3 * torch.eye(4))
    solved = torch.linalg.solve_triangular(lower, b, upper=False)
    return lower, solved, torch.linalg.vector_norm(a, 3), torch.linalg.matrix_norm(a)


@function((4, 8))
def fourier(x: Any) -> tuple:
    real = torch.view_as_real
    return real(torch.fft.fft(x)), real(torch.fft.rfft(x)), torch.fft.irfft(torch.fft.rfft(x))


@function((2, 5, 8), (5, 4))
def rotary_by_complex_numbers(x: Any, angle: Any) -> Any:
    pairs = torch.view_as_complex(x.reshape(2, 5, 4, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(2)


# Shapes and indices


@function((2, 3, 4))
def shapes(x: Any) -> tuple:
    views = (
        x.view(2, -1),
        x.flatten(1),
        x.unsqueeze(1),
        x.permute(2, 0, 1),
        x.mT,
        x.expand(2, 2, 3, 4),
    )
    parts = (x.chunk(2, 2)[1], *x.split([1, 2], 1), *x.unbind(0), x.narrow(1, 1, 2), x.select(2, 1))
    joined = (
        torch.cat([x, x], -1),
        torch.stack([x, x], 1),
        torch.hstack([x, x]),
        x.repeat(2, 1, 3),
    )
    moved = (x.roll(1), x.roll((1, -2), (0, 1)), x.flip(0, 1), x.rot90(1, (0, 1)), x.movedim(0, 1))
    return (
        views
        + parts
        + joined
        + moved
        + (x.repeat_interleave(2, 1), x.unfold(2, 2, 1), x[:, None, ::2])
    )


@function((4, 6), fixed(2, 0, 3), lambda: torch.rand(4, 6) > 0.5)
def indices(x: Any, i: Any, mask: Any) -> tuple:
    read = (x[i], x[:, i], x[i, i], x[-1, ::2], x[1:, 2:-1], x.index_select(1, i), x.take(i))
    written = (
        x.index_add(0, i, x[:3] * 2),
        x.index_fill(1, i, 7.0),
        x.index_put((i,), x[:3], True),
    )
    masked = (torch.where(mask, x, 0.0), x.masked_fill(mask, float("-inf")).softmax(-1))
    return read + written + masked + (F.one_hot(i, 5), x.tril(), x.triu(1), x.diagonal())


@function((3, 6), integers(0, 6, 3, 4), (3, 4))
def scatter(x: Any, i: Any, y: Any) -> tuple:
    sums = (x.scatter_add(1, i, y), x.scatter_reduce(1, i, y, "sum"))
    others = tuple(x.scatter_reduce(1, i, y, how) for how in ("amax", "amin", "prod"))
    return (x.gather(1, i), x.scatter(1, i, 2.5)) + sums + others


@function((2, 3))
def creation(x: Any) -> tuple:
    filled = (torch.zeros(2, 3), torch.ones_like(x), torch.full((2,), 3.5), x.new_full((2,), 4))
    ranges = (torch.arange(5), torch.arange(1, 4, 0.5), torch.linspace(0, 1, 5), torch.eye(3))
    return filled + ranges + (torch.tensor([1, 2, 3]), torch.tril_indices(3, 3))


@function((2, 3, 4, 5))
def padding(x: Any) -> tuple:
    constant = (F.pad(x, (1, 2)), F.pad(x, (1, 2, 0, 1), value=3.0), F.pad(x, (-1, 1)))
    return constant + tuple(
        F.pad(x, (1, 2, 2, 1), how) for how in ("reflect", "replicate", "circular")
    )


@function((2, 8, 4, 6))
def pixels(x: Any) -> tuple:
    folded = F.fold(F.unfold(x, 3, padding=1, stride=2), (4, 6), 3, padding=1, stride=2)
    return F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), folded


@function((1, 2, 4, 6))
def resizing(x: Any) -> tuple:
    nearest = (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 9)))
    smooth = [(how, corners) for how in ("bilinear", "bicubic") for corners in (False, True)]
    return nearest + tuple(
        F.interpolate(x, size=(7, 9), mode=how, align_corners=corners) for how, corners in smooth
    )


@function((1, 2, 5, 6), lambda: torch.rand(1, 3, 4, 2) * 2.4 - 1.2)
def grid_sample(x: Any, grid: Any) -> tuple:
    ways = (("bilinear", "zeros", False), ("bilinear", "border", True), ("nearest", "zeros", False))
    return tuple(F.grid_sample(x, grid, *way) for way in ways)


# Layers


@module((2, 4, 12))
def convolution_1d() -> list:
    strided = nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2)
    return [strided, nn.Conv1d(4, 8, 3, groups=2, bias=False), nn.Conv1d(4, 6, 4, padding="same")]


@module((2, 4, 9, 10))
def convolution_2d() -> list:
    strided = nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 2))
    return [
        strided,
        nn.Conv2d(4, 8, 3, groups=4, dilation=2),
        nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
    ]


@module((1, 2, 5, 6, 7))
def convolution_3d() -> list:
    return [nn.Conv3d(2, 4, 3), nn.Conv3d(2, 4, (1, 3, 3), stride=(1, 2, 2), groups=2)]


@module((2, 4, 5, 6))
def transposed_convolution() -> list:
    strided = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)
    return [strided, nn.ConvTranspose2d(4, 8, (2, 3), stride=(2, 1), groups=4, dilation=(1, 2))]


@module((2, 3, 9, 10))
def pooling() -> list:
    largest = [
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.MaxPool2d(2, return_indices=True),
    ]
    uneven = nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False)
    mean = [nn.AvgPool2d(3, 2, 1), uneven, nn.AvgPool2d(2, divisor_override=3), nn.LPPool2d(2, 2)]
    fitted = [nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((3, 4)), nn.AdaptiveMaxPool2d((4, 3))]
    return largest + mean + fitted


@module((4, 6, 3, 5))
def normalization() -> list:
    batch = [nn.BatchNorm2d(6), nn.BatchNorm2d(6, eps=1e-3, affine=False)]
    group = [nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True), nn.LocalResponseNorm(3)]
    return [*batch, *group, nn.LayerNorm(5), nn.LayerNorm((3, 5), eps=1e-3), nn.RMSNorm(5)]


@module((4, 6, 3, 5), train=True)
def batch_statistics() -> list:
    return [nn.BatchNorm2d(6), nn.BatchNorm2d(6, momentum=0.3, affine=False), nn.InstanceNorm2d(6)]


@module(integers(0, 20, 3, 4))
def embedding() -> list:
    bags = [nn.EmbeddingBag(20, 6, mode=how) for how in ("sum", "mean", "max")]
    return [nn.Embedding(20, 6, padding_idx=0), *bags]


@module((5, 2, 6))
def recurrent() -> list:
    kinds = (nn.LSTM, nn.GRU, nn.RNN)
    both_ways = [kind(6, 4, 2, bidirectional=True) for kind in kinds]
    return [*(kind(6, 8) for kind in kinds), *both_ways, nn.LSTM(6, 8, proj_size=4)]


@module((2, 5, 16))
def transformer_layer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@function((2, 4, 5, 8), (2, 2, 5, 8), (2, 2, 5, 8))
def attention(q: Any, k: Any, v: Any) -> tuple:
    attend, mask = F.scaled_dot_product_attention, torch.ones(5, 5, dtype=torch.bool).tril()
    full = (
        attend(q, q, q),
        attend(q, q, q, is_causal=True),
        attend(q, q, q, attn_mask=mask, scale=0.3),
    )
    return full + (attend(q, k, v, is_causal=True, enable_gqa=True),)


# Random numbers, which both passes draw from the same generator


@module((5, 3, 4), train=True)
def random_draws() -> nn.Module:
    class Draws(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(4, 6, 2, dropout=0.3, bidirectional=True)
            self.gru = nn.GRU(4, 6, 3, dropout=0.2, batch_first=True)
            self.alpha, self.features = nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.4)

        def forward(self, x: Any) -> tuple:
            y, (h, c) = self.lstm(x)
            weights = x[:, 0].abs() + 0.1
            return (
                y, h, c, *self.gru(x), self.alpha(x), self.features(x), F.dropout(x, 0.25),
                F.dropout1d(x, 0.25), F.rrelu(x, training=True), torch.multinomial(weights, 3),
                torch.multinomial(weights, 8, replacement=True), torch.randperm(9),
                torch.empty(3, 2).exponential_(2.0), torch.randn(3), torch.randint(2, 9, (4,)),
            )  # fmt: skip

    return Draws()


@module((3, 4, 5, 6), train=True)
def instance_statistics() -> list:
    return [
        nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        nn.InstanceNorm2d(4, track_running_stats=True, momentum=0.3),
    ]


@function((4, 3, 5), fixed(2), lambda: torch.tensor([True, False, True, True]))
def masks_and_places(x: Any, place: Any, mask: Any) -> tuple:
    first, second, third = x.clone(), x.clone(), x.clone()
    first[mask, :, 1] = 0.5
    second[mask, 1] = torch.arange(5.0)
    torch.ops.aten.index_put_(third, [mask, None, place], torch.tensor(2.0), True)
    return first, second, third


@function((3, 4), lambda: torch.randint(-99, 99, (2, 8), dtype=torch.int32))
def checked_numbers(x: Any, bits: Any) -> tuple:
    """A number that is only checked, and integers seen as others."""
    torch._check(bits.max().item() <= 99)
    seen = bits.view(torch.uint8), bits.view(torch.int16).float()
    return x * 2, *seen, torch.polygamma(1, x.abs())


# State, control, number formats


@function((4, 6))
def in_place(x: Any) -> tuple:
    x = x.clone()
    x[:, 0] = 1.0
    x[1] += 2
    x[:, 1:3].mul_(3)
    flat = x.view(-1)
    flat[2] = -1
    x.t()[0].add_(1)
    left, right = x.chunk(2, 1)
    left.sub_(right)
    x.masked_fill_(x > 2, 0.5)
    x[0, :2].copy_(torch.tensor([7.0, 8.0]))
    return x, flat, left, x.relu_().exp_()


@module((3, 4))
def mutated_buffers() -> nn.Module:
    class Buffers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("step", torch.tensor(3))
            self.register_buffer("mean", torch.ones(4))
            self.register_buffer("cache", torch.zeros(6, 4))

        def forward(self, x: Any) -> tuple:
            self.step += 1
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.cache[2:5] = x
            return self.cache.sum(0) + self.mean, self.step + 1

    return Buffers()


@module((3, 16))
def packed_weights() -> nn.Module:
    class Packed(nn.Module):
        """A linear layer whose weights are 4-bit codes, two to a byte, scaled by blocks."""

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("packed", torch.randint(0, 256, (8, 8), dtype=torch.uint8))
            self.register_buffer("scale", torch.rand(8, 2) * 0.1)
            self.register_buffer("code", torch.linspace(-1, 1, 16))

        def forward(self, x: Any) -> tuple:
            codes = torch.stack([self.packed & 15, self.packed >> 4], -1).flatten(1)
            weight = self.code[codes.long()] * self.scale.repeat_interleave(8, 1)
            return F.linear(x, weight), (self.packed.view(torch.int8) >> 4).float()

    return Packed()


@module((2, 3, 8))
def autocast() -> nn.Module:
    class Autocast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm, self.conv = nn.Linear(8, 8), nn.LayerNorm(8), nn.Conv1d(3, 4, 3)

        def forward(self, x: Any) -> tuple:
            with torch.autocast("cpu", torch.bfloat16):
                h = self.norm(self.linear(x))
                weights, c = (h @ h.mT).softmax(-1), self.conv(x)
                with torch.autocast("cpu", enabled=False):
                    wide = h.float() * 2
            return h, weights, c, wide, h + x

    return Autocast()


@module((3, 4))
def gradient_modes() -> nn.Module:
    class Modes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.trained = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                h = self.frozen(x)
            return self.trained(h) + h.detach().cumsum(1)

    return Modes()
