"""Where a dataset is allowed to give its elements in whichever order they are ready first.

No two workers would see one order then: dealt out, some elements would train twice and some never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.order_flags import FLAG, PLACES, AnyOrder, OrderFlags, is_named
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.unseen_options import HiddenFlag, UnseenOptions
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Member, Result, is_call_of
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

_TFDS = "tensorflow_datasets"


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
        self._flags = OrderFlags(tree, resolver)
        self._hidden = UnseenOptions(tree, resolver, FLAG)

    def loose_ends(
        self, pipelines: Iterable[tuple[Pipeline, cst.BaseExpression | None]]
    ) -> Iterator[AnyOrder | HiddenFlag | UnseededFiles]:
        """What leaves the order open of anything in the program: datasets are read on ways that are not seen, and what
        workers make of the same rows in two orders is not the same. Not behind the cuts: `pipelines` come with the
        dataset that is cut, None where their batches are."""
        behind: set[cst.BaseExpression] = set()
        before: set[cst.BaseExpression] = set()
        steps_behind: set[cst.Call] = set()
        steps_before: set[cst.Call] = set()
        for pipeline, prefix in pipelines:
            found, steps = before, steps_before
            for step in pipeline.steps:
                found, steps = (behind, steps_behind) if step.base is prefix else (found, steps)
                steps.add(step.call)
                flag = argument(step.call, FLAG, PLACES.get(step.method))
                if flag is not None:
                    found.add(flag.value)
        given = [AnyOrder(flag) for flag in before]
        for end in dict.fromkeys([*self._flags.everywhere(), *given]):
            if end.may_free and end.flag not in behind - before and not self._is_told(end.flag):
                yield end
        for call, hidden in self._hidden.everywhere():
            if call not in steps_behind - steps_before:
                yield hidden
        yield from (end for end in self._files() if isinstance(end, UnseededFiles))

    def refusals(self) -> Iterator[Refusal]:
        yield from (end for end in self._files() if isinstance(end, Refusal))
        yield from self._hidden.refusals()

    def _is_told(self, flag: cst.BaseExpression) -> bool:
        """Whether the number of workers tells it already."""
        told = (c for c in self.tree.calls if self.tree.contains(flag, c))
        return any(External(f"{api.RUNTIME}.size") in self.resolver.values(call.func) for call in told)

    def _files(self) -> Iterator[UnseededFiles | Refusal]:
        for call in self.tree.calls:
            shuffles = argument(call, "shuffle_files")
            if shuffles is None or is_named(shuffles.value, "False") or not self._loads(call):
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
