"""TensorFlow's ops, in the format of `rows.py`.

A name without a module stands for it in `tf`, `tf.math`, `tf.nn`, `tf.linalg`, `tf.signal` and `tf.bitwise`.
"""

TENSORFLOW = """
elementwise (x): abs acos acosh angle(input) asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e ceil cos
    cosh digamma erf erfc erfcinv erfinv exp expm1 floor imag(input) lgamma log log1p log_sigmoid ndtri reciprocal
    reciprocal_no_nan rint round rsqrt sigmoid sin sinh softplus(features) sqrt square tan tanh relu(features)
    relu6(features) elu(features) selu(features) softsign(features) gelu(features,approximate)
    leaky_relu(features,alpha) silu(features,beta) swish(features,beta) invert saturate_cast(value,dtype)
    histogram_fixed_width_bins(values,value_range,nbins,dtype)
    as_string(input,precision,scientific,shortest,width,fill)
elementwise (sp_input): sparse.to_dense(sp_input,default_value)
sign (x): sign
mask (x): is_finite is_inf is_nan logical_not
elementwise-2 (x,y): atan2(y,x) floormod maximum minimum mod squared_difference truncatediv truncatemod xdivy xlog1py
    xlogy igamma(a,x) igammac(a,x) polygamma(a,x) zeta(x,q) nextafter(x1,x2) complex(real,imag) bitwise_and bitwise_or
    bitwise_xor left_shift right_shift
elementwise-alike (labels,logits,pos_weight): sigmoid_cross_entropy_with_logits(labels,logits)
    weighted_cross_entropy_with_logits log_poisson_loss(targets,log_input,compute_full_loss)
mask-2 (x,y): equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor
elementwise-3 (a,b,x): betainc clip_by_value(t,clip_value_min,clip_value_max)
linear (x): negative real(input) conj
sum (x,y): add subtract
product (x,y): multiply multiply_no_nan scalar_mul(scalar,x)
quotient (x,y): divide truediv realdiv divide_no_nan
floor-division (x,y): floordiv
power (x,y): pow
select (condition,x,y): where
cast (x,dtype): cast
sum-of-list (inputs): add_n math.accumulate_n
stacked-tensor (input): convert_to_tensor(value,dtype,dtype_hint)
filled (value,dtype,shape): constant
stacked (input): identity stop_gradient
    ensure_shape(x,shape) debugging.check_numerics(tensor,message) debugging.assert_all_finite(x,message)
reduces-mean (input_tensor,axis,keepdims): reduce_mean
reduces-sum (input_tensor,axis,keepdims): reduce_sum sparse.reduce_sum(sp_input,axis,keepdims)
counts (input,axis,keepdims,dtype): count_nonzero l2_loss(t)
counts-mean (value): zero_fraction
reduces (input_tensor,axis,keepdims): reduce_all reduce_any reduce_logsumexp reduce_max reduce_min reduce_prod
    reduce_std reduce_variance reduce_euclidean_norm norm(tensor,ord,axis,keepdims)
reduces-axis-0 (input,axis,output_type): argmax argmin
moments (x,axes,shift,keepdims): moments
needs-whole (t_list): global_norm
along-last (logits,axis): softmax log_softmax argsort(values,axis,direction,stable) sort(values,axis,direction)
    crelu(features,axis)
along-all (x,axis,epsilon): l2_normalize clip_by_norm(t,clip_norm,axes)
cumulates-0-linear (x,axis,exclusive,reverse): cumsum
cumulates-0 (x,axis,exclusive,reverse): cumprod cumulative_logsumexp
moves-along (tensor,axis): reverse roll(input,shift,axis)
top-k (input,k,sorted,index_type): top_k
along-all (x,axes): fftshift ifftshift
transforms-last (input,type,n,axis,norm): dct idct
matrix-product (a,b,transpose_a,transpose_b,adjoint_a,adjoint_b): matmul
    sparse.sparse_dense_matmul(sp_a,b,adjoint_a,adjoint_b)
matrix-vector (a,b,transpose_a,adjoint_a): matvec
tensordot (a,b,axes): tensordot
einsum (*): einsum
last 2->2 (input): cholesky expm inv(input,adjoint) logm sqrtm pinv(a,rcond)
last 2->0 (input): det logdet(matrix)
last 2->0 linear (x): trace
last 2->0,0 (input): slogdet
last 2->1,2 (tensor): eigh
last 2->1 (tensor): eigvalsh
last 2->2,2 (input,full_matrices): qr
last 2->1,2,2 (tensor,full_matrices): svd
last 2,2->2 (matrix,rhs,adjoint): solve cholesky_solve(chol,rhs) triangular_solve(matrix,rhs,lower,adjoint)
last 2->2 linear (input,num_lower,num_upper): band_part
last 1->2 linear (diagonal): diag
last 2->1 linear (input): diag_part
last 2,1->2 (input,diagonal): set_diag
last 1,1->1 (a,b): cross
last 1->1 linear (input): fft ifft rfft(input_tensor,fft_length) irfft(input_tensor,fft_length)
last 2->2 linear (input): fft2d ifft2d rfft2d(input_tensor,fft_length) irfft2d(input_tensor,fft_length)
last 3->3 linear (input): fft3d ifft3d
last 1->2 (signals,frame_length,frame_step,fft_length,window_fn,pad_end): stft
    frame(signal,frame_length,frame_step,pad_end,pad_value)
last 2->1 (stfts,frame_length,frame_step,fft_length,window_fn): inverse_stft overlap_and_add(signal,frame_step)
last 1->1 (log_mel_spectrograms): mfccs_from_log_mel_spectrograms
last 1,1->0 (labels,logits): softmax_cross_entropy_with_logits
last 0,1->0 (labels,logits): sparse_softmax_cross_entropy_with_logits in_top_k(targets,predictions,k)
transpose (a,perm,conjugate): transpose
swap-last (a): matrix_transpose adjoint(matrix)
expand (input,axis): expand_dims
squeeze (input,axis): squeeze
reshape (tensor,shape): reshape
joins (values,axis): concat
stacks (values,axis): stack
splits (value,num_or_size_splits,axis,num): split
unstacks (value,num,axis): unstack
tile (input,multiples): tile
window (input_,begin,size): slice
repeat (input,repeats,axis): repeat
pad (tensor,paddings,mode,constant_values): pad
gather (params,indices,validate_indices,axis,batch_dims): gather
table (params,ids,max_norm): embedding_lookup
gather-nd (params,indices,batch_dims): gather_nd
keeps-marked (tensor,mask,axis): boolean_mask
one-hot (indices,depth,on_value,off_value,axis,dtype): one_hot
row-masks (lengths,maxlen,dtype): sequence_mask
broadcast (input,shape): broadcast_to
like (input,dtype): zeros_like ones_like
makes (shape,dtype): zeros ones fill(dims,value)
# random: drawn per worker
makes (shape,mean,stddev,dtype,seed): random.normal random.truncated_normal
    random.uniform(shape,minval,maxval,dtype,seed)
draws (shape,seed,mean,stddev,dtype): random.stateless_normal random.stateless_truncated_normal
    random.stateless_uniform(shape,seed,minval,maxval,dtype)
# random: drawn per worker
per-sample (x,rate,noise_shape,seed): dropout
# random: drawn per worker
per-sample (logits,num_samples,dtype,seed): random.categorical
shape (input,out_type): shape
size (input,out_type): size
rank (input): rank
table-of-classes (labels,predictions,num_classes,weights,dtype): confusion_matrix
table-of-segments (data,segment_ids,num_segments): unsorted_segment_sum
histogram (values,value_range,nbins,dtype): histogram_fixed_width
average-loss (per_example_loss,sample_weight,global_batch_size): compute_average_loss
ctc (labels,logits,label_length,logit_length,logits_time_major,unique,blank_index): ctc_loss
per-sample (input,filters,strides,padding,data_format,dilations): conv2d
    conv1d(input,filters,stride,padding,data_format,dilations) conv3d convolution
    depthwise_conv2d(input,filter,strides,padding,data_format,dilations)
    separable_conv2d(input,depthwise_filter,pointwise_filter,strides,padding,data_format,dilations)
    atrous_conv2d(value,filters,rate,padding) dilation2d(input,filters,strides,padding,data_format,dilations)
    avg_pool(input,ksize,strides,padding,data_format) max_pool(input,ksize,strides,padding,data_format)
    avg_pool1d(input,ksize,strides,padding,data_format) max_pool1d(input,ksize,strides,padding,data_format)
    avg_pool2d(input,ksize,strides,padding,data_format) max_pool2d(input,ksize,strides,padding,data_format)
    avg_pool3d(input,ksize,strides,padding,data_format) max_pool3d(input,ksize,strides,padding,data_format)
    pool(input,window_shape,pooling_type,strides,padding,data_format,dilations)
    depth_to_space(input,block_size,data_format) space_to_depth(input,block_size,data_format)
    local_response_normalization(input,depth_radius,bias,alpha,beta) lrn(input,depth_radius,bias,alpha,beta)
    bias_add(value,bias,data_format) batch_normalization(x,mean,variance,offset,scale,variance_epsilon)
    image.extract_patches(images,sizes,strides,rates,padding)
images (images): image.resize(images,size,method,preserve_aspect_ratio,antialias) image.flip_left_right(image)
    image.flip_up_down(image) image.transpose(image) image.rot90(image,k) image.per_image_standardization(image)
    image.central_crop(image,central_fraction) image.adjust_contrast(images,contrast_factor)
    image.crop_to_bounding_box(image,offset_height,offset_width,target_height,target_width)
    image.pad_to_bounding_box(image,offset_height,offset_width,target_height,target_width)
    image.resize_with_crop_or_pad(image,target_height,target_width)
    image.resize_with_pad(image,target_height,target_width,method,antialias)
images-derived (image): image.sobel_edges image.image_gradients
# random: drawn per worker
images (image,seed): image.random_flip_left_right image.random_flip_up_down
image-pairs (img1,img2,max_val): image.ssim image.psnr(a,b,max_val) image.total_variation(images)
elementwise (image,delta): image.adjust_brightness image.adjust_gamma(image,gamma,gain)
    image.convert_image_dtype(image,dtype,saturate)
last 1->1 (images): image.rgb_to_grayscale image.grayscale_to_rgb image.rgb_to_hsv image.hsv_to_rgb image.rgb_to_yuv
    image.yuv_to_rgb image.rgb_to_yiq image.yiq_to_rgb image.adjust_hue(image,delta)
    image.adjust_saturation(image,saturation_factor)
elementwise (input): strings.lower(input,encoding) strings.upper(input,encoding) strings.strip
    strings.length(input,unit) strings.regex_replace(input,pattern,rewrite,replace_global)
    strings.regex_full_match(input,pattern) strings.to_number(input,out_type)
    strings.to_hash_bucket_fast(input,num_buckets) strings.to_hash_bucket_strong(input,num_buckets,key)
    strings.substr(input,pos,len,unit) strings.as_string(input)
loss-v1 (labels,predictions,weights,scope,loss_collection,reduction): compat.v1.losses.mean_squared_error
    compat.v1.losses.absolute_difference
    compat.v1.losses.hinge_loss(labels,logits,weights,scope,loss_collection,reduction)
    compat.v1.losses.log_loss(labels,predictions,weights,epsilon,scope,loss_collection,reduction)
    compat.v1.losses.huber_loss(labels,predictions,weights,delta,scope,loss_collection,reduction)
    compat.v1.losses.sigmoid_cross_entropy(multi_class_labels,logits,weights,label_smoothing,scope,loss_collection,reduction)
loss-v1-classes (onehot_labels,logits,weights,label_smoothing,scope,loss_collection,reduction):
    compat.v1.losses.softmax_cross_entropy
loss-v1-sparse (labels,logits,weights,scope,loss_collection,reduction): compat.v1.losses.sparse_softmax_cross_entropy
getitem (self,key): Tensor.__getitem__
same (self): Tensor.numpy Variable.value Variable.read_value TensorShape.as_list
shape (self): Tensor.shape Tensor.get_shape
rank (self): Tensor.ndim TensorShape.rank TensorShape.ndims
constant (self): Tensor.dtype Tensor.device is_tensor(x) Tensor.set_shape(self,shape)
"""
