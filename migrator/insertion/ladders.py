"""Chains of conditions of which each branch makes an object by the same name: it is sent once, behind the chain."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.edits import InsertAfter
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Statement, nodes_in
from migrator.facts.script import Facts
from migrator.insertion.handover import complete, is_given

# What a model has that leaves its weights alone, and does not ask for them.
_NOT_OF_WEIGHTS = frozenset({"summary", "compile", "build", "optimizer"})


def is_given_behind(facts: Facts, holder: Holder, role: Role) -> bool:
    """Whether the object is given to a call of that role behind the chain of which a branch makes it."""
    chain = _chain_around(facts, holder)
    return chain is not None and is_given(facts, holder, facts.tree.block_of(chain), role)


def behind_ladders(facts: Facts, edits: Iterable[InsertAfter], holders: dict[InsertAfter, Holder]) -> list[InsertAfter]:
    """The edits, with one behind a chain of conditions in the place of equal ones in all of its branches."""
    found: list[InsertAfter] = []
    sent: dict[InsertAfter, list[InsertAfter]] = {}
    for edit in edits:
        chain = _chain_around(facts, holders[edit]) if edit in holders else None
        if chain is None:
            found.append(edit)
        else:
            sent.setdefault(InsertAfter(chain, edit.code), []).append(edit)
    for behind, each in sent.items():
        branches = _branches(cst.ensure_type(behind.node, cst.If))
        blocks = {facts.tree.block_of(edit.node) for edit in each}
        is_one = len(each) > 1 and all(b is not None and (b in blocks or facts.ranks.leaves(b)) for b in branches)
        found += [behind] if is_one else each
    return found


def _branches(chain: cst.If) -> list[cst.BaseSuite | None]:
    """The branches, with None for the last one that is not there."""
    if isinstance(chain.orelse, cst.If):
        return [chain.body, *_branches(chain.orelse)]
    return [chain.body, chain.orelse.body if chain.orelse is not None else None]


def _chain_around(facts: Facts, holder: Holder) -> cst.If | None:
    """The chain of conditions in a branch of which the object is made, and that asks for its weights no more."""
    statement = complete(facts, holder)
    block = facts.tree.block_of(statement)
    owner = facts.tree.parent.get(block)
    if isinstance(owner, cst.Else):
        owner = facts.tree.parent[owner]
    if not isinstance(block, cst.IndentedBlock) or not isinstance(owner, cst.If):
        return None
    beside = facts.tree.statements_beside(statement)
    if any(_asks(facts, holder, later) for later in beside[beside.index(statement) + 1 :]):
        return None
    above = facts.tree.parent[owner]
    while isinstance(above, cst.If) and above.orelse is owner:
        owner, above = above, facts.tree.parent[above]
    return owner


def _asks(facts: Facts, holder: Holder, later: Statement | cst.CSTNode) -> bool:
    """Whether the statement may leave the branch, or ask for the weights of what the holder names."""
    target = holder.target
    name = target.attr if isinstance(target, cst.Attribute) else target
    if not isinstance(name, cst.Name) or isinstance(later, (cst.Return, cst.Raise)):
        return True
    for body in facts.training.reached_from(later):
        for node in nodes_in(body):
            if isinstance(node, (cst.Return, cst.Raise, cst.Break, cst.Continue)) and body is later:
                return True
            if isinstance(node, cst.Name) and node.value == name.value and not _is_of_no_weights(facts, node):
                return True
    return False


def _is_of_no_weights(facts: Facts, name: cst.Name) -> bool:
    """`model.compile(…)`, or a call of the runtime on the model."""
    owner: cst.CSTNode = name
    while isinstance(facts.tree.parent[owner], cst.Attribute):
        owner = facts.tree.parent[owner]
        if isinstance(owner, cst.Attribute) and owner.attr.value in _NOT_OF_WEIGHTS:
            return True
    call = facts.tree.parent[facts.tree.parent[owner]] if isinstance(facts.tree.parent[owner], cst.Arg) else None
    values = facts.resolver.values(call.func) if isinstance(call, cst.Call) else ()
    return bool(values) and all(isinstance(v, External) and v.path.startswith("lockstep.") for v in values)
