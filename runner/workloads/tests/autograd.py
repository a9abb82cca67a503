"""Gradients by plain PyTorch, in float64: python autograd.py OUT MODEL.pt2...

For each model, OUT/NAME.safetensors gets the gradient by each parameter ("parameter NAME") and by
each float input ("input NAME") of the outputs, weighted element by element with fixed numbers.
What the outputs do not depend on is left out.
"""

import contextlib
import importlib
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

for library in ["torchvision", "transformers.modeling_outputs"]:
    with contextlib.suppress(ImportError):
        importlib.import_module(library)

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}


def widen(value):
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in WIDE:
        return value.detach().to(WIDE[value.dtype])
    return value


def widened(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph with float64 in place of every float type."""
    for part in module.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is not None:
                part._parameters[name] = torch.nn.Parameter(widen(parameter), requires_grad=False)
        for name, buffer in list(part._buffers.items()):
            part._buffers[name] = widen(buffer)
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, widen(value))
        if isinstance(part, torch.fx.GraphModule):
            for node in list(part.graph.nodes):
                if "_assert_tensor_metadata" in str(node.target):
                    part.graph.erase_node(node)
                    continue
                node.args = pytree.tree_map(widen, node.args)
                node.kwargs = pytree.tree_map(widen, node.kwargs)
            part.recompile()
    return module


def weights(tensor: torch.Tensor) -> torch.Tensor:
    """Fixed numbers for the elements of an output; both parts of a complex one count."""
    count = tensor.numel() * (2 if tensor.is_complex() else 1)
    flat = torch.cos(torch.arange(count, dtype=torch.float64) * 0.7 + 0.3)
    if tensor.is_complex():
        return torch.view_as_complex(flat.view(-1, 2)).view(tensor.shape)
    return flat.view(tensor.shape)


def differentiable(tensor) -> bool:
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def run(model: Path) -> dict[str, torch.Tensor]:
    program = torch.export.load(model)
    given = load_file(model.with_suffix(".inputs.safetensors"))
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    leaves = {}
    flat = []
    for spec in specs:
        value = given.get(spec.arg.name, getattr(spec.arg, "value", None))
        value = widen(value)
        if differentiable(value):
            value.requires_grad_()
            leaves[f"input {spec.arg.name}"] = value
            # Models may change what they are given.
            value = value.clone()
        flat.append(value)
    args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    own = {s.target for s in program.graph_signature.input_specs if s.kind.name == "PARAMETER"}
    module = widened(program.module(check_guards=False))
    for name, parameter in module.named_parameters():
        if name in own and differentiable(parameter):
            parameter.requires_grad_()
            leaves[f"parameter {name}"] = parameter
    results = pytree.tree_leaves(module(*args, **kwargs))
    results = [r for r in results if differentiable(r) and r.requires_grad]
    if not results or not leaves:
        return {}
    found = {}
    for result in results:
        try:
            gradients = torch.autograd.grad(
                result, list(leaves.values()), weights(result), retain_graph=True, allow_unused=True
            )
        except RuntimeError as error:
            # A step function that PyTorch refuses; its derivative is zero wherever there is one.
            if "floor_divide" not in str(error):
                raise
            continue
        for name, gradient in zip(leaves, gradients):
            if gradient is not None:
                found[name] = found[name] + gradient if name in found else gradient
    return {n: g.detach().resolve_conj().contiguous().clone() for n, g in found.items()}


def main() -> None:
    out = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for model in map(Path, sys.argv[2:]):
        start = time.monotonic()
        try:
            tensors = run(model)
        except Exception as error:  # noqa: BLE001: the test names the models without a result
            print(f"{model.stem}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            tensors["warpforge.empty"] = torch.zeros(1)
            save_file(tensors, out / f"{model.stem}.safetensors")
            print(f"{model.stem}: {time.monotonic() - start:.1f} s", file=sys.stderr)


main()
