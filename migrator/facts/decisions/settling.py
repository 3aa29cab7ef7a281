"""What counts as the same on all workers before any number is combined: by the user's word, because all draw as many
numbers, or by what is put together for the losses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import cast

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.placing import MEETS
from migrator.analysis.values import Repair
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.means import Rows
from migrator.facts.decisions.steering import SteeringPlaces
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.objects.datasets import is_dataset
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Result, Value, is_call_of
from migrator.facts.program.syntax import asks_for_items
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.randomness.draws import draws

# They give the items of what they are given, as many of them.
_ITERATING = {External(f"builtins.{name}") for name in ("zip", "enumerate", "reversed", "list", "tuple")}
_OF_ROWS = Mark.VALUE | Mark.COUNT


def settle_by_word(agreed: Iterable[cst.BaseExpression], locality: Locality) -> set[cst.BaseExpression]:
    """Takes these for the same on all workers; gives those of which it would not be known otherwise."""
    apart = {node for node in agreed if locality.of(node)}
    for node in apart:
        locality.settle(node)
    return apart


def settle_symbols(locality: Locality, losses: Losses) -> None:
    """A tensor of a functional model that is built holds no numbers yet, and so none of any statistics or samples."""
    for call in losses.symbols:
        if locality.of(call):
            locality.settle(call)
    for key, mark in list(locality.origins.items()):
        if mark == Mark.STATISTIC and isinstance(key, cst.CSTNode) and losses.is_symbolic(key):
            locality.forget(key)


def settle_structures(tree: Tree, resolver: Resolver, locality: Locality, losses: Losses) -> None:
    """How many tensors a list or tuple holds that is written out, or made along another axis than that of the samples,
    is the same on all workers, whatever these are."""
    several = set()
    for key, mark in list(locality.origins.items()):
        if mark == Mark.STATISTIC and isinstance(key, cst.Call) and _gives_items(key, losses):
            locality.hold_statistics(key)
            locality.hold_all(key)
    for call in tree.calls:
        counts = len(call.args) == 1 and "builtins.len" in resolver.public(call.func)
        lengths = losses.numbers_of_items(call.args[0].value) if counts else set()
        if len(lengths) == 1:
            locality.settle(call)
        elif lengths:
            several.add(call)
        elif losses.gives_several(call):
            locality.hold(call)
    for node in _gone_through(tree, resolver):
        if losses.number_of_items(node) is not None:
            locality.hold_all(node)
        elif isinstance(node, cst.Call) and asks_for_items(node):
            held = cst.ensure_type(node.func, cst.Attribute).value
            if losses.is_batch_of_parts(held):
                locality.hold_all(node)
            elif losses.is_dictionary(held) and not _is_rest(held, node, tree):
                locality.hand_on(node)
    # Each call of the function around it may have a length of its own; or the samples choose.
    locality.settle(*(call for call in several if locality.of(call) == Mark.COUNT))
    settle_together(several, locality, Mark.COUNT)
    for node in tree.all_of(cst.Comparison):
        # Numbers of rows, and shapes, of one batch, of which each worker has the same part twice.
        sides = [node.left, *(c.comparator for c in node.comparisons)]
        if locality.of(node) == Mark.COUNT and all(map(losses.meets_rows, sides)) and losses.is_same(node):
            locality.settle(node)


def _gives_items(model: cst.Call, losses: Losses) -> bool:
    """Whether the model that is called has several outputs, and gives a list or a tuple of them."""
    return losses.gives_several(model) or losses.number_of_items(model) is not None


def _gone_through(tree: Tree, resolver: Resolver) -> Iterator[cst.BaseExpression]:
    """What loops go through item by item, also inside of `zip` and `enumerate`."""
    queue = [node.iter for node in tree.all_of(cst.For)] + [node.iter for node in tree.all_of(cst.CompFor)]
    while queue:
        node = queue.pop()
        yield node
        if isinstance(node, cst.Call) and set(resolver.values(node.func)) & _ITERATING:
            queue += [arg.value for arg in node.args if not arg.star]


def _is_rest(held: cst.BaseExpression, node: cst.CSTNode, tree: Tree) -> bool:
    """Whether it is `**losses` of the function, of which what a call gives is followed by its names."""
    function = tree.function_of(node)
    rest = function.params.star_kwarg if function is not None else None
    return rest is not None and isinstance(held, cst.Name) and rest.name.value == held.value


def settle_ends(tree: Tree, resolver: Resolver, locality: Locality, losses: Losses) -> None:
    """`batch = next(batches, None)` and `if not batch:` ask whether there is another one, as often on all workers: a
    tensor of several rows has no truth, so that it is a tuple or dictionary of them, or nothing."""
    for node in tree.all_of(cst.If, cst.While, cst.IfExp, cst.Assert):
        test = cast("cst.If | cst.While | cst.IfExp | cst.Assert", node).test
        while isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            test = test.expression
        if not isinstance(test, cst.Name) or not losses.is_rows(test):
            continue
        bindings = locality.dependence.bindings_of(test)
        is_next = bool(bindings) and all(_is_next_or_none(binding, resolver) for binding in bindings)
        if is_next and not locality.of(test) & (Mark.CHOSEN | Mark.OWN):
            locality.settle(test)


def _is_next_or_none(binding: Binding, resolver: Resolver) -> bool:
    """Whether the name gets the next batch of a dataset, `None` behind the last one."""
    call = binding.value
    if binding.kind != "assign" or binding.path or not isinstance(call, cst.Call) or len(call.args) != 2:
        return False
    if resolver.values(call.func) != (External("builtins.next"),):
        return False
    iterators, end = (resolver.values(arg.value) for arg in call.args)
    return (
        end == (External("builtins.None"),) and bool(iterators) and all(_reads_dataset(v, resolver) for v in iterators)
    )


def _reads_dataset(iterator: Value, resolver: Resolver) -> bool:
    if not isinstance(iterator, Result) or not is_call_of(iterator, "builtins.iter") or len(iterator.call.args) != 1:
        return False
    values = resolver.values(iterator.call.args[0].value)
    return bool(values) and all(map(is_dataset, values))


def settle_draws(repaired: Iterable[Repair], tree: Tree, resolver: Resolver, locality: Locality) -> None:
    """Generators that all workers ask for as many numbers stay alike, though each takes others of them."""
    for repair in repaired:
        call = repair.node
        if not isinstance(call, cst.Call) or not any(map(draws, resolver.values(call.func))):
            continue
        for arg in call.args:
            if any(tree.contains(arg, operand.node) for operand in repair.operands):
                locality.settle(arg)
        if repair.form == "drawn":
            locality.make(call, Mark.VALUE)


def settle_together(gathered: Collection[cst.CSTNode], locality: Locality, of_rows: int = _OF_ROWS) -> None:
    """Takes all rows of a batch, or how many there are of something, for the same on all workers if they are so as long
    as all such are: those of one step may come of what the workers have made of those of earlier ones."""
    held = {node for node in gathered if locality.of(node) & ~of_rows}
    while held:
        with locality.trying():
            locality.settle(*held)
            lost = {node for node in held if (locality.of(node) | locality.due(node)) & ~of_rows}
        if not lost:
            break
        held -= lost
    locality.settle(*held)


def settle_by_repair(
    repaired: frozenset[Repair],
    rows: Rows,
    losses: Losses,
    locality: Locality,
    places: SteeringPlaces,
    taped: TapedLosses,
) -> set[Repair]:
    """Takes what is put together for the losses for the same on all workers, and where rows are not repeated, what
    can be put together besides; gives the repairs that what steers needs besides."""
    found: dict[frozenset[Repair], list[cst.BaseExpression]] = defaultdict(list)
    asked_for = set(taped.losses())
    rows_here = {repair.node for repair in losses.gathers}
    settle_together(rows_here, locality)
    for node, repairs in losses.put_together:
        if any(repair.form == "bound" for repair in repairs):
            continue  # as long as the name gets that: the graph tells
        missing = repairs - repaired
        # Means and sums are put together further on, most often of several batches at once.
        can_be = rows is Rows.ONCE and all(operand.how == "gather" for r in missing for operand in r.operands)
        # A ratio of counts over several batches is each worker's own; a loss is of one.
        allowed = Mark.VALUE | Mark.COUNT if node in asked_for else Mark.VALUE
        if node in rows_here and all(operand.how == "gather" for r in repairs for operand in r.operands):
            allowed |= Mark.COUNT  # there are as many rows as the batch has, and no ratio enters them
        if losses.is_array(node) or losses.gives_several(node):  # into which values are put in place
            allowed |= Mark.INSIDE
        if (can_be or not missing) and not locality.of(node) & ~allowed:
            found[missing].append(node)
    missing_in = [(repairs, nodes) for repairs, nodes in found.items() if repairs]
    needed = {r for repairs, nodes in missing_in if any(map(places.first_steered_by, nodes)) for r in repairs}
    put_together = needed | losses.gathers
    for missing, nodes in found.items():  # what nobody puts together in the end stays each worker's own
        for node in nodes if missing <= put_together else ():
            locality.settle(node)
    # What is gathered where it meets all rows, in a metric, is all rows there.
    for operand in (o for r in repaired if r.why == MEETS for o in r.operands if o.how == "gather"):
        if isinstance(operand.node, cst.BaseExpression) and not locality.of(operand.node) & ~Mark.VALUE:
            locality.settle(operand.node)
    return needed
