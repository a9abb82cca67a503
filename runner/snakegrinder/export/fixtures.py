"""Makes the models that the tests use: NAME.pt2 with its inputs and PyTorch's results.

For every case three files are written: NAME.pt2, NAME.inputs.safetensors (by the
graph's input names) and NAME.outputs.safetensors (output.N by position, and
buffer.NAME for each buffer that the run has changed), as plain PyTorch computes
them with one thread. A case may have its weights in NAME.weights.safetensors.

    python fixtures.py FOLDER                      # groups models and ops
    python fixtures.py FOLDER --group committed    # those that lie in the repository
    python fixtures.py FOLDER --only llama
"""

from __future__ import annotations

import argparse
import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _common import (
    Sample,
    check_torch,
    export,
    inputs_by_name,
    prepare,
    save,
    save_tensors,
    save_weights,
    shorten_paths,
)

check_torch()

import torch
import transformers
from torch import nn
from torch.export import Dim

import _ops
import bert_qa
import llama
import resnet50_fpn

THREADS = 1


@dataclass
class Case:
    make: Callable[[], Sample]
    train: bool = False
    dtype: str | None = None
    # The weights in a file of their own, and only their names in the .pt2.
    split: bool = False


def rough(make: Callable[..., Sample], *args: Any, **more: Any) -> Callable[[], Sample]:
    """The sample with weights that are all of consequence."""

    def sample() -> Sample:
        made = make(*args, **more)
        _ops.roughen(made.model)
        return made

    return sample


def resnet50() -> Sample:
    """Images of 64 pixels leave the last stage 2 x 2, so that batch statistics are defined."""
    return Sample(resnet50_fpn.resnet50(narrow=16, classes=10), (torch.randn(4, 3, 64, 64),))


def resnet50_trained() -> Sample:
    """In training, with residual branches as small as trained ones are.

    With branches as large as what they are added to, fifty layers that normalise by the batch
    multiply every rounding: float32 itself then lies 5e-5 from float64.
    """
    made = resnet50()
    _ops.roughen(made.model)
    with torch.no_grad():
        for name, parameter in made.model.named_parameters():
            if name.endswith("bn3.weight"):
                parameter.mul_(0.2)
    return Sample(made.model, (torch.randn(8, 3, 64, 64),))


def gpt2() -> Sample:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=64, use_cache=False,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    ids = torch.randint(0, 256, (2, 16))
    mask = torch.ones_like(ids)
    mask[1, 12:] = 0
    kwargs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
    return Sample(GPT2LMHeadModel(config), kwargs=kwargs)


def vit() -> Sample:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        image_size=32, patch_size=8, num_labels=10,
    )  # fmt: skip
    kwargs = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([3, 7])}
    return Sample(ViTForImageClassification(config), kwargs=kwargs)


def tied() -> Sample:
    """An MLP between an embedding and a head that share their weight."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
            self.head.weight = self.embedding.weight
            self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.mlp(self.embedding(ids)))

    return Sample(Tied(), (torch.randint(0, 12, (2, 3)),))


def branches() -> Sample:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.yes, self.no = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(
                x.sum() > 0, lambda v: self.yes(v).relu(), lambda v: self.no(v) * 2, (x,)
            )

    return Sample(Branches(), (torch.randn(3, 4),))


def foreign_op() -> Sample:
    """An operator that torchvision brings, and libtorch has not."""
    from torchvision.ops import roi_align

    class Foreign(nn.Module):
        def forward(self, x: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
            return roi_align(x, [boxes], 2, sampling_ratio=2)

    return Sample(Foreign(), (torch.randn(1, 2, 4, 4), torch.tensor([[0.0, 0.0, 3.0, 3.0]])))


def dynamic() -> Sample:
    class Dynamic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> tuple:
            rows = x.shape[0]
            return self.linear(x).softmax(-1), x.view(rows * 2, 4), torch.arange(rows) + rows

    batch = Dim("batch", min=2, max=64)
    return Sample(Dynamic(), (torch.randn(3, 8),), dynamic_shapes={"x": {0: batch}})


MODELS = {
    "bert_qa": Case(rough(bert_qa.make)),
    "bert_qa_train": Case(rough(bert_qa.make, dropout=0.0), train=True),
    "bert_qa_bf16": Case(rough(bert_qa.make), dtype="bf16"),
    "llama": Case(rough(llama.make)),
    "llama_train": Case(rough(llama.make), train=True),
    "llama_bf16": Case(rough(llama.make), dtype="bf16"),
    "resnet50": Case(rough(resnet50)),
    "resnet50_train": Case(resnet50_trained, train=True),
    "resnet50_fpn": Case(resnet50_fpn.make),
    "gpt2": Case(rough(gpt2)),
    "vit": Case(rough(vit)),
}
OPS = {f"op_{name}": Case(make, name in _ops.TRAINING) for name, make in _ops.CASES.items()}
# Refused by one pass or the other: not among those that the tests run through.
REFUSED = {"foreign_op": Case(foreign_op)}
COMMITTED = {
    "tied": Case(tied),
    "tied_split": Case(tied, split=True),
    "in_place": Case(_ops.CASES["in_place"]),
    "mutated_buffers": Case(_ops.CASES["mutated_buffers"]),
    "branches": Case(branches),
    "dynamic": Case(dynamic),
    "gradient_modes": Case(_ops.CASES["gradient_modes"]),
    "mlp_bf16": Case(tied, dtype="bf16"),
}
GROUPS = {"models": MODELS, "ops": OPS, "committed": COMMITTED, "refused": REFUSED}


def write(name: str, case: Case, folder: Path) -> None:
    torch.manual_seed(0)
    sample = case.make()
    prepare(sample, case.dtype, case.train)
    # Both the export and the run get a model of their own: either may change it.
    outputs = results(copy.deepcopy(sample))
    program = export(copy.deepcopy(sample))
    shorten_paths(program)
    # One entry, because safetensors writes several in any order.
    said = {"made with": f"torch {torch.__version__}, threads {THREADS}"}
    save_tensors(inputs_by_name(program, sample), folder / f"{name}.inputs.safetensors", said)
    save_tensors(outputs, folder / f"{name}.outputs.safetensors", said)
    save(program, folder / f"{name}.pt2", keep_weights=not case.split)
    if case.split:
        save_weights(program.state_dict, folder / f"{name}.weights.safetensors")


def results(sample: Sample) -> dict[str, Any]:
    """What plain PyTorch computes: the outputs by position, and the changed buffers."""
    before = {name: buffer.clone() for name, buffer in sample.model.named_buffers()}
    given = sample.model(*sample.args, **sample.kwargs)
    leaves = torch.utils._pytree.tree_leaves(given)
    found = {
        f"output.{at}": leaf for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)
    }
    for name, buffer in sample.model.named_buffers():
        if not torch.equal(buffer, before[name]):
            found[f"buffer.{name}"] = buffer
    return found


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("folder", type=Path, metavar="FOLDER", help="where to write them")
    made.add_argument(
        "--group", action="append", choices=GROUPS, help="which (default: models and ops)"
    )
    made.add_argument("--only", metavar="TEXT", default="", help="those with this in their names")
    return made.parse_args()


def main() -> None:
    given = options()
    torch.set_num_threads(THREADS)
    # All of them are about the code of the models, which is nobody's here.
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for group in given.group or ["models", "ops"]:
        started, done = time.monotonic(), 0
        for name, case in GROUPS[group].items():
            if given.only in name:
                write(name, case, given.folder)
                done += 1
        print(f"{group}: {done} cases in {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
