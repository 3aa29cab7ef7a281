"""Which calls may read a file again that the script has written before."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.files.paths import Paths, lies_in
from migrator.facts.files.writes import Files
from migrator.facts.names.api import LOAD_MODEL
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Function, Value, is_call_of
from migrator.facts.program.tree import Tree

_TABLES = frozenset({"to_csv", "savefig"})
_OF_NO_WEIGHTS = re.compile(
    r"^numpy\.save\w*$|\.(?:savefig|imsave|imwrite|mimsave|mimwrite|save_img)$|^json\.dump$"
    r"|^logging\.(?:basicConfig|FileHandler|handlers\.\w+)$"
)


class ReadAgain:
    def __init__(self, tree: Tree, resolver: Resolver, files: Files, paths: Paths) -> None:
        self.tree = tree
        self.resolver = resolver
        self.files = files
        self.paths = paths

    def reads(self, first: cst.CSTNode, last: cst.CSTNode, writing: Sequence[cst.Call]) -> Iterator[cst.Call]:
        """The calls that may read afterwards, as far as seen, what these calls in the statements from the first to the
        last have written."""
        if writing and all(map(self.files.is_shown, writing)):
            return
        write_paths = [path for call in writing for path in self.files.paths(call)]
        hold_weights = not writing or not all(map(self._writes_no_weights, writing))
        end = self.tree.last_order_in(self.tree.statement_of(last))
        leading = {place for call in writing for place in self._places(call)}

        def follows(call: cst.Call) -> bool:
            is_above = self.tree.order[call] < self.tree.order[first]
            return self.tree.order[call] > end or (is_above and self._comes_again(first, call))

        for call in self.tree.calls:
            if self._uses(call, write_paths) and follows(call) and call not in leading:
                yield call
        for look in self.files.looks:
            if any(self._is_one_of(path, write_paths) for path in self.files.paths(look)) and follows(look):
                yield look
        for read in self.files.reads:
            is_below = self.tree.order[read] > end
            if follows(read) and self._may_read(read, write_paths, is_below=is_below, hold_weights=hold_weights):
                yield read

    def _may_read(
        self, read: cst.Call, written: Sequence[cst.BaseExpression], *, is_below: bool, hold_weights: bool
    ) -> bool:
        read_paths = self.files.paths(read)
        names, paths = {self.paths.spelled(p) for p in written}, {self.paths.spelled(p) for p in read_paths}
        are_literal = all(p[:1] in "'\"" for p in (*paths, *names))
        if are_literal and any(lies_in(file, path) for file in names for path in paths):
            return True
        if any(self._is_one_of(path, written) for path in read_paths):
            return True
        reads_weights = self._reads_weights(read)
        if reads_weights and not hold_weights:
            return False
        may_be = is_below or reads_weights
        return may_be and not (are_literal and paths and names) and not self.paths.differ(written, read_paths)

    def _is_one_of(self, path: cst.BaseExpression, written: Sequence[cst.BaseExpression]) -> bool:
        return any(self.paths.may_be_same(path, other) for other in written)

    def _reads_weights(self, read: cst.Call) -> bool:
        return read in self.files.restores.calls or any(is_call_of(v, *LOAD_MODEL) for v in self.resolver.values(read))

    def _writes_no_weights(self, call: cst.Call) -> bool:
        """Whether it writes a picture, a table, a log or the like, which no model is restored from."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _TABLES:
            return True
        names = self.resolver.public_alone(call.func)
        return bool(names) and all(map(_OF_NO_WEIGHTS.search, names))

    def _comes_again(self, write: cst.CSTNode, read: cst.Call) -> bool:
        """Whether what stands further up in the script may run after the write all the same: in the next turn of a
        loop, or when its function is called later."""
        writes, reads = self._places(write), self._places(read)
        if any(map(self._is_handed_over, reads)):
            return True
        if any(map(self._is_handed_over, writes)) and any(map(self._may_be_run_twice, reads)):
            return True
        for first in writes:
            for second in reads:
                if self.tree.function_of(first) is not self.tree.function_of(second):
                    continue
                if set(self.tree.loops_around(first)) & set(self.tree.loops_around(second)):
                    return True
                if self.tree.order[second] > self.tree.order[first]:
                    return True
        return False

    def _places(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The node, and the calls by which it comes to run."""
        found = [node]
        for place in found:
            function = self.tree.function_of(place)
            found += [c for c in (self.resolver.callers(function) if function is not None else ()) if c not in found]
        return found

    def _is_handed_over(self, node: cst.CSTNode) -> bool:
        """Whether it stands in a function that nothing in the program is seen to call: a library does, such as `fit` a
        callback's methods and those of a `Sequence`, and at times of its own."""
        function = self.tree.function_of(node)
        return function is not None and not self.resolver.callers(function)

    def _may_be_run_twice(self, node: cst.CSTNode) -> bool:
        return self.tree.function_of(node) is not None or bool(self.tree.loops_around(node))

    def _uses(self, call: cst.Call, written: Sequence[cst.BaseExpression]) -> bool:
        """Whether a call, other than one that prints or writes again, is given a written path: it may read the file."""
        if any(w.node is call for w in self.files.writes) or any(
            name.startswith(("builtins.print", "builtins.str", "logging.", "os.path."))
            for name in self.resolver.public(call.func)
        ):
            return False
        if any(map(self._is_seen, self.resolver.values(call.func))):
            # What it does with the path is seen by itself.
            alike = ((arg.value, path) for arg in call.args for path in written)
            return any(
                self.paths.spelled(one) == self.paths.spelled(other) and self.paths.may_be_same(one, other)
                for one, other in alike
            )
        return any(self._is_one_of(arg.value, written) for arg in call.args)

    def _is_seen(self, function: Value) -> bool:
        """Whether code of the script is run, also to make an object of a class."""
        if isinstance(function, Class):
            return self.resolver.method(function, "__init__") is not None
        return isinstance(function, Function)
