"""Report device settings that would come too late once the workers join at import.

`import lockstep` joins the cluster, which starts TensorFlow up; memory growth, visible devices and thread counts can
only be set before that. Where they are set at the top level of the script, the import goes right after them. Inside a
function they run after every import, and TensorFlow would raise an error on N workers.

before:
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(2)
after:
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(2)
    import lockstep

What is needed above the import of TensorFlow, such as `lockstep.is_chief()` for a file that is written there, takes the
import of `lockstep` with it.

Leaves alone: settings at the top level; scripts that do not train.
Refuses: settings inside of a function; settings below what needs the workers already.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, rule


@rule
def join_early(facts: Facts) -> Findings:
    if not facts.trains:
        return
    for call in facts.joining.device_settings:
        if facts.tree.function_of(call) is not None:
            yield Refusal(
                call,
                "this setting comes after the workers have joined, when TensorFlow no longer takes it",
                "move it to the top level, right below the import of TensorFlow",
                breaks_training=True,
            )
