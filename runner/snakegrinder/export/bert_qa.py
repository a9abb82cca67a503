"""Exports HF BERT with the head for question answering (SQuAD).

The graph takes input_ids, attention_mask, token_type_ids, start_positions and
end_positions, and gives the loss, the start logits and the end logits; with
--no-loss the positions and the loss are left out.

    python bert_qa.py bert.pt2
    python bert_qa.py bert-large.pt2 --size large --train --no-weights

The pair of graphs that the workload bert-squad trains and evaluates, here its preset
`full` (`base` and `demo` likewise; demo's are committed, see --workload):

    python bert_qa.py full/train.pt2 --size large --workload train
    python bert_qa.py full/eval.pt2 --size large --workload eval
"""

from __future__ import annotations

import argparse
from typing import Any

from _common import Sample, fail, parser, run

# hidden, layers, heads, intermediate, vocabulary, positions
SIZES = {
    "tiny": (64, 2, 4, 128, 512, 64),
    # As the generated data set of bert-squad wants it.
    "demo": (128, 2, 4, 128, 448, 64),
    "base": (768, 12, 12, 3072, 30522, 512),
    "large": (1024, 24, 16, 4096, 30522, 512),
}

# What bert-squad feeds: tokens in a row.
LENGTHS = {"tiny": 32, "demo": 44, "base": 384, "large": 384}


def make(
    size: str = "tiny",
    batch: int = 2,
    sequence: int = 16,
    dropout: float = 0.1,
    loss: bool = True,
    any_batch: bool = False,
) -> Sample:
    """A BERT with random weights, and a batch of random questions."""
    from transformers import BertConfig, BertForQuestionAnswering

    hidden, layers, heads, intermediate, vocabulary, positions = SIZES[size]
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=intermediate,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    kwargs = questions(vocabulary, batch, sequence)
    if not loss:
        kwargs = {name: kwargs[name] for name in kwargs if not name.endswith("_positions")}
    shapes = None
    if any_batch:
        from torch.export import Dim

        rows = Dim("batch", min=2, max=1024)
        shapes = {name: {0: rows} for name in kwargs}
    return Sample(BertForQuestionAnswering(config), kwargs=kwargs, dynamic_shapes=shapes)


def questions(vocabulary: int, batch: int, sequence: int) -> dict[str, Any]:
    """Random tokens; every row but the first is padded a little more than the one before."""
    import torch

    ids = torch.randint(4, vocabulary, (batch, sequence))
    lengths = torch.tensor([max(sequence - row, sequence // 2) for row in range(batch)])
    at = torch.arange(sequence)
    mask = (at < lengths[:, None]).long()
    segments = (at >= sequence // 3).long().expand(batch, sequence).clone() * mask
    start = torch.randint(0, sequence // 4, (batch,))
    return {
        "input_ids": ids * mask,
        "attention_mask": mask,
        "token_type_ids": segments,
        "start_positions": start,
        "end_positions": start + torch.randint(0, sequence // 4, (batch,)),
    }


def options() -> argparse.Namespace:
    made = parser(__doc__, SIZES)
    made.add_argument("--batch", type=int, default=2, help="rows of the sample (default: 2)")
    made.add_argument("--sequence", type=int, default=16, help="tokens in a row (default: 16)")
    made.add_argument("--dropout", type=float, default=0.1, help="with --train (default: 0.1)")
    made.add_argument("--no-loss", action="store_true", help="logits alone, from no positions")
    made.add_argument("--any-batch", action="store_true", help="leave the number of rows open")
    made.add_argument(
        "--workload",
        choices=["train", "eval"],
        help="one of the two graphs that bert-squad wants: rows left open, its length, no weights",
    )
    given = made.parse_args()
    if given.workload:
        given.any_batch, given.no_weights = True, True
        given.batch, given.sequence = 4, LENGTHS[given.size]
        given.train, given.no_loss = given.workload == "train", given.workload == "eval"
    elif given.any_batch and given.batch < 2:
        fail("--any-batch wants a sample of two rows or more")
    return given


if __name__ == "__main__":
    given = options()
    make_it = lambda: make(  # noqa: E731
        given.size, given.batch, given.sequence, given.dropout, not given.no_loss, given.any_batch
    )
    run(given, make_it)
