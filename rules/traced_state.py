"""Refuse Python values that change from step to step and are read while a step is traced.

A `tf.function` runs the Python in it where it is traced: a counter that it reads is from then on a constant of that
graph. TensorFlow traces it again for a batch of another shape, which most often is the last, smaller one; the constant
of that graph is the counter as it is by then. On N workers the graph of the last batch may be that of the others, as a
worker's part of it may have the same shape, and the constant another one.

before:
    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x), y) + beta * penalty(model)  # beta += 0.1 after each step
after:
    @tf.function
    def train_step(x, y, beta):
        with tf.GradientTape() as tape:
            loss = loss_of(model(x), y) + beta * penalty(model)  # train_step(x, y, tf.constant(beta))

Leaves alone: what does not change in the loop that runs the steps, as a weight that changes once an epoch; batches of
one size (`drop_remainder=True`) and steps with an `input_signature`, which are traced once; steps that run eagerly; in
Keras's `fit`, which traces once for all sizes, what the step itself does not change; what is only printed while a step
is traced, or set to what it was and something more.
Refuses: all other Python values, lists among them, that change in the loop or while a step is traced.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

_TELLING = frozenset({"print", "info", "debug", "warning", "log"})
_FILLING = frozenset({"append", "add", "extend", "update", "insert", "clear"})
_RUN_LATER = frozenset({"py_function", "numpy_function", "py_func"})


@rule
def traced_state(facts: Facts) -> Findings:
    for node in sorted(facts.losses.baked, key=lambda node: facts.tree.order.get(node, -1)):
        if node in facts.tree.order and not _is_harmless(facts, node) and not _runs_later(facts, node):
            yield Refusal(
                node,
                f"{facts.source(node)} changes from step to step, and what is traced has it as it was then: for a last "
                "batch of another size one device traces again, and a worker need not",
                "make it a tf.Variable, or give it to the step as a tensor",
                breaks_training=True,
            )


def _is_harmless(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether what is read there is only told, or what the same is set to is made of it."""
    for owner in facts.tree.ancestors(node):
        if isinstance(owner, cst.Call) and _name(owner) in _TELLING:
            return True
        if isinstance(owner, cst.If) and facts.tree.contains(owner.test, node):
            return owner.orelse is None and all(map(_tells, owner.body.body))
        if isinstance(owner, cst.Expr):
            call = owner.value
            is_filled = isinstance(call, cst.Call) and _name(call) in _FILLING
            return is_filled and facts.tree.contains(cst.ensure_type(call, cst.Call).func, node)
        if isinstance(owner, (cst.AugAssign, cst.Assign)):
            targets = [owner.target] if isinstance(owner, cst.AugAssign) else [t.target for t in owner.targets]
            return any(target.deep_equals(node) or _is_item_of(target, node) for target in targets)
        if isinstance(owner, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            return False
    return False


def _is_item_of(target: cst.BaseExpression, node: cst.CSTNode) -> bool:
    return isinstance(target, cst.Subscript) and target.value is node


def _tells(statement: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return all(map(_tells, statement.body))
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        return _name(statement.value) in _TELLING
    return isinstance(statement, cst.Pass)


def _runs_later(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it stands in a function of which the graph calls the Python."""
    function = facts.tree.function_of(node)
    later = [call.args[0].value for call in facts.tree.calls if call.args and _name(call) in _RUN_LATER]
    names = {name.value for name in later if isinstance(name, cst.Name)}
    return function in later or (isinstance(function, cst.FunctionDef) and function.name.value in names)


def _name(call: cst.Call) -> str:
    function = call.func
    name = function.attr if isinstance(function, cst.Attribute) else function
    return name.value if isinstance(name, cst.Name) else ""
