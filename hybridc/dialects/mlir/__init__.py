"""The IR dialects: ``hybrid``, ``hybrid_rt``, and what xDSL's lack."""
