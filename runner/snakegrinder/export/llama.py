"""Exports HF Llama with grouped-query attention and the head for language modelling.

The graph takes input_ids, attention_mask and labels, and gives the loss and the logits.

    python llama.py llama.pt2
    python llama.py llama-8b.pt2 --size 8b --dtype bf16 --sequence 512 --no-weights
"""

from __future__ import annotations

import argparse

from _common import Sample, parser, run

# hidden, layers, heads, key-value heads, intermediate, vocabulary, rope theta, tied embeddings
SIZES = {
    "tiny": (64, 2, 4, 2, 128, 512, 10000.0, False),
    "1b": (2048, 16, 32, 8, 8192, 128256, 500000.0, True),
    "7b": (4096, 32, 32, 32, 11008, 32000, 10000.0, False),
    "8b": (4096, 32, 32, 8, 14336, 128256, 500000.0, False),
}


def make(size: str = "tiny", batch: int = 2, sequence: int = 16) -> Sample:
    """A Llama with random weights, and random text whose last row is padded at its end."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    hidden, layers, heads, kv_heads, intermediate, vocabulary, theta, tied = SIZES[size]
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        max_position_embeddings=max(2048, sequence),
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        # A cache is state outside the graph, and no plain tensor.
        use_cache=False,
    )
    ids = torch.randint(3, vocabulary, (batch, sequence))
    mask = torch.ones_like(ids)
    mask[-1, sequence - sequence // 4 :] = 0
    # -100 is what the loss passes over.
    kwargs = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
    return Sample(LlamaForCausalLM(config), kwargs=kwargs)


def options() -> argparse.Namespace:
    made = parser(__doc__, SIZES)
    made.add_argument("--batch", type=int, default=2, help="rows of the sample (default: 2)")
    made.add_argument("--sequence", type=int, default=16, help="tokens in a row (default: 16)")
    return made.parse_args()


if __name__ == "__main__":
    given = options()
    run(given, lambda: make(given.size, given.batch, given.sequence))
