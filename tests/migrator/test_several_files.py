"""Programs of several files: each of fixtures/programs comes out as it is written down, migrated as one."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import click
import pytest
from command import ERROR, NOTHING_LEFT, SOMETHING_LEFT, contents, migrate
from fixture_cases import FIXTURES

PROGRAMS = sorted(path.parent for path in FIXTURES.glob("programs/*/before"))
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)

STEP = """import tensorflow as tf


def train_step(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
MAIN = """import tensorflow as tf
from steps import train_step

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in tf.data.Dataset.load("pairs").batch(16):
    train_step(model, optimizer, x, y)
"""


def expected(program: Path) -> dict[str, bytes]:
    return {**contents(program / "before"), **(contents(program / "after") if (program / "after").exists() else {})}


def refusals(program: Path) -> list[str]:
    file = program / "refused.txt"
    return file.read_text().splitlines() if file.exists() else []


def folder_with(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    return folder


@each_program
def test_comes_out_as_written_down(program: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(program / "before", tmp_path / "program")
    result = migrate(copy)
    assert contents(copy) == expected(program)
    lines = [line for line in click.unstyle(result.stdout).splitlines() if not line.startswith(" ")]
    assert [line[len(f"{copy}/") :] for line in lines] == refusals(program)
    assert result.exit_code == (SOMETHING_LEFT if refusals(program) else NOTHING_LEFT)
    # What is written down has every changed file and no other.
    if (program / "after").exists():
        before = contents(program / "before")
        assert all(before[name] != data for name, data in contents(program / "after").items())


@each_program
def test_the_order_of_the_files_does_not_matter(program: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(program / "before", tmp_path / "program")
    migrate(*sorted(copy.rglob("*.py"), reverse=True))
    assert contents(copy) == expected(program)


def test_the_guide_s_program_gets_the_guide_s_calls_for_npus(tmp_path: Path) -> None:
    copy = shutil.copytree(FIXTURES / "programs" / "resnet_loop" / "before", tmp_path / "program")
    assert migrate("--target", "npu", copy).exit_code == NOTHING_LEFT
    found = {name: data.decode() for name, data in contents(copy).items()}
    assert "\n    npu.distribute.broadcast(runnable.model.variables, root_rank=0)\n" in found["main.py"]
    assert '\n    grads = npu.distribute.all_reduce(grads, reduction="sum")\n' in found["grad_utils.py"]
    cut = "dataset, batch_size = npu.distribute.shard_and_rebatch_dataset(dataset, batch_size)"
    assert f"\n    if is_training:\n        {cut}\n" in found["preprocessing.py"]
    assert "/ num_replicas / rank_size\n" in found["resnet_runnable.py"]
    once = contents(copy)
    migrate("--target", "npu", copy)
    assert contents(copy) == once


def test_a_file_alone_names_the_others_that_take_part(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main=MAIN, steps=STEP)
    result = migrate(folder / "main.py")
    assert result.exit_code == SOMETHING_LEFT
    assert "main.py:2:1: all-reduce-gradients: refused: this runs steps.py" in click.unstyle(result.stdout)
    assert f"migrate {folder / 'main.py'} {folder / 'steps.py'}" in result.stdout
    assert contents(folder) == {"main.py": MAIN.encode(), "steps.py": STEP.encode()}
    assert migrate(folder / "main.py", folder / "steps.py").exit_code == NOTHING_LEFT


def test_a_file_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main=MAIN, steps=STEP, broken="import tensorflow\nmodel.fit(\nimport main\n")
    result = migrate(folder)
    assert result.exit_code == ERROR
    assert "broken.py:2:10: not valid Python: '(' was never closed" in click.unstyle(result.stderr)
    assert b"lockstep.broadcast(model)" in contents(folder)["main.py"]
    assert b"lockstep.all_reduce" in contents(folder)["steps.py"]


def test_a_name_of_a_module_that_is_not_given_costs_no_program(tmp_path: Path) -> None:
    layers = "from . import ops\nimport tensorflow as tf\n\n\nclass Block(tf.keras.layers.Layer):\n"
    package = tmp_path / "blocks"
    package.mkdir()
    folder_with(package, ops="from .kernels import grouped\n")
    folder_with(package, layers=f"{layers}    def call(self, x):\n        return ops.grouped(x)\n")
    main = MAIN.replace("import train_step", "import train_step\nfrom blocks.layers import Block")
    folder_with(tmp_path, steps=STEP, main=main.replace("[tf.keras.Input((4,)),", "[Block(),"))
    assert migrate(tmp_path).exit_code != ERROR


SUM = "import tensorflow as tf\n\n\ndef distance(y, p):\n    return tf.reduce_sum((y - p) ** 2)\n"
MEAN = SUM.replace("reduce_sum", "reduce_mean")
OF_DISTANCE = """import tensorflow as tf
{imports}

model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
for x, y in tf.data.Dataset.from_tensor_slices((tf.ones((24, 3)), tf.ones((24, 1)))).batch(12):
    with tf.GradientTape() as tape:
        loss = distance(y, model(x))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


@pytest.mark.parametrize("given", [".", "app", "app/main.py"])
def test_a_script_in_a_package_imports_what_lies_beside_it(tmp_path: Path, given: str) -> None:
    folder_with(tmp_path, loss=MEAN)
    (tmp_path / "app").mkdir()
    main = OF_DISTANCE.format(imports="from loss import distance")
    folder_with(tmp_path / "app", __init__="", loss=SUM, main=main)
    assert migrate(tmp_path / given).exit_code == NOTHING_LEFT
    assert b'reduction="sum"' in contents(tmp_path)["app/main.py"]


def test_a_module_of_a_package_imports_what_lies_beside_the_script(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    folder_with(tmp_path / "models", __init__="", loss=MEAN, net="from loss import distance\n")
    folder_with(tmp_path, loss=SUM, main=OF_DISTANCE.format(imports="from models.net import distance"))
    assert migrate(tmp_path).exit_code == NOTHING_LEFT
    assert b'reduction="sum"' in contents(tmp_path)["main.py"]


@pytest.mark.parametrize(
    ("imports", "modules"),
    [
        (f"{MEAN}from first import *", {"first": SUM}),
        ("from first import *", {"first": f"{MEAN}\n\nfrom second import *\n", "second": SUM}),
        ("from first import *\nfrom second import *", {"first": MEAN, "second": "from third import *\n", "third": SUM}),
        ("from first import *\nfrom second import *", {"first": SUM, "second": f"{MEAN}\n\ndel distance\n"}),
        ("from first import *\nif False:\n    from second import *", {"first": SUM, "second": MEAN}),
        (f"from first import *\n{SUM}", {"first": MEAN}),
    ],
    ids=["own before", "inside", "handed on", "deleted", "not run", "own behind"],
)
def test_the_latest_import_of_all_names_counts(tmp_path: Path, imports: str, modules: dict[str, str]) -> None:
    folder = folder_with(tmp_path, **modules, main=OF_DISTANCE.format(imports=imports))
    migrate(folder)
    assert b'reduction="sum"' in contents(folder)["main.py"]


@pytest.mark.parametrize(
    ("basic", "other"),
    [
        ("from ours import other\n\n\ndef distance(y, p):\n    return other.of(y, p)\n", SUM.replace("distance", "of")),
        (f"from ours import other\n\n\n{MEAN}", SUM),
    ],
    ids=["module of the package", "defined anew"],
)
def test_a_module_imports_from_the_package_that_hands_it_on(tmp_path: Path, basic: str, other: str) -> None:
    (tmp_path / "ours").mkdir()
    given = "from ours.other import *\nfrom ours.basic import *\n"
    given = given if other != SUM else "".join(reversed(given.splitlines(keepends=True)))
    folder_with(tmp_path / "ours", __init__=given, basic=basic, other=other)
    folder_with(tmp_path, main=OF_DISTANCE.format(imports="from ours import *"))
    assert migrate(tmp_path).exit_code == NOTHING_LEFT
    assert b'reduction="sum"' in contents(tmp_path)["main.py"]


def test_a_refused_file_takes_back_what_runs_together_with_it(tmp_path: Path) -> None:
    lost = STEP.replace("tape.gradient(", "elsewhere(")
    folder = folder_with(tmp_path, main=MAIN, steps=lost)
    before = contents(folder)
    other = tmp_path / "other"
    other.mkdir()
    folder_with(other, main=MAIN, steps=STEP)
    assert migrate(folder).exit_code == SOMETHING_LEFT
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert all(b"lockstep" in after[f"other/{name}"] for name in before)


MODEL = """import tensorflow as tf


def make():
    return tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
"""
FITTING = """import numpy as np
from net import make

x = np.load("x.npy")
model = make()
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=16)
"""


FIXED = FITTING.replace("make()", "tf.keras.Sequential([tf.keras.Input(batch_shape=(16, 4)), make()])")
FIXED = "import tensorflow as tf\n" + FIXED


def test_a_refused_script_leaves_others_that_share_a_file_with_it(tmp_path: Path) -> None:
    unseen = MAIN.replace("from steps import train_step", "from net import make").replace("train_step(", "elsewhere(")
    unseen = unseen.replace("elsewhere(model, optimizer, x, y)", "optimizer.apply_gradients(elsewhere(x, y, make()))")
    folder = folder_with(tmp_path, net=MODEL, fitting=FITTING, unseen=unseen)
    assert migrate(folder).exit_code == SOMETHING_LEFT
    assert b"lockstep.shard_arrays" in contents(folder)["fitting.py"]
    assert contents(folder)["unseen.py"].decode() == unseen


def test_a_script_that_is_trained_whole_leaves_others_split(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, net=MODEL, fitting=FITTING, fixed=FIXED)
    assert migrate(folder).exit_code == NOTHING_LEFT
    migrated = contents(folder)
    assert [b"shard_arrays" in migrated[f"{name}.py"] for name in ("fitting", "fixed")] == [True, False]
    assert [b'noise="same"' in migrated[f"{name}.py"] for name in ("fitting", "fixed")] == [False, True]
    assert migrate("--check", folder).exit_code == NOTHING_LEFT
    assert contents(folder) == migrated


def test_scripts_that_train_by_the_same_call_are_trained_whole_together(tmp_path: Path) -> None:
    training = 'model.compile("sgd", "mse")\nmodel.fit(x, x[:, :1], batch_size=16)\n'
    fit = "\n\ndef fit(model, x):\n" + textwrap.indent(training, "    ")
    fitting, fixed = (
        text.replace("import make", "import fit, make").replace(training, "fit(model, x)\n")
        for text in (FITTING, FIXED)
    )
    folder = folder_with(tmp_path, net=MODEL + fit, fitting=fitting, fixed=fixed)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert all(b'noise="same"' in contents(folder)[f"{name}.py"] for name in ("fitting", "fixed"))
    assert b"shard" not in contents(folder)["net.py"]


def test_many_processes_do_what_one_does(tmp_path: Path) -> None:
    for jobs in (1, 3):
        for number in range(14):
            folder = tmp_path / str(jobs) / str(number)
            folder.mkdir(parents=True)
            folder_with(folder, main=MAIN, steps=STEP)
    one = migrate("--jobs", 1, tmp_path / "1")
    three = migrate("--jobs", 3, tmp_path / "3")
    assert contents(tmp_path / "1") == contents(tmp_path / "3")
    assert one.stderr.replace(str(tmp_path / "1"), "") == three.stderr.replace(str(tmp_path / "3"), "")
    assert "28 files migrated" in click.unstyle(one.stderr)


@pytest.mark.parametrize(
    ("first", "importing"),
    [
        ("import tensorflow as tf\nORIGIN = tf.zeros([4])\nfrom steps import train_step\n", True),
        ("import tensorflow as tf\nfrom steps import train_step\nORIGIN = tf.zeros([4])\n", False),
        ("import tensorflow as tf\ntf.random.set_seed(1)\nfrom steps import train_step\n", False),
    ],
)
def test_a_file_that_makes_tensors_first_joins_first(first: str, importing: bool, tmp_path: Path) -> None:
    setup = MAIN.replace("from steps import train_step\n", "").replace(
        "for x, y in", "def run():\n  from steps import train_step\n  for x, y in"
    )
    setup = setup.replace("    train_step(", "      train_step(")
    folder = folder_with(tmp_path, main=first + "from setup import run\nrun()\n", setup=setup, steps=STEP)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert (b"import lockstep" in contents(folder)["main.py"]) is importing


def test_device_settings_after_the_import_that_joins_are_refused(tmp_path: Path) -> None:
    setting = "tf.config.threading.set_intra_op_parallelism_threads(1)\n"
    late = MAIN.replace("\nmodel =", f"\n{setting}model =")
    folder = folder_with(tmp_path, main=late, steps=STEP)
    result = migrate(folder)
    assert "join-early: refused: this setting comes after the import of line 2" in click.unstyle(result.stdout)
    assert contents(folder)["main.py"] == late.encode()
    early = MAIN.replace("from steps", f"{setting}from steps")
    folder_with(tmp_path, main=early)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert f"{setting}import lockstep\nfrom steps".encode() in contents(folder)["main.py"]


def test_settings_of_a_file_that_trains_nothing_by_itself_are_left_alone(tmp_path: Path) -> None:
    net = "import tensorflow as tf\n\n\ndef make():\n    return tf.keras.Sequential([tf.keras.layers.Dense(1)])\n\n\n"
    net += "def train(x):\n    model = make()\n    model.compile('sgd', 'mse')\n    model.fit(x, x)\n\n\n"
    net += "if __name__ == '__main__':\n    tf.config.optimizer.set_jit(True)\n    {}\n"
    main = "import numpy as np\nimport net\n\nnet.train(np.ones((13, 1)))\n"
    quiet = migrate(folder_with(tmp_path, main=main, net=net.format("print(make())")))
    assert quiet.exit_code == NOTHING_LEFT, quiet.stdout
    training = migrate(folder_with(tmp_path, main=main, net=net.format("train(tf.ones((13, 1)))")))
    assert "net.py:15:5: join-early: refused" in click.unstyle(training.stdout)


_NET = """\
import tensorflow as tf


class Net(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(2)
        self.inner = [tf.keras.layers.Dense(2) for _ in range(2)]

    def call(self, x):
        x = self.first(x)
        for layer in self.inner:
            x = layer(x)
        return x


if __name__ == "__main__":
    net = Net()
    print(net(tf.ones((4, 3))).shape)
"""
_TRAINS_NET = """\
import tensorflow as tf
from net import Net


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def call(self, x):
        return self.net(x)


model = Model()
optimizer = tf.keras.optimizers.SGD(0.1)
for x in tf.data.Dataset.from_tensor_slices(tf.ones((13, 3))).batch(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


def test_a_file_that_gets_no_call_of_the_runtime_does_not_import_it(tmp_path: Path) -> None:
    helper = "import os\n\n\ndef make(path):\n    if not os.path.exists(path):\n        os.makedirs(path)\n"
    main = MAIN.replace("\n\nmodel", "\nfrom folders import make\n\nmake('pictures')\nmodel")
    folder = folder_with(tmp_path, folders=helper, main=main, steps=STEP)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert (folder / "folders.py").read_text() == helper.replace("(path)\n", "(path, exist_ok=True)\n")
    assert "import lockstep" in (folder / "main.py").read_text()


def test_a_self_test_of_a_file_that_others_import_is_left_alone(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main=_TRAINS_NET, net=_NET)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert contents(folder)["net.py"].decode() == _NET
    assert b"lockstep" in contents(folder)["main.py"]


def test_what_an_imported_file_trains_by_itself_is_migrated(tmp_path: Path) -> None:
    training = "    model = tf.keras.Sequential([net])\n    model.compile('sgd', 'mse')\n"
    training += "    model.fit(tf.ones((13, 3)), tf.ones((13, 2)))\n"
    folder = folder_with(tmp_path, main=_TRAINS_NET, net=_NET + training)
    migrate(folder)
    assert b"lockstep.callbacks()" in contents(folder)["net.py"]


def test_memory_of_gpus_that_a_function_sets_below_the_import_that_joins_is_left_to_the_runtime(tmp_path: Path) -> None:
    setting = "tf.config.experimental.set_memory_growth(gpu, True)"
    loop = f"for gpu in tf.config.list_physical_devices('GPU'):\n        {setting}\n        print(gpu)\n"
    main = MAIN.replace("\nmodel =", f"\ndef use_gpus():\n    {loop}\nuse_gpus()\nmodel =")
    folder = folder_with(tmp_path, main=main, steps=STEP)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert f"        if lockstep.size() == 1:\n            {setting}".encode() in contents(folder)["main.py"]


def test_memory_of_gpus_that_is_set_below_the_import_of_another_file_is_left_to_the_runtime(tmp_path: Path) -> None:
    loop = "for gpu in tf.config.list_physical_devices('GPU'):"
    setting = "tf.config.experimental.set_memory_growth(gpu, True)"
    folder = folder_with(tmp_path, main=MAIN.replace("\nmodel =", f"\n{loop}\n    {setting}\nmodel ="), steps=STEP)
    assert migrate(folder).exit_code == NOTHING_LEFT
    guarded = f"if lockstep.size() == 1:\n    {loop}\n        {setting}"
    assert guarded.encode() in contents(folder)["main.py"]


@pytest.mark.parametrize(("seed", "joins_first"), [("", True), ("np.random.seed(0)\n", False)])
def test_the_workers_join_before_a_file_is_imported_that_draws_unseeded(
    seed: str, joins_first: bool, tmp_path: Path
) -> None:
    rows = f"import numpy as np\n\n{seed}rows = np.random.rand(8, 4)\n"
    folder = folder_with(tmp_path, main="from rows import rows\n" + MAIN, steps=STEP, rows=rows)
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert contents(folder)["rows.py"].decode() == rows
    main = contents(folder)["main.py"]
    assert (main.index(b"import lockstep") < main.index(b"from rows")) is joins_first


def test_a_file_that_draws_above_the_import_of_one_that_joins_joins_first(tmp_path: Path) -> None:
    training = "import tensorflow as tf\n\n\ndef train(x):\n"
    training += "    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
    training += "    model.compile('sgd', 'mse')\n    model.fit(x, x[:, :1], batch_size=4)\n"
    main = "import random\n\nimport numpy as np\n\nx = np.ones((8, 4)) * random.random()\n\n"
    folder = folder_with(tmp_path, main=main + "from training import train\n\ntrain(x)\n", training=training)
    assert migrate(folder).exit_code == NOTHING_LEFT
    text = contents(folder)["main.py"]
    assert text.index(b"import lockstep") < text.index(b"random.random()")


@pytest.mark.parametrize(
    ("statement", "use"),
    [
        ("import config", "config.SIZE"),
        ("import config as c", "c.SIZE"),
        ("from config import SIZE", "SIZE"),
        ("from config import SIZE as B", "B"),
        ("from config import *", "SIZE"),
    ],
)
def test_a_batch_size_of_another_file_is_known_in_the_step(statement: str, use: str, tmp_path: Path) -> None:
    main = MAIN.replace("from steps", "from config import SIZE\nfrom steps").replace("batch(16)", "batch(SIZE)")
    main = main.replace("Dense(1)", "Dense(2)")
    step = STEP.replace("import tensorflow as tf\n", f"import tensorflow as tf\n{statement}\n").replace(
        "model(x)))", f"model(x + tf.random.normal([{use}, 4]))))"
    )
    folder = folder_with(tmp_path, main=main, steps=step, config="SIZE = 16\n")
    migrate(folder)
    assert f"lockstep.shard_batch(tf.random.normal([{use}, 4]))" in (folder / "steps.py").read_text()


def test_gpus_are_set_up_at_the_top_level_below_an_import_of_the_program(tmp_path: Path) -> None:
    setting = 'for_gpu = tf.config.list_physical_devices("GPU")[0]\n'
    setting += "tf.config.experimental.set_memory_growth(for_gpu, True)\n"
    folder = folder_with(tmp_path, main=MAIN.replace("\nmodel =", f"\n{setting}\nmodel ="), steps=STEP)
    assert migrate(folder).exit_code == NOTHING_LEFT
    guarded = "if lockstep.size() == 1:\n    tf.config.experimental.set_memory_growth(for_gpu, True)\n"
    assert guarded in (folder / "main.py").read_text()


def test_a_function_of_another_file_may_be_named_by_its_parts(tmp_path: Path) -> None:
    rates = "def rate_by_loss(optimizer, loss):\n    optimizer.learning_rate = 0.05 if loss < 1.2 else 0.1\n"
    step = STEP.replace("y - model(x)", "model(x)") + "    return loss\n"
    turn = "    loss = train_step(model, optimizer, x, y)\n    getattr(rates, f'rate_by_{kind}')(optimizer, loss)\n"
    main = MAIN.replace("    train_step(model, optimizer, x, y)\n", turn).replace(
        "from steps", "import rates\nfrom steps"
    )
    folder = folder_with(tmp_path, rates=rates, steps=step, train=main.replace("for x", "kind = 'loss'\nfor x"))
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert "lockstep.all_reduce(loss)" in (folder / "train.py").read_text()


def test_a_package_that_another_file_imports_is_written_by_its_name_there(tmp_path: Path) -> None:
    main = """from imports import tf, tfds

train = tfds.load("mnist", split="train", as_supervised=True, shuffle_files=True).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train)
"""
    folder = folder_with(tmp_path, main=main, imports="import tensorflow as tf\nimport tensorflow_datasets as tfds\n")
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert b"read_config=tfds.ReadConfig(" in contents(folder)["main.py"]


def test_no_worker_trains_on_all_data_by_a_file_that_puts_rows_of_the_workers_together(tmp_path: Path) -> None:
    """Each row would count as often as there are workers."""
    model = """import lockstep
import tensorflow as tf


class Net(tf.keras.Sequential):
    def compile(self, loss_fn):
        super().compile()
        self.loss_fn = loss_fn

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.loss_fn(lockstep.all_gather(y), lockstep.all_gather(self(x)))
        gradients = lockstep.all_reduce(tape.gradient(loss, self.trainable_variables))
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}
"""
    main = """import tensorflow as tf
from net import Net

model = Net([tf.keras.layers.Dense(1)])
model.compile(tf.keras.losses.MeanSquaredError(reduction="sum"))
model.fit(eval("pairs"), steps_per_epoch=2)
"""
    folder = folder_with(tmp_path, main=main, net=model)
    result = migrate("--check", folder / "main.py", folder / "net.py")
    assert "every worker trains on all of the data" not in result.stdout
    assert "shard-arrays: refused" in result.stdout


def test_a_file_that_is_not_there_is_named_where_all_rows_are_put_together_for_it(tmp_path: Path) -> None:
    main = STEP.replace("\n\n", "\nfrom our.pairs import Pairs\n\npairs = Pairs(2)\n\n", 1).replace(
        "tf.square(y - model(x))", "pairs(model(x))"
    )
    file = tmp_path / "main.py"
    file.write_text(main + MAIN.split("\n", 2)[2])
    result = migrate("--diff", file)
    assert "pairs(lockstep.all_gather(model(x)))" in result.stdout
    told = "what `pairs` does is not seen, so it is given all rows of the batch, and must not train; "
    assert told in result.stderr + result.stdout
    assert "our/pairs.py is imported and not among the files given: migrate main.py our/pairs.py" in result.stderr


def test_a_dataset_of_a_star_import_may_get_its_own_name_anew(tmp_path: Path) -> None:
    made = 'import tensorflow as tf\n\ndata = tf.data.Dataset.load("pairs").batch(16)\n'
    trained = """from data import *

data = data.map(lambda x, y: (x / 2, y))
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")
model.fit(data, epochs=3)
"""
    assert migrate(folder_with(tmp_path, data=made, main=trained)).exit_code == NOTHING_LEFT
    assert "model.fit(lockstep.shard_batches(data), " in (tmp_path / "main.py").read_text()


def test_what_a_missing_file_makes_for_a_script_that_trains_nothing_is_no_training(tmp_path: Path) -> None:
    script = """import tensorflow as tf
from project import configs, layers

config = configs.Experiment(task=configs.Task(model=configs.Model(width=4)))
words = tf.keras.layers.Input((None,))
embedded = layers.Embedding(initializer=tf.keras.initializers.TruncatedNormal())(words)
"""
    assert migrate(folder_with(tmp_path, network=script)).exit_code == NOTHING_LEFT
    (tmp_path / "network.py").write_text(script + "layers.train(configs.Trainer(config))\n")
    assert migrate(tmp_path).exit_code == SOMETHING_LEFT


_TRAINED_WHOLE = """import tensorflow as tf
from functools import partial
from tensorflow.keras import backend as K

inputs = tf.keras.Input((4,))
outputs = tf.keras.layers.Dense(1)(inputs)
doubled = tf.keras.layers.Lambda(lambda z: tf.concat([z, tf.reverse(z, [0])], 0))(outputs)
model = tf.keras.Model(inputs, [outputs, doubled])


def penalty(y_true, y_pred, x):
    return K.mean(K.square(K.gradients(y_pred, x)[0]))


model.compile("sgd", loss=[partial(penalty, x=inputs), "mse"])
for x, y in tf.data.Dataset.load("pairs").batch(16):
    model.train_on_batch(x, [y, y])
"""


def test_where_every_worker_has_all_rows_no_loss_gathers_them(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main=_TRAINED_WHOLE)
    assert migrate(folder).exit_code == NOTHING_LEFT
    text = (folder / "main.py").read_text()
    assert "lockstep.distributed_optimizer" in text
    assert "whole_batch" not in text
