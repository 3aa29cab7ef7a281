"""Layers that are called: by the op tables, with the functions, penalties and other layers that they are made with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import heirs, masks, penalties, registered
from migrator.analysis.libraries.keras.applying import applied
from migrator.analysis.libraries.keras.convention import sample_by_sample, trusted
from migrator.analysis.libraries.keras.names import LAYER
from migrator.analysis.libraries.keras.objects import arguments_of
from migrator.analysis.placement import Unknown
from migrator.analysis.values import NONE, NOTHING, NUMBER, Container, Data, Instance, Made, Tuple, Value
from migrator.facts.names import api
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Layers that give as many axes as they are given.
_OF_EQUAL_RANK = frozenset(
    f"keras.layers.{name}"
    for name in (
        "Dense", "Activation", "Dropout", "ReLU", "LeakyReLU", "ELU", "PReLU", "Softmax", "LayerNormalization",
        "BatchNormalization", "GaussianNoise", "GaussianDropout", "AlphaDropout", "Conv1D", "Conv2D", "Conv3D",
        "Conv1DTranspose", "Conv2DTranspose", "SeparableConv2D", "DepthwiseConv2D", "MaxPooling1D", "MaxPooling2D",
        "AveragePooling1D", "AveragePooling2D", "UpSampling1D", "UpSampling2D", "ZeroPadding2D", "Rescaling",
    )
)  # fmt: skip
# Layers that take a batch of samples with so many axes alone, and give as many, or at least so many.
_OF_IMAGES = re.compile(
    r"keras\.layers\.(?:(?:Max|Average)Pooling|(?:Max|Avg)Pool|UpSampling|ZeroPadding|Cropping)(\d)D$"
)
_CONVOLUTION = re.compile(r"keras\.layers\.(?:Depthwise|Separable)?Conv(?:olution)?(\d)D(?:Transpose)?$")
_OF_A_VECTOR_EACH = re.compile(r"keras\.layers\.Global(?:(?:Max|Average)Pooling|(?:Max|Avg)Pool)\dD$")
# They are given a list of tensors, and give as many axes as the most of these have.
_MERGING = frozenset(
    f"keras.layers.{name}" for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
)
_EMBEDDING = "keras.layers.Embedding"  # a vector for each number
# What makes a layer give several tensors.
_SEVERAL = ("return_state", "return_attention_scores")
_STACK = "keras.layers.StackedRNNCells"
_WRAPPERS = frozenset({"Bidirectional", "TimeDistributed", "RNN", "Wrapper"})


def call(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What a layer gives; as does whatever else is called that Keras makes and the tables tell of."""
    path = atom.path
    if path == "keras.layers.Lambda":
        function = arguments_of(run, atom).get("function", 0)
        if function is None:
            return NUMBER
        result = applied(run, function, _with_arguments(run, atom, args), node, frame)
        return masks.with_masks(result) if arguments_of(run, atom).get("mask", 2) is not None else result
    if path.rpartition(".")[2] in _WRAPPERS:
        return _wrapped(run, atom, args, node, frame)
    if path == "tensorflow_hub.KerasLayer" or path.startswith("tensorflow_addons.layers."):
        return trusted(run, atom.site.node, path, args)
    row = ops.lookup(path)
    if row is None and LAYER.match(path):
        return trusted(run, atom.site.node, path, args)
    if row is not None and "training" in args.keywords and "training" not in row.parameters:  # Keras keeps it to itself
        args = Arguments(
            args.positional, {k: x for k, x in args.keywords.items() if k != "training"}, args.rest, args.nodes
        )
    made = arguments_of(run, atom)
    rank, least = _rank(run, path, args, made), _least(run, path, args)
    made.keywords.pop("stateful", None)  # the states are those of the rows, which stay where they are
    named = _function_of_a_vector(path, made, rank)
    placed = run.placing.op(named, args, node) if named else run.placing.place(row, path, args, node, made)
    result = v.mapped(placed, lambda d: replace(d, rank=rank or d.rank, least=max(d.least, least)))
    for function in _activations(run, path, made):
        result = applied(run, function, Arguments([result]), node, frame)
    penalties.note_of_outputs(run, made.keywords.get("activity_regularizer"), result, node, frame)
    several = any({**made.keywords, **args.keywords}.get(name, NONE).constant is True for name in _SEVERAL)
    if several or path.endswith("Cell"):  # of Keras 2, a cell gives the states as they were given
        result = v.mapped(result, lambda d: replace(d, nested=True))
    width = _width(path, made)
    ends, told = masks.ended_by(path, made), masks.given(run, args)
    return v.mapped(
        result,
        lambda d: replace(
            d,
            rank=rank or d.rank,
            least=max(d.least, least),
            width=width or d.width,
            masked=(d.masked or told) and not ends,
        ),
    )


def _function_of_a_vector(path: str, made: Arguments, rank: int | None) -> str:
    """The function that Activation is told by name, where it has no features to work along: a softmax then goes over
    the batch. Empty for all else."""
    function = made.get("activation", 0)
    if path != "keras.layers.Activation" or rank != 1 or function is None:
        return ""
    name = f"keras.activations.{function.constant}"
    return name if ops.lookup(name) is not None else ""


def _with_arguments(run: Run, atom: Made, args: Arguments) -> Arguments:
    """What a `Lambda(f, arguments={...})` calls its function with."""
    given = arguments_of(run, atom).get("arguments", 3)
    if given is None or given.constant is None:
        return args
    every = Arguments(list(args.positional), dict(args.keywords), args.rest, args.nodes)
    run.calls.unpack_keywords(given, every)
    return every


def _wrapped(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A layer around another one: that one runs, on what has one axis less or more."""
    inner = arguments_of(run, atom).get("layer", 0) or arguments_of(run, atom).get("cell", 0)
    masked = masks.given(run, args)
    for layer in _inside(run, inner):
        result = _inner(run, layer, args, node, frame)
        lost = next((d for d in v.contents(result) if isinstance(d.placement, Unknown) or d.needs), None)
        if lost is not None:
            return Value(Data(Unknown("the layer inside works on the batch as a whole"), needs=lost.needs))
        masked = masked or masks.is_masked(run, result)
    result = sample_by_sample(run, args)
    if masked:
        result = masks.with_masks(result)
    made = inner.only if inner is not None else None
    if isinstance(made, Made) and masks.ended_by(made.path, arguments_of(run, made)):
        return v.mapped(result, lambda d: replace(d, masked=False))
    return result


def _inside(run: Run, layers: Value | None) -> Iterator[v.Atom]:
    """The layers that one is around, of lists and stacks of cells each."""
    for atom in layers if layers is not None else ():
        if isinstance(atom, (Container, Tuple)):
            yield from _inside(run, run.objects.parts(v.of(atom)))
        elif isinstance(atom, Made) and atom.path == _STACK:
            yield from _inside(run, arguments_of(run, atom).get("cells", 0))
        else:
            yield atom


def _inner(run: Run, layer: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What a layer inside gives, as far as it runs code of the program's."""
    given = Arguments(args.positional[:1])
    if isinstance(layer, Instance):
        if not heirs.starts_apart(run, layer, node, frame):
            return v.unseen("the states that a cell starts with are not seen to be each row's own")
        return run.calls.call(v.of(layer), Arguments(given.positional, rest=NUMBER), node, frame)
    if not isinstance(layer, Made):
        return NOTHING
    if layer.path == "keras.layers.Lambda" or api.makes_model(layer.path) or layer.path.rpartition(".")[2] in _WRAPPERS:
        return run.calls.call(v.of(layer), given, node, frame)
    functions = _activations(run, layer.path, arguments_of(run, layer))
    return v.join_all([applied(run, function, given, node, frame) for function in functions])


def _activations(run: Run, path: str, made: Arguments) -> Iterator[Value]:
    """The functions that a layer is told to put its outputs through; those by name take each value by itself, or
    the features of a sample."""
    position = 1 if path == "keras.layers.Dense" else 0 if path == "keras.layers.Activation" else None
    for name in ("activation", "recurrent_activation"):
        given = made.get(name, position if name == "activation" else None)
        own = registered.looked_up(run, given) if given is not None and not given.objects else NOTHING
        given = own if own is not NOTHING else given
        if given is not None and (given.objects or own is not NOTHING):
            # Of several that a list holds, those by name are what they are where it holds nothing else.
            is_named = (
                given.data is not None and given.data.is_replicated and not (given.data.nested or given.data.needs)
            )
            yield given.without_data() if is_named else given
            made.keywords.pop(name, None)
            if position is not None and position < len(made.positional) and name == "activation":
                made.positional[position] = v.constant("linear")


# -- the form of what they give ---------------------------------------------------------------------------------------


def _rank(run: Run, path: str, args: Arguments, made: Arguments) -> int | None:
    """The axes of what the layer gives, as far as that is settled by what it is given, or by which layer it is."""
    images = _OF_IMAGES.match(path)
    if images is not None:
        return int(images.group(1)) + 2
    if path == "keras.layers.Reshape":
        sizes = run.objects.sequence_items(made.get("target_shape", 0) or NOTHING)
        return len(sizes) + 1 if sizes is not None else None
    if _OF_A_VECTOR_EACH.match(path) and made.rest is NOTHING and made.get("keepdims", 1) is None:
        return 2
    if path in _MERGING:
        ranks = {d.rank for d in _merged(run, args)}
        are_seen = None not in ranks or path.endswith(".Concatenate")  # whose tensors all have as many
        return max((rank for rank in ranks if rank is not None), default=None) if are_seen else None
    given = args.positional[0].data if args.positional and not args.positional[0].objects else None
    if given is None or given.nested:
        return None
    if path == _EMBEDDING and given.rank is not None:
        return given.rank + 1
    is_equal = path in _OF_EQUAL_RANK or _CONVOLUTION.match(path) is not None
    return 2 if path == "keras.layers.Flatten" else given.rank if is_equal else None


def _merged(run: Run, args: Arguments) -> list[Data]:
    """The tensors of the list that is merged, where it is seen which ones there are."""
    items = run.objects.sequence_items(args.positional[0]) if args.positional else None
    tensors = [item.data for item in items or () if item.data is not None and not item.objects]
    is_seen = items is not None and len(tensors) == len(items) and not any(d.nested for d in tensors)
    return tensors if is_seen else []


def _least(run: Run, path: str, args: Arguments) -> int:
    """So many axes what the layer gives has at least."""
    convolution = _CONVOLUTION.match(path)
    if convolution is not None:
        return int(convolution.group(1)) + 2
    if path in _MERGING:
        return max((d.axes for d in _merged(run, args)), default=2)
    given = args.positional[0].data if args.positional and not args.positional[0].objects else None
    if given is None or given.nested or path not in (_EMBEDDING, *_OF_EQUAL_RANK):
        return 2
    return max(given.axes + (path == _EMBEDDING), 2)


def _width(path: str, made: Arguments) -> int | None:
    """The size of the last axis of what the layer gives, where it is told."""
    found = re.match(r"keras\.layers\.(?:(Dense|LSTM|GRU|SimpleRNN)|(Conv\dD)|(Embedding))$", path)
    if found is None or made.get("data_format") is not None:
        return None
    name, position = (("units", 0), ("filters", 0), ("output_dim", 1))[found.lastindex - 1]  # type: ignore[operator]
    given = made.get(name, position)
    width = given.constant if given is not None else None
    return width if isinstance(width, int) else None
