"""ONNX: ``writing`` translates symbols to its operators, ``reading`` runs its operators by ours."""
