"""PyTorch's own figures for what the GPU benchmarks measure: a line in asks, a line out answers.

    gemm PRECISION SIZE SECONDS      TFLOP/s of torch.matmul, the better of A·B and A·Bᵀ
    copy MIB SECONDS                 GB/s read and written by Tensor.copy_ within the device
    h2d|d2h pinned|pageable MIB SECONDS   GB/s of Tensor.copy_ between host and device
"""

import statistics
import sys
import time

import torch

BLOCK = 0.05
# What ours spends on finding the fastest algorithm heats the GPU as much.
WARM_UP = 1.0
GPU = torch.device("cuda")


def block(work, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def each(work, seconds):
    """The median time of one run."""
    block(work, 2)
    count = max(1, round(BLOCK / (block(work, 4) / 4)))
    samples, begun = [], time.monotonic()
    while time.monotonic() - begun < WARM_UP:
        block(work, count)
    begun = time.monotonic()
    while time.monotonic() - begun < seconds or len(samples) < 6:
        samples.append(block(work, count) / count)
    return statistics.median(samples)


def gemm(precision, size, seconds):
    size = int(size)
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    wide = [torch.empty(size, size, device=GPU).uniform_(-1, 1) for _ in range(2)]
    a, b = (x.to(kinds.get(precision, torch.float32)) for x in wide)
    if precision == "fp8":
        one = torch.ones((), device=GPU)
        ways = [lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)]
    else:
        c = torch.empty(size, size, device=GPU, dtype=a.dtype)
        ways = [lambda: torch.matmul(a, b, out=c), lambda: torch.matmul(a, b.t(), out=c)]
    best = min(each(way, float(seconds) / len(ways)) for way in ways)
    return 2 * size**3 / best / 1e12


def copy(mebibytes, seconds):
    count = int(mebibytes) << 18
    source = torch.empty(count, device=GPU).uniform_(-1, 1)
    target = torch.empty_like(source)
    return 8 * count / each(lambda: target.copy_(source), float(seconds)) / 1e9


def across(way, memory, mebibytes, seconds):
    count = int(mebibytes) << 18
    host = torch.rand(count, pin_memory=memory == "pinned")
    device = torch.rand(count, device=GPU)
    to, source = (device, host) if way == "h2d" else (host, device)
    return 4 * count / each(lambda: to.copy_(source, non_blocking=True), float(seconds)) / 1e9


def answer(words):
    kind, *rest = words
    if kind == "gemm":
        return gemm(*rest)
    if kind == "copy":
        return copy(*rest)
    return across(kind, *rest)


for line in sys.stdin:
    print(answer(line.split()), flush=True)
    torch.cuda.empty_cache()
