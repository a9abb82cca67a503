"""Exports torchvision's ResNet-50 with a feature pyramid, the backbone of Faster R-CNN.

The graph takes a batch of images and gives five feature maps, the finest first.

    python resnet50_fpn.py fpn.pt2
    python resnet50_fpn.py fpn-800.pt2 --size full --image 800 --no-weights
"""

from __future__ import annotations

import argparse
from typing import Any

from _common import Sample, parser, run

# By how much the stages are narrower than the real ones, channels of the pyramid, image
SIZES = {"tiny": (16, 32, 64), "full": (1, 256, 224)}


def make(size: str = "tiny", batch: int = 1, image: int | None = None) -> Sample:
    """The backbone with random weights, and random images."""
    import torch
    from torchvision.models.detection.backbone_utils import BackboneWithFPN

    narrow, channels, pixels = SIZES[size]
    pixels = image or pixels
    body = resnet50(narrow)
    stages = {f"layer{n}": str(n - 1) for n in range(1, 5)}
    widths = [256 // narrow * 2**n for n in range(4)]
    model = BackboneWithFPN(body, stages, widths, channels)
    return Sample(Levels(model), (torch.randn(batch, 3, pixels, pixels),))


def resnet50(narrow: int = 1, classes: int = 1000) -> Any:
    """A ResNet-50 whose stages have a `narrow`-th of the real channels."""
    from torch import nn
    from torchvision.models.resnet import Bottleneck, ResNet

    class Narrow(ResNet):
        def _make_layer(self, block: Any, planes: int, *rest: Any, **more: Any) -> Any:
            return super()._make_layer(block, planes // narrow, *rest, **more)

    model = Narrow(Bottleneck, [3, 4, 6, 3], num_classes=classes)
    model.fc = nn.Linear(model.inplanes, classes)
    unsettle(model)
    return model


def unsettle(model: Any) -> None:
    """Gives running statistics values that count: a fresh model has mean 0, variance 1."""
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)


def Levels(model: Any) -> Any:
    """The pyramid's levels as a tuple in their order, not by name."""
    from torch import nn

    class Pyramid(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = model

        def forward(self, images: Any) -> tuple:
            return tuple(self.backbone(images).values())

    return Pyramid()


def options() -> argparse.Namespace:
    made = parser(__doc__, SIZES)
    made.add_argument("--batch", type=int, default=1, help="images of the sample (default: 1)")
    made.add_argument("--image", type=int, metavar="PIXELS", help="height and width (64 or 224)")
    return made.parse_args()


if __name__ == "__main__":
    given = options()
    run(given, lambda: make(given.size, given.batch, given.image))
