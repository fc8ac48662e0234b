# Written by python -m hybridc.stubs; do not edit.
# pyright: reportUnusedImport=false
import math
from typing import Any as Any
from hybridc.array.functions import function as function
from hybridc.context import Context as Context
from hybridc.nd import random as random
from hybridc.nd.control_flow import cond as cond
from hybridc.nd.control_flow import foreach as foreach
from hybridc.nd.control_flow import while_loop as while_loop
from hybridc.nd.namespace import lookup as lookup
from hybridc.nd.random import uniform as uniform
def rand_zipfian(true_classes: Any, num_sampled: int, range_max: int, ctx: Context | None=None) -> tuple[Any, ...]:
    """Classes drawn, with replacement, from a distribution that is about log-uniform, as that of words."""
    ...
from hybridc.array import operator_functions as _functions
AdaptiveAvgPooling2D = _functions.adaptive_avg_pooling2d
BatchNormWithReLU = _functions.batch_norm_with_relu
BilinearResize2D = _functions.bilinear_resize2d
CTCLoss = _functions.CTCLoss
DeformableConvolution = _functions.deformable_convolution
DeformablePSROIPooling = _functions.deformable_psroi_pooling
ModulatedDeformableConvolution = _functions.modulated_deformable_convolution
MultiBoxDetection = _functions.multi_box_detection
MultiBoxPrior = _functions.multi_box_prior
MultiBoxTarget = _functions.multi_box_target
MultiProposal = _functions.multi_proposal
PSROIPooling = _functions.psroi_pooling
Proposal = _functions.proposal
ROIAlign = _functions.roi_align
RROIAlign = _functions.rroi_align
SparseEmbedding = _functions.Embedding
SyncBatchNorm = _functions.sync_batch_norm
adamw_update = _functions.adamw_update
allclose = _functions.allclose
arange_like = _functions.arange_like
bipartite_matching = _functions.bipartite_matching
boolean_mask = _functions.boolean_mask
box_decode = _functions.box_decode
box_encode = _functions.box_encode
box_iou = _functions.box_iou
box_nms = _functions.box_nms
box_non_maximum_suppression = _functions.box_nms
calibrate_entropy = _functions.calibrate_entropy
count_sketch = _functions.count_sketch
ctc_loss = _functions.CTCLoss
dequantize = _functions.dequantize
dgl_adjacency = _functions.dgl_adjacency
dgl_csr_neighbor_non_uniform_sample = _functions.dgl_csr_neighbor_non_uniform_sample
dgl_csr_neighbor_uniform_sample = _functions.dgl_csr_neighbor_uniform_sample
dgl_graph_compact = _functions.dgl_graph_compact
dgl_subgraph = _functions.dgl_subgraph
div_sqrt_dim = _functions.div_sqrt_dim
edge_id = _functions.edge_id
fft = _functions.fft
getnnz = _functions.getnnz
gradientmultiplier = _functions.gradientmultiplier
group_adagrad_update = _functions.group_adagrad_update
hawkesll = _functions.hawkesll
ifft = _functions.ifft
index_array = _functions.index_array
index_copy = _functions.index_copy
interleaved_matmul_encdec_qk = _functions.interleaved_matmul_encdec_qk
interleaved_matmul_encdec_valatt = _functions.interleaved_matmul_encdec_valatt
interleaved_matmul_selfatt_qk = _functions.interleaved_matmul_selfatt_qk
interleaved_matmul_selfatt_valatt = _functions.interleaved_matmul_selfatt_valatt
isfinite = _functions.isfinite
isinf = _functions.isinf
isnan = _functions.isnan
mp_adamw_update = _functions.mp_adamw_update
multi_adamw_update = _functions.multi_adamw_update
multi_lamb_update = _functions.multi_lamb_update
multi_mp_adamw_update = _functions.multi_mp_adamw_update
multi_mp_lamb_update = _functions.multi_mp_lamb_update
quadratic = _functions.quadratic
quantize = _functions.quantize
quantize_asym = _functions.quantize_asym
quantize_v2 = _functions.quantize_v2
quantized_Concat = _functions.quantized_concat
quantized_act = _functions.quantized_act
quantized_batch_norm = _functions.quantized_batch_norm
quantized_concat = _functions.quantized_concat
quantized_conv = _functions.quantized_conv
quantized_elemwise_add = _functions.quantized_elemwise_add
quantized_elemwise_mul = _functions.quantized_elemwise_mul
quantized_embedding = _functions.quantized_embedding
quantized_flatten = _functions.quantized_flatten
quantized_fully_connected = _functions.quantized_fully_connected
quantized_pooling = _functions.quantized_pooling
requantize = _functions.requantize
round_ste = _functions.round_ste
sign_ste = _functions.sign_ste

