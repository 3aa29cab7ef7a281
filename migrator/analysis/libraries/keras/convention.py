"""Keras's convention, which layers and models are taken to keep of which no more is known: they take samples along the
first axis, each by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.placement import LOCAL, REPLICATED, Sharded, Unknown
from migrator.analysis.values import Data, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def trusted(run: Run, node: cst.CSTNode, what: str, args: Arguments, maker: cst.CSTNode | None = None) -> Value:
    """What a layer or model gives of which nothing is known but that it is one, made or called at that node."""
    if any(not d.is_replicated for _, x in args.all() for d in run.objects.leaves(x)):
        run.trust(node, run.trusted, what, maker)
    return sample_by_sample(run, args)


def unseen_layer(run: Run, layer: Value, node: cst.CSTNode, what: str, args: Arguments) -> Value:
    """What a layer gives that is only known to be one of another package, or one that a model is asked for; of
    others, whose code may be the program's own, nothing is taken on trust."""
    if is_built_layer(run, layer):
        return sample_by_sample(run, args)
    data = layer.data
    if data is None or data.foreign or data.layer:
        return trusted(run, node, what, args, data.maker if data is not None and not layer.objects else None)
    return v.unseen("which layer this is, and so what it does with a batch, is not seen")


def is_built_layer(run: Run, layer: Value) -> bool:
    """Whether it surely is a layer of a functional model, all of which are seen to work sample by sample: they have
    run on Keras's tensors."""
    return layer.data is not None and layer.data.built and not layer.objects and not run.has_odd_layers


def sample_by_sample(run: Run, args: Arguments) -> Value:
    """What a layer gives that the convention holds for."""
    leaves = [d for x in args.positional[:1] for d in run.objects.leaves(x)]
    leaves += [d for x in args.keywords.values() for d in run.objects.leaves(x)]
    return Value(as_the_input(leaves))


def as_the_input(leaves: list[Data]) -> Data:
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
    if rows and any(d.whole for d in leaves):
        return Data(v.PARTLY_WHOLE, symbolic=symbolic, needs=needs)
    if rows:
        return Data(
            rows[0].placement,
            nested=True,
            least=2,
            symbolic=symbolic,
            masked=masked,
            needs=needs,
            counts=row_counts.common(rows),
            batch=same_batch.of_one(rows),
        )
    whole = any(d.whole for d in leaves)
    return Data(REPLICATED, nested=True, least=2, whole=whole, symbolic=symbolic, masked=masked, needs=needs)
