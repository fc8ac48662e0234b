"""Kernels that are attentions, and those that are backwards of some."""

from __future__ import annotations

from hybridc.ir.attention import attention_of


def forward_of(kernel):
    """The attention that a kernel is, or None."""
    found = attention_of(kernel)
    return found if found is not None and found.delta is None else None


def backward_of(kernel):
    """The backward of an attention that a kernel is, or None."""
    found = attention_of(kernel)
    return found if found is not None and found.delta is not None else None
