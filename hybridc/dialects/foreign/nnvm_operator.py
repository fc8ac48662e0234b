"""Operators registered as in NNVM: ``NNVM_REGISTER_OP("abs2").set_num_inputs(1).set_attr("FCompute<cpu>", …)``.

What is registered is a class like any other: a host call whose interfaces are the functions attached to it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from hybridc.dialects import registry
from hybridc.dialects.attribute import REQUIRED, Attribute, DType, Shape, attribute, from_annotation, parse_dtype
from hybridc.dialects.foreign import nnvm
from hybridc.dialects.foreign.nnvm import Attached, NodeAttrs
from hybridc.dialects.operator import Opaque, Operator
from hybridc.dialects.stateful import Stateful
from hybridc.errors import AttributeValueError, MXNetError, ShapeError, UnsupportedError
from hybridc.nesting import as_list

kVarg = -1
Parser = Callable[[NodeAttrs], None]
Count = int | Callable[[NodeAttrs], int]


class _Registered(Operator):
    """What both kinds of registered operators share: counts that may depend on the attributes."""

    REGISTERED: ClassVar[bool] = True
    NUM_INPUTS: ClassVar[Any] = 1
    NUM_OUTPUTS: ClassVar[Any] = 1
    PARSER: ClassVar[Any] = None
    TRAIN_MODE = True
    SAME_DTYPE = False

    train: bool | None = attribute(None, "internal: whether this is for training")
    forward_shapes: object = attribute(None, "internal: of a gradient, the shapes of the inputs of its forward")
    forward_types: object = attribute(None, "internal: of a gradient, the dtypes of the inputs of its forward")
    forward_attrs: object = attribute((), "internal: of a gradient, attributes that only its parser knows")

    def check(self) -> None:
        """Let the parser read the attributes, so that what it refuses is found here."""
        NodeAttrs.of(self)

    def gradient(self, F: Any, *values: Any) -> Any:
        """Raises: there is no rule."""
        raise UnsupportedError(
            f"Operator {self.title()} is non-differentiable because it didn't register FGradient attribute."
        )

    def _count(self, given: Any) -> int:
        asked: Any = given
        return asked(NodeAttrs.of(self)) if callable(given) else asked

    def input_names(self) -> tuple[str, ...]:
        """As many of the declared names as these attributes ask for."""
        return self.INPUTS if self.VARIADIC else self.INPUTS[: self._count(self.__class__.__dict__["NUM_INPUTS"])]

    def _results(self) -> int:
        return self._count(self.__class__.__dict__["NUM_OUTPUTS"])

    def _is_backward(self) -> bool:
        return bool(Attached.of(type(self)).get("TIsBackward", (False, 0))[0])

    def _shapes(self) -> list[Shape]:
        """Shapes of the results where no FInferShape says them: a gradient has those of its forward's inputs."""
        known: Any = self.forward_shapes
        if self._is_backward() and known is not None:
            return list(known[: self._results()])
        remedy = "apply it by MakeGradNode" if self._is_backward() else "ElemwiseShape(1, 1) serves simple operators"
        raise ShapeError(f"{self.title()} has no FInferShape; {remedy}")

    def _types(self, dtypes: list[DType]) -> list[DType]:
        """Dtypes of the results where no FInferType says them: a gradient's, or that of the first input."""
        known: Any = self.forward_types
        if self._is_backward() and known is not None:
            return [parse_dtype(d) for d in known[: self._results()]]
        return [dtypes[0]] * self._results()


class NNVMOperator(_Registered, Opaque):
    """A host call that its attached functions describe."""

    def num_outputs(self) -> int:
        """As registered, and the new values of updated inputs."""
        return self._results() + len(self.mutates())

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Of a gradient only: the shapes of its forward's inputs."""
        return shapes, [*self._shapes(), *[shapes[i] for i in self.mutates()]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """The dtypes of a gradient's forward, or that of the first input."""
        return dtypes, [*self._types(dtypes), *[dtypes[i] for i in self.mutates()]]

    def eager(self, *arrays: Any) -> Any:
        """Raises: there is nothing to run."""
        raise MXNetError(f"{self.title()} has {_no_compute(type(self))}")


class NNVMStateful(_Registered, Stateful):
    """A host call with a state that FCreateOpState makes."""

    def num_visible_outputs(self) -> int:
        """As registered."""
        return self._results()

    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Not known without FInferShape."""
        return shapes, self._shapes()

    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """That of the first input."""
        return dtypes, self._types(dtypes)

    def forward(self, state: Any, *arrays: Any) -> Any:
        """Raises: there is nothing to run."""
        raise MXNetError(f"{self.title()} has {_no_compute(type(self), 'FStatefulCompute')}")


def _no_compute(cls: type[Operator], kind: str = "FCompute") -> str:
    if f"{kind}<gpu>" in Attached.of(cls):
        return f"{kind}<gpu> only, which hybridc does not call; give it {kind}<cpu> as well"
    first = "attrs" if kind == "FCompute" else "state"
    return f"no {kind}<cpu>: nothing to run; set_attr('{kind}<cpu>', f) with f({first}, ctx, inputs, req, outputs)"


def become_stateful(cls: type[Operator]) -> None:
    """Let an operator that was registered as in NNVM own a state."""
    if issubclass(cls, Stateful):
        return
    if not issubclass(cls, NNVMOperator):
        raise MXNetError(f"operator {cls.NAME!r} owns no state: its class must be derived from mx.op.Stateful")
    for method in ("infer_shape", "infer_type", "num_visible_outputs"):
        if method in cls.__dict__:
            delattr(cls, method)
    setattr(cls, "__bases__", (NNVMStateful,))  # noqa: B010 - pyright knows no assignment of bases
    setattr(cls, "ATTRIBUTES", {**cls.ATTRIBUTES, **NNVMStateful.ATTRIBUTES})  # noqa: B010
    for key in ("FInferShape", "FInferType", "FNumVisibleOutputs"):
        if key in Attached.of(cls):
            nnvm.interfaces()[key].install(cls, Attached.of(cls)[key][0])


# --- parameters -----------------------------------------------------------------------------------------------


class Parameter:
    """Keyword arguments of an operator as a class, as dmlc::Parameter: fields declared by ``mx.op.attribute``."""

    FIELDS: ClassVar[dict[str, Attribute]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields = dict(cls.FIELDS)
        for name, annotation in inspect.get_annotations(cls).items():
            declared = cls.__dict__.get(name)
            if isinstance(declared, Attribute):
                fields[name] = from_annotation(declared, annotation)
        setattr(cls, "FIELDS", fields)  # noqa: B010 - a constant of each class, computed once

    def __init__(self, **given: Any) -> None:
        title = type(self).__name__
        for name, field in self.FIELDS.items():
            value = given.get(name, field.default)
            if value is REQUIRED:
                raise AttributeValueError(f"{title}: {name} is required; it takes {field.describe()}")
            setattr(self, name, field.parse(title, name, value))

    @classmethod
    def __FIELDS__(cls) -> dict[str, Attribute]:
        """The fields, for ``add_arguments``."""
        return cls.FIELDS


def ParamParser(parameter: type[Parameter]) -> Parser:
    """An attribute parser that leaves a ``parameter`` in ``attrs.parsed``."""

    def parse(attrs: NodeAttrs) -> None:
        attrs.parsed = parameter(**{k: v for k, v in attrs.dict.items() if k in parameter.FIELDS})

    return parse


_TYPES = {
    "int": "int", "long": "int", "float": "float", "double": "float", "string": "str", "str": "str", "boolean": "bool",
    "bool": "bool", "Shape(tuple)": "Shape", "Shape": "Shape", "tuple of <int>": "Shape", "dtype": "DType",
}  # fmt: skip


def argument_type(text: str, doc: str) -> Attribute:
    """The attribute of a type in MXNet's words: ``"float, optional, default=1.0"``, ``"{'a', 'b'}, required"``."""
    word, _, rest = (
        part.strip() for part in re.sub(r"\s*,\s*(?=optional|required|default)", "\0", text).partition("\0")
    )
    found = re.search(r"default\s*=\s*(.*)$", rest)
    default = REQUIRED if found is None else _default(found[1].strip())
    if word.startswith("{"):
        return from_annotation(
            attribute(default, doc, enum=tuple(ast.literal_eval(word.replace("{", "(").replace("}", ",)")))), "str"
        )
    optional = word.endswith(" or None")
    kind = _TYPES.get(re.sub(r" (or None|\(non-negative\))$", "", word))
    if kind is None:
        raise MXNetError(f"an argument has the type {text!r}; use NDArray, NDArray[] or one of {', '.join(_TYPES)}")
    low = 0 if "non-negative" in word else None
    return from_annotation(attribute(default, doc, low=low), f"{kind} | None" if optional else kind)


def _default(text: str) -> Any:
    try:
        value: Any = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return tuple(as_list(value)) if isinstance(value, list) else value


# --- registering ----------------------------------------------------------------------------------------------


class OpBuilder:
    """What ``NNVM_REGISTER_OP`` returns: every method says one thing of the operator and returns the same object."""

    def __init__(self, op: type[Operator]) -> None:
        self.op = op

    def describe(self, text: str) -> OpBuilder:
        """What the operator computes: the docstring of its functions."""
        self.op.__doc__ = text
        return self._changed()

    def MXNET_DESCRIBE(self, text: str) -> OpBuilder:
        """As :meth:`describe`, with the file and line of the call."""
        frame = sys._getframe(1)
        return self.describe(f"{text}\n\nFrom {frame.f_code.co_filename}:{frame.f_lineno}")

    def set_num_inputs(self, n: Count) -> OpBuilder:
        """How many inputs there are: a number, a function of the attributes, or ``kVarg`` for any number."""
        self._own("set_num_inputs")
        setattr(self.op, "NUM_INPUTS", n)  # noqa: B010
        setattr(self.op, "VARIADIC", n == kVarg)  # noqa: B010
        return self._changed()

    def set_num_outputs(self, n: Count) -> OpBuilder:
        """How many outputs there are: a number, or a function of the attributes."""
        self._own("set_num_outputs")
        setattr(self.op, "NUM_OUTPUTS", n)  # noqa: B010
        return self._changed()

    def set_attr_parser(self, parser: Parser) -> OpBuilder:
        """A function that reads ``attrs.dict``, all strings, and leaves the result in ``attrs.parsed``."""
        self._own("set_attr_parser")
        setattr(self.op, "PARSER", parser)  # noqa: B010
        return self._changed()

    def add_argument(self, name: str, type_info: Any, description: str = "") -> OpBuilder:
        """Declare an argument: ``NDArray`` for an input, ``NDArray[]`` for any number of them, else a keyword."""
        self._own("add_argument")
        kind = getattr(type_info, "__name__", str(type_info))
        if kind.startswith("NDArray"):
            declared: Any = (*self.op.__dict__.get("ARGUMENTS", ()), name)
            setattr(self.op, "ARGUMENTS", declared)  # noqa: B010
            setattr(self.op, "INPUT_DOCS", {**self.op.INPUT_DOCS, name: description})  # noqa: B010
            return self.set_num_inputs(kVarg) if kind.startswith("NDArray[") else self._changed()
        return self.add_arguments({name: argument_type(kind, description)})

    def add_arguments(self, fields: Mapping[str, Attribute]) -> OpBuilder:
        """Declare keyword arguments: those of a :class:`Parameter`, ``MyParam.__FIELDS__()``."""
        self._own("add_arguments")
        declared = {n: a for n, a in self.op.ATTRIBUTES.items() if not a.doc.startswith("internal")}
        internal = {n: a for n, a in self.op.ATTRIBUTES.items() if n not in declared}
        for name in fields:
            if hasattr(_Registered, name) or hasattr(Stateful, name):  # the value is kept beside the method
                setattr(self.op, f"{name}_", None)
        setattr(self.op, "ATTRIBUTES", {**declared, **fields, **internal})  # noqa: B010
        return self._changed()

    def add_alias(self, name: str) -> OpBuilder:
        """Another name of the operator's functions."""
        setattr(self.op, "ALIASES", (*self.op.ALIASES, name))  # noqa: B010
        registry.add(self.op)
        return self

    def set_attr(self, key: str, value: Any, plevel: int = nnvm.PLEVEL) -> OpBuilder:
        """Attach an attribute, see :func:`mx.op.set_attr`."""
        nnvm.set_attr(self.op.NAME, key, value, plevel)
        return self._changed()

    def _own(self, method: str) -> None:
        if not issubclass(self.op, _Registered):
            raise MXNetError(
                f"operator {self.op.NAME!r} is a class, which says this itself; {method} is for operators that "
                "NNVM_REGISTER_OP made. Attach attributes with set_attr, or choose another name"
            )

    def _changed(self) -> OpBuilder:
        if issubclass(self.op, _Registered):
            setattr(self.op, "INPUTS", _input_names(self.op))  # noqa: B010
            self.op.OPTIONAL = len(self.op.INPUTS) - 1 if callable(self.op.__dict__["NUM_INPUTS"]) else 0
        nnvm.refresh(self.op)
        return self


def _input_names(cls: type[Operator]) -> tuple[str, ...]:
    """By FListInputNames where the defaults allow to ask it, as declared by ``add_argument``, or data0, data1, …"""
    names = Attached.of(cls).get("FListInputNames")
    cls._BOUND.clear()
    if names is not None and not any(a.default is REQUIRED for a in cls.ATTRIBUTES.values()):
        return tuple(names[0](NodeAttrs(cls)))
    declared: Any = cls.__dict__.get("ARGUMENTS", ())
    count: Any = cls.__dict__["NUM_INPUTS"]
    if declared or count == kVarg or callable(count):
        return tuple(declared) or ("data",)
    return ("data",) if count == 1 else tuple(f"data{i}" for i in range(count))


def NNVM_REGISTER_OP(name: str) -> OpBuilder:
    """Register an operator, or get the registered one of that name to attach something to it.

    A name without a dialect, as ``abs2``, is ``nnvm.abs2`` in the IR. A registration that runs again, from the same
    file and line, starts anew.
    """
    frame = sys._getframe(1)
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    dialect, _, function = name.rpartition(".")
    known = registry.OPERATORS.get(name) if dialect else registry.FUNCTIONS.get(name)
    if known is not None and known.__dict__.get("REGISTERED_AT") != where:
        return OpBuilder(known)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", function) or not re.fullmatch(r"([a-z][a-z0-9_]*)?", dialect):
        raise MXNetError(f"an operator's name is a name of Python, maybe after a dialect in lower case, got {name!r}")
    lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", function).lower()
    body = {
        "__module__": frame.f_globals.get("__name__", "__main__"),
        "__qualname__": f"NNVM_REGISTER_OP({name})",
        "__doc__": name,
        "REGISTERED_AT": where,
        "NUM_INPUTS": 1,
        "NUM_OUTPUTS": 1,
        "NAME": f"{dialect or 'nnvm'}.{lower}",
        "ALIASES": () if lower == function else (function,),
    }
    made = type(function, (NNVMOperator,), body)
    registry.add(made, override=known is not None)
    return OpBuilder(made)
