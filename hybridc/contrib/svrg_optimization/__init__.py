"""``mx.contrib.svrg_optimization``: stochastic gradients whose variance is reduced (SVRG), for Modules."""

from __future__ import annotations

from hybridc.contrib.svrg_optimization import svrg_module, svrg_optimizer

__all__ = ["svrg_module", "svrg_optimizer"]
