"""The families of operators: importing this module registers them. Operators that call users' code are elsewhere."""

from __future__ import annotations

from hybridc.dialects import activation as activation
from hybridc.dialects import batch_norm as batch_norm
from hybridc.dialects import cast as cast
from hybridc.dialects import contraction as contraction
from hybridc.dialects import contrib as contrib
from hybridc.dialects import creation as creation
from hybridc.dialects import dropout as dropout
from hybridc.dialects import elementwise as elementwise
from hybridc.dialects import gather as gather
from hybridc.dialects import gather_nd as gather_nd
from hybridc.dialects import indices as indices
from hybridc.dialects import joining as joining
from hybridc.dialects import layout as layout
from hybridc.dialects import linalg as linalg
from hybridc.dialects import loss as loss
from hybridc.dialects import normalization as normalization
from hybridc.dialects import padding as padding
from hybridc.dialects import random_choice as random_choice
from hybridc.dialects import random_ops as random_ops
from hybridc.dialects import reduction as reduction
from hybridc.dialects import sequence as sequence
from hybridc.dialects import shape as shape
from hybridc.dialects import slicing as slicing
from hybridc.dialects import softmax as softmax
from hybridc.dialects import sorting as sorting
from hybridc.dialects import stateful as stateful
from hybridc.dialects import statistics as statistics
from hybridc.dialects import trigonometry as trigonometry
from hybridc.dialects import unary as unary
