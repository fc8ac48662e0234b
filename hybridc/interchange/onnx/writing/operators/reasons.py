"""What ONNX cannot say, and why: the host does it, or only training and several machines need it."""

from __future__ import annotations

from hybridc.dialects.control.collectives import AllReduce, Await, StartAllGather, StartAllReduce, StartReduceScatter
from hybridc.dialects.nn.ctc import CTCLoss, CTCOccupancy, CTCPaths
from hybridc.dialects.nn.hawkes import HawkesLikelihood, HawkesLL, HawkesSlopes
from hybridc.dialects.operator import Operator
from hybridc.dialects.quantized.quantize import CalibrateEntropy
from hybridc.dialects.sparse.graph_ops import (
    Adjacency,
    EdgeId,
    GraphCompact,
    InducedSubgraph,
    NonUniformNeighbors,
    UniformNeighbors,
)
from hybridc.dialects.sparse.sparse_ops import GetNnz, SparseRetain
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
from hybridc.dialects.vision.roi_variants import PsRoiPoolingScatter, RotatedRoiAlign
from hybridc.interchange.onnx.writing.translate import REASONS

_TRAINING = (
    *(CTCLoss, CTCOccupancy, CTCPaths, HawkesLL, HawkesLikelihood, HawkesSlopes, CalibrateEntropy),
    *(MultiBoxTarget, BipartiteMatching, StatefulBackward, AdaptiveRoiAlignScatter, PsRoiPoolingScatter),
)
_AUGMENTATION = (
    *(ImageRandomBrightness, ImageRandomColorJitter, ImageRandomContrast, ImageRandomHue, ImageRandomLighting),
    *(ImageRandomSaturation, ImageRandomCrop, ImageRandomResizedCrop),
)
_GRAPHS = EdgeId, Adjacency, InducedSubgraph, UniformNeighbors, NonUniformNeighbors, GraphCompact
_BY_REASON: dict[str, tuple[type[Operator], ...]] = {
    "it exchanges arrays with other processes": (AllReduce, Await, StartAllGather, StartAllReduce, StartReduceScatter),
    "models of ONNX only predict, and this is a part of training": _TRAINING,
    "it changes images at random for training; leave it out of the network": _AUGMENTATION,
    "its rounding is that of an image library; use BilinearResize2D, or resize before": (ImageResize, ResizeOnHost),
    "it is for sparse arrays, which ONNX's models do not take": (SparseRetain, GetNnz, *_GRAPHS),
    "its order of proposals has no operator": (MultiProposal, Proposal),
    "its regions have no operator": (RotatedRoiAlign,),
    "ONNX has RoiAlign since opset 16; give a newer opset": (AdaptiveRoiAlign,),
}
REASONS.update({cls: reason for reason, classes in _BY_REASON.items() for cls in classes})
