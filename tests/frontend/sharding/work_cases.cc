#include "tests/frontend/sharding/work_cases.h"

#include <fmt/format.h>

#include <sstream>

#include "tests/frontend/models.h"

namespace braid::frontend::sharding {
namespace {

using Cases = std::vector<WorkCase>;

// y = op(x), of one size and type.
void add_unary(Cases& cases) {
  std::istringstream names(
      "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round "
      "Sigmoid Sign Sin Sinh Sqrt Tan Tanh Celu Elu HardSigmoid HardSwish LeakyRelu Mish Relu "
      "Selu Shrink Softplus Softsign ThresholdedRelu Softmax LogSoftmax Hardmax "
      "LpNormalization com.microsoft.Gelu com.microsoft.QuickGelu com.microsoft.FastGelu");
  for (std::string op; names >> op;)
    cases.push_back({op, fmt::format("g (float[8,64,256] x) => (float[8,64,256] y) {{ y = {}(x) }}", op)});
  for (const char* op : {"Gelu", "Swish"})
    cases.push_back(
        {op, fmt::format("g (float[8,64,256] x) => (float[8,64,256] y) {{ y = {}(x) }}", op), 24});
  for (const char* op : {"IsInf", "IsNaN"})
    cases.push_back({op, fmt::format("g (float[8,64,256] x) => (bool[8,64,256] y) {{ y = {}(x) }}", op)});
  cases.push_back({"Not", "g (bool[64,256] x) => (bool[64,256] y) { y = Not(x) }"});
  cases.push_back({"BitwiseNot", "g (int32[64,256] x) => (int32[64,256] y) { y = BitwiseNot(x) }"});
  cases.push_back(
      {"Clip",
       "g (float[64,256] x, float c_low, float c_high) => (float[64,256] y) { y = Clip(x, c_low, c_high) }"});
  cases.push_back({"Cast", "g (float[64,256] x) => (int64[64,256] y) { y = Cast <to = 7> (x) }"});
  cases.push_back(
      {"CastLike", "g (float[64,256] x, int64[1] like) => (int64[64,256] y) { y = CastLike(x, like) }"});
  cases.push_back({"BitCast", "g (float[64,256] x) => (int32[64,256] y) { y = BitCast <to = 6> (x) }", 26});
}

void add_binary(Cases& cases) {
  for (const char* op : {"Add", "Div", "Mod", "Mul", "Pow", "Sub", "PRelu", "Max", "Mean", "Min", "Sum"}) {
    cases.push_back(
        {op, fmt::format("g (float[64,256] x, float[64,256] w) => (float[64,256] y) {{ y = {}{}(x, w) }}", op,
                         std::string(op) == "Mod" ? " <fmod = 1> " : "")});
  }
  for (const char* op : {"And", "Or", "Xor"})
    cases.push_back(
        {op, fmt::format("g (bool[64,256] x, bool[64,256] w) => (bool[64,256] y) {{ y = {}(x, w) }}", op)});
  for (const char* op : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
    cases.push_back(
        {op, fmt::format("g (float[64,256] x, float[64,256] w) => (bool[64,256] y) {{ y = {}(x, w) }}", op)});
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    cases.push_back(
        {op,
         fmt::format("g (int32[64,256] x, int32[64,256] w) => (int32[64,256] y) {{ y = {}(x, w) }}", op)});
  cases.push_back({"BitShift",
                   "g (uint32[64,256] x, uint32[64,256] w) => (uint32[64,256] y) { y = BitShift <direction = "
                   "\"LEFT\"> (x, w) }"});
  cases.push_back(
      {"Where",
       "g (bool[64,256] c, float[64,256] x, float[64,256] w) => (float[64,256] y) { y = Where(c, x, w) }"});
  cases.push_back({"Sum",
                   "g (float[64,256] x, float[64,256] w, float[64,256] v, float[64,256] u) => (float[64,256] "
                   "y) { y = Sum(x, w, v, u) }"});
  for (const char* op : {"BiasAdd"})
    cases.push_back({fmt::format("com.microsoft.{}", op),
                     fmt::format("g (float[2,64,256] x, float[256] b, float[2,64,256] s) => (float[2,64,256] "
                                 "y) {{ y = com.microsoft.{}(x, b, s) }}",
                                 op)});
  cases.push_back(
      {"com.microsoft.BiasGelu",
       "g (float[64,256] x, float[256] b) => (float[64,256] y) { y = com.microsoft.BiasGelu(x, b) }"});
  cases.push_back({"com.microsoft.BiasSplitGelu",
                   "g (float[2,64,256] x, float[256] b) => (float[2,64,128] y) { y = "
                   "com.microsoft.BiasSplitGelu(x, b) }"});
}

void add_products(Cases& cases) {
  const Cases own = {
      {"MatMul", "g (float[64,256] x, float[256,512] w) => (float[64,512] y) { y = MatMul(x, w) }"},
      {"MatMul", "g (float[4,8,64,32] x, float[4,8,32,64] w) => (float[4,8,64,64] y) { y = MatMul(x, w) }"},
      {"Gemm",
       "g (float[64,256] x, float[512,256] w, float[512] b) => (float[64,512] y) { y = Gemm <transB = 1> (x, "
       "w, b) }"},
      {"Gemm", "g (float[256,64] x, float[256,512] w) => (float[64,512] y) { y = Gemm <transA = 1> (x, w) }"},
      {"Einsum",
       "g (float[4,64,8,32] q, float[4,48,8,32] k) => (float[4,8,64,48] y) { y = Einsum <equation = "
       "\"bqhd,bkhd->bhqk\"> (q, k) }"},
      {"Einsum",
       "g (float[8,64,256] x, float[256,4,32] w) => (float[8,64,4,32] y) { y = Einsum <equation = "
       "\"...d,dhe->...he\"> (x, w) }"},
      {"Einsum",
       "g (float[64,256] x, float[64,256] w) => (float[64,256] y) { y = Einsum <equation = \"ij,ij->ij\"> "
       "(x, w) }"},
      {"Einsum",
       "g (float[32,64] x, float[64,48] w, float[48,16] v) => (float[32,16] y) { y = Einsum <equation = "
       "\"ij,jk,kl->il\"> (x, w, v) }"},
      {"Einsum", "g (float[64,256] x) => (float[256] y) { y = Einsum <equation = \"ij->j\"> (x) }"},
      {"MatMulInteger",
       "g (uint8[64,256] x, int8[256,512] w) => (int32[64,512] y) { y = MatMulInteger(x, w) }"},
      {"QLinearMatMul",
       "g (uint8[64,256] x, float xs, uint8 xz, int8[256,512] c_w, float ws, int8 wz, float ys, uint8 yz) => "
       "(uint8[64,512] y) { y = QLinearMatMul(x, xs, xz, c_w, ws, wz, ys, yz) }"},
      {"com.microsoft.QGemm",
       "g (uint8[64,256] x, float xs, uint8 xz, int8[256,512] c_w, float ws, int8 wz) => (float[64,512] y) { "
       "y = com.microsoft.QGemm(x, xs, xz, c_w, ws, wz) }"},
      {"com.microsoft.QGemm",
       "g (uint8[256,64] x, float xs, uint8 xz, int8[256,512] c_w, float ws, int8 wz) => (float[64,512] y) { "
       "y = com.microsoft.QGemm <transA = 1> (x, xs, xz, c_w, ws, wz) }"},
      {"com.microsoft.DynamicQuantizeMatMul",
       "g (float[64,256] x, int8[256,512] c_w, float ws) => (float[64,512] y) { y = "
       "com.microsoft.DynamicQuantizeMatMul(x, c_w, ws) }"},
      {"com.microsoft.MatMulIntegerToFloat",
       "g (uint8[64,256] x, int8[256,512] c_w, float xs, float ws) => (float[64,512] y) { y = "
       "com.microsoft.MatMulIntegerToFloat(x, c_w, xs, ws) }"},
      {"com.microsoft.FusedGemm",
       "g (float[64,256] x, float[256,512] w, float[512] b) => (float[64,512] y) { y = "
       "com.microsoft.FusedGemm <activation = \"Relu\"> (x, w, b) }"},
      {"com.microsoft.FusedMatMul",
       "g (float[8,256,64] x, float[8,256,512] w) => (float[8,64,512] y) { y = com.microsoft.FusedMatMul "
       "<transA = 1> (x, w) }"},
      {"com.microsoft.FusedMatMul",
       "g (float[256,8,64] x, float[8,256,512] w) => (float[8,64,512] y) { y = com.microsoft.FusedMatMul "
       "<transA = 1, transBatchA = 1> (x, w) }"},
      {"com.microsoft.TransposeMatMul",
       "g (float[8,64,256] x, float[8,512,256] w) => (float[8,64,512] y) { y = com.microsoft.TransposeMatMul "
       "<transB = 1> (x, w) }"},
      {"com.microsoft.GemmFastGelu",
       "g (float[64,256] x, float[256,512] w, float[512] b) => (float[64,512] y) { y = "
       "com.microsoft.GemmFastGelu(x, w, b) }"},
      {"com.microsoft.MatMulNBits",
       "g (float[64,256] x, uint8[512,8,16] c_w, float[4096] c_s) => (float[64,512] y) { y = "
       "com.microsoft.MatMulNBits <K = 256, N = 512, bits = 4, block_size = 32> (x, c_w, c_s) }"},
      {"com.microsoft.GatherBlockQuantized",
       "g (uint8[512,128] w, int64[64] i, float[512,8] s) => (float[64,256] y) { y = "
       "com.microsoft.GatherBlockQuantized <block_size = 32, gather_axis = 0, quantize_axis = 1, bits = 4> "
       "(w, i, s) }"},
      {"DFT", "g (float[8,256,1] x) => (float[8,256,2] y) { y = DFT <axis = 1> (x) }", 17},
      {"DFT",
       "g (float[8,256,64,2] x, int64 c_length, int64 a) => (float[8,256,64,2] y) { a1 = Constant <value_int "
       "= 1> () y = DFT(x, , a1) }",
       20},
      {"STFT",
       "g (float[4,2048,1] x, float[256] w) => (float[4,15,129,2] y) { s = Constant <value_int = 128> () y = "
       "STFT(x, s, w) }"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void add_convolutions(Cases& cases) {
  const Cases own = {
      {"Conv",
       "g (float[2,16,32,32] x, float[24,16,3,3] w, float[24] b) => (float[2,24,32,32] y) { y = Conv <pads = "
       "[1,1,1,1]> (x, w, b) }"},
      {"Conv",
       "g (float[2,16,32,32] x, float[16,1,3,3] w) => (float[2,16,32,32] y) { y = Conv <group = 16, pads = "
       "[1,1,1,1]> (x, w) }"},
      {"ConvTranspose",
       "g (float[2,16,32,32] x, float[16,24,2,2] w) => (float[2,24,64,64] y) { y = ConvTranspose <strides = "
       "[2,2]> (x, w) }"},
      {"ConvInteger",
       "g (uint8[2,16,32,32] x, uint8[24,16,3,3] w) => (int32[2,24,30,30] y) { y = ConvInteger(x, w) }"},
      {"QLinearConv",
       "g (uint8[2,16,32,32] x, float xs, uint8 xz, int8[24,16,3,3] c_w, float ws, int8 wz, float ys, uint8 "
       "yz, int32[24] c_b) => (uint8[2,24,30,30] y) { y = QLinearConv(x, xs, xz, c_w, ws, wz, ys, yz, c_b) "
       "}"},
      {"com.microsoft.QLinearConv",
       "g (uint8[2,32,32,16] x, float xs, uint8 xz, int8[24,16,3,3] c_w, float ws, int8 wz, float ys, uint8 "
       "yz) => (uint8[2,30,30,24] y) { y = com.microsoft.QLinearConv <channels_last = 1> (x, xs, xz, c_w, "
       "ws, wz, ys, yz) }"},
      {"com.microsoft.FusedConv",
       "g (float[2,16,32,32] x, float[24,16,3,3] w, float[24] b) => (float[2,24,30,30] y) { y = "
       "com.microsoft.FusedConv <activation = \"Relu\"> (x, w, b) }"},
      {"com.microsoft.NhwcConv",
       "g (float[2,32,32,16] x, float[24,3,3,16] w, float[24] b) => (float[2,30,30,24] y) { y = "
       "com.microsoft.NhwcConv(x, w, b) }"},
      {"com.microsoft.NhwcFusedConv",
       "g (float[2,32,32,16] x, float[24,16,3,3] w, float[24] b) => (float[2,30,30,24] y) { y = "
       "com.microsoft.NhwcFusedConv <activation = \"Relu\"> (x, w, b) }"},
      {"DeformConv",
       "g (float[2,16,32,32] x, float[24,16,3,3] w, float[2,18,30,30] o) => (float[2,24,30,30] y) { y = "
       "DeformConv(x, w, o) }",
       19},
      {"CausalConvWithState",
       "g (float[2,64,256] x, float[64,1,4] w) => (float[2,64,256] y, float[2,64,3] s) { y, s = "
       "CausalConvWithState(x, w) }",
       27},
      {"Col2Im",
       "g (float[2,144,900] x) => (float[2,16,32,32] y) { s = Constant <value_ints = [32,32]> () b = "
       "Constant <value_ints = [3,3]> () y = Col2Im(x, s, b) }"},
      {"AveragePool",
       "g (float[2,16,32,32] x) => (float[2,16,16,16] y) { y = AveragePool <kernel_shape = [2,2], strides = "
       "[2,2]> (x) }"},
      {"LpPool",
       "g (float[2,16,32,32] x) => (float[2,16,30,30] y) { y = LpPool <kernel_shape = [3,3]> (x) }"},
      {"MaxPool",
       "g (float[2,16,32,32] x) => (float[2,16,15,15] y) { y = MaxPool <kernel_shape = [3,3], strides = "
       "[2,2]> (x) }"},
      {"MaxPool",
       "g (float[2,16,32,32] x) => (float[2,16,16,16] y, int64[2,16,16,16] i) { y, i = MaxPool <kernel_shape "
       "= [2,2], strides = [2,2]> (x) }"},
      {"MaxUnpool",
       "g (float[2,16,16,16] x, int64[2,16,16,16] i) => (float[2,16,32,32] y) { y = MaxUnpool <kernel_shape "
       "= [2,2], strides = [2,2]> (x, i) }"},
      {"GlobalAveragePool", "g (float[2,64,32,32] x) => (float[2,64,1,1] y) { y = GlobalAveragePool(x) }"},
      {"GlobalLpPool", "g (float[2,64,32,32] x) => (float[2,64,1,1] y) { y = GlobalLpPool(x) }"},
      {"GlobalMaxPool", "g (float[2,64,32,32] x) => (float[2,64,1,1] y) { y = GlobalMaxPool(x) }"},
      {"Resize",
       "g (float[2,16,32,32] x, float[4] c_s) => (float[2,16,64,64] y) { s = Constant <value_ints = "
       "[2,16,64,64]> () y = Resize <mode = \"nearest\"> (x, , , s) }"},
      {"Resize",
       "g (float[2,16,32,32] x) => (float[2,16,50,50] y) { s = Constant <value_ints = [2,16,50,50]> () y = "
       "Resize <mode = \"linear\"> (x, , , s) }"},
      {"Resize",
       "g (float[2,16,32,32] x) => (float[2,16,50,50] y) { s = Constant <value_ints = [2,16,50,50]> () y = "
       "Resize <mode = \"cubic\"> (x, , , s) }"},
      {"Resize",
       "g (float[2,16,64,64] x) => (float[2,16,20,20] y) { s = Constant <value_ints = [2,16,20,20]> () y = "
       "Resize <mode = \"linear\", antialias = 1> (x, , , s) }"},
      {"Upsample",
       "g (float[2,16,32,32] x) => (float[2,16,64,64] y) { s = Constant <value = float[4] {1,1,2,2}> () y = "
       "Upsample <mode = \"linear\"> (x, s) }",
       9},
      {"GridSample",
       "g (float[2,16,32,32] x, float[2,24,24,2] w) => (float[2,16,24,24] y) { y = GridSample(x, w) }", 20},
      {"AffineGrid",
       "g (float[2,2,3] x) => (float[2,32,32,2] y) { s = Constant <value_ints = [2,16,32,32]> () y = "
       "AffineGrid(x, s) }",
       20},
      {"RoiAlign",
       "g (float[2,16,32,32] x, float[12,4] r, int64[12] i) => (float[12,16,7,7] y) { y = RoiAlign "
       "<output_height = 7, output_width = 7, sampling_ratio = 2> (x, r, i) }"},
      {"LRN", "g (float[2,64,16,16] x) => (float[2,64,16,16] y) { y = LRN <size = 5> (x) }"},
      {"DepthToSpace",
       "g (float[2,64,16,16] x) => (float[2,16,32,32] y) { y = DepthToSpace <blocksize = 2> (x) }"},
      {"SpaceToDepth",
       "g (float[2,16,32,32] x) => (float[2,64,16,16] y) { y = SpaceToDepth <blocksize = 2> (x) }"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void add_folds(Cases& cases) {
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
                         "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})
    cases.push_back({op, fmt::format("g (float[64,16,256] x) => (float[64,16] y) {{ a = Constant <value_ints "
                                     "= [2]> () y = {} <keepdims = 0> (x, a) }}",
                                     op)});
  const Cases own = {
      {"ArgMax", "g (float[64,16,256] x) => (int64[64,16,1] y) { y = ArgMax <axis = 2> (x) }"},
      {"ArgMin", "g (float[64,16,256] x) => (int64[64,16,1] y) { y = ArgMin <axis = 2> (x) }"},
      {"TopK",
       "g (float[64,256] x) => (float[64,8] y, int64[64,8] i) { k = Constant <value_ints = [8]> () y, i = "
       "TopK(x, k) }"},
      {"CumSum",
       "g (float[64,256] x) => (float[64,256] y) { a = Constant <value_int = 1> () y = CumSum(x, a) }"},
      {"CumProd",
       "g (float[64,256] x) => (float[64,256] y) { a = Constant <value_int = 0> () y = CumProd(x, a) }", 26},
      {"Det", "g (float[256,4,4] x) => (float[256] y) { y = Det(x) }"},
      {"LayerNormalization",
       "g (float[8,64,256] x, float[256] w, float[256] b) => (float[8,64,256] y) { y = LayerNormalization(x, "
       "w, b) }"},
      {"RMSNormalization",
       "g (float[8,64,256] x, float[256] w) => (float[8,64,256] y) { y = RMSNormalization(x, w) }", 23},
      {"SimplifiedLayerNormalization",
       "g (float[8,64,256] x, float[256] w) => (float[8,64,256] y) { y = SimplifiedLayerNormalization(x, w) "
       "}"},
      {"com.microsoft.SkipLayerNormalization",
       "g (float[8,64,256] x, float[8,64,256] s, float[256] w, float[256] b) => (float[8,64,256] y) { y = "
       "com.microsoft.SkipLayerNormalization(x, s, w, b) }"},
      {"com.microsoft.SkipSimplifiedLayerNormalization",
       "g (float[8,64,256] x, float[8,64,256] s, float[256] w) => (float[8,64,256] y) { y = "
       "com.microsoft.SkipSimplifiedLayerNormalization(x, s, w) }"},
      {"com.microsoft.EmbedLayerNormalization",
       "g (int32[2,64] i, int32[2,64] j, float[5000,128] w, float[512,128] p, float[2,128] s, float[128] u, "
       "float[128] b) => (float[2,64,128] y, int32[2] m) { y, m = com.microsoft.EmbedLayerNormalization(i, "
       "j, w, p, s, u, b) }"},
      {"com.microsoft.QEmbedLayerNormalization",
       "g (int32[2,64] i, int32[2,64] j, uint8[5000,128] w, uint8[512,128] p, uint8[2,128] s, uint8[128] u, "
       "uint8[128] b, float s1, float s2, float s3, float s4, float s5, uint8 z1, uint8 z2, uint8 z3, uint8 "
       "z4, uint8 z5) => (float[2,64,128] y, int32[2] m) { y, m = com.microsoft.QEmbedLayerNormalization(i, "
       "j, w, p, s, u, b, , s1, s2, s3, s4, s5, z1, z2, z3, z4, z5) }"},
      {"BatchNormalization",
       "g (float[2,64,32,32] x, float[64] s, float[64] b, float[64] m, float[64] v) => (float[2,64,32,32] y) "
       "{ y = BatchNormalization(x, s, b, m, v) }"},
      {"GroupNormalization",
       "g (float[2,64,32,32] x, float[64] s, float[64] b) => (float[2,64,32,32] y) { y = GroupNormalization "
       "<num_groups = 8> (x, s, b) }",
       21},
      {"InstanceNormalization",
       "g (float[2,64,32,32] x, float[64] s, float[64] b) => (float[2,64,32,32] y) { y = "
       "InstanceNormalization(x, s, b) }"},
      {"MeanVarianceNormalization",
       "g (float[2,64,32,32] x) => (float[2,64,32,32] y) { y = MeanVarianceNormalization(x) }"},
      {"com.microsoft.GroupNorm",
       "g (float[2,32,32,64] x, float[64] s, float[64] b) => (float[2,32,32,64] y) { y = "
       "com.microsoft.GroupNorm <activation = 1, groups = 8> (x, s, b) }"},
      {"com.microsoft.SkipGroupNorm",
       "g (float[2,32,32,64] x, float[64] s, float[64] b, float[2,32,32,64] w) => (float[2,32,32,64] y) { y "
       "= com.microsoft.SkipGroupNorm <activation = 1, groups = 8> (x, s, b, w) }"},
      {"NegativeLogLikelihoodLoss",
       "g (float[256,64] x, int64[256] t) => (float y) { y = NegativeLogLikelihoodLoss(x, t) }"},
      {"SoftmaxCrossEntropyLoss",
       "g (float[256,64] x, int64[256] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }"},
      {"Bernoulli", "g (float[64,256] x) => (float[64,256] y) { y = Bernoulli <seed = 1.0> (x) }"},
      {"Multinomial",
       "g (float[16,64] x) => (int32[16,8] y) { y = Multinomial <sample_size = 8, seed = 1.0> (x) }"},
      {"RandomNormal",
       "g (float[64,256] x) => (float[64,256] y) { r = RandomNormal <shape = [64,256], seed = 1.0> () y = "
       "Add(x, r) }"},
      {"RandomNormalLike",
       "g (float[64,256] x) => (float[64,256] y) { y = RandomNormalLike <seed = 1.0> (x) }"},
      {"RandomUniform",
       "g (float[64,256] x) => (float[64,256] y) { r = RandomUniform <shape = [64,256], seed = 1.0> () y = "
       "Add(x, r) }"},
      {"RandomUniformLike",
       "g (float[64,256] x) => (float[64,256] y) { y = RandomUniformLike <seed = 1.0> (x) }"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void add_quantised(Cases& cases) {
  const Cases own = {
      {"QuantizeLinear",
       "g (float[64,256] x, float s, uint8 z) => (uint8[64,256] y) { y = QuantizeLinear(x, s, z) }"},
      {"DequantizeLinear",
       "g (uint8[64,256] x, float s, uint8 z) => (float[64,256] y) { y = DequantizeLinear(x, s, z) }"},
      {"com.microsoft.QuantizeLinear",
       "g (float[64,256] x, float s, uint8 z) => (uint8[64,256] y) { y = com.microsoft.QuantizeLinear(x, s, "
       "z) }"},
      {"com.microsoft.DequantizeLinear",
       "g (uint8[64,256] x, float s, uint8 z) => (float[64,256] y) { y = com.microsoft.DequantizeLinear(x, "
       "s, z) }"},
      {"DynamicQuantizeLinear",
       "g (float[64,256] x) => (uint8[64,256] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }"},
      {"com.microsoft.QLinearAdd",
       "g (uint8[64,256] x, float xs, uint8 xz, uint8[64,256] w, float ws, uint8 wz, float ys, uint8 yz) => "
       "(uint8[64,256] y) { y = com.microsoft.QLinearAdd(x, xs, xz, w, ws, wz, ys, yz) }"},
      {"com.microsoft.QLinearMul",
       "g (uint8[64,256] x, float xs, uint8 xz, uint8[64,256] w, float ws, uint8 wz, float ys, uint8 yz) => "
       "(uint8[64,256] y) { y = com.microsoft.QLinearMul(x, xs, xz, w, ws, wz, ys, yz) }"},
      {"com.microsoft.QLinearAveragePool",
       "g (uint8[2,16,32,32] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[2,16,30,30] y) { y = "
       "com.microsoft.QLinearAveragePool <kernel_shape = [3,3]> (x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearConcat",
       "g (float ys, uint8 yz, uint8[64,256] x, float xs, uint8 xz, uint8[64,256] w, float ws, uint8 wz) => "
       "(uint8[64,512] y) { y = com.microsoft.QLinearConcat <axis = 1> (ys, yz, x, xs, xz, w, ws, wz) }"},
      {"com.microsoft.QLinearGlobalAveragePool",
       "g (uint8[2,64,32,32] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[2,64,1,1] y) { y = "
       "com.microsoft.QLinearGlobalAveragePool(x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearLeakyRelu",
       "g (uint8[64,256] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[64,256] y) { y = "
       "com.microsoft.QLinearLeakyRelu <alpha = 0.1> (x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearSigmoid",
       "g (uint8[64,256] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[64,256] y) { y = "
       "com.microsoft.QLinearSigmoid(x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearReduceMean",
       "g (uint8[64,16,256] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[64,16,1] y) { y = "
       "com.microsoft.QLinearReduceMean <axes = [2], keepdims = 1> (x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearSoftmax",
       "g (uint8[64,256] x, float xs, uint8 xz, float ys, uint8 yz) => (uint8[64,256] y) { y = "
       "com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (x, xs, xz, ys, yz) }"},
      {"com.microsoft.QLinearWhere",
       "g (bool[64,256] c, uint8[64,256] x, float xs, uint8 xz, uint8[64,256] w, float ws, uint8 wz, float "
       "ys, uint8 yz) => (uint8[64,256] y) { y = com.microsoft.QLinearWhere(c, x, xs, xz, w, ws, wz, ys, yz) "
       "}"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void add_attention(Cases& cases) {
  const Cases own = {
      {"Attention",
       "g (float[2,8,64,32] q, float[2,8,64,32] k, float[2,8,64,32] v) => (float[2,8,64,32] y) { y = "
       "Attention(q, k, v) }",
       24},
      {"Attention",
       "g (float[2,8,64,32] q, float[2,8,64,32] k, float[2,8,64,32] v) => (float[2,8,64,32] y) { y = "
       "Attention <is_causal = 1> (q, k, v) }",
       24},
      {"Attention",
       "g (float[2,64,256] q, float[2,64,64] k, float[2,64,64] v) => (float[2,64,256] y) { y = Attention "
       "<q_num_heads = 8, kv_num_heads = 2> (q, k, v) }",
       24},
      {"Attention",
       "g (float[2,8,16,32] q, float[2,8,16,32] k, float[2,8,16,32] v, float[2,8,128,32] pk, "
       "float[2,8,128,32] pv) => (float[2,8,16,32] y, float[2,8,144,32] ok, float[2,8,144,32] ov) { y, ok, "
       "ov = Attention <is_causal = 1> (q, k, v, , pk, pv) }",
       24},
      {"com.microsoft.Attention",
       "g (float[2,64,128] x, float[128,384] w, float[384] b) => (float[2,64,128] y) { y = "
       "com.microsoft.Attention <num_heads = 4> (x, w, b) }"},
      {"com.microsoft.Attention",
       "g (float[2,16,128] x, float[128,384] w, float[384] b, float[2,2,4,48,32] p) => (float[2,16,128] y, "
       "float[2,2,4,64,32] o) { y, o = com.microsoft.Attention <num_heads = 4, unidirectional = 1> (x, w, b, "
       ", p) }"},
      {"com.microsoft.QAttention",
       "g (uint8[2,64,128] x, int8[128,384] c_w, float[384] b, float xs, float ws) => (float[2,64,128] y) { "
       "y = com.microsoft.QAttention <num_heads = 4> (x, c_w, b, xs, ws) }"},
      {"com.microsoft.MultiHeadAttention",
       "g (float[2,64,128] q, float[2,96,128] k, float[2,96,128] v) => (float[2,64,128] y) { y = "
       "com.microsoft.MultiHeadAttention <num_heads = 4> (q, k, v) }"},
      {"com.microsoft.MultiHeadAttention",
       "g (float[2,64,4,3,32] q) => (float[2,64,128] y) { y = com.microsoft.MultiHeadAttention <num_heads = "
       "4> (q) }"},
      {"com.microsoft.GroupQueryAttention",
       "g (float[2,64,256] q, float[2,64,64] k, float[2,64,64] v, int32[2] l) => (float[2,64,256] y, "
       "float[2,2,64,32] ok, float[2,2,64,32] ov) { t = Constant <value = int32 {64}> () y, ok, ov = "
       "com.microsoft.GroupQueryAttention <num_heads = 8, kv_num_heads = 2> (q, k, v, , , l, t) }"},
      {"com.microsoft.GroupQueryAttention",
       "g (float[2,1,256] q, float[2,1,64] k, float[2,1,64] v, float[2,2,512,32] pk, float[2,2,512,32] pv, "
       "int32[2] l) => (float[2,1,256] y, float[2,2,512,32] ok, float[2,2,512,32] ov) { t = Constant <value "
       "= int32 {512}> () y, ok, ov = com.microsoft.GroupQueryAttention <num_heads = 8, kv_num_heads = 2> "
       "(q, k, v, pk, pv, l, t) }"},
      {"com.microsoft.RotaryEmbedding",
       "g (float[2,8,64,32] x, int64[2,64] p, float[512,16] c, float[512,16] s) => (float[2,8,64,32] y) { y "
       "= com.microsoft.RotaryEmbedding(x, p, c, s) }"},
      {"LSTM",
       "g (float[32,4,64] x, float[1,512,64] w, float[1,512,128] r) => (float[32,1,4,128] y) { y = LSTM "
       "<hidden_size = 128> (x, w, r) }"},
      {"LSTM",
       "g (float[32,4,64] x, float[2,512,64] w, float[2,512,128] r, float[2,1024] b) => (float[2,4,128] h) { "
       "y, h = LSTM <hidden_size = 128, direction = \"bidirectional\"> (x, w, r, b) }"},
      {"GRU",
       "g (float[32,4,64] x, float[1,384,64] w, float[1,384,128] r) => (float[32,1,4,128] y) { y = GRU "
       "<hidden_size = 128> (x, w, r) }"},
      {"RNN",
       "g (float[32,4,64] x, float[1,128,64] w, float[1,128,128] r) => (float[32,1,4,128] y) { y = RNN "
       "<hidden_size = 128> (x, w, r) }"},
      {"com.microsoft.DynamicQuantizeLSTM",
       "g (float[32,4,64] x, int8[1,64,512] c_w, int8[1,128,512] c_r, float[1] ws, int8[1] wz, float[1] rs, "
       "int8[1] rz) => (float[32,1,4,128] y) { y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 128> (x, "
       "c_w, c_r, , , , , , ws, wz, rs, rz) }",
       18, 2, 3, "a call counts its recurrent weights once, a layer in every step"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void add_movement(Cases& cases) {
  const Cases own = {
      {"Transpose", "g (float[64,256] x) => (float[256,64] y) { y = Transpose <perm = [1,0]> (x) }"},
      {"Expand",
       "g (float[64,1] x) => (float[64,256] y) { s = Constant <value_ints = [64,256]> () y = Expand(x, s) }"},
      {"Tile",
       "g (float[64,64] x) => (float[64,256] y) { s = Constant <value_ints = [1,4]> () y = Tile(x, s) }"},
      {"Concat",
       "g (float[64,256] x, float[64,128] w) => (float[64,384] y) { y = Concat <axis = 1> (x, w) }"},
      {"Split",
       "g (float[64,256] x) => (float[64,128] y, float[64,128] z) { y, z = Split <axis = 1, num_outputs = 2> "
       "(x) }"},
      {"Slice",
       "g (float[64,256] x) => (float[64,100] y) { b = Constant <value_ints = [10]> () e = Constant "
       "<value_ints = [110]> () a = Constant <value_ints = [1]> () y = Slice(x, b, e, a) }"},
      {"Pad",
       "g (float[64,256] x) => (float[66,260] y) { p = Constant <value_ints = [1,2,1,2]> () y = Pad(x, p) }"},
      {"CenterCropPad",
       "g (float[64,256] x) => (float[60,200] y) { s = Constant <value_ints = [60,200]> () y = "
       "CenterCropPad(x, s) }"},
      {"Gather", "g (float[5000,128] x, int64[256] i) => (float[256,128] y) { y = Gather(x, i) }"},
      {"GatherElements",
       "g (float[64,256] x, int64[64,32] i) => (float[64,32] y) { y = GatherElements <axis = 1> (x, i) }"},
      {"GatherND", "g (float[64,64,32] x, int64[100,2] i) => (float[100,32] y) { y = GatherND(x, i) }"},
      {"Compress",
       "g (float[64,256] x) => (float[2,256] y) { c = Constant <value = bool[64] "
       "{0,1,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
       "0,0,0,0,0,0,0,0,0,0,0,0,0,0}> () y = Compress <axis = 0> (x, c) }"},
      {"Scatter",
       "g (float[64,256] x, int64[64,16] i, float[64,16] u) => (float[64,256] y) { y = Scatter <axis = 1> "
       "(x, i, u) }",
       10},
      {"ScatterElements",
       "g (float[64,256] x, int64[64,16] i, float[64,16] u) => (float[64,256] y) { y = ScatterElements <axis "
       "= 1> (x, i, u) }"},
      {"ScatterElements",
       "g (float[64,256] x, int64[64,16] i, float[64,16] u) => (float[64,256] y) { y = ScatterElements <axis "
       "= 1, reduction = \"add\"> (x, i, u) }"},
      {"ScatterND",
       "g (float[64,64,32] x, int64[20,2] i, float[20,32] u) => (float[64,64,32] y) { y = ScatterND(x, i, u) "
       "}"},
      {"ScatterND",
       "g (float[64,64,32] x, int64[20,1] i, float[20,64,32] u) => (float[64,64,32] y) { y = ScatterND "
       "<reduction = \"add\"> (x, i, u) }"},
      {"TensorScatter",
       "g (float[2,8,256,32] x, float[2,8,4,32] u, int64[2] i) => (float[2,8,256,32] y) { y = "
       "TensorScatter(x, u, i) }",
       24},
      {"OneHot",
       "g (int64[256] x, float[2] v) => (float[256,64] y) { d = Constant <value_int = 64> () y = OneHot(x, "
       "d, v) }"},
      {"Trilu", "g (float[256,256] x) => (float[256,256] y) { y = Trilu(x) }"},
      {"EyeLike", "g (float[256,256] x) => (float[256,256] y) { y = EyeLike(x) }"},
      {"ReverseSequence",
       "g (float[64,4,128] x, int64[4] l) => (float[64,4,128] y) { y = ReverseSequence(x, l) }"},
      {"Reshape",
       "g (float[64,256] x) => (float[128,128] y) { s = Constant <value_ints = [128,128]> () r = Softmax(x) "
       "v = Reshape(r, s) y = Softmax(v) }"},
      {"Dropout",
       "g (float[64,256] x) => (float[64,256] y) { r = Softmax(x) v = Dropout(r) y = Softmax(v) }"},
      {"Identity",
       "g (float[64,256] x) => (float[64,256] y) { r = Softmax(x) v = Identity(r) y = Softmax(v) }"},
      {"Flatten",
       "g (float[8,8,256] x) => (float[8,2048] y) { r = Softmax(x) v = Flatten(r) y = Softmax(v) }"},
      {"Squeeze",
       "g (float[64,1,256] x) => (float[64,256] y) { a = Constant <value_ints = [1]> () r = Softmax(x) v = "
       "Squeeze(r, a) y = Softmax(v) }"},
      {"Unsqueeze",
       "g (float[64,256] x) => (float[64,1,256] y) { a = Constant <value_ints = [1]> () r = Softmax(x) v = "
       "Unsqueeze(r, a) y = Softmax(v) "
       "}"},
      {"ConstantOfShape", "g (float[n] x) => (float[m] y) { s = Shape(x) y = ConstantOfShape(s) }"},
      {"Range",
       "g (float[n] x) => (int64[m] y) { s = Shape(x) a = Constant <value_int = 0> () b = Constant "
       "<value_int "
       "= 1> () z = Constant <value_ints = [0]> () e = Squeeze(s, z) y = Range(a, e, b) }"},
      {"BlackmanWindow",
       "g (float[n] x) => (float[m] y) { s = Shape(x) z = Constant <value_ints = [0]> () e = Squeeze(s, z) y "
       "= BlackmanWindow(e) }"},
      {"HammingWindow",
       "g (float[n] x) => (float[m] y) { s = Shape(x) z = Constant <value_ints = [0]> () e = Squeeze(s, z) y "
       "= HammingWindow(e) }"},
      {"HannWindow",
       "g (float[n] x) => (float[m] y) { s = Shape(x) z = Constant <value_ints = [0]> () e = Squeeze(s, z) y "
       "= HannWindow(e) }"},
  };
  cases.insert(cases.end(), own.begin(), own.end());
}

void fill(onnx::TensorProto& tensor, const onnx::ValueInfoProto& input) {
  const onnx::TypeProto::Tensor& type = input.type().tensor_type();
  tensor.set_name(input.name());
  tensor.set_data_type(type.elem_type());
  std::int64_t count = 1;
  for (const auto& dim : type.shape().dim()) {
    tensor.add_dims(dim.dim_value());
    count *= dim.dim_value();
  }
  for (std::int64_t k = 0; k < count; ++k) {
    if (type.elem_type() == onnx::TensorProto::FLOAT)
      tensor.add_float_data(static_cast<float>(k % 7) / 8);
    else if (type.elem_type() == onnx::TensorProto::INT64)
      tensor.add_int64_data(k % 2);
    else
      tensor.add_int32_data(static_cast<std::int32_t>(k % 2));
  }
}

constexpr const char* kRows = "float[256,64] x";
constexpr const char* kLabelled = "int64[256] y, float[256,m] z";

void add_ml(Cases& cases, const std::string& op, const std::string& type, const std::string& attributes,
            const std::string& outputs = "float[256,m] y", const char* inputs = "x") {
  const std::string results = outputs.find("z") == std::string::npos ? "y" : "y, z";
  cases.push_back({"ai.onnx.ml." + op,
                   fmt::format("g ({}) => ({}) {{ {} = ai.onnx.ml.{} {} ({}) }}", type, outputs, results, op,
                               attributes.empty() ? attributes : "<" + attributes + ">", inputs)});
}

// Complete trees, 64 of 15 nodes, and as many of one node and two leaves.
void add_trees(Cases& cases) {
  std::vector<std::string> lists(8);
  constexpr int kTrees = 64, kNodes = 15, kBranches = 7;
  for (int k = 0; k < kTrees * kNodes; ++k) {
    const int node = k % kNodes, leaf = node >= kBranches ? 1 : 0;
    const std::string comma = k == 0 ? "" : ", ";
    const auto append = [&](std::size_t list, const std::string& text) { lists[list] += comma + text; };
    append(0, std::to_string(k / kNodes));
    append(1, std::to_string(node));
    append(2, std::to_string(k % 64));
    append(3, leaf ? "\"LEAF\"" : "\"BRANCH_LEQ\"");
    append(4, std::to_string(leaf ? 0 : 2 * node + 1));
    append(5, std::to_string(leaf ? 0 : 2 * node + 2));
    append(6, "0.5");
    append(7, "0");
  }
  const std::string nodes = fmt::format(
      "nodes_treeids = [{}], nodes_nodeids = [{}], nodes_featureids = [{}], nodes_modes = [{}], "
      "nodes_truenodeids = [{}], nodes_falsenodeids = [{}], nodes_values = [{}]",
      lists[0], lists[1], lists[2], lists[3], lists[4], lists[5], lists[6]);
  const auto weights = [&](const char* prefix) {
    return fmt::format("{0}_treeids = [{1}], {0}_nodeids = [{2}], {0}_ids = [{3}], {0}_weights = [{4}]",
                       prefix, lists[0], lists[1], lists[7], lists[6]);
  };
  add_ml(cases, "TreeEnsembleRegressor", kRows, nodes + ", n_targets = 1, " + weights("target"));
  add_ml(cases, "TreeEnsembleClassifier", kRows, nodes + ", classlabels_int64s = [0, 1], " + weights("class"),
         kLabelled);
  // 64 trees of one node and two leaves.
  std::string stumps, yes, no, ones, zeros, halves;
  for (int k = 0; k < kTrees; ++k) {
    const std::string comma = k == 0 ? "" : ", ";
    stumps += comma + std::to_string(k);
    yes += comma + std::to_string(2 * k);
    no += comma + std::to_string(2 * k + 1);
    ones += comma + "1";
    zeros += comma + "0";
    halves += comma + "0.5";
  }
  add_ml(cases, "TreeEnsemble", kRows,
         fmt::format(
             "n_targets = 1, tree_roots = [{0}], nodes_featureids = [{0}], nodes_modes = uint8[64] {{{1}}}, "
             "nodes_splits = float[64] {{{2}}}, nodes_truenodeids = [{3}], nodes_trueleafs = [{4}], "
             "nodes_falsenodeids = [{5}], nodes_falseleafs = [{4}], leaf_targetids = [{1}, {1}], "
             "leaf_weights = float[128] {{{2}, {2}}}",
             stumps, zeros, halves, yes, ones, no));
}

// Models whose coefficients are attributes, and what prepares their features.
void add_classical(Cases& cases) {
  const auto numbers = [](int count) {
    std::string text = "0.5";
    for (int k = 1; k < count; ++k) text += ", 0.5";
    return "[" + text + "]";
  };
  add_ml(cases, "LinearRegressor", kRows, "targets = 8, coefficients = " + numbers(512));
  add_ml(cases, "LinearClassifier", kRows,
         "classlabels_ints = [0, 1, 2, 3], intercepts = " + numbers(4) + ", coefficients = " + numbers(256),
         kLabelled);
  add_ml(cases, "SVMRegressor", kRows,
         "n_supports = 32, kernel_type = \"RBF\", kernel_params = [0.5, 0.0, 3.0], rho = [0.5], coefficients "
         "= " +
             numbers(32) + ", support_vectors = " + numbers(2048));
  add_ml(
      cases, "SVMClassifier", kRows,
      "classlabels_ints = [0, 1], vectors_per_class = [16, 16], kernel_type = \"RBF\", kernel_params = [0.5, "
      "0.0, 3.0], rho = [0.5], coefficients = " +
          numbers(32) + ", support_vectors = " + numbers(2048),
      kLabelled);
  add_ml(cases, "Scaler", kRows, "offset = [0.5], scale = [2.0]");
  add_ml(cases, "Normalizer", kRows, "norm = \"L2\"");
  add_ml(cases, "Imputer", kRows, "imputed_value_floats = [1.0], replaced_value_float = 0.5");
  add_ml(cases, "Binarizer", kRows, "threshold = 0.5");
  add_ml(cases, "FeatureVectorizer", "float[256,64] x, float[256,64] w", "inputdimensions = [64, 64]",
         "float[256,m] y", "x, w");
  add_ml(cases, "ArrayFeatureExtractor", "float[256,64] x, int64[32] i", "", "float[256,m] y", "x, i");
  add_ml(cases, "LabelEncoder", "int64[256,64] x",
         "keys_int64s = [0, 1, 2], values_floats = [1.0, 2.0, 3.0]");
  add_ml(cases, "OneHotEncoder", "int64[256,8] x", "cats_int64s = [0, 1, 2, 3, 4, 5, 6, 7]",
         "float[256,m,l] y");
}

}  // namespace

namespace {

// The factor of bytes of all cases of an operator.
void allow(Cases& cases, const std::string& op, double bytes, const char* why) {
  for (WorkCase& c : cases) {
    if (c.op != op) continue;
    c.bytes = bytes;
    c.why = why;
  }
}

}  // namespace

std::vector<WorkCase> work_cases() {
  Cases cases;
  add_unary(cases);
  add_binary(cases);
  add_products(cases);
  add_convolutions(cases);
  add_folds(cases);
  add_quantised(cases);
  add_attention(cases);
  add_movement(cases);
  add_trees(cases);
  add_classical(cases);
  const char* layout = "alone, its layout is changed at both ends; networks keep it from one to the next";
  for (const char* op : {"Conv", "ConvTranspose", "com.microsoft.FusedConv", "MaxPool"})
    allow(cases, op, 3, layout);
  allow(cases, "QLinearConv", 7, "alone, its sums are stored in one layout and rounded in the other");
  allow(cases, "com.microsoft.MatMulNBits", 2.5, "alone, its result is copied to the program's output");
  for (WorkCase& c : cases) {
    if (c.op != "com.microsoft.GroupQueryAttention") continue;
    c.flops = 2.5;
    c.why = "the positions at which a cache is written are computed for each of its elements, by cheap loops";
  }
  return cases;
}

onnx::ModelProto model_of(const WorkCase& c) {
  onnx::ModelProto model = parse_model(c.graph, c.opset);
  if (c.op.starts_with("ai.onnx.ml.")) {
    onnx::OperatorSetIdProto& import = *model.add_opset_import();
    import.set_domain("ai.onnx.ml");
    import.set_version(c.op == "ai.onnx.ml.TreeEnsemble" ? 5 : c.op == "ai.onnx.ml.LabelEncoder" ? 2 : 1);
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  for (int k = graph.input_size(); k-- > 0;) {
    if (!graph.input(k).name().starts_with("c_")) continue;
    fill(*graph.add_initializer(), graph.input(k));
    graph.mutable_input()->DeleteSubrange(k, 1);
  }
  return model;
}

}  // namespace braid::frontend::sharding
