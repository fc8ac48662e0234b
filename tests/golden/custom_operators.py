"""The custom operators of custom_cases.py, registered with MXNet or with hybridc."""

from __future__ import annotations

import numpy as np


def operators(mx):
    """Register the operators of the cases; returns what their parameters were."""
    seen = []

    class Project(mx.operator.CustomOp):
        """Two results, a weight, and a state that counts forwards by 1 and backwards by 10."""

        def forward(self, is_train, req, in_data, out_data, aux):
            aux[0][:] = aux[0] + 1
            self.assign(out_data[0], req[0], mx.nd.dot(in_data[0], in_data[1].T))
            self.assign(out_data[1], req[1], in_data[0].sum(axis=1) * (3 if is_train else 5))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            aux[0][:] = aux[0] + 10
            self.assign(in_grad[0], req[0], mx.nd.dot(out_grad[0], in_data[1]) + 3 * out_grad[1].expand_dims(1))
            self.assign(in_grad[1], req[1], mx.nd.dot(out_grad[0].T, in_data[0]))

    @mx.operator.register("golden_project")
    class ProjectProp(mx.operator.CustomOpProp):
        def __init__(self, units, **more):
            super().__init__(need_top_grad=True)
            self.units = int(units)
            seen.append({"units": units, **more})

        def list_arguments(self):
            return ["data", "weight"]

        def list_outputs(self):
            return ["product", "total"]

        def list_auxiliary_states(self):
            return ["count"]

        def infer_shape(self, in_shape):
            data = in_shape[0]
            if not data:  # nothing is known of it
                return in_shape, [[], []], [[1]]
            return [data, [self.units, data[1]]], [[data[0], self.units], [data[0]]], [[1]]

        def infer_type(self, in_type):
            return [in_type[0]] * 2, [in_type[0]] * 2, [in_type[0]]

        def create_operator(self, ctx, shapes, dtypes):
            return Project()

    class Loss(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0].sigmoid())

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_data[0] - in_data[1].astype("float32").expand_dims(1))
            self.assign(in_grad[1], req[1], 0)

    @mx.operator.register("golden_loss")
    class LossProp(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=False)

        def list_arguments(self):
            return ["data", "label"]

        def infer_shape(self, in_shape):
            return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

        def infer_type(self, in_type):
            return [in_type[0], np.int32], [in_type[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            return Loss()

    class Root(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0].sqrt())

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] / (2 * out_data[0]))

    @mx.operator.register("golden_root")
    class RootProp(mx.operator.CustomOpProp):
        def declare_backward_dependency(self, out_grad, in_data, out_data):
            return [out_grad[0], out_data[0]]

        def create_operator(self, ctx, shapes, dtypes):
            return Root()

    class Count(mx.operator.CustomOp):
        def __init__(self):
            self.calls = 0

        def forward(self, is_train, req, in_data, out_data, aux):
            self.calls += 1
            self.assign(out_data[0], req[0], in_data[0] + self.calls)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * self.calls)

    @mx.operator.register("golden_count")
    class CountProp(mx.operator.CustomOpProp):
        def __init__(self, **params):
            super().__init__()
            seen.append(params)

        def create_operator(self, ctx, shapes, dtypes):
            return Count()

    return seen
