"""One row for each operator of `braid ops`: a graph in ONNX's text, and its dimensions at three sizes.

Dimensions with lower-case names stay open in dynamic programs; those with upper-case names, and inputs whose names
begin with "c_" (weights), are numbers and constants of the model. `ranges` are of inputs: floats between two numbers,
integers from the first up to but without the second, which may be a dimension. `values` are those of whole inputs. Other inputs hold
normal floats, or integers from 0 to 9.
"""

import dataclasses

SIZES = ("small", "typical", "large")


@dataclasses.dataclass(frozen=True)
class Case:
    op: str
    graph: str
    dims: dict  # name: (small, typical, large)
    form: str = ""  # tells the cases of one operator apart
    opset: int = 21
    ranges: dict = dataclasses.field(default_factory=dict)
    values: dict = dataclasses.field(default_factory=dict)

    @property
    def title(self):
        return f"{self.op} {self.form}".strip()


ROWS = dict(n=(16, 128, 4096), d=(32, 768, 1024))  # 512, 98,304 and 4 million elements
IMAGE = dict(n=(1, 1, 8), c=(8, 64, 64), h=(16, 56, 112), w=(16, 56, 112))
# The same with channels that weights fix.
FILTERED = dict(n=(1, 1, 4), C=(4, 64, 128), F=(8, 64, 128), h=(16, 56, 56), w=(16, 56, 56))
SERIES = dict(n=(1, 1, 8), C=(4, 64, 256), F=(8, 64, 256), t=(100, 1000, 3000))
TOKENS = dict(b=(1, 1, 8), s=(8, 128, 512), H=(64, 768, 768))
HEADS = dict(b=(1, 1, 4), h=(2, 12, 12), s=(8, 128, 512), d=(32, 64, 64))


def unary(ops, dtype="float", result=None, dims=ROWS, attributes="", form="", opset=21, **ranges):
    return [
        Case(op, f"({dtype}[n,d] x) => ({result or dtype} y) {{ y = {op}{attributes}(x) }}", dims, form, opset, ranges)
        for op in ops.split()
    ]


def binary(ops, dtype="float", result=None, attributes="", form="", right="n,d", **ranges):
    return [
        Case(op, f"({dtype}[n,d] x, {dtype}[{right}] w) => ({result or dtype} y) {{ y = {op}{attributes}(x, w) }}", ROWS,
             form, ranges=ranges)
        for op in ops.split()
    ]  # fmt: skip


ELEMENTWISE = [
    *unary("Abs Ceil Cos Cosh Erf Exp Floor Neg Round Sigmoid Sign Sin Sinh Tan Tanh Celu Elu HardSigmoid HardSwish LeakyRelu "
           "Mish Relu Selu Shrink Softplus Softsign ThresholdedRelu Identity"),
    *unary("Gelu", opset=20), *unary("Swish", opset=24),
    *unary("Sin Cos", form="of large angles", x=(-1000.0, 1000.0)),
    *unary("Acos Asin Atanh", x=(-0.9, 0.9)), *unary("Acosh Log Sqrt Reciprocal", x=(1.0, 9.0)), *unary("Asinh Atan"),
    *unary("IsInf IsNaN", result="bool"), *unary("Not", "bool"), *unary("BitwiseNot", "int32"),
    *unary("Exp Sqrt", "double", form="of f64", x=(0.1, 3.0)),
    *binary("Add Sub Mul Div Max Min Mean Sum PRelu"),
    *binary("Add Mul", form="of a row", right="d"), *binary("Add Mul", form="of a column", right="n,1"),
    *binary("Pow", x=(0.1, 3.0)), *binary("Mod", attributes="<fmod = 1>"), *binary("Mod Div", "int64", form="of i64", x=(1, 99), w=(1, 9)),
    *binary("And Or Xor", "bool"), *binary("Equal Greater GreaterOrEqual Less LessOrEqual", result="bool"),
    *binary("BitwiseAnd BitwiseOr BitwiseXor", "int32"), *binary("BitShift", "uint32", attributes='<direction = "LEFT">'),
    Case("Where", "(bool[n,d] c, float[n,d] x, float[n,d] w) => (float y) { y = Where(c, x, w) }", ROWS),
    Case("Clip", "(float[n,d] x, float c_low, float c_high) => (float y) { y = Clip(x, c_low, c_high) }", ROWS,
         ranges=dict(c_low=(-0.5, -0.4), c_high=(0.4, 0.5))),
    *[Case("Cast", f"({a}[n,d] x) => ({b} y) {{ y = Cast <to = {code}> (x) }}", ROWS, f"{a} to {b}")
      for a, b, code in (("float", "float16", 10), ("float16", "float", 1), ("float", "int64", 7), ("int64", "float", 1),
                         ("float", "uint8", 2), ("float", "bfloat16", 16), ("float", "bool", 9))],
    Case("CastLike", "(float[n,d] x, int64[1] w) => (int64 y) { y = CastLike(x, w) }", ROWS),
    Case("BitCast", "(float[n,d] x) => (int32 y) { y = BitCast <to = 6> (x) }", ROWS, opset=26),
    *unary("com.microsoft.Gelu com.microsoft.QuickGelu com.microsoft.FastGelu"),
    Case("com.microsoft.BiasGelu", "(float[n,D] x, float[D] c_b) => (float y) { y = com.microsoft.BiasGelu(x, c_b) }",
         dict(n=(16, 128, 4096), D=(32, 768, 1024))),
    Case("com.microsoft.BiasAdd", "(float[2,n,320] x, float[320] c_b, float[2,n,320] s) => (float y) { y = com.microsoft.BiasAdd(x, c_b, s) }",
         dict(n=(16, 256, 4096))),
    Case("com.microsoft.BiasSplitGelu", "(float[2,n,2560] x, float[2560] c_b) => (float y) { y = com.microsoft.BiasSplitGelu(x, c_b) }",
         dict(n=(4, 64, 512))),
]  # fmt: skip

PRODUCTS = [
    Case("MatMul", "(float[n,K] x, float[K,M] c_w) => (float y) { y = MatMul(x, c_w) }",
         dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024))),
    Case("MatMul", "(float[b,h,s,d] x, float[b,h,d,s] w) => (float y) { y = MatMul(x, w) }", HEADS, "of two inputs"),
    Case("MatMul", "(double[n,K] x, double[K,M] c_w) => (double y) { y = MatMul(x, c_w) }",
         dict(n=(4, 64, 256), K=(64, 256, 512), M=(64, 256, 512)), "of f64"),
    Case("Gemm", "(float[n,K] x, float[M,K] c_w, float[M] c_b) => (float y) { y = Gemm <transB = 1> (x, c_w, c_b) }",
         dict(n=(1, 32, 1024), K=(64, 768, 1024), M=(64, 768, 1024))),
    Case("Einsum", '(float[b,s,h,d] q, float[b,s,h,d] k) => (float y) { y = Einsum <equation = "bqhd,bkhd->bhqk"> (q, k) }', HEADS),
    Case("MatMulInteger", "(uint8[n,K] x, int8[K,M] c_w) => (int32 y) { y = MatMulInteger(x, c_w) }",
         dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024))),
    Case("QLinearMatMul", "(uint8[n,K] x, float c_s, uint8 c_z, int8[K,M] c_w, float c_t, int8 c_v, float c_u, uint8 c_x) => (uint8 y) "
         "{ y = QLinearMatMul(x, c_s, c_z, c_w, c_t, c_v, c_u, c_x) }",
         dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024)), ranges=dict(c_s=(0.01, 0.02), c_t=(0.01, 0.02), c_u=(0.1, 0.2), c_v=(0, 1))),
    Case("com.microsoft.DynamicQuantizeMatMul", "(float[n,K] x, int8[K,M] c_w, float c_s) => (float y) "
         "{ y = com.microsoft.DynamicQuantizeMatMul(x, c_w, c_s) }", dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024))),
    Case("com.microsoft.MatMulIntegerToFloat", "(uint8[n,K] x, int8[K,M] c_w, float c_s, float c_t) => (float y) "
         "{ y = com.microsoft.MatMulIntegerToFloat(x, c_w, c_s, c_t) }", dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024)),
         ranges=dict(c_s=(0.01, 0.02), c_t=(0.01, 0.02))),
    Case("com.microsoft.QGemm", "(uint8[n,K] x, float c_s, uint8 c_z, int8[K,M] c_w, float c_t, int8 c_v) => (float y) "
         "{ y = com.microsoft.QGemm(x, c_s, c_z, c_w, c_t, c_v) }", dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024)),
         ranges=dict(c_s=(0.01, 0.02), c_t=(0.01, 0.02), c_v=(0, 1))),
    Case("com.microsoft.FusedGemm", '(float[n,K] x, float[K,M] c_w, float[M] c_b) => (float y) '
         '{ y = com.microsoft.FusedGemm <activation = "Relu"> (x, c_w, c_b) }', dict(n=(4, 128, 1024), K=(64, 768, 1024), M=(64, 768, 1024))),
    Case("com.microsoft.FusedMatMul", "(float[b,h,s,d] x, float[b,h,s,d] w) => (float y) "
         "{ y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.125> (x, w) }", HEADS),
    Case("com.microsoft.MatMulNBits", "(float[n,K] x, uint8[M,B,16] c_w, float[Q] c_s) => (float y) "
         "{ y = com.microsoft.MatMulNBits <K = {K}, N = {M}, bits = 4, block_size = 32> (x, c_w, c_s) }",
         dict(n=(1, 1, 128), K=(64, 768, 1024), M=(64, 768, 1024), B=(2, 24, 32), Q=(128, 18432, 32768)), ranges=dict(c_w=(0, 256))),
    Case("com.microsoft.GatherBlockQuantized", "(uint8[V,512] c_w, int64[n] i, float[V,32] c_s) => (float y) { y = "
         "com.microsoft.GatherBlockQuantized <block_size = 32, gather_axis = 0, quantize_axis = 1, bits = 4> (c_w, i, c_s) }",
         dict(V=(100, 5000, 30000), n=(4, 128, 1024)), ranges=dict(i=(0, "V"), c_w=(0, 256))),
    Case("DFT", "(float[n,d,1] x, int64 c_axis) => (float y) { y = DFT(x, , c_axis) }", dict(n=(4, 16, 64), d=(64, 400, 1024)), opset=20,
         ranges=dict(c_axis=(1, 2))),
    Case("STFT", "(float[n,t,1] x, int64 c_step, float[400] c_w) => (float y) { y = STFT(x, c_step, c_w) }",
         dict(n=(1, 1, 4), t=(1600, 16000, 64000)), ranges=dict(c_step=(160, 161))),
    Case("Attention", "(float[b,h,s,d] q, float[b,h,s,d] k, float[b,h,s,d] v) => (float y) { y = Attention(q, k, v) }", HEADS, opset=23),
    Case("com.microsoft.MultiHeadAttention", "(float[b,s,H] q, float[b,s,H] k, float[b,s,H] v) => (float y) "
         "{ y = com.microsoft.MultiHeadAttention <num_heads = 4> (q, k, v) }", TOKENS),
    Case("com.microsoft.Attention", "(float[b,s,H] x, float[H,T] c_w, float[T] c_b) => (float y) "
         "{ y = com.microsoft.Attention <num_heads = 4> (x, c_w, c_b) }", dict(TOKENS, T=(192, 2304, 2304))),
    Case("com.microsoft.GroupQueryAttention", "(float[1,s,768] q, float[1,s,256] k, float[1,s,256] v, int32[1] c_l, int32 c_t) => "
         "(float y, float[1,4,s,64] ok, float[1,4,s,64] ov) "
         "{ y, ok, ov = com.microsoft.GroupQueryAttention <num_heads = 12, kv_num_heads = 4> (q, k, v, , , c_l, c_t) }",
         dict(s=(8, 128, 512))),
    Case("com.microsoft.RotaryEmbedding", "(float[b,h,s,64] x, int64[b,s] p, float[1024,32] c_c, float[1024,32] c_s) => (float y) "
         "{ y = com.microsoft.RotaryEmbedding(x, p, c_c, c_s) }", dict(b=(1, 1, 4), h=(2, 12, 12), s=(8, 128, 512)), ranges=dict(p=(0, "s"))),
    *[Case(op, f"(float[s,n,H] x, float[1,G,H] c_w, float[1,G,H] c_r) => (float y) {{ y = {op} <hidden_size = {{H}}> (x, c_w, c_r) }}",
           dict(s=(8, 64, 256), n=(1, 4, 16), H=(16, 128, 256), G=tuple(gates * h for h in (16, 128, 256))))
      for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))],
    Case("com.microsoft.DynamicQuantizeLSTM", "(float[s,n,H] x, int8[1,H,G] c_w, int8[1,H,G] c_r, float[1] c_s, int8[1] c_z, float[1] c_t, "
         "int8[1] c_v) => (float y) { y = com.microsoft.DynamicQuantizeLSTM <hidden_size = {H}> (x, c_w, c_r, , , , , , c_s, c_z, c_t, c_v) }",
         dict(s=(8, 64, 256), n=(1, 4, 16), H=(16, 128, 256), G=(64, 512, 1024)),
         ranges=dict(c_s=(0.01, 0.02), c_t=(0.01, 0.02), c_z=(0, 1), c_v=(0, 1))),
]  # fmt: skip

WINDOWS = [
    Case("Conv", "(float[n,C,h,w] x, float[F,C,3,3] c_w, float[F] c_b) => (float y) { y = Conv <pads = [1,1,1,1]> (x, c_w, c_b) }", FILTERED),
    Case("Conv", "(float[n,3,h,w] x, float[64,3,7,7] c_w) => (float y) { y = Conv <pads = [3,3,3,3], strides = [2,2]> (x, c_w) }",
         dict(n=(1, 1, 4), h=(32, 224, 224), w=(32, 224, 224)), "stem"),
    Case("Conv", "(float[n,C,h,w] x, float[C,1,3,3] c_w) => (float y) { y = Conv <group = {C}, pads = [1,1,1,1]> (x, c_w) }",
         FILTERED, "depthwise"),
    Case("Conv", "(float[n,C,h,w] x, float[F,C,1,1] c_w) => (float y) { y = Conv(x, c_w) }", FILTERED, "1x1"),
    Case("Conv", "(float[n,1,t] x, float[8,1,9] c_w) => (float y) { y = Conv <pads = [4,4]> (x, c_w) }",
         dict(n=(1, 1, 8), t=(200, 4000, 16000)), "1-d, few channels"),
    Case("Conv", "(float[n,C,t] x, float[F,C,3] c_w) => (float y) { y = Conv <pads = [1,1]> (x, c_w) }", SERIES, "1-d"),
    Case("Conv", "(float[n,C,t] x, float[F,C,3] c_w) => (float y) { y = Conv <pads = [4,4], dilations = [4]> (x, c_w) }", SERIES, "1-d dilated"),
    Case("Conv", "(float[n,C,t] x, float[C,1,15] c_w) => (float y) { y = Conv <group = {C}, pads = [7,7]> (x, c_w) }", SERIES, "1-d depthwise"),
    Case("Conv", "(float[n,4,t,t,t] x, float[8,4,3,3,3] c_w) => (float y) { y = Conv(x, c_w) }", dict(n=(1, 1, 2), t=(6, 16, 32)), "3-d"),
    Case("ConvTranspose", "(float[n,C,h,w] x, float[C,F,2,2] c_w) => (float y) { y = ConvTranspose <strides = [2,2]> (x, c_w) }", FILTERED),
    Case("ConvTranspose", "(float[n,C,t] x, float[C,F,4] c_w) => (float y) { y = ConvTranspose <strides = [2], pads = [1,1]> (x, c_w) }",
         SERIES, "1-d"),
    Case("ConvInteger", "(uint8[n,C,h,w] x, uint8[F,C,3,3] c_w) => (int32 y) { y = ConvInteger(x, c_w) }", FILTERED),
    Case("QLinearConv", "(uint8[n,C,h,w] x, float c_s, uint8 c_z, int8[F,C,3,3] c_w, float c_t, int8 c_v, float c_u, uint8 c_x) => (uint8 y) "
         "{ y = QLinearConv(x, c_s, c_z, c_w, c_t, c_v, c_u, c_x) }", FILTERED,
         ranges=dict(c_s=(0.01, 0.02), c_t=(0.01, 0.02), c_u=(0.1, 0.2), c_v=(0, 1))),
    Case("com.microsoft.FusedConv", '(float[n,C,h,w] x, float[F,C,3,3] c_w) => (float y) '
         '{ y = com.microsoft.FusedConv <activation = "Relu"> (x, c_w) }', FILTERED),
    Case("DeformConv", "(float[n,C,h,w] x, float[F,C,3,3] c_w, float[n,18,h,w] o) => (float y) { y = DeformConv <pads = [1,1,1,1]> (x, c_w, o) }",
         dict(n=(1, 1, 2), C=(4, 16, 64), F=(8, 16, 64), h=(16, 32, 56), w=(16, 32, 56))),
    Case("Col2Im", "(float[n,Q,p] x, int64[2] c_i, int64[2] c_b) => (float y) { y = Col2Im(x, c_i, c_b) }",
         dict(n=(1, 1, 2), Q=(9, 144, 288), p=(196, 196, 196)), ranges=dict(c_i=(16, 17), c_b=(3, 4))),
    *[Case(op, f"(float[n,c,h,w] x) => (float y) {{ y = {op} <{attributes}> (x) }}", IMAGE, form)
      for op in ("MaxPool", "AveragePool", "LpPool")
      for form, attributes in (("3x3 / 2", "kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]"),
                               ("2x2 / 2", "kernel_shape = [2,2], strides = [2,2]"),
                               ("3x3", "kernel_shape = [3,3], pads = [1,1,1,1]"),
                               ("dilated", "kernel_shape = [3,3], dilations = [2,2], pads = [2,2,2,2]"))],
    *[Case(op, f"(float[n,c,t] x) => (float y) {{ y = {op} <kernel_shape = [5], strides = [2], ceil_mode = 1> (x) }}",
           dict(n=(1, 1, 8), c=(4, 64, 256), t=(100, 1000, 3000)), "1-d, ceil_mode") for op in ("MaxPool", "AveragePool")],
    *[Case(op, f"(float[n,c,t,t,t] x) => (float y) {{ y = {op} <kernel_shape = [2,2,2], strides = [2,2,2]> (x) }}",
           dict(n=(1, 1, 2), c=(4, 16, 32), t=(8, 24, 48)), "3-d") for op in ("MaxPool", "AveragePool")],
    Case("AveragePool", "(float[n,c,h,w] x) => (float y) { y = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1], count_include_pad = 1> (x) }",
         IMAGE, "with pads"),
    Case("MaxPool", "(float[n,c,h,w] x) => (float y, int64 i) { y, i = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) }", IMAGE, "with indices"),
    Case("MaxPool", "(uint8[n,c,h,w] x) => (uint8 y) { y = MaxPool <kernel_shape = [3,3], strides = [2,2]> (x) }", IMAGE, "of bytes"),
    Case("MaxUnpool", "(float[1,C,16,16] x, int64[1,C,16,16] i) => (float y) { y = MaxUnpool <kernel_shape = [2,2], strides = [2,2]> (x, i) }",
         dict(C=(2, 64, 512), P=(2048, 65536, 524288)), ranges=dict(i=(0, "P"))),
    *[Case(op, f"(float[n,c,h,w] x) => (float y) {{ y = {op}(x) }}", IMAGE) for op in ("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")],
    *[Case("Resize", f'(float[n,c,h,w] x, float[4] c_s) => (float y) {{ y = Resize <mode = "{mode}"{more}> (x, , c_s) }}',
           dict(n=(1, 1, 4), c=(3, 32, 64), h=(16, 56, 56), w=(16, 56, 56)), form, values=dict(c_s=(1, 1, 2, 2)))
      for mode, more, form in (("nearest", ', coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"', "nearest"), ("linear", "", "linear"),
                               ("cubic", "", "cubic"))],
    Case("GridSample", "(float[n,c,h,w] x, float[n,h,w,2] g) => (float y) { y = GridSample(x, g) }",
         dict(n=(1, 1, 4), c=(3, 16, 64), h=(16, 56, 56), w=(16, 56, 56)), opset=20, ranges=dict(g=(-1.0, 1.0))),
    Case("AffineGrid", "(float[n,2,3] x, int64[4] c_s) => (float y) { y = AffineGrid(x, c_s) }", dict(n=(32, 32, 32)), opset=20,
         values=dict(c_s=(32, 16, 64, 64))),
    Case("RoiAlign", "(float[1,c,h,w] x, float[r,4] o, int64[r] i) => (float y) "
         "{ y = RoiAlign <output_height = 7, output_width = 7, sampling_ratio = 2> (x, o, i) }",
         dict(c=(8, 64, 256), h=(16, 56, 56), w=(16, 56, 56), r=(2, 20, 100)), ranges=dict(o=(0.0, 16.0), i=(0, 1))),
    Case("LRN", "(float[n,c,h,w] x) => (float y) { y = LRN <size = 5> (x) }", IMAGE),
    Case("DepthToSpace", "(float[n,c,h,w] x) => (float y) { y = DepthToSpace <blocksize = 2> (x) }", IMAGE),
    Case("SpaceToDepth", "(float[n,c,h,w] x) => (float y) { y = SpaceToDepth <blocksize = 2> (x) }", IMAGE),
]  # fmt: skip

REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
FOLDS = [
    *[Case(op, f"(float[n,d] x, int64[1] c_a) => (float y) {{ y = {op}(x, c_a) }}", ROWS, form, ranges=dict(x=(0.5, 1.0), c_a=(a, a + 1)))
      for op in REDUCTIONS.split() for a, form in ((1, ""), (0, "of columns"))],
    *unary("Softmax LogSoftmax Hardmax LpNormalization"), *unary("Softmax", attributes="<axis = 0>", form="over columns"),
    Case("Softmax", "(float[b,h,s,s] x) => (float y) { y = Softmax(x) }", HEADS, "of scores"),
    *unary("ArgMax ArgMin", result="int64", attributes="<axis = 1>"),
    Case("TopK", "(float[n,d] x, int64[1] c_k) => (float y, int64 i) { y, i = TopK(x, c_k) }", ROWS, "of 8", ranges=dict(c_k=(8, 9))),
    Case("TopK", "(float[1,v] x, int64[1] c_k) => (float y, int64 i) { y, i = TopK(x, c_k) }", dict(v=(1000, 32000, 150000)), "of 50 in a row",
         ranges=dict(c_k=(50, 51))),
    *[Case("CumSum", f"(float[n,d] x, int64 c_a) => (float y) {{ y = CumSum{more}(x, c_a) }}", ROWS, form, ranges=dict(c_a=(a, a + 1)))
      for a, more, form in ((1, "", "of rows"), (0, "", "of columns"), (1, "<exclusive = 1, reverse = 1>", "reverse"))],
    Case("CumSum", "(int64[b,s] x, int64 c_a) => (int64 y) { y = CumSum(x, c_a) }", dict(b=(1, 4, 16), s=(8, 128, 2048)), "of a mask",
         ranges=dict(c_a=(1, 2))),
    Case("CumProd", "(float[n,d] x, int64 c_a) => (float y) { y = CumProd(x, c_a) }", ROWS, opset=26, ranges=dict(c_a=(1, 2))),
    Case("Det", "(float[n,4,4] x) => (float y) { y = Det(x) }", dict(n=(16, 256, 4096))),
    Case("LayerNormalization", "(float[b,s,H] x, float[H] c_w, float[H] c_b) => (float y) { y = LayerNormalization(x, c_w, c_b) }", TOKENS),
    Case("RMSNormalization", "(float[b,s,H] x, float[H] c_w) => (float y) { y = RMSNormalization(x, c_w) }", TOKENS, opset=23),
    Case("SimplifiedLayerNormalization", "(float[b,s,H] x, float[H] c_w) => (float y) { y = SimplifiedLayerNormalization(x, c_w) }", TOKENS),
    Case("com.microsoft.SkipLayerNormalization", "(float[b,s,H] x, float[b,s,H] z, float[H] c_w, float[H] c_b) => (float y) "
         "{ y = com.microsoft.SkipLayerNormalization(x, z, c_w, c_b) }", TOKENS),
    Case("com.microsoft.SkipSimplifiedLayerNormalization", "(float[b,s,H] x, float[b,s,H] z, float[H] c_w) => (float y) "
         "{ y = com.microsoft.SkipSimplifiedLayerNormalization(x, z, c_w) }", TOKENS),
    Case("com.microsoft.EmbedLayerNormalization", "(int32[b,s] i, int32[b,s] j, float[5000,H] c_w, float[512,H] c_p, float[2,H] c_s, float[H] c_u, "
         "float[H] c_b) => (float y, int32 m) { y, m = com.microsoft.EmbedLayerNormalization(i, j, c_w, c_p, c_s, c_u, c_b) }", TOKENS,
         ranges=dict(j=(0, 2))),
    Case("BatchNormalization", "(float[n,64,h,w] x, float[64] c_s, float[64] c_b, float[64] c_m, float[64] c_v) => (float y) "
         "{ y = BatchNormalization(x, c_s, c_b, c_m, c_v) }", dict(n=(1, 1, 8), h=(8, 56, 112), w=(8, 56, 112)), ranges=dict(c_v=(0.5, 1.0))),
    *[Case(op, f"(float[n,64,h,w] x, float[64] c_s, float[64] c_b) => (float y) {{ y = {op} {attributes} (x, c_s, c_b) }}",
           dict(n=(1, 1, 4), h=(8, 56, 56), w=(8, 56, 56)))
      for op, attributes in (("InstanceNormalization", ""), ("GroupNormalization", "<num_groups = 8>"))],
    Case("MeanVarianceNormalization", "(float[n,c,h,w] x) => (float y) { y = MeanVarianceNormalization(x) }", IMAGE),
    Case("NegativeLogLikelihoodLoss", "(float[n,d] x, int64[n] t) => (float y) { y = NegativeLogLikelihoodLoss(x, t) }", ROWS, ranges=dict(t=(0, "d"))),
    Case("SoftmaxCrossEntropyLoss", "(float[n,d] x, int64[n] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }", ROWS, ranges=dict(t=(0, "d"))),
    *unary("Bernoulli", attributes="<seed = 1.0>", x=(0.0, 1.0)),
    Case("Multinomial", "(float[n,d] x) => (int32 y) { y = Multinomial <sample_size = 8, seed = 1.0> (x) }", dict(n=(1, 16, 64), d=(64, 1000, 4000))),
    *unary("RandomNormalLike RandomUniformLike", attributes="<seed = 1.0>"),
]  # fmt: skip


def quantised(op, inputs, result="uint8", attributes="", dims=ROWS):
    """Types and names of inputs; scales are those of type float."""
    names = ", ".join(word.split()[1] for word in inputs.split(", "))
    scales = {word.split()[1]: (0.01, 0.02) for word in inputs.split(", ") if word.startswith("float ")}
    return Case(op, f"({inputs}) => ({result} y) {{ y = {op}{attributes}({names}) }}", dims, ranges=scales)


X, W, Y = "uint8[n,d] x, float c_s, uint8 c_z", "uint8[n,d] w, float c_t, uint8 c_v", "float c_u, uint8 c_x"
QUANTISED = [
    quantised("QuantizeLinear", "float[n,d] x, float c_s, uint8 c_z"),
    quantised("DequantizeLinear", X, "float"),
    quantised("com.microsoft.QuantizeLinear", "float[n,d] x, float c_s, uint8 c_z"),
    quantised("com.microsoft.DequantizeLinear", X, "float"),
    Case("DynamicQuantizeLinear", "(float[n,d] x) => (uint8 y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }", ROWS),
    *[quantised(f"com.microsoft.{op}", f"{X}, {W}, {Y}") for op in ("QLinearAdd", "QLinearMul")],
    quantised("com.microsoft.QLinearLeakyRelu", f"{X}, {Y}", attributes=" <alpha = 0.1> "),
    quantised("com.microsoft.QLinearSigmoid", f"{X}, {Y}"),
    quantised("com.microsoft.QLinearSoftmax", f"{X}, {Y}", attributes=" <axis = 1, opset = 13> "),
    quantised("com.microsoft.QLinearConcat", f"{Y}, {X}, {W}", attributes=" <axis = 1> "),
    quantised("com.microsoft.QLinearWhere", f"bool[n,d] c, {X}, {W}, {Y}"),
    quantised("com.microsoft.QLinearReduceMean", f"{X}, {Y}", attributes=" <axes = [1], keepdims = 1> "),
    quantised("com.microsoft.QLinearAveragePool", f"uint8[n,c,h,w] x, float c_s, uint8 c_z, {Y}", attributes=" <kernel_shape = [3,3]> ", dims=IMAGE),
    quantised("com.microsoft.QLinearGlobalAveragePool", f"uint8[n,c,h,w] x, float c_s, uint8 c_z, {Y}", dims=IMAGE),
]  # fmt: skip

SCATTERED = dict(n=(16, 128, 1024), d=(32, 768, 1024), k=(4, 64, 512))
MOVEMENT = [
    Case("Transpose", "(float[n,d] x) => (float y) { y = Transpose <perm = [1,0]> (x) }", ROWS),
    Case("Transpose", "(float[b,s,h,d] x) => (float y) { y = Transpose <perm = [0,2,1,3]> (x) }", HEADS, "of heads"),
    Case("Transpose", "(float[n,c,h,w] x) => (float y) { y = Transpose <perm = [0,2,3,1]> (x) }", IMAGE, "to channels last"),
    Case("Transpose", "(uint8[n,d] x) => (uint8 y) { y = Transpose <perm = [1,0]> (x) }", ROWS, "of bytes"),
    Case("Expand", "(float[n,1,d] x, int64[3] c_s) => (float y) { y = Expand(x, c_s) }", ROWS | dict(n=(8, 64, 512)),
         values=dict(c_s=(1, 8, 1))),
    Case("Tile", "(float[n,d] x, int64[2] c_r) => (float y) { y = Tile(x, c_r) }", ROWS, values=dict(c_r=(2, 2))),
    Case("Concat", "(float[n,d] x, float[n,d] w) => (float y) { y = Concat <axis = 1> (x, w) }", ROWS),
    Case("Split", "(float[n,D] x) => (float y, float z) { y, z = Split <axis = 1, num_outputs = 2> (x) }", dict(n=ROWS["n"], D=ROWS["d"])),
    Case("Slice", "(float[n,d] x, int64[1] c_b, int64[1] c_e, int64[1] c_a) => (float y) { y = Slice(x, c_b, c_e, c_a) }", ROWS,
         ranges=dict(c_b=(3, 4), c_e=(-3, -2), c_a=(1, 2))),
    *[Case("Pad", f'(float[n,c,h,w] x, int64[8] c_p) => (float y) {{ y = Pad <mode = "{mode}"> (x, c_p) }}', IMAGE, mode,
           values=dict(c_p=(0, 0, 2, 2, 0, 0, 2, 2))) for mode in ("constant", "reflect", "edge")],
    Case("CenterCropPad", "(float[n,d] x, int64[2] c_s) => (float y) { y = CenterCropPad(x, c_s) }", ROWS, ranges=dict(c_s=(16, 17))),
    Case("Gather", "(float[v,d] x, int64[n] i) => (float y) { y = Gather(x, i) }", dict(v=(100, 5000, 30000), d=(32, 768, 1024), n=(4, 128, 1024)),
         ranges=dict(i=(0, "v"))),
    Case("GatherElements", "(float[n,d] x, int64[n,k] i) => (float y) { y = GatherElements <axis = 1> (x, i) }", SCATTERED, ranges=dict(i=(0, "d"))),
    Case("GatherND", "(float[n,n,d] x, int64[k,2] i) => (float y) { y = GatherND(x, i) }", dict(n=(8, 32, 64), d=(8, 64, 256), k=(10, 500, 5000)),
         ranges=dict(i=(0, "n"))),
    Case("Scatter", "(float[n,d] x, int64[n,k] i, float[n,k] u) => (float y) { y = Scatter <axis = 1> (x, i, u) }", SCATTERED, opset=10,
         ranges=dict(i=(0, "d"))),
    Case("ScatterElements", "(float[n,d] x, int64[n,k] i, float[n,k] u) => (float y) { y = ScatterElements <axis = 1> (x, i, u) }", SCATTERED,
         ranges=dict(i=(0, "d"))),
    Case("ScatterElements", '(float[n,d] x, int64[k,d] i, float[k,d] u) => (float y) { y = ScatterElements <axis = 0, reduction = "add"> (x, i, u) }',
         SCATTERED, "add along columns", ranges=dict(i=(0, "n"))),
    Case("ScatterND", "(float[n,n,d] x, int64[k,2] i, float[k,d] u) => (float y) { y = ScatterND(x, i, u) }",
         dict(n=(8, 32, 64), d=(8, 64, 256), k=(10, 500, 3000)), ranges=dict(i=(0, "n"))),
    Case("ScatterND", '(float[n] x, int64[k,1] i, float[k] u) => (float y) { y = ScatterND <reduction = "add"> (x, i, u) }',
         dict(n=(100, 10000, 1000000), k=(100, 10000, 1000000)), "histogram", ranges=dict(i=(0, "n"))),
    Case("TensorScatter", "(float[b,h,t,64] x, float[b,h,1,64] u, int64[b] i) => (float y) { y = TensorScatter(x, u, i) }",
         dict(b=(1, 1, 4), h=(2, 8, 8), t=(16, 512, 2048)), opset=24, ranges=dict(i=(0, 9))),
    Case("OneHot", "(int64[n] x, int64 c_d, float[2] c_v) => (float y) { y = OneHot(x, c_d, c_v) }", dict(n=(16, 256, 4096)),
         ranges=dict(c_d=(100, 101), x=(0, 100))),
    Case("Trilu", "(float[n,n] x) => (float y) { y = Trilu(x) }", dict(n=(16, 256, 2048))),
    Case("EyeLike", "(float[n,n] x) => (float y) { y = EyeLike(x) }", dict(n=(16, 256, 2048))),
    Case("ReverseSequence", "(float[t,b,d] x, int64[b] l) => (float y) { y = ReverseSequence(x, l) }",
         dict(t=(16, 128, 512), b=(1, 4, 16), d=(8, 128, 256)), ranges=dict(l=(1, "t"))),
    Case("Reshape", "(float[n,4,D] x, int64[2] c_s) => (float y) { y = Reshape(x, c_s) }", dict(n=(4, 32, 1024), D=(32, 768, 1024)),
         values=dict(c_s=(0, -1))),
    *unary("Flatten Dropout"),
    Case("Squeeze", "(float[n,1,d] x, int64[1] c_a) => (float y) { y = Squeeze(x, c_a) }", ROWS, ranges=dict(c_a=(1, 2))),
    Case("Unsqueeze", "(float[n,d] x, int64[1] c_a) => (float y) { y = Unsqueeze(x, c_a) }", ROWS, ranges=dict(c_a=(1, 2))),
    Case("ConstantOfShape", "(float[n,d] x) => (float y) { s = Shape(x) y = ConstantOfShape(s) }", ROWS),
    Case("Range", "(float[n] x) => (int64 y) { s = Shape(x) a = Constant <value_int = 0> () b = Constant <value_int = 1> () "
         "z = Constant <value_ints = [0]> () e = Squeeze(s, z) y = Range(a, e, b) }", dict(n=(16, 1000, 100000))),
    *[Case(op, f"(float[n] x) => (float y) {{ s = Shape(x) z = Constant <value_ints = [0]> () e = Squeeze(s, z) y = {op}(e) }}",
           dict(n=(16, 400, 16000))) for op in ("BlackmanWindow", "HammingWindow", "HannWindow")],
]  # fmt: skip

CASES = [*ELEMENTWISE, *PRODUCTS, *WINDOWS, *FOLDS, *QUANTISED, *MOVEMENT]

# Operators without a row, by the reason.
WITHOUT = {
    "control flow: its bodies decide": "If Loop Scan",
    "lists are taken apart while compiling": "Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceErase SequenceInsert SequenceLength SplitToSequence ConcatFromSequence",
    "its result is known while compiling": "Constant Shape Size MelWeightMatrix RandomNormal RandomUniform",
    "models of them stand in ../trees": "ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer ai.onnx.ml.FeatureVectorizer "
    "ai.onnx.ml.Imputer ai.onnx.ml.LabelEncoder ai.onnx.ml.LinearClassifier ai.onnx.ml.LinearRegressor ai.onnx.ml.Normalizer "
    "ai.onnx.ml.OneHotEncoder ai.onnx.ml.SVMClassifier ai.onnx.ml.SVMRegressor ai.onnx.ml.Scaler ai.onnx.ml.TreeEnsemble "
    "ai.onnx.ml.TreeEnsembleClassifier ai.onnx.ml.TreeEnsembleRegressor",
    "its result's size depends on data": "NonZero NonMaxSuppression Unique Compress",
    "a collective": "DistCollective AllGather AllReduce AllToAll BatchSendRecv Broadcast OfRank Recv ReduceScatter Send ShardDimAllToAll "
    "WaitTensor com.microsoft.AllGather com.microsoft.AllReduce com.microsoft.AllToAll",
    "ONNX Runtime has no kernel of it for processors": "CausalConvWithState Upsample com.microsoft.GemmFastGelu com.microsoft.GroupNorm "
    "com.microsoft.SkipGroupNorm com.microsoft.NhwcConv com.microsoft.NhwcFusedConv com.microsoft.QLinearConv com.microsoft.QAttention "
    "com.microsoft.QEmbedLayerNormalization com.microsoft.TransposeMatMul",
}
