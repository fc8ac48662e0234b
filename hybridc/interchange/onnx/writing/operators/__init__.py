"""The translations of operators that ONNX has, by family; importing this package registers them."""

from hybridc.interchange.onnx.writing.operators import branches_and_loops as branches_and_loops
from hybridc.interchange.onnx.writing.operators import chosen_elements as chosen_elements
from hybridc.interchange.onnx.writing.operators import matrices as matrices
from hybridc.interchange.onnx.writing.operators import network_layers as network_layers
from hybridc.interchange.onnx.writing.operators import numbers as numbers
from hybridc.interchange.onnx.writing.operators import products as products
from hybridc.interchange.onnx.writing.operators import quantized_nodes as quantized_nodes
from hybridc.interchange.onnx.writing.operators import random_samples as random_samples
from hybridc.interchange.onnx.writing.operators import reasons as reasons
from hybridc.interchange.onnx.writing.operators import vision as vision
