"""The implementation of ``hybridize``: guarded traces, compiled graphs by signature, training steps."""
