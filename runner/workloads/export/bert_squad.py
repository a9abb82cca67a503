"""Makes the model folder of the workload bert-squad from a BERT of the Hugging Face hub.

    python bert_squad.py SNAPSHOT OUT
    python bert_squad.py $(warpforge data path bert-large-uncased) bert-large

SNAPSHOT is a folder with config.json, model.safetensors and vocab.txt or tokenizer.json, as the
hub's cache has it; nothing is fetched. OUT then holds

    train.pt2            the graph for training: dropout, and the loss as its first output
    eval.pt2             the graph for use: the logits of an answer's first and last token
    weights.safetensors  the weights of both, by the graphs' parameter names
    vocab.txt            or tokenizer.json, as the snapshot has it
    origin.json          where the weights are from, for the report

A pretrained BERT has no head for question answering; it is made from --seed, as
BertForQuestionAnswering.from_pretrained does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# The exporters of single models, whose ways of writing files are used here.
sys.path.insert(0, str(HERE.parents[1] / "snakegrinder" / "export"))

from _common import (  # noqa: E402
    Sample,
    beside,
    check_torch,
    export,
    fail,
    save,
    save_weights,
    shorten_paths,
)
from bert_qa import questions  # noqa: E402

WEIGHTS = "model.safetensors"
VOCABULARIES = ("tokenizer.json", "vocab.txt")


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("snapshot", type=Path, metavar="SNAPSHOT", help="the model's files")
    made.add_argument("out", type=Path, metavar="OUT", help="the folder to write")
    told = "tokens in a row, as the workload's max_length (default: 384)"
    made.add_argument("--length", type=int, default=384, help=told)
    made.add_argument("--seed", type=int, default=0, help="of the new head (default: 0)")
    return made.parse_args()


def check(snapshot: Path, length: int) -> None:
    """Says what is missing before anything is read that takes long."""
    for name in ("config.json", WEIGHTS):
        if not (snapshot / name).is_file():
            fail(f"{snapshot} has no {name}; run: warpforge data fetch bert-base-uncased")
    if not any((snapshot / name).is_file() for name in VOCABULARIES):
        fail(f"{snapshot} has neither {' nor '.join(VOCABULARIES)}")
    told = snapshot / "tokenizer_config.json"
    cased = told.is_file() and json.loads(told.read_text("utf-8")).get("do_lower_case") is False
    if cased and not (snapshot / "tokenizer.json").is_file():
        fail(f"{snapshot} has a cased vocab.txt, and those are read as uncased; add tokenizer.json")
    config = json.loads((snapshot / "config.json").read_text("utf-8"))
    if config.get("model_type") != "bert":
        fail(f"{snapshot} holds a model of type {config.get('model_type')}, and not bert")
    positions = config.get("max_position_embeddings", 512)
    if not 8 <= length <= positions:
        fail(f"--length is {length}; this model takes rows of 8 to {positions} tokens")


def load(snapshot: Path, seed: int) -> Any:
    """The pretrained model with a head of its own; anything else that is missing is an error."""
    import torch
    from transformers import BertForQuestionAnswering
    from transformers.utils import logging

    logging.set_verbosity_error()
    torch.manual_seed(seed)
    model, told = BertForQuestionAnswering.from_pretrained(
        snapshot, local_files_only=True, output_loading_info=True, dtype=torch.float32
    )
    strange = [name for name in told["missing_keys"] if not name.startswith("qa_outputs.")]
    if strange:
        fail(f"{snapshot / WEIGHTS} lacks {', '.join(sorted(strange))}")
    return model


def graph(model: Any, length: int, train: bool) -> Any:
    """One of the two graphs, the number of rows left open."""
    from torch.export import Dim

    inputs = questions(model.config.vocab_size, 4, length)
    if not train:
        inputs = {name: inputs[name] for name in inputs if not name.endswith("_positions")}
    rows = Dim("batch", min=2, max=1024)
    shapes = {name: {0: rows} for name in inputs}
    program = export(Sample(model.train(train), kwargs=inputs, dynamic_shapes=shapes))
    shorten_paths(program)
    return program


def origin(snapshot: Path) -> dict[str, str | None]:
    """The hub's name of the model and the commit, where the folder lies in the hub's cache."""
    place = snapshot.resolve()
    repository = revision = None
    cached = place.parent.parent.name
    if place.parent.name == "snapshots" and cached.startswith("models--"):
        repository, revision = cached.removeprefix("models--").replace("--", "/"), place.name
    digest = hashlib.sha256()
    with (snapshot / WEIGHTS).open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return {"repository": repository, "revision": revision, "sha256": digest.hexdigest()}


def main() -> None:
    given = options()
    check(given.snapshot, given.length)
    check_torch()
    model = load(given.snapshot, given.seed)
    for name, train in (("train.pt2", True), ("eval.pt2", False)):
        program = graph(model, given.length, train)
        save(program, given.out / name, keep_weights=False)
    # Both graphs have the same weights.
    save_weights(program.state_dict, given.out / "weights.safetensors")
    for name in VOCABULARIES:
        if (given.snapshot / name).is_file():
            with beside(given.out / name) as partial:
                shutil.copyfile(given.snapshot / name, partial)
            break
    with beside(given.out / "origin.json") as partial:
        partial.write_text(json.dumps(origin(given.snapshot)) + "\n")
    count = sum(parameter.numel() for parameter in model.parameters())
    print(f"{given.out}: {count} parameters, rows of {given.length} tokens")


if __name__ == "__main__":
    main()
