"""Programs with sparse arrays, for MXNet and for hybridc."""

import warnings

import numpy as np

RNG = np.random.default_rng(11)
RNG_OF_GRAPHS = np.random.default_rng(12)


def filled(shape, density, dtype="float32"):
    """A matrix of few elements that are not zero; one row has none."""
    values = RNG.normal(size=shape) * (RNG.random(shape) < density)
    values[min(1, shape[0] - 1)] = 0
    return values.astype(dtype)


A, B = filled((6, 5), 0.4), filled((6, 5), 0.3)
DENSE = RNG.normal(size=(6, 5)).astype("float32")
WEIGHT = RNG.normal(size=(5, 3)).astype("float32")
ROWS = RNG.normal(size=(6, 2)).astype("float32")
LABELS = RNG.integers(0, 5, (4, 3)).astype("float32")


def parts(x):
    """The storage type, and the arrays of a result."""
    found = {"": x.asnumpy()}
    if x.stype != "default":
        found["data"], found["indices"] = x.data.asnumpy(), x.indices.asnumpy()
    if x.stype == "csr":  # results of MXNet have room for more values, and columns in any order
        found["indptr"] = x.indptr.asnumpy()
        count = found["indptr"][-1]
        order = np.lexsort((found["indices"][:count], np.repeat(np.arange(x.shape[0]), np.diff(found["indptr"]))))
        found |= {name: found[name][:count][order] for name in ("data", "indices")}
    return x.stype, found


def collect(results):
    """Storage types as values, and all arrays, of results by name."""
    found = {}
    for name, x in results.items():
        found[f"{name}.stype"], arrays = parts(x)
        found |= {f"{name}.{key}": value for key, value in arrays.items()}
    return found


def conversions(mx):
    """Storage types and parts of what is made in different ways."""
    nd, sparse = mx.nd, mx.nd.sparse
    made = {
        "csr": nd.array(A).tostype("csr"),
        "rows": nd.array(A).tostype("row_sparse"),
        "back": nd.array(A).tostype("csr").tostype("default"),
        "of_parts": sparse.csr_matrix(([1.0, 2, 3], [0, 2, 1], [0, 2, 2, 3]), shape=(3, 4)),
        "of_list": sparse.csr_matrix([[0, 1], [2, 0]]),
        "of_numpy": sparse.csr_matrix(np.array([[0, 1], [2, 0]], "int32")),
        "no_values": sparse.csr_matrix((3, 4)),
        "rows_of_parts": sparse.row_sparse_array((np.ones((2, 3), "float32"), [1, 3]), shape=(5, 3)),
        "rows_shape_follows": sparse.row_sparse_array((np.ones((2, 3), "float32"), [1, 3])),
        "rows_of_list": sparse.row_sparse_array([[0, 0], [1, 0], [0, 0]]),
        "no_rows": sparse.row_sparse_array((3, 4, 2)),
        "zeros": nd.zeros((2, 3), stype="csr", dtype="float64"),
        "cast": nd.array(A).tostype("csr").astype("float64"),
        "copy": nd.array(A).tostype("row_sparse").copy(),
        "cast_storage": nd.cast_storage(nd.array(A), "row_sparse"),
        "like": nd.zeros_like(nd.array(A).tostype("csr")),
        "duplicate": sparse.csr_matrix(([1.0, 2], [1, 1], [0, 2]), shape=(1, 3)).tostype("default"),
    }
    return collect(made)


def slices(mx):
    """Rows and columns of a csr matrix."""
    x = mx.nd.array(A).tostype("csr")
    made = {
        "row": x[2],
        "last": x[-1],
        "rows": x[1:4],
        "whole": x[:],
        "from": x[2:],
        "columns": mx.nd.slice(x, begin=(1, 1), end=(5, 4)),
        "joined": mx.nd.concat(x, x[1:3], dim=0),
    }
    return collect(made)


_NAMES = """
abs arcsin arcsinh arctan ceil degrees expm1 fix floor log1p negative radians relu rint round sign sin sinh sqrt square
tan tanh trunc cbrt make_loss stop_gradient zeros_like cos exp sigmoid gamma log ones_like rsqrt
"""
UNARY = _NAMES.split()


def unary(mx):
    """Functions of elements."""
    found = {}
    for stype in ("csr", "row_sparse"):
        x = mx.nd.array(abs(A) / 4).tostype(stype)
        found |= {f"{name}.{stype}": getattr(mx.nd, name)(x) for name in UNARY}
    return collect(found)


def arithmetic(mx):
    """Operators of Python, on arrays and numbers."""
    nd = mx.nd
    found = {}
    for stype in ("csr", "row_sparse"):
        a, b = (nd.array(x).tostype(stype) for x in (A, B))
        made = {
            "add": a + b,
            "sub": a - b,
            "mul": a * b,
            "scaled": a * 2,
            "divided": a / 4,
            "negative": -a,
            "plus": a + 1,
            "greater": a > 1,
            "clipped": nd.clip(a, -0.5, 0.5) if stype == "csr" else a,
            "sum_of_three": nd.add_n(a, b, a) if stype == "row_sparse" else a,
        }
        if stype == "csr":
            d = nd.array(DENSE)
            made |= {"with_dense": a * d, "dense_by": a + d, "quotient": a / nd.array(DENSE[:1])}
            made |= {"row": a * nd.array(DENSE[:1]), "column": a * nd.array(DENSE[:, :1])}
        found |= {f"{name}.{stype}": x for name, x in made.items()}
    return collect(found)


def sums(mx):
    """Sums, means and norms."""
    x, r = mx.nd.array(A).tostype("csr"), mx.nd.array(A).tostype("row_sparse")
    made = {
        "sum": x.sum(),
        "columns": mx.nd.sum(x, axis=0),
        "rows": mx.nd.sum(x, axis=1),
        "mean": mx.nd.mean(x, axis=0),
        "norm": x.norm(),
        "norm_of_rows": r.norm(),
        "squares": mx.nd._internal._square_sum(r, axis=1),
        "squares_kept": mx.nd._internal._square_sum(r, axis=0, keepdims=True),
    }
    return collect(made)


def products(mx):
    """``dot`` with csr matrices, and its gradient."""
    nd = mx.nd
    x, w, y = nd.array(A).tostype("csr"), nd.array(WEIGHT), nd.array(ROWS)
    rows = nd.array(np.where(np.arange(5)[:, None] % 2, WEIGHT, 0)).tostype("row_sparse")
    made = {
        "right": nd.dot(x, w),
        "transposed": nd.dot(x, y, transpose_a=True),
        "transposed_dense": nd.dot(x, y, transpose_a=True, forward_stype="default"),
        "rows": nd.dot(x, rows),
        "left": nd.dot(nd.array(ROWS.T), x),
        "left_dense": nd.dot(nd.array(ROWS.T), x, forward_stype="default"),
    }
    for stype in ("default", "row_sparse"):
        w.attach_grad(stype=stype)
        with mx.autograd.record():
            loss = (nd.dot(x, w) ** 2).sum()
        loss.backward()
        made[f"gradient.{stype}"] = w.grad
    return collect(made)


def embedding(mx):
    """Rows of a table, and the gradient that has them."""
    nd = mx.nd
    made = {}
    weight = nd.array(DENSE)
    weight.attach_grad(stype="row_sparse")
    with mx.autograd.record():
        y = nd.Embedding(nd.array(LABELS), weight, input_dim=6, output_dim=5, sparse_grad=True)
        loss = (y * y).sum()
    loss.backward()
    made["gradient"] = weight.grad
    made["kept"] = nd.sparse.retain(weight.grad, nd.array([0, 3, 5]))
    table = nd.array(DENSE).tostype("row_sparse")
    made["of_rows"] = nd.sparse.Embedding(nd.array(LABELS), table, input_dim=6, output_dim=5)
    made["taken"] = nd.take(table, nd.array([4, 0, 4]))
    return collect(made)


OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "wd": 0.01},
    "momentum": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01, "clip_gradient": 0.5},
    "momentum_of_all": {"learning_rate": 0.1, "momentum": 0.9, "lazy_update": False},
    "adam": {"learning_rate": 0.01, "wd": 0.01},
    "adam_of_all": {"learning_rate": 0.01, "lazy_update": False},
    "adagrad": {"learning_rate": 0.1},
    "ftrl": {"learning_rate": 0.1},
    "groupadagrad": {"learning_rate": 0.1},
}


def updates(mx):
    """A weight after three updates of some rows; Ftrl has such of row_sparse weights alone."""
    found = {}
    for name, options in OPTIMIZERS.items():
        weight = mx.nd.array(DENSE)
        if name == "ftrl":
            weight = weight.tostype("row_sparse")
        updater = mx.optimizer.get_updater(
            mx.optimizer.create(name.partition("_")[0].replace("momentum", "sgd"), **options)
        )
        for step in range(3):
            rows = np.array([step, step + 2])
            values = DENSE[rows] * 2 + step
            updater(0, mx.nd.sparse.row_sparse_array((values, rows), shape=(6, 5)), weight)
        found[name] = weight
    return collect(found)


def stores(mx):
    """A key-value store of rows."""
    kv = mx.kv.create("local")
    kv.init("w", mx.nd.array(DENSE).tostype("row_sparse"))
    out = mx.nd.sparse.zeros("row_sparse", (6, 5))
    kv.row_sparse_pull("w", out=out, row_ids=mx.nd.array([3, 0, 3]))
    found = {"some": out.copy()}
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    gradient = mx.nd.sparse.row_sparse_array((DENSE[:2], [1, 4]), shape=(6, 5))
    kv.push("w", [gradient, gradient])
    kv.row_sparse_pull("w", out=out, row_ids=mx.nd.array([0, 1, 4]))
    return collect({**found, "after": out})


def graphs(mx):
    """Parts, samples and edges of graphs; samples take all neighbours, so that nothing is drawn."""
    nd = mx.nd
    edges = (RNG_OF_GRAPHS.random((7, 7)) < 0.4) & ~np.eye(7, dtype=bool)
    numbers = np.zeros((7, 7), "int64")
    numbers[edges] = np.arange(1, edges.sum() + 1)
    graph = mx.nd.sparse.csr_matrix(
        (np.arange(1, edges.sum() + 1), np.nonzero(edges)[1], np.append(0, np.cumsum(edges.sum(1)))),
        shape=(7, 7),
        dtype="int64",
    )
    c = nd.contrib
    few, more = nd.array([0, 2, 5], dtype="int64"), nd.array([1, 6], dtype="int64")
    made = {"adjacency": c.dgl_adjacency(graph)}
    made["edges"] = c.edge_id(graph, nd.array([0, 1, 6, 3], dtype="int64"), nd.array([1, 0, 2, 3], dtype="int64"))
    parts_of = c.dgl_subgraph(graph, few, more, return_mapping=True)
    made |= {f"part{i}": x for i, x in enumerate(parts_of)}
    made["one_part"] = c.dgl_subgraph(graph, more, return_mapping=False)
    size = {"num_hops": 2, "num_neighbor": 7, "max_num_vertices": 7}  # what is beyond the vertices is not set there
    uniform = c.dgl_csr_neighbor_uniform_sample(graph, more, num_args=2, **size)
    made |= {f"uniform{i}": x for i, x in enumerate(uniform)}
    chances = nd.array(np.arange(1, 8) / 8)
    weighted = c.dgl_csr_neighbor_non_uniform_sample(graph, chances, more, num_args=3, **size)
    made |= {f"weighted{i}": x for i, x in enumerate(weighted)}
    count = int(uniform[0].asnumpy()[-1])
    made["compact"] = c.dgl_graph_compact(uniform[1], uniform[0], graph_sizes=(count,), return_mapping=False)
    return collect(made)


def messages(mx):
    """What is refused."""
    nd, sparse = mx.nd, mx.nd.sparse
    x, r = nd.array(A).tostype("csr"), nd.array(A).tostype("row_sparse")
    wrong = {
        "csr_to_rows": lambda: x.tostype("row_sparse"),
        "rows_to_csr": lambda: r.tostype("csr"),
        "step": lambda: x[::2],
        "tuple": lambda: x[0, 1],
        "reshape": lambda: x.reshape((5, 6)),
        "shape": lambda: sparse.csr_matrix([[1, 0]], shape=(3, 3)),
        "no_shape": lambda: sparse.csr_matrix((np.zeros(0), np.zeros(0), np.zeros(3))),
        "dense_source": lambda: sparse.array(np.ones((2, 2))),
        "unsorted": lambda: sparse.csr_matrix(([1.0, 2], [2, 0], [0, 2]), shape=(1, 3)).check_format(),
        "falling": lambda: sparse.row_sparse_array((np.ones((2, 1)), [2, 0]), shape=(3, 1)).check_format(),
    }
    found = {}
    for name, run in wrong.items():
        try:
            run()
        except Exception as error:
            bases = [
                c.__name__ for c in type(error).__mro__ if c.__name__ in ("ValueError", "MXNetError", "RuntimeError")
            ]
            found[name] = bases[0] if bases else type(error).__name__
        else:
            found[name] = "nothing"
    return found


CASES = {
    "conversions": conversions,
    "slices": slices,
    "unary": unary,
    "arithmetic": arithmetic,
    "sums": sums,
    "products": products,
    "embedding": embedding,
    "updates": updates,
    "stores": stores,
    "graphs": graphs,
    "messages": messages,
}
warnings.filterwarnings("ignore")
