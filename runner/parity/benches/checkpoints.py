"""The statistics of `warpforge_parity::compare` with NumPy, for two safetensors files of float32.

Usage: checkpoints.py GOLDEN CANDIDATE. Prints one JSON line: the seconds it took, without starting
Python, and a few of the numbers, so that both sides can be seen to have computed the same.
"""

import json
import mmap
import struct
import sys
import time

import numpy as np

RTOL, ATOL = 1e-4, 1e-6


def tensors(path):
    """Every tensor of the file as a view of mapped memory: nothing is read yet."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (length,) = struct.unpack("<Q", data[:8])
    for name, info in sorted(json.loads(data[8 : 8 + length]).items()):
        if name != "__metadata__":
            count = int(np.prod(info["shape"]))
            start = 8 + length + info["data_offsets"][0]
            yield name, np.frombuffer(data, np.float32, count, start)


def ordered(values):
    bits = values.view(np.int32)
    magnitude = (bits & 0x7FFFFFFF).astype(np.int64)
    return np.where(bits < 0, -magnitude, magnitude)


def compare(golden, candidate):
    finite = np.isfinite(golden) & np.isfinite(candidate)
    if not finite.all():
        golden, candidate = golden[finite], candidate[finite]
    g, c = golden.astype(np.float64), candidate.astype(np.float64)
    error = np.abs(c - g)
    size = np.abs(g)
    share = RTOL * size
    limit = ATOL + share
    g2, c2, e2 = np.dot(g, g), np.dot(c, c), np.dot(error, error)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.max(np.where(size > 0, error / size, 0))
        needed_rtol = np.max(np.where(error > ATOL, (error - ATOL) / size, 0))
        worst = int(np.argmax(error / limit))
    distance = np.abs(ordered(candidate) - ordered(golden))
    bucket = np.where(distance == 0, 0, np.ceil(np.log2(np.maximum(distance, 1))).astype(int) + 1)
    n = len(g)
    ranks = [min(n - 1, int(np.ceil(q * n)) - 1) for q in (0.5, 0.9, 0.99, 0.999)]
    return {
        "count": n,
        "mismatches": int(np.count_nonzero(error > limit)),
        "max_abs": float(error.max()),
        "mean_abs": float(error.mean()),
        "max_rel": float(relative),
        "rmse": float(np.sqrt(e2 / n)),
        "norm_relative": float(np.sqrt(e2 / g2)),
        "cosine": float(np.dot(g, c) / np.sqrt(g2 * c2)),
        "sqnr_db": float(10 * np.log10(g2 / e2)),
        "needed_rtol": float(needed_rtol),
        "needed_atol": float(max(0, np.max(error - share))),
        "worst": worst,
        "ulps": np.bincount(bucket).tolist(),
        "quantiles": np.partition(error, ranks)[ranks].tolist(),
    }


def main():
    golden, candidate = sys.argv[1:3]
    start = time.perf_counter()
    results = [compare(g, c) for (_, g), (_, c) in zip(tensors(golden), tensors(candidate))]
    seconds = time.perf_counter() - start
    total = lambda key: sum(result[key] for result in results)
    largest = max(result["max_abs"] for result in results)
    summary = {"seconds": seconds, "count": total("count"), "mismatches": total("mismatches")}
    print(json.dumps(summary | {"max_abs": largest}), flush=True)


if __name__ == "__main__":
    main()
