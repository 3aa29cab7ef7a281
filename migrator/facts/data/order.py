"""Where a dataset is allowed to give its elements in whichever order they are ready first.

No two workers would see one order then: dealt out, some elements would train twice and some never.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Member, Result, is_call_of
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

_TFDS = "tensorflow_datasets"
_OPTIONS = ("deterministic", "experimental_deterministic")
_PLACES = {"map": 2, "interleave": 4, "batch": 3, "padded_batch": 4}
_SLOPPY = "tensorflow.data.experimental.parallel_interleave"


@dataclass(frozen=True)
class AnyOrder:
    """A flag that lets the elements come in any order where it is false; where it is true, if it is `sloppy`."""

    flag: cst.BaseExpression
    sloppy: bool = False

    @property
    def is_written(self) -> bool:
        """Whether it is a `False` or `True` that stands there, and nothing that the run tells."""
        return _is_named(self.flag, "False", "True")


@dataclass(frozen=True)
class UnseededFiles:
    """A call for a dataset, or for its ReadConfig, that shuffles files without a seed, which also frees their order.

    `package` is what the script calls tensorflow_datasets; empty where `call` is the ReadConfig itself.
    """

    call: cst.Call
    package: str


class Order:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def loose_ends(
        self, pipeline: Pipeline, prefix: cst.BaseExpression | None
    ) -> Iterator[AnyOrder | UnseededFiles | Refusal]:
        """What leaves the order open. `prefix` is the dataset that is cut; None where its batches are."""
        if any(s.method == "with_options" for s in pipeline.steps) or pipeline.unseen:
            yield from self._options()  # wherever the options are set, they hold for the whole pipeline
        for step in pipeline.steps:
            if prefix is not None and step.base is prefix:
                break
            flag = argument(step.call, "deterministic", _PLACES.get(step.method))
            if flag is not None and self._may_be(flag.value, False):
                yield AnyOrder(flag.value)
            elif flag is None and any(arg.star == "**" for arg in step.call.args):
                yield from self._in_dictionaries()
            yield from self._applied(step.call)
        yield from self._files()

    def _in_dictionaries(self) -> Iterator[AnyOrder]:
        """What `dataset.map(read, **options)` may be given: the flags of all dictionaries of the program."""
        for entry in self.tree.all_of(cst.DictElement):
            key = entry.key.evaluated_value if isinstance(entry.key, cst.SimpleString) else None
            if key == "deterministic" and self._may_be(entry.value, False):
                yield AnyOrder(entry.value)
        for call in self.tree.calls:
            flag = argument(call, "deterministic")
            is_update = isinstance(call.func, cst.Attribute) and call.func.attr.value == "update"
            makes = is_update or External("builtins.dict") in self.resolver.values(call.func)
            if makes and flag is not None and self._may_be(flag.value, False):
                yield AnyOrder(flag.value)
        for assign in self.tree.all_of(cst.Assign):
            if any(_is_item(target.target) for target in assign.targets) and self._may_be(assign.value, False):
                yield AnyOrder(assign.value)

    def _applied(self, call: cst.Call) -> Iterator[AnyOrder]:
        """`dataset.apply(tf.data.experimental.parallel_interleave(read, cycle_length=8, sloppy=True))`"""
        for arg in call.args:
            if any(is_call_of(v, _SLOPPY) for v in self.resolver.values(arg.value)) and isinstance(arg.value, cst.Call):
                flag = argument(arg.value, "sloppy", 3)
                if flag is not None and self._may_be(flag.value, True):
                    yield AnyOrder(flag.value, sloppy=True)

    def _may_be(self, flag: cst.BaseExpression, value: bool) -> bool:
        """Whether the flag may have that value, and is not told by the number of workers already."""
        told = (c for c in self.tree.calls if self.tree.contains(flag, c))
        is_told = any(External(f"{api.RUNTIME}.size") in self.resolver.values(call.func) for call in told)
        return not is_told and not _is_named(flag, str(not value), "None")

    def _options(self) -> Iterator[AnyOrder]:
        for name in _OPTIONS:
            for binding in self.tree.attributes.get(name, ()):
                if isinstance(binding.value, cst.BaseExpression) and self._may_be(binding.value, False):
                    yield AnyOrder(binding.value)
        for call in self.tree.calls:
            set_ = call.args[1].value if len(call.args) == 3 else None
            is_flag = isinstance(set_, cst.SimpleString) and set_.evaluated_value in _OPTIONS
            sets = is_flag and any(External("builtins.setattr") == value for value in self.resolver.values(call.func))
            if sets and self._may_be(call.args[2].value, False):
                yield AnyOrder(call.args[2].value)

    def _files(self) -> Iterator[UnseededFiles | Refusal]:
        for call in self.tree.calls:
            shuffles = argument(call, "shuffle_files")
            if shuffles is None or _is_named(shuffles.value, "False") or not self._loads(call):
                continue
            config = argument(call, "read_config")
            package = self._package(call)
            made = self.resolver.values(config.value) if config is not None and not is_none(config.value) else ()
            configs = [v.call for v in made if isinstance(v, Result) and is_call_of(v, f"{_TFDS}.ReadConfig")]
            if not made and package:
                yield UnseededFiles(call, package)
            elif not configs or len(configs) < len(made):
                yield Refusal(
                    call,
                    "the files of this dataset may come in another order on each worker, so that no share is well "
                    "defined",
                    "give it read_config=tfds.ReadConfig(shuffle_seed=...)",
                    breaks_training=True,
                )
            else:
                yield from (UnseededFiles(c, "") for c in configs if argument(c, "shuffle_seed") is None)

    def _loads(self, call: cst.Call) -> bool:
        for value in self.resolver.values(call.func):
            if isinstance(value, External) and value.path == f"{_TFDS}.load":
                return True
            if isinstance(value, Member) and is_call_of(value.owner, f"{_TFDS}.builder"):
                return value.name == "as_dataset"
        return False

    def _package(self, call: cst.Call) -> str:
        """How the script writes tensorflow_datasets; empty where it has no name for it."""
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        if isinstance(owner, cst.Name) and External(_TFDS) in self.resolver.values(owner):
            return owner.value  # also where another file of the program has imported it
        for node in self.tree.imports:
            if not isinstance(node, cst.Import) or self.tree.module_of(node) is not self.tree.module_of(call):
                continue
            for alias in node.names:
                if isinstance(alias.name, cst.Name) and alias.name.value == _TFDS:
                    name = alias.asname.name if alias.asname is not None else alias.name
                    return name.value if isinstance(name, cst.Name) else ""
        return ""


def _is_item(target: cst.BaseExpression) -> bool:
    """`options["deterministic"]`"""
    place = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
    key = place.value if isinstance(place, cst.Index) else None
    return isinstance(key, cst.SimpleString) and key.evaluated_value == "deterministic"


def _is_named(node: cst.BaseExpression, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names
