"""The namespaces of MXNet that hold utilities: names, signatures, and what is absent says so."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import warnings
from array import array as python_array
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import AbsentError, AbsentImportError, MXNetError, UnsupportedError
from tests.golden.utility_signatures import signature

SIGNATURES = json.loads((Path(__file__).parent / "golden" / "utility_signatures.json").read_text())

# What is another way here: names that begin with these, and why.
DIFFERENT = {
    "base.NotImplementedForSymbol": "it may be made of a text, too",
    "base.NotSupportedForSparseNDArray": "it may be made of a text, too",
    "attribute.AttrScope.get": "its argument may be left out",
    "visualization.": "no default is mutable",
    "executor.Executor": "Symbol.bind makes it, and there is no handle",
    "rtc.CudaKernel.": "making one raises",
    "rtc.CudaModule.": "making one raises",
    "ndarray_doc.": "texts of MXNet's own documentation",
    "symbol_doc.": "texts of MXNet's own documentation",
}


def find(name):
    found = mx
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", [n for n in SIGNATURES if not n.startswith(tuple(DIFFERENT))])
def test_signature(name):
    want = SIGNATURES[name]
    found = find(name)
    assert want is None or signature(found) == want


# --- the top level -------------------------------------------------------------------------------------------


def test_names_of_the_top_level():
    assert mx.mxnet_version == mx.libinfo.__version__ == mx.base.__version__ == "1.9.1"
    assert mx.rnd is mx.random
    assert mx.npx.set_np is mx.util.set_np
    assert mx.is_np_array is mx.util.is_np_array
    assert not mx.is_np_array()
    for name in ("np_shape", "set_np_shape", "use_np_shape", "np_array", "use_np_array", "use_np", "is_np_shape"):
        assert getattr(mx, name) is getattr(mx.util, name)
        assert name in dir(mx)


@pytest.mark.parametrize("name", ["th", "torch", "tvmop", "notebook", "numpy_op_fallback", "api"])
def test_absent_namespaces_say_what_they_are(name):
    with pytest.raises(AbsentError, match=f"has no attribute '{name}': this version of hybridc does not have"):
        getattr(mx, name)
    assert not hasattr(mx, name)
    with pytest.raises(AbsentImportError, match=f"has no attribute '{name}': this version of hybridc does not have"):
        exec(f"from hybridc import {name}")


def test_absent_names_say_so_when_they_are_imported():
    with pytest.raises(ImportError, match=r"did you mean ones"):
        from hybridc.numpy import onez  # noqa: F401
    with pytest.raises(ImportError, match="did you mean csr_matrix"):
        from hybridc.nd.sparse import csr_matriks  # noqa: F401
    with pytest.raises(ImportError, match="did you mean relu"):
        from hybridc.nd import relus  # noqa: F401
    with pytest.raises(AttributeError, match="__nosuch__"):
        _ = mx.nd.__nosuch__


def test_classes_without_instances():
    x = mx.nd.ones(2)
    sparse = mx.nd.sparse
    for cls in (sparse.BaseSparseNDArray, sparse.CSRNDArray, sparse.RowSparseNDArray):
        assert issubclass(cls, mx.nd.NDArray)
        assert not isinstance(x, cls)
    assert issubclass(sparse.CSRNDArray, sparse.BaseSparseNDArray)
    with pytest.raises(UnsupportedError, match=r"does not compile kernels in CUDA; an operator of mx\.op runs on GPUs"):
        mx.rtc.CudaModule("source")


# --- NumPy's semantics ---------------------------------------------------------------------------------------


def shapes(symbol, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return symbol.infer_shape(**given)[:2], symbol.infer_shape_partial(**given)[:2]


def test_sizes_of_zero_are_known_with_np_shape():
    """As MXNet 1.9.1 infers them."""
    data = mx.sym.sin(mx.sym.var("data"))
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="f")
    nothing = (None, None)
    with mx.np_shape():
        assert mx.is_np_shape()
        assert shapes(data) == (nothing, ([None], [None]))
        assert shapes(data, data=()) == (([()], [()]),) * 2
        assert shapes(data, data=(0, 3)) == (([(0, 3)], [(0, 3)]),) * 2
        assert shapes(data, data=(-1, 3)) == (nothing, ([(-1, 3)], [(-1, 3)]))
        assert shapes(mx.sym.sin(mx.sym.var("x", shape=(0, 2))))[0] == ([(0, 2)], [(0, 2)])
        assert shapes(dense, data=(0, 4))[0] == ([(0, 4), (3, 4), (3,)], [(0, 3)])
        assert shapes(dense, f_weight=(3, 4))[1] == ([None, (3, 4), None], [None])
        with mx.np_shape(False):
            assert not mx.is_np_shape()
        assert mx.is_np_shape()
        assert data.simple_bind(mx.cpu(), data=(0, 3)).forward()[0].shape == (0, 3)
    assert not mx.is_np_shape()
    assert shapes(data) == (nothing, ([()], [()]))
    assert shapes(data, data=(0, 3)) == (nothing, ([(0, 3)], [(0, 3)]))
    with pytest.raises(MXNetError, match="do not follow"):
        data.simple_bind(mx.cpu(), data=(0, 3))


def test_np_shape_is_of_the_thread():
    found = []
    with mx.np_shape():
        thread = threading.Thread(target=lambda: found.append(mx.is_np_shape()))
        thread.start()
        thread.join()
    assert found == [False]
    assert mx.set_np_shape(True) is False
    assert mx.set_np_shape(False) is True


def test_use_np_shape_of_functions_and_classes():
    @mx.use_np_shape
    class Some:
        """Whatever is called of it."""

        def method(self):
            return mx.is_np_shape()

        @property
        def prop(self):
            return mx.is_np_shape()

        @staticmethod
        def static():
            return mx.is_np_shape()

        @classmethod
        def of_class(cls):
            return cls.__name__, mx.is_np_shape()

    some = Some()
    assert some.method()
    assert some.prop
    assert some.static()
    assert Some.static()
    assert Some.of_class() == ("Some", True)
    assert mx.use_np_shape(mx.is_np_shape)()
    assert not mx.is_np_shape()
    with pytest.raises(TypeError, match="use_np_shape can only decorate classes and callable objects, got int"):
        mx.use_np_shape(3)


def test_other_utilities(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDC_TEST_VARIABLE", "1")
    assert mx.util.getenv("HYBRIDC_TEST_VARIABLE") == "1"
    mx.util.setenv("HYBRIDC_TEST_VARIABLE", "2")
    assert os.environ["HYBRIDC_TEST_VARIABLE"] == "2"
    mx.util.setenv("HYBRIDC_TEST_VARIABLE", None)
    assert mx.util.getenv("HYBRIDC_TEST_VARIABLE") is None
    mx.util.makedirs(str(tmp_path / "a" / "b"))
    mx.util.makedirs(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert mx.util.default_array([1, 2]).asnumpy().tolist() == [1, 2]
    assert mx.util.set_module("some.module")(lambda: 0).__module__ == "some.module"
    wrapped = mx.util.wrap_np_unary_func(lambda x, out=None: (x, out))
    assert wrapped(1, where=True, order="K") == (1, None)
    for options, kind in (({"order": "C"}, NotImplementedError), ({"casting": "x"}, TypeError), ({"x": 1}, TypeError)):
        with pytest.raises(kind):
            wrapped(1, **options)
        with pytest.raises(kind):
            mx.util.wrap_np_binary_func(lambda x, y, out=None: x)(1, 2, **options)
    with pytest.raises(ValueError, match="Expecting a gpu context"):
        mx.util.get_cuda_compute_capability(mx.cpu())


# --- base ----------------------------------------------------------------------------------------------------


def test_values_of_c():
    base = mx.base
    assert base.py_str("é".encode()) == "é"
    assert base.c_str("é").value == "é".encode()
    assert list(base.c_str_array(["a", "b"])) == [b"a", b"b"]
    assert list(base.c_array(base.mx_float, [1, 2.5])) == [1, 2.5]
    numbers = python_array("f", [1, 2, 3])
    shared = base.c_array_buf(base.mx_float, numbers)
    shared[0] = 7
    assert numbers[0] == 7
    view = base.ctypes2numpy_shared(ctypes.cast(shared, base.mx_float_p), (3, 1))
    assert view.tolist() == [[7], [2], [3]]
    text = ctypes.create_string_buffer(b"abc")
    assert base.ctypes2buffer(ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 2) == bytearray(b"ab")
    with pytest.raises(TypeError, match="expected char pointer"):
        base.ctypes2buffer(text, 2)
    base.check_call(0)
    with pytest.raises(MXNetError, match="returned -1"):
        base.check_call(-1)
    with pytest.raises(AbsentError, match=r"mx\.base\._LIB\.MXGetVersion: hybridc has no library in C"):
        mx.base._LIB.MXGetVersion(0)
    assert base._as_list(1) == [1]
    assert base._as_list((1, 2)) == (1, 2)


def test_classes_and_docstrings():
    class Meta(type):
        pass

    class Made(mx.base.with_metaclass(Meta, dict)):
        size = mx.base.classproperty(lambda cls: cls.__name__)

        def function(self):
            """Text."""

    assert type(Made) is Meta
    assert Made.__bases__ == (dict,)
    assert Made.size == Made().size == "Made"
    mx.base.add_fileline_to_docstring(Made)
    assert Made.function.__doc__.startswith(f"Text.\n\nFrom:{__file__}:")
    doc = mx.base.build_param_doc(["a", "b", "a", "num_args"], ["int", "str", "int", "int"], ["One.", "", "One.", ""])
    assert doc == "Parameters\n----------\na : int\n    One.\nb : str\n"


def test_errors_by_name():
    assert mx.error.register is mx.base.register_error
    assert mx.base.error_types["ValueError"] is ValueError
    assert mx.base.error_types["InternalError"] is mx.error.InternalError

    @mx.error.register
    class SomeError(mx.MXNetError):
        pass

    assert mx.base.error_types.pop("SomeError") is SomeError
    assert mx.error.register("Other")(SomeError) is mx.base.error_types.pop("Other")
    assert "hit an internal error" in str(mx.error.InternalError("text"))
    text, name = mx.base.c2pyerror("ValueError: wrong\nStack trace:\n  a\n  b\n")
    assert (text, name) == ("Traceback (most recent call last):\n  b\n  a\nValueError: wrong", "ValueError")
    error = mx.base.NotImplementedForSymbol(len, "size", 3)
    assert str(error) == (
        "Function len (namely operator \"size\") with arguments (<class 'int'>) is not implemented for Symbol and only "
        "available in NDArray."
    )
    assert "supported for SparseNDArray" in str(mx.base.NotSupportedForSparseNDArray(len, None))


# --- scopes, features, files, operators ----------------------------------------------------------------------


def test_deprecated_properties_of_classes():
    with pytest.warns(DeprecationWarning, match="default_ctx has been deprecated") as caught:
        assert mx.Context.default_ctx == mx.cpu() == mx.gpu().default_ctx
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="default_ctx has been deprecated") as caught:
        mx.Context.default_ctx = mx.cpu(3)
    assert caught[0].filename == __file__
    assert mx.current_context() == mx.cpu(3) == mx.Context._default_ctx.value
    mx.Context._default_ctx.value = mx.cpu()
    assert mx.current_context() == mx.cpu()
    with pytest.warns(DeprecationWarning, match="NameManager.current has been deprecated"):
        assert mx.name.NameManager.current is mx.name.NameManager._current.value
    with mx.AttrScope():
        with pytest.warns(DeprecationWarning, match="AttrScope.current has been deprecated"):
            mx.AttrScope.current = mx.AttrScope(color="red")
        assert mx.sym.var("x").attr("color") == "red"
        with pytest.warns(DeprecationWarning, match="AttrScope.current has been deprecated"):
            assert mx.AttrScope.current is mx.AttrScope._current.value
    assert mx.sym.var("x").attr("color") is None


def test_features():
    features = mx.runtime.Features()
    assert features is mx.runtime.Features()
    assert len(features) == 32
    assert [f.name for f in mx.runtime.feature_list()] == list(features)
    assert features.is_enabled("lapack")
    assert not features.is_enabled("TVM_OP")
    assert features.is_enabled("CUDA") == (mx.context.num_gpus() > 0)
    assert repr(features).startswith("[✖ CUDA, ✖ CUDNN") or repr(features).startswith("[✔ CUDA, ✖ CUDNN")
    with pytest.raises(RuntimeError, match="Feature 'NOSUCH' is unknown, known features are"):
        features.is_enabled("nosuch")


def test_files(tmp_path, monkeypatch):
    assert os.path.isdir(os.path.join(mx.libinfo.find_include_path(), "mxnet"))
    for find_path, variable in ((mx.libinfo.find_lib_path, "MXNET_LIBRARY_PATH"),
                                (mx.libinfo.find_conf_path, "MXNET_CONF_PATH")):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)
        with pytest.raises(RuntimeError, match=f"hybridc has no library in C.*{variable}"):
            find_path()
        path = tmp_path / variable
        path.touch()
        monkeypatch.setenv(variable, str(path))
        assert find_path() == [str(path)]
    monkeypatch.setenv("MXNET_HOME", "/some/folder")
    assert mx.base.data_dir() == "/some/folder"
    assert mx.base.data_dir_default().endswith("mxnet")


# By MXNet 1.9.1, but for what hybridc knows better: sizes are not negative.
ARGUMENTS = {
    "sum": ["NDArray-or-Symbol", "Shape or None, optional, default=None", "boolean, optional, default=0",
            "boolean, optional, default=0"],
    "topk": ["NDArray-or-Symbol", "int or None, optional, default='-1'", "int, optional, default='1'",
             "{'both', 'indices', 'mask', 'value'},optional, default='indices'", "boolean, optional, default=0"],
    "clip": ["NDArray-or-Symbol", "float, required", "float, required"],
    "slice": ["NDArray-or-Symbol", "Shape(tuple), required", "Shape(tuple), required",
              "Shape(tuple), optional, default=[]"],
}  # fmt: skip
NAMES = {
    "FullyConnected": ["data", "weight", "bias", "num_hidden", "no_bias", "flatten"],
    "Convolution": ["data", "weight", "bias", "kernel", "stride", "dilate", "pad", "num_filter", "num_group",
                    "workspace", "no_bias", "cudnn_tune", "cudnn_off", "layout"],
    "_contrib_box_iou": ["lhs", "rhs", "format"],
    "Dropout": ["data", "p", "mode", "axes", "cudnn_off"],
}  # fmt: skip


def test_operators():
    listed = mx.operator.get_all_registered_operators()
    assert {"exp", "FullyConnected", "_linalg_gemm2", "_contrib_box_nms", "_plus_scalar", "Custom"} <= set(listed)
    assert not any("." in name for name in listed)
    for name, kinds in ARGUMENTS.items():
        found = mx.operator.get_operator_arguments(name)
        assert found.types[: len(kinds)] == kinds
        assert found.narg == len(found.names) == len(found.types)
    for name, names in NAMES.items():
        assert mx.operator.get_operator_arguments(name).names == names
    assert mx.operator.get_operator_arguments("_plus_scalar").names == ["data", "scalar", "is_int"]
    assert mx.operator.get_operator_arguments("Concat").types[0] == "NDArray-or-Symbol[]"
    with pytest.raises(MXNetError, match="Operator nosuch is not registered"):
        mx.operator.get_operator_arguments("nosuch")


def test_documentation_of_operators():
    class tanhDoc(mx.ndarray_doc.NDArrayDoc):
        """More."""

    text = mx.ndarray_doc._build_doc("tanh", "Does.", ["data"], ["NDArray-or-Symbol"], ["The input."])
    assert text.startswith("Does.\n\nParameters\n----------\ndata : NDArray\n    The input.\nout : NDArray, optional")
    assert text.endswith("\nMore.")
    text = mx.symbol_doc._build_doc("tanh", "Does.", ["data"], ["NDArray-or-Symbol"], [""], "num_args")
    assert "data : Symbol\nname : string" in text
    assert "variable length" in text
    dense = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="f")
    assert mx.symbol_doc.SymbolDoc.get_output_shape(dense, x=(2, 4)) == {"f_output": (2, 3)}


def test_a_symbol_and_its_executor():
    a = mx.sym.var("a")
    executor = (a * 2).bind(mx.cpu(), {"a": mx.nd.ones(2)})
    found = executor.get_optimized_symbol()
    assert found.eval(a=mx.nd.ones(2))[0].asnumpy().tolist() == [2, 2]


def test_utilities_are_imported_lightly():
    code = """
import sys
import hybridc as mx
mx.base, mx.error, mx.util, mx.np, mx.npx, mx.nd.sparse, mx.rtc, mx.runtime.Features, mx.test_utils, mx.libinfo
heavy = [m for m in ("scipy", "xdsl", "hybridc.gluon.nn") if m in sys.modules]
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keywords_that_operators_do_not_have():
    x = mx.nd.ones((2, 3))
    for space in (mx.nd, mx.sym):
        given = x if space is mx.nd else mx.sym.var("x")
        with pytest.raises(
            MXNetError, match=r"softmax\(\) got an unexpected keyword argument 'axes'; did you mean axis"
        ):
            space.softmax(given, axes=1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'nosuch'; it takes data"):
            space.exp(given, nosuch=1)
    assert np.allclose(mx.nd.softmax(x, axis=1).asnumpy(), 1 / 3)


def test_older_learning_rates(caplog):
    from hybridc import misc

    schedule = misc.FactorScheduler(step=10, factor=0.5)
    schedule.base_lr = 0.4
    with caplog.at_level("INFO"):
        assert [schedule(i) for i in (0, 9, 10, 25)] == [0.4, 0.4, 0.2, 0.1]
    assert [r.message for r in caplog.records] == [
        "At Iteration [10]: Swith to new learning rate 0.20000",
        "At Iteration [25]: Swith to new learning rate 0.10000",
    ]
    assert misc.FactorScheduler(1).factor == 0.1
    with pytest.raises(NotImplementedError, match="must override this"):
        misc.LearningRateScheduler()(0)
    with pytest.raises(ValueError, match="step must be at least 1, got 0"):
        misc.FactorScheduler(0)
    with pytest.raises(ValueError, match="factor must be less than 1"):
        misc.FactorScheduler(1, 1.0)
