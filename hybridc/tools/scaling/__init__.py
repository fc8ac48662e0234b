"""A model of the time of a training step on many ranks: ``python -m hybridc.tools.scaling [--explain]``."""
