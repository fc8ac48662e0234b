"""Every exception class of hybridc, with an example of what raises it and the way out."""

from __future__ import annotations

from typing import Any


class MXNetError(RuntimeError):
    """An operator or network was used in a way it cannot work: the base of all errors here.

    Raised for example by ``mx.nd.ones((2, 3)) + mx.nd.ones((4,))``: shapes that do not broadcast. The text names the
    operator, what it got and what it expected.
    """

    def restated(self, text: str) -> MXNetError:
        """The same kind of error with another ``text``; what it tells of the user's own code stays: cause and notes."""
        made = type(self)(text)
        notes: list[str] = getattr(self, "__notes__", [])
        for note in notes:
            made.add_note(note)
        made.__cause__ = self if notes else self.__cause__
        return made


class UnsupportedError(MXNetError):
    """A feature of MXNet that hybridc does not offer; the text says what to use instead."""


class AbsentError(UnsupportedError, AttributeError):
    """A name of MXNet was used that hybridc does not have, such as Torch's for Lua; the text says what to use instead.

    It is an AttributeError, so that ``hasattr`` finds nothing there.
    """


class AbsentImportError(UnsupportedError, ModuleNotFoundError):
    """A name of MXNet was imported that hybridc does not have; the text says where it is, or what to use instead."""


class InternalError(MXNetError):
    """``mx.error.InternalError``: a part of the library, not its user, is wrong. hybridc itself raises VerifyError.

    Parameters
    ----------
    msg:
        The text, to which MXNet's hint is added.
    """

    def __init__(self, msg: str) -> None:
        hint = (
            "" if "hint:" in msg else "\nMXNet hint: You hit an internal error. Please report it where hybridc is from."
        )
        super().__init__(msg + hint)


class ShapeError(MXNetError, ValueError):
    """The shapes of an operator's inputs do not fit together; reshape or transpose them as the text says."""


class OpenShapeError(ShapeError):
    """A shape of a symbol was read that follows from its use alone, as one with a size 0; give it where it is made."""


class DTypeError(MXNetError):
    """The dtypes of an operator's inputs do not fit together; use ``x.astype(…)`` on one of them."""


class ArgumentTypeError(MXNetError, TypeError, AssertionError):
    """Something got an argument of another type than it takes, as ``x + "a"``, or one of a name that it has not.

    The text names the argument, what it got and what it takes.
    """


class AnomalyError(MXNetError, ArithmeticError):
    """Inside ``mx.debug.detect_anomaly()``: an operator made a NaN or an infinity, as ``mx.nd.log`` of -1 does.

    The text names the operator, the block and the line, and says what the inputs were: mend it where these went wrong.
    """


class IndexRangeError(MXNetError, IndexError):
    """An index names no element, as in ``nd.take(x, nd.array([9]), mode="raise")`` for a shorter x.

    Give one that the text says there is; the modes ``"clip"`` and ``"wrap"`` of ``nd.take`` accept all.
    """


class AttributeValueError(MXNetError, ValueError):
    """An operator got an attribute it cannot use, as ``act_type='rleu'``; the text lists what it takes."""


class DTypeNameError(AttributeValueError, TypeError):
    """An attribute that takes a dtype got something else, as ``x.astype("float33")``; NumPy's names are taken."""


class BroadcastError(ShapeError):
    """An array cannot be broadcast to a shape, as in ``mx.nd.ones((2, 3)).broadcast_to((4, 5))``.

    Each size must be that of the shape, or 1; ``reshape`` or ``expand_dims`` before puts axes where they should be.
    """


class CheckError(MXNetError, AssertionError, ValueError):
    """An object is used against its rules; MXNet checks these with ``assert``, so it is an AssertionError too.

    ``net.load_parameters(f)`` raises it if the file lacks a parameter; the text names the parameter and the way out.
    """


class CheckedShapeError(ShapeError, CheckError):
    """Shapes that a Gluon object checks do not fit, as where a cell is unrolled for more steps than its inputs have.

    The text says which shape was got, and which is expected.
    """


class NotOverriddenError(MXNetError, NotImplementedError):
    """A class of yours lacks a method that it must have, as a ``Block`` without ``forward()``; define it there."""


class NestedArraysError(MXNetError, ValueError, TypeError):
    """A hybridized block got or returned something that is neither an array nor nested lists of arrays, as ``"a"``.

    Keep other values as attributes of the block.
    """


class OneElementError(MXNetError, ValueError, TypeError):
    """An array of several elements was used as a number, as in ``float(mx.nd.ones((2, 3)))``; reduce it before."""


class UnknownNameError(UnsupportedError, KeyError):
    """A word is none of those that there are, as in ``mx.Context("tpu")``; the text lists them."""

    __str__ = MXNetError.__str__  # KeyError's would quote the text


class CustomOpError(MXNetError):
    """A custom operator of the user raised, in its forward, its backward or its Prop; ``__cause__`` is what it raised.

    A ``1 / 0`` in ``MyOp.forward`` gives it at ``nd.Custom(x, op_type="my_op")``; the text names the user's file and
    line.
    """


class DeferredInitializationError(MXNetError):
    """A parameter was read before the first forward pass gave it a shape.

    ``net = nn.Dense(5); net.initialize(); net.weight.data()`` raises it: call ``net(x)`` once, or give ``Dense(5,
    in_units=...)``.
    """


class ParameterShapeError(ShapeError):
    """Shapes do not fit, or do not say enough, while those of a network's parameters are inferred at its first call.

    ``net = nn.Dense(5)`` infers its weight from the first input. Give the shape where the parameter is made
    (``in_units=…``, ``shape=…``) if it does not follow, or mend what the text says of the shapes.
    """


class DeviceError(MXNetError):
    """A GPU's driver refused what was asked of it; the text names the call and the driver's own words.

    A kernel that read beyond its arrays shows at a later call, often ``x.asnumpy()``: the device works behind Python's
    back. The text names the latest launches; ``CUDA_LAUNCH_BLOCKING=1`` makes it show where it happened.
    """


class DeviceMemoryError(MXNetError):
    """A device has not the memory that was asked for, as for ``mx.nd.zeros((1 << 40,), ctx=mx.gpu())``.

    The text says how many bytes were wanted. Arrays that were there before are as they were: free some, or use smaller
    batches.
    """


class LimitError(MXNetError):
    """A limit of the system is reached: this process may start no thread or process, or map no more memory.

    The text says which limit, what needed more, and what to do instead: ``DataLoader(num_workers=2)`` raises it where
    no process can be started.
    """


class OperatorCheckError(MXNetError, AssertionError):
    """An operator does not do what its class and its samples say; found by ``mx.test_utils.check_op``.

    A gradient that forgets a factor raises it: the text says for which input, what was got and expected.
    """


class OptionError(MXNetError, ValueError):
    """A setting has a value that it cannot have here, as ``HYBRIDC_CPU=x86-64-v9``; the text lists what it takes.

    Variables are read when hybridc is imported. ``HYBRIDC_CPU=x86-64-v4`` may be set on a processor without AVX-512:
    its code can be looked at there, and calling a network raises this error.
    """


class DownloadError(MXNetError, OSError):
    """A file that is not here could not be downloaded, as by ``mx.test_utils.get_mnist()`` without a network.

    The text says where to put the file by hand.
    """


class FileWriteError(MXNetError, OSError):
    """A file cannot be written, as by ``mx.nd.save("/nosuch/a", x)`` or where the disk is full; it is an OSError too.

    The text names the file, the system's reason and what helps. A file that was there before is as it was.
    """


class FileFormatError(UnsupportedError, ValueError):
    """A file of arrays is of a format that is not read or written here, as ``net.save_parameters("w.pt")``.

    The text names the formats that are, and how arrays get from there to here.
    """


class CompiledFileError(MXNetError):
    """A file of compiled graphs cannot be used here, as by ``SymbolBlock.imports(…, compiled="net-0000.compiled")``.

    It is damaged, or was compiled for another processor or by another version of hybridc; the text says which. Compile
    it again on such a computer, or leave ``compiled`` out: then the network is compiled at its first call.
    """


class OnnxFileError(MXNetError, ValueError):
    """An ONNX model cannot be read or run: its file is damaged, or contradicts itself or the standard.

    ``hybridc.onnx.load("notes.txt")`` raises it. The text names the file, the node and its operator, and what is wrong
    there; nothing of the file is used. The checker of the package onnx often says more.
    """


class OnnxUnsupportedError(OnnxFileError, UnsupportedError):
    """An ONNX model uses an operator, dtype or feature that hybridc does not have, or not in compiled graphs.

    A graph whose sizes follow from values, as NonZero's, raises it after ``hybridize()``: leave it unhybridized.
    """


class MissingPackageError(MXNetError, ImportError):
    """A package that an extra of hybridc brings is not installed, as ``onnx`` for ``hybridc.onnx.load``.

    The text says how to install it: ``pip install 'hybridc[onnx]'``.
    """


class MissingFolderError(FileWriteError, FileNotFoundError):
    """A file is to be written into a folder that does not exist, as by ``trainer.save_states("/nosuch/a")``.

    Make the folder before, as by ``os.makedirs(folder, exist_ok=True)``.
    """


class WriteRefusedError(FileWriteError, PermissionError):
    """A file is to be written where this user may not, as into another user's folder; choose another, or its rights."""


class UnreadableFolderError(MXNetError, FileNotFoundError):
    """A folder cannot be read, as by ``ImageFolderDataset("/nosuch")``; it is an OSError too.

    The text names the folder and the system's reason: it is not there, or this user may not read it.
    """


class ProfilerObjectError(ArgumentTypeError, AttributeError):
    """A task, frame, event, counter or marker of the profiler is made of something other than a name and a Domain.

    ``mx.profiler.Task("domain", "name")`` raises it: use ``mx.profiler.Domain("domain").new_task("name")``.
    """


class RecompileError(MXNetError):
    """A network would have to be compiled inside ``with hybridc.no_recompile():``; the text tells the reason.

    A batch of another size than those before raises it: call the network with that size before, or pad the batch.
    """


class _FunctionError(UnsupportedError):
    """Errors that are made from a text, or as MXNet's are: from a function, its operator or None, its arguments.

    Parameters
    ----------
    function:
        A text; or the function that is not there, and the text says so.
    alias:
        The name of its operator, which the text then names; None for none.
    """

    where = ""

    def __init__(self, function: Any = "", alias: str | None = None, *args: Any) -> None:
        if callable(function):
            self.function = getattr(function, "__name__", repr(function))
            self.alias = alias
            operator = f' (namely operator "{alias}")' if alias else ""
            words = ", ".join(str(a.__class__) for a in args)
            kinds = f" with arguments ({words})" if args else ""
            function = f"Function {self.function}{operator}{kinds} is not {self.where} and only available in NDArray."
        super().__init__(function)


class NotImplementedForSymbol(_FunctionError):
    """A method of arrays was called that a symbol of ``mx.sym`` cannot have, as ``mx.sym.var("data").asnumpy()``.

    The symbol has values when it is bound: use ``eval`` or an executor, and ``F.where`` instead of ``if``. A class of
    yours may raise it as MXNet's do: ``raise NotImplementedForSymbol(self.asnumpy, None)``.
    """

    where = "implemented for Symbol"


class NotSupportedForSparseNDArray(_FunctionError):
    """A method of dense arrays was called on a sparse one: ``raise NotSupportedForSparseNDArray(self.reshape, None)``.

    Arrays of hybridc are dense, so it raises this nowhere itself.
    """

    where = "supported for SparseNDArray"


class TraceError(NotImplementedForSymbol):
    """Something in a forward function needs an array's value while only its shape is known.

    ``if x.sum() > 0:`` in a hybridized block raises it. Use ``F.where``, or leave that block unhybridized.
    """


class UnknownShapeError(MXNetError, AttributeError):
    """A symbol of ``mx.sym`` was asked for its shape or dtype, which it has only when it is bound.

    ``mx.sym.var("data").shape`` raises it; ``sym.infer_shape(data=(2, 3))`` tells what follows from an input's shape.
    """


class OnnxExportError(UnsupportedError):
    """A network cannot be written as a model of ONNX: an operator has no translation, or an axis cannot vary.

    The text names the operator, the block and the line, and what to write instead.
    """


class VerifyError(MXNetError):
    """A compiler stage left something that the next level does not allow: a bug of a pass, never of the user.

    Report it with the text, and what ``HYBRIDC_DUMP`` writes; unhybridized the network runs without the compiler.
    """
