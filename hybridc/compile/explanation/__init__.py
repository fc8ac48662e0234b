"""``net.explain()``: the launches of programs in groups, as a text and as a page."""
