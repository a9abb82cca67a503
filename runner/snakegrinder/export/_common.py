"""What the exporters share: their options, the checks, and how files are written."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TORCH = "2.11"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def fail(message: str) -> None:
    """Ends the program as wrong usage: one line that says what to do."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)


def check_torch() -> None:
    """The archive's layout belongs to one release of torch, so another is refused."""
    # Says at every start that triton is missing, which no export needs.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    try:
        import torch
    except ImportError as error:
        fail(f"torch cannot be imported ({error}); run: pip install -r {REQUIREMENTS}")
    if not torch.__version__.startswith(f"{TORCH}."):
        fail(
            f"this exports for torch {TORCH}, and torch {torch.__version__} is installed; "
            f"run: pip install -r {REQUIREMENTS}"
        )


@dataclass
class Sample:
    """A model and the arguments to trace it with."""

    model: Any
    args: tuple = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None


def parser(description: str, sizes: dict[str, Any] | None = None) -> argparse.ArgumentParser:
    """The options that every exporter has; `sizes` are its presets, the first the default."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("output", type=Path, metavar="OUT.pt2", help="the file to write")
    if sizes:
        default = next(iter(sizes))
        told = f"how large a model ({', '.join(sizes)}; default: {default})"
        made.add_argument("--size", choices=sizes, default=default, help=told, metavar="NAME")
    made.add_argument(
        "--dtype",
        choices=["f32", "f64", "bf16", "f16"],
        help="number format of weights and inputs (default: as the model is made)",
    )
    mode = made.add_mutually_exclusive_group()
    mode.add_argument("--eval", dest="train", action="store_false", help="as in use (default)")
    mode.add_argument(
        "--train", action="store_true", help="as in training: dropout on, batch statistics"
    )
    made.add_argument("--seed", type=int, default=0, help="of weights and inputs (default: 0)")
    made.add_argument(
        "--no-weights",
        action="store_true",
        help="leave the weights' bytes out: the file then holds the graph and the weights' "
        "names, shapes and number formats, and no memory is taken for them",
    )
    made.add_argument(
        "--weights", type=Path, metavar="FILE", help="also write the weights as safetensors"
    )
    made.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help="also write the sample inputs as safetensors, by the graph's input names",
    )
    return made


def run(options: argparse.Namespace, make: Callable[[], Sample]) -> None:
    """Makes the sample, exports it, and writes what was asked for."""
    if options.output.suffix != ".pt2":
        fail(f"{options.output} does not end in .pt2, as what torch.export.save writes should")
    check_torch()
    import torch

    torch.manual_seed(options.seed)
    # Weights that go nowhere are not made: a graph of any size fits a small machine.
    hollow = options.no_weights and not options.weights
    with without_weights() if hollow else contextlib.nullcontext() as fake:
        sample = make()
        prepare(sample, options.dtype, options.train)
        program = export(sample, fake)
    shorten_paths(program)
    save(program, options.output, keep_weights=not options.no_weights)
    if options.weights:
        save_weights(program.state_dict, options.weights)
    if options.inputs:
        save_tensors(inputs_by_name(program, sample), options.inputs)
    size = options.output.stat().st_size
    print(f"{options.output}: {size / 1e6:.1f} MB, {len(program.graph.nodes)} nodes")


def prepare(sample: Sample, dtype: str | None, train: bool) -> None:
    """Puts the model and its floating-point inputs into the mode and format asked for."""
    import torch

    sample.model.train(train)
    if dtype is None:
        return
    formats = {
        "f32": torch.float32,
        "f64": torch.float64,
        "bf16": torch.bfloat16,
        "f16": torch.float16,
    }
    chosen = formats[dtype]
    convert_weights(sample.model, chosen)

    def convert(value: Any) -> Any:
        return value.to(chosen) if is_floating(value) else value

    sample.args = torch.utils._pytree.tree_map(convert, sample.args)
    sample.kwargs = torch.utils._pytree.tree_map(convert, sample.kwargs)


def is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def convert_weights(model: Any, dtype: Any) -> None:
    """Converts what is saved with the weights, and keeps tied weights tied.

    Unlike `model.to`, this leaves buffers alone that are not saved: those are
    constants that the model's author wants in the format they are in (rotary
    frequencies in float32), which is also how a pretrained model is loaded.
    """
    import torch

    done: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        if not is_floating(value):
            return value
        if id(value) not in done:
            data = value.data.to(dtype)
            parameter = isinstance(value, torch.nn.Parameter)
            made = torch.nn.Parameter(data, value.requires_grad) if parameter else data
            # The old one is kept too, so that its id stays taken.
            done[id(value)] = (made, value)
        return done[id(value)][0]

    for module in model.modules():
        for name, value in module._parameters.items():
            module._parameters[name] = convert(value)
        for name, value in module._buffers.items():
            if name not in module._non_persistent_buffers_set:
                module._buffers[name] = convert(value)


def export(sample: Sample, fake: Any = None) -> Any:
    """`torch.export.export`, with the inputs made weightless too where the model is."""
    import torch

    args, kwargs = sample.args, sample.kwargs
    if fake is not None:

        def hollow(value: Any) -> Any:
            return fake.from_tensor(value) if isinstance(value, torch.Tensor) else value

        args, kwargs = torch.utils._pytree.tree_map(hollow, (args, kwargs))
    return torch.export.export(
        sample.model, args, kwargs, dynamic_shapes=sample.dynamic_shapes, strict=False
    )


def shorten_paths(program: Any) -> None:
    """Makes the source lines that nodes remember relative to where Python found them.

    Files made on two machines are then alike, and name neither.
    """
    import torch

    entries = [Path(entry) for entry in sys.path if entry]
    folders = {str(path) for entry in entries for path in (entry.absolute(), entry.resolve())}
    # Of two that fit, the longer says more.
    ordered = sorted(folders, key=len, reverse=True)
    graphs = [
        m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)
    ]
    for node in (node for graph in graphs for node in graph.nodes):
        for folder in ordered if node.meta.get("stack_trace") else ():
            trace = node.meta["stack_trace"]
            node.meta["stack_trace"] = trace.replace(f'File "{folder}/', 'File "')


@contextlib.contextmanager
def without_weights() -> Iterator[Any]:
    """While this is entered, parameters of new modules have a shape but no memory.

    Buffers stay real: those that are not saved with the weights (a table of rotary
    frequencies, say) are constants of the graph, and their values are part of it.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    register = torch.nn.Module.register_parameter

    def register_hollow(module: Any, name: str, value: Any) -> None:
        if value is not None and not isinstance(value.data, FakeTensor):
            empty = fake.from_tensor(value.data)
            value = torch.nn.Parameter(empty, requires_grad=value.requires_grad)
        register(module, name, value)

    torch.nn.Module.register_parameter = register_hollow
    try:
        yield fake
    finally:
        torch.nn.Module.register_parameter = register


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A path to write to, renamed to `path` when all of it is there.

    It has the same file name in a folder of its own, because torch puts the name
    of the file into the archive.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        partial = Path(folder) / path.name
        yield partial
        # Some writers make files that only their owner can read.
        mask = os.umask(0)
        os.umask(mask)
        partial.chmod(0o666 & ~mask)
        os.replace(partial, path)


def save(program: Any, path: Path, keep_weights: bool = True) -> None:
    """Writes the `.pt2`, with or without the bytes of its weights."""
    import torch

    with beside(path) as partial:
        torch.export.save(program, partial)
        if not keep_weights:
            drop_weights(partial, program.state_dict)


def drop_weights(path: Path, state: dict[str, Any]) -> None:
    """Writes the archive anew without the members that hold weights.

    `model_weights_config.json`, which names them, stays: a reader sees from it
    what to ask for elsewhere, and which weights are tied. torch takes all weights
    without memory for one tied weight, so the ties are stated anew.
    """
    storages: dict[int, str] = {}
    for tensor in state.values():
        storages.setdefault(tensor.untyped_storage()._cdata, f"weight_{len(storages)}")
    stripped = path.with_suffix(".stripped")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(stripped, "w") as new:
        (config,) = (n for n in old.namelist() if n.endswith("/model_weights_config.json"))
        folder = config.removesuffix("model_weights_config.json")
        content = json.loads(old.read(config))
        payload = {folder + row["path_name"] for row in content["config"].values()}
        for name, row in content["config"].items():
            row["path_name"] = storages[state[name].untyped_storage()._cdata]
        for member in old.infolist():
            if member.filename == config:
                new.writestr(member, json.dumps(content))
            elif member.filename not in payload:
                new.writestr(member, old.read(member), zipfile.ZIP_STORED)
    os.replace(stripped, path)


def save_weights(state: dict[str, Any], path: Path) -> None:
    """Writes parameters and buffers; of tied ones the first, the others as aliases of it.

    The aliases are in the file's metadata, as safetensors' own `save_model` has them.
    """
    kept: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    seen: dict[tuple, str] = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        first = seen.setdefault(place, name) if tensor.numel() else name
        if first == name:
            kept[name] = tensor
        else:
            aliases[name] = first
    save_tensors(kept, path, aliases)


def save_tensors(
    tensors: dict[str, Any], path: Path, metadata: dict[str, str] | None = None
) -> None:
    """Writes tensors by name as safetensors."""
    from safetensors.torch import save_file

    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    with beside(path) as partial:
        save_file(plain, partial, metadata or None)


def inputs_by_name(program: Any, sample: Sample) -> dict[str, Any]:
    """The sample's tensors by the names the graph has for them."""
    import torch

    flat, _ = program._get_flat_args_with_check(sample.args, sample.kwargs)
    specs = [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    pairs = zip(specs, flat, strict=True)
    return {spec.arg.name: value for spec, value in pairs if isinstance(value, torch.Tensor)}
