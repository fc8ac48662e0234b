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
    "softmaxout 4": ("mx.sym.SoftmaxOutput(a,name='s')", {"a": (2, 4, 3, 3)}),
    "softmaxout multi": ("mx.sym.SoftmaxOutput(a,multi_output=True,name='s')", {"a": (2, 4, 3, 3)}),
    "softmaxout preserve": ("mx.sym.SoftmaxOutput(a,preserve_shape=True,name='s')", {"a": (2, 4, 3)}),
    "declared": ("mx.sym.FullyConnected(a,mx.sym.var('w',shape=(128,0)),num_hidden=128,name='f')", {"a": (2, 4)}),
    "declared nothing": ("mx.sym.FullyConnected(a,mx.sym.var('w',shape=()),num_hidden=8,name='f')", {"a": (2, 4)}),
    "pool partial": (
        "mx.sym.Convolution(mx.sym.Pooling(a,kernel=(2,2),stride=(2,2)),num_filter=8,kernel=(1,1),name='c')",
        {"a": (64, 0, 14, 14)},
    ),
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

# Operators on one array, a shape of it and of the result: forwards and backwards, with nothing, or all sizes but one,
# known of the array.
THROUGH: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {
    "scalar": ("(a*2+1)/3", (2, 3), (2, 3)),
    "power": ("a**2", (2, 3), (2, 3)),
    "rminus": ("1-a", (2, 3), (2, 3)),
    "compare": ("a>0", (2, 3), (2, 3)),
    "negative": ("-a", (2, 3), (2, 3)),
    "tanh": ("mx.sym.tanh(a)", (2, 3), (2, 3)),
    "abs": ("mx.sym.abs(a)", (2, 3), (2, 3)),
    "clip": ("mx.sym.clip(a,a_min=0,a_max=1)", (2, 3), (2, 3)),
    "cast": ("mx.sym.Cast(a,dtype='float32')", (2, 3), (2, 3)),
    "amp_cast": ("mx.sym.amp_cast(a,dtype='float32')", (2, 3), (2, 3)),
    "identity": ("mx.sym.identity(a)", (2, 3), (2, 3)),
    "BlockGrad": ("mx.sym.BlockGrad(a)", (2, 3), (2, 3)),
    "make_loss": ("mx.sym.make_loss(a)", (2, 3), (2, 3)),
    "Activation": ("mx.sym.Activation(a,act_type='softrelu')", (2, 3), (2, 3)),
    "LeakyReLU": ("mx.sym.LeakyReLU(a,act_type='leaky')", (2, 3), (2, 3)),
    "gelu": ("mx.sym.LeakyReLU(a,act_type='gelu')", (2, 3), (2, 3)),
    "Dropout": ("mx.sym.Dropout(a)", (2, 3), (2, 3)),
    "softmax": ("mx.sym.softmax(a)", (2, 3), (2, 3)),
    "log_softmax": ("mx.sym.log_softmax(a)", (2, 3), (2, 3)),
    "SoftmaxActivation": ("mx.sym.SoftmaxActivation(a)", (2, 3), (2, 3)),
    "L2Normalization": ("mx.sym.L2Normalization(a)", (2, 3), (2, 3)),
    "LRN": ("mx.sym.LRN(a,nsize=3)", (2, 3, 4, 5), (2, 3, 4, 5)),
    "zeros_like": ("mx.sym.zeros_like(a)", (2, 3), (2, 3)),
    "ones_like": ("mx.sym.ones_like(a)", (2, 3), (2, 3)),
    "smooth_l1": ("mx.sym.smooth_l1(a,scalar=1)", (2, 3), (2, 3)),
    "transpose": ("mx.sym.transpose(a,axes=(1,2,0))", (2, 3, 4), (3, 4, 2)),
    "transpose all": ("mx.sym.transpose(a)", (2, 3, 4), (4, 3, 2)),
    "SwapAxis": ("mx.sym.SwapAxis(a,dim1=0,dim2=2)", (2, 3, 4), (4, 3, 2)),
    "flip": ("mx.sym.flip(a,axis=1)", (2, 3), (2, 3)),
    "reverse": ("mx.sym.reverse(a,axis=0)", (2, 3), (2, 3)),
    "expand_dims": ("mx.sym.expand_dims(a,axis=1)", (2, 3), (2, 1, 3)),
    "squeeze": ("mx.sym.squeeze(a,axis=1)", (2, 1, 3), (2, 3)),
    "Reshape": ("mx.sym.Reshape(a,shape=(3,4))", (2, 6), (3, 4)),
    "Reshape -1": ("mx.sym.Reshape(a,shape=(-1,4))", (2, 6), (3, 4)),
    "Reshape 0": ("mx.sym.Reshape(a,shape=(0,-1))", (2, 3, 4), (2, 12)),
    "Reshape -2": ("mx.sym.Reshape(a,shape=(-2,))", (2, 3, 4), (2, 3, 4)),
    "Reshape -3": ("mx.sym.Reshape(a,shape=(-3,0))", (2, 3, 4), (6, 4)),
    "Reshape -4": ("mx.sym.Reshape(a,shape=(-4,2,-1,0))", (6, 4), (2, 3, 4)),
    "Reshape reverse": ("mx.sym.Reshape(a,shape=(-1,0),reverse=True)", (2, 3, 4), (6, 4)),
    "Flatten": ("mx.sym.Flatten(a)", (2, 3, 4), (2, 12)),
    "slice": ("mx.sym.slice(a,begin=(0,1),end=(2,3))", (4, 5), (2, 2)),
    "slice open": ("mx.sym.slice(a,begin=(None,1),end=(None,None))", (4, 5), (4, 4)),
    "slice step": ("mx.sym.slice(a,begin=(None,None),end=(None,None),step=(1,2))", (4, 6), (4, 3)),
    "slice_axis": ("mx.sym.slice_axis(a,axis=1,begin=1,end=3)", (4, 5), (4, 2)),
    "slice_axis None": ("mx.sym.slice_axis(a,axis=1,begin=1,end=None)", (4, 5), (4, 4)),
    "SliceChannel": ("mx.sym.SliceChannel(a,num_outputs=2,axis=1)[0]", (3, 4), (3, 2)),
    "split_v2": ("mx.sym.split_v2(a,(1,),axis=1)[0]", (3, 4), (3, 1)),
    "tile": ("mx.sym.tile(a,reps=(2,2))", (2, 3), (4, 6)),
    "repeat": ("mx.sym.repeat(a,repeats=2,axis=0)", (2, 3), (4, 3)),
    "Pad": ("mx.sym.Pad(a,mode='edge',pad_width=(0,0,0,0,1,1,2,2))", (2, 3, 4, 5), (2, 3, 6, 9)),
    "broadcast_to": ("mx.sym.broadcast_to(a,shape=(0,4))", (2, 1), (2, 4)),
    "broadcast_axis": ("mx.sym.broadcast_axis(a,axis=1,size=4)", (2, 1), (2, 4)),
    "sum": ("mx.sym.sum(a,axis=1)", (2, 3, 4), (2, 4)),
    "sum keepdims": ("mx.sym.sum(a,axis=1,keepdims=True)", (2, 3, 4), (2, 1, 4)),
    "sum all": ("mx.sym.sum(a)", (2, 3), (1,)),
    "mean exclude": ("mx.sym.mean(a,axis=1,exclude=True)", (2, 3, 4), (3,)),
    "norm": ("mx.sym.norm(a,axis=1)", (2, 3), (2,)),
    "argmax": ("mx.sym.argmax(a,axis=1)", (2, 3), (2,)),
    "topk": ("mx.sym.topk(a,k=2)", (4, 5), (4, 2)),
    "sort": ("mx.sym.sort(a)", (4, 5), (4, 5)),
    "cumsum": ("mx.sym.cumsum(a,axis=1)", (4, 5), (4, 5)),
    "one_hot": ("mx.sym.one_hot(a,depth=5)", (2, 3), (2, 3, 5)),
    "Pooling": ("mx.sym.Pooling(a,kernel=(2,2),stride=(2,2))", (2, 3, 6, 8), (2, 3, 3, 4)),
    "Pooling 1": ("mx.sym.Pooling(a,kernel=(2,2))", (2, 3, 6, 8), (2, 3, 5, 7)),
    "global Pooling": ("mx.sym.Pooling(a,kernel=(2,2),global_pool=True)", (2, 3, 6, 8), (2, 3, 1, 1)),
    "UpSampling": ("mx.sym.UpSampling(a,scale=2,sample_type='nearest')", (2, 3, 6, 8), (2, 3, 12, 16)),
    "depth_to_space": ("mx.sym.depth_to_space(a,block_size=2)", (2, 8, 3, 4), (2, 2, 6, 8)),
    "space_to_depth": ("mx.sym.space_to_depth(a,block_size=2)", (2, 2, 6, 8), (2, 8, 3, 4)),
    "diag": ("mx.sym.diag(a)", (3, 3), (3,)),
    "Embedding": ("mx.sym.Embedding(a,input_dim=5,output_dim=4,name='e')", (2, 3), (2, 3, 4)),
    "FullyConnected": ("mx.sym.FullyConnected(a,num_hidden=5,name='f')", (2, 3), (2, 5)),
    "FullyConnected flat": ("mx.sym.FullyConnected(a,num_hidden=5,name='f')", (2, 3, 4), (2, 5)),
    "FullyConnected last": ("mx.sym.FullyConnected(a,num_hidden=5,flatten=False,name='f')", (2, 3, 4), (2, 3, 5)),
    "Convolution": ("mx.sym.Convolution(a,num_filter=4,kernel=(3,3),name='c')", (2, 3, 6, 8), (2, 4, 4, 6)),
    "Convolution stride": (
        "mx.sym.Convolution(a,num_filter=4,kernel=(3,3),stride=(2,1),pad=(1,1),name='c')",
        (2, 3, 6, 8),
        (2, 4, 3, 8),
    ),
    "Convolution 1d": ("mx.sym.Convolution(a,num_filter=4,kernel=(3,),name='c')", (2, 3, 6), (2, 4, 4)),
    "Convolution groups": (
        "mx.sym.Convolution(a,num_filter=4,num_group=2,kernel=(3,3),name='c')",
        (2, 4, 6, 8),
        (2, 4, 4, 6),
    ),
    "Deconvolution": ("mx.sym.Deconvolution(a,num_filter=4,kernel=(3,3),name='c')", (2, 3, 6, 8), (2, 4, 8, 10)),
    "BatchNorm": ("mx.sym.BatchNorm(a,name='n')", (2, 3, 4), (2, 3, 4)),
    "LayerNorm": ("mx.sym.LayerNorm(a,name='n')", (2, 3, 4), (2, 3, 4)),
    "InstanceNorm": ("mx.sym.InstanceNorm(a,name='n')", (2, 3, 4), (2, 3, 4)),
    "GroupNorm": ("mx.sym.GroupNorm(a,num_groups=2,name='n')", (2, 4, 4), (2, 4, 4)),
    "prelu": ("mx.sym.LeakyReLU(a,act_type='prelu',name='n')", (2, 3, 4), (2, 3, 4)),
    "SequenceLast": ("mx.sym.SequenceLast(a)", (4, 2, 3), (2, 3)),
    "SequenceMask": ("mx.sym.SequenceMask(a)", (4, 2, 3), (4, 2, 3)),
    "SequenceReverse": ("mx.sym.SequenceReverse(a)", (4, 2, 3), (4, 2, 3)),
    "add known": ("a+mx.sym.var('k',shape=(2,3))", (2, 3), (2, 3)),
    "broadcast_add known": ("mx.sym.broadcast_add(a,mx.sym.var('k',shape=(1,3)))", (2, 3), (2, 3)),
    "concat known": ("mx.sym.concat(a,mx.sym.var('k',shape=(2,3)),dim=1)", (2, 4), (2, 7)),
    "stack known": ("mx.sym.stack(a,mx.sym.var('k',shape=(2,3)),axis=1)", (2, 3), (2, 2, 3)),
    "dot known": ("mx.sym.dot(a,mx.sym.var('k',shape=(3,4)))", (2, 3), (2, 4)),
    "batch_dot known": ("mx.sym.batch_dot(a,mx.sym.var('k',shape=(2,4,5)))", (2, 3, 4), (2, 3, 5)),
    "reshape_like known": ("mx.sym.reshape_like(a,mx.sym.var('k',shape=(3,4)))", (2, 6), (3, 4)),
    "slice_like known": ("mx.sym.slice_like(a,mx.sym.var('k',shape=(2,3)))", (4, 5), (2, 3)),
    "take known": ("mx.sym.take(a,mx.sym.var('k',shape=(2,)))", (4, 5), (2, 5)),
    "where known": ("mx.sym.where(mx.sym.var('k',shape=(2,3)),a,mx.sym.var('l',shape=(2,3)))", (2, 3), (2, 3)),
    "chain": ("mx.sym.transpose(mx.sym.Cast(mx.sym.tanh(a)*2,dtype='float32'))", (2, 3), (3, 2)),
    "weight norm": ("mx.sym.L2Normalization(a)*mx.sym.var('k',shape=(2,1))", (2, 1), (2, 1)),
}


def _through() -> dict[str, tuple[str, dict[str, Any]]]:
    """Cases of each operator: one size of the array unknown, forwards and backwards, and nothing known of it."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, (code, given, result) in THROUGH.items():
        for i in range(len(given)):
            partly = (*given[:i], 0, *given[i + 1 :])
            found[f"{name}, forwards, axis {i}"] = code, {"a": partly}
            found[f"{name}, backwards, axis {i}"] = f"{code}+b", {"a": partly, "b": result}
        found[f"{name}, backwards"] = f"{code}+b", {"b": result}
    return found


SHAPES |= _through()

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


for _name, (_code, _, _) in THROUGH.items():
    TYPES[f"{_name}, forwards"] = _code, {"a": "float16"}
    TYPES[f"{_name}, backwards"] = f"{_code}+b", {"b": "float64"}


def answers(mx: Any) -> dict[str, dict[str, Any]]:
    """By kind of inference and case: arguments, outputs and auxiliary states, None if it cannot say; or "error"."""
    kinds = {
        "infer_shape": SHAPES,
        "infer_shape_partial": SHAPES,
        "infer_type": TYPES,
        "infer_type_partial": TYPES,
    }
    found = {kind: {name: _answer(mx, kind, *case) for name, case in cases.items()} for kind, cases in kinds.items()}
    with mx.util.np_shape(True):
        cases = {name: (code, {k: tuple(n or -1 for n in s) for k, s in known.items()}) for name, (code, known) in
                 SHAPES.items()}  # fmt: skip
        found["infer_shape_partial under np_shape"] = {
            name: _answer(mx, "infer_shape_partial", *case) for name, case in cases.items()
        }
    return found


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
