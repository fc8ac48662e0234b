"""Print the llvm dialect as LLVM IR.

xDSL's own printer (through llvmlite's IR builder) lacks flags on calls, conversions, bf16 and function
attributes, and takes three times as long. Constants are printed inline; values are numbered.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import LLVMTranslationException

from hybridc.lower.llvm.codegen.llvm_ir_ops import CONSTANTS, WRITE
from hybridc.lower.llvm.codegen.llvm_ir_values import attribute_text, type_text
from hybridc.lower.llvm.codegen.llvm_ops import CARRIED, OUTER, SUMS

_NOT_UNROLLED = '!"llvm.loop.unroll.runtime.disable"'
_MANY_REGISTERS = 512  # vectors of so many bits have 32 registers
_LONG = 16  # vector iterations after which the scalar remainder is negligible


def llvm_ir(modules: Iterable[tuple[ModuleOp, str]], vector_bits: int = 128) -> str:
    """The functions of these modules as one LLVM module.

    What a module exports gets the name given with it. Equal private functions of several modules are printed once.
    ``vector_bits`` is the width of vectors.
    """
    text = _Text(vector_bits)
    for module, symbol in modules:
        _Module(module, symbol, text).write()
    return "\n".join([*text.functions, *text.declarations.values(), *text.metadata, ""])


class _Text:
    """The LLVM module that is printed."""

    def __init__(self, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.functions: list[str] = []
        self.private: dict[tuple[str, str], str] = {}  # name and text of a function → its symbol here
        self.declarations: dict[str, str] = {}
        self.metadata: list[str] = []
        self.properties: dict[str, str] = {}  # metadata nodes, and their names

    def add(self, name: str, head: str, body: str) -> str:
        """Print a private function, unless an equal one is there; its symbol."""
        known = self.private.get((name, head + body))
        if known is None:
            known = self.private[name, head + body] = f"{name}.{len(self.private)}"
            self.functions.append(head.replace(f"@{name}(", f"@{known}(", 1) + body)
        return known

    def declare(self, op: llvm.FuncOp) -> None:
        """Declare an external function."""
        name = op.sym_name.data
        inputs = ", ".join(type_text(t) for t in op.function_type.inputs)
        self.declarations[name] = f"declare {type_text(op.function_type.output)} @{name}({inputs})"

    def loop(self, kind: Attribute, rounds: Attribute | None) -> str:
        """The loop metadata: the interleave count, or no vectorisation.

        Interleaved vectors hide latencies. LLVM's default is higher, which makes twice the code, takes
        twice the time to compile, and runs as fast at best. A loop that accumulates is not vectorised over its
        iterations: the remainder would be added in another order, and results would depend on where a range is cut.
        """
        known = rounds.value.data if isinstance(rounds, IntegerAttr) else None
        if kind == OUTER:
            return self._metadata(_NOT_UNROLLED)
        if kind == SUMS:
            return self._metadata(_NOT_UNROLLED, '!"llvm.loop.vectorize.enable", i1 false')
        return self._metadata(_NOT_UNROLLED, f'!"llvm.loop.interleave.count", i32 {self._abreast(kind, known)}')

    def _abreast(self, kind: Attribute, rounds: int | None) -> int:
        """The interleave count: lower where the scalar remainder would be long."""
        abreast = 4 if kind == CARRIED else 2 if self.vector_bits >= _MANY_REGISTERS else 1
        lanes = self.vector_bits // 32
        while abreast > 1 and rounds is not None and rounds < _LONG * abreast * lanes and rounds % (abreast * lanes):
            abreast //= 2
        return abreast

    def _metadata(self, *properties: str) -> str:
        """The name of a distinct metadata node; equal properties are printed once."""
        names: list[str] = []
        for each in properties:
            if each not in self.properties:
                self.properties[each] = self._number(f"!{{{each}}}")
            names.append(self.properties[each])
        number = f"!{len(self.metadata)}"
        self.metadata.append(f"{number} = distinct !{{{', '.join((number, *names))}}}")
        return number

    def _number(self, text: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text}")
        return name


class _Module:
    """A module of the llvm dialect; each function is printed after its callees."""

    def __init__(self, module: ModuleOp, symbol: str, text: _Text) -> None:
        self.functions: dict[str, llvm.FuncOp] = {}
        for op in module.ops:
            if not isinstance(op, llvm.FuncOp):
                raise LLVMTranslationException(f"a module of the llvm dialect holds llvm.func only, got {op.name}")
            self.functions[op.sym_name.data] = op
        self.symbol = symbol
        self.text = text
        self.names: dict[str, str] = {}

    def write(self) -> None:
        """Print the exported function and all that it needs."""
        for name, op in self.functions.items():
            if op.body.blocks and op.linkage.linkage.data == "external":
                self.name(name)

    def name(self, name: str) -> str:
        """The symbol of a function, which is printed on first use."""
        if (known := self.names.get(name)) is None:
            known = self.names[name] = self._write(name)
        return known

    def _write(self, name: str) -> str:
        op = self.functions[name]
        if not op.body.blocks:  # external
            self.text.declare(op)
            return name
        function = LLVMFunction(op, self)
        if op.linkage.linkage.data == "external":
            self.text.functions.append(function.head(self.symbol) + function.body())
            return self.symbol
        head = function.head(name)
        return self.text.add(name, head, function.body())


class LLVMFunction:
    """One function that is printed."""

    def __init__(self, op: llvm.FuncOp, module: _Module) -> None:
        self.op = op
        self.module = module
        self.names: dict[SSAValue, str] = {}
        self.typed: dict[SSAValue, str] = {}  # operands with their types
        self.blocks: dict[Block, str] = {}
        self.incoming: dict[Block, list[tuple[str, list[str]]]] = {}
        self.lines: list[str] = []

    def head(self, name: str) -> str:
        """The ``define`` line."""
        op = self.op
        kind = op.function_type
        attributes = op.arg_attrs.data if op.arg_attrs is not None else [None] * len(kind.inputs.data)
        arguments: list[str] = []
        for value, given in zip(op.body.blocks[0].args, attributes):
            self._number(value)
            marks = "".join(f"{mark.removeprefix('llvm.')} " for mark in (given.data if given else ()))
            arguments.append(f"{type_text(value.type)} {marks}{self.names[value]}")
        linkage = "" if op.linkage.linkage.data == "external" else f"{op.linkage.linkage.data} "
        through = op.passthrough.data if isinstance(op.passthrough, ArrayAttr) else ()
        flags = "".join(f" {attribute_text(a)}" for a in through)
        width = f'"prefer-vector-width"="{self.module.text.vector_bits}"'
        return f"define {linkage}{type_text(kind.output)} @{name}({', '.join(arguments)}){flags} {width} {{\n"

    def body(self) -> str:
        """The lines after the head, which has named the arguments."""
        blocks = [(block, list(block.ops)) for block in self.op.body.blocks]
        for i, (block, ops) in enumerate(blocks):
            self.blocks[block] = f"b{i}"
            for value in block.args if i else ():
                self._number(value)
            for op in ops:
                self._name(op)
        for block, _ in blocks:
            self._leave(block)
        for i, (block, ops) in enumerate(blocks):
            self.lines.append(f"{self.blocks[block]}:")
            if i:
                self._phis(block)
            for op in ops:
                write = WRITE.get(type(op))
                if write is None:
                    raise LLVMTranslationException(f"{op.name} cannot be printed as LLVM IR")
                if (line := write(self, op)) is not None:
                    self.lines.append(line)
        return "\n".join([*self.lines, "}", ""])

    def _name(self, op: Operation) -> None:
        """Number the results; a constant's name is its text."""
        known = CONSTANTS.get(type(op))
        if known is not None:
            self._put(op.results[0], known(op))
            return
        for result in op.results:
            self._number(result)

    def _number(self, value: SSAValue) -> None:
        self._put(value, f"%{len(self.names)}")

    def _put(self, value: SSAValue, name: str) -> None:
        self.names[value] = name
        self.typed[value] = f"{type_text(value.type)} {name}"

    def _leave(self, block: Block) -> None:
        """Record the phi operands that this block passes to its successors."""
        last = block.last_op
        if isinstance(last, llvm.BrOp):
            self._edge(block, last.successor, last.arguments)
        elif isinstance(last, llvm.CondBrOp):
            self._edge(block, last.then_block, last.then_arguments)
            self._edge(block, last.else_block, last.else_arguments)

    def _edge(self, source: Block, target: Block, values: Iterable[SSAValue]) -> None:
        names = [self.names[v] for v in values]
        self.incoming.setdefault(target, []).append((self.blocks[source], names))

    def _phis(self, block: Block) -> None:
        edges = self.incoming.get(block, [])
        for i, value in enumerate(block.args):
            cases = ", ".join(f"[ {names[i]}, %{label} ]" for label, names in edges)
            self.lines.append(f"  {self.names[value]} = phi {type_text(value.type)} {cases}")

    def result(self, op: Operation) -> str:
        """``%n = `` of an operation with one result."""
        return f"  {self.names[op.results[0]]} = "

    def call(self, op: Operation, name: str, operands: Iterable[SSAValue], flags: str = "") -> str:
        """A call of a function by its symbol."""
        kind = type_text(op.results[0].type) if op.results else "void"
        head = self.result(op) if op.results else "  "
        return f"{head}call {flags}{kind} @{name}({', '.join(self.typed[v] for v in operands)})"
