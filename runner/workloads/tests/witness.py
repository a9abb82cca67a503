"""An independent witness of bert-squad: trains the model with plain transformers and torch.

Tokenisation, features, optimiser, evaluation and marks are this file's own or those of the
libraries it imports. Of ours it is handed plain data alone: the texts, the vocabulary, the
weights to start from, the order of the samples, and the numbers that key dropout's masks.

    python witness.py --data DIR --weights init.safetensors --order order.safetensors \
        --recipe recipe.json --ordinals 8,48,53,59,71,76,82 --steps 10 --out out.json

DIR holds train.json, dev.json and vocab.txt. `order` is a row of sample numbers, as many for
each step as a batch has. out.json says {"losses": [...], "f1": ..., "exact_match": ...}.
"""

from __future__ import annotations

import argparse
import json
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file


def options() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--data", type=Path, required=True)
    add("--weights", type=Path, required=True)
    add("--order", type=Path, required=True)
    add("--recipe", type=Path, required=True, help="optimizer, learning_rate, schedule, clip_norm")
    add("--ordinals", required=True, help="of the graph's dropouts, in the order they are run")
    add("--out", type=Path, required=True)
    add("--steps", type=int, required=True)
    add("--batch", type=int, default=32)
    add("--seed", type=int, default=0, help="that keys dropout's masks")
    add("--length", type=int, default=44, help="tokens in a row")
    add("--dropout", type=float, default=0.1)
    add("--heads", type=int, default=4)
    add("--threads", type=int, default=1)
    add("--eval-batch", type=int, default=100)
    add("--no-eval", action="store_true", help="losses alone")
    return made.parse_args()


# --- dropout by a counter-based generator: Philox 4x32-10 ---------------------------------------


def philox(seed: int, step: int, ordinal: int, count: int) -> np.ndarray:
    """`count` random words; element i is word i % 4 of block i // 4."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    state = [
        blocks & low,
        blocks >> np.uint64(32),
        np.full_like(blocks, ordinal),
        np.full_like(blocks, step),
    ]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        first = np.uint64(0xD2511F53) * state[0]
        second = np.uint64(0xCD9E8D57) * state[2]
        state = [
            (second >> np.uint64(32)) ^ state[1] ^ np.uint64(key[0]),
            second & low,
            (first >> np.uint64(32)) ^ state[3] ^ np.uint64(key[1]),
            first & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(state, axis=1).reshape(-1)[:count]


class SharedDropout:
    """Takes the place of torch's own random masks; the arithmetic around them is torch's."""

    def __init__(self, seed: int, ordinals: list[int]) -> None:
        self.seed, self.ordinals = seed, ordinals
        self.step, self.calls = 0, 0
        functional = torch.nn.functional
        self.attention = functional.scaled_dot_product_attention
        functional.dropout = self.dropout
        functional.scaled_dot_product_attention = self.attend

    def start(self, step: int) -> None:
        self.step, self.calls = step, 0

    def mask(self, shape: tuple[int, ...], p: float) -> torch.Tensor:
        words = philox(self.seed, self.step, self.ordinals[self.calls], int(np.prod(shape)))
        self.calls += 1
        kept = (words >> np.uint64(8)) * (1.0 / (1 << 24)) >= p
        return torch.from_numpy(kept.reshape(shape))

    def dropout(
        self, x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> torch.Tensor:
        if not training or p == 0.0:
            return x
        return x * self.mask(tuple(x.shape), p).to(x.dtype).div(1.0 - p)

    def attend(
        self, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> torch.Tensor:  # fmt: skip
        if dropout_p == 0.0:
            return self.attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                enable_gqa=enable_gqa,
            )  # fmt: skip
        mask = self.mask((*query.shape[:-1], key.shape[-2]), dropout_p)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = attn_mask.to(query.dtype).log()
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, mask, scale=scale,
            enable_gqa=enable_gqa,
        )[0]  # fmt: skip


# --- data ---------------------------------------------------------------------------------------


def questions(path: Path) -> list[dict[str, Any]]:
    data = json.loads(path.read_text("utf-8"))["data"]
    return [
        {"context": paragraph["context"], **question}
        for article in data
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def windows(tokenizer: Any, asked: list[dict[str, Any]], length: int) -> list[dict[str, Any]]:
    """One window to a question: the set is made so that every passage fits."""
    made = []
    for question in asked:
        coded = tokenizer(
            question["question"], question["context"], max_length=length, padding="max_length",
            return_offsets_mapping=True,
        )  # fmt: skip
        assert len(coded["input_ids"]) == length, question["id"]
        places = [i for i, part in enumerate(coded.sequence_ids()) if part == 1]
        offsets = coded["offset_mapping"]
        answer = question["answers"][0]
        first = answer["answer_start"]
        last = first + len(answer["text"]) - 1
        made.append(
            {
                "question": question,
                "places": places,
                "offsets": offsets,
                "start": next(i for i in places if offsets[i][0] <= first < offsets[i][1]),
                "end": next(i for i in places if offsets[i][0] <= last < offsets[i][1]),
                **{name: coded[name] for name in TENSORS},
            }
        )
    return made


TENSORS = ("input_ids", "attention_mask", "token_type_ids")


def tensors(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor([row[name] for row in rows]) for name in TENSORS}


# --- marks, as in the published evaluate-v1.1.py --------------------------------------------------


def normalize_answer(text: str) -> str:
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1_score(prediction: str, truth: str) -> float:
    ours, theirs = normalize_answer(prediction).split(), normalize_answer(truth).split()
    same = sum((Counter(ours) & Counter(theirs)).values())
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(ours), 1.0 * same / len(theirs)
    return (2 * precision * recall) / (precision + recall)


def answer(row: dict[str, Any], start: np.ndarray, end: np.ndarray) -> str:
    """The best of the twenty best first and last tokens."""

    def best(logits: np.ndarray) -> list[int]:
        return np.argsort(logits, kind="stable")[-1:-21:-1].tolist()

    inside = set(row["places"])
    spans = [
        (start[i] + end[j], row["offsets"][i][0], row["offsets"][j][1])
        for i in best(start)
        for j in best(end)
        if i in inside and j in inside and i <= j < i + 30
    ]
    if not spans:
        return ""
    _, first, last = max(spans, key=lambda span: span[0])
    return row["question"]["context"][first:last]


# --- training -----------------------------------------------------------------------------------


def build(weights: dict[str, torch.Tensor], given: argparse.Namespace) -> Any:
    """A BERT of the weights' sizes."""
    words = weights["bert.embeddings.word_embeddings.weight"]
    inner = weights["bert.encoder.layer.0.intermediate.dense.weight"]
    layers = {name.split(".")[3] for name in weights if name.startswith("bert.encoder.layer.")}
    config = transformers.BertConfig(
        vocab_size=words.shape[0],
        hidden_size=words.shape[1],
        num_hidden_layers=len(layers),
        num_attention_heads=given.heads,
        intermediate_size=inner.shape[0],
        max_position_embeddings=weights["bert.embeddings.position_embeddings.weight"].shape[0],
        hidden_dropout_prob=given.dropout,
        attention_probs_dropout_prob=given.dropout,
    )
    model = transformers.BertForQuestionAnswering._from_config(config, attn_implementation="sdpa")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    # Tables of positions, which are no weights.
    assert all(name.endswith("_ids") for name in missing), missing
    return model


def optimizer(model: Any, recipe: dict[str, Any]) -> torch.optim.AdamW:
    """HF's rule: biases and the weights of norms do not decay."""
    kind = recipe["optimizer"]
    assert kind["kind"] == "adamw", kind
    named = list(model.named_parameters())
    still = [p for name, p in named if name.endswith("bias") or "LayerNorm" in name]
    decaying = [p for name, p in named if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [
        {"params": decaying, "weight_decay": kind.get("weight_decay", 0.0)},
        {"params": still, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=recipe["learning_rate"],
        betas=tuple(kind.get("betas", (0.9, 0.999))),
        eps=kind.get("eps", 1e-8),
        foreach=True,
    )


def train(model: Any, rows: list[dict[str, Any]], given: argparse.Namespace) -> list[float]:
    recipe = json.loads(given.recipe.read_text())
    steps = optimizer(model, recipe)
    schedule = recipe.get("schedule", {"kind": "constant"})
    if schedule["kind"] == "linear":
        rate = transformers.get_linear_schedule_with_warmup(
            steps, schedule["warmup"], schedule["total"]
        )
    else:
        assert schedule["kind"] == "constant", schedule
        rate = transformers.get_constant_schedule(steps)
    order = load_file(given.order)["order"].flatten().tolist()
    masks = SharedDropout(given.seed, [int(at) for at in given.ordinals.split(",")])
    losses = []
    model.train()
    for step in range(given.steps):
        chosen = [rows[at] for at in order[step * given.batch : (step + 1) * given.batch]]
        assert len(chosen) == given.batch, "the order is too short"
        masks.start(step)
        loss = model(
            **tensors(chosen),
            start_positions=torch.tensor([row["start"] for row in chosen]),
            end_positions=torch.tensor([row["end"] for row in chosen]),
        ).loss
        assert masks.calls == len(masks.ordinals), masks.calls
        steps.zero_grad()
        loss.backward()
        if recipe.get("clip_norm"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe["clip_norm"])
        steps.step()
        rate.step()
        losses.append(loss.item())
    return losses


def evaluate(model: Any, rows: list[dict[str, Any]], size: int) -> dict[str, float]:
    model.eval()
    f1 = exact = 0.0
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        with torch.no_grad():
            given = model(**tensors(part))
        logits = zip(part, given.start_logits.numpy(), given.end_logits.numpy(), strict=True)
        for row, start, end in logits:
            text = answer(row, start, end)
            truths = [truth["text"] for truth in row["question"]["answers"]]
            f1 += max(f1_score(text, truth) for truth in truths)
            exact += max(normalize_answer(text) == normalize_answer(truth) for truth in truths)
    return {"f1": 100.0 * f1 / len(rows), "exact_match": 100.0 * exact / len(rows)}


def main() -> None:
    given = options()
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.BertTokenizerFast(str(given.data / "vocab.txt"), do_lower_case=True)
    model = build(load_file(given.weights), given)
    rows = windows(tokenizer, questions(given.data / "train.json"), given.length)
    said: dict[str, Any] = {"losses": train(model, rows, given)}
    if not given.no_eval:
        rows = windows(tokenizer, questions(given.data / "dev.json"), given.length)
        said |= evaluate(model, rows, given.eval_batch)
    given.out.write_text(json.dumps(said))


if __name__ == "__main__":
    main()
