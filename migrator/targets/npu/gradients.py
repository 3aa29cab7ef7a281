"""`npu.distribute.all_reduce` and the optimizer wrapper: they reduce dense tensors, one by one or in a flat list."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, Refusal, Wrap
from migrator.facts.names import api
from migrator.facts.objects.values import External, Literal, Member, calls
from migrator.facts.script import Facts
from migrator.facts.training.gradients import sources_of
from migrator.targets.npu.refusing import refuse
from migrator.targets.npu.setup import Setup
from migrator.targets.npu.sites import Site

_LOOK_UPS = frozenset({
    "keras.layers.Embedding", "tensorflow.nn.embedding_lookup", "tensorflow.nn.embedding_lookup_sparse",
    "tensorflow.nn.safe_embedding_lookup_sparse",
})  # fmt: skip


class Gradients:
    def __init__(self, facts: Facts, setup: Setup) -> None:
        self._facts = facts
        self._setup = setup

    def all_reduce(self, site: Site) -> Iterator[Edit | Refusal]:
        """`all_reduce(values, reduction="mean")`, of gradients or of a number."""
        if any(o.node is site.node for r in self._facts.repairs if r.form != "divisor" for o in r.operands):
            yield refuse(site.node, "gradients do not flow back through the collectives of npu_device")
            return
        refusal = None if self._is_number(site) else self._sparse(site) or self._nested(site)
        if refusal is not None:
            yield refusal
            return
        reduction = site.keywords.get("reduction", '"mean"')
        yield self._called(site, "all_reduce", f"reduction={reduction}")

    def distributed_optimizer(self, site: Site) -> Iterator[Edit | Refusal]:
        """`npu_distributed_keras_optimizer_wrapper(optimizer)`"""
        refusal = self._sparse(site)
        if refusal is None and isinstance(site.edit, Wrap):
            values = self._facts.resolver.values(site.edit.node)
            if any(isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Dict)) for v in values):
                refusal = refuse(site.node, "npu_device wraps one optimizer at a time", "give each its own compile")
            if any(calls(v).startswith("tensorflow.compat.v1.") for v in values):
                refusal = refuse(site.node, "npu_device wraps optimizers of Keras only", "take one of those")
        if refusal is not None:
            yield refusal
            return
        reduction = site.keywords.get("reduction")
        more = [f"reduce_reduction={reduction}"] if reduction else []
        yield self._called(site, "npu_distributed_keras_optimizer_wrapper", *more)

    def _called(self, site: Site, function: str, *more: str) -> Edit:
        name = f"{self._setup.npu}.distribute.{function}"
        if isinstance(site.edit, Wrap):
            return site.around(f"{name}(", "".join(f", {a}" for a in more) + ")")
        return site.written(f"{name}({', '.join((*site.arguments, *more))})")

    # -- what these calls cannot take ----------------------------------------------------------------------------

    def _is_number(self, site: Site) -> bool:
        return any(
            site.node is n.expression or (n.binding is not None and site.node is n.binding.node)
            for n in self._facts.decisions.local_numbers
        )

    def _sparse(self, site: Site) -> Refusal | None:
        facts = self._facts
        for call in facts.tree.calls:
            for value in facts.resolver.values(call.func):
                path = value.path if isinstance(value, External) else ""
                gathers = path == "tensorflow.gather" and bool(call.args)
                if path in _LOOK_UPS or (
                    gathers and any(map(facts.kinds.is_variable, facts.resolver.values(call.args[0].value)))
                ):
                    line = facts.position(call)[0]
                    return refuse(
                        site.node,
                        f"the gradients of the look-up in line {line} are sparse, and npu_device makes them dense, by "
                        "which momentum and moving averages come out otherwise",
                    )
        return None

    def _nested(self, site: Site) -> Refusal | None:
        for update in self._facts.training.updates:
            for gradients in update.gradients:
                holder = gradients.holder.node if gradients.holder is not None else None
                if site.node not in (gradients.computed, holder):
                    continue
                if any(self._is_nested(sources_of(call)) for call in gradients.tape_calls):
                    reason = "npu.distribute.all_reduce takes a tensor or a flat list, and these gradients are nested"
                    return refuse(site.node, reason, "compute them by one call for each model")
        return None

    def _is_nested(self, sources: cst.BaseExpression | None) -> bool:
        if sources is None:
            return False
        displays = [v.node for v in self._facts.resolver.values(sources) if isinstance(v, Literal)]
        return any(isinstance(d, cst.Dict) for d in displays) or any(
            self._is_list(element.value)
            for d in displays
            if isinstance(d, (cst.List, cst.Tuple))
            for element in d.elements
            if not isinstance(element, cst.StarredElement)
        )

    def _is_list(self, node: cst.BaseExpression) -> bool:
        return any(
            isinstance(v, Literal) or (isinstance(v, Member) and v.name in api.WEIGHT_LISTS)
            for v in self._facts.resolver.values(node)
        )
