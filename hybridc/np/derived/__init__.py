"""Functions of ``mx.np`` that are made of its other functions: edits, grids, statistics, Einstein sums."""
