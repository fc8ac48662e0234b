"""Checks of a random network: eager, compiled and float64 runs of each event agree, and equal events give equal bits.

How far results may differ is measured, as for programs of operators: the events run in float64, exactly and with every
value, its gradient and every parameter disturbed by a few units in the last place of the network's dtype, and by its
smallest number: a gradient below that is 0 there, which an optimizer that divides by its size turns into a whole step.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybridc import autograd, gluon, optimizer
from hybridc import random as random_state
from hybridc.array.ndarray import NDArray
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.nd.creation import array
from hybridc.tools.fuzz.check_program import (
    CheckFailed,
    Failure,
    Invalid,
    epsilon,
    equal_bits,
    in_threads,
    is_raw,
    smallest,
)
from hybridc.tools.fuzz.networks.random_network import Array, RandomNetwork, evaluated, network_class

UPDATES = 3  # of loop and step
RUNS = 4  # disturbed ones, in pairs of opposite signs
UNITS = 4.0  # how far values are disturbed, in units of the dtype's epsilon
SPREAD = 8.0  # times what disturbed runs differ by may a result differ
LEAP = 0.02  # of an array's largest element: where runs differ by more, nothing is compared
TRAINS = frozenset({"train", "loop", "step"})

Results = dict[str, Array]


class Noise:
    """Disturbs values and their gradients by ``sign`` times some units; and records the largest value."""

    def __init__(self, seed: int, sign: float, dtype: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.sign = sign
        self.unit = epsilon(dtype)
        self.smallest = smallest(dtype)
        self.largest = 0.0

    def __call__(self, x: Any) -> Any:
        """The value, times 1 and a little."""
        if not is_float(np.dtype(x.dtype)):
            return x
        made: Any = _Disturbed(self)(x)
        return made

    def applied(self, x: Array) -> Array:
        """Disturbed values in float64; a zero stays zero."""
        wide = x.astype(np.float64)
        if x.size:
            self.largest = max(self.largest, float(np.abs(wide).max()))
        if not self.sign:
            return wide
        signs = self.rng.integers(0, 2, x.shape) * 2.0 - 1
        sizes = UNITS * self.unit * self.rng.uniform(0.5, 1, x.shape) * wide + self.smallest * np.sign(wide)
        return wide + self.sign * signs * sizes

    def disturbed(self, x: NDArray) -> NDArray:
        """A disturbed copy."""
        data = x.asnumpy()
        return array(self.applied(data).astype(data.dtype), dtype=x.dtype)


class _Disturbed(autograd.Function):
    """The identity, but for noise in both directions."""

    def __init__(self, noise: Noise) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, *inputs: Any) -> Any:
        """The disturbed value."""
        return self.noise.disturbed(inputs[0])

    def backward(self, *output_grads: Any) -> Any:
        """The disturbed gradient."""
        return self.noise.disturbed(output_grads[0])


@dataclass
class _Net:
    """A network with its parameters, numbered alike in all networks of one class."""

    given: RandomNetwork
    block: Any  # called with all arguments of the network
    dtype: str
    noise: Noise | None = None

    @property
    def parameters(self) -> list[Any]:
        return list(self.block.collect_params().values())

    def values(self) -> list[Array]:
        """Copies of all parameters' values."""
        return [p.data().asnumpy().copy() for p in self.parameters]

    def write(self, values: Sequence[Array]) -> None:
        """Set all parameters, and make their gradients zero."""
        for parameter, value in zip(self.parameters, values, strict=True):
            data = value.astype(np.float64)
            if self.noise is not None and parameter.grad_req != "null":
                data = self.noise.applied(value)
            parameter.set_data(array(data, dtype=parameter.dtype))
            if parameter.grad_req != "null":
                parameter.zero_grad()

    def disturb_gradients(self) -> None:
        """Disturb the gradients of all parameters, which a layer rounds to its dtype."""
        for parameter in self.parameters:
            if self.noise is not None and parameter.grad_req != "null":
                grad = parameter.grad()
                grad[:] = self.noise.disturbed(grad)


def _network(given: RandomNetwork, dtype: str, noise: Noise | None = None) -> _Net:
    block = network_class(given.network, noise)(prefix="net_")
    block.initialize()
    block.cast(dtype)
    return _Net(given, block, dtype, noise)


def _require_grads(net: _Net) -> None:
    parameters = net.parameters
    for number, req in net.given.grad_reqs:
        if parameters and (parameter := parameters[number % len(parameters)]).grad_req != "null":
            parameter.grad_req = req


def check_network(given: RandomNetwork) -> Failure | None:
    """The failure of a network on this process's target, or None; raises Invalid where it is no network."""
    try:
        with np.errstate(all="ignore"):
            _NetworkCheck(given).run()
    except CheckFailed as failed:
        return failed.failure
    return None


class _NetworkCheck:
    """An eager and a hybridized network of the same parameters, and what happens to both."""

    def __init__(self, given: RandomNetwork) -> None:
        self.given = given
        self.unit = epsilon(given.dtype)
        self.larger = False  # the arrays of this event
        self.eager = _network(given, given.dtype)
        self.compiled = self.hybridized(_network(given, given.dtype))

    def hybridized(self, net: _Net) -> _Net:
        """The network, hybridized as a whole or in parts."""
        flags = dict.fromkeys(self.given.flags, True)
        if self.given.parts is None:
            net.block.hybridize(**flags)
            return net
        for i in self.given.parts:
            getattr(net.block, f"b{i}").hybridize(**flags)
        return net

    def run(self) -> None:
        first = self.given.events[0][1] or 1
        self.eagerly(lambda: self.eager.block(*self.arrays(self.eager, first, 0)), "the first call")
        self.hybridly(lambda: self.compiled.block(*self.arrays(self.compiled, first, 0)), "the first call")
        self.same_parameters()
        for net in (self.eager, self.compiled):
            _require_grads(net)
        for number, (word, count) in enumerate(self.given.events):
            self.event(number, word, count)

    def same_parameters(self) -> None:
        ours, theirs = self.eager.parameters, self.compiled.parameters
        for a, b in zip(ours, theirs, strict=True):
            if (a.name, a.shape, a.dtype) != (b.name, b.shape, b.dtype):
                raise CheckFailed(
                    "parameters", f"compiled {b.name} {b.shape} {b.dtype}, eager {a.name} {a.shape} {a.dtype}"
                )

    def event(self, number: int, word: str, count: int) -> None:
        word, self.larger = word.removesuffix("+"), word.endswith("+")
        before = self.eager.values()
        self.compiled.write(before)
        if word == "step" and any(req == "add" for _, req in self.given.grad_reqs):
            word = "loop"  # a TrainStep uses the gradients of one batch
        if word == "write":
            self.written(count, number)
        elif word in ("save", "export"):
            self.copied(word, count, number)
        elif word == "threads":
            self.threads(count, number)
        else:
            self.compared(word, count, number, before)

    def written(self, at: int, number: int) -> None:
        """One parameter of both networks has other values; the next event shows whether they are read."""
        if not self.eager.parameters:
            return
        index = at % len(self.eager.parameters)
        value: Array = self.eager.parameters[index].data().asnumpy()
        changed = value * np.random.default_rng(number).uniform(0.5, 1.5, value.shape)
        self.eager.parameters[index].set_data(array(changed, dtype=value.dtype))

    def compared(self, word: str, count: int, number: int, before: Sequence[Array]) -> None:
        what = f"event {number}, {word} of {count}"
        want = self.eagerly(lambda: self.results(self.eager, word, count, number), what)
        after = self.eager.values()
        got = self.hybridly(lambda: self.results(self.compiled, word, count, number), what)
        wide, allowed = self.tolerance(word, count, number, before, want)
        _compare(got, want, allowed, what, "eager")
        if wide is not None:
            _compare(want, wide, allowed, f"{what}: eager calls", "float64")
        self.compiled.write(before)
        again = self.hybridly(lambda: self.results(self.compiled, word, count, number), what)
        for name, value in got.items():
            if not equal_bits(again[name], value):
                raise CheckFailed("repeated", f"{what}: {name} of the second time is not what it was at first")
        self.eager.write(after)

    # --- what happens to a network ---------------------------------------------------------------------------

    def arrays(self, net: _Net, count: int, number: int) -> list[NDArray]:
        """The arguments of an event."""
        values = self.given.arrays(count, self.given.seed + 10 * number, self.larger)
        pairs = zip(self.given.inputs, values, strict=True)
        return [array(v, dtype="float32" if x.classes is not None else net.dtype) for x, v in pairs]

    def results(self, net: _Net, word: str, count: int, number: int) -> Results:
        """All that an event leaves: outputs or losses, gradients, parameters."""
        random_state.seed(self.given.seed + number)
        if word == "predict":
            outputs = as_list(net.block(*self.arrays(net, count, number)))
            return _named("output", outputs)
        if word == "train":
            return self.trained(net, count, number)
        train = self.steps if word == "step" and net is self.compiled else self.loop
        losses = train(net, count, number)
        return {**_named("loss", losses), **_named("parameter", net.parameters)}

    def trained(self, net: _Net, count: int, number: int) -> Results:
        """A forward, and a backward from all outputs."""
        xs = self.arrays(net, count, number)
        own = [x for x, i in zip(xs, self.given.inputs, strict=True) if i.classes is None]
        for x in own:
            x.attach_grad()
        with autograd.record():
            outputs: list[NDArray] = as_list(net.block(*xs))
        rng = np.random.default_rng(number)
        heads = [array(rng.normal(size=y.shape).astype(np.float32), dtype=y.dtype) for y in outputs]
        autograd.backward(outputs, heads)
        parameters = net.parameters
        grads = [p.grad() for p in parameters if p.grad_req != "null"]
        return {
            **_named("output", outputs),
            **_named("gradient of input", [x.grad for x in own]),
            **_named("gradient of parameter", grads),
            **_named("parameter", parameters),
        }

    def trainer(self, net: _Net) -> Any:
        name, options = self.optimizer_of(net)
        return gluon.Trainer(net.block.collect_params(), optimizer.create(name, **options))

    def optimizer_of(self, net: _Net) -> tuple[str, dict[str, Any]]:
        name, options = evaluated(f"({self.given.optimizer})")
        if net.dtype == "float64":
            options.pop("multi_precision", None)
        return name, options

    def loss(self, outputs: Any, label: Any) -> Any:
        """The sum of the losses of all outputs, averaged over all axes but that of examples."""
        total: Any = 0
        each: list[Any] = as_list(outputs)
        for o in each:
            mean = o.reshape((0, -1)).mean(axis=1, keepdims=True)
            total = evaluated(self.given.loss, o=mean, y=label) + total
        return total

    def batches(self, net: _Net, count: int, number: int) -> list[tuple[list[NDArray], NDArray]]:
        made: list[tuple[list[NDArray], NDArray]] = []
        for update in range(UPDATES):
            label = np.random.default_rng([number, update]).uniform(0.1, 1, (max(count, 1), 1)).astype(np.float32)
            made.append((self.arrays(net, max(count, 1), 100 * number + update), array(label, dtype=net.dtype)))
        return made

    def loop(self, net: _Net, count: int, number: int) -> list[NDArray]:
        """Updates by a Trainer."""
        trainer, losses = self.trainer(net), list[NDArray]()
        for xs, label in self.batches(net, count, number):
            with autograd.record():
                loss = self.loss(net.block(*xs), label)
            loss.backward()
            net.disturb_gradients()
            trainer.step(label.shape[0], ignore_stale_grad=True)
            losses.append(loss)
        return losses

    def steps(self, net: _Net, count: int, number: int) -> list[NDArray]:
        """The same updates by a TrainStep."""
        step = gluon.TrainStep(net.block, self.loss, self.trainer(net), ignore_stale_grad=True)
        return [step(tuple(xs), label) for xs, label in self.batches(net, count, number)]

    def copied(self, word: str, count: int, number: int) -> None:
        """Another network, of saved parameters or of an exported file, predicts the same."""
        what = f"event {number}, {word}"
        count = max(count, 1)
        want = self.hybridly(lambda: self.results(self.compiled, "predict", count, number), what)
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "network")
            if word == "save":
                other = self.hybridly(lambda: self.loaded(f"{path}.params"), what)
            else:
                other = self.hybridly(lambda: self.imported(path), what)
            got = self.hybridly(lambda: self.results(other, "predict", count, number), what)
        _, allowed = self.tolerance("predict", count, number, self.eager.values(), want)
        _compare(got, want, allowed, what, "before it")

    def loaded(self, path: str) -> _Net:
        self.compiled.block.save_parameters(path)
        other = _Net(self.given, network_class(self.given.network)(prefix="other_"), self.given.dtype)
        other.block.cast(self.given.dtype)
        other.block.load_parameters(path)
        return self.hybridized(other)

    def imported(self, path: str) -> _Net:
        self.compiled.block.export(path)
        read = self.given.network.read_inputs()
        names = ["data"] if len(self.given.inputs) == 1 else [f"data{i}" for i in read]
        block = gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
        block.hybridize()

        def called(*xs: Any) -> Any:
            return block(*(xs[i] for i in read))

        return _Net(self.given, called, self.given.dtype)

    def threads(self, count: int, number: int) -> None:
        """Three threads call the compiled network at once."""
        if self.given.draws or count == 0:
            return
        what = f"event {number}, threads"
        want = self.hybridly(lambda: self.results(self.compiled, "predict", count, number), what)
        xs = self.arrays(self.compiled, count, number)
        for run in in_threads(lambda: _named("output", as_list(self.compiled.block(*xs)))):
            if not all(equal_bits(run[name], value) for name, value in want.items()):
                raise CheckFailed("threads", f"{what}: a call beside others gives other bits")

    # --- errors, and how far results may differ --------------------------------------------------------------

    def eagerly(self, call: Callable[[], Any], what: str) -> Any:
        """An eager call; one that the library refuses makes the network invalid, any other error is a failure."""
        try:
            return call()
        except Exception as error:
            if is_raw(error):
                raise CheckFailed(f"raw {type(error).__name__}", f"eager, {what}: {error}") from error
            raise Invalid(str(error)) from error

    def hybridly(self, call: Callable[[], Any], what: str) -> Any:
        """A call of the hybridized network, which must not raise where the eager one does not."""
        try:
            return call()
        except Exception as error:
            kind = "raw" if is_raw(error) else "refused"
            raise CheckFailed(f"{kind} {type(error).__name__}", f"{what}: {type(error).__name__}: {error}") from error

    def tolerance(
        self, word: str, count: int, number: int, before: Sequence[Array], want: Mapping[str, Array]
    ) -> tuple[Results | None, Results]:
        """What an event leaves in float64 (None where random numbers depend on the dtype), and how far from it."""
        wide = "float64" if not self.given.draws else self.given.dtype
        exact, largest = self.disturbed(word, count, number, before, wide, -1)
        runs = [self.disturbed(word, count, number, before, wide, n)[0] for n in range(2)]
        # Rounding inside a layer shows where the network runs in its own dtype.
        own = [self.disturbed(word, count, number, before, self.given.dtype, n)[0] for n in range(RUNS)]
        allowed: Results = {}
        for name, value in want.items():
            spread = np.fmax(_spread([exact[name], *(r[name] for r in runs)]), _spread([r[name] for r in own]))
            allowed[name] = self.allowed(value, exact[name], spread)
        if not largest < _most(self.given.dtype):
            allowed = {name: np.full(value.shape, np.inf) for name, value in allowed.items()}
        return (None if self.given.draws else exact), allowed

    def disturbed(
        self, word: str, count: int, number: int, before: Sequence[Array], dtype: str, run: int
    ) -> tuple[Results, float]:
        """What an event leaves in a run with noise, and the largest value on the way; run -1: without noise."""
        noise = Noise(run // 2 + 10, 0.0 if run < 0 else 1.0 - 2 * (run % 2), self.given.dtype)
        net = _network(self.given, dtype, noise)
        net.block(*self.arrays(net, max(count, 1), number))  # infers shapes
        _require_grads(net)
        net.write(before)
        try:
            return self.results(net, word, count, number), noise.largest
        except MXNetError as error:
            raise Invalid(str(error)) from error

    def allowed(self, want: Array, exact: Array, spread: Array) -> Array:
        """How far an array may differ; infinite where noise changes an element by much of what the array has."""
        if not is_float(want.dtype):
            return np.zeros(want.shape)
        wide = exact.astype(np.float64)
        size = np.where(np.isfinite(wide), np.abs(wide), np.inf)
        largest = size.max(initial=0.0)
        unit = max(self.unit, epsilon(want.dtype))
        rounding = np.fmax(spread, spread[np.isfinite(spread)].max(initial=0.0) / 4)  # few runs may agree by chance
        allowed = SPREAD * rounding + 32 * unit * size + 4 * unit * largest + (1e-7 if self.unit > 1e-4 else 1e-30)
        return np.where(spread > LEAP * largest, np.inf, allowed)


def _spread(runs: Sequence[Array]) -> Array:
    """How far runs are from the first one."""
    first, *others = [r.astype(np.float64) for r in runs]
    found = np.zeros(first.shape)
    for other in others:
        difference = np.abs(other - first)
        found = np.fmax(found, np.where(np.isfinite(difference), difference, np.inf))
    return found


def _named(what: str, values: Sequence[Any]) -> Results:
    arrays = [v if isinstance(v, NDArray) else v.data() for v in values]
    return {f"{what} {i}": v.asnumpy().copy() for i, v in enumerate(arrays)}


def _most(dtype: str) -> float:
    """Below this, neither values nor their products by a few overflow."""
    return {"float16": 1000.0}.get(dtype, 1e12)


def _compare(got: Results, want: Results, allowed: Results, what: str, against: str) -> None:
    if len(got) != len(want):
        raise CheckFailed("values", f"{what}: {len(got)} results, {against} {len(want)}")
    for (name, ours), theirs in zip(got.items(), want.values(), strict=True):
        kind = "gradients" if name.startswith("gradient") else "values"
        same_dtype = ours.dtype == theirs.dtype or against == "float64"
        if ours.shape != theirs.shape or not same_dtype:
            text = f"{what}: {name} is {ours.dtype}{ours.shape}, {against} {theirs.dtype}{theirs.shape}"
            raise CheckFailed(f"shape or dtype of {kind}", text)
        a, b, bound = ours.astype(np.float64), theirs.astype(np.float64), allowed[name]
        wrong = ~((a == b) | (np.isnan(a) & np.isnan(b))) & ~(np.abs(a - b) <= bound) & ~np.isinf(bound)
        if wrong.any():
            at = tuple(int(n) for n in np.argwhere(wrong)[0])
            raise CheckFailed(
                kind,
                f"{what}: {name} at {list(at)}: got {a[at]}, {against} {b[at]}, allowed difference {bound[at]:.3g}; "
                f"{int(wrong.sum())} of {wrong.size} elements differ",
            )
