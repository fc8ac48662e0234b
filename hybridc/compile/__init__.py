"""The compiler as a whole: the list of passes, the stages, the targets, and compiled graphs."""
