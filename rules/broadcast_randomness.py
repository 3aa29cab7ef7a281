"""Give every worker the chief's random generators, clocks and names of processes, where the training depends on them.

A generator without a seed draws its first state from the system, and a clock tells each worker another time: shuffled
by these, or seeded with them, the workers would train on different batches. All take what the chief has instead, and
one process goes on as ever.

before:
    rng = np.random.default_rng()
    random.seed(time.time())
after:
    rng = lockstep.broadcast(np.random.default_rng())
    random.seed(lockstep.broadcast(time.time()))

Leaves alone: generators with a seed, and the global ones of NumPy, TensorFlow, Keras and Python's random, which all
workers seed alike when they start; times that are only told.
Refuses: nothing itself; the rules that cut the data refuse what is made under a condition, in a loop or in a function
of a pipeline, where not all workers need come equally often, and what cannot be sent (`random.SystemRandom`).
"""

from __future__ import annotations

from migrator.edits import Wrap
from migrator.facts.script import Facts
from migrator.rule import Findings, rule


@rule
def broadcast_randomness(facts: Facts) -> Findings:
    if facts.trains:
        for call in facts.sharding.obstacles.entropy.shared:
            yield Wrap(call, f"{facts.runtime}.broadcast(", ")")
