"""Names are followed to what they were imported or made from."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from script_nodes import Script

from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Function,
    Literal,
    Object,
    Parameter,
    Unknown,
    Value,
    calls,
)
from migrator.facts.program import modules
from migrator.facts.script import Facts
from migrator.text.parsing import parse

DENSE, ADAM, SGD = "keras.layers.Dense", "keras.optimizers.Adam", "keras.optimizers.SGD"


def paths(script: Script, source: str) -> set[str]:
    """The dotted names behind the last expression with this text: of what it is, or of the call that made it."""
    return {_path(value) for value in script.facts.resolver.values(script.node(source))}


def _path(value: Value) -> str:
    if isinstance(value, External):
        return value.path
    if isinstance(value, (Class, Object)):
        return value.node.name.value if isinstance(value, Class) else f"{value.of.node.name.value}()"
    if isinstance(value, Function):
        return value.node.name.value if hasattr(value.node, "name") else "lambda"
    return calls(value) or type(value).__name__


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import tensorflow as tf", "tf.keras.optimizers.Adam"),
        ("import tensorflow", "tensorflow.keras.optimizers.Adam"),
        ("import tensorflow as tf", "tf.optimizers.Adam"),
        ("import tensorflow.compat.v2 as tf", "tf.keras.optimizers.Adam"),
        ("from tensorflow import keras", "keras.optimizers.Adam"),
        ("from tensorflow.keras import optimizers as opts", "opts.Adam"),
        ("from tensorflow.keras.optimizers import Adam", "Adam"),
        ("from tensorflow.keras.optimizers import Adam as A", "A"),
        ("from tensorflow.python.keras import optimizers", "optimizers.Adam"),
        ("import tensorflow.keras as K", "K.optimizers.Adam"),
        ("import keras", "keras.optimizers.Adam"),
        ("from keras import optimizers", "optimizers.Adam"),
        ("import tf_keras as keras", "keras.optimizers.Adam"),
        ("import tensorflow as tf\nkeras = tf.keras\nopt = keras.optimizers", "opt.Adam"),
        ("try:\n    import keras\nexcept ImportError:\n    from tensorflow import keras", "keras.optimizers.Adam"),
    ],
)
def test_every_spelling_of_an_import_is_one_name(imports: str, name: str) -> None:
    assert paths(Script(f"{imports}\nx = {name}\n"), name) == {ADAM}


@pytest.mark.parametrize(
    ("imports", "name", "path"),
    [
        ("from mylib.keras import optimizers", "optimizers.Adam", "mylib.keras.optimizers.Adam"),
        ("from .keras import optimizers", "optimizers.Adam", ".keras.optimizers.Adam"),
        ("import kerastuner", "kerastuner.optimizers.Adam", "kerastuner.optimizers.Adam"),
        ("import keras_cv.optimizers", "keras_cv.optimizers.Adam", "keras_cv.optimizers.Adam"),
    ],
)
def test_other_packages_are_not_keras(imports: str, name: str, path: str) -> None:
    assert paths(Script(f"{imports}\nx = {name}\n"), name) == {path}


def test_own_class_of_a_known_name_is_itself() -> None:
    script = Script("from keras.optimizers import Adam\nclass Adam: pass\nx = Adam()\n")
    assert paths(script, "Adam()") == {"Adam()"}


def test_undefined_name_is_unknown_and_builtin_is_external() -> None:
    script = Script("x = nothing\ny = enumerate\n")
    assert [type(v) for v in script.facts.resolver.values(script.node("nothing"))] == [Unknown]
    assert paths(script, "enumerate") == {"builtins.enumerate"}


def test_latest_assignment_counts() -> None:
    script = Script("import keras\nm = keras.Sequential()\nm = keras.layers.Dense(1)\nuse(m)\n")
    assert paths(script, "m") == {DENSE}


@pytest.mark.parametrize(
    "statement",
    [
        "if c:\n    o = keras.optimizers.Adam()\nelse:\n    o = keras.optimizers.SGD()",
        "o = keras.optimizers.Adam()\nif c:\n    o = keras.optimizers.SGD()",
        "o = keras.optimizers.Adam()\nfor i in c:\n    o = keras.optimizers.SGD()",
        "o = keras.optimizers.Adam()\nwhile c:\n    o = keras.optimizers.SGD()",
        "try:\n    o = keras.optimizers.Adam()\nexcept ValueError:\n    o = keras.optimizers.SGD()",
        "o = keras.optimizers.Adam() if c else keras.optimizers.SGD()",
        "o = given or keras.optimizers.Adam() or keras.optimizers.SGD()",
        "o = {'a': keras.optimizers.Adam(), 's': keras.optimizers.SGD()}[c]",
        "for o in (keras.optimizers.Adam(), keras.optimizers.SGD()):\n    pass",
        "for i, o in enumerate([keras.optimizers.Adam(), keras.optimizers.SGD()]):\n    pass",
        "for n, o in [(1, keras.optimizers.Adam()), (2, keras.optimizers.SGD())]:\n    pass",
        "def make():\n    if c:\n        return keras.optimizers.Adam()\n    return keras.optimizers.SGD()\no = make()",
    ],
)
def test_all_ways_to_a_value_are_followed(statement: str) -> None:
    assert paths(Script(f"import keras\n{statement}\nuse(o)\n"), "o") >= {ADAM, SGD}


@pytest.mark.parametrize(
    "statement",
    [
        "with c:\n    o = keras.optimizers.Adam()",
        "o, p = keras.optimizers.Adam(), keras.optimizers.SGD()",
        "p, (o, q) = 1, (keras.optimizers.Adam(), 2)",
        "o = {'a': keras.optimizers.Adam(), 's': keras.optimizers.SGD()}['a']",
        "o = [keras.optimizers.SGD(), keras.optimizers.Adam()][1]",
        "o: object = keras.optimizers.Adam()",
        "p = o = keras.optimizers.Adam()",
        "if (o := keras.optimizers.Adam()):\n    pass",
        "make = lambda: keras.optimizers.Adam()\no = make()",
        "def make(rate):\n    optimizer = keras.optimizers.Adam(rate)\n    return optimizer\no = make(rate=1)",
        "def make():\n    return keras.optimizers.SGD(), keras.optimizers.Adam()\n_, o = make()",
        "def make():\n    return 1, keras.optimizers.Adam()\npair = make()\no = pair[1]",
        "def outer():\n    def inner():\n        return keras.optimizers.Adam()\n    return inner()\no = outer()",
        "import functools\n@functools.lru_cache\ndef make():\n    return keras.optimizers.Adam()\no = make()",
    ],
)
def test_the_only_way_to_a_value_is_followed(statement: str) -> None:
    assert paths(Script(f"import keras\n{statement}\nuse(o)\n"), "o") == {ADAM}


def test_unpacking_an_outside_call_yields_its_elements() -> None:
    script = Script("import keras\n(x, y), _ = keras.datasets.mnist.load_data()\nuse(y)\n")
    (value,) = script.facts.resolver.values(script.node("y"))
    assert isinstance(value, Element)
    assert value.path == (0, 1)


# -- functions and parameters ----------------------------------------------------------------------------------------


def test_parameter_is_what_the_callers_give() -> None:
    script = Script.of("""
        import keras
        def train(optimizer, model=None):
            use(optimizer)
            show(model)
        train(keras.optimizers.Adam())
        train(model=keras.layers.Dense(1), optimizer=keras.optimizers.SGD())
        """)
    assert paths(script, "optimizer") == {ADAM, SGD}
    assert DENSE in paths(script, "model")


def test_parameter_of_a_function_that_nobody_calls_is_a_parameter() -> None:
    script = Script("def train(model):\n    use(model)\n")
    assert [type(v) for v in script.facts.resolver.values(script.node("model"))] == [Parameter]


def test_parameter_through_two_functions_and_a_keyword() -> None:
    script = Script.of("""
        import keras
        def step(opt):
            use(opt)
        def train(optimizer):
            step(opt=optimizer)
        def main():
            train(keras.optimizers.Adam())
        main()
        """)
    assert paths(script, "opt") == {ADAM}


def test_default_of_a_parameter_counts_where_it_is_not_given() -> None:
    script = Script("import keras\ndef f(o=keras.optimizers.Adam()):\n    use(o)\nf()\n")
    assert paths(script, "o") == {ADAM}


def test_module_name_is_seen_from_a_function() -> None:
    script = Script("import keras\ndef f():\n    use(o)\no = keras.optimizers.Adam()\nf()\n")
    assert paths(script, "o") == {ADAM}


def test_global_is_assigned_in_a_function() -> None:
    script = Script("import keras\no = None\ndef f():\n    global o\n    o = keras.optimizers.Adam()\nf()\nuse(o)\n")
    assert ADAM in paths(script, "o")


def test_local_name_hides_the_module_name() -> None:
    script = Script("import keras\no = keras.optimizers.Adam()\ndef f(o):\n    use(o)\nf(keras.optimizers.SGD())\n")
    assert paths(script, "o") == {SGD}


def test_wrapped_function_is_the_function() -> None:
    script = Script(
        "import tensorflow as tf\ndef f(x):\n    return tf.keras.layers.Dense(1)\ng = tf.function(f)\nuse(g(1))\n"
    )
    assert paths(script, "g(1)") == {DENSE}


def test_recursion_ends() -> None:
    script = Script(
        "import keras\ndef f(n):\n    if n:\n        return f(n - 1)\n    return keras.layers.Dense(1)\nuse(f(3))\n"
    )
    assert paths(script, "f(3)") == {DENSE}


def test_names_that_depend_on_each_other_end() -> None:
    script = Script("a = b\nb = a\nfor i in x:\n    a, b = b, a\nuse(a)\n")
    script.facts.resolver.values(script.node("a"))


def test_thousand_nested_calls_end() -> None:
    script = Script("x = " + "f(" * 80 + "1" + ")" * 80 + "\nuse(x)\n")
    assert script.facts.resolver.values(script.node("x"))


# -- classes ---------------------------------------------------------------------------------------------------------

TRAINER = """
    import keras
    class Base:
        rate = 0.1
        def __init__(self, optimizer):
            self.optimizer = optimizer
            self.build()
        @property
        def layer(self):
            return keras.layers.Dense(1)
        @staticmethod
        def loss():
            return keras.losses.MeanSquaredError()
        def train(self):
            use(self.model, self.optimizer, self.layer, self.loss(), self.rate)
    class Trainer(Base):
        def build(self):
            self.model = self.make()
        def make(self):
            return keras.Sequential()
    trainer = Trainer(keras.optimizers.Adam())
    trainer.train()
    use(trainer.model)
    """


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("self.model", {"keras.Sequential"}),
        ("trainer.model", {"keras.Sequential"}),
        ("self.optimizer", {ADAM}),
        ("self.layer", {DENSE}),
        ("self.loss()", {"keras.losses.MeanSquaredError"}),
        ("self.rate", {"Literal"}),
        ("trainer", {"Trainer()"}),
    ],
)
def test_attributes_are_followed_through_methods_and_bases(source: str, expected: set[str]) -> None:
    assert paths(Script.of(TRAINER), source) == expected


def test_attribute_that_is_set_from_outside() -> None:
    script = Script("import keras\nclass T: pass\nt = T()\nt.opt = keras.optimizers.Adam()\nuse(t.opt)\n")
    assert paths(script, "t.opt") == {ADAM}


def test_attributes_of_unrelated_classes_stay_apart() -> None:
    script = Script.of("""
        import keras
        class A:
            def __init__(self):
                self.net = keras.layers.Dense(1)
        class B:
            def __init__(self):
                self.net = keras.optimizers.Adam()
        use(A().net)
        """)
    assert paths(script, "A().net") == {DENSE}


def test_method_of_a_subclass_is_called_with_its_arguments() -> None:
    script = Script.of("""
        import keras
        class T:
            def run(self, model):
                use(model)
        class S(T):
            pass
        S().run(keras.layers.Dense(1))
        T.run(S(), keras.Sequential())
        """)
    assert paths(script, "model") == {DENSE, "keras.Sequential"}


def test_class_knows_what_it_derives_from() -> None:
    script = Script.of("""
        from tensorflow.keras import Model
        class Base(Model): pass
        class Net(Base): pass
        class Model: pass
        class Other(Model): pass
        net = Net()
        other = Other()
        use(net, other)
        """)
    kinds, values = script.facts.kinds, script.facts.resolver.values
    assert [kinds.is_model(v) for v in values(script.node("net"))] == [True]
    assert [kinds.is_model(v) for v in values(script.node("other"))] == [False]


# -- what may reach a name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a = 1\na = 2\nuse(a)", ["2"]),
        ("a = 1\nif c:\n    a = 2\nuse(a)", ["2", "1"]),
        ("if c:\n    a = 1\nelse:\n    a = 2\nuse(a)", ["2", "1"]),
        ("a = 0\nif c:\n    a = 1\n    use(a)", ["1"]),
        ("a = 0\nif c:\n    a = 1\nelse:\n    use(a)", ["0"]),
        ("a = 1\nfor i in c:\n    use(a)\n    a = 2", ["1", "2"]),
        ("a = 1\nfor i in c:\n    a = 2\n    use(a)", ["2"]),
        ("a = 1\nwith c:\n    a = 2\nuse(a)", ["2"]),
        ("a = 1\na = a + 1\nuse(a)", ["a + 1"]),
        ("a = 1\n[a for a in c]\nuse(a)", ["1"]),
        ("a = 1\ndef f():\n    a = 2\nuse(a)", ["1"]),
        ("def f():\n    a = 1\n    use(a)\na = 2", ["1"]),
        ("a = 1\nuse(a)\na = 2", ["1"]),
    ],
)
def test_bindings_that_reach_a_use(script: str, expected: list[str]) -> None:
    parsed = Script(f"{script}\n")
    reaching = parsed.facts.resolver.reaching(cst.ensure_type(parsed.call("use(a)").args[0].value, cst.Name))
    assert sorted(parsed.facts.source(b.value) for b in reaching if b.value is not None) == sorted(expected)


def test_values_of_constants_are_literals() -> None:
    script = Script("x = [1, 'a']\nuse(x)\n")
    assert all(isinstance(v, Literal) for v in script.facts.resolver.values(script.node("x")))


def test_a_file_lends_no_names_that_it_does_not_have() -> None:
    texts = {
        "main": "from first import *\nfrom second import *\nos.getcwd\n",
        "first": "width = 8\n",
        "second": "import os\n",
    }
    facts = Facts([modules.Script(Path(f"{name}.py"), parse(text), text) for name, text in texts.items()])
    asked = next(node for node in facts.tree.order if isinstance(node, cst.Attribute))
    assert facts.resolver.values(asked) == (External("os.getcwd"),)


def test_parameters_behind_the_shares_of_a_batch() -> None:
    script = Script(
        "import lockstep\nfrom keras.optimizers import Adam\n"
        "def step(x, y, by, rate=0.1):\n    use(by)\n    ask(rate)\n"
        "step(*lockstep.shard_batch(x, y), Adam())\n"
    )
    assert paths(script, "by") == {ADAM}
    rate = cst.ensure_type(script.call("ask(rate)").args[0].value, cst.Name)
    given = script.facts.decisions.locality.dependence
    assert not any(isinstance(key, cst.Arg) for b in given.bindings_of(rate) for key, _ in given.inputs(b))


@pytest.mark.parametrize("args", ["()", "(x,)", "[]"])
def test_method_that_a_strategy_runs_gets_no_argument_for_its_object(args: str) -> None:
    script = Script(
        "import tensorflow as tf\nstrategy = tf.distribute.get_strategy()\n"
        f"class Trainer:\n    def step(self, x=None):\n        return self\ntrainer = Trainer()\n"
        f"strategy.run(trainer.step, args={args})\n"
    )
    step = next(node for node in script.facts.tree.all_of(cst.FunctionDef))
    assert script.facts.resolver.given(step.params.params[0]) == []
