"""The families of operators: importing this module registers them. Operators that call users' code are elsewhere."""

from __future__ import annotations

from hybridc.dialects import stateful as stateful
from hybridc.dialects.array import cast as cast
from hybridc.dialects.array import creation_ops as creation_ops
from hybridc.dialects.array import gather as gather
from hybridc.dialects.array import gather_nd as gather_nd
from hybridc.dialects.array import indices as indices
from hybridc.dialects.array import joining as joining
from hybridc.dialects.array import layout as layout
from hybridc.dialects.array import padding as padding
from hybridc.dialects.array import sequence as sequence
from hybridc.dialects.array import shape as shape
from hybridc.dialects.array import slicing as slicing
from hybridc.dialects.array import sorting as sorting
from hybridc.dialects.array import windows as windows
from hybridc.dialects.math import affine_contraction as affine_contraction
from hybridc.dialects.math import contraction as contraction
from hybridc.dialects.math import elementwise as elementwise
from hybridc.dialects.math import linalg_ops as linalg_ops
from hybridc.dialects.math import random_choice as random_choice
from hybridc.dialects.math import random_ops as random_ops
from hybridc.dialects.math import reduction as reduction
from hybridc.dialects.math import statistics as statistics
from hybridc.dialects.math import trigonometry as trigonometry
from hybridc.dialects.math import unary as unary
from hybridc.dialects.nn import activation as activation
from hybridc.dialects.nn import batch_norm as batch_norm
from hybridc.dialects.nn import columns as columns
from hybridc.dialects.nn import contrib_ops as contrib_ops
from hybridc.dialects.nn import convolution as convolution
from hybridc.dialects.nn import dropout as dropout
from hybridc.dialects.nn import image_sizes as image_sizes
from hybridc.dialects.nn import loss_ops as loss_ops
from hybridc.dialects.nn import normalization as normalization
from hybridc.dialects.nn import pooling as pooling
from hybridc.dialects.nn import softmax as softmax
