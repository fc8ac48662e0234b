"""The families of operators: importing this module registers them. Operators that call users' code are elsewhere.

The modules that are named at the end are imported when a name is first not found, in this order: what more programs use
comes first.
"""

from __future__ import annotations

from hybridc.dialects import operator_registry
from hybridc.dialects import stateful as stateful
from hybridc.dialects.array import cast as cast
from hybridc.dialects.array import creation_ops as creation_ops
from hybridc.dialects.array import gather as gather
from hybridc.dialects.array import gather_nd as gather_nd
from hybridc.dialects.array import joining as joining
from hybridc.dialects.array import layout as layout
from hybridc.dialects.array import padding as padding
from hybridc.dialects.array import shape as shape
from hybridc.dialects.array import slicing as slicing
from hybridc.dialects.array import sorting as sorting
from hybridc.dialects.control import branch as branch
from hybridc.dialects.control import layer as layer
from hybridc.dialects.control import loop as loop
from hybridc.dialects.math import contraction as contraction
from hybridc.dialects.math import elementwise as elementwise
from hybridc.dialects.math import reduction as reduction
from hybridc.dialects.math import statistics as statistics
from hybridc.dialects.math import trigonometry as trigonometry
from hybridc.dialects.math import unary as unary
from hybridc.dialects.nn import activation as activation
from hybridc.dialects.nn import softmax as softmax

operator_registry.LATE_MODULES += [
    "hybridc.dialects.nn.normalization",
    "hybridc.dialects.nn.dropout",
    "hybridc.dialects.math.random_ops",
    "hybridc.dialects.nn.batch_norm",
    "hybridc.dialects.nn.convolution",
    "hybridc.dialects.nn.pooling",
    "hybridc.dialects.math.affine_contraction",
    "hybridc.dialects.array.sequence",
    "hybridc.dialects.array.indices",
    "hybridc.dialects.array.windows",
    "hybridc.dialects.nn.loss_ops",
    "hybridc.dialects.control.rnn",
    "hybridc.dialects.control.collectives",
    "hybridc.dialects.math.linear_maps",
    "hybridc.dialects.elements.numpy_binary",
    "hybridc.dialects.elements.bits",
    "hybridc.dialects.updates.descent_updates",
    "hybridc.dialects.updates.adaptive_updates",
    "hybridc.dialects.updates.adamw_updates",
    "hybridc.dialects.updates.layerwise_updates",
    "hybridc.dialects.linalg.linalg_ops",
    "hybridc.dialects.sparse.sparse_ops",
    "hybridc.dialects.sparse.graph_ops",
    "hybridc.dialects.linalg.linalg_triangles",
    "hybridc.dialects.linalg.linalg_factors",
    "hybridc.dialects.linalg.linalg_spectra",
    "hybridc.dialects.linalg.linalg_equations",
    "hybridc.dialects.math.random_choice",
    "hybridc.dialects.math.random_densities",
    "hybridc.dialects.nn.contrib_ops",
    "hybridc.dialects.nn.interleaved",
    "hybridc.dialects.nn.image_sizes",
    "hybridc.dialects.nn.columns",
    "hybridc.dialects.nn.ctc",
    "hybridc.dialects.nn.hawkes",
    "hybridc.dialects.vision.boxes",
    "hybridc.dialects.vision.box_nms",
    "hybridc.dialects.vision.image_ops",
    "hybridc.dialects.vision.image_resize",
    "hybridc.dialects.vision.image_random",
    "hybridc.dialects.vision.image_random_crop",
    "hybridc.dialects.vision.bilinear",
    "hybridc.dialects.vision.multibox",
    "hybridc.dialects.vision.proposal",
    "hybridc.dialects.vision.roi",
    "hybridc.dialects.vision.roi_variants",
    "hybridc.dialects.vision.deformable",
    "hybridc.dialects.vision.correlation",
    "hybridc.dialects.quantized.quantize",
    "hybridc.dialects.quantized.layers",
]
