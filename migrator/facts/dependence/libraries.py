"""What the functions of libraries make of what they are given: of which kind it is, how many, the same or a copy."""

from __future__ import annotations

import re

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object

# They tell of what kind a value is, which is the same everywhere.
_KIND_CALLS = frozenset({
    "builtins.isinstance", "builtins.type", "builtins.hasattr", "builtins.callable", "tensorflow.is_tensor",
    "keras.backend.is_keras_tensor", "keras.ops.is_tensor", "tensorflow.rank", "keras.backend.ndim", "keras.ops.ndim",
    "numpy.ndim",
})  # fmt: skip
# Of which object they tell it may be decided.
TELLING_KINDS = frozenset({"builtins.isinstance", "builtins.type", "builtins.hasattr", "builtins.callable"})
SIZE_CALLS = frozenset({"builtins.len", "tensorflow.size", "numpy.size", "keras.ops.size"}) | api.SHAPES
# Calls that give the elements that they are given, as many of them, or as many as they are told.
SEQUENCES = frozenset({
    "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed", "builtins.enumerate", "builtins.zip",
    "numpy.array", "numpy.asarray", "tensorflow.stack", "tensorflow.convert_to_tensor", "collections.deque",
    "copy.copy", "copy.deepcopy", "random.sample", "random.choices",
})  # fmt: skip
# Calls that give a new container of the same elements, and such that give elements.
COPYING = frozenset({
    "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.set", "builtins.dict", "copy.copy",
    "collections.OrderedDict", "collections.deque", "collections.defaultdict", "collections.ChainMap",
    "itertools.chain", "itertools.cycle", "itertools.islice", "itertools.repeat",
})  # fmt: skip
PICKING = frozenset({"builtins.min", "builtins.max", "random.choice", "random.sample", "heapq.nlargest"})
# They draw some of what they are given, whatever that is: how many there are settles how many numbers they draw.
PICKED_FROM = frozenset({"random.choice", "random.sample", "random.choices"})
# They draw on the picture that they are given first.
_DRAWING = tuple(
    f"cv2.{name}"
    for name in (
        "arrowedLine", "circle", "drawContours", "drawMarker", "ellipse", "fillConvexPoly", "fillPoly", "line",
        "polylines", "putText", "rectangle",
    )
)  # fmt: skip
# Libraries whose functions leave their arguments as they are, but for those named below.
_PURE = (
    "tensorflow.", "keras.", "numpy.", "math.", "builtins.", "random.", "time.", "json.", "logging.", "statistics.",
    "collections.", "itertools.", "functools.", "os.", "sys.", "copy.", "operator.", "pickle.", "csv.", "matplotlib.",
    "pandas.", "sklearn.", "heapq.", "bisect.", "scipy.", "PIL.", "absl.", "warnings.", "datetime.", "pathlib.", "tqdm",
    "lockstep.", "cv2.imwrite.", "cv2.imread.", "cv2.imshow.", "imageio.", "skimage.", "soundfile.", "librosa.",
    *(f"{name}." for name in _DRAWING),
)  # fmt: skip
_FILLING = frozenset({
    "numpy.put", "numpy.copyto", "numpy.place", "numpy.putmask", "numpy.fill_diagonal", "numpy.put_along_axis",
    "builtins.setattr", "builtins.object.__setattr__", "operator.setitem", "random.shuffle", "numpy.random.shuffle",
    "heapq.heappush", "heapq.heappushpop", "heapq.heapreplace", "bisect.insort", "bisect.insort_left",
    "bisect.insort_right", *_DRAWING,
})  # fmt: skip
_IN_PLACE = re.compile(r"^numpy\.\w+\.at$")  # `np.add.at(counts, labels, 1)`
_FILLING_PREFIXES = ("builtins.list.", "builtins.dict.", "builtins.set.", "collections.deque.", "operator.i")
# Of TensorFlow's and Keras's objects, those that give back what they were given.
_KEEPING = (
    "tensorflow.Variable", "keras.Variable", "keras.backend.variable", "tensorflow.lookup.", "tensorflow.queue.",
    "tensorflow.TensorArray", "keras.callbacks.", "tensorflow.random.Generator", "keras.random.SeedGenerator",
    "keras.metrics.",
)  # fmt: skip
_HANDING_BACK = frozenset({
    "builtins.getattr", "builtins.vars", "builtins.iter", "builtins.next", "builtins.zip", "builtins.enumerate",
    "builtins.reversed", "builtins.filter", "builtins.map",
    "numpy.asarray", "numpy.asanyarray", "numpy.ascontiguousarray", "numpy.ravel", "numpy.reshape", "numpy.squeeze",
    "numpy.transpose", "numpy.swapaxes", "numpy.moveaxis", "numpy.expand_dims", "numpy.atleast_1d", "numpy.atleast_2d",
    "numpy.atleast_3d", "numpy.split", "numpy.array_split", "numpy.hsplit", "numpy.vsplit", "numpy.flip",
    "numpy.diagonal", "numpy.real", "numpy.imag", "numpy.broadcast_to",
    "operator.itemgetter", "operator.attrgetter", "functools.partial", "builtins.super", "builtins.globals",
    "builtins.locals", "csv.writer", "csv.DictWriter", "io.TextIOWrapper", "codecs.getwriter",
})  # fmt: skip

# Methods and attributes of NumPy's arrays that give another view of the same numbers.
VIEWS = frozenset({"reshape", "ravel", "view", "squeeze", "transpose", "swapaxes", "diagonal", "__array__"})
VIEWING_ATTRIBUTES = frozenset({"T", "mT", "flat", "real", "imag", "base", "handle"})


def is_agreed(path: str) -> bool:
    """Calls whose result is the same on all workers, or, of the runtime and its kind, is meant to differ."""
    return (
        path in _KIND_CALLS
        or vocabulary.has_role(path, Role.REDUCE, Role.RANK, Role.BROADCAST, Role.SIZE)
        or path.endswith(("lockstep.all_gather", "lockstep.unshard_batch", "lockstep.barrier"))
    )


def is_pure(path: str) -> bool:
    is_raw = api.RAW_CHANGES.match(path) is not None and "Apply" not in path  # which applies gradients, and is refused
    return f"{path}.".startswith(_PURE) and not is_raw


def makes_new(path: str) -> bool:
    """Whether what the function gives is no part of what it is given."""
    return is_pure(path) and path not in _HANDING_BACK


def fills_first(path: str) -> bool:
    """Whether the function puts what it is given into its first argument."""
    if path in _FILLING or path.startswith(_FILLING_PREFIXES):
        return True
    return _IN_PLACE.match(path) is not None or api.SETTING_FUNCTIONS.match(path) is not None


def keeps_arguments(path: str) -> bool:
    """Whether an object that this function or class has made may give back what its methods were given."""
    return not path.startswith(("tensorflow.", "keras.")) or path.startswith(_KEEPING)


def is_of_keras(value: Object, resolver: Resolver) -> bool:
    return resolver.derives_from(value.of, lambda path: path.startswith(("keras.", "tensorflow.")))
