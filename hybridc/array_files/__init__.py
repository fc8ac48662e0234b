"""Arrays in files: MXNet's ``.params``, safetensors and NumPy's ``.npz``, behind one reader and one writer."""
