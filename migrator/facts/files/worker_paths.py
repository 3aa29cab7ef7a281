"""Paths that differ from worker to worker: temporary folders, names with the time in them.

What the chief writes under such a path, no other worker finds under its own, unless all take the chief's: that is done
with the name of a temporary folder, and with what is put into a name, as text or as a number: the time, a random id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.files.writes import Files
from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.met_alike import places_met_alike
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Value
from migrator.facts.program.syntax import is_none
from migrator.facts.program.tree import Binding, FunctionLike, Tree, semantic_children
from migrator.facts.training.sites import Training

_OWN = re.compile(
    r"^(?:tempfile\.(?:mkdtemp|mkstemp|mktemp|TemporaryDirectory|NamedTemporaryFile)|uuid\.uuid\d|os\.getpid"
    r"|time\.(?:time|time_ns|strftime|ctime|asctime|localtime|gmtime)|datetime\.(?:datetime|date)\.(?:now|utcnow|today))$"
)
_UNIQUE = re.compile(r"^(?:tempfile\.\w+|uuid\.uuid[14])$")
_TEXTS = re.compile(r"^(?:time\.(?:time|time_ns|strftime|ctime|asctime)|tempfile\.(?:mkdtemp|mktemp)|os\.getpid)$")
_FOLDER = "tempfile.TemporaryDirectory"
_TELLING = frozenset({"strftime", "isoformat", "ctime", "timestamp"})  # methods of dates that give a text or a number
_PARTS = frozenset({"hex", "int"})  # of a random id
_TURNING = frozenset({"builtins.str", "builtins.int", "builtins.float", "builtins.round"})
_COPYING = re.compile(r"\.[cC]opy(?:file)?$")  # the first of their paths stays as it is
_NO_READERS = ("builtins.", "logging.", "os.", "tempfile.", "pathlib.", "shutil.")
_GIVING = frozenset({"assign", "for", "with", "field"})
_WRITING_CALLBACKS = frozenset({"keras.callbacks.ModelCheckpoint", "keras.callbacks.CSVLogger"})


class WorkerPaths:
    def __init__(self, tree: Tree, resolver: Resolver, files: Files, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.files = files
        self.training = training

    @cached_property
    def lost_reads(self) -> list[cst.Call]:
        """Calls that read what the chief alone has written, under a path that is this worker's own; not where all take
        what the chief has in its own."""
        return [read for read, texts in self._reads.items() if texts is None]

    @cached_property
    def chiefs(self) -> list[cst.BaseExpression]:
        """The texts and numbers of each worker's own in such paths, that all take from the chief."""
        return [told for told in self._told if not isinstance(told, cst.With)]

    @cached_property
    def chiefs_folders(self) -> list[cst.With]:
        """The blocks that have a temporary folder of each worker's own, the name of which all take from the chief."""
        return [told for told in self._told if isinstance(told, cst.With)]

    @property
    def first_in_folders(self) -> list[cst.CSTNode]:
        """The statements in front of which they take it."""
        return [cst.ensure_type(block.body, cst.IndentedBlock).body[0] for block in self.chiefs_folders]

    def reads_in(self, block: cst.With) -> list[cst.Call]:
        """The calls that may read in the temporary folder of the block."""
        made = {item.item for item in block.items}
        return [read for read in self._may_read if made & set(self._origins(read, set()))]

    @cached_property
    def _told(self) -> list[cst.BaseExpression | cst.With]:
        return list(dict.fromkeys(told for texts in self._reads.values() for told in texts or ()))

    @cached_property
    def _reads(self) -> dict[cst.Call, list[cst.BaseExpression | cst.With] | None]:
        """The calls that read under a path of this worker's own what the chief writes, with what is its own there; None
        where not all of that can be told."""
        written = self._origins_of(self._written())
        found: dict[cst.Call, list[cst.BaseExpression | cst.With] | None] = {}
        for read in self.files.looks if written else ():
            origins = set(self._origins(read, set()))
            if written & origins and not self.files.is_chief_only(read):
                texts = [self._chosen(self._text_of(origin)) for origin in origins]
                told = [text for text in texts if text is not None and self._is_met_by_all(text)]
                if len(told) == len(texts):
                    found[read] = sorted(told, key=self.tree.order.__getitem__)
                elif not self.files.asking_in(read):
                    found[read] = None
        return found

    def _text_of(self, origin: cst.Call) -> cst.BaseExpression | cst.With | None:
        """What is made of a time where it stands: `datetime.now().strftime("%H")`, `str(datetime.now())`; of a
        temporary folder, the block that has it."""
        if any(map(_TEXTS.match, self.resolver.public(origin.func))):
            return origin
        parent = self.tree.parent[origin]
        if isinstance(parent, cst.WithItem):
            block = cst.ensure_type(self.tree.parent[parent], cst.With)
            is_named = parent.asname is not None and isinstance(parent.asname.name, cst.Name)
            return block if is_named and isinstance(block.body, cst.IndentedBlock) and self._is_folder(origin) else None
        if isinstance(parent, cst.Attribute) and parent.attr.value in _PARTS:
            return parent
        if isinstance(parent, cst.FormattedStringExpression):
            return cst.ensure_type(self.tree.parent[parent], cst.FormattedString)
        call = self.tree.parent[parent]
        if not isinstance(call, cst.Call):
            return None
        if isinstance(parent, cst.Attribute):
            return call if parent is call.func and parent.attr.value in _TELLING else None
        names = self.resolver.public_alone(call.func)
        turns = bool(names) and all(name in _TURNING for name in names)
        return call if turns and len(call.args) == 1 else None

    def _chosen(self, text: cst.BaseExpression | cst.With | None) -> cst.BaseExpression | cst.With | None:
        """The choice that the text may come out of, `out or tempfile.mkdtemp()`: a path, either way."""
        while text is not None and isinstance(choice := self.tree.parent[text], (cst.BooleanOperation, cst.IfExp)):
            if isinstance(choice, cst.IfExp) and text is choice.test:
                break
            text = choice
        return text

    def _is_folder(self, origin: cst.Call) -> bool:
        return _FOLDER in self.resolver.public(origin.func)

    def _is_met_by_all(self, node: cst.CSTNode) -> bool:
        # A loop that trains is turned alike by all workers, or they cannot train at all.
        places = places_met_alike(self.tree, self.resolver, node, turned_alike=self.training.is_within)
        return places is not None and not any(map(self.files.is_chief_only, places))

    def is_read_by_itself(self, write: cst.CSTNode) -> bool:
        """Whether each worker writes into a folder that is surely its own, and reads it again there."""
        mine = self._origins_of(self._written_to(write))
        if not mine or not all(map(self._is_unique, mine)) or not self._is_into_own(write):
            return False
        return not mine & self._kept and any(mine & set(self._origins(read, set())) for read in self._may_read)

    def _is_into_own(self, write: cst.CSTNode) -> bool:
        return all(map(self._is_surely_own, self._written_to(write)))

    @cached_property
    def _kept(self) -> set[cst.Call]:
        """What is in paths that the chief alone writes to, and so is the chief's for all."""
        shared = (write.node for write in self.files.writes if not self._is_into_own(write.node))
        paths = [path for write in shared for path in self._written_to(write)]
        return self._origins_of([*paths, *self._written_by_callbacks()])

    def _origins_of(self, nodes: Iterable[cst.CSTNode]) -> set[cst.Call]:
        return {origin for node in nodes for origin in self._origins(node, set())}

    @cached_property
    def _may_read(self) -> list[cst.Call]:
        """Calls that may read a file whose path they are given: those that read files, and those that nobody knows."""
        writing = {write.node for write in self.files.writes}
        return [
            call
            for call in self.tree.calls
            if call in self.files.looks
            or not (call in writing or any(map(_reads_nothing, self.resolver.values(call.func))))
        ]

    def _written_to(self, write: cst.CSTNode) -> list[cst.CSTNode]:
        """The paths that are changed; of what is fetched, and where none is seen, the whole call."""
        if not isinstance(write, cst.Call) or write in self.files.fetches:
            return [write]
        paths: list[cst.CSTNode] = [*self.files.paths(write)]
        values = self.resolver.values(write.func)
        is_copy = any(isinstance(v, External) and _COPYING.search(v.path) for v in values)
        return paths[-1:] if is_copy else paths or [write]

    def _is_surely_own(self, path: cst.CSTNode) -> bool:
        """Whether a path has something of this worker's own in it, whichever way it came about: not where all may be
        given one instead, `out or tempfile.mkdtemp()`."""
        shared: set[cst.CSTNode] = set()
        while path not in shared:
            before = len(shared)
            self._find_shared(path, shared, set())
            if len(shared) == before:
                return True  # what goes round in a loop is what it is to begin with
        return False

    def _find_shared(self, node: cst.CSTNode, shared: set[cst.CSTNode], seen: set[cst.CSTNode]) -> None:
        if node in seen or node in shared or (isinstance(node, cst.Call) and self._is_unique(node)):
            return
        seen.add(node)
        ways = self._ways(node)
        parts = ways or [p for p in semantic_children(node) if not isinstance(p, cst.Name) or self.tree.is_read(p)]
        for part in parts:
            if part is not None:
                self._find_shared(part, shared, seen)
        is_own = (part is not None and part not in shared for part in parts)
        if not (all(is_own) if ways else any(is_own)):
            shared.add(node)

    def _ways(self, node: cst.CSTNode) -> list[cst.CSTNode | None]:
        """What the value of the expression may be, each by itself, where it is nothing that is made of them all; None
        for what is not seen. The script's own None is no path."""
        if isinstance(node, cst.IfExp):
            return [node.body, node.orelse]
        if isinstance(node, cst.BooleanOperation):
            return [node.left, node.right]
        if isinstance(node, (cst.List, cst.Tuple)):
            return [element.value for element in node.elements]
        if isinstance(node, cst.Dict):
            return [element.value for element in node.elements]
        return [each for each in self._given(node) if each is None or not is_none(each)]

    def _given(self, node: cst.CSTNode) -> list[cst.CSTNode | None]:
        """What a name or an attribute is given, and a function of the script gives back; None for what is not seen."""
        found: list[cst.CSTNode | None] = []
        for function in self._run_by(node):
            found += self.resolver.returned(function)
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else []
        if isinstance(node, cst.Attribute) and not found:
            bindings = [*self.resolver.bindings_of(node), *self.resolver.class_bindings_of(node)]
            bindings = bindings or self._set_outside(node)
        for binding in bindings:
            if isinstance(binding.node, cst.Param):
                found += self.resolver.given(binding.node) or [None]
            else:
                found.append(binding.value if binding.kind in _GIVING else None)
        return found

    def _set_outside(self, node: cst.Attribute) -> list[Binding]:
        """Where the script sets an attribute of what is of no class of its own, `args.out`, which had one before."""
        set_at = self.tree.attributes.get(node.attr.value, ())
        found = [b for b in set_at if isinstance(b.target, cst.Attribute) and node.deep_equals(b.target)]
        return [*found, Binding(node.attr.value, "other", node)] if found else []

    def _run_by(self, node: cst.CSTNode) -> Sequence[FunctionLike]:
        """The functions of the script that a call runs, or an attribute that is a property."""
        if isinstance(node, cst.Attribute):
            return self.resolver.properties(node)
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return [value.node for value in values if isinstance(value, Function)]

    def _is_unique(self, call: cst.Call) -> bool:
        return any(map(_UNIQUE.match, self.resolver.public(call.func)))

    def _written(self) -> Iterator[cst.CSTNode]:
        for write in self.files.writes:
            if not self.is_read_by_itself(write.node):
                yield from self._written_to(write.node)
        yield from self._written_by_callbacks()

    def _written_by_callbacks(self) -> Iterator[cst.CSTNode]:
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            if paths & _WRITING_CALLBACKS:
                yield call

    def _origins(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.Call]:
        """The calls that make a value of this worker's own, on which the expression depends."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Call) and any(
            has_role(name, Role.BROADCAST) for name in self.resolver.public(node.func)
        ):
            return  # the chief's
        if isinstance(node, cst.Call) and any(map(_OWN.match, self.resolver.public(node.func))):
            yield node
            return
        for given in self._given(node):
            if isinstance(given, cst.BaseExpression):
                yield from self._origins(given, seen)
        for child in semantic_children(node):
            yield from self._origins(child, seen)


def _reads_nothing(value: Value) -> bool:
    return origin(value).startswith(_NO_READERS)
