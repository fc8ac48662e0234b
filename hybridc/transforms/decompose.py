"""Replace composite operators by the simpler ones they are made of, until only primitive ones are left."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.dialects.hybrid import HybridOp, location_of
from hybridc.errors import VerifyError
from hybridc.transforms.splice import Splicer
from hybridc.transforms.values import functions, hybrid_ops


@dataclass(frozen=True)
class Decompose(ModulePass):
    """softmax → max, sub, exp, sum, div; an operator's ``decompose`` says how."""

    name = "decompose"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            splicer = Splicer("hybrid.training" in function.attributes)
            work = hybrid_ops(function)[::-1]
            while work:
                current = work.pop()
                operator = current.operator
                wanted = operator.decomposes()
                made = splicer.replace(current, lambda F, xs, o=operator: o.decompose(F, *xs)) if wanted else None
                if wanted and made is None:
                    raise VerifyError(
                        f"{operator!r} ({location_of(current)}): its decomposition has other types than itself: "
                        f"{', '.join(str(r.type) for r in current.results)} expected"
                    )
                work += [o for o in reversed(made or []) if isinstance(o, HybridOp)]
