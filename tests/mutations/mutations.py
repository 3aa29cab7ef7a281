"""M1 to M20: the mistakes of ports by hand, made on purpose in scripts that are migrated right."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.mutations.calls import Call, calls, replaced

BROADCAST, REDUCE, WRAP = "lockstep.broadcast", "lockstep.all_reduce", "lockstep.distributed_optimizer"
CUT = "lockstep.shard_and_rebatch_dataset"
_CUTTING = ("lockstep.shard_batches", "lockstep.shard_batch", "lockstep.shard_arrays")
_OPTIMIZER = r"\b(?:SGD|Adam|RMSprop|GradientDescentOptimizer)\("
_RATE = re.compile(rf"({_OPTIMIZER}(?:learning_rate=)?)((?:\d[\d.]*(?:e-?\d+)?)|\w*learning_rate(?!=))\b")
_CUTS = frozenset({"shard-dataset", "shard-arrays", "shard-batch", "shard-minibatches"})


@dataclass(frozen=True)
class Mutation:
    """change: the script with the mistake, None where it cannot be made there. rules: those that name it rightly."""

    name: str
    title: str
    change: Callable[[str], str | None]
    rules: frozenset[str]


_all: list[Mutation] = []


def mutation(title: str, *rules: str) -> Callable[[Callable[[str], str | None]], Callable[[str], str | None]]:
    def register(change: Callable[[str], str | None]) -> Callable[[str], str | None]:
        def changed(text: str) -> str | None:
            result = change(text)
            if result is None or result == text:
                return None
            ast.parse(result)
            return result

        _all.append(Mutation(f"M{len(_all) + 1}", title, changed, frozenset(rules)))
        return change

    return register


def mutations() -> list[Mutation]:
    return list(_all)


# -- weights -------------------------------------------------------------------------------------------------------


@mutation("broadcast dropped", "broadcast-weights", "missing-broadcast")
def broadcast_dropped(text: str) -> str | None:
    for call in calls(text, BROADCAST):
        text = _without_statement(call, text)
    return text


@mutation("broadcast before the model is built", "broadcast-weights", "broadcast-before-build")
def broadcast_before_build(text: str) -> str | None:
    """The list of a model's variables is empty then; a model that is given itself is followed by the runtime."""
    for call in calls(text, BROADCAST):
        name = call.arguments[0]
        grown = re.search(rf"^{name} = .*Sequential\(\)\n", text, re.M)
        made = re.search(rf"^{name} = ([A-Z]\w*)\([A-Z0-9_]*\)$", text, re.M)
        if grown is not None:
            text = _without_statement(call, text)
            return replaced(text, grown.end(), grown.end(), f"{BROADCAST}({name}.trainable_variables)\n")
        if made is not None and f"class {made[1]}(" in text:
            return replaced(text, call.start, call.end, f"{BROADCAST}({name}.trainable_variables)")
    return None


@mutation("second model forgotten", "broadcast-weights", "missing-broadcast")
def second_model_forgotten(text: str) -> str | None:
    found = [call for call in calls(text, BROADCAST) if call.indent == "" or "self." in call.arguments[0]]
    names = {call.arguments[0] for call in found}
    if len(names) < 2 or "optimizer" in found[0].arguments[0]:
        return None
    # One that is made of others sends theirs.
    made = {name: re.search(rf"^ *{re.escape(name)} = (.*)$", text, re.M) for name in names}
    whole = {n for n, making in made.items() if making and any(re.search(rf"\b{o}\b", making[1]) for o in names - {n})}
    forgotten = next(call for call in found if call.arguments[0] not in whole)
    for call in found:
        if call is forgotten or call.arguments[0] in whole:
            text = _without_statement(call, text)
    return text


# -- gradients -----------------------------------------------------------------------------------------------------


def _gradient_reductions(text: str) -> list[Call]:
    return [call for call in calls(text, REDUCE) if re.search(r"grad|accumulators", call.arguments[0])]


@mutation("all-reduce dropped", "all-reduce-gradients", "wrap-optimizer", "unreduced-gradients")
def all_reduce_dropped(text: str) -> str | None:
    for call in _gradient_reductions(text):
        if call.target == call.arguments[0]:
            text = _without_statement(call, text)
        else:
            text = replaced(text, call.start, call.end, call.arguments[0])
    if _is_loaded_again(text):
        return text
    for call in calls(text, WRAP):
        text = replaced(text, call.start, call.end, call.arguments[0])
    return text


@mutation("result of the all-reduce discarded", "all-reduce-gradients", "dropped-reduction")
def result_discarded(text: str) -> str | None:
    for call in _gradient_reductions(text):
        whole = text[call.start : call.end]
        start, end = call.lines
        if call.target is not None:
            text = replaced(text, start, end, f"{call.indent}{whole}\n")
        else:
            text = replaced(text, call.start, call.end, "local_gradients")
            reduction = whole.replace(call.arguments[0], "local_gradients", 1)
            before = f"{call.indent}local_gradients = {call.arguments[0]}\n{call.indent}{reduction}\n"
            text = replaced(text, start, start, before)
    return text


@mutation("reduced twice", "reduced-twice", "all-reduce-gradients", "wrap-optimizer")
def reduced_twice(text: str) -> str | None:
    found = _gradient_reductions(text)
    for call in found:
        whole = text[call.start : call.end]
        text = replaced(text, call.start, call.end, whole.replace(call.arguments[0], whole, 1))
    return text


@mutation("sum for mean and mean for sum", "all-reduce-gradients", "wrap-optimizer")
def sum_for_mean(text: str) -> str | None:
    for call in sorted([*_gradient_reductions(text), *calls(text, WRAP)], key=lambda c: c.start, reverse=True):
        is_sum = call.keyword("reduction") is not None
        ending = "" if is_sum else ', reduction="sum"'
        text = replaced(text, call.start, call.end, f"{call.source(call.node.func)}({call.arguments[0]}{ending})")
    return text


@mutation("penalty counted N times", "scale-loss")
def penalty_counted_n_times(text: str) -> str | None:
    if " / lockstep.size()" in text:
        return text.replace(" / lockstep.size()", "")
    return text.replace("+ tf.add_n(model.losses)", "+ lockstep.size() * tf.add_n(model.losses)")


@mutation("reduced after clipping", "all-reduce-gradients")
def reduced_after_clipping(text: str) -> str | None:
    for call in _gradient_reductions(text):
        start, end = call.lines
        following = re.match(r" *(\w+)(?:, \w+)? = .*clip_by.*\n", text[end:])
        inside = re.match(r"( *)(\w+), _ = tf\.clip_by_global_norm\(", call.line)
        if call.target is not None and following is not None:
            clip = following[0]
            return replaced(text, start, end + len(clip), clip + call.line)
        if inside is not None:
            line = call.line.replace(text[call.start : call.end], call.arguments[0])
            return replaced(text, start, end, f"{line}{inside[1]}{inside[2]} = {REDUCE}({inside[2]})\n")
    return None


def _is_loaded_again(text: str) -> bool:
    return "load_model(" in text


@mutation("optimizer unwrapped after load_model", "wrap-optimizer", "unreduced-gradients")
def unwrapped_after_load_model(text: str) -> str | None:
    again = [call for call in calls(text, WRAP) if call.target is not None and call.target.endswith(".optimizer")]
    if not again or not _is_loaded_again(text):
        return None
    return _without_statement(again[0], text)


_INNER = '''
class Reducing(keras.optimizers.SGD):
    """Averages its gradients over the workers."""

    def apply(self, grads, trainable_variables=None):
        super().apply(lockstep.all_reduce(list(grads)), trainable_variables)

'''


@mutation("inner loss-scaling optimizer wrapped", "wrap-optimizer", "all-reduce-gradients", "unreduced-gradients")
def inner_optimizer_wrapped(text: str) -> str | None:
    """`distributed_optimizer` finds its way out of a loss scaler; what is written by hand does not."""
    scaler = re.search(r"^optimizer = .*LossScaleOptimizer\(keras\.optimizers\.SGD\(.*\n", text, re.M)
    if scaler is None:
        return None
    own = scaler[0].replace("keras.optimizers.SGD(", "Reducing(")
    text = replaced(text, scaler.start(), scaler.end(), f"{_INNER}\n{own}")
    return text.replace(f"{WRAP}(optimizer)", "optimizer")


# -- data ----------------------------------------------------------------------------------------------------------


@mutation("data not cut", "uncut-data", *_CUTS)
def data_not_cut(text: str) -> str | None:
    text = _with_global_sizes(text)
    for call in calls(text, CUT):
        text = replaced(text, call.start, call.end, ", ".join(call.arguments[:2]))
    for name in _CUTTING:
        for call in calls(text, name):
            text = replaced(text, call.start, call.end, _whole(call))
    return text


@mutation("cut behind an unseeded shuffle", "shard-after-shuffle", *_CUTS)
def cut_behind_unseeded_shuffle(text: str) -> str | None:
    for call in calls(text, CUT):
        start, _ = call.lines
        data = call.arguments[0]
        seed = 'int.from_bytes(os.urandom(4), "big")'
        before = f"{call.indent}import os\n{call.indent}{data} = {data}.shuffle(4096, seed={seed})\n"
        return replaced(text, start, start, before)
    for call in calls(text, "lockstep.shard_arrays"):
        if len(call.arguments) == 2 and isinstance(call.statement, ast.Expr):
            start, _ = call.lines
            x, y = call.arguments
            lines = ["import numpy", f"order = numpy.random.default_rng().permutation(len({x}))"]
            before = "".join(f"{call.indent}{line}\n" for line in lines)
            whole = text[call.start : call.end].replace(f"{x}, {y}", f"{x}[order], {y}[order]")
            return replaced(replaced(text, call.start, call.end, whole), start, start, before)
    return None


@mutation("a share that nobody reads", "unread-share", "unread-shard", "uncut-data", *_CUTS)
def share_that_nobody_reads(text: str) -> str | None:
    for call in calls(text, CUT):
        if call.target is not None:
            share = re.sub(r"^[\w.]+", "share", call.target)
            start = call.lines[0] + len(call.indent)
            return replaced(text, start, call.start, f"{share} = ")
    for name in _CUTTING:
        found = [call for call in calls(text, name) if isinstance(call.statement, (ast.Expr, ast.Assign))]
        found = [call for call in found if call.statement.lineno == found[-1].statement.lineno]
        shares = [text[call.start : call.end] for call in reversed(found)]
        for call in found:
            text = replaced(text, call.start, call.end, _whole(call))
        if found:
            start, _ = found[0].lines
            return replaced(text, start, start, f"{found[0].indent}share = {', '.join(shares)}\n")
    return None


def _whole(call: Call) -> str:
    """What the call is given, as it gives it back in one process."""
    given = ", ".join(call.arguments)
    return given if len(call.arguments) == 1 else f"({given})"


@mutation("global for local batch size", "unread-shard", "local-step-count", *_CUTS)
def global_for_local_batch_size(text: str) -> str | None:
    return _with_global_sizes(text)


def _with_global_sizes(text: str) -> str:
    """Batches of the size that the script says, where they are made."""
    for call in calls(text, "lockstep.local_batch_size"):
        text = replaced(text, call.start, call.end, call.arguments[0])
    for call in calls(text, CUT):
        text = re.sub(r"\.batch\(local_batch_size\b", f".batch({call.arguments[1]}", text)
    return text


@mutation("steps from the local batch", "local-step-count")
def steps_from_local_batch(text: str) -> str | None:
    local = "lockstep.local_batch_size(BATCH_SIZE)"
    text = re.sub(r"^(.*(?:steps|STEPS).*(?://|/) )BATCH_SIZE\b", rf"\1{local}", text, flags=re.M)
    return re.sub(r"steps_per_epoch=(\d+)", r"steps_per_epoch=\1 * lockstep.size()", text)


@mutation("learning rate times N", "learning-rate")
def learning_rate_times_n(text: str) -> str | None:
    scaled = _RATE.sub(r"\1\2 * lockstep.size()", text, count=1)
    return scaled if scaled != text else text.replace("=1e-2, decay_steps", "=1e-2 * lockstep.size(), decay_steps")


# -- decisions and files -------------------------------------------------------------------------------------------


@mutation("stop decided on a local loss", "average-metrics", "synchronise-callbacks")
def stop_on_local_loss(text: str) -> str | None:
    if "break" in text:
        for call in calls(text, REDUCE):
            if "grad" not in call.arguments[0]:
                text = replaced(text, call.start, call.end, call.arguments[0])
    if 'monitor="loss"' in text:
        for call in calls(text, "lockstep.callbacks"):
            text = replaced(text, call.start, call.end, call.arguments[0])
    return text


@mutation("every rank writes", "write-once", "unguarded-write")
def every_rank_writes(text: str) -> str | None:
    return text.replace("lockstep.is_chief()", "True")


@mutation("restored on the chief only", "broadcast-weights", "missing-broadcast")
def restored_on_chief_only(text: str) -> str | None:
    restored = re.search(r"^( *)([\w.\[\]]+\.(?:restore|load_weights)\(.*\))\n", text, re.M)
    if restored is None:
        return None
    for call in calls(text, BROADCAST):
        if call.start > restored.end() and "optimizer" in call.arguments[0]:
            text = _without_statement(call, text)
    indent, statement = restored[1], restored[2]
    guarded = f"{indent}if lockstep.is_chief():\n{indent}    {statement}\n"
    return replaced(text, restored.start(), restored.end(), guarded)


def _without_statement(call: Call, text: str) -> str:
    assert call.is_all or call.target is not None
    start, end = call.lines
    return replaced(text, start, end, "")
