"""A small model that the tests of training share."""

import torch
from torch import nn
from torch.nn import functional as F


class Plain(nn.Module):
    """Layers that narrow formats can have."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 12)
        self.mix, self.head = nn.Linear(12, 24), nn.Linear(24, 17)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(torch.tanh(self.mix(self.embedding(ids))))
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
