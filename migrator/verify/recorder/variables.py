"""The variables that a script makes: known to the journal, and on other ranks than the chief of another start."""

from __future__ import annotations

import inspect
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

from migrator.verify.recorder import lines
from migrator.verify.recorder.journal import Journal


def watch(tensorflow: ModuleType, journal: Journal) -> None:
    """Tell the journal of every variable and of what is assigned to it. On ranks above 0 what is trained starts from
    other values, as it does where nobody has seeded it: only a broadcast can bring the ranks together."""
    rank = journal.record.rank

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        if rank > 0 and arguments.get("trainable") is not False and not is_of_optimizer():
            arguments["initial_value"] = moved_apart(
                tensorflow, arguments["initial_value"], arguments.get("dtype"), rank
            )
        with journal.making_variable():
            variable = next_creator(**arguments)
        journal.created(variable)
        return variable

    # Entered and never left, so kept: it has to cover the whole script.
    journal.creator_scope = tensorflow.variable_creator_scope(create)
    journal.creator_scope.__enter__()
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    # In some versions the second has these methods of its own.
    for cls in (BaseResourceVariable, ResourceVariable):
        watch_setting(cls, journal)


def is_of_optimizer() -> bool:
    """Whether a Keras optimizer makes a variable now: its own start from constants, some of which count as trained."""
    frame = inspect.currentframe()
    while frame is not None:
        folders = Path(frame.f_code.co_filename).parts
        if frame.f_code.co_name == "build" and {"keras", "tf_keras"}.intersection(folders) and "optimizers" in folders:
            return True
        frame = frame.f_back
    return False


def watch_setting(cls: Any, journal: Journal) -> None:
    """Tell the journal where lines of the script set such variables; what libraries set is an optimizer's work."""
    for name in ("assign", "assign_add", "assign_sub"):
        if not hasattr(getattr(cls, name), "_is_watched"):
            _watch_method(cls, name, journal)


def _watch_method(cls: Any, name: str, journal: Journal) -> None:
    original = getattr(cls, name)

    @wraps(original)
    def assign(variable: Any, *args: Any, **kwargs: Any) -> Any:
        if not lines.is_callers(journal.plan.root):
            return original(variable, *args, **kwargs)
        return journal.sets(variable, lambda: original(variable, *args, **kwargs))

    watched: Any = assign
    watched._is_watched = True
    setattr(cls, name, watched)


def moved_apart(tensorflow: ModuleType, initial_value: Any, dtype: Any, rank: int) -> Any:
    """An initial value that differs from the given one on each rank, unless it is a constant, which workers have alike
    without a broadcast: a number of Python's, or one throughout. Draws no random number."""

    def moved(value: Any) -> Any:
        if value is None:
            return None  # of a saved model, whose file gives it later
        tensor = tensorflow.convert_to_tensor(value, dtype=dtype)
        if not tensor.dtype.is_floating or isinstance(value, (int, float)):
            return tensor
        first = tensorflow.reshape(tensor, [-1])[:1]
        is_constant = tensorflow.reduce_all(tensor == first)
        if tensor.shape.num_elements() == 1:  # of which nothing else tells
            is_constant &= tensorflow.reduce_all((first == 0) | (first == 1))
        return tensorflow.where(is_constant, tensor, tensor * (1 + 0.1 * rank) + 0.05 * rank)

    return (lambda: moved(initial_value())) if callable(initial_value) else moved(initial_value)
