"""Which functions of TensorFlow, Keras and NumPy keep samples apart, and along which axis the others work.

A closed table: what is not in it may do anything with the samples of a batch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def _words(text: str) -> list[str]:
    return text.split()


_LIBRARY = re.compile(
    r"^(?:(?P<tensorflow>tensorflow(?:\.(?:math|nn|linalg|signal|image|random|bitwise|strings|sets|ragged|sparse))*)"
    r"|(?P<keras>keras\.(?:ops|backend|activations)(?:\.(?:nn|numpy|math|image|linalg))?)"
    r"|(?P<numpy>numpy|jax\.numpy|tensorflow\.experimental\.numpy|math))\.(?P<name>\w+)$"
)

# Each value of the result is made of the values at the same place, or of the same sample alone.
_APART = frozenset(_words("""
abs absolute acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh
bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc bitwise_and bitwise_or bitwise_xor ceil celu clip clip_by_value
complex conj conjugate cos cosh deg2rad digamma divide divide_no_nan elu equal erf erfc erfcinv erfinv exp exp2 expm1
exponential fabs floor floor_divide floordiv floormod fmod gelu greater greater_equal hard_shrink hard_sigmoid
hard_silu hard_swish hard_tanh heaviside hypot igamma igammac imag invert_permutation is_finite is_inf is_nan isclose
isfinite isinf isnan leaky_relu less less_equal lgamma linear log log10 log1p log2 log_poisson_loss log_sigmoid
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit maximum minimum mish mod multiply
multiply_no_nan nan_to_num ndtri negative nextafter not_equal polygamma pow power rad2deg real real_if_close reciprocal
reciprocal_no_nan relu relu6 remainder rint round rsqrt saturate_cast selu sigmoid sigmoid_cross_entropy_with_logits
sign silu sin sinc sinh soft_shrink softplus softsign sparse_plus sparse_sigmoid sqrt square squared_difference
squareplus swish tan tanh tanh_shrink threshold to_float true_divide truediv trunc truncatediv truncatemod
weighted_cross_entropy_with_logits where xdivy xlog1py xlogy zeta ensure_shape print binary_crossentropy
identity_n grad_pass_through full_like bias_add dropout stateless_dropout alpha_dropout
sparse_softmax_cross_entropy_with_logits in_top_k embedding_lookup log_loss
conv conv1d conv2d conv3d conv_transpose conv1d_transpose conv2d_transpose conv3d_transpose convolution depthwise_conv
depthwise_conv2d separable_conv separable_conv2d atrous_conv2d max_pool max_pool1d max_pool2d max_pool3d avg_pool
avg_pool1d avg_pool2d avg_pool3d average_pool pool pool2d pool3d lrn local_response_normalization depth_to_space
space_to_depth resize resize_nearest_neighbor resize_bilinear total_variation ssim ssim_multiscale psnr
flip_left_right flip_up_down central_crop rgb_to_grayscale grayscale_to_rgb per_image_standardization adjust_brightness
adjust_contrast adjust_hue adjust_saturation convert_image_dtype sobel_edges extract_patches resize_with_pad
rgb_to_hsv hsv_to_rgb rgb_to_yuv yuv_to_rgb
rfft irfft fft ifft rfft2 stft inverse_stft hann_window frame overlap_and_add
map_fn vectorized_map as_string sequence_mask concat concatenate repeat pad astype array asarray float32 float64 int32
int64 flatten batch_flatten repeat_elements is_tensor ctc_batch_cost
"""))  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """The axis that a function works along: its argument's position (None: by name only), and the one by default
    (None: all of them)."""

    position: int | None
    default: int | None


_ALL = Axis(1, None)
_ALONG = {
    **dict.fromkeys(
        _words("""
        reduce_max reduce_min reduce_prod reduce_std reduce_variance reduce_logsumexp reduce_euclidean_norm reduce_any
        reduce_all count_nonzero moments weighted_moments l2_normalize reverse max min amax amin std var prod any all
        median average logsumexp ptp nanmean nansum nanmax nanmin nanstd nanvar flip
        """),
        _ALL,
    ),
    **dict.fromkeys(_words("softmax log_softmax sort argsort sparsemax glu crelu"), Axis(1, -1)),
    **dict.fromkeys(_words("quantile percentile norm roll take boolean_mask take_along_axis"), Axis(2, None)),
    **dict.fromkeys(_words("split unstack"), Axis(2, 0)),
    "one_hot": Axis(4, -1),
    "diff": Axis(2, -1),
    "softmax_cross_entropy_with_logits": Axis(2, -1),
    "categorical_crossentropy": Axis(3, -1),
    "sparse_categorical_crossentropy": Axis(3, -1),
    "gather": Axis(3, 0),
    **dict.fromkeys(
        _words("""
        gather_nd top_k dynamic_partition unique unique_with_counts segment_sum segment_mean segment_max segment_min
        unsorted_segment_sum unsorted_segment_mean unsorted_segment_max unsorted_segment_min shuffle
        """),
        Axis(None, None),
    ),
}  # fmt: skip
_ALONG_IN = {
    **{("tensorflow", name): Axis(1, 0) for name in ("argmax", "argmin", "cumsum", "cumprod", "cumulative_logsumexp")},
    **{(lib, name): _ALL for lib in ("keras", "numpy") for name in ("argmax", "argmin", "cumsum", "cumprod")},
    ("tensorflow", "normalize"): Axis(2, None),
    ("keras", "normalize"): Axis(1, -1),
    ("keras", "one_hot"): Axis(2, -1),
}


def _parts(path: str) -> tuple[str, str]:
    found = _LIBRARY.match(path)
    if found is None:
        return "", ""
    library = next(name for name in ("tensorflow", "keras", "numpy") if found[name])
    return library, found["name"]


def keeps_apart(path: str) -> bool:
    """Whether the function of this dotted name never mixes what is at different places of the first axis."""
    return _parts(path)[1] in _APART


def axis_of(path: str) -> Axis | None:
    """The axis along which the function picks, orders or compares; None where it does not, or is not known."""
    library, name = _parts(path)
    return _ALONG_IN.get((library, name)) or _ALONG.get(name)
