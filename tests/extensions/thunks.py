"""The functions of a compiled library, called as its host calls them, from the description of the interface alone.

Nothing here is shared with hybridc's loader: what both do wrong in the same way does not pass unseen.
"""

import ctypes
import functools
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint, c_void_p

import numpy as np

from tests import built

TYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64"]
MALLOC = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_int)
ARRAY_MALLOC = ctypes.CFUNCTYPE(
    None, c_void_p, POINTER(c_int64), c_int, c_char_p, c_int, c_int, c_char_p, c_int, POINTER(c_void_p)
)


@functools.cache
def made(folder, target):
    """The library of an example."""
    return Thunks(built.example(folder, target))


def _strings(texts):
    return (c_char_p * (len(texts) + 1))(*[t.encode() for t in texts])


def _attributes(attributes):
    return _strings(list(attributes)), _strings([str(v) for v in attributes.values()]), c_int(len(attributes))


def _array(kind, values):
    return (kind * (len(values) + 1))(*values)


class Failed(Exception):
    """A call that returned 0, with the messages that it added."""


class Operator:
    def __init__(self, library, index):
        name, subgraph = c_char_p(), c_int()
        tables = [(POINTER(c_char_p)(), POINTER(c_void_p)(), c_int()) for _ in range(3)]
        functions = [c_void_p() for _ in range(5)]
        outs = [byref(x) for table in tables for x in table] + [byref(f) for f in functions]
        library.handle._opRegGet(c_int(index), byref(name), byref(subgraph), *outs)
        self.library, self.name, self.is_subgraph = library, name.value.decode(), bool(subgraph.value)
        by_context = [{n[i].decode(): f[i] for i in range(c.value)} for n, f, c in tables]
        self.forwards, self.backwards, self.creates = by_context
        self.parse, self.type, self.storage, self.shape, self.mutate = [f.value for f in functions]

    def counts(self, **attributes):
        counts = c_int(-1), c_int(-1)
        self.library.call("_opCallParseAttrs", c_void_p(self.parse), *_attributes(attributes), *map(byref, counts))
        return tuple(c.value for c in counts)

    def types(self, inputs, outputs=1, **attributes):
        given, made = _array(c_int, inputs), _array(c_int, [-9] * outputs)
        call = c_void_p(self.type), *_attributes(attributes), given, c_int(len(inputs)), made, c_int(outputs)
        self.library.call("_opCallInferType", *call)
        return list(given)[: len(inputs)], list(made)[:outputs]

    def shapes(self, inputs, outputs=1, **attributes):
        """Shapes of inputs and of outputs; None is unknown."""
        rows = [_array(c_uint, s or ()) for s in inputs]
        given = _array(POINTER(c_uint), [ctypes.cast(r, POINTER(c_uint)) for r in rows])
        ndims = _array(c_int, [-1 if s is None else len(s) for s in inputs])
        results = [POINTER(POINTER(c_uint))(), POINTER(c_int)(), POINTER(POINTER(c_uint))(), POINTER(c_int)()]
        call = c_void_p(self.shape), *_attributes(attributes), given, ndims, c_int(len(inputs))
        self.library.call("_opCallInferShape", *call, *map(byref, results), c_int(outputs))
        sides = (results[0], results[1], len(inputs)), (results[2], results[3], outputs)
        found = [[tuple(dims[i][: ndim[i]]) for i in range(count)] for dims, ndim, count in sides]
        for dims, ndim, count in sides:
            for pointer in [*dims[:count], dims, ndim]:
                self.library.handle._opCallFree(ctypes.cast(pointer, c_void_p))
        return found

    def mutated(self, **attributes):
        if self.mutate is None:
            return []
        indices, count = POINTER(c_int)(), c_int()
        call = c_void_p(self.mutate), *_attributes(attributes), byref(indices), byref(count)
        self.library.call("_opCallMutateInputs", *call)
        found = indices[: count.value]
        self.library.handle._opCallFree(ctypes.cast(indices, c_void_p))
        return found

    def forward(self, inputs, outputs, **attributes):
        return self._compute(self.forwards["cpu"], inputs, outputs, attributes)

    def backward(self, inputs, outputs, **attributes):
        return self._compute(self.backwards["cpu"], inputs, outputs, attributes)

    def _compute(self, function, inputs, outputs, attributes):
        head = c_void_p(function), *_attributes(attributes)
        return self.library.compute("_opCallFCompute", head, inputs, outputs)

    def state(self, shapes, types, **attributes):
        rows = [_array(c_uint, s) for s in shapes]
        given = _array(POINTER(c_uint), [ctypes.cast(r, POINTER(c_uint)) for r in rows])
        ndims, kinds, state = _array(c_int, [len(s) for s in shapes]), _array(c_int, types), c_void_p()
        call = c_void_p(self.creates["cpu"]), *_attributes(attributes), c_char_p(b"cpu"), c_int(0), given, ndims
        self.library.call("_opCallCreateOpState", *call, c_int(len(shapes)), kinds, byref(state))
        return state


class Thunks:
    def __init__(self, path):
        self.path, self.handle = path, ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
        self.handle._opCallFree.restype = None
        self.told = self.handle._msgSize()
        assert self.handle._opVersion() == 11
        self.call("initialize", c_int(10901))
        self.ops = {o.name: o for o in (Operator(self, i) for i in range(self.handle._opRegSize()))}
        self.random = (np.zeros((1024, 625), np.uint64), np.random.default_rng(0))  # std::mt19937 of libstdc++
        self.random[0][:, :624] = self.random[1].integers(0, 2**32, (1024, 624))
        self.random[0][:, 624] = 624

    def messages(self):
        """What was added since the last call."""
        texts, text = [], c_char_p()
        for i in range(self.told, self.handle._msgSize()):
            self.handle._msgGet(c_int(i), byref(text))
            texts.append(text.value.decode())
        self.told += len(texts)
        return texts

    def call(self, name, *arguments):
        returned = getattr(self.handle, name)(*arguments)
        if returned != 1:
            raise Failed("\n".join(self.messages()))

    def compute(self, name, head, inputs, outputs):
        kept = []

        def malloc(_, size):
            kept.append(ctypes.create_string_buffer(size))
            return ctypes.addressof(kept[-1])

        sides = [x for arrays in (inputs, outputs) for x in self._side(arrays)]
        allocate, dense = MALLOC(malloc), [_array(c_int, [0] * len(a)) for a in (inputs, outputs)]
        empty = [_array(c_void_p, [None] * (len(inputs) + len(outputs))) for _ in range(8)]
        rest = allocate, None, None, None, None, None, None, *dense, *empty
        self.call(name, *head, *sides, *rest, c_void_p(self.random[0].ctypes.data), None)
        return outputs

    def stateful(self, is_forward, state, inputs, outputs):
        return self.compute("_opCallFStatefulCompute", (c_int(is_forward), state), inputs, outputs)

    @staticmethod
    def _side(arrays):
        shapes = [_array(c_int64, a.shape) for a in arrays]
        return (
            _array(POINTER(c_int64), [ctypes.cast(s, POINTER(c_int64)) for s in shapes]),
            _array(c_int, [a.ndim for a in arrays]),
            _array(c_void_p, [a.ctypes.data for a in arrays]),
            _array(c_int, [TYPES.index(a.dtype.name) if a.dtype.name in TYPES else 7 for a in arrays]),
            _array(c_size_t, [0] * len(arrays)),
            _strings(["cpu"] * len(arrays)),
            _array(c_int, [0] * len(arrays)),
            c_int(len(arrays)),
        )

    def _variables(self, arrays):
        shapes, ndims, data, kinds, ids, devices, device_ids, count = self._side(list(arrays.values()))
        return _strings(list(arrays)), count, data, shapes, ndims, kinds, ids, devices, device_ids

    def passes(self):
        body, name, found = c_void_p(), c_char_p(), {}
        for i in range(self.handle._passRegSize()):
            self.handle._passRegGet(c_int(i), byref(body), byref(name))
            found[name.value.decode()] = body.value
        return found

    def run_pass(self, name, json, arrays, **options):
        """The new graph's JSON; arrays that the pass makes are added to ``arrays``."""

        def malloc(_, shape, ndim, device, device_id, kind, new_name, is_argument, data):
            array = np.zeros(shape[:ndim], TYPES[kind])
            arrays[new_name.decode()] = array
            data[0] = array.ctypes.data

        out, allocate = c_char_p(), ARRAY_MALLOC(malloc)
        head = c_void_p(self.passes()[name]), c_char_p(json.encode()), byref(out), *_attributes(options)
        variables = *self._variables(dict(arrays)), *self._variables({})
        self.call("_passCallGraphPass", *head, c_char_p(name.encode()), *variables, allocate, None)
        return out.value.decode()

    def partitioners(self):
        """(partitioner, strategy) → its operator's name and its three functions."""
        found = {}
        for i in range(self.handle._partRegSize()):
            name = c_char_p()
            for j in range(self.handle._partRegGetCount(c_int(i), byref(name))):
                strategy, op, functions = c_char_p(), c_char_p(), [c_void_p() for _ in range(3)]
                self.handle._partRegGet(c_int(i), c_int(j), byref(strategy), *map(byref, functions), byref(op))
                key = name.value.decode(), strategy.value.decode()
                found[key] = (op.value.decode(), *[f.value for f in functions])
        return found

    def supported(self, function, json, count, **options):
        ids = _array(c_int, [-7] * count)
        head = c_void_p(function), c_char_p(json.encode()), c_int(count), ids
        self.call("_partCallSupportedOps", *head, *_attributes(options))
        return list(ids)[:count]

    def selector(self, function, json, **options):
        made = c_void_p()
        head = c_void_p(function), c_char_p(json.encode()), byref(made)
        self.call("_partCallCreateSelector", *head, *_attributes(options))
        return made

    def select(self, name, *arguments):
        chosen = c_int(-7)
        getattr(self.handle, name)(*arguments, byref(chosen))
        return chosen.value

    def filtered(self, selector, candidates):
        kept, count = POINTER(c_int)(), c_int(-7)
        given = _array(c_int, candidates)
        self.handle._partCallFilter(selector, given, c_int(len(candidates)), byref(kept), byref(count))
        found = kept[: count.value]
        self.handle._opCallFree(ctypes.cast(kept, c_void_p))
        return found

    def reviewed(self, function, json, arrays, **options):
        """Whether the subgraph is accepted, and the attributes of the operator that replaces it."""
        accept, keys, values, count = c_int(-7), POINTER(c_char_p)(), POINTER(c_char_p)(), c_int(-7)
        head = c_void_p(function), c_char_p(json.encode()), c_int(3), byref(accept), *_attributes(options)
        news, variables = (byref(keys), byref(values), byref(count)), self._variables(arrays)
        self.call("_partCallReviewSubgraph", *head, *news, *variables, *self._variables({}))
        return bool(accept.value), {keys[i].decode(): values[i].decode() for i in range(count.value)}
