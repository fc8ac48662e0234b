"""Names of blocks and parameters: the scopes that make ``net0_dense1_weight``; types of blocks for type checkers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol, TypedDict, TypeVar

from hybridc import name as naming
from hybridc.gluon.parameter import ParameterDict


class Named(Protocol):
    """The interface of a block to its name scope."""

    @property
    def prefix(self) -> str:
        """The prefix of the names of its children and parameters."""
        ...

    @property
    def params(self) -> ParameterDict:
        """Its own parameters."""
        ...


class BlockOptions(TypedDict, total=False):
    """What every block takes beside its own parameters."""

    prefix: str | None
    params: ParameterDict | None


class NoOptions(TypedDict):
    """Further keywords of the base of blocks: there are none, and one that is given is an error."""


# What a call of a block gives, for type checkers: what its ``forward``, or ``hybrid_forward``, says.
_Result = TypeVar("_Result", covariant=True)


class Unsaid:
    """A result that only a block can have which says nothing of its results: nothing else is of this class."""


class Forwards(Protocol[_Result]):
    """A block whose ``forward`` has a result of a type."""

    def forward(self, *args: Any, **_: Any) -> _Result:
        """The outputs."""
        ...


class HybridForwards(Protocol[_Result]):
    """A block whose ``hybrid_forward`` has a result of a type, as ``HybridBlock.forward`` needs it."""

    _reg_params: dict[str, Any]

    def hybrid_forward(self, F: Any, /, *args: Any, **kwargs: Any) -> _Result:
        """The outputs."""
        ...

    def _finish_deferred(self, params: Mapping[str, Any], args: tuple[Any, ...]) -> None: ...


class BlockScope:
    """``with block.name_scope():`` gives blocks made inside names that begin with the block's prefix."""

    def __init__(self, block: Named, transparent: bool) -> None:
        self._block = block
        self._transparent = transparent  # an empty prefix adds nothing: names come from the scope outside
        self._counter: dict[str, int] = {}
        self._outer: list[tuple[BlockScope | None, naming.Prefix]] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """The full prefix and the parameter dict of a new block."""
        scope = _LOCAL.scope
        if scope is None:
            prefix = naming.current().get(None, hint) + "_" if prefix is None else prefix
            return prefix, ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
        if prefix is None:
            count = scope._counter.get(hint, 0)
            scope._counter[hint] = count + 1
            prefix = f"{hint}{count}_"
        parent = scope._block
        if params is None:
            params = ParameterDict(parent.params.prefix + prefix, parent.params.shared)
        else:
            params = ParameterDict(params.prefix, params)
        return parent.prefix + prefix, params

    def __enter__(self) -> BlockScope:
        if self._transparent:
            return self
        prefix = naming.Prefix(self._block.prefix)
        self._outer.append((_LOCAL.scope, prefix))
        _LOCAL.scope = self
        prefix.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        if self._transparent:
            return
        _LOCAL.scope, prefix = self._outer.pop()
        prefix.__exit__(*exc)


class _CurrentScope(threading.local):
    scope: BlockScope | None = None


_LOCAL = _CurrentScope()
