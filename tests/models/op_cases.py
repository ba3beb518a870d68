"""One-operator and few-operator cases, one list per family."""

import numpy as np

from case_writer import Case

BATCH = dict(dims={"n": (1, 8)}, sizes=({"n": 3}, {"n": 8}, {"n": 1}))
BATCH_AND_SEQUENCE = dict(
    dims={"batch": (1, 4), "sequence": (1, 16)},
    sizes=({"batch": 2, "sequence": 5}, {"batch": 4, "sequence": 16}, {"batch": 1, "sequence": 1}),
)


def unary(op, low=-3.0, high=3.0, **options):
    """An elementwise operator of one float, over a static and a bounded shape."""
    ranges = {"x": (low, high)}
    static = Case(
        f"{op.lower()}", f"(float[2,3,5] x) => (float y) {{ y = {op}(x) }}", ranges=ranges, **options
    )
    dynamic = Case(f"{op.lower()}_dynamic", f"(float[n,19] x) => (float y) {{ y = {op}(x) }}", ranges=ranges, **options,
                   **BATCH)  # fmt: skip
    return [static, dynamic]


def binary(op, left, right, dtype="float", name="", result=None, **options):
    """An elementwise operator of two inputs of the given shapes."""
    right = f"[{right}]" if right else ""  # "": a scalar
    graph = f"({dtype}[{left}] a, {dtype}{right} b) => ({result or dtype} y) {{ y = {op}(a, b) }}"
    return Case(f"{op.lower()}{'_' if name else ''}{name}", graph, **options)


UNARY = [
    *unary("Sqrt", 0.0, 4.0),
    *unary("Neg"),
    *unary("Abs"),
    *unary("Exp", -10.0, 5.0),
    *unary("Log", 0.01, 20.0),
    *unary("Erf"),
    *unary("Tanh", -6.0, 6.0),
    *unary("Sigmoid", -12.0, 12.0),
    *unary("Relu"),
    *unary("Gelu", opset=20),
    *unary("Reciprocal", 0.2, 4.0),
    *unary("Floor"),
    *unary("Sin", -1000.0, 1000.0),
    *unary("Cos", -1000.0, 1000.0),
    Case("gelu_tanh", '(float[4,9] x) => (float y) { y = Gelu <approximate = "tanh"> (x) }', opset=20),
    Case("neg_abs_int64", "(int64[7] x) => (int64 y) { n = Neg(x) y = Abs(n) }"),
    Case("identity", "(float[2,3] x) => (float y) { y = Identity(x) }"),
    Case("scalar", "(float x) => (float y) { y = Exp(x) }"),
    Case("empty", "(float[0,3] x) => (float y) { y = Exp(x) }"),
]  # fmt: skip

BINARY = [
    binary("Add", "2,3,4", "2,3,4"),
    binary("Add", "2,3,4", "3,1", name="broadcast"),
    binary("Add", "4,1,3", "5,1", name="broadcast_both"),
    binary("Add", "batch,sequence,8", "8", name="dynamic", **BATCH_AND_SEQUENCE),
    binary("Add", "batch,1,sequence", "sequence,1", name="dynamic_outer", **BATCH_AND_SEQUENCE),
    binary("Add", "6", "6", "int64", name="int64"),
    binary("Sub", "2,3,4", "1,4", name="broadcast"),
    binary("Sub", "5", "5", "int32", name="int32"),
    binary("Mul", "2,3,4", "", name="scalar"),
    binary("Mul", "n,5", "n,1", name="dynamic", **BATCH),
    binary("Div", "2,3", "2,3", ranges={"b": (0.5, 2.0)}),
    binary("Div", "9", "9", "int64", name="int64", ranges={"a": (-20, 20), "b": (1, 5)}),
    binary("Pow", "2,3", "2,3", ranges={"a": (0.1, 3.0), "b": (-2.0, 3.0)}),
    Case("pow_square", "(float[4,5] x) => (float y) { c = Constant <value = float {2.0}> () y = Pow(x, c) }"),
    Case("pow_cube", "(float[4,5] x) => (float y) { c = Constant <value = float {3.0}> () y = Pow(x, c) }"),
    binary("Min", "2,3", "3", name="broadcast"),
    binary("Max", "2,3", "3", name="broadcast"),
    Case("max_three", "(float[2,3] a, float[3] b, float[2,1] c) => (float y) { y = Max(a, b, c) }"),
    Case("min_one", "(float[2,3] a) => (float y) { y = Min(a) }"),
    Case("sum_three", "(float[2,3] a, float[3] b, float[2,1] c) => (float y) { y = Sum(a, b, c) }"),
    Case("clip", "(float[20] x) => (float y) { l = Constant <value = float {-0.5}> () "
         "h = Constant <value = float {0.75}> () y = Clip(x, l, h) }"),
    Case("clip_high_only", '(float[20] x, float h) => (float y) { y = Clip(x, "", h) }'),
    Case("prelu_as_where", "(float[4,5] x, float[5] w_s) => (float y) { z = Constant <value = float {0.0}> () "
         "m = Mul(x, w_s) p = Less(x, z) y = Where(p, m, x) }"),
]  # fmt: skip

ACTIVATION = [
    *unary("Tan", -1.4, 1.4),
    *unary("Asin", -1.0, 1.0),
    *unary("Acos", -1.0, 1.0),
    *unary("Atan"),
    *unary("Sinh"),
    *unary("Cosh"),
    *unary("Asinh"),
    *unary("Acosh", 1.0, 9.0),
    *unary("Atanh", -0.9, 0.9),
    *unary("Softplus", -90.0, 90.0),
    *unary("Softsign"),
    *unary("Elu"),
    *unary("Selu"),
    *unary("Celu"),
    *unary("HardSigmoid"),
    *unary("HardSwish", -5.0, 5.0),
    *unary("ThresholdedRelu"),
    *unary("Mish", -30.0, 30.0, opset=18),
    Case("shrink", "(float[40] x) => (float y) { y = Shrink <bias = 0.25, lambd = 0.75> (x) }"),
    Case("prelu", "(float[n,5,4] x, float[5,1] w_s) => (float y) { y = PRelu(x, w_s) }", **BATCH),
    Case("bit_shift", '(uint32[9] a, uint32[9] b) => (uint32 y) { y = BitShift <direction = "LEFT"> (a, b) }',
         ranges={"a": (0, 1000), "b": (0, 31)}),
    Case("bitwise", "(int16[9] a, int16[9] b) => (int16 y) { c = BitwiseAnd(a, b) d = BitwiseXor(c, a) e = BitwiseOr(d, b) "
         "y = BitwiseNot(e) }", ranges={"a": (-999, 999), "b": (-999, 999)}, opset=18),
]  # fmt: skip

NORMALIZATION = [
    Case("batch_normalization", "(float[n,5,4,3] x, float[5] w_s, float[5] w_b, float[5] w_m, float[5] w_v) => (float y) "
         "{ y = BatchNormalization(x, w_s, w_b, w_m, w_v) }", ranges={"w_v": (0.1, 2.0)}, **BATCH),
    Case("batch_normalization_of_product", "(float[n,6] x, float[6,5] w_p, float[5] w_s, float[5] w_b, float[5] w_m, "
         "float[5] w_v) => (float y) { p = MatMul(x, w_p) b = BatchNormalization(p, w_s, w_b, w_m, w_v) y = Relu(b) }",
         ranges={"w_v": (0.1, 2.0)}, **BATCH),
    Case("batch_normalization_inputs", "(float[2,5,4] x, float[5] s, float[5] b, float[5] m, float[5] v) => (float y) "
         "{ y = BatchNormalization <epsilon = 0.01> (x, s, b, m, v) }", ranges={"v": (0.1, 2.0)}),
    # As exporters standardise weights.
    Case("batch_normalization_own_statistics", "(float[n,5,4] x, float[5] w_s, float[5] w_b, float[5] w_m, float[5] w_v) => "
         "(float y, float mean, float var) { y, mean, var = BatchNormalization <training_mode = 1, momentum = 0.75> "
         "(x, w_s, w_b, w_m, w_v) }", ranges={"w_v": (0.1, 2.0)}, **BATCH),
    Case("instance_normalization", "(float[batch,3,sequence,4] x, float[3] w_s, float[3] w_b) => (float y) "
         "{ y = InstanceNormalization(x, w_s, w_b) }", **BATCH_AND_SEQUENCE),
    Case("group_normalization", "(float[batch,6,sequence] x, float[6] w_s, float[6] w_b) => (float y) "
         "{ y = GroupNormalization <num_groups = 3> (x, w_s, w_b) }", opset=21, **BATCH_AND_SEQUENCE),
    Case("lp_normalization", "(float[3,4,5] x) => (float y) { y = LpNormalization <axis = 1, p = 1> (x) }"),
    Case("lrn", "(float[n,7,3,2] x) => (float y) { y = LRN <size = 5, alpha = 0.5> (x) }", **BATCH),
    Case("mean_variance_normalization", "(float[3,4,5,6] x) => (float y) { y = MeanVarianceNormalization(x) }"),
    Case("global_average_pool", "(float[batch,3,sequence,4] x) => (float y) { y = GlobalAveragePool(x) }",
         **BATCH_AND_SEQUENCE),
    Case("global_max_pool", "(float[batch,3,sequence] x) => (float y) { y = GlobalMaxPool(x) }", **BATCH_AND_SEQUENCE),
    Case("global_lp_pool", "(float[2,3,4,5] x) => (float y) { y = GlobalLpPool <p = 3> (x) }"),
    # Larger than the input, which rounding up allows: EfficientNet pools so.
    Case("pool_window_beyond_the_end", "(float[2,3,height,width] x) => (float y, float z, float m, float p) "
         "{ y = AveragePool <kernel_shape = [9,7], strides = [9,7], ceil_mode = 1, count_include_pad = 1> (x) "
         "z = AveragePool <kernel_shape = [9,7], strides = [9,7], ceil_mode = 1> (x) "
         "m = MaxPool <kernel_shape = [9,7], strides = [9,7], ceil_mode = 1> (x) "
         "p = LpPool <kernel_shape = [9,7], strides = [9,7], ceil_mode = 1> (x) }", opset=18,
         dims={"height": (1, 9), "width": (1, 20)},
         sizes=(dict(height=2, width=3), dict(height=9, width=20), dict(height=1, width=1))),
    Case("hardmax", "(float[3,4,5] x) => (float y) { y = Hardmax(x) }"),
    Case("hardmax_of_matrix", "(float[3,4,5] x) => (float y) { y = Hardmax <axis = 1> (x) }", opset=11),
    Case("det", "(float[n,3,3] x) => (float y) { y = Det(x) }", **BATCH),
    Case("eye_like", "(float[4,6] x) => (int64 y) { y = EyeLike <k = -1, dtype = 7> (x) }"),
    Case("split_to_sequence", "(float[6,n] x) => (float y) { two = Constant <value = int64 {2}> () "
         "s = SplitToSequence <axis = 0> (x, two) t = SequenceErase(s) y = ConcatFromSequence <axis = 1> (t) }", **BATCH),
]  # fmt: skip

LOGICAL = [
    binary("And", "2,3", "3", "bool"),
    binary("Or", "2,3", "2,1", "bool"),
    Case("not", "(bool[7] x) => (bool y) { y = Not(x) }"),
    binary("Equal", "4,5", "5", "int64", name="int64", result="bool"),
    binary("Equal", "4,5", "4,5", "bool", name="bool", result="bool"),
    binary("Less", "4,5", "4,1", result="bool"),
    binary("Greater", "4,5", "4,1", "int64", result="bool"),
    binary("LessOrEqual", "4,5", "5", "int64", result="bool"),
    binary("GreaterOrEqual", "4,5", "5", result="bool"),
    Case("where_broadcast", "(bool[2,1,4] c, float[3,1] a, float b) => (float y) { y = Where(c, a, b) }"),
    Case("where_dynamic", "(bool[sequence,sequence] c, float[batch,sequence,sequence] a, float b) => (float y) "
         "{ y = Where(c, a, b) }", **BATCH_AND_SEQUENCE),
    Case("where_int64", "(bool[4] c, int64[4] a, int64[4] b) => (int64 y) { y = Where(c, a, b) }"),
]  # fmt: skip

CAST = [
    Case("cast_float_to_int64", "(float[9] x) => (int64 y) { y = Cast <to = 7> (x) }", ranges={"x": (-9.9, 9.9)}),
    Case("cast_int64_to_float", "(int64[9] x) => (float y) { y = Cast <to = 1> (x) }"),
    Case("cast_float_to_bool", "(float[5] x) => (bool y) { y = Cast <to = 9> (x) }",
         values={"x": np.array([0, 1, -0.5, 0.0, 3], np.float32)}),
    Case("cast_bool_to_float", "(bool[5] x) => (float y) { y = Cast <to = 1> (x) }"),
    Case("cast_int32_to_int64", "(int32[5] x) => (int64 y) { y = Cast <to = 7> (x) }"),
]  # fmt: skip


def matmul(name, left, right, **options):
    return Case(
        f"matmul_{name}",
        f"(float[{left}] a, float[{right}] b) => (float y) {{ y = MatMul(a, b) }}",
        **options,
    )


MATMUL = [
    matmul("2d", "5,7", "7,3"),
    matmul("batched", "2,3,5,7", "2,3,7,4"),
    matmul("broadcast_right", "2,3,5,7", "7,4"),
    matmul("broadcast_left", "5,7", "2,3,7,4"),
    matmul("broadcast_both", "2,1,5,7", "3,7,4"),
    matmul("vector_vector", "7", "7"),
    matmul("vector_matrix", "7", "7,4"),
    matmul("matrix_vector", "5,7", "7"),
    matmul("vector_batched", "7", "2,3,7,4"),
    matmul("batched_vector", "2,3,5,7", "7"),
    matmul("row", "1,64", "64,96"),
    matmul("large", "70,130", "130,90"),
    Case("matmul_weight", "(float[3,5,8] a, float[8,6] w_b) => (float y) { y = MatMul(a, w_b) }"),
    Case("matmul_weight_dynamic", "(float[batch,sequence,8] a, float[8,6] w_b) => (float y) { y = MatMul(a, w_b) }",
         **BATCH_AND_SEQUENCE),
    Case("matmul_attention_dynamic", "(float[batch,2,sequence,8] q, float[batch,2,sequence,8] k) => (float y) "
         "{ t = Transpose <perm = [0,1,3,2]> (k) y = MatMul(q, t) }", **BATCH_AND_SEQUENCE),
    Case("matmul_integer_valued", "(float[16,64] a, float[64,48] b) => (float y) { y = MatMul(a, b) }",
         values={"a": np.arange(1024, dtype=np.float32).reshape(16, 64) % 5 - 2,
                 "b": np.arange(3072, dtype=np.float32).reshape(64, 48) % 7 - 3}),
    Case("matmul_bias_gelu_residual", "(float[batch,sequence,8] x, float[8,8] w_m, float[8] w_b) => (float y) "
         "{ m = MatMul(x, w_m) a = Add(m, w_b) g = Gelu(a) y = Add(g, x) }", opset=20, **BATCH_AND_SEQUENCE),
]  # fmt: skip

GEMM = [
    Case("gemm", "(float[5,7] a, float[7,3] b, float[3] c) => (float y) { y = Gemm(a, b, c) }"),
    Case("gemm_no_bias", "(float[5,7] a, float[7,3] b) => (float y) { y = Gemm(a, b) }"),
    Case("gemm_all_attributes", "(float[7,5] a, float[3,7] b, float[5,1] c) => (float y) "
         "{ y = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (a, b, c) }"),
    Case("gemm_trans_b_weight", "(float[n,7] a, float[3,7] w_b, float[3] w_c) => (float y) "
         "{ y = Gemm <transB = 1> (a, w_b, w_c) }", **BATCH),
    Case("gemm_trans_a", "(float[7,5] a, float[7,3] b, float c) => (float y) { y = Gemm <transA = 1> (a, b, c) }"),
    Case("gemm_matrix_bias", "(float[5,7] a, float[7,3] b, float[5,3] c) => (float y) { y = Gemm <beta = 0.25> (a, b, c) }"),
]  # fmt: skip

REDUCE = [
    Case("softmax", "(float[3,4,5] x) => (float y) { y = Softmax <axis = -1> (x) }"),
    Case("softmax_axis_0", "(float[3,4,5] x) => (float y) { y = Softmax <axis = 0> (x) }"),
    Case("softmax_axis_1", "(float[3,4,5] x) => (float y) { y = Softmax <axis = 1> (x) }"),
    Case("softmax_large_values", "(float[3,40] x) => (float y) { y = Softmax(x) }", ranges={"x": (-1000.0, 1000.0)}),
    Case("softmax_between_products", "(float[4,8] x, float[8,8] w) => (float[4,8] y) { [first] r = Relu(x) [product] m = MatMul(r, w) "
         "[soft] s = Softmax(m) [again] p = MatMul(s, w) [last] y = Neg(p) }"),
    Case("softmax_dynamic", "(float[batch,sequence] x) => (float y) { y = Softmax(x) }", **BATCH_AND_SEQUENCE),
    Case("softmax_masked", "(float[batch,sequence,sequence] x, bool[sequence,sequence] m) => (float y) "
         "{ l = Constant <value = float {-3.4028235e38}> () w = Where(m, x, l) y = Softmax(w) }", **BATCH_AND_SEQUENCE),
    Case("layer_normalization", "(float[3,4,8] x, float[8] s, float[8] b) => (float y) "
         "{ y = LayerNormalization <axis = -1, epsilon = 0.00001> (x, s, b) }"),
    Case("layer_normalization_axis_1", "(float[3,4,8] x, float[4,8] s) => (float y) "
         "{ y = LayerNormalization <axis = 1> (x, s) }"),
    Case("layer_normalization_offset", "(float[3,64] x, float[64] s, float[64] b) => (float y) "
         "{ y = LayerNormalization(x, s, b) }", ranges={"x": (10.0, 11.0)}),
    Case("layer_normalization_dynamic", "(float[batch,sequence,24] x, float[24] w_s, float[24] w_b) => (float y) "
         "{ y = LayerNormalization(x, w_s, w_b) }", **BATCH_AND_SEQUENCE),
    Case("layer_normalization_expanded", "(float[n,24] x, float[24] w_s, float[24] w_b) => (float y) "
         "{ m = ReduceMean <axes = [-1]> (x) d = Sub(x, m) two = Constant <value = float {2.0}> () q = Pow(d, two) "
         "v = ReduceMean <axes = [-1]> (q) e = Constant <value = float {0.00001}> () ve = Add(v, e) r = Sqrt(ve) "
         "f = Div(d, r) s = Mul(f, w_s) y = Add(s, w_b) }", **BATCH),
    Case("rms_normalization_expanded", "(float[n,24] x, float[24] w_s) => (float y) "
         "{ two = Constant <value = float {2.0}> () q = Pow(x, two) v = ReduceMean <axes = [-1]> (q) "
         "e = Constant <value = float {0.000001}> () ve = Add(v, e) r = Sqrt(ve) f = Div(x, r) y = Mul(f, w_s) }", **BATCH),
    Case("rms_normalization", "(float[3,4,8] x, float[8] s) => (float y) { y = RMSNormalization <axis = -1> (x, s) }",
         opset=23),
    Case("reduce_mean", "(float[3,4,5] x) => (float y) { y = ReduceMean <axes = [1], keepdims = 1> (x) }"),
    Case("reduce_mean_no_keepdims", "(float[3,4,5] x) => (float y) { y = ReduceMean <axes = [0, -1], keepdims = 0> (x) }"),
    Case("reduce_mean_18", "(float[3,4,5] x) => (float y) "
         "{ a = Constant <value = int64[2] {0, 2}> () y = ReduceMean(x, a) }", opset=18),
    Case("reduce_sum", "(float[3,4,5] x) => (float y) "
         "{ a = Constant <value = int64[1] {-2}> () y = ReduceSum <keepdims = 0> (x, a) }"),
    Case("reduce_sum_all", "(float[3,4,5] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }"),
    Case("reduce_sum_no_axes_is_noop", "(float[3,4] x) => (float y) { y = ReduceSum <noop_with_empty_axes = 1> (x) }"),
    Case("reduce_sum_int64", "(int64[3,4] x) => (int64 y) { a = Constant <value = int64[1] {0}> () y = ReduceSum(x, a) }"),
    Case("reduce_sum_dynamic", "(float[batch,sequence,3] x) => (float y) "
         "{ a = Constant <value = int64[1] {1}> () y = ReduceSum <keepdims = 0> (x, a) }", **BATCH_AND_SEQUENCE),
    Case("reduce_max", "(float[3,4,5] x) => (float y) { y = ReduceMax <axes = [2]> (x) }"),
    Case("reduce_max_all_dynamic", "(float[batch,sequence] x) => (float y) { y = ReduceMax <keepdims = 0> (x) }",
         **BATCH_AND_SEQUENCE),
    Case("cumsum", "(float[3,5] x) => (float y) { a = Constant <value = int64 {1}> () y = CumSum(x, a) }"),
    Case("cumsum_exclusive_reverse", "(float[3,5] x) => (float y) "
         "{ a = Constant <value = int64 {-2}> () y = CumSum <exclusive = 1, reverse = 1> (x, a) }"),
]  # fmt: skip

SHAPE = [
    Case("reshape", "(float[2,3,4] x) => (float y) { s = Constant <value = int64[3] {4, 3, -1}> () y = Reshape(x, s) }"),
    Case("reshape_infer", "(float[2,3,4] x) => (float y) { s = Constant <value = int64[2] {-1, 6}> () y = Reshape(x, s) }"),
    Case("reshape_weight_shape", "(float[2,3,4] x) => (float y) "
         "{ s = Constant <value = int64[4] {0, 1, -1, 2}> () y = Reshape(x, s) }"),
    Case("reshape_split_heads_dynamic", "(float[batch,sequence,8] x) => (float y) { s = Shape(x) "
         "z = Constant <value = int64[2] {0, 1}> () bs = Gather <axis = 0> (s, z) "
         "hd = Constant <value = int64[2] {2, 4}> () t = Concat <axis = 0> (bs, hd) r = Reshape(x, t) "
         "y = Transpose <perm = [0,2,1,3]> (r) }", **BATCH_AND_SEQUENCE),
    Case("reshape_merge_dynamic", "(float[batch,sequence,8] x) => (float y) "
         "{ s = Constant <value = int64[2] {-1, 8}> () y = Reshape(x, s) }", **BATCH_AND_SEQUENCE),
    Case("reshape_chain_dynamic", "(float[batch,sequence,8] x) => (float y) { s = Shape(x) "
         "f = Constant <value = int64[2] {-1, 8}> () r = Reshape(x, f) e = Exp(r) y = Reshape(e, s) }",
         **BATCH_AND_SEQUENCE),
    Case("flatten", "(float[2,3,4] x) => (float y) { y = Flatten(x) }"),
    Case("flatten_axis_0", "(float[2,3,4] x) => (float y) { y = Flatten <axis = 0> (x) }"),
    Case("flatten_negative_axis", "(float[2,3,4] x) => (float y) { y = Flatten <axis = -1> (x) }"),
    Case("transpose", "(float[2,3,4] x) => (float y) { y = Transpose <perm = [2,0,1]> (x) }"),
    Case("transpose_default", "(float[2,3,4] x) => (float y) { y = Transpose(x) }"),
    Case("transpose_dynamic", "(float[batch,sequence,3] x) => (float y) { y = Transpose <perm = [1,2,0]> (x) }",
         **BATCH_AND_SEQUENCE),
    Case("squeeze", "(float[1,3,1,4] x) => (float y) { a = Constant <value = int64[2] {0, -2}> () y = Squeeze(x, a) }"),
    Case("squeeze_all", "(float[1,3,1,4] x) => (float y) { y = Squeeze(x) }"),
    Case("unsqueeze", "(float[3,4] x) => (float y) { a = Constant <value = int64[2] {-1, 0}> () y = Unsqueeze(x, a) }"),
    Case("expand", "(float[3,1] x) => (float y) { s = Constant <value = int64[3] {2, 1, 4}> () y = Expand(x, s) }"),
    Case("expand_dynamic", "(float[batch,1,3] x, float[sequence] z) => (float y) { b = Constant <value = int64[1] {1}> () "
         "n = Shape(z) s = Concat <axis = 0> (b, n, b) y = Expand(x, s) }", **BATCH_AND_SEQUENCE),
    Case("tile", "(float[2,3] x) => (float y) { r = Constant <value = int64[2] {2, 3}> () y = Tile(x, r) }"),
    Case("shape", "(float[batch,sequence,3] x) => (int64 y) { y = Shape(x) }", **BATCH_AND_SEQUENCE),
    Case("shape_part", "(float[batch,sequence,3] x) => (int64 y) { y = Shape <start = -2, end = 3> (x) }",
         **BATCH_AND_SEQUENCE),
]  # fmt: skip

MOVE = [
    Case("concat", "(float[2,3] a, float[2,1] b, float[2,4] c) => (float y) { y = Concat <axis = 1> (a, b, c) }"),
    Case("concat_negative_axis", "(float[2,3] a, float[5,3] b) => (float y) { y = Concat <axis = -2> (a, b) }"),
    Case("concat_cache_dynamic", "(float[batch,2,past,4] a, float[batch,2,1,4] b) => (float y) "
         "{ y = Concat <axis = 2> (a, b) }", dims={"batch": (1, 4), "past": (1, 16)},
         sizes=({"batch": 2, "past": 5}, {"batch": 1, "past": 16})),
    Case("concat_of_computed", "(float[n,4] x) => (float y) "
         "{ e = Exp(x) f = Neg(x) y = Concat <axis = 1> (e, x, f) }", **BATCH),
    Case("split_equal", "(float[2,6] x) => (float a, float b, float c) { a, b, c = Split <axis = 1> (x) }"),
    Case("split_sizes", "(float[2,6] x) => (float a, float b) "
         "{ s = Constant <value = int64[2] {2, 4}> () a, b = Split <axis = -1> (x, s) }"),
    Case("split_num_outputs_uneven", "(float[7,2] x) => (float a, float b, float c) "
         "{ a, b, c = Split <axis = 0, num_outputs = 3> (x) }", opset=18),
    Case("split_dynamic", "(float[batch,sequence,6] x) => (float q, float k, float v) "
         "{ s = Constant <value = int64[3] {2, 2, 2}> () q, k, v = Split <axis = -1> (x, s) }", **BATCH_AND_SEQUENCE),
    Case("slice", "(float[5,6,7] x) => (float y) { s = Constant <value = int64[2] {1, 2}> () "
         "e = Constant <value = int64[2] {4, 1000}> () a = Constant <value = int64[2] {0, 2}> () y = Slice(x, s, e, a) }"),
    Case("slice_steps", "(float[9,8] x) => (float y) { s = Constant <value = int64[2] {1, 0}> () "
         "e = Constant <value = int64[2] {9, -1}> () a = Constant <value = int64[2] {0, -1}> () "
         "t = Constant <value = int64[2] {3, 2}> () y = Slice(x, s, e, a, t) }"),
    Case("slice_negative_steps", "(float[9,8] x) => (float y) { s = Constant <value = int64[2] {-1, 6}> () "
         "e = Constant <value = int64[2] {-1000, 1}> () a = Constant <value = int64[2] {0, 1}> () "
         "t = Constant <value = int64[2] {-1, -2}> () y = Slice(x, s, e, a, t) }"),
    Case("slice_empty", "(float[5] x) => (float y) { s = Constant <value = int64[1] {3}> () "
         "e = Constant <value = int64[1] {2}> () y = Slice(x, s, e) }"),
    Case("slice_last_dynamic", "(float[batch,sequence,3] x) => (float y) { s = Constant <value = int64[1] {-1}> () "
         "e = Constant <value = int64[1] {9223372036854775807}> () a = Constant <value = int64[1] {1}> () "
         "y = Slice(x, s, e, a) }", **BATCH_AND_SEQUENCE),
    Case("slice_table_dynamic", "(float[batch,sequence] x, float[16,16] w_t) => (float y) { "
         "z = Constant <value = int64[1] {0}> () one = Constant <value = int64[1] {1}> () s = Shape(x) "
         "n = Gather <axis = 0> (s, one) r = Slice(w_t, z, n, z) y = Slice(r, z, n, one) }", **BATCH_AND_SEQUENCE),
    Case("gather_rows", "(float[11,4] t, int64[2,3] i) => (float y) { y = Gather(t, i) }", ranges={"i": (0, 11)}),
    Case("gather_axis_1_negative_indices", "(float[3,7,2] t, int64[4] i) => (float y) { y = Gather <axis = 1> (t, i) }",
         ranges={"i": (-7, 7)}),
    Case("gather_scalar", "(float[3,7,2] t) => (float y) "
         "{ i = Constant <value = int64 {-1}> () y = Gather <axis = 1> (t, i) }"),
    Case("gather_nd_elements", "(float[3,7] t, int64[4,5,2] i) => (float y) { y = GatherND(t, i) }", ranges={"i": (-3, 3)}),
    Case("gather_nd_slices_in_batches", "(float[3,7,2,5] t, int64[3,4,1] i) => (float y) "
         "{ y = GatherND <batch_dims = 1> (t, i) }", ranges={"i": (0, 7)}),
    Case("gather_nd_mask_dynamic", "(bool[batch,sequence] mask, int64[batch,1,1,sequence] zero) => (bool y) { "
         "n = Constant <value_ints = [-1]> () i = Constant <value_int = 0> () o = Constant <value_int = 1> () "
         "s = Shape(mask) b = Gather(s, i) q = Gather(s, o) rb = Range(i, b, o) rq = Range(i, q, o) "
         "ab = Constant <value_ints = [1, 2, 3]> () ub = Unsqueeze(rb, ab) bb = Add(ub, zero) bq = Add(rq, zero) "
         "nb = Unsqueeze(bb, n) nq = Unsqueeze(bq, n) at = Concat <axis = -1> (nb, nq) y = GatherND(mask, at) }",
         ranges={"zero": (0, 1)}, **BATCH_AND_SEQUENCE),
    Case("scatter_nd", "(float[5,4,3] x, int64[2,3,1] i, float[2,3,4,3] u) => (float y) { y = ScatterND(x, i, u) }",
         values={"i": [[[4], [0], [2]], [[1], [-2], [1]]]}),
    Case("scatter_nd_add", "(float[5,4] x, int64[3,2] i, float[3] u) => (float y) "
         "{ y = ScatterND <reduction = \"add\"> (x, i, u) }", values={"i": [[4, 1], [0, 3], [4, 1]]}, opset=18),
    Case("scatter_nd_max_of_slices", "(float[5,4] x, int64[3,1] i, float[3,4] u) => (float y) "
         "{ y = ScatterND <reduction = \"max\"> (x, i, u) }", values={"i": [[4], [0], [4]]}, opset=18),
    Case("scatter_nd_cache_dynamic", "(float[16,batch,4] cache, int64[sequence,1] at, float[sequence,batch,4] new) => "
         "(float y) { y = ScatterND(cache, at, new) }", dims={"batch": (1, 4), "sequence": (1, 8)},
         sizes=({"batch": 2, "sequence": 3}, {"batch": 4, "sequence": 1}), ranges={"at": (0, 1)}),
    Case("scatter_elements", "(float[4,5] x, int64[3,2] i, float[3,2] u) => (float y) "
         "{ y = ScatterElements <axis = 1> (x, i, u) }", values={"i": [[4, 0], [1, -2], [2, 0]]}),
    Case("scatter_elements_whole_rows_dynamic", "(float[batch,sequence,4] x, int64[batch,1,4] i, float[batch,1,4] u) => "
         "(float y) { y = ScatterElements <axis = 1> (x, i, u) }", ranges={"i": (0, 1)}, **BATCH_AND_SEQUENCE),
    Case("scatter_elements_add", "(float[4,5] x, int64[4,3] i, float[4,3] u) => (float y) "
         "{ y = ScatterElements <axis = -1, reduction = \"add\"> (x, i, u) }", ranges={"i": (0, 3)}, opset=18),
    Case("one_hot", "(int64[2,3] i, float[2] v) => (float y) { d = Constant <value_int = 5> () y = OneHot(i, d, v) }",
         ranges={"i": (-5, 6)}),
    Case("one_hot_axis_0", "(int64[2,3] i, int64[2] v) => (int64 y) "
         "{ d = Constant <value_int = 5> () y = OneHot <axis = 0> (i, d, v) }", ranges={"i": (0, 5)}),
    Case("pad_constant", "(float[2,3] x, float v) => (float y) "
         "{ p = Constant <value_ints = [1, 0, 2, 1]> () y = Pad(x, p, v) }"),
    Case("pad_negative", "(float[4,5] x) => (float y) { p = Constant <value_ints = [-1, 2, 1, -3]> () y = Pad(x, p) }"),
    Case("pad_axes_dynamic", "(float[batch,sequence] x) => (float y) { p = Constant <value_ints = [2, 1]> () "
         "a = Constant <value_ints = [-1]> () y = Pad(x, p, , a) }", opset=18, **BATCH_AND_SEQUENCE),
    Case("pad_reflect", "(float[4,5] x) => (float y) "
         "{ p = Constant <value_ints = [2, 0, 3, 4]> () y = Pad <mode = \"reflect\"> (x, p) }"),
    Case("pad_edge", "(float[4,5] x) => (float y) "
         "{ p = Constant <value_ints = [2, 0, 3, 4]> () y = Pad <mode = \"edge\"> (x, p) }"),
    Case("arg_max", "(float[4,5,3] x) => (int64 y) { y = ArgMax <axis = 1> (x) }"),
    Case("arg_max_last_of_equal", "(int32[4,9] x) => (int64 y) "
         "{ y = ArgMax <axis = -1, keepdims = 0, select_last_index = 1> (x) }"),
    Case("arg_min_dynamic", "(float[batch,sequence] x) => (int64 y) { y = ArgMin <axis = 1, keepdims = 0> (x) }",
         **BATCH_AND_SEQUENCE),
    Case("einsum_attention_dynamic", "(float[batch,sequence,2,3] q, float[batch,sequence,2,3] k) => (float y) "
         "{ y = Einsum <equation = \"bqhd, bkhd -> bhqk\"> (q, k) }", **BATCH_AND_SEQUENCE),
    Case("einsum_outer", "(float[3] a, float[4] b) => (float y) { y = Einsum <equation = \"i,j->ji\"> (a, b) }"),
    Case("einsum_ellipsis", "(float[2,3,4] a, float[4,5] b) => (float y) "
         "{ y = Einsum <equation = \"...ij,jk->...ik\"> (a, b) }"),
    Case("einsum_diagonal", "(float[4,4] a) => (float y, float z, float t) { y = Einsum <equation = \"ii->i\"> (a) "
         "z = Einsum <equation = \"ij->j\"> (a) t = Einsum <equation = \"ii\"> (a) }"),
    Case("einsum_three_operands", "(float[2,3] a, float[3,4] b, float[4,2] c) => (float y) "
         "{ y = Einsum <equation = \"ij,jk,kl->il\"> (a, b, c) }"),
    Case("if_on_a_size", "(float[n,1,3] x) => (float y) { s = Shape <start = 1, end = 2> (x) "
         "o = Constant <value_ints = [1]> () is_one = Equal(s, o) q = Squeeze(is_one) "
         "y = If (q) <then_branch = t () => (float[d, e] a) { a = Squeeze(x, o) }, "
         "else_branch = f () => (float[d, e, g] b) { b = Identity(x) }> }", **BATCH),
    Case("gather_int32_indices", "(float[9,2] t, int32[5] i) => (float y) { y = Gather(t, i) }", ranges={"i": (0, 9)}),
    Case("gather_embedding_dynamic", "(int64[batch,sequence] i, float[13,6] w_t) => (float y) { y = Gather(w_t, i) }",
         ranges={"i": (0, 13)}, **BATCH_AND_SEQUENCE),
]  # fmt: skip

GENERATE = [
    Case("constant", "(float[3] x) => (float y) { c = Constant <value = float[3] {1.5, -2.0, 0.25}> () y = Add(x, c) }"),
    Case("constant_only", "(float[3] x) => (float y, float z) "
         "{ y = Constant <value = float[3] {1.5, -2.0, 0.25}> () z = Neg(x) }"),
    Case("constant_of_shape", "(float[batch,sequence] x) => (float y) "
         "{ s = Shape(x) y = ConstantOfShape <value = float[1] {2.5}> (s) }", **BATCH_AND_SEQUENCE),
    Case("constant_of_shape_default", "(float[2] x) => (float y) { s = Constant <value = int64[2] {2, 2}> () "
         "z = ConstantOfShape(s) y = Add(x, z) }"),
    Case("range_constant", "(int64[4] x) => (int64 y) { s = Constant <value = int64 {7}> () "
         "e = Constant <value = int64 {-1}> () d = Constant <value = int64 {-2}> () r = Range(s, e, d) y = Add(x, r) }"),
    Case("range_dynamic", "(float[batch,sequence] x) => (int64 y) { s = Shape(x) i = Constant <value = int64 {1}> () "
         "z = Constant <value = int64 {0}> () n = Gather(s, i) y = Range(z, n, i) }", **BATCH_AND_SEQUENCE),
    Case("trilu_lower", "(float[4,5] x) => (float y) { y = Trilu <upper = 0> (x) }"),
    Case("trilu_upper_offset", "(float[2,5,4] x) => (float y) { k = Constant <value = int64 {-1}> () y = Trilu(x, k) }"),
    Case("trilu_dynamic", "(float[batch,sequence,sequence] x) => (float y) "
         "{ k = Constant <value = int64 {1}> () y = Trilu <upper = 1> (x, k) }", **BATCH_AND_SEQUENCE),
]  # fmt: skip

COLLECTIVE = [
    Case("all_reduce", "(float[3,5] x) => (float y) { y = com.microsoft.AllReduce(x) }", ranks=2),
    Case("all_reduce_dynamic", "(float[batch,sequence,6] x, float[6] w_b) => (float y) "
         "{ e = Mul(x, x) r = com.microsoft.AllReduce(e) y = Add(r, w_b) }", ranks=2, **BATCH_AND_SEQUENCE),
    Case("all_reduce_input_and_output", "(float[7] x) => (float y, float z) "
         "{ y = com.microsoft.AllReduce(x) z = Add(x, y) }", ranks=2),
    Case("all_gather_axis_0", "(float[3,5] x) => (float y) { y = com.microsoft.AllGather <axis = 0, group_size = 2> (x) }",
         ranks=2),
    Case("all_gather_axis_1", "(float[3,5,2] x) => (float y) { y = com.microsoft.AllGather <axis = 1, group_size = 2> (x) }",
         ranks=2),
    Case("all_gather_last_axis", "(float[3,5] x) => (float y) { y = com.microsoft.AllGather <axis = -1, group_size = 2> (x) }",
         ranks=2),
    Case("all_gather_int64", "(int64[3] x) => (int64 y) { y = com.microsoft.AllGather <axis = 0, group_size = 2> (x) }",
         ranks=2),
    Case("all_gather_dynamic", "(float[batch,sequence,6] x) => (float y) "
         "{ y = com.microsoft.AllGather <axis = -1, group_size = 2> (x) }", ranks=2, **BATCH_AND_SEQUENCE),
    Case("all_to_all", "(float[4,3] x) => (float y) { y = com.microsoft.AllToAll <group_size = 2> (x) }", ranks=2),
    Case("collective_chain", "(float[4,6] x) => (float y) { a = com.microsoft.AllReduce(x) t = Tanh(a) "
         "g = com.microsoft.AllGather <axis = 1, group_size = 2> (t) s = Sigmoid(g) y = com.microsoft.AllReduce(s) }",
         ranks=2),
    Case("row_split_linear", "(float[batch,4] x, float[4,6] w_m, float[6] w_b) => (float y) "
         "{ m = MatMul(x, w_m) r = com.microsoft.AllReduce(m) y = Add(r, w_b) }", ranks=2, weights_per_rank=True,
         dims={"batch": (1, 4)}, sizes=({"batch": 3}, {"batch": 1})),
    Case("all_reduce_4_ranks", "(float[37] x) => (float y) { y = com.microsoft.AllReduce(x) }", ranks=4),
]  # fmt: skip

OP_CASES = [*UNARY, *BINARY, *ACTIVATION, *NORMALIZATION, *LOGICAL, *CAST, *MATMUL, *GEMM, *REDUCE, *SHAPE, *MOVE, *GENERATE]
