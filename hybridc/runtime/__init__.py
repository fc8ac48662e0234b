"""The runtime: executables, workspaces, the native executor, devices; and ``mx.runtime``: features by MXNet's names."""

from hybridc.runtime.features import Feature, Features, feature_list

__all__ = ["Feature", "Features", "feature_list"]
