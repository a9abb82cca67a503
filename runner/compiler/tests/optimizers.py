"""Runs torch.optim on given parameters and gradients; usage: optimizers.py FOLDER.

FOLDER/cases.json lists recipes as `warpforge-training` writes them; FOLDER/start.safetensors has
the parameters and, as NAME@STEP, their gradients. The parameters after the last step go to
FOLDER/CASE.safetensors, the learning rates to FOLDER/CASE.json.
"""

import json
import math
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

folder = Path(sys.argv[1])
torch.set_num_threads(1)
start = load_file(folder / "start.safetensors")
names = [name for name in start if "@" not in name]
steps = 1 + max(int(name.split("@")[1]) for name in start if "@" in name)


def factor(schedule, step):
    """The schedules of transformers.optimization and torch.optim.lr_scheduler.StepLR."""
    warmup = schedule.get("warmup", 0)
    if step < warmup:
        return float(step) / float(max(1, warmup))
    kind = schedule["kind"]
    if kind == "linear":
        total = schedule["total"]
        return max(0.0, float(total - step) / float(max(1, total - warmup)))
    if kind == "cosine":
        total = schedule["total"]
        progress = float(step - warmup) / float(max(1, total - warmup))
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress))) if step < total else 0.0
    if kind == "step":
        return schedule["gamma"] ** ((step - warmup) // schedule["every"])
    return 1.0


for number, case in enumerate(json.loads((folder / "cases.json").read_text())):
    optimizer = dict(case["optimizer"])
    kind = optimizer.pop("kind")
    decay = optimizer.pop("weight_decay")
    parameters = {name: torch.nn.Parameter(start[name].clone()) for name in names}
    plain = set(case["no_decay"])
    groups = [
        {"params": [p for n, p in parameters.items() if n not in plain], "weight_decay": decay},
        {"params": [p for n, p in parameters.items() if n in plain], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    made = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[kind]
    running = made(groups, lr=case["learning_rate"], **optimizer)
    rates = []
    for step in range(steps):
        rate = case["learning_rate"] * factor(case["schedule"], step)
        rates.append(rate)
        for group in running.param_groups:
            group["lr"] = rate
        for name, parameter in parameters.items():
            parameter.grad = start[f"{name}@{step}"].clone()
        if case["clip_norm"] is not None:
            torch.nn.utils.clip_grad_norm_(parameters.values(), case["clip_norm"])
        running.step()
    save_file({n: p.detach() for n, p in parameters.items()}, folder / f"{number}.safetensors")
    (folder / f"{number}.json").write_text(json.dumps(rates))
