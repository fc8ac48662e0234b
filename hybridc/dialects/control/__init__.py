"""Control flow: operators with graphs inside that run several times, or not at all."""
