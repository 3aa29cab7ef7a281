"""Keras in the format of `rows.py`: `keras.ops`, the older `keras.backend`, losses, layers, of both generations."""

OPS = """
sign (x): sign
elementwise (x): abs absolute angle bitwise_invert bitwise_not fabs arccos arccosh arcsin arcsinh arctan arctanh cbrt
    ceil cos cosh deg2rad exp exp2 expm1 erf erfc erfinv floor log log10 log1p log2 rad2deg reciprocal
    round(x,decimals) rsqrt signbit sin sinh sqrt square tan tanh trunc sigmoid relu relu6 silu swish softplus
    softsign selu elu(x,alpha) celu(x,alpha) gelu(x,approximate) leaky_relu hard_sigmoid hard_silu hard_swish
    hard_tanh log_sigmoid squareplus(x,b) sparse_plus sparse_sigmoid tanh_shrink hard_shrink(x,threshold)
    soft_shrink(x,threshold) threshold(x,threshold,default_value) nan_to_num(x,nan,posinf,neginf)
    saturate_cast(x,dtype) digitize(x,bins)
mask (x): isfinite isinf isnan logical_not
elementwise-2 (x1,x2): arctan2 fmax fmin fmod heaviside hypot logaddexp logaddexp2 maximum minimum mod
    bitwise_and(x,y) bitwise_or(x,y) bitwise_xor(x,y)
mask-2 (x1,x2): equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor
    isclose(x1,x2,rtol,atol,equal_nan)
linear (x): negative conj conjugate real imag
sum (x1,x2): add subtract
product (x1,x2): multiply
quotient (x1,x2): divide true_divide divide_no_nan
floor-division (x1,x2): floor_divide
power (x1,x2): power
elementwise-3 (x,x_min,x_max): clip
select (condition,x1,x2): where
cast (x,dtype): cast
stacked (x,dtype): array convert_to_tensor convert_to_numpy(x) copy(x) stop_gradient(variable)
reduces-mean (x,axis,keepdims): mean
average (x,axis,weights): average
reduces-sum (x,axis,keepdims): sum
counts (x,axis): count_nonzero
reduces (x,axis,keepdims): all any amax amin argmax argmin logsumexp max median min prod std var ptp
    norm(x,ord,axis,keepdims)
moments (x,axes,keepdims): moments
along (x,axis): softmax log_softmax sort argsort glu sparsemax normalize(x,axis,order,epsilon)
    layer_normalization(x,gamma,beta,axis,epsilon) rms_normalization(x,scale,axis,epsilon)
cumulates-flat-linear (x,axis): cumsum
cumulates-flat (x,axis): cumprod
moves-along (x,axis): flip roll(x,shift,axis)
top-k (x,k,sorted): top_k
matrix-or-vector-product (x1,x2): matmul
dot (x1,x2): dot
inner (x1,x2): inner
outer (x1,x2): outer
tensordot (x1,x2,axes): tensordot
einsum (*): einsum
last 2->2 (x): cholesky inv
last 2->0 (x): det
last 2->2 linear (x,k): tril triu
last 2,2->2 (a,b): solve
last 1->2 (x,sequence_length,sequence_stride): extract_sequences
transpose (x,axes): transpose
swap (x,axis1,axis2): swapaxes
move (x,source,destination): moveaxis
expand (x,axis): expand_dims
squeeze (x,axis): squeeze
reshape (x,newshape): reshape
flatten (x): ravel
joins (xs,axis): concatenate
stacks (x,axis): stack
splits-at (x,indices_or_sections,axis): split
unstacks (x,num,axis): unstack
tile-broadcast (x,repeats): tile
repeat (x,repeats,axis): repeat
pad (x,pad_width,mode,constant_values): pad
take (x,indices,axis): take
take-along (x,indices,axis): take_along_axis
getitem (x,key): get_item
one-hot (x,num_classes,axis,dtype): one_hot
broadcast (x,shape): broadcast_to
transforms-last (a,n,axis): diff
like (x,dtype): zeros_like ones_like full_like(x,fill_value,dtype) empty_like
makes (shape,dtype): zeros ones full(shape,fill_value,dtype) empty
shape (x): shape
size (x): size
rank (x): ndim
constant (x): dtype is_tensor
table-of-segments (data,segment_ids,num_segments,sorted): segment_sum
elementwise-2 (target,output,from_logits): binary_crossentropy
loss-classes (target,output,from_logits,axis): categorical_crossentropy
loss-sparse (target,output,from_logits,axis): sparse_categorical_crossentropy
per-sample (inputs,kernel,strides,padding,data_format,dilation_rate): conv depthwise_conv
    average_pool(inputs,pool_size,strides,padding,data_format) max_pool(inputs,pool_size,strides,padding,data_format)
per-sample-3 (query,key,value): dot_product_attention
per-sample-4 (target,output,target_length,output_length,mask_index): ctc_loss
"""

BACKEND = """
sign (x): sign
elementwise (x): abs exp log sqrt square sigmoid tanh relu elu softplus softsign hard_sigmoid round sin cos
elementwise-3 (x,min_value,max_value): clip
elementwise-2 (x,y): maximum minimum
mask-2 (x,y): equal not_equal greater greater_equal less less_equal
power (x,a): pow
cast (x,dtype): cast
same (x): stop_gradient(variables)
stacked (x): cast_to_floatx
constant (): epsilon floatx image_data_format
reduces-mean (x,axis,keepdims): mean
reduces-sum (x,axis,keepdims): sum
reduces (x,axis,keepdims): max min prod std var any all
reduces-last (x,axis): argmax argmin
along (x,axis): softmax
along-all (x,axis): l2_normalize
cumulates-0-linear (x,axis): cumsum
backend-dot (x,y): dot
batch-dot (x,y,axes): batch_dot
transpose (x): transpose
transpose (x,pattern): permute_dimensions
expand (x,axis): expand_dims
squeeze (x,axis): squeeze
reshape (x,shape): reshape
flatten (x): flatten
batch-flatten (x): batch_flatten
joins-last (tensors,axis): concatenate
stacks (x,axis): stack
tile-broadcast (x,n): tile
table (reference,indices): gather
like (x,dtype): zeros_like ones_like
shape (x): shape int_shape
rank (x): ndim
# random: drawn per worker
makes (shape): random_normal(shape,mean,stddev,dtype,seed) random_uniform(shape,minval,maxval,dtype,seed)
elementwise-2 (target,output,from_logits): binary_crossentropy
loss-classes (target,output,from_logits,axis): categorical_crossentropy
per-sample-4 (y_true,y_pred,input_length,label_length): ctc_batch_cost
"""

IMAGES = """
images (images,data_format): rgb_to_grayscale rgb_to_hsv hsv_to_rgb
    extract_patches(images,size,strides,dilation_rate,padding,data_format)
    resize(images,size,interpolation,antialias,crop_to_aspect_ratio,pad_to_aspect_ratio,fill_mode,fill_value,data_format)
    crop_images(images,top_cropping,left_cropping,bottom_cropping,right_cropping,target_height,target_width,data_format)
    pad_images(images,top_padding,left_padding,bottom_padding,right_padding,target_height,target_width,data_format)
    gaussian_blur(images,kernel_size,sigma,data_format)
"""

PREPROCESSING = """
images (x,data_format,mode): imagenet_utils.preprocess_input
"""

RANDOM = """
# random: drawn per worker
makes (shape): normal(shape,mean,stddev,dtype,seed) truncated_normal(shape,mean,stddev,dtype,seed)
    uniform(shape,minval,maxval,dtype,seed) randint(shape,minval,maxval,dtype,seed)
# random: drawn per worker
per-sample (logits,num_samples,dtype,seed): categorical
# random: drawn per worker
elementwise (inputs,rate,noise_shape,seed): dropout
"""

ACTIVATIONS = """
elementwise (x): elu(x,alpha) exponential gelu(x,approximate) hard_sigmoid linear selu sigmoid silu softplus
    relu(x,negative_slope,max_value,threshold) softsign swish tanh celu(x,alpha) leaky_relu(x,negative_slope) relu6
    mish log_sigmoid hard_silu hard_swish hard_tanh sparse_plus sparse_sigmoid tanh_shrink squareplus(x,b)
    hard_shrink(x,threshold) soft_shrink(x,threshold)
along (x,axis): softmax log_softmax glu sparsemax
"""

LOSS_FUNCTIONS = """
loss (y_true,y_pred): mean_squared_error mean_absolute_error mean_absolute_percentage_error
    mean_squared_logarithmic_error binary_crossentropy(y_true,y_pred,from_logits,label_smoothing,axis)
    binary_focal_crossentropy(y_true,y_pred,apply_class_balancing,alpha,gamma,from_logits,label_smoothing,axis) hinge
    squared_hinge poisson log_cosh huber(y_true,y_pred,delta)
loss-sum (y_true,y_pred): kl_divergence
loss-classes (y_true,y_pred): categorical_crossentropy(y_true,y_pred,from_logits,label_smoothing,axis)
    categorical_hinge categorical_focal_crossentropy(y_true,y_pred,alpha,gamma,from_logits,label_smoothing,axis)
loss-sparse (y_true,y_pred): sparse_categorical_crossentropy(y_true,y_pred,from_logits,ignore_class)
"""

LOSSES = """
loss-classes (y_true,y_pred): cosine_similarity
loss-object (y_true,y_pred,sample_weight): MeanSquaredError[reduction] MeanAbsoluteError[reduction]
    MeanAbsolutePercentageError[reduction] MeanSquaredLogarithmicError[reduction] Hinge[reduction]
    SquaredHinge[reduction] Poisson[reduction] LogCosh[reduction]
    BinaryCrossentropy[from_logits,label_smoothing,axis,reduction] Huber[delta,reduction]
    BinaryFocalCrossentropy[apply_class_balancing,alpha,gamma,from_logits,label_smoothing,axis]
loss-object-sum (y_true,y_pred,sample_weight): KLDivergence[reduction]
loss-object-classes (y_true,y_pred,sample_weight): CategoricalHinge[reduction] CosineSimilarity
    CategoricalCrossentropy[from_logits,label_smoothing,axis,reduction]
    CategoricalFocalCrossentropy[alpha,gamma,from_logits,label_smoothing,axis]
loss-object-sparse (y_true,y_pred,sample_weight): SparseCategoricalCrossentropy[from_logits,ignore_class]
"""

METRICS = """
loss-classes (y_true,y_pred): categorical_accuracy top_k_categorical_accuracy(y_true,y_pred,k)
loss-sparse (y_true,y_pred): sparse_categorical_accuracy sparse_top_k_categorical_accuracy(y_true,y_pred,k)
per-sample-2 (y_true,y_pred): binary_accuracy(y_true,y_pred,threshold)
# the result of the object after its updates; samples that are weighted need all
reduces-mean (values): Mean[name]
reduces-sum (values): Sum[name]
# the result of the object after its updates; samples that are weighted need all
loss-object (y_true,y_pred): MeanSquaredError[name] MeanAbsoluteError[name] MeanAbsolutePercentageError[name]
    MeanSquaredLogarithmicError[name] Hinge[name] SquaredHinge[name] Poisson[name] LogCoshError[name]
    BinaryCrossentropy[name] BinaryAccuracy[name] Accuracy[name]
loss-object-sum (y_true,y_pred): KLDivergence[name]
loss-object-classes (y_true,y_pred): CategoricalHinge[name] CosineSimilarity[name] CategoricalCrossentropy[name]
    CategoricalAccuracy[name] TopKCategoricalAccuracy[k,name]
loss-object-sparse (y_true,y_pred): SparseCategoricalCrossentropy[name] SparseCategoricalAccuracy[name]
    SparseTopKCategoricalAccuracy[k,name]
counts-pairs (y_true,y_pred): TruePositives[thresholds] TrueNegatives[thresholds] FalsePositives[thresholds]
    FalseNegatives[thresholds]
# a ratio or a root of sums, or a curve
needs-whole (y_true,y_pred): AUC Precision Recall F1Score FBetaScore RootMeanSquaredError MeanIoU IoU BinaryIoU
    OneHotIoU OneHotMeanIoU PrecisionAtRecall RecallAtPrecision SensitivityAtSpecificity SpecificityAtSensitivity
    R2Score
"""

LAYERS = """
# the batch may be any axis but the last
per-sample-behind-1 (inputs): Dense(inputs,training) Activation ELU LeakyReLU ReLU Rescaling Identity
per-sample (inputs): EinsumDense(inputs,training) Embedding PReLU Flatten Permute RepeatVector Reshape
    Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose
    DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D Convolution1D Convolution2D Convolution3D
    Cropping1D Cropping2D Cropping3D ZeroPadding1D ZeroPadding2D ZeroPadding3D UpSampling1D UpSampling2D UpSampling3D
    AveragePooling1D AveragePooling2D AveragePooling3D AvgPool1D AvgPool2D AvgPool3D MaxPooling1D MaxPooling2D
    MaxPooling3D MaxPool1D MaxPool2D MaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D
    GlobalMaxPool1D GlobalMaxPool2D GlobalMaxPool3D GlobalAveragePooling2D GlobalAveragePooling3D GlobalAvgPool2D
    GlobalAvgPool3D GroupNormalization RMSNormalization(x) Resizing(data,training) CenterCrop(data,training)
    Normalization Add Average Maximum Minimum Multiply Subtract
per-sample-axis (inputs,mask): Softmax[axis] LayerNormalization(inputs)[axis] UnitNormalization(inputs)[axis]
# it gives whole numbers, and no other output_mode
encoding (inputs): Hashing Discretization StringLookup IntegerLookup
# it gives whole numbers, and no other output_mode, as many for each text
encoding-of-texts (inputs): TextVectorization[max_tokens,standardize,split,ngrams,output_mode,output_sequence_length]
masks (inputs): Masking
per-sample (inputs,mask): GlobalAveragePooling1D GlobalAvgPool1D
recurrent (inputs,mask,training,initial_state): LSTM(sequences,initial_state,mask,training)
    GRU(sequences,initial_state,mask,training) SimpleRNN(sequences,initial_state,mask,training)
step-of-two-states (inputs,states,training): LSTMCell
step (inputs,states,training): GRUCell SimpleRNNCell(sequence,states,training)
per-sample-axis (inputs): Concatenate[axis] Dot[axes]
per-sample (inputs,mask,training,return_attention_scores,use_causal_mask): Attention AdditiveAttention
per-sample-3 (query,value,key,query_mask,value_mask,key_mask,attention_mask,return_attention_scores,training,\
use_causal_mask): MultiHeadAttention
# random: drawn per worker
per-sample (inputs,training): Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianDropout GaussianNoise
    AlphaDropout
# random: drawn per worker
images (data,training): RandomFlip RandomRotation RandomZoom RandomTranslation RandomContrast RandomBrightness
# in training it uses the worker's own statistics, by the contract
per-sample-axis (inputs,training,mask): BatchNormalization[axis]
"""

REGULARIZERS = """
counts (x): L1 L2 L1L2
"""
