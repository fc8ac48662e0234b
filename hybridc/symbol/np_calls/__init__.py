"""Functions of ``mx.np`` in composed graphs and in symbol files."""
