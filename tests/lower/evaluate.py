"""A function of the structured form, computed by NumPy: the meaning of each upstream operation, written down here.

Independent of how the form is made: parallel loops run on whole arrays, reduction loops one iteration after the other.
xDSL's own interpreter knows neither rounding to single precision nor unsigned operations nor indices.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy import special
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
)
from xdsl.dialects.linalg import ops as linalg

from hybridc.dialects import operator_registry
from hybridc.dialects.mlir.hybrid import from_attribute
from hybridc.dtypes import BFLOAT16


def dtype_of(kind):
    match kind:
        case BFloat16Type():
            return BFLOAT16
        case Float16Type():
            return np.dtype("float16")
        case Float32Type():
            return np.dtype("float32")
        case Float64Type():
            return np.dtype("float64")
        case IndexType():
            return np.dtype("int64")
    return np.dtype(bool if kind.width.data == 1 else f"int{kind.width.data}")


def unsigned(f):
    def apply(*xs):
        result = f(*[x.view(f"uint{x.dtype.itemsize * 8}") if x.dtype.kind == "i" else x for x in xs])
        return result if result.dtype.kind == "b" else result.view(xs[0].dtype)

    return apply


def divided(x, y):
    """The quotient of integers, cut towards zero."""
    return (x - np.fmod(x, y)) // y


SCALAR = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.negf": np.negative, "arith.maximumf": np.maximum, "arith.minimumf": np.minimum,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.remsi": np.fmod,
    "arith.divsi": divided, "arith.divui": unsigned(np.floor_divide),
    "arith.remui": unsigned(np.fmod), "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": unsigned(np.maximum), "arith.minui": unsigned(np.minimum), "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.select": np.where, "math.absf": np.abs,
    "math.absi": np.abs, "math.powf": np.power, "math.ipowi": np.power, "math.floor": np.floor, "math.ceil": np.ceil,
    "math.trunc": np.trunc, "math.roundeven": np.rint, "math.exp": np.exp, "math.log": np.log, "math.log2": np.log2,
    "math.log10": np.log10, "math.log1p": np.log1p, "math.expm1": np.expm1, "math.sqrt": np.sqrt,
    "math.cbrt": np.cbrt, "math.erf": special.erf, "math.sin": np.sin, "math.cos": np.cos, "math.tan": np.tan,
    "math.asin": np.arcsin, "math.acos": np.arccos, "math.atan": np.arctan, "math.atan2": np.arctan2,
    "math.sinh": np.sinh, "math.cosh": np.cosh, "math.tanh": np.tanh, "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh, "math.atanh": np.arctanh, "math.exp2": np.exp2, "math.copysign": np.copysign,
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift, "arith.shrui": unsigned(np.right_shift),
}  # fmt: skip

ORDERED = {
    "eq": np.equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal, "ne": np.not_equal,
}  # fmt: skip


def compare(op, x, y):
    if isinstance(op, arith.CmpfOp):
        name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
        assert name in ("oeq", "ogt", "oge", "olt", "ole", "une"), name
        return ORDERED[name[1:]](x, y)
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    f = ORDERED[name[-2:]]
    return unsigned(f)(x, y) if name[0] == "u" else f(x, y)


def convert(op, x):
    dtype = dtype_of(op.results[0].type)
    match op.name.removeprefix("arith."):
        case "uitofp" | "extui":
            x = x.view(f"uint{x.dtype.itemsize * 8}") if x.dtype.kind == "i" else x
        case "fptoui":
            return x.astype(f"uint{dtype.itemsize * 8}").view(dtype)
        case "extf" | "truncf" | "sitofp" | "fptosi" | "extsi" | "trunci" | "index_cast":
            assert x.dtype.kind != "b"
        case other:
            raise AssertionError(f"{other} has no meaning here")
    return x.astype(dtype)


class Evaluator:
    """Runs the functions of a module.

    With ``views`` reshapes, slices and transposes are views of NumPy's; one that would need a copy is an error.
    """

    def __init__(self, module, views=False):
        self.views = views
        self.functions = {f.sym_name.data: f for f in module.ops if isinstance(f, func.FuncOp)}

    def call(self, name, *arrays):
        function = self.functions[name]
        if not function.body.blocks:
            return self.host(function, arrays)
        block = function.body.block
        values = {a: np.asarray(self.stored(x)) for a, x in zip(block.args, arrays, strict=True)}
        for a in block.args:
            self.check(a, values[a])
        with np.errstate(all="ignore"):
            for op in block.ops:
                if isinstance(op, func.ReturnOp):
                    return self.seen(function, [values[v] for v in op.arguments], len(arrays))
                results = self.run(op, [values[v] for v in op.operands], values)
                for value, result in zip(op.results, results, strict=True):
                    self.check(value, result)
                    values[value] = result
        raise AssertionError(f"@{name} does not return")

    @staticmethod
    def stored(x):
        """An unsigned array as upstream holds it."""
        x = np.asarray(x)
        return x.view(f"int{x.dtype.itemsize * 8}") if x.dtype.kind == "u" else x

    @staticmethod
    def seen(function, results, skip):
        names = function.attributes.get("hybrid.dtypes")
        if names is None:
            return results
        dtypes = [np.dtype(n.data) for n in names.data][skip:]
        return [x if d.kind == "O" else x.view(d) for x, d in zip(results, dtypes, strict=True)]

    @staticmethod
    def check(value, array):
        tensor_type = hasattr(value.type, "get_shape")
        assert array.shape == (value.type.get_shape() if tensor_type else ()), f"{value}: {array.shape}"
        if array.dtype.kind != "O":
            element = value.type.get_element_type() if tensor_type else value.type
            assert array.dtype == dtype_of(element), f"{value}: {array.dtype}"

    def host(self, function, arrays):
        bound = {k: from_attribute(a) for k, a in function.attributes["hybrid.attributes"].data.items()}
        operator = operator_registry.operator(function.attributes["hybrid.operator"].data).bind(**bound)
        names = function.attributes.get("hybrid.dtypes")
        if names is not None:
            dtypes = [np.dtype(n.data) for n in names.data]
            arrays = [x if d.kind == "O" else x.view(d) for x, d in zip(arrays, dtypes, strict=False)]
        result = operator.eager(*arrays)
        return [np.asarray(self.stored(y)) for y in (result if isinstance(result, tuple) else (result,))]

    # --- operations on tensors -----------------------------------------------------------------------------

    def run(self, op, operands, values):
        match op:
            case arith.ConstantOp():
                return [self.constant(op)]
            case tensor.EmptyOp():
                # Nothing may depend on what an empty tensor holds.
                dtype = dtype_of(op.results[0].type.get_element_type())
                return [np.full(op.results[0].type.get_shape(), np.nan if dtype.kind == "f" else 1, dtype)]
            case linalg.FillOp():
                return [np.full_like(operands[1], operands[0])]
            case linalg.TransposeOp() if self.views:
                return [operands[0].transpose(op.permutation.get_values())]
            case linalg.GenericOp() | linalg.MatmulOp() | linalg.TransposeOp():
                return [self.loops(op, operands, values)]
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp():
                self.check_groups(op)
                return [self.reshape(operands[0], op.results[0].type.get_shape())]
            case tensor.ExtractSliceOp():
                part = operands[0][self.box(op, operands[0].shape)]
                return [part if self.views else part.copy()]
            case tensor.InsertSliceOp():
                out = operands[1].copy()
                out[self.box(op, out.shape)] = operands[0]
                return [out]
            case tensor.ConcatOp():
                return [np.concatenate(operands, op.dim.value.data)]
            case func.CallOp():
                return self.call(op.callee.string_value(), *operands)
        raise AssertionError(f"{op.name} is not of the structured form")

    def reshape(self, x, shape):
        if not self.views:
            return x.reshape(shape)
        seen = x.view()
        try:
            seen.shape = shape
        except AttributeError as error:
            raise AssertionError(f"an array of strides {x.strides} is no view of {shape}") from error
        return seen

    @staticmethod
    def constant(op):
        kind = op.results[0].type
        if isinstance(op.value, DenseIntOrFPElementsAttr):
            dtype = dtype_of(kind.get_element_type())
            numbers, shape = np.array(op.value.get_values(), dtype), kind.get_shape()
            return np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape)
        number = op.value.value.data
        dtype = dtype_of(kind)
        return np.asarray(number).astype(dtype) if dtype.kind == "f" else np.array([number]).astype(dtype)[0]

    @staticmethod
    def box(op, shape):
        parts = zip(
            op.static_offsets.get_values(), op.static_sizes.get_values(), op.static_strides.get_values(), strict=True
        )
        key = []
        for (offset, size, stride), extent in zip(parts, shape, strict=True):
            assert offset >= 0
            assert stride >= 1
            assert offset + stride * (size - 1) < extent
            key.append(slice(offset, offset + stride * (size - 1) + 1, stride))
        return tuple(key)

    @staticmethod
    def check_groups(op):
        """Each group of axes is as large as the axis it stands for, and no axis is left out."""
        wide, narrow = op.src.type.get_shape(), op.result.type.get_shape()
        if isinstance(op, tensor.ExpandShapeOp):
            wide, narrow = narrow, wide
            assert tuple(op.static_output_shape.get_values()) == wide
        groups = [[i.value.data for i in g.data] for g in op.reassociation.data]
        if groups:
            assert [i for g in groups for i in g] == list(range(len(wide)))
            assert tuple(int(np.prod([wide[i] for i in g])) for g in groups) == narrow
        else:
            assert set(wide) <= {1}
            assert narrow == ()

    def loops(self, op, operands, values):
        maps = [m.data for m in op.get_indexing_maps().data]
        kinds = [k.data.value for k in op.get_iterator_types().data]
        sizes = self.sizes(maps, operands, len(kinds))
        parallel = [i for i, k in enumerate(kinds) if k == "parallel"]
        reduced = [i for i, k in enumerate(kinds) if k == "reduction"]
        *inputs, out = operands
        result = out.copy()
        grid = np.meshgrid(*[np.arange(sizes[i]) for i in parallel], indexing="ij")
        for at in itertools.product(*[range(sizes[i]) for i in reduced]):
            loops = dict(zip(parallel, grid, strict=True)) | dict(zip(reduced, at, strict=True))
            index = [loops[i] for i in range(len(kinds))]
            given = [self.read(x, m, index) for x, m in zip([*inputs, result], maps, strict=True)]
            places = tuple(e.eval(index, ()) for e in maps[-1].results)
            result[places] = self.body(op.regions[0].block, given, index, values)
        return result

    @staticmethod
    def sizes(maps, operands, count):
        """The range of each loop; operands that disagree, or a loop that none gives, are errors."""
        sizes = {}
        for m, x in zip(maps, operands, strict=True):
            assert len(m.results) == np.ndim(x)
            plain = [e.position for e in m.results if hasattr(e, "position")]
            if len(set(plain)) == len(m.results):  # else it is read at sums of loops, inside its bounds
                for loop, n in zip(plain, np.shape(x), strict=True):
                    assert sizes.setdefault(loop, n) == n
        assert sorted(sizes) == list(range(count))
        return sizes

    @staticmethod
    def read(x, m, index):
        places = tuple(e.eval(index, ()) for e in m.results)
        for p, n in zip(places, np.shape(x), strict=True):
            assert np.all((np.asarray(p) >= 0) & (np.asarray(p) < n))
        return x[places] if places else x

    def body(self, block, given, index, outside):
        values = dict(zip(block.args, given, strict=True))
        for op in block.ops:
            operands = [values[v] if v in values else outside[v] for v in op.operands]
            match op:
                case linalg.YieldOp():
                    return operands[0]
                case linalg.IndexOp():
                    result = np.asarray(index[op.dim.value.data], np.int64)
                case tensor.ExtractOp():
                    array, *places = operands
                    for p, n in zip(places, array.shape, strict=True):
                        assert np.all((p >= 0) & (p < n))
                    result = array[tuple(places)]
                case arith.ConstantOp():
                    result = self.constant(op)
                case arith.CmpfOp() | arith.CmpiOp():
                    result = compare(op, *map(np.asarray, operands))
                case _ if op.name in SCALAR:
                    for x in operands:
                        assert op.name == "arith.select" or np.asarray(x).dtype == np.asarray(operands[0]).dtype
                    result = SCALAR[op.name](*map(np.asarray, operands))
                case _:
                    result = convert(op, np.asarray(operands[0]))
            assert np.asarray(result).dtype == dtype_of(op.results[0].type), f"{op}: {np.asarray(result).dtype}"
            values[op.results[0]] = np.asarray(result)
        raise AssertionError("a body without linalg.yield")
