"""What objects of the program hold: attributes, items, elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from migrator.analysis import curried, handles, named_modules, namespaces, redefined, same_batch, shortened
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.classes import decorated
from migrator.analysis.dictionaries import turns_over_keys
from migrator.analysis.frames import Cell
from migrator.analysis.libraries import runtime, tensorflow
from migrator.analysis.libraries.keras import hooks
from migrator.analysis.libraries.keras.names import LOSS
from migrator.analysis.libraries.python import defaults, holders
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import LOCAL, Unknown
from migrator.analysis.values import (
    NOTHING,
    NUMBER,
    Atom,
    Bound,
    Class,
    Container,
    Curried,
    Data,
    External,
    File,
    Function,
    Instance,
    Made,
    Method,
    Site,
    Super,
    Tuple,
    Value,
)
from migrator.facts.names import api
from migrator.facts.program.syntax import declared_fields
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_DEEPEST_PARTS = 4
_OF_RECORDS = frozenset({"_replace", "_asdict"})
_NUMBERS = frozenset({"math.pi", "math.e", "math.tau", "numpy.pi", "numpy.e"})
_ANY_OBJECT = Made("", Site(cst.Pass(), ()))  # holds what is given to an attribute of an object that is not seen


class _Leaves(NamedTuple):
    """What an object holds, as long as the heap does not change, with what was read to find it."""

    found: tuple[v.Data, ...]
    changes: int
    cells: set[Cell]


class Objects:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._known_leaves: dict[tuple[Atom, int], _Leaves] = {}
        self._read_first: set[tuple[Atom, str]] = set()  # attributes that were read before anything was stored there

    # -- attributes ----------------------------------------------------------------------------------------------

    def attribute(self, owner: Value, name: str, node: cst.CSTNode) -> Value:
        found = NOTHING
        if name in named_modules.FRAMES and not any(isinstance(atom, Instance) for atom in owner):
            return named_modules.names_of_frame(self.run, node)
        for atom in owner:
            found = v.join(found, self._attribute(atom, name, node))
            if isinstance(atom, (Instance, Made)):
                found = v.join(found, self.run.heap.load(_ANY_OBJECT, name))
        if owner.data is not None and not (owner.data.constant is None and owner.objects):
            found = v.join(found, self.run.placing.parts.attribute(owner.data, name, node))
            if owner.data.behind:
                found = v.join(found, handles.attribute(self.run, owner.data, name, node))
        return found

    def _attribute(self, atom: Atom, name: str, node: cst.CSTNode) -> Value:
        if isinstance(atom, (External, File)) and name == namespaces.ATTRIBUTE:
            return namespaces.of(v.of(atom))
        if isinstance(atom, External):
            member = External(api.canonical(f"{atom.path}.{name}"))
            known = Value(Data(rank=0)) if member.path in _NUMBERS else v.of(member)
            return v.join(known, self.run.heap.load(member, redefined.REPLACED))
        if isinstance(atom, File):
            return self.run.imports.member(atom.module, name)
        if isinstance(atom, Instance):
            return self._instance_attribute(atom, name, node)
        if isinstance(atom, Class):
            found = self.run.classes.of_class(atom, name)
            inner = decorated(found) if found is not None else None
            if inner is None:
                return self._or_own(
                    atom, name, NOTHING if found is None else found, lambda: v.of(Method(v.of(atom), name))
                )
            return self.run.classes.bound(inner[1], v.of(atom)) if inner[0] == "class" else inner[1]
        if isinstance(atom, Super):
            return self._super_attribute(atom, name)
        if isinstance(atom, Container) and atom.kind == "record":
            held = self.run.heap.load(atom, name)
            return held if held is not NOTHING or name not in _OF_RECORDS else v.of(Method(v.of(atom), name))
        if isinstance(atom, Tuple) and not self._is_called(node):
            return v.join_all(atom.items)  # of a named tuple
        if isinstance(atom, (Function, Bound)):
            return self._of_function(atom, name)
        if isinstance(atom, Made) and name == namespaces.ATTRIBUTE:
            return namespaces.of(v.of(atom))
        if isinstance(atom, Made) and name == "__class__" and api.METRIC_CLASS.match(atom.path):
            return v.of(External(atom.path))
        if isinstance(atom, Made):
            known = self.run.heap.load(atom, name)
            if holders.is_namespace(atom) and (known is NOTHING or self.run.heap.load(atom, None) is not NOTHING):
                return self._of_namespace(atom, known, name, node)
            return self._or_own(atom, name, known, lambda: self.run.libraries.attribute(atom, name))
        found = curried.attribute(self.run, atom, name) if isinstance(atom, Curried) else None
        return found if found is not None else v.of(Method(v.of(atom), name))

    def _of_namespace(self, atom: Made, known: Value, name: str, node: cst.CSTNode) -> Value:
        """What it was made with under names that are not seen; or has from elsewhere."""
        unnamed = self.run.heap.load(atom, None)
        if unnamed is NOTHING:
            return self.run.placing.parts.attribute(Data(foreign=True), name, node)
        return unnamed if known is NOTHING else v.unseen("which of two that have this name is meant is not seen")

    def _or_own(self, atom: Atom, name: str, stored: Value, own: Callable[[], Value]) -> Value:
        """What the program has stored there, or what the object has by itself: both where a function is stored in the
        place of what was read before (`old = layer.call; layer.call = mine`). Where the program is run again, it is
        stored there from the beginning on."""
        if stored is NOTHING:
            self._read_first.add((atom, name))
            return own()
        is_replaced = any(isinstance(a, (Function, Bound)) for a in stored) and (atom, name) in self._read_first
        return v.join(stored, own()) if is_replaced else stored

    def _of_function(self, atom: Function | Bound, name: str) -> Value:
        """`step.scale`: what the program keeps at a function."""
        function = atom.function if isinstance(atom, Bound) else atom
        if name == "__func__":
            return v.of(function)
        if name == "__call__":
            return v.of(atom)
        if name == "__self__" and isinstance(atom, Bound):
            return atom.receiver
        held = self.run.redefined.of_function(function, name)
        return self._or_own(function, name, held, lambda: v.of(Method(v.of(atom), name)))

    def _is_called(self, node: cst.CSTNode) -> bool:
        parent = self.run.tree.parent.get(node)
        return isinstance(parent, cst.Call) and parent.func is node

    def _note_variable(self, atom: Instance, node: cst.CSTNode) -> None:
        """Notes an object of which code outside of its class takes a variable."""
        function = self.run.tree.function_of(node)
        if function is None or self.run.tree.class_of(function) is None:
            self.run.note_weights(atom)

    def _instance_attribute(self, atom: Instance, name: str, node: cst.CSTNode) -> Value:
        if name == "__class__":
            return v.of(atom.cls)
        if name == namespaces.ATTRIBUTE:
            return namespaces.of(v.of(atom))
        held = self.run.heap.load(atom, name)
        if any(isinstance(a, Made) and a.path == tensorflow.VARIABLE for a in held):
            self._note_variable(atom, node)
        found = self.run.classes.of_class(atom.cls, name)
        if found is not None:
            inner = decorated(found)
            if inner is not None and inner[0] == "property":
                frame = self.run.frames[self.run.tree.module_of(atom.cls.node)]
                return v.join(
                    held, self.run.calls.call(self.run.classes.bound(found, v.of(atom)), Arguments(), node, frame)
                )
            held = v.join(held, self.run.classes.bound(found, v.of(atom)))
        return self._or_own(atom, name, held, lambda: self._unnamed(atom, name, node))

    def _unnamed(self, atom: Instance, name: str, node: cst.CSTNode) -> Value:
        getter = self.run.classes.method(atom, "__getattr__")
        if getter is not None:
            frame = self.run.frames[self.run.tree.module_of(atom.cls.node)]
            return self.run.calls.call(getter, Arguments([v.constant(name)]), node, frame)
        unnamed = self.run.heap.load(atom, namespaces.ATTRIBUTE)
        return unnamed if unnamed is not NOTHING else self.run.libraries.attribute(atom, name)

    def _super_attribute(self, atom: Super, name: str) -> Value:
        found = NOTHING
        for receiver in atom.receiver:
            if isinstance(receiver, Instance):
                inherited = self.run.classes.behind(atom.cls, receiver.cls, name)
                if inherited is not None:
                    found = v.join(found, self.run.classes.bound(inherited, v.of(receiver)))
                    continue
                found = v.join(found, self.run.libraries.attribute(receiver, name))
                continue
            elif isinstance(receiver, Class):  # in a method of the class
                inherited = self.run.classes.behind(atom.cls, receiver, name)
                if inherited is not None:
                    found = v.join(found, self._of_class(inherited, name, receiver))
                    continue
            found = v.join(found, v.of(Method(v.of(receiver), name)))
        return found if found is not NOTHING else v.of(Method(atom.receiver, name))

    def _of_class(self, held: Value, name: str, cls: Class) -> Value:
        """What a class holds under that name, as the class or an heir is asked for it."""
        inner = decorated(held)
        if name == "__init_subclass__" or (inner is not None and inner[0] == "class"):
            return self.run.classes.bound(held if inner is None else inner[1], v.of(cls))
        return held if inner is None else inner[1]

    def store_attribute(self, owner: Value, name: str, value: Value, node: cst.CSTNode) -> None:
        if name == "__class__":
            self._store_class(owner, value, node)
            return
        if name == namespaces.ATTRIBUTE:
            namespaces.fill(self.run, owner, value, node)
            return
        if name == redefined.CELL:
            self.run.redefined.set_cell(value)
        if name == defaults.FACTORY:
            defaults.run_factory(self.run, value, node, self.run.frames[self.run.tree.module_of(node)])
        hooks.note(self.run, owner, name, value, node)
        for atom in owner:
            self.run.changing.note(atom, name, value)
            if isinstance(atom, Instance):
                self._run_own_setattr(atom, name, value, node)
            setter = self.run.classes.setter(atom, name) if isinstance(atom, Instance) else None
            if setter is not None and isinstance(atom, Instance):
                self._set_by(setter, atom, [value], node)
            elif isinstance(atom, Instance):
                hooks.note_put(self.run, name, self.run.classes.of_class(atom.cls, name) or NOTHING, value, node)
                self.run.heap.store(atom, name, value)
            elif isinstance(atom, Made) or (isinstance(atom, Container) and atom.kind == "record"):
                self.run.heap.store(atom, name, value)
            elif isinstance(atom, Class) and self.run.classes.at(atom.node) is not None:
                if name == redefined.BASES:
                    self.run.redefined.set_bases(atom, value)
                else:
                    known = self.run.classes.of_class(atom, name) or NOTHING
                    hooks.note_put(self.run, name, known, value, node)
                    self.run.classes.set_later(atom, name, value)
            elif isinstance(atom, External) and named_modules.is_any(atom):
                named_modules.set_in_any(self.run, name, value, node)
            elif isinstance(atom, External):
                self.run.heap.store(External(api.canonical(f"{atom.path}.{name}")), redefined.REPLACED, value)
            elif isinstance(atom, File):
                frame = self.run.frames.get(atom.module)
                if frame is not None and frame.names is not None:
                    known = frame.names.get(name, NOTHING)
                    joined = v.join(known, v.forgotten(value))
                    hooks.note_put(self.run, name, known, value, node)
                    self.run.bindings.assign(name, joined, frame)
            elif isinstance(atom, Function):
                self.run.heap.store(redefined.holder(atom), name, value)
            elif isinstance(atom, Method):
                self._store_anywhere(name, value)
        if owner.data is not None and owner.data.constant is not None:
            self._store_anywhere(name, value)

    def _set_by(self, method: Value, owner: Instance, given: list[Value], node: cst.CSTNode) -> None:
        """Runs what sets an attribute or an item of the object; the last that it is given is what is assigned."""
        frame = self.run.frames[self.run.tree.module_of(owner.cls.node)]
        assigned = self.run.tree.parent.get(self.run.tree.parent.get(node, node))
        nodes: dict[int | str, cst.BaseExpression] = {}
        if isinstance(assigned, cst.Assign):
            nodes[len(given) - 1] = assigned.value
        self.run.calls.call(method, Arguments(given, nodes=nodes), node, frame)

    def _run_own_setattr(self, atom: Instance, name: str, value: Value, node: cst.CSTNode) -> None:
        """Runs the object's own `__setattr__`, which may set something else beside, or in the place of, what it is
        given; but for what that sets by itself."""
        own = self.run.classes.of_class(atom.cls, "__setattr__")
        if own is None or any(isinstance(a, Function) and a.node in self.run.calls.stack for a in own):
            return
        self._set_by(self.run.classes.bound(own, v.of(atom)), atom, [v.constant(name), value], node)

    def _store_class(self, owner: Value, value: Value, node: cst.CSTNode) -> None:
        """`obj.__class__ = C`: from then on any of its methods may be another."""
        names = {name for atom in value if isinstance(atom, Class) for name in self.run.classes.names(atom)}
        for name in names | {"call", "__call__"}:
            why = "what an object runs whose `__class__` is set is not seen"
            self.store_attribute(owner, name, v.unseen(why), node)

    def own_call(self, atom: Made) -> Value:
        """What a layer of a library's runs instead of its own code: `layer.call = function`; or a loss, which also has
        it as `loss.fn`."""
        called = [
            self.run.heap.load(atom, "call"),
            self.call_of_class(atom, atom.path),
            self.run.heap.load(_ANY_OBJECT, "call"),
        ]
        return v.join_all([*called, self.run.heap.load(atom, "fn")] if LOSS.match(atom.path) else called)

    def call_of_class(self, atom: Made | Instance, path: str) -> Value:
        """What the program has put into a library's class for `call`: `tf.keras.layers.Dense.call = function`."""
        held = self.run.heap.load(External(api.canonical(f"{path}.call")), redefined.REPLACED)
        return self.run.classes.bound(held, v.of(atom))

    def _store_anywhere(self, name: str, value: Value) -> None:
        """Which object gets it is not seen (one of a model's layers): any may have it. Numbers are made to agree where
        they are set, see facts/decisions/consequences.py."""
        if name == "call" and value.objects:
            self.run.heap.store(
                _ANY_OBJECT, name, v.unseen("which layers run another function as their `call` is not seen")
            )
        if any((not data.is_replicated or data.needs) and data.rank != 0 for data in self.leaves(value)):
            why = f"whose `.{name}` a worker's own value is put into is not seen"
            self.run.heap.store(_ANY_OBJECT, name, v.unseen(why))

    def delete_attribute(self, owner: Value, name: str) -> None:
        """`del Class.name`: from then on it is what a base class has."""
        for atom in owner:
            if isinstance(atom, Class):
                inherited = self.run.classes.behind(atom, atom, name)
                if inherited is not None:
                    self.run.classes.set_later(atom, name, inherited)

    # -- items ---------------------------------------------------------------------------------------------------

    def item(self, owner: Value, index: Value, node: cst.Subscript) -> Value:
        if index.data is not None and index.data.placement == LOCAL:
            # A cut by hand: what is picked by the rank is this worker's part.
            batch, held = self.run.shares.batch(), self.parts(owner).data if owner.data is None else None
            rank = held.rank if held is not None else None
            return v.mapped(batch, lambda d: replace(d, rank=rank, nested=False)) if rank else batch
        found = NOTHING
        for atom in owner:
            found = v.join(found, self._item(atom, index, node))
        if owner.data is not None and not (owner.data.constant is None and owner.objects):
            found = v.join(found, self.run.placing.parts.item(owner.data, index, node))
            objects = owner.data.behind | handles.kept(self.run, owner.data.maker)
            if objects:
                found = v.join(handles.behind(found, objects), handles.item(self.run, owner.data, index, node))
        return found

    def _item(self, atom: Atom, index: Value, node: cst.Subscript) -> Value:
        key = index.constant
        if isinstance(atom, Tuple):
            if isinstance(key, int) and -len(atom.items) <= key < len(atom.items):
                return atom.items[key]
            bounds = _bounds(index)
            return v.of(Tuple(atom.items[bounds])) if bounds is not None else v.join_all(atom.items)
        if isinstance(atom, Container):
            if _bounds(index) is not None or (index.data is not None and self.run.placing.parts.is_slice(index)):
                if shortened.is_of_numbers(self.run, atom):
                    return shortened.part_of(self.run, atom, index.constant, node)
                return v.of(atom)
            return self.container_item(atom, index)
        if isinstance(atom, Instance):
            getter = self.run.classes.method(atom, "__getitem__")
            if getter is not None:
                frame = self.run.frames[self.run.tree.module_of(atom.cls.node)]
                return self.run.calls.call(getter, Arguments([index]), node, frame)
            held = [self.run.heap.load(atom, name) for name in self.run.classes.fields(atom.cls)]
            if held and self.run.classes.is_named_tuple(atom.cls):
                return self._item(Tuple(tuple(held)), index, node)
            return v.join(self.run.libraries.item(atom, index, node), defaults.missing(self.run, atom, index, node))
        if isinstance(atom, Method) and namespaces.is_namespace(atom):
            return namespaces.item(self.run, atom, index, node)
        if isinstance(atom, External) and atom.path == "sys.modules":
            return named_modules.named(self.run, index, node)
        if isinstance(atom, External):
            named = runtime.named(key) if atom.path == "os.environ" else NUMBER  # `List[int]`
            return v.join(named, self.run.heap.load(atom, None))
        return self.run.libraries.item(atom, index, node)

    def container_item(self, atom: Container, index: Value) -> Value:
        heap, key = self.run.heap, _key(index)
        if key is not None and not (isinstance(key, int) and key < 0):
            held = heap.load(atom, key)
            if held is not NOTHING:
                return v.join(held, heap.load(atom, None))
        return self._all_of(atom)

    def _all_of(self, atom: Container) -> Value:
        heap = self.run.heap
        return v.join_all([heap.load(atom, None), *(heap.load(atom, key) for key in heap.fields(atom))])

    def store_item(self, owner: Value, index: Value, value: Value, node: cst.CSTNode) -> None:
        key = index.constant
        if self.run.may_differ(index) and any(isinstance(atom, Container) for atom in owner):
            value = self.run.chosen(value, [index])
        for atom in owner:
            if isinstance(atom, Container) and self.run.placing.parts.is_slice(index):
                self.run.heap.store(atom, None, self.run.objects.elements(value, node, node))
            elif isinstance(atom, Container) and shortened.is_of_numbers(self.run, atom):
                fields = self.run.heap.fields(atom)
                # Which of the numbers that are not known one by one it replaces, from here on, is not seen.
                self.run.heap.store(
                    atom, key if isinstance(key, int) and (key in fields or None not in fields) else None, value
                )
            elif isinstance(atom, Container):
                if atom.kind == "dict":
                    self.run.lacking.note_stored(atom, key, node)
                self.run.heap.store(atom, _key(index), value)
            elif isinstance(atom, Method) and namespaces.is_namespace(atom):
                namespaces.store(self.run, atom, index, value, node)
            elif isinstance(atom, Method):  # `loss._fn_kwargs["axis"] = 0`
                hooks.note(self.run, atom.owner, atom.name, value, node)
            elif isinstance(atom, External):
                self.run.heap.store(atom, None, value)
            elif isinstance(atom, Instance):
                setter = self.run.classes.method(atom, "__setitem__")
                if setter is not None:
                    self._set_by(setter, atom, [index, value], node)

    # -- sequences -----------------------------------------------------------------------------------------------

    def sequence_items(self, value: Value) -> list[Value] | None:
        """The items of a tuple or list of known length."""
        atom = value.only
        if isinstance(atom, Tuple):
            return list(atom.items)
        if isinstance(atom, Container) and atom.kind == "list":
            keys = self.run.heap.fields(atom)
            if all(isinstance(k, int) for k in keys) and sorted(keys) == list(range(len(keys))):  # type: ignore[type-var]
                self.run.heap.load(atom, None)
                return [self.run.heap.load(atom, i) for i in range(len(keys))]
        return None

    def concatenated(self, operands: Sequence[Value], site: Site) -> Value:
        items = [self.sequence_items(o) or [] for o in operands]
        if all(isinstance(o.only, Tuple) for o in operands):
            return v.of(Tuple(tuple(x for xs in items for x in xs)))
        made = Container("list", site)
        for i, item in enumerate(x for xs in items for x in xs):
            self.run.heap.store(made, i, item)
        return v.of(made)

    def extend(self, owner: Value, added: Value) -> bool:
        """`list += …`; False where the owner is no list."""
        atom = owner.only
        if not isinstance(atom, Container) or atom.kind not in ("list", "set"):
            return False
        self.run.heap.store(atom, None, self.parts(added))
        return True

    def update(self, owner: Value, added: Value, node: cst.CSTNode) -> None:
        for atom in owner:
            if not isinstance(atom, Container):
                continue
            for other in added:
                if isinstance(other, Container):
                    for key in self.run.heap.fields(other):
                        self.run.lacking.note_stored(atom, key, node)
                    self.run.lacking.note_taken_over(atom, other, added)
                    for key in self.run.heap.fields(other):
                        self.run.heap.store(atom, key, self.run.heap.load(other, key))
            if added.data is not None:
                self.run.heap.store(atom, None, Value(added.data))

    def unpacked(self, value: Value, count: int, starred: int | None) -> list[Value]:
        """What the targets of an unpacking get. Of None, which a function without a return gives, they get nothing."""
        if value.data is not None and value.data.constant is None and value.objects:
            value = value.without_data()
        items = self.sequence_items(value)
        if items is not None and starred is None and len(items) == count:
            return items
        if items is not None and starred is not None and len(items) >= count - 1:
            tail = count - 1 - starred
            middle = v.of(Tuple(tuple(items[starred : len(items) - tail])))
            return [*items[:starred], middle, *items[len(items) - tail :]]
        tuples = [o for o in value.objects if isinstance(o, Tuple) and len(o.items) == count]
        if tuples and value.data is None and len(value.objects) == 1:
            return list(tuples[0].items)
        shapes = self.run.placing.parts.unpacked(value.data, count) if value.data is not None else None
        if shapes is not None and not value.objects:
            return shapes
        part = self.parts(value)
        return [v.forgotten(part) if value.objects else part] * count  # each may be of another batch

    def parts(self, value: Value) -> Value:
        """What a part of the value may be, whichever it is."""
        found = NOTHING
        for atom in value:
            if isinstance(atom, Tuple):
                found = v.join(found, v.join_all(atom.items))
            elif isinstance(atom, Container):
                found = v.join(found, self._all_of(atom))
            elif isinstance(atom, Instance):
                held = [self.run.heap.load(atom, name) for name in declared_fields(atom.cls.node)]
                found = v.join(found, v.join_all(held) if held else v.unseen("its parts are not seen"))
            else:
                found = v.join(found, self.elements(v.of(atom), atom_node(atom), atom_node(atom)))
        if value.data is not None:
            found = v.join(found, self.run.placing.parts.part(value.data))
        return found

    def elements(self, value: Value, reader: cst.CSTNode, node: cst.CSTNode) -> Value:
        """What a loop over the value gets, one turn after the other."""
        found = NOTHING
        for atom in value:
            found = v.join(found, self._elements(atom, reader, node))
        if value.data is not None and not (value.data.constant is None and value.objects):
            is_of_keys = value.data.nested and turns_over_keys(self.run.tree, node)
            found = v.join(found, NUMBER if is_of_keys else self.run.placing.parts.elements(value.data, reader))
            objects = value.data.behind | handles.kept(self.run, value.data.maker)
            if objects:
                found = v.join(handles.behind(found, objects), handles.elements(self.run, value.data, reader, node))
        return found

    def _elements(self, atom: Atom, reader: cst.CSTNode, node: cst.CSTNode) -> Value:
        if isinstance(atom, Tuple):
            return self.run.libraries.read(v.join_all(atom.items), reader)
        if isinstance(atom, Container):
            if atom.kind in ("dict", "counter"):
                return v.join_all(map(_as_read, self.run.heap.fields(atom)))
            return self.run.libraries.read(self._all_of(atom), reader)
        if isinstance(atom, Instance):
            for name in ("__iter__", "__next__", "__getitem__"):
                own = self.run.classes.method(atom, name)
                if own is not None:
                    frame = self.run.frames[self.run.tree.module_of(atom.cls.node)]
                    given = Arguments([NUMBER] if name == "__getitem__" else [])
                    result = self.run.calls.call(own, given, reader, frame)
                    if name == "__iter__" and result.only != atom:
                        result = self.elements(result, reader, node)
                    elif name == "__iter__":
                        continue
                    return self.run.libraries.read(same_batch.read(result, reader), reader)
            if self.run.classes.is_named_tuple(atom.cls):
                return self.run.libraries.read(
                    v.join_all(self.run.heap.load(atom, f) for f in self.run.classes.fields(atom.cls)), reader
                )
        return same_batch.read(self.run.libraries.elements(atom, reader, node), reader)

    def enter(self, value: Value, node: cst.CSTNode) -> Value:
        """What `with value as name` binds."""
        found = NOTHING
        for atom in value:
            own = self.run.classes.method(atom, "__enter__") if isinstance(atom, Instance) else None
            if own is not None and isinstance(atom, Instance):
                frame = self.run.frames[self.run.tree.module_of(atom.cls.node)]
                found = v.join(found, self.run.calls.call(own, Arguments(), node, frame))
                leave = self.run.classes.method(atom, "__exit__")
                if leave is not None:
                    self.run.calls.call(leave, Arguments([v.NONE, v.NONE, v.NONE]), node, frame)
            elif isinstance(atom, Container) and atom.kind == "iterator":  # contextlib.contextmanager
                found = v.join(found, self._all_of(atom))
            else:
                found = v.join(found, v.of(atom))
        return Value(v.join(found, Value(value.data)).data, found.objects)

    def leaves(self, value: Value, depth: int = 0) -> Iterator[v.Data]:
        """All data in the value, also in its lists and dictionaries."""
        # Most values are data alone, for which a generator is slow.
        return self._leaves(value, depth) if value.objects else iter(() if value.data is None else (value.data,))

    def _leaves(self, value: Value, depth: int) -> Iterator[v.Data]:
        if value.data is not None:
            yield value.data
        if depth >= _DEEPEST_PARTS:
            return
        for atom in value:
            if isinstance(atom, Tuple):
                for item in atom.items:
                    yield from self.leaves(item, depth + 1)
            elif isinstance(atom, (Container, Instance, Made)):
                yield from self._held_by(atom, depth)
            elif isinstance(atom, Method):
                yield from self._attribute_leaves(atom, depth)

    def _held_by(self, atom: Container | Instance | Made, depth: int) -> tuple[v.Data, ...]:
        """What the object holds: looked for again where anything has been stored since."""
        heap = self.run.heap
        known = self._known_leaves.get((atom, depth))
        if known is None or known.changes != heap.changes:
            with heap.reading() as cells:
                found = tuple(self._leaves_in_heap(atom, depth))
            known = self._known_leaves[atom, depth] = _Leaves(found, heap.changes, cells)
        heap.reads |= known.cells
        return known.found

    def _leaves_in_heap(self, atom: Container | Instance | Made, depth: int) -> Iterator[v.Data]:
        if isinstance(atom, Container):
            for key in (None, *self.run.heap.fields(atom)):
                yield from self.leaves(self.run.heap.load(atom, key), depth + 1)
        elif isinstance(atom, Made):
            content = self.run.heap.load(atom, "content")
            if content is not NOTHING:
                yield from self.leaves(content, depth + 1)
        else:
            for key in self.run.heap.fields(atom):
                if isinstance(key, str):
                    yield from self.leaves(self.run.heap.load(atom, key), depth + 2)

    def holds_apart(self, value: Value, depth: int = 0) -> bool:
        """Whether an object of a class of the program is in the value that holds what is not alike on all workers: what
        a function of a library makes of such an object, its class says in some way that only the library knows."""
        if not value.objects or depth >= _DEEPEST_PARTS:
            return False
        for atom in value:
            if isinstance(atom, Instance):
                if any(not data.is_replicated for data in self._leaves(v.of(atom), 0)):
                    return True
            elif isinstance(atom, Tuple):
                if any(self.holds_apart(item, depth + 1) for item in atom.items):
                    return True
            elif isinstance(atom, Container):
                keys = (None, *self.run.heap.fields(atom))
                if any(self.holds_apart(self.run.heap.load(atom, key), depth + 1) for key in keys):
                    return True
        return False

    def _attribute_leaves(self, atom: Method, depth: int) -> Iterator[v.Data]:
        """An attribute of which only the name is known: where its object is not alike on all workers, it is nowhere."""
        for data in self.leaves(atom.owner, depth + 1):
            if not data.is_replicated:
                yield replace(data, placement=Unknown(f"what `.{atom.name}` gives is not known"))


def atom_node(atom: Atom) -> cst.CSTNode:
    """Some node that stands for the object."""
    if isinstance(atom, (Instance, Made, Container)):
        return atom.site.node
    return atom.node if isinstance(atom, (Function, Class)) else cst.Pass()


def _key(index: Value) -> int | str | Class | Function | None:
    """Where a container holds what is stored by that index, where it surely is one number, text, class or function."""
    known = index.constant if isinstance(index.constant, (int, str)) else index.only
    return known if isinstance(known, (int, str, Class, Function)) else None


def _as_read(key: object) -> Value:
    """A key of a dictionary, as a loop over it gets it."""
    if isinstance(key, (Class, Function)):
        return v.of(key)
    return v.constant(key) if isinstance(key, (str, int)) else NUMBER


def _bounds(index: Value) -> slice | None:
    """The slice that an index is, where its bounds are literals."""
    constant = index.constant
    if constant is NOT_CONSTANT or not isinstance(constant, v.Slice):
        return None
    bounds = (constant.lower, constant.upper, constant.step)
    if any(b is NOT_CONSTANT for b in bounds):
        return None
    return slice(*bounds)
