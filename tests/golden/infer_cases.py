"""Symbols, and what is known of their arguments, for inference of shapes and dtypes: by name, code and known values.

The code sees ``mx`` and the variables ``a`` to ``d``. MXNet's answers are in infer.json, made by make_infer.py.
"""

from __future__ import annotations

from typing import Any

# Known shapes, in which 0 is an unknown size.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "reshape back": ("a.reshape((4,6))", {}),
    "reshape out": ("(a.reshape((-1,6))+b)", {"b": (4, 6)}),
    "reshape known": ("(a.reshape((-1,6))+b)", {"a": (4, 0), "b": (2, 6)}),
    "reshape 0": ("(mx.sym.reshape(a,shape=(0,-1))+b)", {"b": (2, 6)}),
    "flatten": ("mx.sym.Flatten(a)+b", {"b": (2, 6)}),
    "elem": ("a+b", {"a": (2, 0), "b": (0, 3)}),
    "elem3": ("(a+b)*c", {"c": (2, 3)}),
    "zeros": ("mx.sym.zeros((0,3))+a", {"a": (2, 3)}),
    "zeros2": ("mx.sym.broadcast_add(mx.sym.zeros((0,3)),a)", {"a": (2, 3)}),
    "zeros concat": ("mx.sym.concat(mx.sym.zeros((0,3)),a,dim=1)", {"a": (2, 5)}),
    "concat back": ("mx.sym.concat(a,b,dim=1)+c", {"a": (2, 3), "c": (2, 5)}),
    "concat back2": ("mx.sym.concat(a,b,dim=1)+c", {"c": (2, 5)}),
    "concat part": ("mx.sym.concat(a,b,dim=1)", {"a": (2, 3), "b": (0, 4)}),
    "stack back": ("mx.sym.stack(a,b,axis=0)+c", {"c": (2, 3, 4)}),
    "slice_axis": ("mx.sym.slice_axis(a,axis=1,begin=0,end=2)+b", {"b": (5, 2)}),
    "slice_axis2": ("mx.sym.slice_axis(a,axis=1,begin=0,end=2)+b", {"a": (0, 7), "b": (5, 2)}),
    "slice": ("mx.sym.slice(a,begin=(0,1),end=(2,3))+b", {"b": (2, 2)}),
    "slice like": ("mx.sym.slice_like(a,b)", {"a": (0, 4), "b": (2, 2)}),
    "slicechannel": ("mx.sym.SliceChannel(a,num_outputs=2,axis=1)[0]+b", {"b": (3, 4)}),
    "slicechannel sq": ("mx.sym.SliceChannel(a,num_outputs=2,axis=1,squeeze_axis=1)[0]+b", {"b": (3, 4)}),
    "transpose": ("a.transpose((1,0,2))+b", {"b": (3, 4, 5)}),
    "transposeT": ("mx.sym.transpose(a)+b", {"b": (3, 4)}),
    "swap": ("mx.sym.SwapAxis(a,dim1=0,dim2=1)+b", {"b": (3, 4)}),
    "expand": ("mx.sym.expand_dims(a,axis=1)+b", {"b": (3, 1, 4)}),
    "squeeze": ("mx.sym.squeeze(a,axis=1)+b", {"b": (3, 4)}),
    "fc": ("mx.sym.FullyConnected(a,num_hidden=7,name='fc')+b", {"b": (3, 7)}),
    "fc2": ("mx.sym.FullyConnected(a,num_hidden=7,name='fc')", {"a": (0, 5)}),
    "fcw": ("mx.sym.FullyConnected(a,b,num_hidden=7,name='fc')", {"b": (7, 9)}),
    "conv": ("mx.sym.Convolution(a,num_filter=7,kernel=(3,3),name='c')", {"a": (0, 5, 0, 8)}),
    "convout": ("mx.sym.Convolution(a,num_filter=7,kernel=(3,3),name='c')+b", {"b": (2, 7, 6, 6)}),
    "bn": ("mx.sym.BatchNorm(a,name='bn')+b", {"b": (2, 7, 6, 6)}),
    "act": ("mx.sym.Activation(a,act_type='relu')+b", {"b": (2, 7)}),
    "dot": ("mx.sym.dot(a,b)", {"a": (0, 3), "b": (3, 5)}),
    "dotback": ("mx.sym.dot(a,b)+c", {"a": (4, 3), "c": (4, 5)}),
    "batch_dot": ("mx.sym.batch_dot(a,b)", {"a": (0, 3, 4), "b": (2, 4, 5)}),
    "softmaxout": ("mx.sym.SoftmaxOutput(a,name='s')", {"a": (5, 10)}),
    "softmaxout2": ("mx.sym.SoftmaxOutput(a,name='s')", {"a": (0, 10)}),
    "linreg": ("mx.sym.LinearRegressionOutput(a,name='s')", {"a": (5, 1)}),
    "embedding": ("mx.sym.Embedding(a,input_dim=10,output_dim=4,name='e')", {"a": (0, 7)}),
    "rnn": ("mx.sym.RNN(a,state_size=8,num_layers=1,mode='lstm',name='r',state_outputs=True)", {"a": (5, 0, 4)}),
    "rnn2": ("mx.sym.RNN(a,state_size=8,num_layers=1,mode='lstm',name='r',state_outputs=True)", {"a": (5, 2, 4)}),
    "sum": ("mx.sym.sum(a,axis=1)+b", {"a": (0, 3), "b": (4,)}),
    "sumpart": ("mx.sym.sum(a,axis=1,keepdims=True)", {"a": (0, 3)}),
    "tile": ("mx.sym.tile(a,reps=(2,2))", {"a": (0, 3)}),
    "repeat": ("mx.sym.repeat(a,repeats=2,axis=0)", {"a": (0, 3)}),
    "take": ("mx.sym.take(a,b)", {"a": (4, 3), "b": (0, 2)}),
    "where": ("mx.sym.where(a,b,c)", {"b": (2, 3)}),
    "wherecond": ("mx.sym.where(a,b,c)+d", {"d": (2, 3)}),
    "bmul": ("mx.sym.broadcast_mul(a,b)", {"a": (2, 0), "b": (1, 3)}),
    "bmulout": ("mx.sym.broadcast_mul(a,b)+c", {"c": (2, 3)}),
    "broadcast_like": ("mx.sym.broadcast_like(a,b)", {"a": (1, 3), "b": (2, 0)}),
    "addn": ("mx.sym.add_n(a,b,c)", {"b": (2, 3)}),
    "blockgrad": ("mx.sym.BlockGrad(a)+b", {"b": (2, 3)}),
    "identity": ("mx.sym.identity(a)*b", {"b": (2, 3)}),
    "dropout": ("mx.sym.Dropout(a)+b", {"b": (2, 3)}),
    "cast": ("mx.sym.Cast(a,dtype='float16')+b", {"b": (2, 3)}),
    "scalar": ("(a*2+1)+b", {"b": (2, 3)}),
    "lrelu": ("mx.sym.LeakyReLU(a,act_type='prelu',name='p')+b", {"b": (2, 3, 4)}),
    "layernorm": ("mx.sym.LayerNorm(a,name='p')+b", {"b": (2, 3, 4)}),
    "pad": ("mx.sym.Pad(a,mode='constant',pad_width=(0,0,0,0,1,1,2,2))", {"a": (0, 3, 4, 4)}),
    "pool": ("mx.sym.Pooling(a,kernel=(2,2),stride=(2,2))", {"a": (0, 3, 8, 8)}),
    "gpool": ("mx.sym.Pooling(a,kernel=(2,2),global_pool=True)", {"a": (2, 3, 0, 0)}),
    "seqmask": ("mx.sym.SequenceMask(a,b,use_sequence_length=True)", {"a": (5, 2, 3)}),
    "onehot": ("mx.sym.one_hot(a,depth=5)", {"a": (0,)}),
    "pick": ("mx.sym.pick(a,b)", {"a": (3, 4)}),
    "pickpart": ("mx.sym.pick(a,b)", {"a": (0, 4)}),
    "topk": ("mx.sym.topk(a,k=2)", {"a": (0, 4)}),
    "ones_like": ("mx.sym.ones_like(a)+b", {"b": (2, 2)}),
    "maximum": ("mx.sym.maximum(a,b)", {"a": (2, 2)}),
    "mean": ("mx.sym.mean(a)+b", {"a": (2, 2)}),
    "deconv": ("mx.sym.Deconvolution(a,kernel=(3,3),num_filter=4,name='d')", {"a": (0, 2, 5, 5)}),
    "group": ("mx.sym.Group([a+b,b*c])", {"c": (2, 2)}),
}

# Known dtypes.
TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "add": ("a+b", {"a": "float16"}),
    "addback": ("(a+b)*c", {"c": "float64"}),
    "fc": ("mx.sym.FullyConnected(a,num_hidden=7,name='fc')", {"a": "float16"}),
    "fcb": ("mx.sym.FullyConnected(a,num_hidden=7,name='fc')+b", {"b": "float64"}),
    "bn": ("mx.sym.BatchNorm(a,name='bn')", {"a": "float16"}),
    "cast": ("mx.sym.Cast(a,dtype='float16')+b", {}),
    "number": ("a+b*2", {"a": "float64"}),
    "number_left": ("2-b+a", {"a": "float64"}),
    "numbers": ("(a+b*2)/(a-3)**2", {"a": "float16"}),
    "emb": ("mx.sym.Embedding(a,input_dim=3,output_dim=4,name='e')", {"a": "int32"}),
    "emb2": ("mx.sym.Embedding(a,input_dim=3,output_dim=4,name='e',dtype='float16')", {}),
    "none": ("a+b", {}),
    "reshape": ("a.reshape((2,3))+b", {"b": "int32"}),
    "concat": ("mx.sym.concat(a,b)+c", {"c": "float64"}),
    "take": ("mx.sym.take(a,b)", {"a": "float64"}),
    "take2": ("mx.sym.take(a,b)+c", {"c": "float64", "b": "int32"}),
    "softmaxout": ("mx.sym.SoftmaxOutput(a,name='s')", {"a": "float64"}),
    "where": ("mx.sym.where(a,b,c)", {"b": "float64"}),
    "relu": ("mx.sym.relu(a)", {}),
    "conv": ("mx.sym.Convolution(a,num_filter=7,kernel=(3,3),name='c')", {"a": "float16"}),
    "slice": ("mx.sym.slice_axis(a,axis=0,begin=0,end=1)+b", {"b": "int64"}),
    "transpose": ("a.transpose()+b", {"b": "int64"}),
    "sum": ("a.sum()+b", {"b": "float64"}),
    "argmax": ("mx.sym.argmax(a)", {"a": "float64"}),
    "argsort": ("mx.sym.argsort(a)", {"a": "float64"}),
    "zeros": ("mx.sym.zeros((2,))+a", {}),
    "onehot": ("mx.sym.one_hot(a,depth=3)", {"a": "int32"}),
}


def answers(mx: Any) -> dict[str, dict[str, Any]]:
    """By kind of inference and case: arguments, outputs and auxiliary states, None if it cannot say; or "error"."""
    kinds = {
        "infer_shape": SHAPES,
        "infer_shape_partial": SHAPES,
        "infer_type": TYPES,
        "infer_type_partial": TYPES,
    }
    return {kind: {name: _answer(mx, kind, *case) for name, case in cases.items()} for kind, cases in kinds.items()}


def _answer(mx: Any, kind: str, code: str, known: dict[str, Any]) -> Any:
    variables = {name: mx.sym.var(name) for name in "abcd"}
    symbol = eval(code, {"mx": mx, **variables})
    try:
        found = getattr(symbol, kind)(**known)
    except (mx.MXNetError, ValueError):
        return "error"
    return [None if group is None else [_plain(each) for each in group] for group in found]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else getattr(value, "__name__", value)
