"""Signatures of public classes and functions as text, for MXNet and for hybridc."""

import inspect


def parameters(function):
    """The parameters with their defaults: ``axis=1, name='accuracy', **kwargs``."""
    found = []
    for p in inspect.signature(function).parameters.values():
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        found.append(star + p.name + ("" if p.default is p.empty else f"={p.default!r}"))
    return ", ".join(found)


def members(namespace):
    """Names and signatures of a module's own public classes, their public methods, and its functions."""
    found = {}
    for name, value in sorted(vars(namespace).items()):
        if name.startswith("_") or not callable(value):
            continue
        home = getattr(value, "__module__", "") or ""
        if not home.startswith(("mxnet.", "hybridc.")) or ".ndarray" in home or ".nd" in home:
            continue
        found[name] = parameters(value)
        if inspect.isclass(value):
            for method in dir(value):
                if method == "__call__" or not method.startswith("_"):
                    attribute = inspect.getattr_static(value, method)
                    if inspect.isfunction(getattr(attribute, "__func__", attribute)):
                        found[f"{name}.{method}"] = parameters(getattr(value, method))
    return found


NAMESPACES = ("optimizer", "optimizer.contrib", "metric", "init", "lr_scheduler", "registry")


def all_members(mx):
    """The same for each namespace."""
    found = {}
    for path in NAMESPACES:
        namespace = mx
        for part in path.split("."):
            namespace = getattr(namespace, part)
        if path == "optimizer" and hasattr(namespace, "optimizer"):
            namespace = namespace.optimizer
        found.update({f"{path}.{name}": text for name, text in members(namespace).items()})
    return found
