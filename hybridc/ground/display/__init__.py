"""What people read: tracebacks, and descriptions of objects."""
