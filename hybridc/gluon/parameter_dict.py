"""ParameterDict: the parameters of a block by name, made on demand and possibly shared with another block."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from hybridc import initializer
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import CheckError
from hybridc.gluon.parameter import Constant, Parameter
from hybridc.gluon.utils import brief, indent
from hybridc.nd import storage

__all__ = ["ParameterDict"]


class ParameterDict:
    """Parameters by their full names, which begin with the prefix; made on demand, or found in ``shared``."""

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None) -> None:
        self._prefix = prefix
        self._params: dict[str, Parameter] = {}
        self._shared = shared

    def __repr__(self) -> str:
        head = self._prefix + " " if self._prefix else ""
        return f"{head}(\n" + "\n".join("  " + indent(repr(p), 2) for p in self.values()) + "\n)"

    def __getitem__(self, key: str) -> Parameter:
        return self._params[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def items(self) -> ItemsView[str, Parameter]:
        """Names and parameters."""
        return self._params.items()

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """The parameters."""
        return self._params.values()

    @property
    def prefix(self) -> str:
        """What the names of new parameters begin with."""
        return self._prefix

    @property
    def shared(self) -> ParameterDict | None:
        """Where parameters are looked for before they are made."""
        return self._shared

    # --- making parameters ---------------------------------------------------------------------------------

    def _find(self, name: str) -> Parameter | None:
        if name not in self._params and self._shared is not None and name in self._shared:
            self._params[name] = self._shared[name]
        return self._params.get(name)

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """The parameter ``prefix + name``, made with these arguments, or existing and agreeing with them."""
        name = self.prefix + name
        param = self._find(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, wanted in kwargs.items():
            _agree(param, key, wanted)
        return param

    def get_constant(self, name: str, value: Any = None) -> Parameter:
        """The constant ``prefix + name``, made with this value, or existing with an equal one."""
        name = self.prefix + name
        param = self._find(name)
        if param is None and value is None:
            raise KeyError(f"No constant named '{name}'. Please specify value if you want to create a new constant.")
        if param is None:
            param = self._params[name] = Constant(name, value)
            return param
        if value is None:
            return param
        if not isinstance(param, Constant):
            raise CheckError(f"Parameter '{name}' already exists but it is not a constant.")
        new, old = Constant(name, value).value.asnumpy(), param.value.asnumpy()
        if new.shape != old.shape or not np.array_equal(new, old):
            raise CheckError(f"Constant '{name}' already exists but it's value doesn't match new value")
        return param

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Take over all parameters of another dict; equal names must mean the same parameter."""
        for name, param in other.items():
            if self._params.get(name, param) is not param:
                raise CheckError(
                    f"Cannot update self with other because they have different Parameters with the same name '{name}'"
                )
        self._params.update(other.items())

    # --- doing something with all --------------------------------------------------------------------------

    def initialize(self, init: Any = None, ctx: Any = None, verbose: bool = False, force_reinit: bool = False) -> None:
        """Initialize all parameters; ``init`` (default Uniform) serves those without one of their own."""
        init = initializer.Uniform() if init is None else init
        if isinstance(init, str):
            init = initializer.create(init)
        if verbose and isinstance(init, initializer.Initializer):
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for param in self.values():
            param.zero_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move all parameters to another device."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """The devices that hold parameters."""
        return list({ctx: None for param in self.values() for ctx in param.list_ctx()})

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters: ``params.setattr('grad_req', 'null')``."""
        for param in self.values():
            setattr(param, name, value)

    # --- files ---------------------------------------------------------------------------------------------

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Save the values under the parameters' names without ``strip_prefix``."""
        named: dict[str, NDArray] = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ValueError(
                    f"Prefix '{strip_prefix}' is to be striped before saving, but Parameter's name "
                    f"'{param.name}' does not start with it; does the block share parameters with another, "
                    "or were children made outside name_scope()? save_parameters() does not need prefixes"
                )
            named[param.name[len(strip_prefix) :]] = param.reduce()
        storage.save(filename, named)

    def load(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load values that :meth:`save` wrote; ``restore_prefix`` is put before the names in the file."""
        for name in self.keys():
            if not name.startswith(restore_prefix):
                raise CheckError(
                    f"restore_prefix is '{restore_prefix}' but Parameters name '{name}' does not start with it"
                )
        loaded = storage.load_named(filename)
        self.load_dict(loaded, ctx, allow_missing, ignore_extra, restore_prefix, filename, cast_dtype, dtype_source)

    def load_dict(
        self,
        param_dict: Mapping[str, NDArray],
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        restore_prefix: str = "",
        filename: str | None = None,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Load values from a dict; ``arg:`` and ``aux:`` before the names are dropped."""
        source = f"file: {filename}" if filename else "param_dict"
        named = {restore_prefix + _plain_name(name): value for name, value in param_dict.items()}
        missing = [name for name in self.keys() if name not in named]
        if missing and not allow_missing:
            raise CheckError(
                f"Parameter '{missing[0][len(restore_prefix) :]}' is missing in {source}, which contains "
                f"parameters: {brief(named)}. Please make sure source and target networks have the same "
                "prefix, or set allow_missing=True"
            )
        for name, value in named.items():
            if name in self._params:
                self[name].load_init(value, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source)
            elif not ignore_extra:
                raise CheckError(
                    f"Parameter '{name[len(restore_prefix) :]}' loaded from {source} is not present in "
                    f"ParameterDict, choices are: {brief(self._params)}. Set ignore_extra to True to ignore. "
                    "Please make sure source and target networks have the same prefix."
                )


def _plain_name(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def _agree(param: Parameter, key: str, wanted: Any) -> None:
    """Check that an existing parameter is what is asked for; complete its shape from what is asked."""
    existing = getattr(param, key, None)
    if existing is None:
        setattr(param, key, wanted)
        return
    if key == "shape" and wanted is not None:
        wanted = (wanted,) if isinstance(wanted, int) else tuple(wanted)
        if len(wanted) == len(existing) and all(a == b or min(a, b) <= 0 for a, b in zip(wanted, existing)):
            merged = tuple(max(a, b) for a, b in zip(wanted, existing))
            if merged != existing:
                param.shape = merged
            return
    if key == "dtype" and wanted is not None and np.dtype(wanted) == np.dtype(existing):
        return
    if wanted is not None and wanted != existing:
        raise CheckError(
            f"Cannot retrieve Parameter '{param.name}' because desired attribute does not match with stored "
            f"for attribute '{key}': desired '{wanted}' vs stored '{existing}'."
        )
