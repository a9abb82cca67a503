"""What PyTorch's DistributedDataParallel makes of a training run, over Gloo.

    python ranks.py export FOLDER
    python ranks.py train FOLDER CASE RANK

`export` writes small models to FOLDER/NAME.pt2 with batches beside them. `train` is one rank of
FOLDER/cases.json's CASE; all meet at a file in FOLDER. Its FOLDER/CASE.RANK.safetensors gets
`losses`, the sum of its own micro-batches' losses for each step, and after the last step
state/... under the names of golden's files of state.
"""

import contextlib
import datetime
import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from plain import Plain
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

BATCHES = 48


class Model(nn.Module):
    """Tied weights, batch statistics, a frozen layer and an unused weight; dropout if wanted."""

    def __init__(self, dropout: float, renormalised: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 12, max_norm=1.5 if renormalised else None)
        self.mix = nn.Linear(12, 24)
        self.norm = nn.BatchNorm1d(24)
        self.dropout = nn.Dropout(dropout)
        self.frozen = nn.Linear(24, 12)
        self.frozen.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(12, 17)
        if not renormalised:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.mix(self.embedding(ids)).transpose(1, 2)).transpose(1, 2)
        logits = self.head(self.frozen(self.dropout(F.gelu(hidden))))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


MODELS = {
    "norm": lambda: Model(0.0),
    "dropout": lambda: Model(0.2),
    "renormalised": lambda: Model(0.0, renormalised=True),
    "bf16": lambda: Plain().to(torch.bfloat16),
}


def model(name: str) -> nn.Module:
    made = MODELS[name]()
    torch.manual_seed(3)
    for parameter in made.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape) * 0.3)
    return made.train()


def export(folder: Path) -> None:
    torch.manual_seed(4)
    for number in range(BATCHES):
        ids, labels = torch.randint(0, 17, (4, 6)), torch.randint(0, 17, (4, 6))
        save_file({"ids": ids, "labels": labels}, folder / f"{number}.safetensors")
    for name in MODELS:
        program = torch.export.export(model(name), (ids, labels), strict=False)
        torch.export.save(program, folder / f"{name}.pt2")


def train(folder: Path, name: str, rank: int) -> None:
    case = json.loads((folder / "cases.json").read_text())[name]
    recipe, ranks = case["recipe"], case["ranks"]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/{name}.store", rank=rank, world_size=ranks,
        timeout=datetime.timedelta(seconds=120),
    )  # fmt: skip
    own = model(case["model"])
    shared = DistributedDataParallel(own, find_unused_parameters=True)
    trained = {n: p for n, p in own.named_parameters() if p.requires_grad}
    rule = dict(recipe["optimizer"])
    made = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[rule.pop("kind")]
    made = made(list(trained.values()), lr=recipe["learning_rate"], **rule)
    count = recipe["accumulation"] // ranks
    losses = []
    for step in range(case["steps"]):
        first = step * recipe["accumulation"] + rank * count
        total = 0.0
        for number in range(first, first + count):
            batch = load_file(folder / f"{number % BATCHES}.safetensors")
            last = number == first + count - 1
            with contextlib.nullcontext() if last else shared.no_sync():
                loss = shared(batch["ids"], batch["labels"])
                total += loss.item()
                (loss / count).backward()
        losses.append(total)
        if recipe["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(list(trained.values()), recipe["clip_norm"])
        made.step()
        made.zero_grad()
    state = {f"parameter/{n}": p for n, p in own.named_parameters()}
    state |= {f"buffer/{n}": b for n, b in own.named_buffers()}
    for n, parameter in trained.items():
        for slot, tensor in made.state[parameter].items():
            if slot != "step" and tensor is not None:
                state[f"optimizer/{slot}/{n}"] = tensor
    found = {f"state/{n}": t.detach().contiguous().clone() for n, t in state.items()}
    found["losses"] = torch.tensor(losses, dtype=torch.float64)
    save_file(found, folder / f"{name}.{rank}.safetensors")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = Path(sys.argv[2])
    if sys.argv[1] == "export":
        export(folder)
    else:
        train(folder, sys.argv[3], int(sys.argv[4]))


main()
