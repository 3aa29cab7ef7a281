"""NumPy's functions and methods, Python's operators and builtins, in the format of `rows.py`."""

NUMPY = """
elementwise (x): abs absolute arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh deg2rad degrees exp exp2
    expm1 fabs floor log log10 log1p log2 rad2deg radians reciprocal rint round(a,decimals) sin sinh sqrt square
    tan tanh trunc nan_to_num(x,copy,nan,posinf,neginf) around(a,decimals) sinc angle(z,deg)
sign (x): sign
mask (x): isfinite isinf isnan logical_not
elementwise-2 (x1,x2): arctan2 fmax fmin fmod hypot logaddexp maximum minimum mod remainder heaviside copysign
    bitwise_and bitwise_or bitwise_xor digitize(x,bins,right)
mask-2 (x1,x2): equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor
    isclose(a,b,rtol,atol,equal_nan)
linear (x): negative positive conj conjugate real(val) imag(val)
sum (x1,x2): add subtract
product (x1,x2): multiply
quotient (x1,x2): divide true_divide
floor-division (x1,x2): floor_divide
power (x1,x2): power
elementwise-3 (a,a_min,a_max): clip
select (condition,x,y): where
stacked (a,dtype): array(object,dtype,copy) asarray copy(a) ascontiguousarray
cast (self,dtype): ndarray.astype
same (self): ndarray.copy ndarray.tolist
reduces-mean (a,axis,dtype,out,keepdims): mean ndarray.mean(self,axis,dtype,out,keepdims)
average (a,axis,weights): average
reduces-sum (a,axis,dtype,out,keepdims): sum ndarray.sum(self,axis,dtype,out,keepdims)
counts (a,axis,keepdims): count_nonzero
reduces (a,axis,out,keepdims): max min amax amin all any argmax argmin ndarray.max(self,axis,out,keepdims)
    ndarray.min(self,axis,out,keepdims) ndarray.all(self,axis,out,keepdims) ndarray.any(self,axis,out,keepdims)
    ndarray.argmax(self,axis,out) ndarray.argmin(self,axis,out) prod(a,axis,dtype,out,keepdims)
    std(a,axis,dtype,out,ddof,keepdims) var(a,axis,dtype,out,ddof,keepdims)
    ndarray.std(self,axis,dtype,out,ddof,keepdims) ptp(a,axis,out,keepdims)
    ndarray.var(self,axis,dtype,out,ddof,keepdims) median(a,axis,out,overwrite_input,keepdims)
    nanmean(a,axis,dtype,out,keepdims) nanmax nanmin nanstd(a,axis,dtype,out,ddof,keepdims) nanargmax nanargmin
counts (a,axis,dtype,out,keepdims): nansum
along (a,axis,kind): sort argsort
cumulates-flat-linear (a,axis,dtype): cumsum
cumulates-flat (a,axis): cumprod
moves-along (m,axis): flip roll(a,shift,axis)
matrix-or-vector-product (x1,x2): matmul
dot (a,b): dot ndarray.dot(self,b)
inner (a,b): inner
outer (a,b): outer
tensordot (a,b,axes): tensordot
vdot (a,b): vdot
einsum (*): einsum
last 2->2 (a): linalg.inv linalg.cholesky linalg.pinv
last 2->0 (a): linalg.det
reduces (x,ord,axis,keepdims): linalg.norm
transpose (a,axes): transpose
transpose (self): ndarray.T
swap (a,axis1,axis2): swapaxes ndarray.swapaxes(self,axis1,axis2)
move (a,source,destination): moveaxis
expand (a,axis): expand_dims
squeeze (a,axis): squeeze ndarray.squeeze(self,axis)
reshape (a,shape): reshape
reshape (self,*shape,s1,s2,s3,s4): ndarray.reshape
flatten (a): ravel ndarray.ravel(self) ndarray.flatten(self)
joins (arrays,axis): concatenate
stacks (arrays,axis): stack
splits-at (ary,indices_or_sections,axis): split
tile-broadcast (A,reps): tile
repeat (a,repeats,axis): repeat
pad (array,pad_width,mode): pad
take (a,indices,axis): take
take-along (arr,indices,axis): take_along_axis
broadcast (array,shape): broadcast_to
transforms-last (a,n,axis): diff
like (a,dtype): zeros_like ones_like empty_like(prototype,dtype,order,subok,shape,device)
    full_like(a,fill_value,dtype)
makes (shape,dtype): zeros ones empty full(shape,fill_value,dtype)
# random: drawn for the whole batch by all workers, of which each takes its rows
draws (size): random.random random.random_sample random.standard_normal
    random.standard_cauchy random.standard_exponential
# random: drawn for the whole batch by all workers, of which each takes its rows
draws (*shape,d1,d2,d3,d4): random.rand random.randn
# random: drawn for the whole batch by all workers, of which each takes its rows
draws-second (scale,size): random.exponential random.rayleigh random.poisson(lam,size)
    random.standard_t(df,size) random.chisquare(df,size) random.geometric(p,size) random.weibull(a,size)
    random.pareto(a,size) random.power(a,size) random.standard_gamma(shape,size)
# random: drawn for the whole batch by all workers, of which each takes its rows
draws-third (low,high,size): random.uniform random.randint(low,high,size,dtype)
    random.normal(loc,scale,size) random.laplace(loc,scale,size) random.gumbel(loc,scale,size)
    random.logistic(loc,scale,size) random.lognormal(mean,sigma,size) random.beta(a,b,size)
    random.gamma(shape,scale,size) random.binomial(n,p,size)
    random.vonmises(mu,kappa,size) random.wald(mean,scale,size) random.negative_binomial(n,p,size)
# random: drawn for the whole batch by all workers, of which each takes its rows
draws-items (a,size,replace,p): random.choice
shape (a): shape ndarray.shape(self)
size (a): size ndarray.size(self)
rank (a): ndim ndarray.ndim(self)
constant (self): ndarray.dtype
"""

PYTHON = """
sum (a,b): operator.add operator.sub operator.iadd operator.isub
product (a,b): operator.mul operator.imul
quotient (a,b): operator.truediv operator.itruediv
floor-division (a,b): operator.floordiv
power (a,b): operator.pow builtins.pow
elementwise-2 (a,b): operator.mod operator.and_ operator.or_ operator.xor
equality (a,b): operator.eq operator.ne
mask-2 (a,b): operator.lt operator.le operator.gt operator.ge
linear (a): operator.neg operator.pos
elementwise (a): operator.abs operator.invert builtins.abs math.sqrt math.exp math.log math.floor math.ceil math.isnan
    math.isfinite
mask (a): builtins.bool
matrix-or-vector-product (a,b): operator.matmul
getitem (a,b): operator.getitem
linear (x): builtins.float
rounds (x): builtins.int
sum-of-list (iterable,start): builtins.sum
length (obj): builtins.len
"""
