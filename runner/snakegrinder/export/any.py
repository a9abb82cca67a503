"""Exports what a function of yours gives.

SOURCE is `module:callable` or `path/to/file.py:callable`. The callable takes no
arguments and returns the model and its sample arguments, optionally followed by
keyword arguments and by the dynamic shapes, as torch.export.export takes them:

    def make():
        model = torch.nn.Linear(8, 4)
        return model, (torch.randn(2, 8),)
        # or: return model, args, kwargs, {"input": {0: Dim("batch")}}

    python any.py my_model.py:make my_model.pt2 --inputs my_model.inputs.safetensors
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import Sample, fail, parser, run


def find(source: str) -> Callable[[], Any]:
    """The callable that `source` names."""
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        fail(f"{source!r} is not of the form module:callable or file.py:callable")
    # The caller's own modules, before ours.
    sys.path.insert(0, str(Path.cwd()))
    module = load_file(Path(place)) if place.endswith(".py") else load_module(place)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            fail(f"{place} has no {name}")
    if not callable(found):
        fail(f"{source} is a {type(found).__name__}, and should be a function")
    return found


def load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0] and error.name != name:
            raise
        fail(f"there is no module {name} (looked in the current folder and in {sys.prefix})")


def load_file(path: Path) -> Any:
    if not path.is_file():
        fail(f"there is no file {path}")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    # Before it runs, so that classes in it can be found by their module's name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def sample(made: Any, source: str) -> Sample:
    """What the callable returned, checked."""
    import torch

    if not isinstance(made, tuple) or not 2 <= len(made) <= 4:
        fail(f"{source} should return (model, args[, kwargs[, dynamic_shapes]])")
    model, args, kwargs, dynamic = (*made, None, None)[:4]
    if not isinstance(model, torch.nn.Module):
        fail(f"{source} returned a {type(model).__name__} first, which is no torch.nn.Module")
    if not isinstance(args, (tuple, list)):
        fail(f"{source} returned a {type(args).__name__} second; a tuple of arguments is wanted")
    return Sample(model, tuple(args), dict(kwargs or {}), dynamic)


def options() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("source", metavar="SOURCE", help="module:callable or file.py:callable")
    # As in the usage line: what to export comes before where to.
    made._actions.sort(key=lambda action: action.dest == "output")
    return made.parse_args()


if __name__ == "__main__":
    given = options()
    run(given, lambda: sample(find(given.source)(), given.source))
