"""Operations of ``arith`` and ``math`` in Triton's language."""
