"""The lowest layer, which users do not import: state, locks, the disk cache, serialisation. MXNet has no such names."""
