"""Symbolic sizes: integers that know how they depend on the free sizes of a graph.

A :class:`Size` stands where an ``int`` would. It has a value, with which the compiler goes on, and an expression of the
free sizes: a polynomial whose atoms are free sizes and floor divisions. Arithmetic on sizes gives sizes. Whatever is
asked about a size is answered for its value and recorded as a :class:`SizeGuard`: the compiler does the
same wherever all guards hold. Where Python or NumPy need a plain integer (``range``, an index, a format), the size is
fixed: it gives its value, and the guard is that it has this value. So no dependence is lost without a record.

    >>> sizes = Sizes()
    >>> n = sizes.free(12)
    >>> half, more = (n + 1) // 2, n > 8
    >>> [program(sizes, half).at([20]), sizes.holds([20]), sizes.holds([7])]
    [10, True, False]
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence, Set
from numbers import Integral, Number
from typing import Any, NamedTuple, NoReturn, TypeGuard, cast

# A polynomial: its monomials, each the numbers of its atoms in order, and their factors.
Terms = tuple[tuple[tuple[int, ...], int], ...]
_ONE: Terms = (((), 1),)
_NUMBER = itertools.count()


class NotSymbolic(TypeError):
    """A graph that cannot be formed with symbolic sizes, though it may with its own."""


class FloorDivision(NamedTuple):
    """An atom: ``dividend // divisor``"""

    dividend: Terms
    divisor: Terms


class SizeGuard(NamedTuple):
    """The question that was answered about a polynomial, ``"== 0"`` or ``"< 0"``."""

    question: str
    terms: Terms


class Sizes:
    """The free sizes of one compilation, and the guards that it leaves on them."""

    def __init__(self) -> None:
        self.number = next(_NUMBER)
        self.atoms: list[int | FloorDivision] = []  # free sizes by their number, and divisions
        self.values: list[int] = []  # of the atoms, now
        self.guards: dict[SizeGuard, bool] = {}
        self._numbers: dict[FloorDivision, int] = {}
        self._free = 0  # how many atoms are free sizes
        self._sizes: dict[Terms, Size] = {}
        self._answered: list[Size] = []  # that keep answers
        self._equal: dict[int, Terms] = {}  # atoms that are known to equal a polynomial of others
        self._looped: dict[Terms, int] = {}  # sizes that count as more than one, and their values

    def free(self, value: int) -> int:
        """The next free size."""
        self.atoms.append(self._free)
        self._free += 1
        self.values.append(value)
        return self.of((((len(self.atoms) - 1,), 1),))

    def of(self, terms: Terms) -> int:
        """A polynomial as a size; a plain integer if it does not depend on anything."""
        terms = self._known(terms)
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        found = self._sizes.get(terms)
        if found is None:
            found = self._sizes[terms] = Size(self, terms, _evaluated(terms, self.values))
        return cast("int", found)

    def keep_loop(self, size: Size) -> None:
        """Let a size, which is at least one, count as more than one: its axis keeps its loop where it is one, too.

        What is asked of a multiple of its excess over one is asked of the other factor, so no guard tells one from
        more. All else is answered for its value.
        """
        self._looped[size.terms] = size.value

    def free_atom(self, size: Size) -> int | None:
        """The number of the atom that a size is, if that is a free size itself."""
        (monomial, factor), *others = size.terms
        is_atom = not others and factor == 1 and len(monomial) == 1 and isinstance(self.atoms[monomial[0]], int)
        return monomial[0] if is_atom else None

    def known(self, size: int) -> int:
        """A size under the guards so far: a plain integer, if a guard says that it equals one."""
        return self.of(size.terms) if is_size(size) else size

    def divided(self, dividend: Terms, divisor: Terms) -> int:
        """The floor of a quotient."""
        if self.is_zero(divisor):
            raise ZeroDivisionError("integer division by zero")
        dividend, divisor = self._known(dividend), self._known(divisor)
        exact = _divided_exactly(dividend, divisor)
        if exact is not None:
            return self.of(exact)
        whole: dict[tuple[int, ...], int] = {}
        rest: dict[tuple[int, ...], int] = {}
        (monomial, factor), *others = divisor
        for atoms, count in dividend:
            left = None if others or count % factor else _without(atoms, monomial)
            if left is None:
                rest[atoms] = count
            else:
                whole[left] = count // factor
        found = _polynomial(whole)
        if not rest:
            return self.of(found)
        return self.of(_added(found, self._division(_polynomial(rest), divisor), 1))

    def _division(self, dividend: Terms, divisor: Terms) -> Terms:
        if _is_number(dividend) and _is_number(divisor):
            return _polynomial({(): _constant(dividend) // _constant(divisor)})
        atom = FloorDivision(dividend, divisor)
        if atom not in self._numbers:
            self._numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
            self.values.append(_evaluated(dividend, self.values) // _evaluated(divisor, self.values))
        return (((self._numbers[atom],), 1),)

    def is_zero(self, terms: Terms) -> bool:
        """Whether a polynomial is zero, on which something depends from now on."""
        found = self._ask("== 0", terms := _primitive(self._beside_loops(self._known(terms))))
        if found:
            self._learn(terms)
        return found

    def are_known_equal(self, a: Terms, b: Terms) -> bool:
        """Whether a recorded guard says that two polynomials are equal. Other comparisons record one; this does not."""
        return self.guards.get(SizeGuard("== 0", _primitive(self._known(_added(a, b, -1)))), False)

    def fix(self, size: Size) -> None:
        """Let a size have no other value: also one that has a loop."""
        terms = _primitive(self._known(_added(size.terms, (((), size.value),), -1)))
        if self._ask("== 0", terms):
            self._learn(terms)

    def is_negative(self, terms: Terms) -> bool:
        """Whether a polynomial is negative, on which something depends from now on."""
        terms = self._known(terms)
        if (factor := self._beside_loops(terms)) is not terms:
            return self._ask("< 0", factor)
        if (factor := self._beside_loops(more := _added(terms, _ONE, 1))) is not more:  # not positive
            return not self._ask("< 0", _added((), factor, -1))
        return self._ask("< 0", terms)

    def _beside_loops(self, terms: Terms) -> Terms:
        """What a polynomial is times the excess over one of a size that has a loop; itself, if it is no multiple."""
        value = _evaluated(terms, self.values) if self._looped else 1
        for size, now in self._looped.items() if terms else ():
            if value % (now - 1) if now > 1 else value:  # of no multiple, and quickly told
                continue
            quotient = _divided_exactly(terms, _added(self._known(size), _ONE, -1))
            if quotient is not None:
                return self._beside_loops(quotient)
        return terms

    def _ask(self, question: str, terms: Terms) -> bool:
        if _is_number(terms):
            return _answer(question, _constant(terms))
        guard = SizeGuard(question, terms)
        if guard not in self.guards:
            self.guards[guard] = _answer(question, _evaluated(terms, self.values))
        return self.guards[guard]

    def _learn(self, zero: Terms) -> None:
        """A polynomial is zero: if its latest atom follows from those before, it is not used any more."""
        latest = max((atom for monomial, _ in zero for atom in monomial), default=-1)
        factor = dict(zero).get((latest,))
        rest = tuple((monomial, -factor * count) for monomial, count in zero if monomial != (latest,)) if factor else ()
        if factor in (1, -1) and all(latest not in monomial for monomial, _ in rest):
            self._equal[latest] = rest
            for size in self._answered:
                size.answers.clear()
            self._answered.clear()

    def has_answers(self, size: Size) -> None:
        """Note that a size keeps answers, until a guard says that sizes are equal."""
        self._answered.append(size)

    def _known(self, terms: Terms) -> Terms:
        """The same polynomial without atoms that are known to equal others."""
        while self._equal and not self._equal.keys().isdisjoint([atom for monomial, _ in terms for atom in monomial]):
            found: Terms = ()
            for monomial, factor in terms:
                product: Terms = (((), factor),)
                for atom in monomial:
                    product = _multiplied(product, self._equal.get(atom, (((atom,), 1),)))
                found = _added(found, product, 1)
            terms = found
        return terms

    def depends(self, size: Size, atoms: Set[int]) -> bool:
        """Whether a size follows from any of these atoms."""
        return any(self._follows(atom, atoms) for monomial, _ in self._known(size.terms) for atom in monomial)

    def _follows(self, number: int, atoms: Set[int]) -> bool:
        atom = self.atoms[number]
        if isinstance(atom, int):
            return number in atoms
        return any(self._follows(a, atoms) for terms in atom for monomial, _ in terms for a in monomial)

    def at(self, free: Sequence[int]) -> list[int] | None:
        """The values of all atoms for other free sizes; None if something is divided by zero."""
        found: list[int] = []
        for atom in self.atoms:
            if isinstance(atom, int):
                found.append(free[atom])
                continue
            divisor = _evaluated(atom.divisor, found)
            if not divisor:
                return None
            found.append(_evaluated(atom.dividend, found) // divisor)
        return found

    def hold(self, values: Sequence[int]) -> bool:
        """Whether the compiler would do the same where the atoms have these values."""
        for guard, answer in self.guards.items():
            if _answer(guard.question, _evaluated(guard.terms, values)) is not answer:
                self.guards = {guard: answer, **self.guards}  # the first that is asked next time
                return False
        return True


def _answer(question: str, value: int) -> bool:
    return value == 0 if question == "== 0" else value < 0


class Size:
    """An integer that knows how it depends on free sizes (see the module). Of each polynomial there is one object."""

    __slots__ = ("_hash", "answers", "sizes", "terms", "value")
    __array_ufunc__ = None  # a NumPy number leaves the operation to the size

    # What asks isinstance(x, int) means integers of any kind; numpy and the C interface see none, and ask __index__.
    __class__ = property(lambda _: int)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __init__(self, sizes: Sizes, terms: Terms, value: int) -> None:
        self.sizes = sizes
        self.terms = terms
        self.value = value
        self.answers: dict[tuple[str, Any], Any] = {}  # what operations gave
        self._hash = hash((terms, sizes.number))

    def at(self, values: Sequence[int]) -> int:
        """Its value where the atoms have these."""
        return _evaluated(self.terms, values)

    def __hash__(self) -> int:
        return self._hash

    # --- arithmetic ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._with("+", other, lambda terms: self.sizes.of(_added(self.terms, terms, 1)), operator.add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with("-", other, lambda terms: self.sizes.of(_added(self.terms, terms, -1)), operator.sub)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        return self._with("*", other, lambda terms: self.sizes.of(_multiplied(self.terms, terms)), operator.mul)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._with("//", other, lambda terms: self.sizes.divided(self.terms, terms), _floordiv)

    def __rfloordiv__(self, other: Any) -> Any:
        terms = _terms(other)
        return other // int(self) if terms is None else self.sizes.divided(terms, self.terms)

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: int) -> Any:
        return math.prod([self] * other) if other >= 0 else int(self) ** other

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __truediv__(self, other: Any) -> Any:
        return int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    # --- questions -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, int | float | Integral) or (is_size(other) and other.sizes is not self.sizes):
            return NotImplemented
        return self._with("==", other, lambda terms: self.sizes.is_zero(_added(self.terms, terms, -1)), operator.eq)

    def __lt__(self, other: Any) -> bool:
        return self._with("<", other, lambda terms: self.sizes.is_negative(_added(self.terms, terms, -1)), operator.lt)

    def __gt__(self, other: Any) -> bool:
        return self._with(">", other, lambda terms: self.sizes.is_negative(_added(terms, self.terms, -1)), operator.gt)

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self != 0

    def _with(self, name: str, other: Any, symbolic: Callable[[Terms], Any], plain: Callable[[Any, Any], Any]) -> Any:
        """The result of an operation: symbolic with an integer, and cached; with another number that of the value."""
        if type(other) is not int and type(other) is not Size:
            terms = _terms(other)
            if terms is None:
                return plain(int(self), other) if isinstance(other, Number) else NotImplemented
            return symbolic(terms)
        key = (name, other)
        found = self.answers.get(key)
        if found is None:
            terms = _terms(other)
            assert terms is not None
            found = symbolic(terms)
            if not self.answers:
                self.sizes.has_answers(self)
            self.answers[key] = found
        return found

    # --- as a plain integer ------------------------------------------------------------------------------------------

    def __index__(self) -> int:
        self.sizes.fix(self)
        return self.value

    __int__ = __trunc__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __repr__(self) -> str:
        return repr(int(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)

    def bit_length(self) -> int:
        """As that of integers."""
        return int(self).bit_length()

    def __reduce__(self) -> NoReturn:
        raise NotSymbolic("a symbolic size cannot be pickled: it belongs to one compilation")


def _floordiv(a: Any, b: Any) -> Any:
    return a // b


def is_size(value: object) -> TypeGuard[Size]:
    """Whether an integer is symbolic."""
    return type(value) is Size


def is_same(a: int, b: int) -> bool:
    """Whether two sizes are equal by what is known of them: it asks nothing, so it holds wherever the guards do."""
    a, b = _known(a), _known(b)
    if a is b:
        return True
    size, other = (a, b) if is_size(a) else (b, a)
    return size.sizes.are_known_equal(size.terms, _terms(other) or ()) if is_size(size) else a == b


def are_same(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes are equal by what is known of their sizes (:func:`is_same`)."""
    return len(a) == len(b) and all(map(is_same, a, b))


def keep_loop(size: int) -> int:
    """A size of at least one, whose axis has a loop where it is one, too (:meth:`Sizes.keep_loop`)."""
    if is_size(size):
        size.sizes.keep_loop(size)
    return cast("int", size)


def may_exceed(a: int, b: int) -> bool:
    """Whether a size may be greater than another; it asks nothing, so it may be wherever they are not known."""
    excess = a - b
    return is_size(excess) or excess > 0


def _known(size: int) -> int:
    return size.sizes.of(size.terms) if is_size(size) else size


def value_of(number: float) -> float:
    """A number; of a symbolic size the value that it has now, which asks nothing about it."""
    return number.value if is_size(number) else number


# --- polynomials ------------------------------------------------------------------------------------------------


def _terms(value: object) -> Terms | None:
    """An integer as a polynomial; None for other values."""
    if is_size(value):
        return value.terms
    if type(value) is not int and not isinstance(value, int | Integral):
        return None
    return (((), int(value)),) if value else ()


def _polynomial(factors: dict[tuple[int, ...], int]) -> Terms:
    return tuple(sorted((monomial, factor) for monomial, factor in factors.items() if factor))


def _is_number(terms: Terms) -> bool:
    return not terms or (len(terms) == 1 and not terms[0][0])


def _constant(terms: Terms) -> int:
    return terms[0][1] if terms else 0


@functools.lru_cache(4096)
def _added(a: Terms, b: Terms, factor: int) -> Terms:
    found = dict(a)
    for monomial, count in b:
        found[monomial] = found.get(monomial, 0) + factor * count
    return _polynomial(found)


@functools.lru_cache(4096)
def _multiplied(a: Terms, b: Terms) -> Terms:
    found: dict[tuple[int, ...], int] = {}
    for left, x in a:
        for right, y in b:
            both = tuple(sorted(left + right))
            found[both] = found.get(both, 0) + x * y
    return _polynomial(found)


def _divided_exactly(terms: Terms, divisor: Terms) -> Terms | None:
    """A polynomial divided by one in which an atom, alone, has the factor one or minus one; None if a rest is left."""
    atom, sign = next(((m[0], f) for m, f in reversed(divisor) if len(m) == 1 and f in (1, -1)), (-1, 0))
    others = tuple([(m, -sign * f) for m, f in divisor if m != (atom,)])
    if not sign or any(atom in m for m, _ in others):
        return None
    by_power: dict[int, dict[tuple[int, ...], int]] = {}
    for monomial, factor in terms:
        rest = tuple([a for a in monomial if a != atom])
        by_power.setdefault(len(monomial) - len(rest), {})[rest] = factor
    found: Terms = ()
    carried: Terms = ()  # Horner's scheme at the others, which the atom equals where the divisor is zero
    for power in range(max(by_power, default=0), -1, -1):
        carried = _added(_polynomial(by_power.get(power, {})), _multiplied(carried, others), 1)
        if power:
            found = _added(found, _multiplied(carried, (((atom,) * (power - 1), sign),)), 1)
    return None if carried or not found else found


def _without(atoms: tuple[int, ...], fewer: tuple[int, ...]) -> tuple[int, ...] | None:
    """A monomial divided by another; None if that is none."""
    left = list(atoms)
    for atom in fewer:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _primitive(terms: Terms) -> Terms:
    """A polynomial with the same zeros: one of those that differ in a factor."""
    common = math.gcd(*(factor for _, factor in terms)) if terms else 1
    common = -common if terms and terms[0][1] < 0 else common
    return terms if common == 1 else tuple((monomial, factor // common) for monomial, factor in terms)


def _evaluated(terms: Terms, values: Sequence[int]) -> int:
    total = 0
    for monomial, factor in terms:
        for atom in monomial:
            factor *= values[atom]
        total += factor
    return total


@functools.lru_cache(4096)  # few shapes, asked for very often
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous array in C order, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The distance between the first and the last element of an array, in elements, for strides of either sign."""
    return sum(abs(s) * (n - 1) for n, s in zip(shape, strides, strict=True))


# --- affine indices ---------------------------------------------------------------------------------------------------


class AffineIndex(NamedTuple):
    """An affine index: the sum of loops, or of axes, times factors, and an offset."""

    terms: tuple[tuple[int, int], ...]
    offset: int = 0

    def renamed(self, names: Callable[[int], int]) -> AffineIndex:
        """The same with renumbered loops."""
        return AffineIndex(tuple((names(i), factor) for i, factor in self.terms), self.offset)

    def ends(self, sizes: Sequence[int] | Mapping[int, int]) -> tuple[int, int]:
        """The least and the greatest index, given the loops' trip counts."""
        low = self.offset + sum(factor * (sizes[i] - 1) for i, factor in self.terms if factor < 0)
        return low, self.offset + sum(factor * (sizes[i] - 1) for i, factor in self.terms if factor > 0)


Place = int | AffineIndex  # the index along a dimension: a loop, or an affine sum
