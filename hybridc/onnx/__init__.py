"""``mx.onnx``: networks as ONNX files, and ONNX files as networks.

``pip install hybridc[onnx]`` brings the package that it needs.
"""
