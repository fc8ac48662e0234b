"""The translations of operators that ONNX has, by family; importing this package registers them."""

from hybridc.interchange.onnx.writing.operators import control as control
from hybridc.interchange.onnx.writing.operators import indexing as indexing
from hybridc.interchange.onnx.writing.operators import layers as layers
from hybridc.interchange.onnx.writing.operators import products as products
