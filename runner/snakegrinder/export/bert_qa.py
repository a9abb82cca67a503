"""Exports HF BERT with the head for question answering (SQuAD).

The graph takes input_ids, attention_mask, token_type_ids, start_positions and
end_positions, and gives the loss, the start logits and the end logits.

    python bert_qa.py bert.pt2
    python bert_qa.py bert-large.pt2 --size large --train --no-weights
"""

from __future__ import annotations

import argparse
from typing import Any

from _common import Sample, parser, run

# hidden, layers, heads, intermediate, vocabulary, positions
SIZES = {
    "tiny": (64, 2, 4, 128, 512, 64),
    "base": (768, 12, 12, 3072, 30522, 512),
    "large": (1024, 24, 16, 4096, 30522, 512),
}


def make(size: str = "tiny", batch: int = 2, sequence: int = 16, dropout: float = 0.1) -> Sample:
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
    return Sample(BertForQuestionAnswering(config), kwargs=questions(vocabulary, batch, sequence))


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
    return made.parse_args()


if __name__ == "__main__":
    given = options()
    run(given, lambda: make(given.size, given.batch, given.sequence, given.dropout))
