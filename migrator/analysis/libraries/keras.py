"""Keras of both generations: layers and models that are called, losses, metrics, optimizers, and `fit`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import ops, row_counts
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import builtin, runtime, tensorflow
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import LOCAL, REPLICATED, Partial, Placement, Sharded, Unknown
from migrator.analysis.values import (
    NONE,
    NOTHING,
    NUMBER,
    Bound,
    Container,
    Curried,
    Data,
    External,
    Function,
    Instance,
    Made,
    Site,
    Tuple,
    Value,
)
from migrator.facts import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run

Handler = Callable[["Run", Arguments, cst.CSTNode, Frame], Value]

_WEIGHTS = frozenset({
    "trainable_variables", "trainable_weights", "variables", "weights", "non_trainable_variables",
    "non_trainable_weights", "kernel", "bias", "gamma", "beta", "embeddings", "recurrent_kernel",
})  # fmt: skip
_LAYER = re.compile(r"^keras\.layers\.(?:experimental\.(?:preprocessing\.)?)?[A-Z]\w*$|^keras\.Layer$")
_MADE = re.compile(
    r"^keras\.(?:losses|metrics|optimizers|regularizers|initializers|constraints|callbacks|applications|utils)"
    r"\.(?:\w+\.)*[A-Z]\w*$|^keras\.regularizers\.l[12](?:_l2)?$|^tensorflow_addons\.\w+\.[A-Z]\w*$|^tensorflow_hub\.KerasLayer$|^tensorflow\.Module$"
)
_LOSS = re.compile(r"^keras\.losses\.[A-Z]\w*$")
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
_METRIC = re.compile(r"^keras\.metrics\.[A-Z]\w*$")
_SYMBOLIC = frozenset({"keras.Input", "keras.layers.Input"})
# What makes a layer give several tensors.
_SEVERAL = ("return_state", "return_attention_scores")
_SCALING = frozenset({"get_scaled_loss", "scale_loss", "get_unscaled_gradients"})
_MERGING = ("Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract")
_WRAPPERS = frozenset({"Bidirectional", "TimeDistributed", "RNN", "Wrapper"})
_COPIES = ("keras.models.clone_model", "keras.models.clone_and_build_model")
_OWN_MODEL = re.compile(r"^keras\.applications\.|^keras\.(?:models\.)?(?:Sequential|Model|Functional)$")
_BASES = ("keras.", "tensorflow.Module", "tensorflow.keras")
_SHORT = {
    "mse": "mean_squared_error", "mae": "mean_absolute_error", "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error", "kld": "kl_divergence", "kullback_leibler_divergence": "kl_divergence",
    "bce": "binary_crossentropy", "logcosh": "log_cosh", "cosine_proximity": "cosine_similarity",
}  # fmt: skip
_REDUCTIONS = {"none": "none", "sum": "sum", "auto": "mean", "sum_over_batch_size": "mean", "mean": "mean"}


def _merge(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame, *, path: str) -> Value:
    """`keras.layers.concatenate([a, b], axis=1)`, a layer that is made and called at once."""
    made = Made(path, Site(node, frame.context))
    for name, value in args.keywords.items():
        run.heap.store(made, ("argument", name), value)
    return run.libraries.keras.call(made, Arguments(args.positional[:1], {}, args.rest, args.nodes), node, frame)


def full_name(path: str) -> str:
    """`keras.losses.mean_squared_error` for `keras.losses.mse`."""
    start, _, name = path.rpartition(".")
    return f"{start}.{_SHORT.get(name.lower(), name)}" if start in ("keras.losses", "keras.metrics") else path


def is_made(path: str) -> bool:
    return bool(api.makes_model(path) or api.is_optimizer_class(path) or _LAYER.match(path) or _MADE.match(path))


_RECURRENT = re.compile(r"keras\.layers\.(?:LSTM|GRU|SimpleRNN|RNN|ConvLSTM\dD|Bidirectional)$")
_POOLING = re.compile(r"keras\.layers\.(?:Flatten$|Global\w+Pooling)")


class Keras:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._compiles: dict[int, cst.CSTNode] = {}
        # The calls of `fit` whose own training step runs.
        self._fitting: list[cst.CSTNode] = []

    # -- making --------------------------------------------------------------------------------------------------

    def make(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if path in _SYMBOLIC:
            return Value(Data(Sharded(0), symbolic=True, rank=self._rank_of_input(args)))
        made = Made(path, Site(node, frame.context))
        self._store_arguments(made, args)
        if path in api.SEQUENTIAL:
            layers = args.get("layers", 0)
            if layers is not None:
                self._add_layers(made, layers)
        elif path in api.MODEL_CLASSES:
            outputs = args.get("outputs", 1)
            if outputs is not None:
                self.run.heap.store(made, "outputs", outputs)
        return v.of(made)

    def _rank_of_input(self, args: Arguments) -> int | None:
        """The axes of `keras.Input(shape)`, the samples' among them."""
        whole, each = args.get("batch_shape"), args.get("shape", 0)
        items = self.run.objects.sequence_items(whole or each or NUMBER)
        return len(items) + (whole is None) if items is not None else None

    def _store_arguments(self, atom: v.Atom, args: Arguments) -> None:
        for i, value in enumerate(args.positional):
            self.run.heap.store(atom, ("argument", i), value)
        for name, value in args.keywords.items():
            self.run.heap.store(atom, ("argument", name), value)

    def _arguments(self, atom: v.Atom) -> Arguments:
        found = Arguments()
        keys = [k for k in self.run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "argument"]
        for key in sorted((k for k in keys if isinstance(k[1], int)), key=lambda k: k[1]):
            found.positional.append(self.run.heap.load(atom, key))
        for key in keys:
            if isinstance(key[1], str):
                found.keywords[key[1]] = self.run.heap.load(atom, key)
        return found

    def prepare(self, instance: Instance, args: Arguments) -> None:
        self._store_arguments(instance, args)

    def _add_layers(self, atom: v.Atom, layers: Value) -> None:
        items = self.run.objects.sequence_items(layers)
        if items is None:
            self.run.heap.store(atom, ("layer", None), self.run.objects.parts(layers))
        for i, item in enumerate(items or ()):
            self.run.heap.store(atom, ("layer", i), item)

    def _bases(self, atom: v.Atom) -> list[str]:
        if isinstance(atom, Made):
            return [atom.path]
        return self.run.objects.external_bases(atom.cls) if isinstance(atom, Instance) else []

    def _is(self, atom: v.Atom, test: Callable[[str], object]) -> bool:
        return any(test(path) for path in self._bases(atom))

    # -- calling -------------------------------------------------------------------------------------------------

    def call(self, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        path = atom.path
        if path == "collections.namedtuple":
            return builtin.make_record(self.run, atom, args, node, frame)
        if path == runtime.WHOLE_BATCH:
            result = self.run.calls.call(self.run.heap.load(atom, "loss"), args, node, frame)
            done = frozenset((v.Repair(atom.site.node, frozenset(), "", form="done"),))
            given = [d for _, x in args.all() for d in self.run.objects.leaves(x)]
            lost = next((d.placement for d in given if isinstance(d.placement, (Unknown, type(LOCAL)))), REPLICATED)
            return v.mapped(result, lambda d: Data(lost, needs=done))
        if not _LOSS.match(path) and not _METRIC.match(path):
            self.run.note_forward()
            self.run.note_applied(atom, args)
        if path in api.SEQUENTIAL:
            return self._sequential(atom, args, node, frame)
        if api.makes_model(path):
            outputs = self.run.heap.load(atom, "outputs")
            if outputs is not NOTHING:
                return self._functional(outputs, args)
            original = self._arguments(atom).get("model", 0) if path in _COPIES else None
            if original is not None and original.objects:
                return self.run.calls.call(original, args, node, frame)
            name = "" if path == api.OF_A_PACKAGE else path
            return self._sample_by_sample(args) if _OWN_MODEL.match(path) else self.trusted(atom.site.node, name, args)
        if path == "keras.layers.Lambda":
            function = self._arguments(atom).get("function", 0)
            if function is None:
                return NUMBER
            return self.applied(function, args, node, frame)
        if path.rpartition(".")[2] in _WRAPPERS:
            return self._wrapped(atom, args, node, frame)
        if path == "tensorflow_hub.KerasLayer" or path.startswith("tensorflow_addons.layers."):
            return self.trusted(atom.site.node, path, args)
        if _LOSS.match(path):
            return self._loss_object(atom, args, node)
        if _METRIC.match(path):
            self._update_metric(atom, args, node)
            return self._metric_result(atom, node)
        row = ops.lookup(path)
        if row is None and _LAYER.match(path):
            return self.trusted(atom.site.node, path, args)
        made = self._arguments(atom)
        made.keywords.pop("stateful", None)  # the states are those of the rows, which stay where they are
        result = v.mapped(
            self.run.placing.place(row, path, args, node, made), lambda d: replace(d, least=max(d.least, 2))
        )
        for function in self._activations(path, made):
            result = self.applied(function, Arguments([result]), node, frame)
        self._note_activity_penalty(made.keywords.get("activity_regularizer"), result, node, frame)
        several = any({**made.keywords, **args.keywords}.get(name, NONE).constant is True for name in _SEVERAL)
        if several or path.endswith("Cell"):  # of Keras 2, a cell gives the states as they were given
            result = v.mapped(result, lambda d: replace(d, nested=True))
        width = self._width(path, made)
        ends = self._ends_masks(path, made)
        rank = self._rank(path, args)
        return v.mapped(
            result,
            lambda d: replace(
                d, rank=rank or d.rank, least=max(d.least, 2), width=width or d.width, masked=d.masked and not ends
            ),
        )

    @staticmethod
    def _rank(path: str, args: Arguments) -> int | None:
        """The axes of what the layer gives, where it has as many as what it is given, or lays out all in one row."""
        given = args.positional[0].data if args.positional and not args.positional[0].objects else None
        if given is None or given.nested:
            return None
        return 2 if path == "keras.layers.Flatten" else given.rank if path in _OF_EQUAL_RANK else None

    @staticmethod
    def _ends_masks(path: str, made: Arguments) -> bool:
        """Whether a mask ends at the layer: one that makes one row of a sequence."""
        if _RECURRENT.match(path):
            sequences = made.get("return_sequences")
            return sequences is None or sequences.constant is False
        return bool(_POOLING.match(path))

    @staticmethod
    def _width(path: str, made: Arguments) -> int | None:
        """The size of the last axis of what the layer gives, where it is told."""
        found = re.match(r"keras\.layers\.(?:(Dense|LSTM|GRU|SimpleRNN)|(Conv\dD)|(Embedding))$", path)
        if found is None or made.get("data_format") is not None:
            return None
        name, position = (("units", 0), ("filters", 0), ("output_dim", 1))[found.lastindex - 1]  # type: ignore[operator]
        given = made.get(name, position)
        width = given.constant if given is not None else None
        return width if isinstance(width, int) else None

    @staticmethod
    def _activations(path: str, made: Arguments) -> Iterator[Value]:
        """The functions that a layer is told to put its outputs through; those by name take each value by itself."""
        position = 1 if path == "keras.layers.Dense" else 0 if path == "keras.layers.Activation" else None
        for name in ("activation", "recurrent_activation"):
            given = made.get(name, position if name == "activation" else None)
            if given is not None and given.objects:
                yield given
                made.keywords.pop(name, None)
                if position is not None and position < len(made.positional) and name == "activation":
                    made.positional[position] = v.constant("linear")

    def _note_activity_penalty(
        self, regularizer: Value | None, outputs: Value, node: cst.CSTNode, frame: Frame
    ) -> None:
        """Keras divides what a regulariser gives for the outputs of a layer by the rows: of a sum it makes a mean."""
        if regularizer is None or regularizer.is_none:
            return
        atom = regularizer.only
        if isinstance(regularizer.constant, str) or (
            isinstance(atom, (Made, External)) and atom.path.startswith("keras.regularizers.")
        ):
            penalty: Partial | Unknown = Partial("mean")
        else:
            given = v.mapped(outputs, lambda d: replace(d, symbolic=False))
            made = self._with_block(
                "Keras applies it", lambda: self.run.calls.call(regularizer, Arguments([given]), node, frame)
            )
            parts = {d.placement for d in self.run.objects.leaves(made) if not d.needs}
            sums = parts == {Partial("sum")} and not any(d.needs for d in self.run.objects.leaves(made))
            penalty = Partial("mean") if sums else Unknown("what a regulariser makes of a batch is no sum over it")
        self.run.heap.store(_EVERY_MODEL, "activity penalties", Value(Data(penalty)))
        self.run.reductions.add("mean")
        if "mean" in self.run.plan.reductions:  # beside what is made of all rows, of which workers have unequally many
            penalty = Unknown("Keras takes the mean of a penalty over the rows of a worker")
        self.run.heap.store(_EVERY_MODEL, "added losses", Value(Data(penalty)))

    def _loss_object(self, atom: Made, args: Arguments, node: cst.CSTNode) -> Value:
        return self.run.placing.op(atom.path, args, node, self._arguments(atom))

    def _wrapped(self, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """A layer around another one: that one runs, on what has one axis less or more."""
        inner = self._arguments(atom).get("layer", 0) or self._arguments(atom).get("cell", 0)
        if inner is not None and any(isinstance(a, Instance) for a in inner):
            result = self.run.calls.call(inner, Arguments(args.positional[:1], rest=NUMBER), node, frame)
            lost = next((d for d in v.contents(result) if isinstance(d.placement, Unknown) or d.needs), None)
            if lost is not None:
                return Value(Data(Unknown("the layer inside works on the batch as a whole"), needs=lost.needs))
        result = self._sample_by_sample(args)
        made = inner.only if inner is not None else None
        if isinstance(made, Made) and self._ends_masks(made.path, self._arguments(made)):
            return v.mapped(result, lambda d: replace(d, masked=False))
        return result

    def trusted(self, node: cst.CSTNode, what: str, args: Arguments) -> Value:
        """What a layer or model gives of which nothing is known but that it is one, made at that node."""
        if any(not d.is_replicated for _, x in args.all() for d in self.run.objects.leaves(x)):
            said = [n for n in (node, *self.run.tree.ancestors(node)) if self.run.said.get(n) == "rows"]
            if said:
                self.run.needed_words.add(said[0])
            else:
                self.run.trusted.setdefault(node, what)
        return self._sample_by_sample(args)

    def unseen_layer(self, layer: Value, node: cst.CSTNode, what: str, args: Arguments) -> Value:
        """What a layer gives that is only known to be one of another package, or one that a model is asked for; of
        others, whose code may be the program's own, nothing is taken on trust."""
        if layer.data is None or layer.data.foreign or layer.data.layer:
            return self.trusted(node, what, args)
        return v.unseen("which layer this is, and so what it does with a batch, is not seen")

    def _sample_by_sample(self, args: Arguments) -> Value:
        """A layer that Keras's convention holds for: it takes samples along the first axis, each by itself."""
        leaves = [d for x in args.positional[:1] for d in self.run.objects.leaves(x)]
        leaves += [d for x in args.keywords.values() for d in self.run.objects.leaves(x)]
        return Value(self._as_the_input(leaves))

    @staticmethod
    def _as_the_input(leaves: list[Data]) -> Data:
        needs = frozenset(r for d in leaves for r in d.needs)
        symbolic = any(d.symbolic for d in leaves)
        rows = [d for d in leaves if not d.is_replicated]
        for data in rows:
            if isinstance(data.placement, (Unknown, type(LOCAL))):
                return Data(data.placement, nested=True, needs=needs)
            if data.placement != Sharded(0) and not (isinstance(data.placement, Sharded) and data.placement.axis == 0):
                if isinstance(data.placement, Sharded):
                    return Data(Unknown("the samples do not lie along the first axis"), needs=needs)
                return Data(Unknown("a layer is given what is no batch"), needs=needs)
        masked = any(d.masked for d in leaves)
        if rows:
            counts = row_counts.common(rows)
            return Data(
                rows[0].placement, nested=True, least=2, symbolic=symbolic, masked=masked, needs=needs, counts=counts
            )
        whole = any(d.whole for d in leaves)
        return Data(REPLICATED, nested=True, least=2, whole=whole, symbolic=symbolic, masked=masked, needs=needs)

    def _functional(self, outputs: Value, args: Arguments) -> Value:
        """A model of Keras tensors: its outputs stand as they did when they were built."""
        leaves = [d for x in args.positional[:1] for d in self.run.objects.leaves(x)]
        given = self._as_the_input(leaves)

        def output(data: Data) -> Data:
            if isinstance(given.placement, Unknown) or isinstance(data.placement, Unknown):
                lost = given if isinstance(given.placement, Unknown) else data
                return Data(lost.placement, needs=given.needs | data.needs)
            if given.is_replicated:
                for repair in () if given.symbolic else data.needs:
                    self.run.note_plain_repair(repair)
                return Data(REPLICATED, whole=given.whole, least=2, symbolic=given.symbolic, needs=given.needs)
            place = given.placement if data.placement == Sharded(0) else data.placement
            needs, least = data.needs | given.needs, max(data.least, 2)
            counts = given.counts if place is given.placement else ()
            return replace(
                data, placement=place, least=least, symbolic=given.symbolic, nested=False, needs=needs, counts=counts
            )

        if outputs.data is None and not any(isinstance(a, Tuple) for a in outputs):
            items = self.run.objects.sequence_items(outputs)
            if items is not None:
                outputs = v.of(Tuple(tuple(items)))
            else:
                return v.mapped(Value(v.join_all([self.run.objects.parts(outputs)]).data), output)
        return v.mapped(outputs, output)

    def _sequential(self, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        value = args.positional[0] if args.positional else args.get("inputs") or NUMBER
        keys = [k for k in self.run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
        ordered = sorted((k for k in keys if isinstance(k[1], int)), key=lambda k: k[1])
        loose = self.run.heap.load(atom, ("layer", None))
        self.run.heap.load(atom, ("layer", 0))
        if not ordered and loose is NOTHING:
            return self._sample_by_sample(Arguments([value]))
        told = args.get("training", 1)
        for key in ordered:
            value = self._through(self.run.heap.load(atom, key), value, told, node, frame)
        for layer in loose.objects:
            value = self._through(v.of(layer), value, told, node, frame)
        return value

    def applied(self, function: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What a function gives that Keras calls on rows, as that of a layer."""
        self.run.note_hidden(function)
        result = self._traced(args, lambda given: self.run.calls.call(function, given, node, frame))
        if any((d.whole and d.needs) or d.placement == v.PARTLY_WHOLE for d in self.run.objects.leaves(result)):
            self.run.note_whole_layer(function)
        return result

    def _traced(self, args: Arguments, run: Callable[[Arguments], Value]) -> Value:
        """Code of the program's own inside of a model: it runs on tensors, also where Keras's own stand for them."""
        if not any(d.symbolic for _, x in args.all() for d in self.run.objects.leaves(x)):
            return run(args)
        plain = [v.mapped(x, lambda d: replace(d, symbolic=False)) for x in args.positional]
        keywords = {k: v.mapped(x, lambda d: replace(d, symbolic=False)) for k, x in args.keywords.items()}
        result = run(Arguments(plain, keywords, args.rest, args.nodes))
        return v.mapped(result, lambda d: replace(d, symbolic=True))

    def _through(self, layer: Value, value: Value, training: Value | None, node: cst.CSTNode, frame: Frame) -> Value:
        if any(isinstance(a, Made) and a.path in (*_SYMBOLIC, "keras.layers.InputLayer") for a in layer):
            return value
        if layer.data is not None and not layer.data.symbolic:
            return self.unseen_layer(layer, node, "a layer of this model", Arguments([value]))
        if layer.data is not None:  # `keras.Input(…)`
            rank = layer.data.rank
            return value if rank is None else v.mapped(value, lambda d: replace(d, rank=d.rank or rank))
        takes_word = _is_told(training) and all(
            isinstance(a, Instance) or (isinstance(a, Made) and api.makes_model(a.path)) for a in layer
        )
        keywords = {"training": training} if training is not None and takes_word else {}
        return self.run.calls.call(layer, Arguments([value], keywords), node, frame)

    def _with_block(self, why: str, action: Callable[[], Value]) -> Value:
        before = self.run.placing.repairing.blocked
        self.run.placing.repairing.blocked = why
        try:
            return action()
        finally:
            self.run.placing.repairing.blocked = before

    def call_instance(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if self._is(atom, _LOSS.match) or self._is(atom, lambda p: p == "keras.losses.Loss"):
            return self._own_loss(atom, args, node, frame)
        if self._is(atom, lambda p: bool(_METRIC.match(p))):
            self.method(atom, "update_state", args, node, frame)
            return self._metric_result(atom, node)
        self.run.note_forward()
        self.run.note_applied(atom, args)
        build = self.run.objects.method(atom, "build")
        if build is not None and args.positional:
            self.run.calls.call(build, Arguments([NUMBER]), node, frame)
        call = self.run.objects.method(atom, "call")
        if call is not None:
            return self.applied(call, self._accepted(call, args), node, frame)
        if self._is(atom, lambda p: p in api.SEQUENTIAL):
            return self._sequential(atom, args, node, frame)
        outputs = self.run.heap.load(atom, "outputs")
        if outputs is not NOTHING:
            return self._functional(outputs, args)
        if self._is(atom, lambda p: bool(_LAYER.match(p) or api.makes_model(p))):
            return self._sample_by_sample(args)
        return self.run.placing.unknown(args, node)

    @staticmethod
    def _accepted(call: Value, args: Arguments) -> Arguments:
        """The arguments without `training` and `mask` where `call` does not take them: Keras keeps those to itself."""
        taken: set[str] = set()
        for atom in call:
            function = atom.function.node if isinstance(atom, Bound) else None
            if function is not None:
                params = function.params
                if params.star_kwarg is not None:
                    return args
                taken.update(p.name.value for p in (*params.params, *params.kwonly_params))
        keywords = {k: x for k, x in args.keywords.items() if k in taken or k not in ("training", "mask")}
        if "training" in taken and not _is_told(keywords.get("training")) and args.get("training", 1) is None:
            keywords["training"] = NUMBER  # Keras hands on what its caller was told
        return Arguments(args.positional, keywords, args.rest, args.nodes)

    # -- losses --------------------------------------------------------------------------------------------------

    def _own_loss(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """A loss class of the program: what `call` gives, reduced as the object was told to."""
        call = self.run.objects.method(atom, "call")
        if call is None:
            return self.run.placing.unknown(args, node)
        given = Arguments(
            args.positional[:2], {k: x for k, x in args.keywords.items() if k != "sample_weight"}, args.rest, args.nodes
        )
        result = self.run.calls.call(call, given, node, frame)
        weights = args.get("sample_weight", 2)
        if weights is not None and not weights.is_none:
            result = self.run.operator("operator.mul", (result, weights), (None, None), node)
        return self.reduced(result, self._reduction(atom), node)

    def _inherited_loss(self, atom: Instance, args: Arguments, node: cst.CSTNode) -> Value:
        """`super().call(y_true, y_pred)`: the values of the samples."""
        path = next(p for p in self._bases(atom) if _LOSS.match(p))
        unreduced = Arguments([], {"reduction": v.constant("none")})
        return self.run.placing.op(path, args, node, unreduced)

    def _reduction(self, atom: v.Atom) -> str:
        """ "none", "sum", "mean", or empty where it is not seen."""
        given = [self._arguments(atom).get("reduction"), self._arguments(atom).get("super reduction")]
        for value in given:
            if value is None:
                continue
            constant = value.constant
            only = value.only
            text = (
                constant
                if isinstance(constant, str)
                else only.path.rpartition(".")[2]
                if isinstance(only, External)
                else ""
            )
            return _REDUCTIONS.get(text.lower(), "")
        return "mean"

    def reduced(self, value: Value, reduction: str, node: cst.CSTNode) -> Value:
        """What Keras makes of the values of the samples."""
        data = value.data
        if data is None or reduction == "":
            return v.unseen("how this loss is reduced is not seen")
        if reduction == "none":
            return value
        path = "tensorflow.reduce_mean" if reduction == "mean" else "tensorflow.reduce_sum"
        return self.run.placing.op(path, Arguments([Value(replace(data, nested=False))]), node)

    def of_compiled(self, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What the loss given to `compile` is, as `fit` applies it to targets and predictions."""
        found: list[Value] = []
        parts = [loss]
        if (
            not any(isinstance(a, (Function, Bound, Made, Instance, External, Curried)) for a in loss)
            and loss.data is None
        ):
            items = self.run.objects.sequence_items(loss)
            heap = self.run.heap
            held = [heap.load(a, k) for a in loss if isinstance(a, Container) for k in heap.fields(a)]
            parts = items if items is not None else held or [self.run.objects.parts(loss)]
            args = Arguments([self._any_part(x) for x in args.positional], args.keywords, args.rest)
        for part in parts:
            for atom in part:
                found.append(self._compiled_part(atom, args, node, frame))
            if part.data is not None and not part.is_none:
                found.append(self._named_loss(part.data, args, node))
        return v.join_all(found) if found else NUMBER

    def _applied(self, atom: v.Atom, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The loss that the model is compiled with, applied; notes where it has to be given the whole batch."""
        for function in loss:
            self.run.note_hidden(v.of(function))
            if isinstance(function, Instance):
                self.run.note_hidden(self.run.objects.method(function, "call") or NOTHING)
        result = self._with_block("Keras applies it", lambda: self.of_compiled(loss, args, node, frame))
        given = frozenset(r for x in args.positional for d in self.run.objects.leaves(x) for r in d.needs)
        keys = [k for k in self.run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "compiled by"]
        compiles = {self._compiles[k[1]] for k in keys}
        for data in self.run.objects.leaves(result):
            is_mean = data.is_replicated or data.placement == Partial("mean")
            if not is_mean or data.needs - given:
                if compiles and all(self.run.said.get(n) == "mean" for n in compiles):
                    self.run.needed_words |= compiles
                    return Value(Data(Partial("mean"), needs=given))
                self.run.wanting |= compiles
        return result

    def _any_part(self, value: Value) -> Value:
        return value if value.data is not None else self.run.objects.parts(value)

    def _compiled_part(self, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = self._arguments(atom).get("reduction") if isinstance(atom, (Made, Instance)) else None
        if made is not None and made.constant == "mean_with_sample_weight":
            return v.unseen("it divides by the weights of all samples")
        result = self.run.calls.call(v.of(atom), args, node, frame)
        is_function = isinstance(atom, (Function, Bound, Curried)) or (
            isinstance(atom, External) and not atom.path.rpartition(".")[2][:1].isupper()
        )
        if isinstance(atom, Instance) and not self._is(atom, lambda p: p.startswith("keras.losses.")):
            is_function = True  # a plain object that is called
        return self.reduced(result, "mean", node) if is_function else result

    def _named_loss(self, data: Data, args: Arguments, node: cst.CSTNode) -> Value:
        if isinstance(data.constant, str):
            for path in (f"keras.losses.{data.constant}", f"keras.losses.{_snake(data.constant)}"):
                path = full_name(path)
                row = ops.lookup(path)
                if row is not None:
                    return self.reduced(self.run.placing.place(row, path, args, node), "mean", node)
        return v.unseen("which loss this is cannot be seen")

    def _added(self, atom: v.Atom) -> Value:
        """What layers add to the loss: penalties of weights, and what `add_loss` is given."""
        return v.join(NUMBER, self.run.heap.load(_EVERY_MODEL, "added losses"))

    # -- methods -------------------------------------------------------------------------------------------------

    def method(self, atom: Made | Instance, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if isinstance(atom, Made):
            found = tensorflow.method(self.run, atom, name, args, node)
            if found is not None:
                return found
        if name in _FILLING:
            self.run.note_weights(atom)
        handler = _METHODS.get(name)
        if handler is not None:
            return handler(self, atom, args, node, frame)
        if name == "call" and isinstance(atom, Instance) and self._is(atom, _LOSS.match):
            return self._inherited_loss(atom, args, node)
        if name in ("call", "__call__"):
            if isinstance(atom, Made):
                return self.call(atom, args, node, frame)
            return (
                self._base_call(atom, args, node, frame)
                if self._runs(atom)
                else self.call_instance(atom, args, node, frame)
            )
        if isinstance(atom, Made) and atom.path == tensorflow.VARIABLE:
            content = self.run.heap.load(atom, "content")
            return self.run.libraries.call_method(content, name, args, node, frame)
        return self._unknown_method(atom, name, args, node)

    def _runs(self, atom: Instance) -> bool:
        """Whether the object's own `call` runs now, so that it can only be `super().call(…)` that is asked for."""
        own = self.run.objects.method(atom, "call")
        running = [a.function.node for a in own or () if isinstance(a, Bound) and isinstance(a.function, Function)]
        return any(node in self.run.calls.stack for node in running)

    def _base_call(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().call(…)`: what the class of Keras's does that the object's comes from."""
        if self._is(atom, lambda p: p in api.SEQUENTIAL):
            return self._sequential(atom, args, node, frame)
        outputs = self.run.heap.load(atom, "outputs")
        if outputs is not NOTHING:
            return self._functional(outputs, args)
        if any(name.endswith("Cell") for name in self._bases(atom)):
            return v.of(Tuple((self._sample_by_sample(args), self._sample_by_sample(Arguments(args.positional[1:])))))
        for path in self._bases(atom):
            row = ops.lookup(path)
            if row is not None:
                return self.run.placing.place(row, path, args, node, self._arguments(atom))
        return self._sample_by_sample(args)

    def _unknown_method(self, atom: Made | Instance, name: str, args: Arguments, node: cst.CSTNode) -> Value:
        if self._is(atom, lambda p: p.startswith(_BASES)) and all(
            d.is_replicated for _, x in args.all() for d in self.run.objects.leaves(x)
        ):
            return NUMBER
        return self.run.placing.unknown(args, node)

    def _get_layer(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        return Value(Data(layer=True))

    def _init(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().__init__(…)` of a class of the program."""
        reduction = args.get("reduction")
        if reduction is not None:
            self.run.heap.store(atom, ("argument", "super reduction"), reduction)
        outputs = args.get("outputs", 1)
        if outputs is not None and self._is(atom, lambda p: p in api.MODEL_CLASSES):
            self.run.heap.store(atom, "outputs", outputs)
        layers = args.get("layers", 0)
        if layers is not None and self._is(atom, lambda p: p in api.SEQUENTIAL):
            self._add_layers(atom, layers)
        return NONE

    def _add(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if self._is(atom, lambda p: p in api.SEQUENTIAL) and args.positional:
            layers = [k for k in self.run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
            # Which layer stands where is known by the place in the text.
            known = {
                id(node): k for k in layers for _ in (0,) if self.run.heap.load(atom, ("added", k)).constant == id(node)
            }
            key = known.get(id(node), ("layer", len(layers)))
            self.run.heap.store(atom, ("added", key), v.constant(id(node)))
            self.run.heap.store(atom, key, args.positional[0])
            return NONE
        return self._unknown_method(atom, "add", args, node)

    def _add_loss(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        value = args.get("losses", 0) or args.get("loss") or NUMBER
        if any(isinstance(a, (Function, Bound)) for a in value):
            value = self.run.calls.call(value, Arguments(), node, frame)
        value = self.run.placing.repairing.as_mean(value, args.node("losses", 0), node)
        self.run.heap.store(_EVERY_MODEL, "added losses", v.join_all(Value(d) for d in self.run.objects.leaves(value)))
        self.run.added_losses[node] = v.join(self.run.added_losses.get(node, NOTHING), value)
        return NONE

    def _add_weight(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Made(tensorflow.VARIABLE, Site(node, frame.context))
        self.run.heap.store(made, "content", NUMBER)
        return v.of(made)

    def _compile(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        loss = args.get("loss", 1) or NONE
        said = self.run.said.get(node)
        if said in ("gather", "sum"):  # Keras averages what a loss gives for the samples: a sum is given all of them
            self.run.needed_words.add(node)
            self.run.plan.losses.add(node)
        if node in self.run.plan.losses:
            made = Made(runtime.WHOLE_BATCH, Site(node, ()))
            self.run.heap.store(made, "loss", loss)
            loss = v.of(made)
        self.run.heap.store(atom, ("compiled", "loss"), loss)
        self.run.heap.store(atom, ("compiled by", id(node)), loss)
        self._compiles[id(node)] = node
        optimizer = args.get("optimizer", 0)
        if optimizer is not None:
            self.run.heap.store(atom, ("compiled", "optimizer"), optimizer)
        for name in ("metrics", "weighted_metrics"):
            self.run.heap.store(atom, ("compiled", "metrics"), args.get(name) or NOTHING)
        self.run.compiled[node] = v.join(self.run.compiled.get(node, NOTHING), v.of(atom))
        return NONE

    def _losses(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`self.compiled_loss(y, p, …)`"""
        loss = self.run.heap.load(atom, ("compiled", "loss"))
        if loss is NOTHING:
            return v.unseen("which loss the model is compiled with is not seen")
        given = Arguments([args.get("y_true", 0) or NUMBER, args.get("y_pred", 1) or NUMBER], nodes=args.nodes)
        return self._total(atom, loss, given, node, frame)

    def _compute_loss(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`self.compute_loss(x, y, y_pred, sample_weight)`"""
        loss = self.run.heap.load(atom, ("compiled", "loss"))
        if loss is NOTHING:
            return v.unseen("which loss the model is compiled with is not seen")
        given = Arguments([args.get("y", 1) or NUMBER, args.get("y_pred", 2) or NUMBER])
        total = self._total(atom, loss, given, node, frame)
        weights = args.get("sample_weight", 3)
        if weights is None or weights.is_none:
            return total
        leaves = list(self.run.objects.leaves(weights))
        if any(d.placement != Sharded(0) and not (d.is_replicated and not d.whole) for d in leaves):
            return v.unseen("the weights of the samples do not stand as these do")
        return v.with_needs(total, frozenset(r for d in leaves for r in d.needs))

    def _total(self, atom: v.Atom, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        result = self._applied(atom, loss, args, node, frame)
        return self.run.operator("operator.add", (result, self._added(atom)), (None, None), node)

    def _fit(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        x, y = args.get("x", 0) or NUMBER, args.get("y", 1)
        batch = self._batch(x, y, node)
        self._train(atom, batch, node, frame)
        validation = args.get("validation_data")
        if validation is not None and not validation.is_none:
            self._infer(atom, self.run.whole(self._pair(validation, node)), node, frame)
        for callback in self._callbacks(args):
            self._call_back(callback, node, frame)
        return NUMBER

    def _callbacks(self, args: Arguments) -> Iterator[Instance]:
        given = args.get("callbacks")
        for value in (given, self.run.objects.parts(given)) if given is not None else ():
            yield from (a for a in value if isinstance(a, Instance))

    def _call_back(self, callback: Instance, node: cst.CSTNode, frame: Frame) -> None:
        for name in (
            "on_train_begin",
            "on_epoch_begin",
            "on_train_batch_end",
            "on_batch_end",
            "on_epoch_end",
            "on_train_end",
        ):
            own = self.run.objects.method(callback, name)
            if own is not None:
                self.run.calls.call(
                    own,
                    Arguments([NUMBER, NUMBER][: 1 if name.startswith("on_train_b") and "batch" not in name else 2]),
                    node,
                    frame,
                )

    def _batch(self, x: Value, y: Value | None, node: cst.CSTNode) -> Value:
        """What a step of `fit` gets."""
        if y is not None and not y.is_none:
            return v.of(Tuple((self._rows(x), self._rows(y))))
        if x.data is not None and not x.objects:
            return self.run.share(x)
        if all(isinstance(o, Tuple) or (isinstance(o, Container) and o.kind in ("list", "dict")) for o in x):
            return v.of(Tuple((self._rows(x),)))
        element = self.run.objects.elements(x, node, node)
        return self.run.share(element) if element is not NOTHING else self.run.batch()

    def _rows(self, value: Value) -> Value:
        if value.data is not None and not value.objects:
            return self.run.share(value)
        items = self.run.objects.sequence_items(value)
        if items is not None:
            return v.of(Tuple(tuple(self._rows(i) for i in items)))
        return self.run.batch()

    def _pair(self, value: Value, node: cst.CSTNode) -> Value:
        return value if self.run.objects.sequence_items(value) is not None else Value(Data(nested=True))

    def _train(self, atom: Made | Instance, batch: Value, node: cst.CSTNode, frame: Frame) -> None:
        step = self.run.objects.method(atom, "train_step") if isinstance(atom, Instance) else None
        if step is not None:
            self._fitting.append(node)
            try:
                self.run.calls.call(step, Arguments([batch]), node, frame)
            finally:
                self._fitting.pop()
            return
        with self.run.making_loss():
            self._forward(atom, *self._inputs(batch), node, frame)

    def _forward(self, atom: Made | Instance, x: Value, y: Value, node: cst.CSTNode, frame: Frame) -> None:
        predicted = self.run.calls.call(v.of(atom), Arguments([x], {"training": v.constant(True)}), node, frame)
        self.run.note_forward()
        self._note_metrics(atom, Arguments([y, predicted]), node, frame)
        told = self.run.objects.method(atom, "compute_metrics") if isinstance(atom, Instance) else None
        if told is not None:
            given = {"x": x, "y": y, "y_pred": predicted, "sample_weight": NONE}
            self.run.calls.call(told, Arguments([], given), node, frame)
        loss = self.run.heap.load(atom, ("compiled", "loss"))
        own = self.run.objects.method(atom, "compute_loss") if isinstance(atom, Instance) else None
        if own is not None:
            given = {"x": x, "y": y, "y_pred": predicted, "sample_weight": NONE}
            result = self.run.calls.call(own, Arguments([], given), node, frame)
        elif loss is NOTHING:
            return
        else:
            given_loss = Arguments([y, predicted])
            result = self._applied(atom, loss, given_loss, node, frame)
        lost = self.run.heap.load(_EVERY_MODEL, "activity penalties")
        if any(isinstance(d.placement, Unknown) for d in v.contents(lost)):
            result = lost
        forward = frozenset(r for d in v.contents(predicted) for r in d.needs)
        self.run.fit(atom, node, predicted, result, forward)

    def _inputs(self, batch: Value) -> tuple[Value, Value]:
        items = self.run.objects.sequence_items(batch)
        if items is not None and len(items) >= 2:
            return items[0], items[1]
        part = self.run.objects.parts(batch) if items is None else items[0]
        return part, part

    def _train_on_batch(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        x, y = args.get("x", 0) or NUMBER, args.get("y", 1) or NUMBER
        self._train(atom, v.of(Tuple((self._rows(x), self._rows(y)))), node, frame)
        told = Container("dict", Site(node, frame.context))
        mean, odd = Value(Data(Partial("mean"), nested=True)), self.run.odd_metrics.get(node)
        if not odd:
            return mean
        for name in (0, "loss"):
            self.run.heap.store(told, name, mean)
        self.run.heap.store(told, None, v.unseen("how the workers' parts of this metric add up is not known"))
        return v.of(told)

    def _infer(self, atom: Made | Instance, x: Value, node: cst.CSTNode, frame: Frame) -> Value:
        items = self.run.objects.sequence_items(x)
        given = items[0] if items else x
        return self.run.calls.call(v.of(atom), Arguments([given], {"training": v.constant(False)}), node, frame)

    def _predict(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        x = args.get("x", 0) or NUMBER
        leaves = list(self.run.objects.leaves(x))
        if any(not d.is_replicated for d in leaves):
            return self._infer(atom, x, node, frame)
        self._infer(atom, self.run.whole(Value(Data(nested=True))), node, frame)
        return Value(Data(REPLICATED, nested=True))

    def _evaluate(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        self._infer(atom, self.run.whole(Value(Data(nested=True))), node, frame)
        return Value(Data(REPLICATED, nested=True))

    def _minimize(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        loss = args.get("loss", 0) or NUMBER
        if any(isinstance(a, (Function, Bound, Curried)) for a in loss):
            with self.run.making_loss():
                loss = self.run.calls.call(loss, Arguments(), node, frame)
        self.run.differentiate(node, loss)
        return NUMBER

    def _scaled(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        return args.positional[0] if args.positional else NUMBER

    def _own_gradients(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        tape = tensorflow.method(self.run, Made(tensorflow.TAPE, Site(node, ())), "gradient", args, node)
        return tape if tape is not None else NUMBER

    def _train_step(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().train_step(data)`"""
        if isinstance(atom, Instance) and args.positional:
            x, y = self._inputs(args.positional[0])
            predicted = self.call_instance(atom, Arguments([x], {"training": v.constant(True)}), node, frame)
            loss = self.run.heap.load(atom, ("compiled", "loss"))
            given = Arguments([y, predicted])
            result = self._applied(atom, loss, given, node, frame) if loss is not NOTHING else NUMBER
            for fitted in {node, *self._fitting}:
                self.run.fit(atom, fitted, predicted, result, frozenset())
        return Value(Data(Partial("mean"), nested=True))

    # -- metrics -------------------------------------------------------------------------------------------------

    def _told_metrics(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().compute_metrics(…)`: what this worker has counted."""
        return Value(Data(LOCAL, nested=True))

    def _note_metrics(self, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
        """Notes of what kind the metrics are that the model is compiled with and that are no means over the rows."""
        queue = [self.run.heap.load(atom, ("compiled", "metrics"))]
        given = frozenset(r for x in args.positional for d in self.run.objects.leaves(x) for r in d.needs)
        for value in queue:
            if value.data is not None and not value.is_none and not _is_mean_metric(str(value.constant)):
                self.run.odd_metrics[node].add("class")
            for metric in value:
                if isinstance(metric, (Container, Tuple)):
                    queue.append(self.run.objects.parts(v.of(metric)))
                elif isinstance(metric, Instance):
                    self.run.odd_metrics[node].add("own")
                elif isinstance(metric, Made) or (isinstance(metric, External) and _METRIC.match(metric.path)):
                    if not _is_mean_metric(metric.path):
                        self.run.odd_metrics[node].add("class")
                elif not self._is_mean(metric, args, given, node, frame):
                    self.run.odd_metrics[node].add("function")

    def _is_mean(
        self, metric: v.Atom, args: Arguments, given: frozenset[v.Repair], node: cst.CSTNode, frame: Frame
    ) -> bool:
        result = self._with_block("Keras applies it", lambda: self.run.calls.call(v.of(metric), args, node, frame))
        return all(
            (d.is_replicated or isinstance(d.placement, Sharded) or d.placement == Partial("mean"))
            and not d.needs - given
            for d in self.run.objects.leaves(result)
        )

    def _update_metric(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode) -> None:
        self.run.placing.meet(args, node)
        for data in (d for _, x in args.all() for d in self.run.objects.leaves(x)):
            self.run.heap.store(atom, "fed", Value(replace(data, constant=NOT_CONSTANT)))

    def _update_state(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        self._update_metric(atom, args, node)
        return NUMBER

    def _metric_result(self, atom: Made | Instance, node: cst.CSTNode) -> Value:
        fed = list(self.run.objects.leaves(self.run.heap.load(atom, "fed")))
        needs = frozenset(r for d in fed for r in d.needs)
        apart = list(dict.fromkeys(d.placement for d in fed if not d.is_replicated))
        placement: Placement = next((p for p in apart if isinstance(p, (Unknown, type(LOCAL)))), REPLICATED)
        if placement == REPLICATED and isinstance(atom, Made):
            if atom.path == "keras.metrics.Mean" and apart == [Partial("mean")]:
                placement = Partial("mean")
            elif Partial("mean") in apart and not _is_mean_metric(atom.path):
                placement = Unknown("a metric that is no mean is given means over a worker's rows")
            elif apart:
                needs |= {self.run.placing.repairing.counted_by_all(node)}
        return Value(Data(placement, rank=0, nested=True, needs=needs))

    def _result(self, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        return self._metric_result(atom, node)

    # -- attributes ----------------------------------------------------------------------------------------------

    def attribute(self, atom: v.Atom, name: str) -> Value:
        if isinstance(atom, Made) and atom.path == tensorflow.VARIABLE and name in ("shape", "dtype", "name", "value"):
            return NUMBER if name != "value" else v.of(v.Method(v.of(atom), name))
        if name in _WEIGHTS:
            self.run.note_weights(atom)
        if name in _WEIGHTS and self._is(atom, lambda p: p.startswith(_BASES) or p.startswith("tensorflow_")):
            return Value(Data(nested=True))
        if name == "losses" and self._is(atom, lambda p: p.startswith(_BASES)):
            return v.mapped(self._added(atom), lambda d: replace(d, nested=True))
        if name == "optimizer":
            known = self.run.heap.load(atom, ("compiled", "optimizer"))
            return known if known.objects else v.of(Made("keras.optimizers.Optimizer", _ANY))
        if name == "num_replicas_in_sync":
            return v.constant(1)
        if name in ("metrics_names", "name", "dtype", "input_shape", "output_shape", "units", "iterations"):
            return NUMBER
        if name == "layers":
            return Value(Data(nested=True, layer=True))
        if name == "metrics":
            return NUMBER
        if name in ("output", "input", "outputs", "inputs"):
            known, symbolic = self.run.heap.load(atom, "outputs"), Value(Data(Sharded(0), symbolic=True))
            if isinstance(atom, Made) and atom.path == api.OF_A_PACKAGE:
                return self.trusted(atom.site.node, "", Arguments([symbolic]))
            return known if known is not NOTHING and name.startswith("out") else symbolic
        if name == "loss":
            return self.run.heap.load(atom, ("compiled", "loss"))
        return v.of(v.Method(v.of(atom), name))


# What trains a model, or gives it other weights.
_FILLING = frozenset({"compile", "fit", "train_on_batch", "set_weights", "load_weights"})
_EVERY_MODEL = Made("keras.Model", Site(cst.Pass(), ()))
_ANY = Site(cst.Pass(), ())
_METHODS: dict[str, Callable[[Keras, Made | Instance, Arguments, cst.CSTNode, Frame], Value]] = {
    "__init__": Keras._init,
    "add": Keras._add,
    "add_loss": Keras._add_loss,
    "add_weight": Keras._add_weight,
    "add_variable": Keras._add_weight,
    "compile": Keras._compile,
    "compiled_loss": Keras._losses,
    "compute_loss": Keras._compute_loss,
    "fit": Keras._fit,
    "train_on_batch": Keras._train_on_batch,
    "train_step": Keras._train_step,
    "predict": Keras._predict,
    "predict_on_batch": Keras._predict,
    "evaluate": Keras._evaluate,
    "test_on_batch": Keras._evaluate,
    "minimize": Keras._minimize,
    "get_gradients": Keras._own_gradients,
    "get_layer": Keras._get_layer,
    "update_state": Keras._update_state,
    "result": Keras._result,
    "compute_metrics": Keras._told_metrics,
    "get_metrics_result": Keras._told_metrics,
    **dict.fromkeys(_SCALING, Keras._scaled),
}


def _is_mean_metric(name: str) -> bool:
    """Whether the name, or the dotted path, is that of a metric of Keras's which is a mean over the rows."""
    short = full_name(f"keras.metrics.{name.rpartition('.')[2]}").rpartition(".")[2]
    return api.MEAN_METRICS.match(short.replace("_", "")) is not None


def _is_told(value: Value | None) -> bool:
    return value is not None and not value.is_none


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _input(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    shape = args.get("shape", 0)
    items = run.objects.sequence_items(shape) if shape is not None else None
    return Value(Data(Sharded(0), rank=None if items is None else len(items) + 1, symbolic=True))


def _unpacked(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`keras.utils.unpack_x_y_sample_weight(data)`: always three, of which the last ones may be None."""
    data = args.get("data", 0)
    if data is None:
        return v.unseen("what is unpacked is not seen")
    items = run.objects.sequence_items(data)
    if items is None:
        part = v.mapped(data, lambda d: replace(d, constant=NOT_CONSTANT, rank=None))
        items = [part] * 3
    return v.of(Tuple(tuple([*items, NONE, NONE][:3])))


def _activation(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A function, or the one of that name. Where the name is not seen, one that takes each value by itself, as for
    layers that are told a name."""
    given = args.get("identifier", 0)
    if given is None or given.objects:
        return given or v.unseen("which activation this is cannot be seen")
    name = given.constant
    if name is None:
        return v.of(External("keras.activations.linear"))
    return v.of(External(f"keras.activations.{name if isinstance(name, str) else 'sigmoid'}"))


FUNCTIONS: dict[str, Handler] = {
    "keras.activations.get": _activation,
    "keras.utils.unpack_x_y_sample_weight": _unpacked,
    **dict.fromkeys(_SYMBOLIC, _input),
    **{f"keras.layers.{name.lower()}": partial(_merge, path=f"keras.layers.{name}") for name in _MERGING},
}
