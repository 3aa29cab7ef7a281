"""What we know of TensorFlow's and Keras's public names: one table for every rule."""

from __future__ import annotations

import re
from functools import lru_cache

RUNTIME = "lockstep"

_KERAS_ROOTS = re.compile(
    r"^(?:tensorflow\.keras|tensorflow\.python\.keras(?:\.api\._v2\.keras)?|tensorflow\.compat\.v2\.keras"
    r"|keras\.api\._v2\.keras|keras\.src|tf_keras(?:\.src)?|keras)(?=\.|$)"
)
# What code after the pattern of Keras's own layers imports of TensorFlow's modules: the public function itself.
_MODULES_OF_OPS = re.compile(
    r"^tensorflow\.python\.ops\.(?:array_ops\.(?=(?:shape|reshape|concat|stack|unstack|transpose|identity|tile|zeros|ones"
    r"|zeros_like|ones_like)$)|math_ops\.(?=(?:cast|matmul|tanh|square|reduce_(?:sum|mean|max|min))$))"
)
_TENSORFLOW_KERAS_ALIASES = re.compile(r"^tensorflow\.(?=(?:optimizers|losses|metrics|initializers)(?:\.|$))")
# Modules of Keras 2 whose things `keras.layers` has.
_MODULES_OF_LAYERS = re.compile(
    r"^keras\.(?:layers\.(?:advanced_activations|attention|convolutional(?:_recurrent)?|core|cudnn_recurrent|embeddings"
    r"|local|merge|merging|noise|normalization|pooling|recurrent(?:_v2)?|regularization|reshaping|rnn|wrappers)"
    r"|engine\.(?:topology|base_layer|input_layer))\.(?:[a-z_]\w*\.)*(?=\w+$)"
    r"|^keras\.(?:models|engine)\.(?=(?:Input|InputLayer|InputSpec|Layer)$)"
)
# Functions, by names that look like those of classes.
_LOSSES_IN_CAPITALS = re.compile(r"^keras\.(?:losses|metrics|objectives)\.(?:MSE|MAE|MAPE|MSLE|KLD)$")


_ONLY_IN_V1 = re.compile(
    r"^tensorflow\.compat\.v1\.(?:train\.\w*Optimizer|Session|InteractiveSession|placeholder|disable_\w+|set_random_seed"
    r"|global_variables_initializer|get_variable|variable_scope)$|^tensorflow\.compat\.v1\.losses(?:\.|$)"
)


# Metrics, and what `compile` calls them: the mean of their results over parts of one size is that over the whole.
METRIC_CLASS = re.compile(r"^keras\.metrics\.[A-Z]\w*$")
# They give an object of the kind that they are given.
COPYING = frozenset({"copy.copy", "copy.deepcopy"})
_FROM_CONFIG = ".from_config"


def metric_from_config(path: str) -> str:
    """The class of Keras's metrics of which the function makes an object by its configuration; empty for others."""
    made = path[: -len(_FROM_CONFIG)] if path.endswith(_FROM_CONFIG) else ""
    return made if METRIC_CLASS.match(made) else ""


MEAN_METRICS = re.compile(
    r"(?i)^(?:Mean|MeanTensor|MeanRelativeError|\w*Accuracy|acc|\w*Crossentropy|MeanSquaredError|MSE|MAE|BCE"
    r"|MeanAbsoluteError|MeanAbsolutePercentageError|MeanSquaredLogarithmicError|CosineSimilarity|KLDivergence"
    r"|LogCosh(?:Error)?|Poisson|\w*Hinge)$"
)


_OF_WEIGHTS = re.compile(r"(?:_initializer|_constraint|(?<!activity)_regularizer)$")


def takes_weights(keyword: str) -> bool:
    """Whether what a layer gets by that keyword is called with its weights, and never sees a row of a batch."""
    return _OF_WEIGHTS.search(keyword) is not None


# Scripts use the same few hundred names again and again.
@lru_cache(maxsize=4096)
def canonical(path: str) -> str:
    """One name for each thing, whichever of its public spellings a script uses.

    `tf_keras`, `tensorflow.keras`, `tensorflow.python.keras` become `keras`; `tf.optimizers` `keras.optimizers`;
    `tensorflow.compat.v2`, and all of `compat.v1` that has not changed since, `tensorflow`; `keras.losses.MSE`
    `keras.losses.mse`; `keras.layers.convolutional.Conv2D` `keras.layers.Conv2D`;
    `tensorflow.python.ops.array_ops.reshape` `tensorflow.reshape`.
    """
    if path.startswith("tensorflow.compat.v2"):
        path = "tensorflow" + path[len("tensorflow.compat.v2") :]
    if path.startswith("tensorflow.compat.v1.") and not _ONLY_IN_V1.match(path):
        path = "tensorflow" + path[len("tensorflow.compat.v1") :]
    path = _MODULES_OF_OPS.sub("tensorflow.", path)
    path = _KERAS_ROOTS.sub("keras", path)
    path = _TENSORFLOW_KERAS_ALIASES.sub("keras.", path)
    path = _MODULES_OF_LAYERS.sub("keras.layers.", path)
    return path.lower() if _LOSSES_IN_CAPITALS.match(path) else path


# They run what a text of Python's says.
RUNNING_TEXT = frozenset({"builtins.eval", "builtins.exec"})
# They tell the sizes of an array along its axes.
SHAPES = frozenset({
    "tensorflow.shape", "numpy.shape", "keras.ops.shape", "keras.backend.shape", "keras.backend.int_shape",
})  # fmt: skip
# Iterators that show progress.
BARS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.tqdm_notebook", "tqdm.trange"})
# Calls that give back the function they are given, with another way to run it.
TRANSPARENT_WRAPPERS = frozenset({
    "tensorflow.function", "tensorflow.autograph.experimental.do_not_convert", "functools.wraps",
    "tensorflow.recompute_grad", "tensorflow.py_function", f"{RUNTIME}.on_whole_data", *BARS,
})  # fmt: skip

MODEL_CLASSES = frozenset({
    "keras.Model", "keras.models.Model", "keras.training.Model", "keras.engine.training.Model",
    "keras.Sequential", "keras.models.Sequential", "keras.Functional", "keras.models.Functional",
    "keras.experimental.LinearModel", "keras.experimental.WideDeepModel", "tensorflow.estimator.Estimator",
})  # fmt: skip
# Attributes of models, and of layers: their weights; what a model is made from and to.
WEIGHT_LISTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})
ENDS = frozenset({"input", "inputs", "output", "outputs"})
# What ends a program, and what draws from the generators that libraries have for all of one.
EXITS = frozenset({"sys.exit", "os._exit", "builtins.exit", "builtins.quit"})
DRAWS = ("numpy.random.", "tensorflow.random.", "random.", "keras.random.")
# What is the same whatever the weights are.
DESCRIPTIONS = frozenset({"shape", "dtype", "ndim", "name"})
SEQUENTIAL = frozenset({"keras.Sequential", "keras.models.Sequential"})
COPIES = frozenset({"keras.models.clone_model", "keras.models.clone_and_build_model"})
_MODEL_FUNCTIONS = frozenset({
    "keras.models.load_model", "keras.saving.load_model", "keras.models.clone_model", "keras.models.model_from_json",
    "keras.models.model_from_yaml", "keras.models.model_from_config", "keras.models.clone_and_build_model",
})  # fmt: skip
LOAD_MODEL = frozenset({"keras.models.load_model", "keras.saving.load_model"})


OF_A_PACKAGE = "keras.models.of_a_package"  # no name of Keras's: what a package makes that the script compiles


def is_model_class(path: str) -> bool:
    return path in MODEL_CLASSES


def is_layer_class(path: str) -> bool:
    return bool(re.match(r"^keras\.layers\.[A-Z]", path)) or path in ("keras.layers.Layer", "keras.Layer")


@lru_cache(maxsize=4096)
def makes_model(path: str) -> bool:
    """Keras's model classes, loaders and ready-made applications."""
    return (
        path in MODEL_CLASSES
        or path in _MODEL_FUNCTIONS
        or path == OF_A_PACKAGE
        or bool(re.match(r"^keras\.applications\.(?:\w+\.)?[A-Z]\w*$", path))
    )


def is_module_class(path: str) -> bool:
    return path == "tensorflow.Module"


def is_base_of_networks(path: str) -> bool:
    """Whether it is a base class whose objects run their methods where they are called themselves, or are trained."""
    is_known = makes_model(path) or is_model_class(path) or is_layer_class(path) or is_module_class(path)
    return is_known or path == "builtins.object"


@lru_cache(maxsize=4096)
def is_optimizer_class(path: str) -> bool:
    return bool(
        (
            re.match(r"^keras\.optimizers\.(?:legacy\.|experimental\.|schedules\.)?(?!schedules)[A-Z]\w*$", path)
            and ".schedules." not in path
        )
        or re.match(r"^tensorflow_addons\.optimizers\.[A-Z]\w*$", path)
        or re.match(r"^keras\.mixed_precision\.(?:experimental\.)?LossScaleOptimizer$", path)
        or is_v1_optimizer(path)
        or path in ("keras.optimizers.get", "keras.optimizers.deserialize")
    )


def is_v1_optimizer(path: str) -> bool:
    """TensorFlow 1's optimizers, which work eagerly, too."""
    return bool(re.match(r"^tensorflow\.(?:compat\.v1\.)?train\.\w*Optimizer$", path))


# Methods of a model that run it without training it.
INFERENCE = frozenset({"evaluate", "predict", "predict_on_batch", "test_on_batch"})
WRITING_CALLBACKS = frozenset({
    "keras.callbacks.ModelCheckpoint", "keras.callbacks.TensorBoard", "keras.callbacks.CSVLogger",
    "keras.callbacks.BackupAndRestore", "keras.callbacks.experimental.BackupAndRestore",
})  # fmt: skip


def is_dataset_source(path: str) -> bool:
    return path in DATASET_SOURCES or path in BATCHED_SOURCES


DATASET_SOURCES = frozenset({
    *(f"tensorflow.data.Dataset.{name}" for name in (
        "from_tensor_slices", "from_tensors", "range", "from_generator", "zip", "list_files", "random",
        "sample_from_datasets", "choose_from_datasets", "load")),
    "tensorflow.data.TFRecordDataset", "tensorflow.data.TextLineDataset", "tensorflow.data.FixedLengthRecordDataset",
    "tensorflow.data.experimental.CsvDataset", "tensorflow.data.experimental.RandomDataset",
    "tensorflow.data.experimental.SqlDataset", "tensorflow.data.experimental.load",
    "tensorflow.data.experimental.sample_from_datasets", "tensorflow_datasets.load",
})  # fmt: skip
# These hand out batches already.
BATCHED_SOURCES = frozenset({
    "keras.utils.image_dataset_from_directory", "keras.preprocessing.image_dataset_from_directory",
    "keras.utils.text_dataset_from_directory", "keras.preprocessing.text_dataset_from_directory",
    "keras.utils.timeseries_dataset_from_array", "keras.preprocessing.timeseries_dataset_from_array",
    "keras.preprocessing.sequence.timeseries_dataset_from_array",
    "keras.utils.audio_dataset_from_directory", "tensorflow.data.experimental.make_csv_dataset",
    "tensorflow.data.experimental.make_batched_features_dataset",
})  # fmt: skip

# Methods by which a model trains, or gets other weights.
TRAINING_METHODS = frozenset({
    "fit", "fit_generator", "train_on_batch", "train_step", "apply_gradients", "apply", "minimize", "set_weights",
    "load_weights", "restore",
})  # fmt: skip
# Methods by which a program sets a tf.Variable, or rows of it.
SETTING_VARIABLES = frozenset({
    "_direct_assign", "assign", "assign_add", "assign_sub", "batch_scatter_update", "scatter_add", "scatter_div",
    "scatter_max",
    "scatter_min", "scatter_mul", "scatter_nd_add", "scatter_nd_max", "scatter_nd_min", "scatter_nd_sub",
    "scatter_nd_update", "scatter_sub", "scatter_update",
})  # fmt: skip
# Functions that set the variables which they are given first.
SETTING_FUNCTIONS = re.compile(
    r"^keras\.backend\.(?:update|update_add|update_sub|moving_average_update|set_value|batch_set_value)$"
    r"|^tensorflow\.(?:assign\w*|scatter_(?:nd_)?(?:add|sub|update|mul|div|min|max))$"
    r"|^tensorflow\.python\..*\b(?:assign\w*|scatter_\w+)$"
)
# Ops that change what a handle stands for: variables, and what holds values to be taken out again.
RAW_CHANGES = re.compile(
    r"^tensorflow\.raw_ops\.(?:Resource(?!Gather)|Apply|SparseApply|Assign|Scatter(?!Nd$|NdNonAliasingAdd$)|StridedSliceAssign"
    r"|LookupTable(?:Insert|Import|Remove)|Queue|Stack|Barrier|(?:Sparse)?Accumulator|(?:OrderedMap|Map)?Stage|DestroyResource)"
    r"|^tensorflow\.python\.ops\.gen_\w+\.(?:resource_(?!gather)|apply_|sparse_apply_|assign|scatter_(?!nd$))"
)
# Attributes of metrics that tell nothing of what these have counted, or by methods that are followed.
CALM_OF_METRICS = frozenset({
    "name", "dtype", "variable_dtype", "compute_dtype", "built", "trainable", "stateful", "result", "update_state",
    "reset_state", "reset_states", "get_config", "from_config", "add_variable", "add_weight", "__class__", "__init__",
    "__call__", "__name__", "num_classes", "thresholds", "threshold", "fn",
})  # fmt: skip
# One element in, one element out, whatever the order: a shard may stand before or after them.
ELEMENTWISE = frozenset({"map", "with_options", "prefetch"})
ORDERING = frozenset({"shuffle", "repeat", "cache", "snapshot"})
BATCHING = frozenset({
    "batch", "padded_batch", "ragged_batch", "sparse_batch", "bucket_by_sequence_length", "map_and_batch",
    "dense_to_ragged_batch", "dense_to_sparse_batch",
})  # fmt: skip
DATASET_METHODS = frozenset({
    *ELEMENTWISE, *ORDERING, *BATCHING, "enumerate", "take", "skip", "filter", "interleave", "flat_map", "concatenate",
    "unbatch", "window", "apply", "shard", "zip", "take_while", "scan", "rebatch", "unique", "rejection_resample",
    "bucket_by_sequence_length", "group_by_window", "ignore_errors", "prefetch_to_device", "as_numpy_iterator",
})  # fmt: skip

NUMPY = ("numpy.", "jax.numpy.")

STRATEGIES = re.compile(
    r"^tensorflow\.distribute\.(?:experimental\.)?(?!OneDevice)\w*(?:Strategy|Coordinator|Cluster\w*Resolver)$"
)
# What trains on one device all the same; the current strategy is the default one where no other is made.
ONE_DEVICE = re.compile(r"^tensorflow\.distribute\.(?:(?:experimental\.)?OneDeviceStrategy|get_strategy)$")
# Methods of a strategy that call the function they are given, and those that give out a dataset.
RUNS_STEP = ("run", "experimental_run_v2", "call_for_each_replica")
DISTRIBUTES_FROM_FUNCTION = ("distribute_datasets_from_function", "experimental_distribute_datasets_from_function")
DISTRIBUTES_DATASET = ("experimental_distribute_dataset",)
# Settings that TensorFlow takes only before it starts up, as joining a cluster makes it do.
DEVICE_SETTINGS = re.compile(
    r"^tensorflow\.config\.(?:threading\.set_\w+|(?:experimental\.)?set_(?:memory_growth|visible_devices"
    r"|virtual_device_configuration|logical_device_configuration)|optimizer\.set_jit)$"
)
# Those of them that the runtime makes by itself on several workers: each gets a GPU of its own, whose memory may grow,
# and its share of the cores.
SETS_THREADS = re.compile(r"^tensorflow\.config\.threading\.set_\w+$")
SETS_MEMORY_GROWTH = re.compile(r"^tensorflow\.config\.(?:experimental\.)?set_memory_growth$")
SETS_VISIBLE_DEVICES = re.compile(r"^tensorflow\.config\.(?:experimental\.)?set_visible_devices$")
LISTS_DEVICES = re.compile(r"^tensorflow\.config\.(?:experimental\.)?(?:list_physical|get_visible)_devices$")
FRAMEWORK = re.compile(r"^(?:tensorflow|keras|tensorflow_datasets)\.")
# Functions that compare two values, or make sure of how these compare.
COMPARING = re.compile(
    r"^(?:tensorflow|numpy|keras\.ops|operator)\.(?:(?:math\.)?(?:equal|not_equal|less|less_equal|greater|greater_equal|"
    r"eq|ne|lt|le|gt|ge)|debugging\.assert_(?:equal|less|less_equal|greater|greater_equal))$"
)
# What makes generators of random numbers that a seed fixes, with the library whose functions draw as their methods do.
GENERATORS = {
    "numpy.random.RandomState": "numpy.random",
    "numpy.random.default_rng": "numpy.random",
    "numpy.random.Generator": "numpy.random",
    "tensorflow.random.Generator.from_seed": "tensorflow.random",
    "tensorflow.random.Generator": "tensorflow.random",
}
# What NumPy's generators are made of: without a seed, it draws from the system.
BIT_GENERATORS = frozenset({
    "numpy.random.SeedSequence", "numpy.random.PCG64", "numpy.random.PCG64DXSM", "numpy.random.MT19937",
    "numpy.random.Philox", "numpy.random.SFC64",
})  # fmt: skip
NUMPY_GENERATORS = frozenset(path for path, library in GENERATORS.items() if library == "numpy.random")
# Calls that leave TensorFlow as it was started: before and after the workers join, they are the same.
MAKES_NO_TENSOR = re.compile(
    r"^(?:tensorflow\.(?:config|random\.set_seed|set_random_seed|get_logger|function|autograph|debugging|enable_\w+"
    r"|io\.gfile|TensorSpec|TensorShape|distribute)|keras\.(?:utils\.set_random_seed|mixed_precision|config"
    r"|backend\.set_\w+|losses\.[A-Z]\w*|utils\.(?:get_file|register_keras_serializable)|saving\.\w+))(?:\.|$)"
)
GRAPH_MODE = frozenset({
    "tensorflow.compat.v1.disable_eager_execution", "tensorflow.compat.v1.disable_v2_behavior",
    "tensorflow.compat.v1.Session", "tensorflow.Session", "tensorflow.placeholder", "tensorflow.compat.v1.placeholder",
    "tensorflow.disable_v2_behavior", "tensorflow.disable_eager_execution",
})  # fmt: skip
