"""The lowest layer, which users do not import: state, locks, the disk cache, serialisation. MXNet has no such names."""

# The version of the package, a part of cache keys.
__version__ = "0.1.0"
# The version of MXNet whose interfaces these are, as its files and libraries write it: 1.9.1.
MXNET_VERSION = 10901
# The same as its users write it: ``mx.mxnet_version``.
mxnet_version = "1.9.1"


class NullType:
    """The default of MXNet's operators for an attribute that was not given, where None is a value."""

    def __repr__(self) -> str:
        return "_Null"


NULL = NullType()
