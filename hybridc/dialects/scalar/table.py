"""The table of scalar steps: a row says all that is known of a step, for every layer and target.

A new step is a row of :data:`STEPS`. It is one operation of ``arith`` or ``math`` for each kind of number, or made of
other steps (``composed``), or a ``host`` call. An operation has a text for each printer, or the name of a formula.
Nothing is imported here but Python's own: texts name functions of NumPy, and the formulas that targets have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from enum import Enum, auto
from typing import Any

from hybridc.dialects.scalar import special_functions
from hybridc.ground.records import dataclass


class OperationCost(Enum):
    """The cost class of an operation."""

    PLAIN = auto()
    DIVISION = auto()
    INSTRUCTION = auto()  # of ``math``, that processors have
    FUNCTION = auto()  # of ``math``, that is a formula


@dataclass(frozen=True, eq=False)
class ScalarOperation:
    """An operation of the dialects arith and math, named as in tile programs: with the predicate of a comparison.

    ``numpy`` names its function. ``triton`` is a sign between two operands, a call with slots, or the name of a
    function in :mod:`hybridc.lower.triton.expressions.formulas`; ``triton_single`` that of single precision, where the
    language's own is not precise enough. ``c`` is a function of its library, or an expression with slots in which U is
    the unsigned type. ``llvm`` is an instruction or an intrinsic, where that is all. ``formula`` is the module of
    :mod:`hybridc.lower.mathlib` that has a function of its name. Of integers ``reads`` says the sign, ``i`` or ``u``,
    where it matters; ``combines`` is the reduction by it.
    """

    name: str
    numpy: str = ""
    triton: str = ""
    c: str = ""
    _: KW_ONLY
    llvm: str = ""
    triton_single: str = ""
    formula: str = ""
    cost: OperationCost = OperationCost.PLAIN
    reads: str = ""
    combines: str = ""

    @property
    def short_name(self) -> str:
        """The name without the dialect's."""
        return self.name.partition(".")[2]


ITSELF = ScalarOperation("")  # no operation: the result is the operand

Form = ScalarOperation | None


@dataclass(frozen=True, eq=False)
class ScalarStep:
    """A step of scalar bodies.

    ``floats``, ``signed``, ``unsigned`` and ``booleans`` are its operations on these; None where NumPy has no loop.
    On ``integers`` several operations may be one: a function ``(b, *operands)`` of the compiler's builder writes them.
    Without operations a step is ``composed``, such a function of other steps for any builder; beside them that is its
    gradient's way where no operator is called like it.

    ``numpy`` names its function, if that is not the one of its operation on floats: of NumPy, or of
    :mod:`hybridc.dialects.special`. What takes more is a method of :class:`~hybridc.dialects.scalar.NumPyScalar`, and
    ``loops`` a ufunc of the same dtypes. ``operator`` is the operator that computes it, if that is not called like it.
    ``cost`` counts additions, and is None if a backward does not compute the step again. ``exact`` results are those of
    IEEE arithmetic, rounded once or not at all; a ``predicate`` is a boolean; a ``logical`` one is of booleans; what is
    ``flat`` has the derivative 0.
    """

    name: str
    doc: str
    floats: Form = None
    signed: Form = None
    unsigned: Form = None
    booleans: Form = None
    _: KW_ONLY
    parameters: str = "x"
    numpy: str = ""
    loops: str = ""
    composed: Callable[..., Any] | None = None
    integers: Callable[..., Any] | None = None
    operator: str = ""
    # Measured with NumPy on arrays in the second-level cache: an addition takes 0.16 ns, a division 0.24, a root 0.28,
    # a cast 0.35, an exponential 0.56, a power 1.2, erf 19. A selection takes NumPy 6 where its condition is random;
    # native code does not mind.
    cost: int | None = None
    exact: bool = False
    predicate: bool = False
    logical: bool = False
    flat: bool = False

    @property
    def operations(self) -> tuple[Form, Form, Form, Form]:
        """Its operations on floats, signed integers, unsigned ones and booleans."""
        return self.floats, self.signed, self.unsigned, self.booleans

    @property
    def operands(self) -> tuple[str, ...]:
        """The parameters of its method, those that are no operands with their types."""
        return tuple(self.parameters.split(", "))

    @property
    def expansion(self) -> Callable[..., Any] | None:
        """Its composition of other steps; None for a step that is one operation."""
        return None if any(self.operations) else self.composed

    def operation(self, kind: str) -> Form:
        """The operation on numbers of a dtype's kind: ``f``, ``i``, ``u`` or ``b``."""
        return self.operations["fiub".index(kind)]

    @property
    def function(self) -> str:
        """NumPy's function by name, or that of :mod:`hybridc.dialects.special`; "" if it is a method."""
        return self.numpy or (self.floats.numpy if self.floats is not None else "")


# --- steps of other steps ---------------------------------------------------------------------------------------------


def _rem(b: Any, x: Any, y: Any) -> Any:
    """The remainder with the sign of the divisor."""
    r = b.fmod(x, y)
    return b.select((r != 0) & ((r < 0) != (y < 0)), r + y, r)


def _hypot(b: Any, x: Any, y: Any) -> Any:
    """Scaled by the greater one against overflow; infinite beside a nan, too."""
    x, y = b.abs(x), b.abs(y)
    great, small = b.max(x, y), b.min(x, y)
    ratio = small / b.select(great == 0, 1.0, great)
    length = great * b.sqrt(ratio * ratio + 1.0)
    return b.select(b.isinf(x) | b.isinf(y), float("inf"), length)


def _sign(b: Any, x: Any) -> Any:
    return b.select(x > 0, 1, b.select(x < 0, -1, b.abs(x)))  # +0 for both zeros, nan for nan


def _square(_: Any, x: Any) -> Any:
    return x * x


def _reciprocal(_: Any, x: Any) -> Any:
    return 1 / x


def _exp2(b: Any, x: Any) -> Any:
    return b.pow(2.0, x)


def _logistic(b: Any, x: Any) -> Any:
    return 1.0 / (b.exp(-x) + 1.0)


# --- rows of a kind ---------------------------------------------------------------------------------------------------


def _function(
    name: str, doc: str, formula: str, *, numpy: str = "", triton: str = "", triton_single: str = "", **more: Any
) -> ScalarStep:
    """A function of floats, which is an operation of ``math``."""
    texts = (numpy or f"np.{name}", triton, name)
    cost = OperationCost.FUNCTION
    operation = ScalarOperation(f"math.{name}", *texts, triton_single=triton_single, formula=formula, cost=cost)
    return ScalarStep(name, doc, operation, **more)


def _rounding(name: str, doc: str, triton: str) -> ScalarStep:
    """A function that gives whole numbers: those themselves."""
    operation = _instruction(name, f"np.{name}", triton, llvm=f"llvm.{name}")
    return ScalarStep(name, doc, operation, ITSELF, ITSELF, ITSELF, cost=1, exact=True, flat=True)


def _instruction(name: str, numpy: str, triton: str, c: str = "", **more: Any) -> ScalarOperation:
    """An operation of ``math`` that processors have."""
    return ScalarOperation(f"math.{name}", numpy, triton, c or name, cost=OperationCost.INSTRUCTION, **more)


def _comparison(name: str, sign: str, numpy: str, operator: str) -> ScalarStep:
    """A comparison of two numbers; with a nan only "not equal" is true, as IEEE 754 says."""
    same = name in ("eq", "ne")
    floats = ScalarOperation(f"arith.cmpf {'u' if name == 'ne' else 'o'}{name}", numpy, sign, f"{{0}} {sign} {{1}}")
    either = replace(floats, name=f"arith.cmpi {name}")
    signed = either if same else replace(either, name=f"arith.cmpi s{name}", reads="i")
    unsigned = replace(signed, name=f"arith.cmpi u{name}", c=f"(U){{0}} {sign} (U){{1}}", reads="u")
    forms = (floats, signed, either if same else unsigned, either if same else unsigned)
    doc = f"``x {sign} y``."
    return ScalarStep(name, doc, *forms, parameters="x, y", operator=operator, cost=1, **_TRUTH)


_TRUTH: dict[str, Any] = {"exact": True, "predicate": True, "flat": True}


def _connective(name: str, doc: str, booleans: ScalarOperation) -> ScalarStep:
    """A function of two booleans."""
    more = {"parameters": "x, y", "numpy": f"np.{name}", "cost": 1, "logical": True}
    return ScalarStep(name, doc, booleans=booleans, **more, **_TRUTH)


def _bitwise(name: str, doc: str, operation: ScalarOperation) -> ScalarStep:
    """A function of the bits of two integers, or of two booleans."""
    forms = (None, operation, operation, operation)
    return ScalarStep(name, doc, *forms, parameters="x, y", numpy=f"np.{name}", cost=1, exact=True, flat=True)


def _shift(
    name: str, doc: str, signed: ScalarOperation, unsigned: ScalarOperation, integers: Callable[..., Any]
) -> ScalarStep:
    """A shift of an integer's bits."""
    more: dict[str, Any] = {"parameters": "x, count", "numpy": f"np.{name}", "integers": integers, "cost": 2}
    return ScalarStep(name, doc, None, signed, unsigned, exact=True, flat=True, **more)


def _test(name: str, doc: str, composed: Callable[[Any, Any], Any]) -> ScalarStep:
    """A property of a number."""
    return ScalarStep(name, doc, numpy=f"np.{name}", composed=composed, cost=1, **_TRUTH)


# --- integers: what upstream leaves undefined, or lacks ---------------------------------------------------------------

_REMSI = ScalarOperation(
    "arith.remsi", "np.fmod", "%", "{0} % {1}", llvm="srem", cost=OperationCost.DIVISION, reads="i"
)
_REMUI = ScalarOperation(
    "arith.remui", "np.fmod", "%", "(U){0} % (U){1}", llvm="urem", cost=OperationCost.DIVISION, reads="u"
)
_DIVSI = ScalarOperation("arith.divsi", "special.quotient", "//", "{0} / {1}", llvm="sdiv", reads="i")
_DIVUI = ScalarOperation("arith.divui", "np.floor_divide", "//", "(U){0} / (U){1}", llvm="udiv", reads="u")
_IPOWI = ScalarOperation("math.ipowi", "np.power", "", "ipow({0}, {1})", formula="power", cost=OperationCost.FUNCTION)


def _negative(b: Any, x: Any) -> Any:
    return b.like(x, 0) - x


def _c_remainder(b: Any, x: Any, y: Any) -> Any:
    """The remainder with the sign of x; by 0, and by -1 where it could overflow, it is 0."""
    zero, one = b.like(y, 0), b.like(y, 1)
    bad = y == zero
    if y.dtype.kind == "u":
        return b.operation(_REMUI, x, b.select(bad, one, y))
    bad = bad | (y == b.like(y, -1))
    return b.operation(_REMSI, x, b.select(bad, one, y))


def _quotient(b: Any, x: Any, y: Any) -> Any:
    """x / y, cut towards zero; by 0 it is 0, and by -1, where it could overflow, it is -x."""
    zero, one = b.like(y, 0), b.like(y, 1)
    by_zero = y == zero
    if y.dtype.kind == "u":
        return b.select(by_zero, zero, b.operation(_DIVUI, x, b.select(by_zero, one, y)))
    negated = y == b.like(y, -1)
    result = b.operation(_DIVSI, x, b.select(by_zero | negated, one, y))
    return b.select(by_zero, zero, b.select(negated, _negative(b, x), result))


def _power(b: Any, x: Any, y: Any) -> Any:
    """In 64 bits, as ``ipowi`` takes the exponent as signed; with a negative one, only that of 1 and -1 is not 0."""
    base, exponent = b.cast(x, "int64"), b.cast(y, "int64")
    if y.dtype.kind == "u":
        return b.cast(b.operation(_IPOWI, base, exponent), x.dtype)
    zero, one = b.like(base, 0), b.like(base, 1)
    inverse = b.select(b.abs(base) == one, base, zero)
    negative = exponent < zero
    # For bases 1 and -1 the power depends on the parity of the exponent only; 0 must not become 0**0.
    odd = b.operation(_AND, exponent, one)
    power = b.operation(_IPOWI, b.select(negative, inverse, base), b.select(negative, odd, exponent))
    return b.cast(b.select(negative & (inverse == zero), zero, power), x.dtype)


def _invert(b: Any, x: Any) -> Any:
    """-1 - x: all bits are the others."""
    return b.logical_not(x) if x.dtype.kind == "b" else b.like(x, 0) - x - b.like(x, 1)


def _inside(b: Any, x: Any, count: Any) -> Any:
    """Whether a shift is by less than all bits: only then the operations are defined."""
    inside = count < b.like(count, 8 * x.dtype.itemsize)
    return inside if count.dtype.kind == "u" else inside & (count >= b.like(count, 0))


def _left_shift(b: Any, x: Any, count: Any) -> Any:
    """x * 2**count modulo the range."""
    inside, zero = _inside(b, x, count), b.like(x, 0)
    return b.select(inside, b.operation(_SHLI, x, b.select(inside, count, zero)), zero)


def _right_shift(b: Any, x: Any, count: Any) -> Any:
    """x / 2**count, towards minus infinity."""
    inside, zero = _inside(b, x, count), b.like(x, 0)
    if x.dtype.kind == "u":
        return b.select(inside, b.operation(_SHRUI, x, b.select(inside, count, zero)), zero)
    return b.operation(_SHRSI, x, b.select(inside, count, b.like(x, 8 * x.dtype.itemsize - 1)))


# --- operations of several steps --------------------------------------------------------------------------------------

_AND = ScalarOperation("arith.andi", "np.bitwise_and", "&", "{0} & {1}", llvm="and", combines="and")
_OR = ScalarOperation("arith.ori", "np.bitwise_or", "|", "{0} | {1}", llvm="or", combines="or")
_XOR = ScalarOperation("arith.xori", "np.bitwise_xor", "^", "{0} ^ {1}", llvm="xor", combines="xor")
_ADDI = ScalarOperation("arith.addi", "np.add", "+", "{0} + {1}", llvm="add", combines="add")
_SUBI = ScalarOperation("arith.subi", "np.subtract", "-", "{0} - {1}", llvm="sub")
_MULI = ScalarOperation("arith.muli", "np.multiply", "*", "{0} * {1}", llvm="mul", combines="mul")
_SHLI = ScalarOperation("arith.shli", "np.left_shift", "<<", "{0} << {1}", llvm="shl")
_SHRSI = ScalarOperation("arith.shrsi", "np.right_shift", ">>", "{0} >> {1}", llvm="ashr", reads="i")
_SHRUI = ScalarOperation("arith.shrui", "np.right_shift", ">>", "(U){0} >> {1}", llvm="lshr", reads="u")
_DIVF = ScalarOperation(
    "arith.divf", "np.divide", "/", "{0} / {1}", triton_single="tl.div_rn({}, {})", cost=OperationCost.DIVISION
)
_SELECT = ScalarOperation("arith.select", "", "tl.where({}, {}, {})", "{0} ? {1} : {2}")


# --- the table --------------------------------------------------------------------------------------------------------

_ROWS = (
    # Arithmetic
    ScalarStep(
        "add",
        "``x + y``.",
        ScalarOperation("arith.addf", "np.add", "+", "{0} + {1}", combines="add"),
        _ADDI,
        _ADDI,
        _OR,
        parameters="x, y",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "sub",
        "``x - y``.",
        ScalarOperation("arith.subf", "np.subtract", "-", "{0} - {1}", llvm="fsub"),
        _SUBI,
        _SUBI,
        parameters="x, y",
        operator="subtract",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "mul",
        "``x * y``.",
        ScalarOperation("arith.mulf", "np.multiply", "*", "{0} * {1}", llvm="fmul", combines="mul"),
        _MULI,
        _MULI,
        _AND,
        parameters="x, y",
        operator="multiply",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "div",
        "``x / y``; of integers too it is a float.",
        _DIVF,
        parameters="x, y",
        operator="divide",
        cost=2,
        exact=True,
    ),
    ScalarStep(
        "quotient",
        "``x / y``; of integers exact, truncated, and 0 where y is 0.",
        _DIVF,
        _DIVSI,
        _DIVUI,
        _AND,
        parameters="x, y",
        integers=_quotient,
        loops="np.multiply",
        operator="divide",
        cost=2,
        exact=True,
    ),
    ScalarStep(
        "rem",
        "The remainder with the sign of y, as Python's ``%``.",
        parameters="x, y",
        numpy="np.mod",
        composed=_rem,
        operator="modulo",
        exact=True,
    ),
    ScalarStep(
        "fmod",
        "The remainder with the sign of x, as C's.",
        ScalarOperation("arith.remf", "np.fmod", "remainder", "fmod", llvm="frem"),
        _REMSI,
        _REMUI,
        parameters="x, y",
        integers=_c_remainder,
        exact=True,
    ),
    ScalarStep(
        "pow",
        "``x ** y``; of integers exact modulo their range.",
        ScalarOperation("math.powf", "special.power", "", "pow", formula="power", cost=OperationCost.FUNCTION),
        _IPOWI,
        _IPOWI,
        parameters="x, y",
        loops="np.power",
        integers=_power,
        operator="power",
    ),
    ScalarStep(
        "neg",
        "``-x``.",
        ScalarOperation("arith.negf", "np.negative", "", "-{0}"),
        integers=_negative,
        operator="negative",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "abs",
        "The magnitude.",
        _instruction("absf", "np.abs", "tl.abs({})", "fabs", llvm="llvm.fabs"),
        _instruction("absi", "np.abs", "tl.abs({})", "{0} < 0 ? -{0} : {0}", reads="i"),
        ITSELF,
        ITSELF,
        cost=1,
        exact=True,
    ),
    ScalarStep("sign", "-1, 0 or 1.", numpy="np.sign", composed=_sign, exact=True, flat=True),
    ScalarStep(
        "max",
        "The greater; nan if one is.",
        ScalarOperation(
            "arith.maximumf",
            "np.maximum",
            "tl.maximum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
            "{0} > {1} || {0} != {0} ? {0} : {1}",
            llvm="llvm.maximum",
            combines="max",
        ),
        ScalarOperation(
            "arith.maxsi",
            "np.maximum",
            "tl.maximum({}, {})",
            "{0} > {1} ? {0} : {1}",
            llvm="llvm.smax",
            reads="i",
            combines="max",
        ),
        ScalarOperation(
            "arith.maxui",
            "np.maximum",
            "tl.maximum({}, {})",
            "(U){0} > (U){1} ? {0} : {1}",
            llvm="llvm.umax",
            reads="u",
            combines="max",
        ),
        _OR,
        parameters="x, y",
        operator="maximum",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "min",
        "The less; nan if one is.",
        ScalarOperation(
            "arith.minimumf",
            "np.minimum",
            "tl.minimum({}, {}, propagate_nan=tl.PropagateNan.ALL)",
            "{0} < {1} || {0} != {0} ? {0} : {1}",
            llvm="llvm.minimum",
            combines="min",
        ),
        ScalarOperation(
            "arith.minsi",
            "np.minimum",
            "tl.minimum({}, {})",
            "{0} < {1} ? {0} : {1}",
            llvm="llvm.smin",
            reads="i",
            combines="min",
        ),
        ScalarOperation(
            "arith.minui",
            "np.minimum",
            "tl.minimum({}, {})",
            "(U){0} < (U){1} ? {0} : {1}",
            llvm="llvm.umin",
            reads="u",
            combines="min",
        ),
        _AND,
        parameters="x, y",
        operator="minimum",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "hypot",
        "``sqrt(x ** 2 + y ** 2)`` without overflow.",
        parameters="x, y",
        numpy="np.hypot",
        composed=_hypot,
    ),
    ScalarStep(
        "copysign",
        "``x`` with the sign of ``y``.",
        _instruction("copysign", "np.copysign", "with_sign_of", llvm="llvm.copysign"),
        parameters="x, y",
        cost=1,
        exact=True,
    ),
    ScalarStep("square", "``x * x``.", numpy="np.square", composed=_square, cost=1, exact=True),
    ScalarStep("reciprocal", "``1 / x``.", numpy="np.reciprocal", composed=_reciprocal, cost=2, exact=True),
    # Exponentials and roots
    _function("exp", "``e ** x``.", "exponential", triton="tl.exp({})", triton_single="exp_by_exp2", cost=4),
    _function("exp2", "``2 ** x``.", "exponential", triton="tl.exp2({})", composed=_exp2),
    _function("expm1", "``e ** x - 1``, exact near 0.", "exponential"),
    _function("log", "The natural logarithm.", "logarithm", triton="tl.log({})"),
    _function("log1p", "``log(1 + x)``, exact near 0.", "logarithm"),
    _function("log2", "The logarithm to the base 2.", "logarithm", triton="tl.log2({})"),
    _function("log10", "The logarithm to the base 10.", "logarithm"),
    ScalarStep(
        "sqrt",
        "The square root.",
        _instruction("sqrt", "np.sqrt", "tl.sqrt({})", llvm="llvm.sqrt", triton_single="tl.sqrt_rn({})"),
        cost=2,
        exact=True,
    ),
    _function("cbrt", "The cube root, also of negative numbers.", "power"),
    ScalarStep(
        "logistic",
        "``1 / (1 + exp(-x))``; half precision computes in single.",
        loops="np.exp",
        composed=_logistic,
        operator="sigmoid",
    ),
    # Trigonometry
    _function("sin", "The sine.", "trigonometric", triton="tl.sin({})"),
    _function("cos", "The cosine.", "trigonometric", triton="tl.cos({})"),
    _function("tan", "The tangent.", "trigonometric", triton="sin_over_cos"),
    _function("asin", "The inverse of the sine.", "trigonometric", numpy="np.arcsin", operator="arcsin"),
    _function("acos", "The inverse of the cosine.", "trigonometric", numpy="np.arccos", operator="arccos"),
    _function("atan", "The inverse of the tangent.", "trigonometric", numpy="np.arctan", operator="arctan"),
    _function(
        "atan2",
        "The angle of the point (x, y).",
        "trigonometric",
        numpy="np.arctan2",
        parameters="y, x",
        operator="arctan2",
    ),
    _function("sinh", "The hyperbolic sine.", "exponential"),
    _function("cosh", "The hyperbolic cosine.", "exponential"),
    _function("tanh", "The hyperbolic tangent.", "exponential"),
    _function("asinh", "The inverse of sinh.", "logarithm", numpy="np.arcsinh", operator="arcsinh"),
    _function("acosh", "The inverse of cosh.", "logarithm", numpy="np.arccosh", operator="arccosh"),
    _function("atanh", "The inverse of tanh.", "logarithm", numpy="np.arctanh", operator="arctanh"),
    # Rounding
    _rounding("floor", "The greatest integer that is not above x.", "tl.floor({})"),
    _rounding("ceil", "The least integer that is not below x.", "tl.ceil({})"),
    _rounding("trunc", "The integer part.", "trunc"),
    ScalarStep(
        "rint",
        "The nearest integer, halves to even.",
        _instruction("roundeven", "np.rint", "roundeven", "rint", llvm="llvm.roundeven"),
        ITSELF,
        ITSELF,
        ITSELF,
        loops="np.floor",
        operator="around",
        cost=1,
        exact=True,
        flat=True,
    ),
    # Bits of integers
    _bitwise("bitwise_and", "The bits that both have.", _AND),
    _bitwise("bitwise_or", "The bits that one has.", _OR),
    _bitwise("bitwise_xor", "The bits that one alone has.", _XOR),
    ScalarStep(
        "bitwise_not", "The bits that x lacks.", numpy="np.invert", composed=_invert, cost=1, exact=True, flat=True
    ),
    _shift("left_shift", "``x * 2 ** count`` of integers; 0 by all bits.", _SHLI, _SHLI, _left_shift),
    _shift("right_shift", "``x / 2 ** count`` of integers, the floor.", _SHRSI, _SHRUI, _right_shift),
    # Special functions
    _function("erf", "The error function.", "exponential", numpy="special.erf", triton="tl.erf({})"),
    ScalarStep("erfinv", "The inverse of erf.", composed=special_functions.erfinv),
    ScalarStep("gamma", "The gamma function.", composed=special_functions.gamma),
    ScalarStep(
        "lgamma", "The logarithm of the magnitude of gamma.", composed=special_functions.lgamma, operator="gammaln"
    ),
    ScalarStep("digamma", "The derivative of lgamma.", composed=special_functions.digamma),
    # Comparisons and logic, which give booleans
    _comparison("lt", "<", "np.less", "lesser"),
    _comparison("le", "<=", "np.less_equal", "lesser_equal"),
    _comparison("gt", ">", "np.greater", "greater"),
    _comparison("ge", ">=", "np.greater_equal", "greater_equal"),
    _comparison("eq", "==", "np.equal", "equal"),
    _comparison("ne", "!=", "np.not_equal", "not_equal"),
    _test("isnan", "Whether x is nan.", lambda _, x: x != x),
    _test("isinf", "Whether x is inf or -inf.", lambda b, x: b.abs(x) == float("inf")),
    _test("isfinite", "Whether x is neither nan nor inf.", lambda b, x: b.abs(x) < float("inf")),
    _connective("logical_and", "Whether both are true.", _AND),
    _connective("logical_or", "Whether one is true.", _OR),
    _connective("logical_xor", "Whether one alone is true.", _XOR),
    _test("logical_not", "Whether x is 0 or false.", lambda _, x: x == 0),
    # Choice and dtypes, which the builders of bodies write
    ScalarStep(
        "select",
        "``x`` where the condition is true, else ``y``.",
        _SELECT,
        _SELECT,
        _SELECT,
        _SELECT,
        parameters="condition: Value, x, y",
        operator="where",
        cost=1,
        exact=True,
    ),
    ScalarStep(
        "cast",
        "``x`` in another dtype.",
        parameters="x: Value, dtype: npt.DTypeLike",
        cost=2,
        exact=True,
    ),
    ScalarStep(
        "like",
        "A number in the dtype of ``x``, saturated to its range.",
        parameters="x: Value, value: float",
        cost=0,
        flat=True,
    ),
)

STEPS: dict[str, ScalarStep] = {row.name: row for row in _ROWS}

# Operations of no step: they are written by conversions, formulas and passes.
_OTHERS = (
    ScalarOperation("sign", "np.sign"),  # of no dialect: 1 where x > 0, else -1 where x < 0, else x
    ScalarOperation("arith.extf", c="{0}"),
    ScalarOperation("arith.truncf", c="{0}"),
    ScalarOperation("arith.sitofp", c="{0}", llvm="sitofp", reads="i"),
    ScalarOperation("arith.uitofp", c="(U){0}", llvm="uitofp", reads="u"),
    ScalarOperation("arith.fptosi", c="{0}"),
    ScalarOperation("arith.fptoui", c="(U){0}"),
    ScalarOperation("arith.extsi", c="{0}", llvm="sext", reads="i"),
    ScalarOperation("arith.extui", c="(U){0}", llvm="zext", reads="u"),
    ScalarOperation("arith.trunci", c="{0}", llvm="trunc"),
    ScalarOperation("arith.index_cast", c="{0}"),
    ScalarOperation("arith.maxnumf", "", "tl.maximum({}, {})", llvm="llvm.maxnum"),
    ScalarOperation("arith.minnumf", "", "tl.minimum({}, {})", llvm="llvm.minnum"),
    _instruction("fma", "", "tl.fma({}, {}, {})", llvm="llvm.fma"),
)

OPERATIONS: dict[str, ScalarOperation] = {
    form.name: form
    for form in (*(form for step in _ROWS for form in step.operations), *_OTHERS)
    if form is not None and form.name
}
