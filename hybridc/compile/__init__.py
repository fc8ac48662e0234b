"""The compiler driver: the pass pipeline, the stages, the targets, and compiled graphs."""
