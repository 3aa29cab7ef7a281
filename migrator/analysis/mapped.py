"""What the function of a dataset's `map` makes of a batch of which a worker has its part only.

Asked of a run in which nothing is cut yet: where the cut stands depends on the answer. A function that does with each
row what it would do with any other may be given a worker's rows; nothing is lost but time where that is not seen.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.placement import Sharded
from migrator.analysis.run import Run, TooMuch
from migrator.analysis.uncut import Uncut
from migrator.analysis.values import Bound, Curried, Function, Value
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree

# These draw for each row by itself.
DRAWN_PER_ROW = frozenset({
    "tensorflow.image.random_flip_left_right", "tensorflow.image.random_flip_up_down", "keras.layers.RandomFlip",
    "keras.layers.RandomRotation", "keras.layers.RandomZoom", "keras.layers.RandomTranslation",
})  # fmt: skip
_RANDOM = (
    "tensorflow.random.", "tensorflow.image.random_", "tensorflow.image.stateless_random_", "keras.random.",
    "keras.layers.Random", "numpy.random.", "random.",
)  # fmt: skip
_DRAWN_FROM_A_SEED = ("tensorflow.random.stateless_", "tensorflow.image.stateless_random_")
_REORDERING = frozenset({
    *(f"tensorflow.{name}" for name in (
        "gather", "gather_nd", "argsort", "sort", "boolean_mask", "roll", "reverse", "random.shuffle", "math.top_k",
        "random.experimental.index_shuffle", "scatter_nd", "tensor_scatter_nd_update",
    )),
    "numpy.random.permutation", "numpy.random.shuffle", "random.shuffle",
})  # fmt: skip
# With the position of the shape that they make sure of.
_SHAPING = {".set_shape": 0, "tensorflow.ensure_shape": 1}
# With the position of the axis, without which the first goes, too, where a worker has a single row.
_SQUEEZING = {"tensorflow.squeeze": 1, "numpy.squeeze": 1, "keras.ops.squeeze": 1, ".squeeze": 0}
_PLAIN = ("tensorflow.", "keras.", "numpy.", "math.", "builtins.", "functools.", ".")
_KNOWS_THE_BATCH = ("keras.layers.BatchNormalization", "keras.applications.")
_PREPROCESSING = "preprocess_input"


@dataclass
class _Asked:
    """Whether a function gives rows for rows, and what of other libraries it calls on the way."""

    gives_rows: bool = False
    called: Collection[tuple[str, cst.CSTNode]] = ()


class Mapped:
    def __init__(self, tree: Tree, uncut: Uncut) -> None:
        self.tree = tree
        self._uncut = uncut
        self._asked: dict[cst.Call, _Asked] = {}

    def is_row_by_row(self, call: cst.Call) -> bool:
        """Whether the rows of a worker's part surely are those that the whole batch has there, each made by itself."""
        asked = self._of(call)
        return asked.gives_rows and not any(
            not path.startswith(_PLAIN)
            or (path.startswith(_RANDOM) and path not in DRAWN_PER_ROW)
            or (path.startswith(_KNOWS_THE_BATCH) and not path.endswith(_PREPROCESSING))
            or (path in _SQUEEZING and _drops_any_axis(node, _SQUEEZING[path]))
            or (path in _SHAPING and _has_size_of_batch(node, _SHAPING[path]))
            for path, node in asked.called
        )

    def mixed_by_chance(self, call: cst.Call) -> cst.CSTNode | None:
        """A random draw, from a generator that keeps a state, where rows are put into another order as well."""
        called = self._of(call).called
        return self.drawn_by_chance(call) if any(path in _REORDERING for path, _ in called) else None

    def drawn_by_chance(self, call: cst.Call) -> cst.CSTNode | None:
        """A random draw from a generator that keeps a state."""
        called = self._of(call).called
        draws = (n for path, n in called if path.startswith(_RANDOM) and not path.startswith(_DRAWN_FROM_A_SEED))
        return next(draws, None)

    def _of(self, call: cst.Call) -> _Asked:
        if call not in self._asked:
            self._asked[call] = self._ask(call)
        return self._asked[call]

    def _ask(self, call: cst.Call) -> _Asked:
        given, run = argument(call, "map_func", 0), self._uncut.run
        function = run.seen.get(given.value) if run is not None and given is not None else None
        if run is None or function is None or not isinstance(call.func, cst.Attribute):
            return _Asked()
        run.trusted.clear()
        run.calls.forget()
        run.libraries.called.clear()
        element = run.shares.share(run.libraries.datasets.element(run.seen.get(call.func.value, v.NOTHING)))
        with run.making_loss(), run.placing.repairing.ruled_out("it stands in a function that prepares the data"):
            try:
                args = _arguments(run, function, element)
                result = run.calls.call(function, args, call, run.frames[self.tree.module_of(call)])
            except (TooMuch, RecursionError):
                return _Asked()
        leaves = list(run.objects.leaves(result))
        are_rows = all(d.placement == Sharded(0) and not (d.needs or d.pairs or d.several or d.whole) for d in leaves)
        return _Asked(bool(leaves) and are_rows and not run.trusted, list(run.libraries.called))


def _arguments(run: Run, function: Value, element: Value) -> Arguments:
    """The parts of a tuple are given one by one; where they are not seen, as many as the function takes."""
    items = run.objects.sequence_items(element)
    if items is not None:
        return Arguments(items)
    taken = [_number_taken(atom) for atom in function]
    return Arguments(rest=element) if None in taken else Arguments([element] * max(filter(None, taken), default=1))


def _number_taken(atom: v.Atom) -> int | None:
    """How many arguments the function has to be given; None where it takes any number."""
    if isinstance(atom, Bound):
        inner = _number_taken(atom.function)
        return inner - 1 if inner is not None else None
    if isinstance(atom, Curried):
        inner = _number_taken(atom.function.only) if atom.function.only is not None else None
        return inner - len(atom.args) - len(atom.keywords) if inner is not None else None
    if not isinstance(atom, Function):
        return 1
    params = atom.node.params
    positional = (*params.posonly_params, *params.params)
    return None if isinstance(params.star_arg, cst.Param) else sum(p.default is None for p in positional)


def _has_size_of_batch(node: cst.CSTNode, position: int) -> bool:
    """Whether the call says how many rows there are."""
    shape = argument(node, "shape", position) if isinstance(node, cst.Call) else None
    sizes = shape.value if shape is not None else None
    first = sizes.elements[0].value if isinstance(sizes, (cst.Tuple, cst.List)) and sizes.elements else None
    return first is None or not is_none(first)


def _drops_any_axis(node: cst.CSTNode, position: int) -> bool:
    axis = argument(node, "axis", position) if isinstance(node, cst.Call) else None
    return axis is None or is_none(axis.value)
