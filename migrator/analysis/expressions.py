"""What each form of expression gives."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Callable

import libcst as cst

from migrator.analysis import one_each, ops, own_operators, row_counts, walruses
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame, join_names
from migrator.analysis.instances import assume_kind
from migrator.analysis.libraries import runtime
from migrator.analysis.libraries.python.containers import sent_to
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ROWS, Partial, Shape, Sharded
from migrator.analysis.truth import asked, compared, outcome
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, External, Function, Instance, Site, Tuple, Value
from migrator.facts.program.presence import asks_if_there_is_none
from migrator.facts.program.syntax import OPERATORS, made_in_turns
from migrator.facts.program.tree import Scope
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_NEW_AXIS = (External("tensorflow.newaxis"), External("numpy.newaxis"))
_PICKED = "what a worker has seen of the batch decides which of these it is"
_MOST_LITERALS = 1024
_MOST_COPIES = 64  # of what a list holds
_LITERAL_NAMES = {"True": True, "False": False, "None": None}


# A literal is met in each turn of a loop, and Python's parser is slow to start.
@lru_cache(maxsize=_MOST_LITERALS)
def _literal(text: str) -> Any:
    with warnings.catch_warnings():  # of the script's own escapes
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


class Expressions:
    def __init__(self, run: Run) -> None:
        self.run = run
        # The scopes of which lambdas read names.
        self._read_by: dict[cst.Lambda, set[Scope | None]] = {}

    def eval(self, node: cst.CSTNode, frame: Frame) -> Value:
        run = self.run
        run.spend()
        value = _EVALUATE.get(type(node), Expressions._unhandled)(self, node, frame)
        if id(node) in run.shares.nodes:
            value = run.shares.cut(node, value)
            if node in run.shares.combined_there:
                run.record(node, value)  # as each worker has it, of whom it is asked
                return run.shares.once_combined(value, node)
        run.record(node, value)
        return value

    def _unhandled(self, node: cst.CSTNode, frame: Frame) -> Value:
        return v.unseen("this form of expression is not understood")

    # -- names and literals --------------------------------------------------------------------------------------

    def _name(self, node: cst.Name, frame: Frame) -> Value:
        if node.value in _LITERAL_NAMES:
            return v.constant(_LITERAL_NAMES[node.value])
        value = self.run.bindings.load(node.value, frame)
        self.run.changing.read_name(node, value, frame)
        return self.run.packages.opened(value) if self.run.packages.inside else value

    def _number(self, node: cst.Integer | cst.Float | cst.Imaginary, frame: Frame) -> Value:
        return v.constant(_literal(node.value))

    def _text(self, node: cst.SimpleString | cst.ConcatenatedString, frame: Frame) -> Value:
        if isinstance(node, cst.SimpleString):
            return v.constant(_literal(node.value))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = node.evaluated_value
        return v.constant(text) if text is not None else NUMBER

    def _formatted(self, node: cst.FormattedString, frame: Frame) -> Value:
        parts = [
            self.eval(part.expression, frame) for part in node.parts if isinstance(part, cst.FormattedStringExpression)
        ]
        return self.run.placing.text(parts)

    def _ellipsis(self, node: cst.Ellipsis, frame: Frame) -> Value:
        return v.constant(Ellipsis)

    # -- operators -----------------------------------------------------------------------------------------------

    def _binary(self, node: cst.BinaryOperation, frame: Frame) -> Value:
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        return self.operate(node, type(node.operator).__name__, (left, right), (node.left, node.right), frame)

    def operate(
        self,
        node: cst.CSTNode,
        operator: str,
        operands: Sequence[Value],
        nodes: Sequence[cst.CSTNode | None],
        frame: Frame,
    ) -> Value:
        own = own_operators.of_operator(self.run, OPERATORS.get(operator, ""), operands, nodes, node, frame)
        if own is not None:
            return own
        sequences = [self.run.objects.sequence_items(o) for o in operands]
        if operator == "Add" and all(s is not None for s in sequences):
            return self.run.objects.concatenated(operands, Site(node, frame.context))
        if operator == "Add" and all(map(_is_list, operands)):
            made = Container("list", Site(node, frame.context))
            self.run.heap.store(made, None, v.join_all(self.run.objects.parts(o) for o in operands))
            return v.of(made)
        if operator == "Add" and sequences[0] is not None:
            sizes = _sizes(sequences[0], operands[1])
            if sizes is not None:
                return sizes
        if operator == "BitOr" and any(map(_is_dictionary, operands)) and self._stand_alike(operands):
            made = Container("dict", Site(node, frame.context))
            for operand in operands:
                self.run.objects.update(v.of(made), operand, node)
            return v.of(made)
        if operator == "Multiply":
            several = self._a_row_each(operands, sequences, node) or self._repeated(operands, sequences, node, frame)
            if several is not None:
                return several
        constants = [o.constant for o in operands]
        if operands[0].is_text and (operator == "Modulo" or (operator == "Add" and operands[1].is_text)):
            return self.run.placing.text(operands)
        known = _of_constants(operator, operands, constants)
        if known is not None:
            self.run.note_plain(node)
            return known
        if operator == "Divide" and constants[1] == runtime.SIZE:
            held = v.join_all(Value(d) for d in self.run.objects.leaves(operands[0]))  # of a variable, say
            return v.mapped(held, lambda d: replace(d, placement=Partial("sum")) if d.is_replicated else d)
        return self.run.operator(f"operator.{OPERATORS.get(operator, 'unknown')}", operands, nodes, node)

    def _stand_alike(self, operands: Sequence[Value]) -> bool:
        """Whether these are dictionaries of which all parts stand alike, so that it does not matter which is meant."""
        leaves = [d for operand in operands for d in self.run.objects.leaves(operand)]
        are_structures = all(_is_dictionary(o) or o.is_structure for o in operands)
        return are_structures and len({d.placement for d in leaves}) == 1 and not any(d.needs for d in leaves)

    def _a_row_each(
        self, operands: Sequence[Value], sequences: Sequence[list[Value] | None], node: cst.CSTNode
    ) -> Value | None:
        """A list repeated for each row of a worker's part: `[start] * target.shape[0]`."""
        for items, times in zip(sequences, reversed(operands)):
            is_number = times.data is not None and times.data.placement == ROWS and not times.objects
            if not items or not is_number:
                continue
            leaves = [d for item in items for d in self.run.objects.leaves(item)]
            if not leaves or any(not d.is_replicated or d.whole for d in leaves):
                return None
            ranks = {item.data.rank if item.data is not None and not item.objects else None for item in items}
            rank = ranks.pop() if len(ranks) == 1 else None
            needs = frozenset(r for d in (times.data, *leaves) if d is not None for r in d.needs)
            rows = "one" if len(items) == 1 else "even"
            filled = frozenset({(node, False)})
            return Value(Data(Sharded(0, rows), rank=None if rank is None else rank + 1, needs=needs, filled=filled))
        return None

    def _repeated(
        self,
        operands: Sequence[Value],
        sequences: Sequence[list[Value] | None],
        node: cst.CSTNode,
        frame: Frame,
    ) -> Value | None:
        """A list of objects so many times: `[loss] * 3`, `[layer] * depth`. Numbers are multiplied as arrays are."""
        for items, owner, times in zip(sequences, operands, reversed(operands)):
            if not items or any(item.data is not None for item in items):
                continue
            count = times.constant
            if isinstance(count, int) and 0 < count <= _MOST_COPIES:
                return self.run.objects.concatenated([owner] * count, Site(node, frame.context))
            if times.data is not None and times.data.is_replicated and not times.objects:
                made = Container("list", Site(node, frame.context))
                self.run.heap.store(made, None, v.join_all(items))
                return v.of(made)
        return None

    def augmented(self, node: cst.AugAssign, operator: str, before: Value, frame: Frame) -> Value:
        added = self.eval(node.value, frame)
        if operator == "Add" and self.run.objects.extend(before, added):
            return before
        named = f"i{OPERATORS.get(operator, '')}"
        own = own_operators.of_operator(self.run, named, (before, added), (None, node.value), node, frame)
        if own is not None:
            return own
        joined = isinstance(before.only, Container) and before.only.kind in ("dict", "set")
        if operator == "BitOr" and joined:  # `table |= dict(zip(names, losses))`
            self.run.libraries.call_method(before, "update", Arguments([added], nodes={0: node.value}), node, frame)
            return before
        return self.operate(node, operator, (before, added), (None, node.value), frame)

    def _unary(self, node: cst.UnaryOperation, frame: Frame) -> Value:
        value = self.eval(node.expression, frame)
        operator = type(node.operator).__name__
        if operator == "Not":
            truth = outcome(value)
            if truth is not None:
                return v.constant(not truth)
            return self.run.compared([asked(value)], [node.expression], node)
        constant = value.constant
        if isinstance(constant, (int, float)) and operator in ("Minus", "Plus"):
            return v.constant(-constant if operator == "Minus" else constant)
        name = OPERATORS[operator]
        own = own_operators.of_operator(self.run, name, (value,), (node.expression,), node, frame)
        return own if own is not None else self.run.operator(f"operator.{name}", (value,), (node.expression,), node)

    def _boolean(self, node: cst.BooleanOperation, frame: Frame) -> Value:
        left = self.eval(node.left, frame)
        agreed = self.run.decide(node.left, left)
        truth = outcome(left)
        is_and = isinstance(node.operator, cst.And)
        if truth is not None and truth is not is_and:
            return left
        if truth is not None:
            return self.eval(node.right, frame)
        right = walruses.perhaps(self.run, node.right, frame, lambda: self.eval(node.right, frame), [agreed])
        return self.run.chosen(v.join(left, right), [agreed])

    def _comparison(self, node: cst.Comparison, frame: Frame) -> Value:
        left = self.eval(node.left, frame)
        rights = [self.eval(c.comparator, frame) for c in node.comparisons]
        if len(rights) == 1:
            operator, compared_with = type(node.comparisons[0].operator).__name__, node.comparisons[0].comparator
            asks_for_none = asks_if_there_is_none(self.run.tree, node)
            if asks_for_none is not None:
                operator = "Is" if asks_for_none else "IsNot"
            known = compared(operator, left, rights[0])
            if known is not None:
                return v.constant(known)
            if rights[0].constant is None and operator in ("Is", "IsNot") and self.run.is_there_for_all(left):
                return NUMBER
            nodes = (node.left, compared_with)
            own = own_operators.of_operator(
                self.run, OPERATORS.get(operator, ""), (left, rights[0]), nodes, node, frame
            )
            if own is not None:
                return own
            if self.run.lacking.is_asked_for_a_word(operator, left, rights[0], compared_with):
                return v.with_needs(NUMBER, frozenset(r for d in v.contents(rights[0]) for r in d.needs))
            alike = row_counts.compared(left, rights[0]) if operator in ("Equal", "NotEqual") else None
            if alike is not None:
                return alike
            if operator in OPERATORS:
                return self.run.operator(f"operator.{OPERATORS[operator]}", (left, rights[0]), nodes, node)
        all_nodes = [node.left, *(c.comparator for c in node.comparisons)]
        return self.run.compared([left, *rights], all_nodes, node)

    def _conditional(self, node: cst.IfExp, frame: Frame) -> Value:
        condition = self.eval(node.test, frame)
        agreed = self.run.decide(node.test, condition)
        truth = self.run.way(node, condition)
        if truth is not None:
            return self.eval(node.body if truth else node.orelse, frame)
        body, other = (
            walruses.perhaps(self.run, way, frame, partial(self.eval, way, frame), [agreed])
            for way in (node.body, node.orelse)
        )
        return self.run.chosen(v.one_of(body, other), [agreed])

    def assume(self, test: cst.BaseExpression, outcome: bool, frame: Frame) -> None:
        """Takes out of a name what a test has shown it not to be: `None`, an object of another class."""
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            self.assume(test.expression, not outcome, frame)
        elif isinstance(test, cst.Name):
            if outcome:
                self._assume_something(test, frame)
        elif isinstance(test, cst.Comparison) and len(test.comparisons) == 1 and isinstance(test.left, cst.Name):
            asks_for_none = asks_if_there_is_none(self.run.tree, test)
            if asks_for_none is not None and asks_for_none is not outcome:
                self._assume_something(test.left, frame)
        elif isinstance(test, cst.Call):
            assume_kind(self.run, test, outcome, frame)
        elif isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And if outcome else cst.Or):
            self.assume(test.left, outcome, frame)
            self.assume(test.right, outcome, frame)
        elif isinstance(test, cst.BooleanOperation):  # by its left part, or by its right one
            before, ways = frame.names, []
            for is_left in (True, False):
                frame.names = dict(before or {})
                self.assume(test.left, outcome is is_left, frame)
                if not is_left:
                    self.assume(test.right, outcome, frame)
                ways.append(frame.names)
            frame.names = join_names(ways)

    def _assume_something(self, name: cst.Name, frame: Frame) -> None:
        value = (frame.names or {}).get(name.value)
        if value is not None and value.objects and value.data is not None and value.data.constant is None:
            (frame.names or {})[name.value] = value.without_data()

    # -- parts ---------------------------------------------------------------------------------------------------

    def _attribute(self, node: cst.Attribute, frame: Frame) -> Value:
        owner = self.eval(node.value, frame)
        value = self.run.objects.attribute(owner, self.run.tree.name_of(node), node)
        self.run.changing.read_attribute(node, owner, value)
        return self.run.packages.opened(value) if self.run.packages.inside else value

    def _subscript(self, node: cst.Subscript, frame: Frame) -> Value:
        owner, index = self.eval(node.value, frame), self.index(node.slice, frame)
        if owner.only == External("numpy.s_"):
            return index
        if self._is_own_number(index, node, frame):
            return v.unseen("which item an object picks by its `__index__` is not seen")
        found = self.run.objects.item(owner, index, node)
        if _picks_one(node, index) and not any(isinstance(atom, Instance) for atom in owner):
            found = v.mapped(found, lambda data: replace(data, item=True) if data.is_replicated else data)
        if not any(isinstance(atom, (Container, Tuple)) for atom in owner):
            return found
        if len(node.slice) > 1:
            return self.run.chosen(found, [index])
        place, site = node.slice[0].slice, Site(node, frame.context)
        if isinstance(place, cst.Slice):
            bounds = [b for b in (place.lower, place.upper, place.step) if b is not None]
            return self._between([self.run.agreed(b, self.run.seen[b]) for b in bounds], owner, found, site)
        if self.run.placing.parts.is_slice(index):  # `slice(…)`, of which the numbers are not combined here
            return self._between([index], owner, found, site)
        if not self.run.growing.isdisjoint(owner.objects) and self.run.may_differ(index):
            return v.unseen("what this dictionary gives a new key depends on those that it was asked for before")
        return self.run.chosen(found, [self.run.agreed(cst.ensure_type(place, cst.Index).value, index)])

    def _is_own_number(self, index: Value, node: cst.Subscript, frame: Frame) -> bool:
        """Whether it is an object of the program that says which number it stands for, by what a worker has."""
        methods = [self.run.classes.method(atom, "__index__") for atom in index if isinstance(atom, Instance)]
        numbers = [self.run.calls.call(m, Arguments(), node, frame) for m in methods if m is not None]
        return any(d.needs or not d.is_replicated for number in numbers for d in v.contents(number))

    def _between(self, agreed: Sequence[Value], owner: Value, found: Value, site: Site) -> Value:
        """The part of a list between two places: some of its items, where workers may differ in these."""
        if not any(map(self.run.may_differ, agreed)):
            return self.run.chosen(found, agreed)
        if not self.run.in_loss:
            return self._as_long_as(agreed, self.run.chosen(found, agreed), site)
        items = self.run.objects.parts(owner)
        some = v.mapped(Value(v.join(Value(items.data), NUMBER).data), lambda d: replace(d, listed=True))
        return self.run.chosen(v.unseen(_PICKED) if items.objects else some, agreed)

    def _as_long_as(self, agreed: Sequence[Value], part: Value, site: Site) -> Value:
        """The part of lists that is as long as these say: so often a loop over it turns."""
        lists = [atom for atom in part.objects if isinstance(atom, Container) and atom.kind == "list"]
        if not lists:
            return part
        made = Container("list", site)
        self.run.heap.store(made, None, v.join_all(self.run.objects.parts(v.of(atom)) for atom in lists))
        self.run.turns[made] = list(agreed)
        return Value(part.data, part.objects.difference(lists) | {made})

    def index(self, slices: Sequence[cst.SubscriptElement], frame: Frame) -> Value:
        """The index of a subscript; several are a tuple."""
        parts = [self._slice(s.slice, frame) for s in slices]
        has_comma = len(slices) == 1 and isinstance(slices[0].comma, cst.Comma)
        return parts[0] if len(parts) == 1 and not has_comma else v.of(Tuple(tuple(parts)))

    def _slice(self, node: cst.BaseSlice, frame: Frame) -> Value:
        if isinstance(node, cst.Index):
            value = self.eval(node.value, frame)
            return v.NONE if value.only in _NEW_AXIS else value
        assert isinstance(node, cst.Slice)
        bounds = [self.eval(b, frame) if b is not None else v.NONE for b in (node.lower, node.upper, node.step)]
        return self.run.placing.parts.slice(bounds)

    # -- displays ------------------------------------------------------------------------------------------------

    def _tuple(self, node: cst.Tuple, frame: Frame) -> Value:
        items: list[Value] = []
        for element in node.elements:
            value = self.eval(element.value, frame)
            if not isinstance(element, cst.StarredElement):
                items.append(value)
                continue
            inner = self.run.objects.sequence_items(value)
            if inner is None:
                return self._list(node, frame)
            items.extend(inner)
        return v.of(Tuple(tuple(items)))

    def _list(self, node: cst.List | cst.Tuple | cst.Set, frame: Frame) -> Value:
        values = [self.eval(element.value, frame) for element in node.elements]
        made = Container("set" if isinstance(node, cst.Set) else "list", v.site_of_display(node, values, frame.context))
        position, is_at_once = 0, self._is_given_to_an_op(node)
        for element, value in zip(node.elements, values):
            inner = self.run.objects.sequence_items(value) if isinstance(element, cst.StarredElement) else [value]
            if inner is None:
                self.run.heap.store(made, None, self.run.objects.elements(value, node, element.value))
                continue
            for item in inner:
                self.run.heap.store(made, position, item, is_at_once=is_at_once)
                position += 1
        return v.of(made)

    def _is_given_to_an_op(self, node: cst.CSTNode) -> bool:
        """Whether nothing gets the list but an operation, which does not keep it: `tf.concat([a, b], axis=0)`."""
        argument = self.run.tree.parent[node]
        call = self.run.tree.parent[argument] if isinstance(argument, cst.Arg) else None
        only = self.run.seen.get(call.func, NOTHING).only if isinstance(call, cst.Call) else None
        return isinstance(only, External) and ops.lookup(only.path) is not None

    def _dict(self, node: cst.Dict, frame: Frame) -> Value:
        values = [self.eval(element.value, frame) for element in node.elements]
        if isinstance(self.run.tree.parent[node], cst.Return):
            values = [self.run.given_back(e.value, value, frame) for e, value in zip(node.elements, values)]
        made = Container("dict", v.site_of_display(node, values, frame.context))
        for element, value in zip(node.elements, values):
            if isinstance(element, cst.StarredDictElement):
                self.run.objects.update(v.of(made), value, node)
            elif isinstance(element, cst.DictElement):
                self.run.objects.store_item(v.of(made), self.eval(element.key, frame), value, node)
        return v.of(made)

    def _comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, frame: Frame) -> Value:
        agreed: list[Value] = []
        return walruses.in_turns(self.run, node, frame, lambda: self._comprehended(node, frame, agreed), agreed)

    def _comprehended(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp, frame: Frame, agreed: list[Value]
    ) -> Value:
        inner = Frame(self.run.tree.scopes[node], frame, frame.context, receiver=frame.receiver, owner=frame.owner)
        kind = "dict" if isinstance(node, cst.DictComp) else "set" if isinstance(node, cst.SetComp) else "list"
        made = Container(kind, Site(node, frame.context))
        if isinstance(node, cst.GeneratorExp):
            self.run.evaluations.note_part()  # of which some may run behind the call
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)) and (items := self._one_by_one(node, inner)):
            made = Container(kind, Site(node, (*frame.context, len(items))))
            for place, item in enumerate(items):
                self.run.heap.store(made, place, item)
        elif self._clauses(node.for_in, inner, agreed):
            with self.run.decided_by(agreed, self.run.running[-1]):  # what the turns do besides
                each = [self.eval(part, inner) for part in made_in_turns(node)]
            item = self.run.chosen(each[-1], agreed)
            if isinstance(node, cst.DictComp):
                self.run.objects.store_item(v.of(made), each[0], item, node)
            else:
                several = one_each.of_turns(self.run, node.for_in, item) if kind == "list" else None
                if several is not None:
                    return several
                self.run.heap.store(made, None, item)
        return v.of(made)

    def _one_by_one(self, node: cst.ListComp | cst.GeneratorExp, frame: Frame) -> list[Value]:
        """The items, where one is made of each of the few arrays that a tuple or list has; empty of others."""
        clause = node.for_in
        if clause.ifs or clause.inner_for_in is not None:
            return []
        given = self.run.objects.sequence_items(self.eval(clause.iter, frame)) or []
        # What is called of several objects, or of what texts and numbers pick, is planned for all of them.
        if not 1 < len(given) <= v.MOST_ITEMS or not all(each.picks_nothing for each in given):
            return []
        found = []
        for value in (self.run.libraries.read(each, clause) for each in given):
            self.run.statements.bind(clause.target, value, frame)
            found.append(self.eval(node.elt, frame))
        # What is made in a turn may read the name in a later one.
        self.run.statements.bind(clause.target, self.run.libraries.read(v.join_all(given), clause), frame)
        return found

    def _clauses(self, clause: cst.CompFor, frame: Frame, agreed: list[Value]) -> bool:
        """Goes through the clauses; false where there is nothing to go through. `agreed` gets what decides which items
        are taken."""
        iterated = self.eval(clause.iter, frame)
        agreed += self.run.settling_turns(iterated)
        element = self.run.objects.elements(iterated, clause, clause.iter)
        if element is NOTHING:
            return False
        self.run.statements.bind(clause.target, element, frame)
        for condition in clause.ifs:
            agreed.append(self.run.decide(condition.test, self.eval(condition.test, frame)))
        return clause.inner_for_in is None or self._clauses(clause.inner_for_in, frame, agreed)

    # -- functions -----------------------------------------------------------------------------------------------

    def _lambda(self, node: cst.Lambda, frame: Frame) -> Value:
        function = Function(node, self._closed_over(node, frame))
        self.run.definitions.define(function, node.params)
        return v.of(function)

    def _closed_over(self, node: cst.Lambda, frame: Frame) -> Frame:
        """The innermost frame of which the lambda reads a name: one that reads none of the function around it is the
        same whenever that runs."""
        scopes = self._read_by.get(node)
        if scopes is None:
            scopes = self._read_by[node] = self._scopes_read(node)
        while frame.parent is not None and frame.scope not in scopes:
            frame = frame.parent
        return frame

    def _scopes_read(self, node: cst.Lambda) -> set[Scope | None]:
        tree = self.run.tree
        here = tree.scope_of(node)
        names = list(tree.names_in(node))
        if here.is_class or any(name.value == "super" for name in names) or _has_defaults(node.params):
            return {here}
        return {tree.scope_of(name).lookup(name.value) for name in names}

    def _call(self, node: cst.Call, frame: Frame) -> Value:
        return self.run.calls.evaluate(node, frame)

    def _walrus(self, node: cst.NamedExpr, frame: Frame) -> Value:
        value = self.eval(node.value, frame)
        self.run.statements.bind(node.target, value, frame)
        return value

    def _await(self, node: cst.Await, frame: Frame) -> Value:
        return self.eval(node.expression, frame)

    def _yield(self, node: cst.Yield, frame: Frame) -> Value:
        if isinstance(node.value, cst.From):
            value = self.run.objects.elements(self.eval(node.value.item, frame), node, node.value.item)
        else:
            value = self.eval(node.value, frame) if node.value is not None else v.NONE
        frame.yielded = v.join(frame.yielded, value)
        return v.join(NUMBER, self.run.heap.load(sent_to(frame.scope.node), None))


def _has_defaults(params: cst.Parameters) -> bool:
    several = (*params.posonly_params, *params.params, *params.kwonly_params)
    return any(param.default is not None for param in several)


def _picks_one(node: cst.Subscript, index: Value) -> bool:
    """`x[i]`, with a number that a name stands for, or `x[0, a:b]`."""
    first = index.only.items[0] if isinstance(index.only, Tuple) and index.only.items else index
    place = node.slice[0].slice
    numbers = (cst.Name, cst.Integer, cst.UnaryOperation) if len(node.slice) > 1 else cst.Name
    is_written_so = isinstance(place, cst.Index) and isinstance(place.value, numbers)
    return is_written_so and first.data is not None and not first.objects and first.data.rank == 0 and not first.is_text


def _is_list(value: Value) -> bool:
    """Whether it surely is a list of Python's, however long."""
    only = value.only
    return isinstance(only, Tuple) or (isinstance(only, Container) and only.kind == "list")


def _is_dictionary(value: Value) -> bool:
    only = value.only
    return isinstance(only, Container) and only.kind == "dict"


def _sizes(first: Sequence[Value], others: Value) -> Value | None:
    """A number of rows and other sizes: `(tf.shape(x)[0],) + (1,) * (len(x.shape) - 1)`."""
    found = [i for i, size in enumerate(first) if size.data is not None and size.data.placement == ROWS]
    rest = [d for i, size in enumerate(first) if i not in found for d in v.contents(size)]
    if len(found) != 1 or others.objects or not all(d.is_replicated for d in (*rest, *v.contents(others))):
        return None
    return Value(Data(Shape(found[0]), rank=1))


def _of_constants(operator: str, operands: Sequence[Value], constants: Sequence[Any]) -> Value | None:
    """The result of two numbers that are known, or of something and nothing that is added to it."""
    is_number = [isinstance(c, (int, float)) for c in constants]
    if operator in ("Add", "Subtract") and is_number[1] and constants[1] == 0:
        return operands[0]
    if operator == "Add" and is_number[0] and constants[0] == 0:
        return operands[1]
    folded = _folded(operator, constants) if all(is_number) else NOT_CONSTANT
    return v.constant(folded) if folded is not NOT_CONSTANT else None


def _folded(operator: str, constants: Sequence[Any]) -> Any:
    try:
        left, right = constants
        if operator == "Add":
            return left + right
        if operator == "Subtract":
            return left - right
        if operator == "Multiply":
            return left * right
        if operator == "Divide":
            return left / right
        if operator == "FloorDivide":
            return left // right
    except (ArithmeticError, ValueError):
        pass
    return NOT_CONSTANT


_EVALUATE: dict[type, Callable[..., Value]] = {
    cst.Name: Expressions._name,
    cst.Integer: Expressions._number,
    cst.Float: Expressions._number,
    cst.Imaginary: Expressions._number,
    cst.SimpleString: Expressions._text,
    cst.ConcatenatedString: Expressions._text,
    cst.FormattedString: Expressions._formatted,
    cst.Ellipsis: Expressions._ellipsis,
    cst.BinaryOperation: Expressions._binary,
    cst.UnaryOperation: Expressions._unary,
    cst.BooleanOperation: Expressions._boolean,
    cst.Comparison: Expressions._comparison,
    cst.IfExp: Expressions._conditional,
    cst.Attribute: Expressions._attribute,
    cst.Subscript: Expressions._subscript,
    cst.Tuple: Expressions._tuple,
    cst.List: Expressions._list,
    cst.Set: Expressions._list,
    cst.Dict: Expressions._dict,
    cst.ListComp: Expressions._comprehension,
    cst.SetComp: Expressions._comprehension,
    cst.GeneratorExp: Expressions._comprehension,
    cst.DictComp: Expressions._comprehension,
    cst.Lambda: Expressions._lambda,
    cst.Call: Expressions._call,
    cst.NamedExpr: Expressions._walrus,
    cst.Await: Expressions._await,
    cst.Yield: Expressions._yield,
}
