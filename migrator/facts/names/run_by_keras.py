"""What Keras runs or reads of its own objects while it trains, and what a program may put in the place of.

The names are those that Keras 3 and tf_keras ask `self` for: of Keras 3 (keras/src) trainers/trainer.py,
backend/tensorflow/trainer.py, layers/layer.py and layers/*/, losses/loss.py, losses/losses.py, metrics/metric.py,
metrics/reduction_metrics.py, optimizers/base_optimizer.py; of tf_keras (tf_keras/src) engine/training.py,
engine/functional.py, engine/base_layer.py, layers/*/, losses.py, metrics/base_metric.py, optimizers/optimizer.py,
optimizers/legacy/optimizer_v2.py. Not among them is what never meets a batch (`trainable`, `kernel_regularizer`,
`learning_rate`), and `call` of layers, models and losses, which the analysis follows.
"""

from __future__ import annotations

from migrator.facts.names import api

# Methods and functions by which `fit` and `train_on_batch` train, and run a model on other data.
STEPS = frozenset({
    "train_step", "make_train_function", "train_function", "train_tf_function", "compute_loss", "compiled_loss",
    "_compile_loss", "compute_metrics", "compiled_metrics", "_compile_metrics", "test_step", "make_test_function",
    "test_function", "predict_step", "make_predict_function", "predict_function", "fit", "train_on_batch", "compile",
    "evaluate", "predict",
})  # fmt: skip
# What `compile` was told, in the objects that Keras keeps it in (compile_utils.py of both).
_COMPILED = frozenset({
    "_user_loss", "_user_losses", "_user_loss_weights", "_flat_losses", "_user_metrics", "_user_weighted_metrics",
})  # fmt: skip
OPTIMIZER = "optimizer"
# What a model reads whoever calls it.
IN_CALLS = frozenset({"outputs", "output", "compute_mask"})
# Functions that a layer puts its rows through.
OF_ROWS = frozenset({"activation", "recurrent_activation", "function"})
OF_OUTPUTS = "activity_regularizer"
_OF_LAYERS = frozenset({
    *OF_ROWS, OF_OUTPUTS, "layer", "cell", "forward_layer", "backward_layer", "axis", "axes", "dims", "target_shape",
    "data_format", "merge_mode", "compute_mask",
})  # fmt: skip
_OF_LOSSES = frozenset({"fn", "_fn", "_fn_kwargs", "reduction"})
_OF_METRICS = frozenset({"update_state", "result", "reset_state", "reset_states", "merge_state", "fn", "_fn"})
_OF_OPTIMIZERS = frozenset({
    "apply_gradients", "apply", "minimize", "compute_gradients", "_compute_gradients", "get_gradients", "update_step",
    "_internal_apply_gradients", "_backend_apply_gradients", "_backend_update_step", "_clip_gradients", "scale_loss",
    "_resource_apply_dense", "_resource_apply_sparse", "aggregate_gradients", "gradient_transformers",
    "gradient_aggregator", "_transform_gradients", "_transform_unaggregated_gradients", "_aggregate_gradients",
})  # fmt: skip
# What the base classes do not read: classes of the program's that come from these have attributes of their own so.
_BASES = frozenset({"keras.layers.Layer", "keras.Layer", "keras.losses.Loss", "keras.metrics.Metric"})
_OF_HEIRS = (_OF_LAYERS - {OF_OUTPUTS, "compute_mask"}) | {"fn", "_fn", "_fn_kwargs"}
# What Python asks the class for.
_OF_CLASSES = frozenset({"__call__"})

MODEL, LAYER, LOSS, METRIC, OPTIMIZERS = "model", "layer", "loss", "metric", "optimizer"
NAMES = {
    MODEL: STEPS | _COMPILED | IN_CALLS | {OPTIMIZER, OF_OUTPUTS},
    LAYER: _OF_LAYERS,
    LOSS: _OF_LOSSES,
    METRIC: _OF_METRICS,
    OPTIMIZERS: _OF_OPTIMIZERS,
}
ALL = frozenset().union(*NAMES.values()) | _OF_CLASSES | {"call"}
# Those that no other library's objects are likely to have.
TELLING = _COMPILED | frozenset({
    "train_step", "make_train_function", "train_function", "compute_loss", "compiled_loss", OF_OUTPUTS,
    "activation", "recurrent_activation", OPTIMIZER,
})  # fmt: skip


def kind_of(path: str) -> str:
    """What a class of Keras's makes; empty for what is not among these."""
    if api.makes_model(path) or api.is_model_class(path):
        return MODEL
    if api.is_optimizer_class(path):
        return OPTIMIZERS
    if api.METRIC_CLASS.match(path):
        return METRIC
    if path.startswith("keras.losses.") and path.rpartition(".")[2][:1].isupper():
        return LOSS
    return LAYER if api.is_layer_class(path) else ""


def runs(kind: str, name: str, path: str, *, of_class: bool = False) -> bool:
    """Whether Keras runs or reads what an object of that class has under the name, and the analysis does not."""
    if path in _BASES and name in _OF_HEIRS:
        return False
    if name == "call":  # of one layer or loss that is of a class of its own, see Objects.own_call
        return of_class and (kind not in (LAYER, LOSS) or path in _BASES)
    return name in NAMES[kind] or (of_class and name in _OF_CLASSES)
