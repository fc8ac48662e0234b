"""The compiler below the graph, on the structured form."""
