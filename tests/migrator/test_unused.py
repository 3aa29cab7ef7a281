"""What nothing of a program names stands in nobody's way, and is left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.engine import migrate_program
from migrator.files.programs import programs
from migrator.findings.heeded import Heeding
from migrator.findings.results import Outcome
from migrator.registry import all_rules

TRAINING = """import tensorflow as tf
{imports}

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.zeros((32, 4)), tf.zeros((32, 1)), batch_size=8)
{more}
"""
HELPERS = '''import tensorflow as tf


def shape(x):
    return tf.reshape(x, (-1, 4))


def distil(model, teacher, x):
    """A step of the training that another script runs."""
    with tf.GradientTape() as tape:
        loss = teacher(model(x), x)
    optimizer = tf.keras.optimizers.SGD(0.1)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))


class Distiller:
    def run(self, model, teacher, x):
        distil(model, teacher, x)
'''


def outcomes(imports: str = "from helpers import shape", more: str = "", helpers: str = HELPERS) -> dict[str, Outcome]:
    files = {
        Path("helpers.py"): helpers.encode(),
        Path("train.py"): TRAINING.format(imports=imports, more=more).encode(),
    }
    (program,) = programs(files)
    found = {p.name: o for p, o in migrate_program(program, list(all_rules().values())).items()}
    assert all(isinstance(outcome, Outcome) for outcome in found.values())
    return {name: outcome for name, outcome in found.items() if isinstance(outcome, Outcome)}


def left(found: dict[str, Outcome]) -> list[str]:
    """The functions and classes that are told to be left as they are."""
    trusted = [finding for outcome in found.values() for finding in outcome.remarks.trusted]
    return [finding.scope for finding in trusted if finding.message.startswith("nothing that the program runs")]


def test_the_rest_is_migrated_without_it() -> None:
    found = outcomes()
    assert not any(outcome.refusals for outcome in found.values())
    assert "lockstep.shard_arrays" in found["train.py"].text
    assert found["helpers.py"].data == found["helpers.py"].old
    told = found["helpers.py"].remarks.trusted
    assert [(f.line, f.column, f.scope) for f in told] == [(8, 5, "distil"), (16, 7, "Distiller")]
    assert {f.message for f in told} == {"nothing that the program runs names this, and it is left as it is"}


@pytest.mark.parametrize(
    ("imports", "more"),
    [
        ("from helpers import distil", "distil(model, model, tf.zeros((8, 4)))"),
        ("from helpers import distil as step", "step(model, model, tf.zeros((8, 4)))"),
        ("from helpers import Distiller", "Distiller().run(model, model, tf.zeros((8, 4)))"),
        ("import helpers", "getattr(helpers, 'dis' + 'til')(model, model, tf.zeros((8, 4)))"),
        ("import helpers as h", "vars(h)['dis' + 'til'](model, model, tf.zeros((8, 4)))"),
        ("import helpers", "steps = [helpers]\ngetattr(steps[0], 'dis' + 'til')(model, model, tf.zeros((8, 4)))"),
        ("import helpers", "helpers.__dict__['dis' + 'til'](model, model, tf.zeros((8, 4)))"),
        ("from helpers import *", "globals()['dis' + 'til'](model, model, tf.zeros((8, 4)))"),
        ("from helpers import *", "eval('dis' + 'til')(model, model, tf.zeros((8, 4)))"),
        ("from helpers import *", "locals()['dis' + 'til'](model, model, tf.zeros((8, 4)))"),
        ("import sys, helpers", "getattr(sys.modules['helpers'], 'dis' + 'til')(model, model, tf.zeros((8, 4)))"),
        (
            "import importlib",
            "importlib.import_module('helpers').distil(model, model, tf.zeros((8, 4)))\nimport helpers",
        ),
        ("import fire\nfrom helpers import *", "fire.Fire()"),
        ("from importlib import import_module", "import helpers\ngetattr(import_module('helpers'), 'dis' + 'til')()"),
        ("from sys import modules", "import helpers\ngetattr(modules['helpers'], 'dis' + 'til')()"),
        ("import sys as s", "import helpers\ngetattr(s.modules['helpers'], 'dis' + 'til')()"),
        ("import sys", "import helpers\ngetattr(getattr(sys, 'mod' + 'ules')['helpers'], 'dis' + 'til')()"),
        ("from helpers import *\nimport __main__", "getattr(__main__, 'dis' + 'til')()"),
        ("import pydoc", "import helpers\npydoc.locate('helpers.' + 'distil')()"),
        ("from builtins import exec as run", "from helpers import *\nrun('dis' + 'til()')"),
        ("import builtins", "from helpers import *\nbuiltins.eval('dis' + 'til')()"),
        ("from inspect import getmembers", "import helpers as h\ndict(getmembers(h))['dis' + 'til']()"),
        ("from helpers import shape", "shape.__globals__['dis' + 'til']()"),
        ("from helpers import shape", "getattr(shape, '__glob' + 'als__')['dis' + 'til']()"),
        ("from helpers import *", "here = vars\nhere()['dis' + 'til']()"),
        ("import helpers\nimport numpy as np", "np.load('step.npy', None, True).item()()"),
        ("import unknown_registry", "import helpers\nunknown_registry.run_all()"),
        (
            "import subprocess, sys",
            "import helpers\nsubprocess.run([sys.executable, '-c', 'import helpers; helpers.distil()'])",
        ),
        ("import pickle", "import helpers\npickle.load(open('step.pkl', 'rb'))()"),
        ("from helpers import *\nfrom tensorflow.compat.v1 import app", "app.run(argv=['train'])"),
    ],
)
def test_what_may_be_found_is_judged(imports: str, more: str) -> None:
    assert "distil" not in left(outcomes(imports, more))


@pytest.mark.parametrize(
    "more",
    [
        "def walk(dir, eval=False):\n    return None if eval else dir\nwalk('data')",
        "def read():\n    for vars in (1, 2):\n        print(vars)\nread()",
        "shape_of, __ = tf.zeros((8, 4)), None\nprint(__)",
        "import albumentations, regex, sentencepiece\nregex.compile('a')",
        "path = 'data/' + 'distil.tfrecord'",
        "labels = ['distil step', 'a step (distil)']",
        "import numpy.random as r\nclass Net:\n  def distil(self): return r.rand()\nnet = Net()\nnet.distil()",
        "def show(distil):\n    print('distil', f'distil {distil}', '%s distil' % distil, end='')\nshow(distil=1)",
        "tf.print('distil: {}'.format(1))\ndistil_loss = dict(distil=2)\ntf.distil.Checkpoint",
    ],
)
def test_names_of_the_programs_own_find_nothing(more: str) -> None:
    assert left(outcomes("from helpers import shape", more)) == ["distil", "Distiller"]


@pytest.mark.parametrize(
    "more",
    [
        "import helpers\nhelpers.distil(model, model, tf.zeros((8, 4)))",
        "import helpers as h\ndef run(distil, h=h):\n    return h.distil(model, model, distil)\nrun(tf.zeros((8, 4)))",
        "import helpers\nprint(getattr(helpers, 'distil')(model, model, tf.zeros((8, 4))))",
        "import helpers\nprint('helpers.distil()', file=open('run.py', 'w'))",
        "def show():\n    from helpers import distil\n    return distil(model, model, tf.zeros((8, 4)))\nshow()",
        "def show():\n    global distil\n    distil(model, model, 1)\nfrom helpers import *\nshow()",
        "def show(print=print):\n    print('distil')\nimport helpers\nshow(lambda name: getattr(helpers, name)())",
        "import lost.helpers as h\nh.distil(model, model, tf.zeros((8, 4)))",
        "import pandas as pd, helpers\npd.DataFrame({'a': [1]}).query('@helpers.distil(a)')",
        "import pandas as pd\nfrom helpers import distil\npd.eval('@distil' + '(@model, @model, @x)')",
        "import os\nos.system('python -c \"from helpers import *; a = [distil]; a[0]()\"')",
        "call('helpers' + ':' + 'distil')",
        "call('helpers:distil')",
        "call('helpers.distil')",
        "call(r'distil')",
        "call(f'{model}.distil')",
        "call(f'{model}.' f'distil')",
        "class Found:\n    eval = eval\nfrom helpers import *\nFound.eval('dis' + 'til')",
        "if not tf.test.is_built_with_cuda():\n    vars = vars\nimport helpers\nvars()",
        "def call(eval=eval):\n    return eval('dis' + 'til')\nfrom helpers import *\ncall()",
        "def call(vars):\n    return vars()['dis' + 'til']\nfrom helpers import *\ncall(vars)",
        "def call():\n    from builtins import eval\n    return eval('dis' + 'til')\nfrom helpers import *\ncall()",
    ],
)
def test_what_finds_names_under_its_own_name_is_judged(more: str) -> None:
    assert "distil" not in left(outcomes("from helpers import shape", more))


def test_a_module_may_give_what_it_is_asked_for() -> None:
    asked = HELPERS + "\n\ndef __getattr__(name):\n    return distil\n"
    assert "distil" not in left(outcomes("import helpers", "helpers.prepare(model, model, 1)", asked))


def test_a_text_may_name_a_class_by_its_method() -> None:
    found = left(outcomes("from helpers import shape", "call('helpers.Distiller.run')"))
    assert "Distiller" not in found
    assert "distil" not in found


def test_a_list_of_what_a_star_imports_names_nothing() -> None:
    listed = HELPERS.replace(
        "import tensorflow as tf\n", "import tensorflow as tf\n\n__all__ = ['shape', 'distil']\n", 1
    )
    assert left(outcomes(helpers=listed)) == ["distil", "Distiller"]


def test_a_default_and_a_decorator_run_where_they_stand() -> None:
    by_default = HELPERS + "\n\ndef unused(step=distil(tf.keras.Sequential(), len, 1)):\n    return step\n"
    assert left(outcomes(helpers=by_default)) == ["Distiller"]
    decorated = HELPERS.replace("def distil", "@atexit.register\ndef distil").replace(
        "import", "import atexit\nimport", 1
    )
    assert left(outcomes(helpers=decorated)) == ["Distiller"]


def test_a_class_may_be_made_of_a_file() -> None:
    only_class = HELPERS.replace("def distil", "class Step:\n  def __call__", 1).replace("distil(", "Step()(")
    assert left(outcomes(helpers=only_class)) == ["Step", "Distiller"]
    read = "import pickle\nstep = pickle.load(open('step.pkl', 'rb'))\nstep(model, model, tf.zeros((8, 4)))"
    assert left(outcomes(more=read, helpers=only_class)) == []


@pytest.mark.parametrize(
    "registry",
    [
        "class Base:\n  known = {}\n  def __init_subclass__(cls, **kw):\n    Base.known[cls.__name__] = cls\n",
        "class Meta(type):\n  def __init__(cls, *a):\n    known.append(cls)\nclass Base(metaclass=Meta):\n  pass\n",
        "import tensorflow_datasets as tfds\nBase = tfds.core.GeneratorBasedBuilder\n",
    ],
)
def test_what_a_class_comes_from_may_keep_it(registry: str) -> None:
    helpers = registry + HELPERS.replace("class Distiller:", "class Distiller(Base):")
    assert "Distiller" not in left(outcomes(helpers=helpers, imports="from helpers import shape, Base"))


def test_models_that_are_read_name_classes() -> None:
    only_class = HELPERS.replace("def distil", "class Step:\n  def __call__", 1).replace("distil(", "Step()(")
    assert left(outcomes(more="best = tf.keras.models.load_model('best.keras')", helpers=only_class)) == []
    assert left(outcomes(more="from keras.models import model_from_json as read", helpers=only_class)) == []


def test_files_that_run_no_training_are_judged_by_all_they_have() -> None:
    (program,) = programs({Path("helpers.py"): HELPERS.encode()})
    (outcome,) = migrate_program(program, list(all_rules().values())).values()
    assert isinstance(outcome, Outcome)
    assert outcome.refusals


def test_nothing_is_left_on_trust_where_nothing_may_be() -> None:
    files = {
        Path("helpers.py"): HELPERS.encode(),
        Path("train.py"): TRAINING.format(imports="from helpers import shape", more="").encode(),
    }
    (program,) = programs(files)
    found = migrate_program(program, list(all_rules().values()), heeding=Heeding(is_strict=True))
    assert any(isinstance(outcome, Outcome) and outcome.refusals for outcome in found.values())
