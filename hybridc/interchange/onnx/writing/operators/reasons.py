"""What ONNX cannot say, and why: the host does it, or only training and several machines need it."""

from __future__ import annotations

from hybridc.dialects.control.collectives import AllReduce, Await, StartAllGather, StartAllReduce, StartReduceScatter
from hybridc.dialects.nn.ctc import CTCLoss, CTCOccupancy, CTCPaths
from hybridc.dialects.nn.hawkes import HawkesLikelihood, HawkesLL, HawkesSlopes
from hybridc.dialects.quantized.quantize import CalibrateEntropy
from hybridc.dialects.stateful import StatefulBackward
from hybridc.dialects.vision.box_nms import BipartiteMatching
from hybridc.dialects.vision.image_random import (
    ImageRandomBrightness,
    ImageRandomColorJitter,
    ImageRandomContrast,
    ImageRandomHue,
    ImageRandomLighting,
    ImageRandomSaturation,
)
from hybridc.dialects.vision.image_random_crop import ImageRandomCrop, ImageRandomResizedCrop
from hybridc.dialects.vision.image_resize import ImageResize, ResizeOnHost
from hybridc.dialects.vision.multibox import MultiBoxTarget
from hybridc.dialects.vision.proposal import MultiProposal, Proposal
from hybridc.dialects.vision.roi import AdaptiveRoiAlign, AdaptiveRoiAlignScatter
from hybridc.dialects.vision.roi_variants import PsRoiPooling, PsRoiPoolingScatter, RotatedRoiAlign
from hybridc.interchange.onnx.writing.translate import REASONS

_PREDICTS = "models of ONNX only predict, and this is a part of training"

REASONS.update(
    {
        **dict.fromkeys(
            (AllReduce, Await, StartAllGather, StartAllReduce, StartReduceScatter),
            "it exchanges arrays with other processes",
        ),
        **dict.fromkeys((CTCLoss, CTCOccupancy, CTCPaths, HawkesLL, HawkesLikelihood, HawkesSlopes, CalibrateEntropy), _PREDICTS),
        **dict.fromkeys((MultiBoxTarget, BipartiteMatching, StatefulBackward), _PREDICTS),
        **dict.fromkeys((AdaptiveRoiAlignScatter, PsRoiPoolingScatter), _PREDICTS),
        **dict.fromkeys(
            (
                ImageRandomBrightness, ImageRandomColorJitter, ImageRandomContrast, ImageRandomHue,
                ImageRandomLighting, ImageRandomSaturation, ImageRandomCrop, ImageRandomResizedCrop,
            ),
            "it changes images at random for training; leave it out of the network",
        ),
        **dict.fromkeys((ImageResize, ResizeOnHost), "its rounding is that of an image library; resize images before, or by BilinearResize2D"),
        **dict.fromkeys((MultiProposal, Proposal), "its order of proposals has no operator"),
        **dict.fromkeys((PsRoiPooling, RotatedRoiAlign), "its regions have no operator"),
        AdaptiveRoiAlign: "ONNX's RoiAlign has no position-sensitive channels, and none before opset 16",
    }
)  # fmt: skip
