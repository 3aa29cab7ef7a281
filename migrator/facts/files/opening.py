"""Calls that open files for writing, and what is done with an open file."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.files import known
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Result
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree


class Openings:
    def __init__(self, tree: Tree, resolver: Resolver, ranks: Ranks) -> None:
        self.tree = tree
        self.resolver = resolver
        self.ranks = ranks

    def is_opening(self, call: cst.Call) -> bool:
        """`open(path, "w")`, `path.open("w")`, archives, videos and TensorFlow's own file objects."""
        if self.is_parted(call):
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "open" and self.is_path(call):
            return self._is_writing_mode(argument(call, "mode", 0))
        paths = set(self.resolver.public(call.func))
        return bool(paths & known.WRITERS) or (
            any(map(known.FILES.match, paths)) and self._is_writing_mode(argument(call, "mode", 1))
        )

    @staticmethod
    def _is_writing_mode(mode: cst.Arg | None) -> bool:
        text = mode.value.evaluated_value if mode is not None and isinstance(mode.value, cst.SimpleString) else ""
        return any(letter in "wax+" for letter in str(text).partition(":")[0])  # behind the colon: how it is packed

    def is_path(self, call: cst.Call) -> bool:
        """Whether the call is a method of a pathlib.Path."""
        func = cst.ensure_type(call.func, cst.Attribute)
        return any(origin(v).startswith("pathlib.") for v in self.resolver.values(func.value))

    def with_around(self, call: cst.Call) -> cst.With | None:
        item = self.tree.parent.get(call)
        owner = self.tree.parent.get(item) if isinstance(item, cst.WithItem) else None
        return owner if isinstance(owner, cst.With) else None

    def path_of_sink(self, call: cst.Call) -> cst.BaseExpression | None:
        """The path of a file that is opened, where the script only writes to the file: another process may write to
        `os.devnull` instead."""
        names = self.resolver.public_alone(call.func)
        if not names or not all(map(known.SINKS.match, names)):
            return None
        mode = argument(call, "mode", 1)
        text = mode.value.evaluated_value if mode is not None and isinstance(mode.value, cst.SimpleString) else ""
        if "x" in str(text) or not self._is_only_written(call):
            return None
        if "+" in str(text) and ("r" in str(text) or self._may_be_read(call)):
            return None
        is_file = not any(name.startswith("logging.basic") for name in names)
        given = (argument(call, name, 0 if is_file else None) for name in known.PATH_NAMES)
        return next((arg.value for arg in given if arg is not None), None)

    def changes_files(self, call: cst.Call) -> bool:
        """Whether it makes a handler of logs, of which nothing is asked, that opens its file anew by itself."""
        names = self.resolver.public_alone(call.func)
        is_handler = bool(names) and all(name in known.CHANGING_FILES for name in names)
        return is_handler and self._is_only_written(call)

    def is_parted(self, call: cst.Call) -> bool:
        """Whether the rank decides which file the call opens: each worker has one of its own then, or os.devnull."""
        paths = (arg.value for arg in call.args if isinstance(arg.value, cst.IfExp))
        return any(self.ranks.depends_on_rank(path.test) for path in paths)

    def _is_only_written(self, opening: cst.Call) -> bool:
        """Whether nothing is asked of the file: not where it stands in it, nor its name."""
        return all(
            attribute.attr.value in known.WRITING_METHODS or isinstance(self.tree.parent[attribute], cst.AssignTarget)
            for attribute in self._attributes
            if self._is_made_by(attribute.value, opening)
        )

    def _may_be_read(self, opening: cst.Call) -> bool:
        """Whether a file that is open for reading, too, is ever in a place that may read it: all but its own methods
        and what writes into it, wherever the name is spelled that it gets."""
        owner = self.tree.parent.get(opening)
        if isinstance(owner, cst.Attribute):
            return False  # `open(path, "w+").close()`
        target = owner.targets[0].target if isinstance(owner, cst.Assign) and len(owner.targets) == 1 else None
        if isinstance(target, cst.Name):
            uses: list[cst.BaseExpression] = [
                name
                for name in self.tree.names[target.value]
                if self.tree.is_read(name) and self._may_be_bound_by(name, owner)
            ]
        elif isinstance(target, cst.Attribute):
            uses = [a for a in self._attributes if a.attr.value == target.attr.value and a is not target]
            if self._asks_for_attributes(target.attr.value):
                return True
        else:
            return True
        return not all(map(self._is_written_into, uses))

    def _asks_for_attributes(self, name: str) -> bool:
        """Whether the program may read the attribute otherwise: `getattr(log, "file")`, `log.__dict__["file"]`."""
        if any(attribute.attr.value == "__dict__" for attribute in self._attributes):
            return True
        for call in self.tree.calls:
            asking = set(self.resolver.public(call.func)) & {"builtins.getattr", "builtins.vars", "operator.attrgetter"}
            texts = [arg.value.evaluated_value for arg in call.args if isinstance(arg.value, cst.SimpleString)]
            if asking and (not texts or name in texts):
                return True
        return False

    def _may_be_bound_by(self, name: cst.Name, assign: cst.CSTNode | None) -> bool:
        bindings = self.resolver.reaching(name)
        return not bindings or any(binding.node is assign for binding in bindings)

    def _is_written_into(self, use: cst.BaseExpression) -> bool:
        owner = self.tree.parent[use]
        if isinstance(owner, cst.Attribute):
            return owner.attr.value in known.WRITING_METHODS
        call = self.tree.parent[owner]
        if not isinstance(owner, cst.Arg) or not isinstance(call, cst.Call):
            return False
        names = self.resolver.public_alone(call.func)
        if owner.keyword is not None:
            return owner.keyword.value == "file" and names == ["builtins.print"]
        first, second = (arg is owner for arg in (*call.args[:2], None)[:2])
        writing = known.MAKING_WRITERS if first else known.DUMPING if second else frozenset[str]()
        return bool(names) and writing.issuperset(names)

    def written_by(self, opening: cst.Call) -> list[cst.Call]:
        """The calls that are given the open file, or what is made of it (`csv.writer(file)`), and their methods."""
        found = [opening]
        for made in found:
            for call in self.tree.calls:
                owner = [call.func.value] if isinstance(call.func, cst.Attribute) else []
                given = (*owner, *(arg.value for arg in call.args))
                if call not in found and any(self._is_made_by(node, made) for node in given):
                    found.append(call)
        return found[1:]

    def closing(self, opening: cst.Call) -> cst.Call | None:
        """The only call that closes the file."""
        found = [
            attribute
            for attribute in self._attributes
            if attribute.attr.value == "close" and self._is_made_by(attribute.value, opening)
        ]
        call = self.tree.parent.get(found[0]) if len(found) == 1 else None
        return call if isinstance(call, cst.Call) else None

    def _is_made_by(self, node: cst.BaseExpression, call: cst.Call) -> bool:
        return any(isinstance(v, Result) and v.call is call for v in self.resolver.values(node))

    @cached_property
    def _attributes(self) -> list[cst.Attribute]:
        return self.tree.all_of(cst.Attribute)
