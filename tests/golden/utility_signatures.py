"""The signatures of MXNet's utility namespaces, as text: for MXNet and for hybridc."""

import inspect

NAMESPACES = [
    *("base", "util", "error", "runtime", "libinfo", "operator", "library", "name", "attribute", "context"),
    *("visualization", "rtc", "registry", "test_utils", "ndarray_doc", "symbol_doc", "executor"),
]


def shown(value):
    """A default: a class by its name, which is not the same text in all versions of NumPy."""
    return value.__name__ if isinstance(value, type) else repr(value)


def signature(found):
    """The parameters with their defaults; None for what has no signature."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        stars.get(p.kind, "") + p.name + ("" if p.default is p.empty else f"={shown(p.default)}") for p in parameters
    ]


def signatures(mx, package):
    """By dotted name: the signatures of the functions, classes and methods that each namespace defines."""
    found = {}
    for space in NAMESPACES:
        module = getattr(mx, space)
        for name, member in sorted(vars(module).items()):
            defined = getattr(member, "__module__", None) == f"{package}.{space}"
            if name.startswith("_") or not defined or not callable(member):
                continue
            found[f"{space}.{name}"] = signature(member)
            if inspect.isclass(member):
                for method, value in sorted(vars(member).items()):
                    if not method.startswith("_") and inspect.isfunction(value):
                        found[f"{space}.{name}.{method}"] = signature(value)
    return found
