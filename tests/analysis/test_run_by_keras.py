"""What the code of Keras's layers asks `self` for is known: what rows of a batch meet, and what they do not."""

from __future__ import annotations

import inspect

import pytest

from migrator.facts.names import run_by_keras

# Weights, shapes, settings, noise, checks, and what is followed (`adapt`, `get_initial_state`).
_MEETS_NO_ROWS = frozenset({
    "_AUGMENT_LAYERS", "_FACTOR_BOUNDS", "_FACTOR_VALIDATION_ERROR", "_MAX_FACTOR", "_SUPPORTED_FILL_MODE",
    "_SUPPORTED_FILL_MODES", "_SUPPORTED_INTERPOLATION", "_USE_BASE_FACTOR", "_USE_V2_BEHAVIOR",
    "_VALUE_RANGE_VALIDATION_ERROR", "_abc_impl", "_adapt_maybe_build", "_add_existing_weight",
    "_adjust_scale_for_dequant", "_adjust_scale_for_quant", "_adjust_shapes", "_api_export_path",
    "_api_export_symbol_id", "_awq_build", "_can_attempt_fused_gru", "_can_attempt_fused_lstm",
    "_check_at_least_two_inputs", "_check_factor_range", "_check_input_shape_and_type", "_check_load_own_variables",
    "_check_variables", "_compute_affine_matrix", "_compute_causal_padding", "_compute_crop_bounds",
    "_compute_elemwise_op_output_shape", "_configure_steps_per_execution", "_convert_to_ndarray",
    "_create_broadcast_shape", "_create_dropout_mask", "_create_non_trackable_mask_cache",
    "_create_recurrent_dropout_mask", "_create_state_variables", "_create_variables", "_ensure_known_vocab_size",
    "_ensure_vocab_size_unchanged", "_fix_unknown_dimension", "_float8_build", "_format_single_input_bounding_box",
    "_format_single_output_bounding_box", "_fused_can_be_used", "_generate_batch_mask", "_generate_mix_weight",
    "_get_call_rng", "_get_call_seed", "_get_channel_axis", "_get_child_input_shape",
    "_get_common_kwargs_for_sublayer", "_get_concrete_noise_shape", "_get_embeddings_with_merged_lora",
    "_get_fill_value", "_get_init_rng", "_get_init_seed", "_get_input_channel", "_get_jax2tf_input_shape",
    "_get_kernel_scale_shape", "_get_kernel_with_merged_lora", "_get_noise_shape", "_get_padding_op",
    "_get_reshaped_weights", "_get_seed_generator", "_get_shape_tuple", "_get_shear_matrix", "_get_training_value",
    "_get_transformed_coordinates", "_get_translation_matrix", "_get_zoom_matrix", "_gptq_build",
    "_initialize_weights", "_int4_build", "_int8_build", "_is_batched", "_is_feature_layer", "_jax2tf_convert",
    "_lookup_table_from_file", "_lookup_table_from_tokens", "_maybe_config_dropout_masks",
    "_maybe_reset_cell_dropout_mask", "_maybe_reset_dropout_masks", "_num_tokens", "_oov_start_index",
    "_output_shape", "_param_dtype", "_params_and_state_to_variables", "_parse_function_from_config",
    "_partial_with_positional", "_quantization_mode_error", "_raise_for_lambda_deserialization",
    "_raise_if_fused_cannot_be_used", "_record_vocabulary_size", "_recreate_conv_op", "_recreate_layer_from_config",
    "_reset_state_wrapper", "_sample_from_dirichlet", "_serialize_function_to_config", "_set_factor",
    "_set_factor_by_name", "_set_factor_with_name", "_set_kernel_size", "_set_quantization_info",
    "_set_value_range", "_shear_bboxes", "_spatial_output_shape", "_support_zero_size_input", "_target_shape",
    "_tensor_vocab_to_numpy", "_tf_docs_do_not_document", "_token_start_index", "_track_module_parameters",
    "_transform_boxes_crop_to_aspect_ratio", "_transform_boxes_pad_to_aspect_ratio", "_transform_boxes_stretch",
    "_transform_xyxy", "_uninitialized_lookup_table", "_unwrap_value_range", "_update_kernel_initializer",
    "_update_weights", "_validate_args_if_ragged", "_validate_call_args", "_validate_init", "_validate_inputs",
    "_validate_noise_shape", "_validate_reduction_axis", "_validate_signature", "_validate_state_spec",
    "_variables_to_params_and_state", "_verify_layer_config", "_warn", "adapt", "attention_axes", "batch_shape",
    "bias_constraint", "bias_initializer", "bias_regularizer", "compile", "compute_output_spec", "constraints",
    "convert_weight", "dilation_rate", "dropout", "embeddings", "enable_lora", "filters", "finalize_state",
    "get_clipped_bbox",
    "get_elastic_transform_params", "get_initial_state", "get_random_transformation", "get_shifted_bbox",
    "get_transformed_x_y", "get_vocabulary", "implementation", "input_dtype", "is_adapted", "kernel",
    "kernel_constraint", "kernel_initializer", "kernel_regularizer", "kernel_size", "key_dim", "layers",
    "linear_to_mel_weight_matrix", "load_assets", "make_adapt_function", "normalize_weights", "normalized_weights",
    "num_heads", "output_dtype", "output_size", "padding", "parameters", "quantize", "quantized_build",
    "recurrent_constraint", "recurrent_dropout", "recurrent_initializer", "recurrent_regularizer", "reset_after",
    "reset_dropout_mask", "reset_recurrent_dropout_mask", "reset_state", "reset_states", "save_assets",
    "set_vocabulary", "state_size", "states", "strides", "unit_forget_bias", "units", "update_state", "use_bias",
    "value_dim", "variable_serialization_spec", "vocab_size", "vocabulary_size",
})  # fmt: skip


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_every_method_of_a_layer_is_one_or_the_other(library: str) -> None:
    layers = pytest.importorskip(library).layers
    bases = set(layers.Layer.__mro__)
    found: set[str] = set()
    for cls in vars(layers).values():
        for each in cls.__mro__ if inspect.isclass(cls) and issubclass(cls, layers.Layer) else ():
            if each not in bases and each.__module__.partition(".")[0] == library:
                found.update(name for name in vars(each) if not name.startswith("__"))
    found -= {name for base in bases for name in vars(base)}
    assert not found - _MEETS_NO_ROWS - run_by_keras.INSIDE_CALLS - run_by_keras.SETTINGS
    assert not _MEETS_NO_ROWS & run_by_keras.INSIDE_CALLS
