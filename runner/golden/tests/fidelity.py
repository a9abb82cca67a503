"""What plain PyTorch computes of exported models: python fidelity.py OUT THREADS MODEL.pt2...

For each model, OUT/NAME.safetensors gets output.N by position, and buffer.NAME for each
buffer that the run has changed.
"""

import contextlib
import importlib
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

# Models of theirs use types and operators that only exist once they are imported.
for library in ["torchvision", "transformers.modeling_outputs"]:
    with contextlib.suppress(ImportError):
        importlib.import_module(library)


def run(model: Path) -> dict[str, torch.Tensor]:
    program = torch.export.load(model)
    given = load_file(model.with_suffix(".inputs.safetensors"))
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    flat = [given[s.arg.name] if s.arg.name in given else s.arg.value for s in specs]
    args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    module = program.module()
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    torch.manual_seed(0)
    with torch.no_grad():
        results = pytree.tree_leaves(module(*args, **kwargs))
    tensors = {f"output.{i}": r for i, r in enumerate(results) if isinstance(r, torch.Tensor)}
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer.view(-1).view(torch.uint8), before[name].view(-1).view(torch.uint8)):
            tensors[f"buffer.{name}"] = buffer
    return {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}


def main() -> None:
    out, threads = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    for model in map(Path, sys.argv[3:]):
        try:
            tensors = run(model)
        except Exception as error:  # noqa: BLE001: the test names the models without a result
            print(f"{model.stem}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            save_file(tensors, out / f"{model.stem}.safetensors")


main()
