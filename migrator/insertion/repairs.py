"""Repairs of the analysis as edits: what the rules that own them have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import libcst as cst

from migrator.analysis.values import Operand, Repair
from migrator.edits import InsertBefore, Refusal, Replace, Wrap
from migrator.facts.objects.values import External
from migrator.facts.script import Facts

_BINDS_CLOSER = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.MatrixMultiply, cst.Modulo, cst.Power)
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
_GOING_THROUGH = frozenset(
    f"builtins.{name}" for name in ("all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple")
)
_LOOPS = (cst.For, cst.While, *_COMPREHENSIONS)
# The forms of repairs that gather-batch writes.
PUT_TOGETHER = frozenset({"whole", "call", "metric", "once", "given back"})
_MAY_NOT_RUN = (cst.If, cst.FunctionDef, cst.ClassDef, cst.Try, cst.With)


def put_together(facts: Facts, operand: Operand) -> Iterator[Wrap | Replace | InsertBefore]:
    """Gives every worker the whole of what the operand is a part of: once before a comprehension that only reads it.
    Of a term that all have, each counts its share."""
    if operand.how == "share":
        opening, closing = ("", "") if _is_one_factor(operand.node) else ("(", ")")
        yield Wrap(operand.node, opening, f"{closing} / {facts.call('size')}")
    elif operand.how in ("mean", "sum") and _is_read_in_turns(facts, operand.node):
        name = facts.source(operand.node)
        whole = facts.fresh_variable(f"global_{name}", operand.node)
        arguments = ('reduction="sum"',) if operand.how == "sum" else ()
        yield InsertBefore(operand.node, (f"{whole} = {facts.call('all_reduce', name, *arguments)}",))
        yield Replace(operand.node, (whole,))
    else:
        yield _at_the_place(facts, operand)


def ahead_of_loops(
    facts: Facts, operands: Collection[Operand]
) -> Iterator[tuple[cst.CSTNode, list[InsertBefore | Replace]]]:
    """The names that a loop reads all rows of in each of its turns, and gets from outside: these rows are put together
    once, in front of it. Gives each of the operands that need no edit any more with the edits that do for it."""
    names = {o.node for o in operands if o.how == "gather" and isinstance(o.node, cst.Name)}
    groups: dict[tuple[cst.CSTNode, str], list[cst.Name]] = defaultdict(list)
    for node in sorted(names, key=lambda node: facts.tree.order[node]):
        loop = loop_around(facts, cst.ensure_type(node, cst.Name))
        if loop is not None:
            groups[loop, cst.ensure_type(node, cst.Name).value].append(cst.ensure_type(node, cst.Name))
    for (loop, name), reads in groups.items():
        met = {n for n in facts.tree.names[name] if facts.tree.contains(loop, n) and facts.tree.is_variable(n)}
        left = [n for n in met - names if not _is_read_once(facts, loop, n)]
        if left or all(_is_read_once(facts, loop, read) for read in reads):
            continue
        whole = facts.fresh_variable(f"all_{name}", loop)
        yield reads[0], [InsertBefore(loop, (f"{whole} = {facts.call('all_gather', name)}",))]
        for read in reads:
            yield read, [Replace(read, (whole,))]


def loop_around(facts: Facts, node: cst.Name) -> cst.CSTNode | None:
    """The outermost loop that reads a name of the function which runs it, where that is set in front of the loop and
    where all of it surely runs: what is left of a branch, a tape or a function stays in there."""
    scope = facts.tree.scope_of(node).lookup(node.value)
    function = facts.tree.function_of(node)
    if scope is None or scope.node is not (function or facts.tree.module_of(node)):
        return None
    bindings = scope.bindings[node.value]
    if any(b.kind != "param" and facts.tree.function_of(b.node) is not function for b in bindings):
        return None  # `nonlocal`, `global`: a call in the loop may set it
    made = [b for b in bindings if b.kind == "assign" and isinstance(b.value, (cst.Call, cst.ListComp, cst.DictComp))]
    if not facts.losses.is_array(node) and len(made) != len(bindings):
        return None  # a list that others may have, too, and put more into
    found: cst.CSTNode | None = None
    for owner in facts.tree.ancestors(node):
        if isinstance(owner, (cst.IfExp, cst.BooleanOperation, cst.Lambda)) or waits(facts, owner):
            return None
        if isinstance(owner, _MAY_NOT_RUN):
            break
        if isinstance(owner, _LOOPS):
            in_line = isinstance(facts.tree.statement_of(owner), cst.SimpleStatementLine)
            is_set = any(facts.tree.contains(owner, binding.node) for binding in bindings)
            if is_set or (isinstance(owner, _COMPREHENSIONS) and not in_line):
                break
            found = owner
    return found


def waits(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it is a generator that runs whenever somebody asks it: the name may be another's by then."""
    if not isinstance(node, cst.GeneratorExp):
        return False
    arg = facts.tree.parent[node]
    call = facts.tree.parent[arg]
    functions = facts.resolver.values(call.func) if isinstance(arg, cst.Arg) and isinstance(call, cst.Call) else ()
    return not functions or not all(isinstance(f, External) and f.path in _GOING_THROUGH for f in functions)


def _is_read_once(facts: Facts, loop: cst.CSTNode, read: cst.Name) -> bool:
    """Whether the loop turns over it, and reads it in none of its turns."""
    first = loop.iter if isinstance(loop, cst.For) else getattr(getattr(loop, "for_in", None), "iter", None)
    return first is not None and facts.tree.contains(first, read)


def _is_read_in_turns(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it is a name that a comprehension reads in each of its turns, and gets from outside, in a line of its own
    which reads it nowhere else."""
    if not isinstance(node, cst.Name) or not isinstance(facts.tree.statement_of(node), cst.SimpleStatementLine):
        return False
    turns: list[cst.CSTNode] = []
    for owner in facts.tree.ancestors(node):
        if isinstance(owner, cst.SimpleStatementLine):
            break
        if isinstance(owner, (cst.Lambda, cst.IfExp, cst.BooleanOperation)) or waits(facts, owner):
            return False  # it may not be read at all, or later
        turns += [owner] if isinstance(owner, _COMPREHENSIONS) else []
    if not turns or any(node.value in facts.tree.scopes[turn].bindings for turn in turns):
        return False
    line = facts.tree.statement_of(node)
    return [n for n in facts.tree.names[node.value] if facts.tree.contains(line, n)] == [node]


def _at_the_place(facts: Facts, operand: Operand) -> Wrap | Replace:
    if operand.how == "gather":
        return Wrap(operand.node, f"{facts.runtime}.all_gather(", ")")
    if operand.how in ("metric", "batches"):
        metric = cst.ensure_type(cst.ensure_type(operand.node, cst.Call).func, cst.Attribute).value
        return Replace(operand.node, (facts.call("metric_result", facts.source(metric)),))
    if operand.how == "once":
        return Wrap(operand.node, f"{facts.runtime}.shard_batch(", ', loss="gather")')
    if operand.how == "samples":
        return Wrap(operand.node, f"{facts.runtime}.sample_gradients(", ")")
    if operand.how == "shard":
        return Wrap(operand.node, f"{facts.runtime}.shard_like(", f", {operand.like})")
    tail = ', reduction="sum")' if operand.how == "sum" else ")"
    return Wrap(operand.node, f"{facts.runtime}.all_reduce(", tail)


def _is_one_factor(node: cst.CSTNode) -> bool:
    if getattr(node, "lpar", ()):
        return True
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _BINDS_CLOSER)
    return not isinstance(node, (cst.IfExp, cst.Lambda, cst.Comparison, cst.BooleanOperation))


def cannot_be(facts: Facts, repair: Repair) -> Refusal | None:
    """A refusal where the repair cannot be written down."""
    obstacle = facts.losses.obstacle(repair)
    if not obstacle:
        return None
    return Refusal(repair.node, f"{repair.why}; {obstacle}", "put all rows together here by hand", breaks_training=True)


def waits_alone(facts: Facts, repair: Repair) -> Refusal | None:
    """A refusal where the repair would have the chief wait for workers that never come."""
    runs = [repair.node, *facts.losses.calls_on_whole_data(repair)]
    for write in facts.files.writes:
        bodies = [body for statement in write.statements for body in facts.training.reached_from(statement)]
        if any(facts.tree.contains(body, node) for body in bodies for node in runs):
            return Refusal(
                repair.node,
                "all workers put this together, but the chief alone writes a file with what it is part of",
                "work that out before the file is written",
                breaks_training=True,
            )
    return None
