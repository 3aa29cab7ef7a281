"""`npu.distribute.broadcast`: takes variables, which must be there when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from migrator.edits import Edit, InsertAfter, InsertFirst, Refusal
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.values import Literal, Value
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts
from migrator.records import dataclass
from migrator.targets.npu.refusing import refuse
from migrator.targets.npu.setup import Setup
from migrator.targets.npu.sites import Site

_LATE = "this model gets its variables only with its first batch, and npu.distribute.broadcast can send none before"
_BUILD = "begin it with keras.Input, or call its build(input_shape) right after it is made"


@dataclass(frozen=True)
class _Part:
    """One argument of the broadcast: alone, and among others in a list; `built`: where it gets its variables, if that
    is further down."""

    values: str
    elements: str
    built: Statement | None = None


class Weights:
    def __init__(self, facts: Facts, setup: Setup) -> None:
        self._facts = facts
        self._setup = setup

    def broadcast(self, site: Site) -> Iterator[Edit | Refusal]:
        """`broadcast(model)` of all the model's variables; several models and variables go in one list.

        It stands where the model has its variables: that may be further down than where it is made.
        """
        decides = any(
            n.reduction == "chief" and site.node in (n.expression, n.place) for n in self._facts.decisions.local_numbers
        )
        is_value = not site.arguments or site.node in self._facts.worker_paths.first_in_folders
        if decides or is_value or site.node in self._facts.sent:
            reason = "each worker has its own value of this, and npu.distribute.broadcast sends variables only"
            yield refuse(site.node, reason, "decide by the number of steps" if decides else "use a fixed one")
            return
        parts = [self._part(site, name) for name in _parts(site.arguments[0])]
        refusal = next((part for part in parts if isinstance(part, Refusal)), None)
        if refusal is not None:
            yield refusal
            return
        known = [part for part in parts if isinstance(part, _Part)]
        values = known[0].values if len(known) == 1 else f"[{', '.join(part.elements for part in known)}]"
        text = f"{self._setup.npu}.distribute.broadcast({values}, root_rank=0)"
        places = [part.built for part in known if part.built is not None]
        if not places:
            yield site.written(text)
        else:
            yield InsertAfter(max(places, key=self._facts.tree.order.__getitem__), (text,))

    def _part(self, site: Site, name: str) -> _Part | Refusal:
        """What the call is given for what is named so."""
        kinds = self._facts.kinds
        values, holder = self._named(site, name)
        if any(map(kinds.is_optimizer, values)):
            return refuse(
                site.node,
                f"`{name}` has a state that npu.distribute.broadcast cannot send: it is made when the file is read",
                "restore the model alone",
            )
        if values and all(map(kinds.is_variable, values)):
            return _Part(name, name)
        displays = [v.node for v in values if isinstance(v, Literal)]
        if holder is not None and displays and kinds.is_variable_or_list(holder.value):
            listed = f"*{name}.values()" if isinstance(displays[0], cst.Dict) else f"*{name}"
            return _Part(f"[{listed}]" if isinstance(displays[0], cst.Dict) else name, listed)
        if not values or not all(map(kinds.has_weights, values)):
            return refuse(site.node, f"what the variables of `{name}` are cannot be seen", "broadcast them by hand")
        built = self._facts.built
        whole = _Part(f"{name}.variables", f"*{name}.variables")
        if all(map(built.when_made, values)):
            return whole
        if holder is not None and built.by_hand(holder.target, holder.statement, site.node):
            return whole
        place = built.later(holder.target, site.node, self._facts.training) if holder is not None else None
        return replace(whole, built=place) if place is not None else refuse(site.node, _LATE, _BUILD)

    def _named(self, site: Site, name: str) -> tuple[tuple[Value, ...], Holder | None]:
        """What the name stands for where the site is, and the place where it was given."""
        facts = self._facts
        if isinstance(site.edit, InsertFirst):
            params = site.edit.function.params
            param = next(p for p in (*params.posonly_params, *params.params) if p.name.value == name)
            return tuple(v for given in facts.resolver.given(param) for v in facts.resolver.values(given)), None
        holders = [h for h in facts.trained.holders() if isinstance(h, Holder) and facts.source(h.target) == name]
        order = facts.tree.order
        before = [h for h in holders if order[h.statement] <= facts.tree.last_order_in(site.node)] or holders
        if before:
            holder = max(before, key=lambda h: order[h.statement])
            return self._held(holder), holder
        owned = self._owned(site, name)
        if owned:
            return owned, None
        for call in facts.files.restores.calls:
            for part in facts.files.restores.models_of(call.func):
                if facts.source(part) == name:
                    return facts.resolver.values(part), None
        return (), None

    def _owned(self, site: Site, name: str) -> tuple[Value, ...]:
        """What `trainer.model` is of an object that is made within the site's statement."""
        owner, _, attribute = name.rpartition(".")
        facts = self._facts
        bindings = facts.tree.scope_of(site.node).bindings.get(owner, ())
        made = [b for b in bindings if facts.tree.contains(site.node, b.node)]
        owners = [value for binding in made for value in facts.resolver.binding_values(binding)]
        return tuple(value for v in owners for value in facts.resolver.member(v, attribute))

    def _held(self, holder: Holder) -> tuple[Value, ...]:
        """What the holder's statement gives its target, of a tuple the one part."""
        tree, target = self._facts.tree, holder.target
        if isinstance(target, cst.Attribute):
            bindings = tree.attributes.get(target.attr.value, [])
        else:
            bindings = tree.scope_of(target).bindings.get(self._facts.source(target), [])
        binding = next((b for b in bindings if b.target is target), None)
        return self._facts.resolver.binding_values(binding) if binding is not None else ()


def _parts(text: str) -> list[str]:
    """The names in a list display, or the one name."""
    node = cst.parse_expression(text)
    if not isinstance(node, cst.List):
        return [text]
    module = cst.Module(body=[])
    return [module.code_for_node(element.value) for element in node.elements]
