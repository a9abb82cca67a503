"""What transformers and the published code make of the sets in a folder; tests/squad.rs asks.

    python squad.py FOLDER

FOLDER/cases.json lists {name, data, vocab, max_length, doc_stride, max_question}; for each,
FOLDER/NAME.python.json is written with the features by run_qa.py's rules, the answers that
logits by a rule both sides know lead to, and the marks of evaluate-v1.1.py.
"""

from __future__ import annotations

import collections
import json
import re
import string
import sys
from pathlib import Path
from typing import Any

import numpy as np
import transformers


def features(tokenizer: Any, qas: list[dict[str, Any]], case: dict[str, Any]) -> list[dict]:
    made = []
    for number, qa in enumerate(qas):
        question = qa["question"].lstrip()
        asked = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
        if len(asked["input_ids"]) > case["max_question"]:
            question = question[: asked["offset_mapping"][case["max_question"] - 1][1]]
        used = min(len(asked["input_ids"]), case["max_question"])
        # BERT's stride is the way from one window to the next, the library's what they share.
        room = case["max_length"] - used - 3
        windows = tokenizer(
            question, qa["context"], truncation="only_second", max_length=case["max_length"],
            stride=max(room - case["doc_stride"], 0), return_overflowing_tokens=True,
            return_offsets_mapping=True, padding="max_length",
        )  # fmt: skip
        for at in range(len(windows["input_ids"])):
            made.append(window(windows, at, number, qa))
    return made


def window(windows: Any, at: int, number: int, qa: dict[str, Any]) -> dict[str, Any]:
    """As prepare_train_features of run_qa.py, with its names."""
    sequence_ids = windows.sequence_ids(at)
    offsets = windows["offset_mapping"][at]
    answers = qa["answers"]
    start_char = answers[0]["answer_start"]
    end_char = start_char + len(answers[0]["text"])
    start_position = end_position = 0
    if 1 in sequence_ids:
        token_start_index = sequence_ids.index(1)
        token_end_index = len(sequence_ids) - 1 - sequence_ids[::-1].index(1)
        inside = offsets[token_start_index][0] <= start_char
        if inside and offsets[token_end_index][1] >= end_char:
            last = token_end_index
            while token_start_index <= last and offsets[token_start_index][0] <= start_char:
                token_start_index += 1
            start_position = token_start_index - 1
            while token_end_index >= 0 and offsets[token_end_index][1] >= end_char:
                if sequence_ids[token_end_index] != 1:
                    break
                token_end_index -= 1
            end_position = token_end_index + 1
    return {
        "question": number,
        "input_ids": windows["input_ids"][at],
        "attention_mask": windows["attention_mask"][at],
        "token_type_ids": windows["token_type_ids"][at],
        "start": start_position,
        "end": end_position,
        "offsets": [
            list(offset) if part == 1 else None
            for offset, part in zip(offsets, sequence_ids, strict=True)
        ],
    }


def logits(rows: int, length: int, salt: int) -> np.ndarray:
    """Numbers without equals in a row; tests/squad.rs has the same rule."""
    at = np.arange(rows * length, dtype=np.uint64) + np.uint64(salt)
    mixed = (at * np.uint64(2654435761)) % np.uint64(1000003)
    return (mixed.astype(np.float32) / np.float32(1000.0)).reshape(rows, length)


def predictions(qas: list[dict[str, Any]], made: list[dict], length: int) -> dict[str, str]:
    """As postprocess_qa_predictions of utils_qa.py: n-best 20, at most 30 tokens."""
    start, end = logits(len(made), length, 1), logits(len(made), length, 7919)
    by_question = collections.defaultdict(list)
    for at, feature in enumerate(made):
        by_question[feature["question"]].append(at)
    found = {}
    for number, qa in enumerate(qas):
        prelim = []
        for at in by_question[number]:
            offsets = made[at]["offsets"]
            for first in np.argsort(start[at], kind="stable")[-1:-21:-1].tolist():
                for last in np.argsort(end[at], kind="stable")[-1:-21:-1].tolist():
                    if offsets[first] is None or offsets[last] is None:
                        continue
                    if last < first or last - first + 1 > 30:
                        continue
                    span = (offsets[first][0], offsets[last][1])
                    prelim.append((start[at][first] + end[at][last], span))
        best = sorted(prelim, key=lambda x: x[0], reverse=True)[:20]
        found[qa["id"]] = qa["context"][slice(*best[0][1])] if best else ""
    return found


def normalize_answer(s: str) -> str:
    s = "".join(ch for ch in s.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", s).split())


def f1_score(prediction: str, truth: str) -> float:
    ours, theirs = normalize_answer(prediction).split(), normalize_answer(truth).split()
    same = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(ours), 1.0 * same / len(theirs)
    return (2 * precision * recall) / (precision + recall)


def marks(qas: list[dict[str, Any]], given: dict[str, str]) -> dict[str, float]:
    f1 = exact = 0.0
    for qa in qas:
        truths, text = [a["text"] for a in qa["answers"]], given[qa["id"]]
        f1 += max(f1_score(text, truth) for truth in truths)
        exact += max(normalize_answer(text) == normalize_answer(truth) for truth in truths)
    return {"f1": 100.0 * f1 / len(qas), "exact_match": 100.0 * exact / len(qas)}


def main() -> None:
    transformers.logging.set_verbosity_error()
    folder = Path(sys.argv[1])
    for case in json.loads((folder / "cases.json").read_text("utf-8")):
        tokenizer = transformers.BertTokenizerFast(str(folder / case["vocab"]), do_lower_case=True)
        data = json.loads((folder / case["data"]).read_text("utf-8"))["data"]
        qas = [
            {"context": paragraph["context"], **qa}
            for article in data
            for paragraph in article["paragraphs"]
            for qa in paragraph["qas"]
        ]
        made = features(tokenizer, qas, case)
        texts = predictions(qas, made, case["max_length"])
        said = {"features": made, "predictions": texts, "marks": marks(qas, texts)}
        (folder / f"{case['name']}.python.json").write_text(json.dumps(said), "utf-8")
    # Texts by themselves, for the marks' normalisation.
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    said = [
        {"normal": normalize_answer(a), "f1": f1_score(a, b)}
        for a, b in zip(texts, texts[1:] + texts[:1], strict=True)
    ]
    (folder / "texts.python.json").write_text(json.dumps(said), "utf-8")


if __name__ == "__main__":
    main()
