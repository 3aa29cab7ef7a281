"""What calls into other libraries mean: one module a library, each with its handlers by dotted name.

What no handler knows goes to the op tables, and what they do not know is a function that nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import handles, namespaces, ops, own_operators
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import (
    axes,
    claims,
    datasets,
    generators,
    keras,
    python,
    runtime,
    stores,
    tensor_loops,
    tensorflow,
)
from migrator.analysis.libraries.keras import losses
from migrator.analysis.libraries.keras.names import LOSS
from migrator.analysis.libraries.python import containers, defaults, holders, reflection, scalars
from migrator.analysis.libraries.python.iterating import gone_through, lazy_elements
from migrator.analysis.libraries.python.ordering import picked
from migrator.analysis.placement import Shape
from migrator.analysis.shortened import is_of_numbers, scatter
from migrator.analysis.values import (
    NOTHING,
    NUMBER,
    Atom,
    Class,
    Container,
    Data,
    External,
    Instance,
    Made,
    Site,
    Value,
)
from migrator.facts.names import api
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_FUNCTIONS = {
    "os.environ.get": runtime.environment,
    "os.getenv": runtime.environment,
    **python.FUNCTIONS,
    **claims.FUNCTIONS,
    **tensorflow.FUNCTIONS,
    **tensor_loops.FUNCTIONS,
    **keras.FUNCTIONS,
    **datasets.FUNCTIONS,
}


_SHUFFLING = ("random.shuffle", "numpy.random.shuffle")
# What the command line sets, the same on all workers: numbers, words, and lists of them.
_FLAGS = ("absl.flags.FLAGS.", "tensorflow.flags.FLAGS.", "tensorflow.app.flags.FLAGS.")
_WITH_TABLES = ("tensorflow.", "keras.", "numpy.", "builtins.", "operator.")


def _is_fixed_draw(path: str, args: Arguments) -> bool:
    """Whether an integer fixes what `keras.random` draws: other numbers for a part of a batch than for all of it."""
    seed = args.keywords.get("seed")
    return path.startswith("keras.random.") and seed is not None and isinstance(seed.constant, int)


# They raise an exception by what they are given.
_ASSERTING = ("tensorflow.debugging.assert", "tensorflow.debugging.check", "tensorflow.Assert", "numpy.testing.")


# What gives parts of a dictionary.
_PARTS = frozenset({"items", "values", "keys", "get", "pop"})


def _is_word(key: Value | None) -> bool:
    """Whether it is a key of a dictionary: arrays and tensors are asked for nothing by a word."""
    return key is not None and isinstance(key.constant, str)


class Libraries:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.keras = keras.Keras(run)
        self.datasets = datasets.Datasets(run)
        self.called: dict[
            tuple[str, cst.CSTNode], None
        ] = {}  # functions, objects and methods of theirs, with the calls

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of another library's function or class."""
        self.called[path, node] = None
        if path.startswith(_ASSERTING):
            claims.meet_sizes(self.run, args, node)
            if self.run.tried:
                self.run.asserted(args, node)
        own = own_operators.of_function(self.run, path, args, node, frame)
        if own is not None:
            return own
        handler = _FUNCTIONS.get(path)
        if handler is not None:
            return handler(self.run, args, node, frame)
        found = picked(self.run, path, args, node, frame)
        if found is None:
            found = containers.unbound(self.run, path, args, node, frame)
        if found is not None:
            return found
        meaning = runtime.call(self.run, path, args, node)
        if meaning is not None:
            return meaning
        if datasets.is_source(path):
            return self.datasets.source(path, args, node, frame)
        if path in api.GENERATORS:
            return generators.make(self.run, path, node, frame)
        drawn = generators.function(self.run, path, args, node)
        if drawn is not None:
            return drawn
        if path.startswith(stores.PREFIXES):
            return v.of(Made(path, Site(node, frame.context)))
        if node in self.run.models:
            made = keras.make(self.run, api.OF_A_PACKAGE, args, node, frame)
            self.run.packages.fill(made, path, args, node, frame)
            return made
        read = self.run.packages.call(path, args, node, frame)
        return read if read is not None else self.unread(path, args, node, frame)

    def unread(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of what no source is seen of."""
        args = gone_through(self.run, args, node, frame)
        from_config = api.metric_from_config(path)
        if from_config:
            return keras.make(self.run, from_config, Arguments(), node, frame)
        owner, _, name = path.rpartition(".")
        unbound = self._unbound(name, args, node, frame) if keras.is_made(owner) else None
        if unbound is not None:
            return unbound
        if keras.is_made(path):
            return keras.make(self.run, path, args, node, frame)
        places = axes.places(path, args)
        if places is not None:
            return places
        row = ops.lookup(keras.full_name(path)) if not _is_fixed_draw(path, args) else None
        if row is not None and not self.run.redefined.may_be_other(path):
            return self.run.placing.place(row, path, args, node)
        return self._unknown(path, args, node, frame)

    def _unknown(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if not path.startswith(_WITH_TABLES) and self.run.is_symbolic(args):
            return keras.trusted(self.run, node, path, args)
        result = self.run.placing.unknown(args, node)
        if path in _SHUFFLING:
            for atom in args.positional[0] if args.positional else ():
                if isinstance(atom, Container) and is_of_numbers(self.run, atom):
                    scatter(self.run, atom)
        self.may_set(args, result, node)
        data = result.data
        if data is not None and data.is_replicated and not data.needs:
            # It may be an object, whose methods and items are asked for.
            is_foreign = not path.startswith(_WITH_TABLES) or path.endswith("deserialize_keras_object")
            result = Value(replace(data, foreign=is_foreign, maker=node if is_foreign else None))
        return axes.told(self.run, path, args, result, Site(node, frame.context))

    def may_set(self, args: Arguments, result: Value, node: cst.CSTNode) -> None:
        """What nobody knows may set the variables, and what objects keep, that it is given."""
        tensorflow.may_set(self.run, args, result)
        if result.data is not None and result.data.behind:
            handles.may_change(self.run, result.data.behind, args, node)

    def call_made(self, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of what another library's class has made: a layer, a model, a loss."""
        self.called[atom.path, node] = None
        if atom.path == tensorflow.CUSTOM_GRADIENT:
            return tensorflow.call_custom_gradient(self.run, atom, args, node, frame)
        if atom.path == runtime.ON_WHOLE_DATA:
            with self.run.evaluations.running():
                return self.run.calls.call(self.run.heap.load(atom, "function"), args, node, frame)
        replaced = self.run.objects.own_call(atom)
        if replaced is not NOTHING and LOSS.match(atom.path):
            return losses.call_by(self.run, atom, replaced, args, node, frame)
        if replaced is not NOTHING:
            return self.run.note_built(args, keras.applied(self.run, replaced, args, node, frame))
        return self.keras.call(atom, args, node, frame)

    def call_behind(self, data: Data, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of what may be an object of the program."""
        return handles.called(self.run, data, args, node, frame)

    def call_instance(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of an object of the program whose class says nothing of calls itself."""
        return self.keras.call_instance(atom, args, node, frame)

    def call_method(self, owner: Value, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        found = NOTHING
        self.called[f".{name}", node] = None
        if reflection.set_by_method(self.run, owner, name, args, node, frame):
            return v.NONE
        for atom in owner:
            if isinstance(atom, Made):
                self.called[f"{atom.path}.{name}", node] = None
            found = v.join(found, self._call_method(atom, name, args, node, frame))
        if owner.data is not None and not (owner.objects and owner.data.constant is None):  # None has no methods
            found = v.join(found, self._data_method(owner.data, name, args, node, frame))
        return found

    def _call_method(self, atom: Atom, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if isinstance(atom, v.Method) and namespaces.is_namespace(atom):
            return namespaces.method(self.run, atom, name, args, node)
        if isinstance(atom, Container):
            return containers.container_method(self.run, atom, name, args, node, frame)
        if isinstance(atom, v.Tuple):
            return NUMBER
        if isinstance(atom, Made) and atom.path.startswith(datasets.PREFIX):
            return self.datasets.method(atom, name, args, node, frame)
        if isinstance(atom, Made) and name in ("get_next", "__next__"):  # of `iter(dataset)`
            return self.run.objects.elements(v.of(atom), node, node)
        if isinstance(atom, Made) and generators.is_generator(atom):
            drawn = generators.method(self.run, atom, name, args, node)
            if drawn is not None:
                return drawn
            made = self._data_method(Data(foreign=True), name, args, node, frame)
            return axes.told(self.run, f"{api.GENERATORS[atom.path]}.{name}", args, made)
        if isinstance(atom, Made) and atom.path.startswith(stores.PREFIXES):
            return stores.method(self.run, atom, name, args, node)
        if isinstance(atom, Made) and atom.path == tensor_loops.ARRAY:
            return tensor_loops.array_method(self.run, atom, name, args, node)
        if isinstance(atom, Made) and holders.is_store(atom):
            own = holders.method(self.run, atom, name, args)
            return own if own is not NOTHING else self._data_method(Data(foreign=True), name, args, node, frame)
        if name == "_make" and containers.is_record_class(self.run, atom):
            return containers.make_of_items(self.run, atom, args, node, frame)
        if isinstance(atom, (Made, Instance)):
            return self.keras.method(atom, name, args, node, frame)
        if isinstance(atom, Class):
            if name == "__new__":
                return self._new(args, node, frame)
            unbound = self._unbound(name, args, node, frame)
            return unbound if unbound is not None else NUMBER
        if name in ("get_concrete_function", "__wrapped__", "python_function"):
            if name == "get_concrete_function" and args.positional:
                self.run.note_traced(v.of(atom), v.of(v.Tuple(tuple(args.positional))))
            return v.of(atom)
        return self.run.placing.unknown(args, node)

    def _unbound(self, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
        """`Dense.call(self, x)`: the library's method of the object that it is given first; None where that is none."""
        held = frozenset(a for a in args.positional[0] if isinstance(a, (Made, Instance))) if args.positional else None
        nodes = {k - 1 if isinstance(k, int) else k: n for k, n in args.nodes.items() if k != 0}
        given = Arguments(args.positional[1:], args.keywords, args.rest, nodes)
        return self.call_method(Value(None, held), name, given, node, frame) if held else None

    def _new(self, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().__new__(cls)`"""
        classes = [a for a in args.positional[0] if isinstance(a, Class)] if args.positional else []
        if not classes:
            return v.unseen("what kind of object this makes is not seen")
        given = Arguments(args.positional[1:], args.keywords, args.rest)
        made = [Instance(cls, Site(node, frame.context)) for cls in classes]
        for instance in made:
            self.run.classes.fill_fields(instance, given)
        return Value(None, frozenset(made))

    def _data_method(self, data: Data, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if claims.method(self.run, data, name, args, node, frame):
            return NUMBER
        part = tensorflow.set_part(self.run, name, args, node)
        if part is not None:
            return part
        receiver = Value(data)
        if receiver.is_text and name in scalars.GIVING_TEXTS:
            return self.run.placing.text([receiver, *(x for _, x in args.all())])
        given = args.behind(receiver)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            given.nodes[0] = node.func.value
        # A list of sizes that has a name may be changed: only one that is taken apart where it is made is followed.
        parent = self.run.tree.parent.get(node)
        is_read = isinstance(parent, cst.Subscript) and parent.value is node
        owners = ("TensorShape",) if is_read and isinstance(data.placement, Shape) else ()
        for path in (*(f"tensorflow.{owner}.{name}" for owner in (*owners, "Tensor")), f"numpy.ndarray.{name}"):
            row = ops.lookup(path)
            if row is not None:
                return self.run.placing.place(row, path, given, node)
        if name == "get_next" or name == "__next__":
            return self.read(self.run.placing.parts.elements(data, node), node)
        if (data.nested and name in _PARTS) or (name in ("get", "pop") and _is_word(args.get("key", 0))):
            return containers.nested_method(self.run, data, name, Site(node, frame.context))
        result = axes.told(self.run, f".{name}", args, self.run.placing.unknown(given, node))
        tensorflow.may_set(self.run, args, result)
        if result.data is not None and result.data.behind:
            handles.may_change(self.run, handles.without(self.run, result.data.behind, name), args, node)
        if not data.foreign:
            return result
        handles.keep(self.run, data.maker, args)
        result = handles.behind(result, handles.kept(self.run, data.maker))
        return axes.of_method(self.run, data, name, self._of_foreign(data, result, node), node, frame)

    def _of_foreign(self, owner: Data, result: Value, node: cst.CSTNode) -> Value:
        """What a method of an object of another package gives: made of all that its methods were given, as what
        `transform` gives after `partial_fit`."""
        given = self.run.given_to[owner.maker] if owner.maker is not None else set()
        given |= {r for d in self.run.objects.leaves(result) for r in d.needs}
        needs = frozenset(given)
        return v.mapped(result, lambda d: replace(d, foreign=True, maker=node, needs=d.needs | needs))

    # -- parts ---------------------------------------------------------------------------------------------------

    def attribute(self, atom: Atom, name: str) -> Value:
        """An attribute that the program does not store itself."""
        if isinstance(atom, Made) and atom.path.startswith(datasets.PREFIX):
            return self.datasets.attribute(atom, name)
        if generators.is_generator(atom):
            return v.of(v.Method(v.of(atom), name))
        return keras.attribute(self.run, atom, name)

    def item(self, atom: Atom, index: Value, node: cst.Subscript) -> Value:
        lazy = lazy_elements(self.run, atom, node, node) if isinstance(atom, Made) else None
        if lazy is not None:
            return lazy  # `sorted(items)[0]`
        content = self.run.heap.load(atom, "content") if isinstance(atom, Made) else NOTHING
        if content is not NOTHING:
            return self.run.objects.item(content, index, node)
        return NUMBER if isinstance(atom, Made) else v.unseen("what this holds is not seen")

    def elements(self, atom: Atom, reader: cst.CSTNode, node: cst.CSTNode) -> Value:
        if isinstance(atom, Made):
            lazy = lazy_elements(self.run, atom, reader, node)
            if lazy is not None:
                return lazy
            if atom.path.startswith(datasets.PREFIX):
                return self.datasets.elements(atom, reader)
            if reader in self.run.readers:
                return self.run.shares.batch()
            return NUMBER
        if isinstance(atom, External) and atom.path.startswith(_FLAGS):
            return NUMBER
        return v.unseen("what this holds is not seen")

    def read(self, value: Value, reader: cst.CSTNode) -> Value:
        """A batch as it is read there: a worker's part of it, or all of it."""
        return self.run.shares.share(value) if reader in self.run.readers else value

    def prepare(self, instance: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
        """Notes what an object of a class of the program is made with."""
        keras.store_arguments(self.run, instance, args)
        if self.run.classes.method(instance, "__init__") is None:
            keras.note_made(self.run, instance, args)
            defaults.made_with(self.run, instance, args, node, frame)

    def kept_otherwise(self, instance: Instance) -> frozenset[str]:
        """Which of its arguments its library's class does not keep as they are."""
        return keras.kept_otherwise(self.run, instance)
