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
# What the code of layers that have some asks `self` for, and puts rows of a batch through, or reads how to treat them.
# Not among it is what only weights, shapes and settings meet, or noise.
INSIDE_CALLS = frozenset({
    "_apply_conv", "_apply_equalization", "_apply_merge_op_and_or_mask", "_apply_normalization", "_apply_scores",
    "_apply_standardize_with_np_arrays", "_assign_moving_average", "_assign_new_value", "_awq_call",
    "_brightness_adjust", "_adjust_contrast", "_build_attention", "_build_from_signature", "_calculate_mean_and_var",
    "_calculate_score_mask", "_calculate_scores", "_call_fused_gru", "_call_fused_lstm", "_clahe",
    "_compose_transforms", "_compute_attention", "_compute_attention_mask", "_compute_carry_and_output",
    "_compute_carry_and_output_fused", "_compute_causal_mask", "_compute_sliding_window_mask",
    "_custom_histogram_fixed_width", "_dbscale", "_defun_gru_call", "_dtensor_calculate_mean_and_var",
    "_dtensor_no_sync_calculate_mean_and_var", "_dtensor_sync_calculate_mean_and_var", "_encode", "_equalize_channel",
    "_expand_dims", "_find_repeated_tokens", "_flip_inputs", "_float8_call", "_fused_batch_norm", "_gptq_call",
    "_hash_values_to_bins", "_hertz_to_mel", "_int4_call", "_int8_call", "_inverse_document_frequency",
    "_jit_compiled_convolution_op", "_lookup_dense", "_make_output_dense", "_masked_softmax", "_melscale",
    "_merge_function", "_moments", "_no_sync_calculate_mean_and_var", "_preprocess", "_process_dense_tensor",
    "_process_inputs", "_remove_timesteps", "_renorm_correction_and_moments", "_reshape_into_groups",
    "_resize_images", "_resize_volumes", "_scale_values", "_spectrogram", "_standardize_inputs",
    "_sync_calculate_mean_and_var", "_transform_images", "_transform_value_range", "_translate_inputs",
    "_update_renorm_statistics", "_verify_and_concat_tensors", "_zoom_inputs", "convolution_op", "get_dropout_mask",
    "get_dropout_mask_for_cell", "get_recurrent_dropout_mask", "get_recurrent_dropout_mask_for_cell", "inner_loop",
    "key_dense", "output_dense", "quantized_call", "query_dense", "transform_bounding_boxes", "transform_images",
    "transform_labels", "transform_segmentation_masks", "transform_single_bounding_box", "transform_single_image",
    "transform_single_label", "transform_single_segmentation_mask", "value_dense",
})  # fmt: skip
# With what Keras calls some of them: rows, rows of sequences, weights, a mask or none, as many inputs as the layer has.
ROWS, SEQUENCES, WEIGHTS, MASK, INPUTS = "rows", "sequences", "weights", "mask", "inputs"
GIVEN_INSIDE = {
    "_apply_scores": (SEQUENCES, SEQUENCES, MASK),
    "_calculate_scores": (SEQUENCES, SEQUENCES),
    "_compute_attention": (ROWS, ROWS, ROWS, MASK),
    "_masked_softmax": (ROWS, MASK),
    "_merge_function": (INPUTS,),
    "convolution_op": (ROWS, WEIGHTS),
}
# What layers keep of what they are told.
SETTINGS = frozenset({
    *OF_ROWS, "layer", "cell", "forward_layer", "backward_layer", "axis", "axes", "dims", "target_shape",
    "data_format", "merge_mode",
})  # fmt: skip
_OF_LAYERS = SETTINGS | INSIDE_CALLS | {OF_OUTPUTS, "compute_mask"}
_OF_LOSSES = frozenset({"fn", "_fn", "_fn_kwargs", "reduction"})
_OF_METRICS = frozenset({"update_state", "result", "reset_state", "reset_states", "merge_state", "fn", "_fn"})
_OF_OPTIMIZERS = frozenset({
    "apply_gradients", "apply", "minimize", "compute_gradients", "_compute_gradients", "get_gradients", "update_step",
    "_internal_apply_gradients", "_backend_apply_gradients", "_backend_update_step", "_clip_gradients", "scale_loss",
    "_resource_apply_dense", "_resource_apply_sparse", "aggregate_gradients", "gradient_transformers",
    "gradient_aggregator", "_transform_gradients", "_transform_unaggregated_gradients", "_aggregate_gradients",
})  # fmt: skip
# Of these, what comes before the gradients of the workers are put together, in `apply` and `apply_gradients`.
BEFORE_UPDATES = frozenset({
    "compute_gradients", "_compute_gradients", "_get_gradients", "_transform_loss", "scale_loss", "get_scaled_loss",
    "get_unscaled_gradients",
})  # fmt: skip
# What the base classes do not read: classes of the program's that come from these have attributes of their own so.
_BASES = frozenset({"keras.layers.Layer", "keras.Layer", "keras.losses.Loss", "keras.metrics.Metric"})
_OF_HEIRS = (_OF_LAYERS - {OF_OUTPUTS, "compute_mask"}) | {"fn", "_fn", "_fn_kwargs"}
# What Python asks the class for.
_OF_CLASSES = frozenset({"__call__"})

# What takes gradients, of which the updates are followed; and what is taken to leave a function as it is.
_TAPE = "tensorflow.GradientTape"
_OF_TAPES = frozenset({
    "gradient", "jacobian", "batch_jacobian", "watch", "stop_recording", "reset", "__init__", "__enter__", "__exit__",
    "__new__", "_push_tape", "_pop_tape", "_tape",
})  # fmt: skip
_OF_MODULES = {path.rpartition(".")[2]: path for path in (*sorted(api.TRANSPARENT_WRAPPERS), _TAPE)}

MODEL, LAYER, LOSS, METRIC, OPTIMIZERS = "model", "layer", "loss", "metric", "optimizer"
TAPE, FUNCTION = "tape", "function"  # TensorFlow's own
REPLACED = "replaced"  # functions and methods of the program's own, from outside
NAMES = {
    MODEL: STEPS | _COMPILED | IN_CALLS | {OPTIMIZER, OF_OUTPUTS},
    LAYER: _OF_LAYERS,
    LOSS: _OF_LOSSES,
    METRIC: _OF_METRICS,
    OPTIMIZERS: _OF_OPTIMIZERS,
    TAPE: _OF_TAPES,
}
# Names that are told of those that are TensorFlow's own alone, and not of what any object of Keras's has.
OF_TENSORFLOW = (_OF_TAPES | _OF_MODULES.keys()).difference(*(NAMES[k] for k in NAMES if k != TAPE))
ALL = frozenset().union(*NAMES.values()) | _OF_CLASSES | _OF_MODULES.keys() | {"call"}
# Those that no other library's objects are likely to have.
TELLING = _COMPILED | frozenset({
    "train_step", "make_train_function", "train_function", "compute_loss", "compiled_loss", OF_OUTPUTS,
    "activation", "recurrent_activation", OPTIMIZER,
})  # fmt: skip


def kind_replaced(path: str) -> str:
    """What it is that the program puts another thing in the place of; empty for what is followed."""
    if _OF_MODULES.get(path.rpartition(".")[2]) != path:
        return ""
    return TAPE if path == _TAPE else FUNCTION


def kind_of(path: str) -> str:
    """What a class of Keras's makes, or TensorFlow's of tapes; empty for what is not among these."""
    if path == _TAPE:
        return TAPE
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
