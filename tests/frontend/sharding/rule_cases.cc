#include "tests/frontend/sharding/rule_cases.h"

#include <fmt/format.h>

namespace braid::frontend::sharding {
namespace {

using Range = std::pair<double, double>;

// A model of one node; `more` are Constant nodes before it.
std::string graph(const std::string& inputs, const std::string& outputs, const std::string& nodes) {
  return fmt::format("g ({}) => ({}) {{ {} }}", inputs, outputs, nodes);
}

void add_elementwise(std::vector<ProofCase>& cases) {
  struct Unary {
    const char* name;
    double low, high;
    double tolerance = 1e-6;
    int opset = 18;
    const char* type = "float";
    const char* result = "float";
  };
  const Unary unary[] = {
      {"Abs", -4, 4, 0},
      {"Acos", -0.9, 0.9},
      {"Acosh", 1, 4},
      {"Asin", -0.9, 0.9},
      {"Asinh", -4, 4},
      {"Atan", -4, 4},
      {"Atanh", -0.9, 0.9},
      {"Ceil", -4, 4, 0},
      {"Cos", -4, 4},
      {"Cosh", -2, 2},
      {"Erf", -2, 2},
      {"Exp", -2, 2},
      {"Floor", -4, 4, 0},
      {"IsInf", -4, 4, 0, 18, "float", "bool"},
      {"IsNaN", -4, 4, 0, 18, "float", "bool"},
      {"Log", 1, 4},
      {"Neg", -4, 4, 0},
      {"Not", 0, 1, 0, 18, "bool", "bool"},
      {"Reciprocal", 1, 4},
      {"Round", -4, 4, 0},
      {"Sigmoid", -4, 4},
      {"Sign", -4, 4, 0},
      {"Sin", -4, 4},
      {"Sinh", -2, 2},
      {"Sqrt", 1, 4},
      {"Tan", -1, 1},
      {"Tanh", -2, 2},
      {"Celu", -4, 4},
      {"Elu", -4, 4},
      {"Gelu", -4, 4, 1e-6, 20},
      {"HardSigmoid", -4, 4},
      {"HardSwish", -4, 4},
      {"Identity", -4, 4, 0},
      {"LeakyRelu", -4, 4},
      {"Mish", -4, 4},
      {"Relu", -4, 4, 0},
      {"Selu", -4, 4},
      {"Shrink", -4, 4, 0},
      {"Softplus", -4, 4},
      {"Softsign", -4, 4},
      {"Swish", -4, 4, 1e-6, 24},
      {"ThresholdedRelu", -4, 4, 0},
      {"BitwiseNot", 0, 9, 0, 18, "int32", "int32"},
      {"Identity", -4, 4, 0, 18, "int64", "int64"},
      {"Neg", -4, 4, 0, 18, "int32", "int32"},
      {"com.microsoft.Gelu", -4, 4},
      {"com.microsoft.QuickGelu", -4, 4},
      {"com.microsoft.FastGelu", -4, 4},
  };
  for (const Unary& u : unary) {
    for (const char* sizes : {"[12, 1, 24]", "[0, 12]"}) {
      const std::string op = u.name;
      ProofCase c{op.substr(op.rfind('.') + 1),
                  graph(fmt::format("{}{} x", u.type, sizes), fmt::format("{}{} y", u.result, sizes),
                        fmt::format("y = {}(x)", u.name)),
                  u.opset,
                  u.tolerance,
                  u.low,
                  u.high};
      c.fractions = u.tolerance > 0;
      cases.push_back(std::move(c));
    }
  }
  struct Binary {
    const char* name;
    const char* type;
    const char* result;
    double low = -4, high = 4, tolerance = 0;
  };
  const Binary binary[] = {
      {"Add", "float", "float"},
      {"Add", "int64", "int64"},
      {"Sub", "float", "float"},
      {"Mul", "float", "float"},
      {"Mul", "int32", "int32"},
      {"Div", "float", "float", 1, 4, 1e-5},
      {"Div", "int32", "int32", 1, 9},
      {"Mod", "int64", "int64", 1, 9},
      {"Pow", "float", "float", 1, 3, 1e-6},
      {"And", "bool", "bool"},
      {"Or", "bool", "bool"},
      {"Xor", "bool", "bool"},
      {"Equal", "int64", "bool"},
      {"Greater", "float", "bool"},
      {"GreaterOrEqual", "float", "bool"},
      {"Less", "float", "bool"},
      {"LessOrEqual", "float", "bool"},
      {"Max", "float", "float"},
      {"Min", "float", "float"},
      {"Mean", "float", "float", -4, 4, 1e-6},
      {"Sum", "float", "float"},
      {"BitwiseAnd", "uint8", "uint8", 0, 9},
      {"BitwiseOr", "uint8", "uint8", 0, 9},
      {"BitwiseXor", "int32", "int32", 0, 9},
  };
  for (const Binary& b : binary) {
    const std::pair<const char*, const char*> forms[] = {
        {"[12, 24]", "[12, 24]"}, {"[12, 24]", "[24]"}, {"[12, 1, 24]", "[5, 1]"}, {"[12]", ""}};
    for (const auto& [x, y] : forms) {
      const std::string z = std::string(x) == "[12, 1, 24]" ? "[12, 5, 24]" : x;
      cases.push_back({b.name,
                       graph(fmt::format("{0}{1} x, {0}{2} w", b.type, x, y),
                             fmt::format("{}{} y", b.result, z), fmt::format("y = {}(x, w)", b.name)),
                       18, b.tolerance, b.low, b.high});
    }
  }
  const std::vector<ProofCase> more = {
      {"Add", graph("float[1, 12] x, float[12, 12] w", "float[12, 12] y", "y = Add(x, w)")},
      {"Mean", graph("float[12] x, float[12] w, float[12] v", "float[12] y", "y = Mean(x, w, v)"), 18, 1e-6},
      {"BitShift",
       graph("uint8[12, 2] x, uint8[12, 1] n", "uint8[12, 2] y",
             "y = BitShift <direction = \"LEFT\"> (x, n)"),
       18, 0, 0, 3},
      {"BitCast", graph("float[12] x", "int32[12] y", "y = BitCast <to = 6> (x)"), 26},
      {"Cast", graph("float[12, 5] x", "int64[12, 5] y", "y = Cast <to = 7> (x)")},
      {"Cast", graph("int64[12, 5] x", "bool[12, 5] y", "y = Cast <to = 9> (x)")},
      {"CastLike", graph("float[12, 5] x, int32[1] l", "int32[12, 5] y", "y = CastLike(x, l)")},
      {"Clip",
       graph("float[12, 5] x, float low, float high", "float[12, 5] y", "y = Clip(x, low, high)"),
       18,
       0,
       -4,
       4,
       {{"low", {-2, -2}}, {"high", {2, 2}}}},
      {"Dropout", graph("float[12, 5] x", "float[12, 5] y, bool[12, 5] m", "y, m = Dropout(x)")},
      {"PRelu", graph("float[12, 6, 2] x, float[6, 1] s", "float[12, 6, 2] y", "y = PRelu(x, s)")},
      {"Where", graph("bool[12, 1] c, float[12, 6] x, float[6] w", "float[12, 6] y", "y = Where(c, x, w)")},
      {"Where", graph("bool[12, 12] c, int64[12, 12] x, int64 w", "int64[12, 12] y", "y = Where(c, x, w)")},
      {"BiasGelu", graph("float[2, 12] x, float[12] b", "float[2, 12] y", "y = com.microsoft.BiasGelu(x, b)"),
       18, 1e-6},
      {"FastGelu", graph("float[2, 12] x, float[12] b", "float[2, 12] y", "y = com.microsoft.FastGelu(x, b)"),
       18, 1e-6},
      {"QuantizeLinear",
       graph("float[2, 12] x, float s, uint8 z", "uint8[2, 12] y", "y = QuantizeLinear(x, s, z)"),
       18,
       0,
       -4,
       4,
       {{"s", {1, 1}}, {"z", {9, 9}}}},
      {"QuantizeLinear",
       graph("float[2, 12] x, float[12] s, uint8[12] z", "uint8[2, 12] y",
             "y = QuantizeLinear <axis = 1> (x, s, z)"),
       18,
       0,
       -4,
       4,
       {{"s", {1, 3}}, {"z", {5, 9}}}},
      {"DequantizeLinear",
       graph("int8[12, 6] x, float[12] s", "float[12, 6] y", "y = DequantizeLinear <axis = 0> (x, s)"),
       18,
       0,
       -4,
       4,
       {{"s", {1, 3}}}},
      {"QuantizeLinear",
       graph("float[2, 12] x, float s, uint8 z", "uint8[2, 12] y",
             "y = com.microsoft.QuantizeLinear(x, s, z)"),
       18,
       0,
       -4,
       4,
       {{"s", {1, 1}}, {"z", {9, 9}}}},
      {"DequantizeLinear",
       graph("uint8[12, 6] x, float s, uint8 z", "float[12, 6] y",
             "y = com.microsoft.DequantizeLinear(x, s, z)"),
       18, 0, 0, 9},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_products(std::vector<ProofCase>& cases) {
  const std::vector<ProofCase> more = {
      {"MatMul", graph("float[12, 24] a, float[24, 12] b", "float[12, 12] y", "y = MatMul(a, b)")},
      {"MatMul", graph("int32[12, 12] a, int32[12, 12] b", "int32[12, 12] y", "y = MatMul(a, b)")},
      {"MatMul",
       graph("float[12, 1, 5, 12] a, float[2, 12, 1] b", "float[12, 2, 5, 1] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12] a, float[12, 12] b", "float[12] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12, 12] a, float[12] b", "float[12] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12] a, float[12] b", "float y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12, 3, 4] a, float[4] b", "float[12, 3] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12, 12, 4] a, float[12, 4, 24] b", "float[12, 12, 24] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[0, 12] a, float[12, 12] b", "float[0, 12] y", "y = MatMul(a, b)")},
      {"MatMul", graph("float[12, 0] a, float[0, 12] b", "float[12, 12] y", "y = MatMul(a, b)")},
      {"Gemm",
       graph("float[12, 24] a, float[24, 12] b, float[12] c", "float[12, 12] y", "y = Gemm(a, b, c)")},
      {"Gemm", graph("float[24, 12] a, float[12, 24] b, float[12, 1] c", "float[12, 12] y",
                     "y = Gemm <transA = 1, transB = 1, alpha = 2.0, beta = 3.0> (a, b, c)")},
      {"Gemm", graph("float[5, 12] a, float[12, 12] b, float c", "float[5, 12] y",
                     "y = Gemm <transB = 1> (a, b, c)")},
      {"Gemm", graph("float[5, 12] a, float[12, 12] b", "float[5, 12] y", "y = Gemm(a, b)")},
      {"Gemm", graph("int32[12, 12] a, int32[12, 12] b, int32[12, 12] c", "int32[12, 12] y",
                     "y = Gemm <alpha = 0.5> (a, b, c)")},
      {"Gemm",
       graph("int32[12, 12] a, int32[12, 12] b, int32[12, 12] c", "int32[12, 12] y", "y = Gemm(a, b, c)")},
      {"Einsum", graph("float[12, 5, 6] a, float[12, 6, 24] b", "float[12, 5, 24] y",
                       "y = Einsum <equation = \"bij,bjk->bik\"> (a, b)")},
      {"Einsum", graph("float[12, 12] a", "float y", "y = Einsum <equation = \"ii->\"> (a)")},
      {"Einsum", graph("float[12, 6] a, float[6] b, float[12] c", "float[6] y",
                       "y = Einsum <equation = \"ij, j, i -> j\"> (a, b, c)")},
      {"Einsum", graph("float[12, 24] a, float[24, 5] b", "float[12, 5] y",
                       "y = Einsum <equation = \"ij,jk\"> (a, b)")},
      {"Einsum", graph("float[2, 12, 3] a, float[2, 3, 6] b", "float[2, 12, 6] y",
                       "y = Einsum <equation = \"...ij,...jk->...ik\"> (a, b)")},
      {"MatMulInteger",
       graph("uint8[12, 6] a, int8[6, 12] b, uint8 az, int8 bz", "int32[12, 12] y",
             "y = MatMulInteger(a, b, az, bz)"),
       18, 0, 0, 9},
      {"MatMulInteger",
       graph("uint8[12, 6] a, int8[6, 12] b, uint8 az, int8[12] bz", "int32[12, 12] y",
             "y = MatMulInteger(a, b, az, bz)"),
       18, 0, 0, 9},
      {"FusedGemm", graph("float[12, 5] a, float[5, 12] b, float[12] c", "float[12, 12] y",
                          "y = com.microsoft.FusedGemm <activation = \"Relu\"> (a, b, c)")},
      {"FusedMatMul", graph("float[2, 24, 12] a, float[2, 12, 24] b", "float[2, 12, 12] y",
                            "y = com.microsoft.FusedMatMul <transA = 1, transB = 1, alpha = 2.0> (a, b)")},
      {"FusedMatMul", graph("float[12, 5, 6] a, float[6, 12] b", "float[12, 5, 12] y",
                            "y = com.microsoft.FusedMatMul(a, b)")},
      {"TransposeMatMul", graph("float[6, 24, 12] a, float[6, 24, 12] b", "float[6, 12, 12] y",
                                "y = com.microsoft.TransposeMatMul <transA = 1> (a, b)")},
      {"GemmFastGelu",
       graph("float[12, 3, 5] a, float[5, 12] b, float[12] c", "float[12, 3, 12] y",
             "y = com.microsoft.GemmFastGelu(a, b, c)"),
       18, 1e-6},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_reductions(std::vector<ProofCase>& cases) {
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1",
                         "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
    const std::string name = op;
    const bool rounded = name == "ReduceMean" || name == "ReduceL2" || name.find("Log") != std::string::npos;
    const double low = name == "ReduceLogSum" ? 1
                       : name == "ReduceProd" ? -1
                                              : -4,
                 high = name == "ReduceProd" ? 2 : 4;
    const auto add = [&](const std::string& text, int opset) {
      cases.push_back({name, text, opset, rounded ? 1e-5 : 0, low, high});
    };
    add(graph("float[12, 5, 24] x", "float[12, 1, 24] y",
              fmt::format("a = Constant <value = int64[1] {{1}}> () y = {}(x, a)", op)),
        18);
    add(graph("float[12, 1, 12] x", "float[1] y",
              fmt::format("a = Constant <value = int64[2] {{0, -1}}> () y = {} <keepdims = 0> (x, a)", op)),
        18);
    add(graph("float[12, 6] x", "float[1, 1] y", fmt::format("y = {}(x)", op)), 18);
    if (name != "ReduceSum")
      add(graph("float[12, 6] x", "float[12] y", fmt::format("y = {} <axes = [1], keepdims = 0> (x)", op)),
          11);
    if (name != "ReduceLogSum" && !rounded)
      cases.push_back({name,
                       graph("int32[12, 6] x", "int32[1, 6] y",
                             fmt::format("a = Constant <value = int64[1] {{0}}> () y = {}(x, a)", op)),
                       18, 0, low, high});
  }
  const std::vector<ProofCase> more = {
      {"ReduceMean", graph("int32[12, 6] x", "int32[1, 6] y",
                           "a = Constant <value = int64[1] {0}> () y = ReduceMean(x, a)")},
      {"ReduceMax",
       graph("bool[12, 6] x", "bool[1, 6] y", "a = Constant <value = int64[1] {0}> () y = ReduceMax(x, a)"),
       20},
      {"ReduceSum",
       graph("float[12, 6] x", "float[12, 6] y",
             "a = Constant <value = int64[0] {}> () y = ReduceSum <noop_with_empty_axes = 1> (x, a)")},
      {"ReduceSum", graph("float[12, 0] x", "float[12, 1] y",
                          "a = Constant <value = int64[1] {1}> () y = ReduceSum(x, a)")},
      {"ArgMax", graph("float[12, 5, 6] x", "int64[12, 1, 6] y", "y = ArgMax <axis = 1> (x)")},
      {"ArgMax", graph("float[12, 12] x", "int64[12] y",
                       "y = ArgMax <axis = -1, keepdims = 0, select_last_index = 1> (x)")},
      {"ArgMin", graph("float[12, 12] x", "int64[12] y", "y = ArgMin <axis = 0, keepdims = 0> (x)")},
      {"TopK", graph("float[12, 6, 12] x", "float[12, 2, 12] v, int64[12, 2, 12] i",
                     "k = Constant <value = int64[1] {2}> () v, i = TopK <axis = 1> (x, k)")},
      {"Softmax", graph("float[12, 1, 6] x", "float[12, 1, 6] y", "y = Softmax <axis = -1> (x)"), 18, 1e-6},
      {"Softmax", graph("float[12, 12] x", "float[12, 12] y", "y = Softmax <axis = 0> (x)"), 18, 1e-6},
      {"Softmax", graph("float[6, 12, 12] x", "float[6, 12, 12] y", "y = Softmax <axis = 1> (x)"), 11, 1e-6},
      {"LogSoftmax", graph("float[12, 12] x", "float[12, 12] y", "y = LogSoftmax(x)"), 18, 1e-6},
      {"Hardmax", graph("float[12, 12] x", "float[12, 12] y", "y = Hardmax(x)")},
      {"CumSum",
       graph("float[12, 12] x", "float[12, 12] y", "a = Constant <value = int64 {1}> () y = CumSum(x, a)")},
      {"CumProd",
       graph("float[12, 12] x", "float[12, 12] y", "a = Constant <value = int64 {-2}> () y = CumProd(x, a)"),
       26, 1e-6, 1, 2},
      {"LpNormalization", graph("float[12, 12] x", "float[12, 12] y", "y = LpNormalization <axis = 0> (x)"),
       18, 1e-6, 1, 4},
      {"GlobalAveragePool",
       graph("float[12, 6, 12, 2] x", "float[12, 6, 1, 1] y", "y = GlobalAveragePool(x)"), 18, 1e-6},
      {"GlobalMaxPool", graph("float[12, 6, 12] x", "float[12, 6, 1] y", "y = GlobalMaxPool(x)")},
      {"GlobalLpPool", graph("float[12, 6, 12] x", "float[12, 6, 1] y", "y = GlobalLpPool(x)"), 18, 1e-6},
      {"BatchNormalization",
       graph("float[12, 6, 12] x, float[6] s, float[6] b, float[6] m, float[6] v", "float[12, 6, 12] y",
             "y = BatchNormalization(x, s, b, m, v)"),
       18, 1e-5, 1, 4},
      {"InstanceNormalization",
       graph("float[12, 6, 12] x, float[6] s, float[6] b", "float[12, 6, 12] y",
             "y = InstanceNormalization(x, s, b)"),
       18, 1e-5},
      {"GroupNormalization",
       graph("float[12, 6, 12] x, float[6] s, float[6] b", "float[12, 6, 12] y",
             "y = GroupNormalization <num_groups = 2> (x, s, b)"),
       21, 1e-5},
      {"LRN", graph("float[12, 6, 12] x", "float[12, 6, 12] y", "y = LRN <size = 3> (x)"), 18, 1e-6},
      {"LayerNormalization",
       graph("float[12, 6, 12] x, float[12] s, float[12] b",
             "float[12, 6, 12] y, float[12, 6, 1] m, float[12, 6, 1] d",
             "y, m, d = LayerNormalization(x, s, b)"),
       18, 1e-5},
      {"LayerNormalization",
       graph("float[12, 6, 12] x, float[6, 12] s", "float[12, 6, 12] y",
             "y = LayerNormalization <axis = 1> (x, s)"),
       18, 1e-5},
      {"LayerNormalization",
       graph("float[2, 6, 12] x, float[6, 12] s", "float[2, 6, 12] y", "y = LayerNormalization(x, s)"), 18,
       1e-5},
      {"RMSNormalization",
       graph("float[12, 12] x, float[12] s", "float[12, 12] y", "y = RMSNormalization(x, s)"), 23, 1e-5},
      {"SimplifiedLayerNormalization",
       graph("float[12, 12] x, float[12] s", "float[12, 12] y", "y = SimplifiedLayerNormalization(x, s)"), 18,
       1e-5},
      {"SkipLayerNormalization",
       graph("float[6, 12, 4] x, float[12, 4] k, float[4] g, float[4] b, float[4] c",
             "float[6, 12, 4] y, float[6, 12, 4] s",
             "y, m, d, s = com.microsoft.SkipLayerNormalization(x, k, g, b, c)"),
       18, 1e-5},
      {"SkipSimplifiedLayerNormalization",
       graph("float[6, 12, 4] x, float[6, 12, 4] k, float[4] g", "float[6, 12, 4] y",
             "y = com.microsoft.SkipSimplifiedLayerNormalization(x, k, g)"),
       18, 1e-5},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_moves(std::vector<ProofCase>& cases) {
  const auto reshape = [](const char* from, const char* to, const char* target, const char* type = "float") {
    return ProofCase{"Reshape",
                     graph(fmt::format("{}{} x", type, from), fmt::format("{}{} y", type, to),
                           fmt::format("s = Constant <value = int64{}> () y = Reshape(x, s)", target))};
  };
  const std::vector<ProofCase> more = {
      reshape("[2, 5, 144]", "[2, 5, 12, 12]", "[4] {0, 0, 12, 12}"),
      reshape("[2, 5, 144]", "[2, 5, 12, 12]", "[4] {2, -1, 12, 12}"),
      reshape("[2, 5, 12, 6]", "[2, 5, 72]", "[3] {0, 0, -1}"),
      reshape("[5, 72]", "[5, 3, 12, 2]", "[4] {5, 3, -1, 2}"),
      reshape("[5, 72]", "[5, 3, 12, 2]", "[4] {5, 3, 12, -1}"),
      reshape("[12, 6]", "[72]", "[1] {72}"),
      reshape("[12, 6]", "[6, 12]", "[2] {6, 12}"),
      reshape("[4, 6]", "[6, 4]", "[2] {-1, 4}"),
      reshape("[2, 6, 4]", "[8, 6, 1]", "[3] {8, 0, 1}"),
      reshape("[12, 1, 4]", "[1, 12, 1, 4]", "[4] {1, 12, 1, 4}"),
      reshape("[12, 0, 4]", "[12, 0, 2, 2]", "[4] {0, 0, 2, 2}"),
      reshape("[0, 12]", "[0, 3, 4]", "[3] {0, 3, 4}"),
      reshape("[2, 12, 12, 5]", "[24, 60]", "[2] {24, 60}", "int64"),
      {"Flatten", graph("float[12, 6, 4] x", "float[12, 24] y", "y = Flatten(x)")},
      {"Flatten", graph("float[12, 6, 4] x", "float[72, 4] y", "y = Flatten <axis = 2> (x)")},
      {"Squeeze", graph("float[1, 12, 1, 6] x", "float[12, 6] y",
                        "a = Constant <value = int64[2] {0, 2}> () y = Squeeze(x, a)")},
      {"Unsqueeze", graph("float[12, 6] x", "float[1, 12, 1, 6] y",
                          "a = Constant <value = int64[2] {0, 2}> () y = Unsqueeze(x, a)")},
      {"Transpose",
       graph("float[12, 6, 24] x", "float[24, 12, 6] y", "y = Transpose <perm = [2, 0, 1]> (x)")},
      {"Transpose", graph("float[12, 12] x", "float[12, 12] y", "y = Transpose(x)")},
      {"Expand", graph("float[12, 1, 6] x", "float[2, 12, 24, 6] y",
                       "s = Constant <value = int64[4] {2, 12, 24, 6}> () y = Expand(x, s)")},
      {"Expand", graph("float[12, 12] x", "float[12, 12] y",
                       "s = Constant <value = int64[1] {1}> () y = Expand(x, s)")},
      {"Tile", graph("float[12, 6] x", "float[12, 18] y",
                     "r = Constant <value = int64[2] {1, 3}> () y = Tile(x, r)")},
      {"Tile", graph("float[12] x", "float[0] y", "r = Constant <value = int64[1] {0}> () y = Tile(x, r)")},
      {"Trilu", graph("float[12, 6, 12] x", "float[12, 6, 12] y", "y = Trilu(x)")},
      {"ConstantOfShape", graph("float[120] x", "float[120, 60] y, float[120] z",
                                "s = Constant <value = int64[2] {120, 60}> () y = ConstantOfShape <value = "
                                "float[1] {3}> (s) z = Neg(x)")},
      {"Concat", graph("float[12, 6] x, float[12, 12] w", "float[12, 18] y", "y = Concat <axis = 1> (x, w)")},
      {"Concat", graph("int64[12, 6] x, int64[0, 6] w, int64[12, 6] v", "int64[24, 6] y",
                       "y = Concat <axis = 0> (x, w, v)")},
      {"Concat", graph("float[12, 1] x, float[12, 5] w", "float[12, 6] y", "y = Concat <axis = -1> (x, w)")},
      {"Split", graph("float[12, 36] x", "float[12, 12] a, float[12, 12] b, float[12, 12] c",
                      "a, b, c = Split <axis = 1, num_outputs = 3> (x)")},
      {"Split", graph("float[12, 48] x", "float[12, 24] a, float[12, 12] b, float[12, 12] c",
                      "s = Constant <value = int64[3] {24, 12, 12}> () a, b, c = Split <axis = -1> (x, s)")},
      {"Split",
       graph("float[36, 5] x", "float[24, 5] a, float[12, 5] b",
             "a, b = Split <axis = 0, split = [24, 12]> (x)"),
       11},
      {"Split", graph("float[12, 6] x", "float[12, 5] a, float[12, 1] b",
                      "s = Constant <value = int64[2] {5, 1}> () a, b = Split <axis = 1> (x, s)")},
      {"Slice",
       graph(
           "float[12, 24] x", "float[12, 12] y",
           "s = Constant <value = int64[1] {12}> () e = Constant <value = int64[1] {9223372036854775807}> () "
           "a = Constant <value = int64[1] {1}> () y = Slice(x, s, e, a)")},
      {"Slice",
       graph("float[36, 12] x", "float[12, 12] y",
             "s = Constant <value = int64[2] {-24, -1}> () e = Constant <value = int64[2] {24, -13}> () "
             "a = Constant <value = int64[2] {0, -1}> () t = Constant <value = int64[2] {1, -1}> () y = "
             "Slice(x, s, e, a, t)")},
      {"Slice", graph("float[12, 12] x", "float[12, 5] y",
                      "s = Constant <value = int64[2] {0, 1}> () e = Constant <value = int64[2] {12, 6}> () "
                      "y = Slice(x, s, e)")},
      {"Slice",
       graph("float[12, 24] x", "float[12, 12] y", "y = Slice <axes = [1], starts = [0], ends = [12]> (x)"),
       9},
      {"Slice", graph("float[12, 24] x", "float[12, 0] y",
                      "s = Constant <value = int64[1] {24}> () e = Constant <value = int64[1] {24}> () "
                      "a = Constant <value = int64[1] {1}> () y = Slice(x, s, e, a)")},
      {"Pad", graph("float[12, 6] x", "float[12, 9] y",
                    "p = Constant <value = int64[4] {0, 1, 0, 2}> () v = Constant <value = float {3}> () y = "
                    "Pad(x, p, v)")},
      {"Pad", graph("float[12, 6] x", "float[12, 9] y",
                    "p = Constant <value = int64[4] {0, 1, 0, 2}> () y = Pad(x, p)")},
      {"Pad",
       graph("float[12, 6] x", "float[12, 9] y", "y = Pad <pads = [0, 1, 0, 2], mode = \"reflect\"> (x)"),
       10},
      {"Pad", graph("float[12, 6] x", "float[12, 9] y",
                    "p = Constant <value = int64[2] {1, 2}> () a = Constant <value = int64[1] {1}> () y = "
                    "Pad(x, p, , a)")},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_gathers(std::vector<ProofCase>& cases) {
  const std::map<std::string, Range> twelve = {{"i", {-12, 11}}};
  const std::vector<ProofCase> more = {
      {"Gather", graph("float[12, 6] x, int64[5, 12] i", "float[5, 12, 6] y", "y = Gather(x, i)"), 18, 0, -4,
       4, twelve},
      {"Gather", graph("float[6, 12, 2] x, int32[5] i", "float[6, 5, 2] y", "y = Gather <axis = 1> (x, i)"),
       18, 0, -4, 4, twelve},
      {"Gather", graph("int64[12] x, int64[12] i", "int64[12] y", "y = Gather(x, i)"), 18, 0, -4, 4, twelve},
      {"Gather", graph("float[12, 6] x, int64 i", "float[6] y", "y = Gather(x, i)"), 11, 0, -4, 4, twelve},
      {"Gather", graph("float[12, 6] x, int64[0] i", "float[0, 6] y", "y = Gather(x, i)"), 18, 0, -4, 4,
       twelve},
      {"Gather", graph("bool[12, 6] x, int64[12] i", "bool[12, 6] y", "y = Gather(x, i)"), 18, 0, -4, 4,
       twelve},
      {"Gather",
       graph("float[12, 6] x", "float[6] y", "i = Constant <value = int64 {3}> () y = Gather(x, i)")},
      {"Gather", graph("float[12, 3, 6] x", "float[12, 2, 6] y",
                       "i = Constant <value = int64[2] {0, 2}> () y = Gather <axis = 1> (x, i)")},
      {"GatherElements",
       graph("float[12, 6] x, int64[12, 12] i", "float[12, 12] y", "y = GatherElements <axis = 1> (x, i)"),
       18,
       0,
       -4,
       4,
       {{"i", {-6, 5}}}},
      {"GatherElements",
       graph("float[12, 12] x, int64[12, 5] i", "float[12, 5] y", "y = GatherElements <axis = 0> (x, i)"), 18,
       0, -4, 4, twelve},
      {"ScatterElements",
       graph("float[12, 12] x, int64[2, 12] i, float[2, 12] u", "float[12, 12] y",
             "y = ScatterElements <axis = 0, reduction = \"add\"> (x, i, u)"),
       18, 0, -4, 4, twelve},
      {"Scatter",
       graph("float[12, 12] x, int64[1, 12] i, float[1, 12] u", "float[12, 12] y",
             "y = Scatter <axis = 0> (x, i, u)"),
       9,
       0,
       -4,
       4,
       {{"i", {0, 11}}}},
      {"GatherND",
       graph("float[12, 6, 24] x, int64[12, 6, 1] i", "float[12, 6, 24] y",
             "y = GatherND <batch_dims = 1> (x, i)"),
       18,
       0,
       -4,
       4,
       {{"i", {-6, 5}}}},
      {"GatherND",
       graph("float[6, 6, 12] x, int64[12, 2] i", "float[12, 12] y", "y = GatherND(x, i)"),
       18,
       0,
       -4,
       4,
       {{"i", {-6, 5}}}},
      {"ScatterND",
       graph("float[6, 5, 12] x, int64[3, 2] i, float[3, 12] u", "float[6, 5, 12] y",
             "y = ScatterND <reduction = \"add\"> (x, i, u)"),
       18,
       0,
       -4,
       4,
       {{"i", {0, 4}}}},
      {"TensorScatter",
       graph("float[6, 12, 5, 2] x, float[6, 12, 2, 2] u, int64[6] w", "float[6, 12, 5, 2] y",
             "y = TensorScatter(x, u, w)"),
       24,
       0,
       -4,
       4,
       {{"w", {0, 3}}}},
      {"OneHot",
       graph("int64[12, 6] i, float[2] v", "float[12, 5, 6] y",
             "d = Constant <value = int64[1] {5}> () y = OneHot <axis = 1> (i, d, v)"),
       18, 0, -5, 4},
      {"ReverseSequence",
       graph("float[6, 12, 2] x, int64[12] l", "float[6, 12, 2] y",
             "y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, l)"),
       18,
       0,
       -4,
       4,
       {{"l", {1, 6}}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_attention(std::vector<ProofCase>& cases) {
  const std::string gqa_inputs = "int32[2] l, int32[1] t";
  const std::map<std::string, Range> lengths = {{"l", {5, 5}}, {"t", {6, 6}}};
  const std::vector<ProofCase> more = {
      {"Attention",
       graph("float[12, 24, 3, 4] q, float[12, 12, 5, 4] k, float[12, 12, 5, 4] v, float[12, 24, 3, 5] m",
             "float[12, 24, 3, 4] y", "y = Attention(q, k, v, m)"),
       23, 1e-5, -1, 1},
      {"Attention",
       graph("float[2, 3, 48] q, float[2, 5, 24] k, float[2, 5, 36] v, float[3, 5] m", "float[2, 3, 72] y",
             "y = Attention <q_num_heads = 24, kv_num_heads = 12, is_causal = 1> (q, k, v, m)"),
       23, 1e-5, -1, 1},
      {"Attention",
       graph("float[2, 12, 3, 4] q, float[2, 12, 2, 4] k, float[2, 12, 2, 4] v, float[2, 12, 3, 4] pk, "
             "float[2, 12, 3, 4] pv",
             "float[2, 12, 3, 4] y, float[2, 12, 5, 4] ck, float[2, 12, 5, 4] cv, float[2, 12, 3, 5] s",
             "y, ck, cv, s = Attention <is_causal = 1> (q, k, v, , pk, pv)"),
       23, 1e-5, -1, 1},
      {"GroupQueryAttention",
       graph("float[2, 3, 96] q, float[2, 3, 48] k, float[2, 3, 48] v, float[2, 12, 3, 4] pk, float[2, 12, "
             "3, 4] pv, " +
                 gqa_inputs,
             "float[2, 3, 96] y, float[2, 12, 6, 4] ck, float[2, 12, 6, 4] cv",
             "t6 = Constant <value = int32[1] {6}> () y, ck, cv = com.microsoft.GroupQueryAttention "
             "<num_heads = 24, kv_num_heads = 12> (q, k, v, pk, pv, l, t6)"),
       18, 1e-5, -1, 1, lengths},
      {"GroupQueryAttention",
       graph("float[2, 6, 192] q, int32[2] l, float[24] h, float[1, 24, 6, 6] b", "float[2, 6, 96] y",
             "t6 = Constant <value = int32[1] {6}> () y = com.microsoft.GroupQueryAttention <num_heads = 24, "
             "kv_num_heads = 12> (q, , , , , l, t6, , , , b, h)"),
       18, 1e-5, -1, 1, lengths},
      {"MultiHeadAttention",
       graph("float[2, 3, 24] q, float[2, 5, 24] k, float[2, 5, 36] v, float[84] b", "float[2, 3, 36] y",
             "y = com.microsoft.MultiHeadAttention <num_heads = 12> (q, k, v, b)"),
       18, 1e-5, -1, 1},
      {"MultiHeadAttention",
       graph("float[2, 3, 12, 3, 2] q, float[2, 12, 3, 3] s", "float[2, 3, 24] y",
             "y = com.microsoft.MultiHeadAttention <num_heads = 12> (q, , , , , s)"),
       18, 1e-5, -1, 1},
      {"MultiHeadAttention",
       graph("float[2, 3, 24] q, float[2, 3, 24] k, float[2, 3, 24] v, float[2, 12, 4, 2] pk, float[2, 12, "
             "4, 2] pv",
             "float[2, 3, 24] y, float[2, 12, 7, 2] ck, float[2, 12, 7, 2] cv",
             "y, ck, cv = com.microsoft.MultiHeadAttention <num_heads = 12> (q, k, v, , , , pk, pv)"),
       18, 1e-5, -1, 1},
      {"Attention",
       graph("float[2, 3, 5] x, float[5, 108] w, float[108] b, float[2, 2, 12, 4, 3] p",
             "float[2, 3, 36] y, float[2, 2, 12, 7, 3] c",
             "y, c = com.microsoft.Attention <num_heads = 12> (x, w, b, , p)"),
       18, 1e-5, -1, 1},
      {"Attention",
       graph("float[2, 3, 5] x, float[5, 84] w, float[84] b", "float[2, 3, 36] y",
             "y = com.microsoft.Attention <num_heads = 12, qkv_hidden_sizes = [24, 24, 36]> (x, w, b)"),
       18, 1e-5, -1, 1},
      {"RotaryEmbedding",
       graph("float[2, 3, 48] x, int64[2, 3] p, float[9, 2] c, float[9, 2] s", "float[2, 3, 48] y",
             "y = com.microsoft.RotaryEmbedding(x, p, c, s)"),
       18,
       1e-6,
       -4,
       4,
       {{"p", {0, 8}}}},
      {"RotaryEmbedding",
       graph("float[2, 3, 72] x, int64[2, 3] p, float[9, 2] c, float[9, 2] s", "float[2, 3, 72] y",
             "y = com.microsoft.RotaryEmbedding <num_heads = 12, rotary_embedding_dim = 4> (x, p, c, s)"),
       18,
       1e-6,
       -4,
       4,
       {{"p", {0, 8}}}},
      {"RotaryEmbedding",
       graph("float[2, 12, 3, 4] x, int64[1] p, float[9, 2] c, float[9, 2] s", "float[2, 12, 3, 4] y",
             "y = com.microsoft.RotaryEmbedding(x, p, c, s)"),
       18,
       1e-6,
       -4,
       4,
       {{"p", {0, 5}}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_convolutions(std::vector<ProofCase>& cases) {
  const std::vector<ProofCase> more = {
      {"Conv", graph("float[12, 12, 5] x, float[24, 12, 3] w, float[24] b", "float[12, 24, 5] y",
                     "y = Conv <pads = [1, 1]> (x, w, b)")},
      {"Conv",
       graph("float[2, 12, 5, 5] x, float[12, 12, 1, 1] w", "float[2, 12, 5, 5] y", "y = Conv(x, w)")},
      {"Conv", graph("float[2, 24, 5] x, float[36, 2, 3] w, float[36] b", "float[2, 36, 3] y",
                     "y = Conv <group = 12> (x, w, b)")},
      {"Conv",
       graph("float[1, 12, 5] x, float[12, 1, 3] w", "float[1, 12, 3] y", "y = Conv <group = 12> (x, w)")},
      {"ConvTranspose", graph("float[12, 12, 5] x, float[12, 24, 3] w, float[24] b", "float[12, 24, 7] y",
                              "y = ConvTranspose(x, w, b)")},
      {"ConvTranspose", graph("float[2, 24, 5] x, float[24, 3, 3] w, float[36] b", "float[2, 36, 7] y",
                              "y = ConvTranspose <group = 12> (x, w, b)")},
      {"ConvInteger",
       graph("uint8[12, 2, 5] x, uint8[12, 2, 3] w, uint8 a, uint8 z", "int32[12, 12, 3] y",
             "y = ConvInteger(x, w, a, z)"),
       18, 0, 0, 9},
      {"QLinearConv",
       graph("uint8[12, 2, 5] x, float s, uint8 a, int8[12, 2, 3] w, float[12] t, int8[12] z, float u, uint8 "
             "v, int32[12] b",
             "uint8[12, 12, 3] y", "y = QLinearConv(x, s, a, w, t, z, u, v, b)"),
       18,
       0,
       1,
       3,
       {{"z", {0, 0}}, {"u", {40, 40}}}},
      {"FusedConv",
       graph("float[12, 3, 5] x, float[12, 3, 3] w, float[12] b, float[12, 12, 3] z", "float[12, 12, 3] y",
             "y = com.microsoft.FusedConv <activation = \"Relu\"> (x, w, b, z)")},
      {"AveragePool",
       graph("float[12, 6, 5] x", "float[12, 6, 3] y", "y = AveragePool <kernel_shape = [3]> (x)"), 18, 1e-6},
      {"LpPool", graph("float[12, 6, 5] x", "float[12, 6, 3] y", "y = LpPool <kernel_shape = [3]> (x)"), 18,
       1e-6},
      {"MaxPool", graph("float[12, 6, 12] x", "float[12, 6, 10] y", "y = MaxPool <kernel_shape = [3]> (x)")},
      {"MaxPool", graph("float[12, 6, 5] x", "float[12, 6, 3] y, int64[12, 6, 3] i",
                        "y, i = MaxPool <kernel_shape = [3]> (x)")},
      {"DepthToSpace",
       graph("float[12, 12, 2, 2] x", "float[12, 3, 4, 4] y", "y = DepthToSpace <blocksize = 2> (x)")},
      {"SpaceToDepth",
       graph("float[12, 3, 4, 4] x", "float[12, 12, 2, 2] y", "y = SpaceToDepth <blocksize = 2> (x)")},
      {"GridSample",
       graph("float[12, 6, 4, 4] x, float[12, 2, 3, 2] g", "float[12, 6, 2, 3] y", "y = GridSample(x, g)"),
       16, 1e-5, -1, 1},
      {"RoiAlign",
       graph("float[2, 12, 5, 5] x, float[6, 4] r, int64[6] i", "float[6, 12, 2, 2] y",
             "y = RoiAlign <output_height = 2, output_width = 2> (x, r, i)"),
       16,
       1e-5,
       0,
       4,
       {{"i", {0, 1}}}},
      {"Resize",
       graph("float[12, 6, 4, 4] x", "float[12, 6, 8, 8] y",
             "s = Constant <value = float[4] {1, 1, 2, 2}> () y = Resize <mode = \"nearest\"> (x, , s)"),
       18},
      {"Upsample",
       graph("float[12, 6, 4, 4] x", "float[12, 6, 8, 8] y",
             "s = Constant <value = float[4] {1, 1, 2, 2}> () y = Upsample <mode = \"nearest\"> (x, s)"),
       9},
      {"LSTM",
       graph("float[3, 12, 2] x, float[1, 20, 2] w, float[1, 20, 5] r, float[1, 40] b, int32[12] l, float[1, "
             "12, 5] h, float[1, 12, 5] c",
             "float[3, 1, 12, 5] y, float[1, 12, 5] yh, float[1, 12, 5] yc",
             "y, yh, yc = LSTM <hidden_size = 5> (x, w, r, b, l, h, c)"),
       18,
       1e-5,
       -1,
       1,
       {{"l", {1, 3}}}},
      {"GRU",
       graph("float[12, 3, 2] x, float[1, 15, 2] w, float[1, 15, 5] r",
             "float[12, 3, 1, 5] y, float[12, 1, 5] yh",
             "y, yh = GRU <hidden_size = 5, layout = 1> (x, w, r)"),
       18, 1e-5, -1, 1},
      {"RNN",
       graph("float[3, 12, 2] x, float[1, 5, 2] w, float[1, 5, 5] r", "float[3, 1, 12, 5] y",
             "y = RNN <hidden_size = 5> (x, w, r)"),
       18, 1e-5, -1, 1},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

void add_quantised(std::vector<ProofCase>& cases) {
  const std::map<std::string, Range> linear = {{"s", {1, 3}}, {"t", {1, 3}}, {"u", {40, 40}},
                                               {"v", {5, 5}}, {"a", {1, 2}}, {"q", {0.02, 0.02}},
                                               {"z", {-1, 2}}};
  const auto add = [&](const char* op, const std::string& text, double tolerance = 0, double low = 0,
                       double high = 9, int opset = 21) {
    cases.push_back({op, text, opset, tolerance, low, high, linear});
  };
  add("MatMulInteger", graph("uint8[12, 6] a, int8[6, 12] b, uint8 az, int8 bz", "int32[12, 12] y",
                             "y = MatMulInteger(a, b, az, bz)"));
  add("MatMulInteger", graph("uint8[12, 12] a, int8[12, 24] b, uint8[12] az, int8[24] bz", "int32[12, 24] y",
                             "y = MatMulInteger(a, b, az, bz)"));
  add("MatMulInteger", graph("uint8[12, 5, 6] a, int8[12, 6, 12] b, uint8[12, 5, 1] az, int8[12, 1, 12] bz",
                             "int32[12, 5, 12] y", "y = MatMulInteger(a, b, az, bz)"));
  add("QLinearMatMul",
      graph("uint8[12, 6] x, float s, uint8 a, int8[6, 12] b, float t, int8 z, float u, uint8 v",
            "uint8[12, 12] y", "y = QLinearMatMul(x, s, a, b, t, z, u, v)"));
  add("QLinearMatMul", graph("uint8[12, 6] x, float[12] s, uint8[12] a, int8[6, 24] b, float[24] t, int8[24] "
                             "z, float u, uint8 v",
                             "uint8[12, 24] y", "y = QLinearMatMul(x, s, a, b, t, z, u, v)"));
  add("QLinearMatMul",
      graph("uint8[12, 2, 6] x, float s, uint8 a, int8[12, 6, 5] b, float t, int8 z, float u, uint8 v",
            "uint8[12, 2, 5] y", "y = QLinearMatMul(x, s, a, b, t, z, u, v)"));
  add("QGemm",
      graph("uint8[12, 6] x, float s, uint8 a, int8[12, 6] b, float[12] t, int8[12] z, int32[12] c",
            "float[12, 12] y", "y = com.microsoft.QGemm <transB = 1> (x, s, a, b, t, z, c)"),
      1e-6);
  add("QGemm", graph("uint8[6, 12] x, float s, uint8 a, int8[6, 12] b, float t, int8 z, int32[12, 12] c, "
                     "float u, uint8 v",
                     "uint8[12, 12] y", "y = com.microsoft.QGemm <transA = 1> (x, s, a, b, t, z, c, u, v)"));
  add("MatMulIntegerToFloat",
      graph("uint8[12, 6] x, int8[6, 12] b, float s, float[12] t, uint8 a, int8[12] z, float[12] c",
            "float[12, 12] y", "y = com.microsoft.MatMulIntegerToFloat(x, b, s, t, a, z, c)"),
      1e-6);
  add("DynamicQuantizeMatMul",
      graph("float[5, 6] x, int8[6, 12] b, float[12] t, int8[12] z, float[12] c", "float[5, 12] y",
            "y = com.microsoft.DynamicQuantizeMatMul(x, b, t, z, c)"),
      1e-6);
  add("DynamicQuantizeMatMul",
      graph("float[12, 6] x, int8[6, 12] b, float t", "float[12, 12] y",
            "y = com.microsoft.DynamicQuantizeMatMul(x, b, t)"),
      1e-6);
  cases.back().fractions = true;
  cases.back().ranges["t"] = {1, 1};
  for (const char* sizes : {"[12, 5, 24]", "[12]"}) {
    ProofCase c{"DynamicQuantizeLinear",
                graph(fmt::format("float{} x", sizes), fmt::format("uint8{} y, float s, uint8 z", sizes),
                      "y, s, z = DynamicQuantizeLinear(x)"),
                18};
    c.fractions = true;
    cases.push_back(c);
    c.low = 2;  // zero is in the range all the same
    cases.push_back(c);
  }
  for (const char* op : {"QLinearAdd", "QLinearMul"}) {
    for (const char* other : {"[12, 5, 24]", "[24]", "[5, 1]"}) {
      add(op, graph(fmt::format(
                        "uint8[12, 5, 24] x, float s, uint8 a, uint8{} b, float t, uint8 c, float u, uint8 v",
                        other),
                    "uint8[12, 5, 24] y", fmt::format("y = com.microsoft.{}(x, s, a, b, t, c, u, v)", op)));
    }
  }
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu"})
    add(op, graph("uint8[12, 0, 24] x, float s, uint8 a, float u, uint8 v", "uint8[12, 0, 24] y",
                  fmt::format("y = com.microsoft.{}(x, s, a, u, v)", op)));
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu"})
    add(op,
        graph("uint8[12, 24] x, float s, uint8 a, float s2, uint8 v", "uint8[12, 24] y",
              fmt::format("y = com.microsoft.{}(x, s, a, s2, v)", op)),
        0, 1, 9);
  add("QLinearSoftmax", graph("uint8[12, 6, 5] x, float s, uint8 a, float q, uint8 v", "uint8[12, 6, 5] y",
                              "y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, s, a, q, v)"));
  cases.back().fractions = true;
  add("QLinearSoftmax", graph("uint8[12, 6, 12] x, float s, uint8 a, float q, uint8 v", "uint8[12, 6, 12] y",
                              "y = com.microsoft.QLinearSoftmax <axis = 1, opset = 12> (x, s, a, q, v)"));
  cases.back().fractions = true;
  add("QLinearReduceMean",
      graph("uint8[12, 6, 24] x, float s, uint8 a, float s2, uint8 v", "uint8[12, 24] y",
            "y = com.microsoft.QLinearReduceMean <axes = [1], keepdims = 0> (x, s, a, s2, v)"),
      0, 1, 9);
  add("QLinearGlobalAveragePool",
      graph("uint8[12, 6, 24] x, float s, uint8 a, float s2, uint8 v", "uint8[12, 1, 24] y",
            "y = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (x, s, a, s2, v)"),
      0, 1, 9);
  add("QLinearGlobalAveragePool",
      graph("uint8[12, 24, 6] x, float s, uint8 a, float s2, uint8 v", "uint8[12, 24, 1] y",
            "y = com.microsoft.QLinearGlobalAveragePool(x, s, a, s2, v)"),
      0, 1, 9);
  add("QLinearAveragePool",
      graph("uint8[12, 24, 6] x, float s, uint8 a, float s2, uint8 v", "uint8[12, 24, 6] y",
            "y = com.microsoft.QLinearAveragePool <kernel_shape = [3], pads = [1, 1]> (x, s, a, s2, v)"),
      0, 1, 9);
  add("QLinearWhere",
      graph("bool[12, 1] c, uint8[12, 24] x, float s, uint8 a, uint8[24] w, float t, uint8 b, float s2, "
            "uint8 v",
            "uint8[12, 24] y", "y = com.microsoft.QLinearWhere(c, x, s, a, w, t, b, s2, v)"),
      0, 1, 9);
  add("QLinearConcat",
      graph("float u, uint8 v, uint8[12, 24] x, float s, uint8 a, uint8[12, 12] w, float t, uint8 b",
            "uint8[12, 36] y", "y = com.microsoft.QLinearConcat <axis = 1> (u, v, x, s, a, w, t, b)"));
  add("QLinearConv",
      graph("uint8[12, 5, 2] x, float s, uint8 a, int8[12, 2, 3] w, float[12] t, int8[12] z0, float u, uint8 "
            "v, int32[12] b",
            "uint8[12, 3, 12] y",
            "y = com.microsoft.QLinearConv <channels_last = 1> (x, s, a, w, t, z0, u, v, b)"),
      0, 0, 0);
  cases.back().ranges["x"] = {1, 9};
  cases.back().ranges["w"] = {-3, 3};
  cases.back().ranges["b"] = {0, 40};

  // Numbers in blocks.
  const auto blocks = [&](const char* op, const std::string& text, double low = 0, double high = 255) {
    cases.push_back({op,
                     text,
                     21,
                     0,
                     low,
                     high,
                     {{"x", {-2, 2}}, {"s", {1, 2}}, {"i", {-14, 13}}, {"b", {-3, 3}}, {"zf", {1, 7}}}});
  };
  blocks("MatMulNBits",
         graph("float[12, 384] x, uint8[12, 12, 16] w, float[12, 12] s", "float[12, 12] y",
               "y = com.microsoft.MatMulNBits <K = 384, N = 12, bits = 4, block_size = 32> (x, w, s)"));
  blocks(
      "MatMulNBits",
      graph("float[2, 5, 384] x, uint8[12, 24, 8] w, float[12, 24] s, uint8[12, 12] z, float[12] b",
            "float[2, 5, 12] y",
            "y = com.microsoft.MatMulNBits <K = 384, N = 12, bits = 4, block_size = 16> (x, w, s, z, , b)"));
  blocks("MatMulNBits",
         graph("float[1, 192] x, uint8[12, 12, 16] w, float[12, 12] s, uint8[12, 12] z", "float[1, 12] y",
               "y = com.microsoft.MatMulNBits <K = 192, N = 12, bits = 8, block_size = 16> (x, w, s, z)"));
  blocks("MatMulNBits",
         graph("float[3, 192] x, uint8[12, 12, 8] w, float[144] s, float[12, 12] zf", "float[3, 12] y",
               "y = com.microsoft.MatMulNBits <K = 192, N = 12, bits = 4, block_size = 16> (x, w, s, zf)"));
  blocks("MatMulNBits",
         graph("float[3, 40] x, uint8[12, 3, 8] w, float[12, 3] s, uint8[12, 2] z", "float[3, 12] y",
               "y = com.microsoft.MatMulNBits <K = 40, N = 12, bits = 4, block_size = 16> (x, w, s, z)"));
  blocks("GatherBlockQuantized",
         graph("uint8[12, 96] d, int64[5, 12] i, float[12, 12] s, uint8[12, 6] z", "float[5, 12, 192] y",
               "y = com.microsoft.GatherBlockQuantized <block_size = 16, bits = 4> (d, i, s, z)"));
  blocks(
      "GatherBlockQuantized",
      graph(
          "uint8[12, 6, 16] d, int32[12] i, float[12, 6, 1] s", "float[12, 6, 16] y",
          "y = com.microsoft.GatherBlockQuantized <quantize_axis = 2, block_size = 16, bits = 8> (d, i, s)"));
  cases.push_back({"DequantizeLinear",
                   graph("uint8[12, 96] x, float[12, 12] s, uint8[12, 12] z", "float[12, 96] y",
                         "y = DequantizeLinear <axis = 1, block_size = 8> (x, s, z)"),
                   21, 0, 0, 9});
  cases.push_back({"DequantizeLinear",
                   graph("int8[24, 5, 12] x, float[12, 5, 12] s", "float[24, 5, 12] y",
                         "y = DequantizeLinear <axis = 0, block_size = 2> (x, s)"),
                   21, 0, -4, 4});
  cases.push_back({"QuantizeLinear",
                   graph("float[12, 96] x, float[12, 12] s, uint8[12, 12] z", "uint8[12, 96] y",
                         "y = QuantizeLinear <axis = 1, block_size = 8> (x, s, z)"),
                   21, 0, 1, 9});
  cases.push_back(
      {"QAttention",
       graph("uint8[2, 3, 6] x, int8[6, 108] w, float[108] b, float s, float[108] t, int32[2, 7] m, uint8 a, "
             "int8[108] z, float[2, 2, 12, 4, 3] p",
             "float[2, 3, 36] y, float[2, 2, 12, 7, 3] c",
             "y, c = com.microsoft.QAttention <num_heads = 12, unidirectional = 1> (x, w, b, s, t, m, a, z, "
             "p)"),
       18,
       1e-5,
       -1,
       1,
       {{"x", {0, 9}},
        {"w", {-3, 3}},
        {"s", {0.01, 0.01}},
        {"t", {0.1, 0.2}},
        {"m", {0, 1}},
        {"z", {0, 1}}}});
  cases.back().fractions = true;
}

void add_axes(std::vector<ProofCase>& cases) {
  // Few values: many equal elements.
  const auto ties = [&](const char* op, const std::string& text, int opset = 18) {
    cases.push_back({op, text, opset, 0, 0, 2});
  };
  for (const char* op : {"ArgMax", "ArgMin"}) {
    ties(op, graph("float[12, 24] x", "int64[12, 1] y", fmt::format("y = {} <axis = 1> (x)", op)));
    ties(op, graph("int32[24, 5] x", "int64[5] y", fmt::format("y = {} <axis = 0, keepdims = 0> (x)", op)));
    ties(op,
         graph("float[2, 12, 12] x", "int64[2, 12] y",
               fmt::format("y = {} <axis = -1, keepdims = 0, select_last_index = 1> (x)", op)),
         13);
    ties(op, graph("uint8[0, 12] x", "int64[0] y", fmt::format("y = {} <axis = 1, keepdims = 0> (x)", op)),
         12);
  }
  for (const char* k : {"1", "5", "12", "24"}) {
    for (const char* largest : {"0", "1"})
      ties("TopK",
           graph("float[2, 24] x", fmt::format("float[2, {0}] v, int64[2, {0}] i", k),
                 fmt::format(
                     "k = Constant <value = int64[1] {{{}}}> () v, i = TopK <axis = -1, largest = {}> (x, k)",
                     k, largest)));
  }
  ties("TopK", graph("int64[12, 12, 2] x", "int64[12, 3, 2] v, int64[12, 3, 2] i",
                     "k = Constant <value = int64[1] {3}> () v, i = TopK <axis = 1> (x, k)"));
  ties("TopK", graph("float[5, 12] x", "float[5, 2] v, int64[5, 2] i", "v, i = TopK <k = 2> (x)"), 9);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const int opset : {13, 18}) {
      ProofCase c{op,
                  graph("float[6, 12, 24] x", "float[6, 12, 24] y", fmt::format("y = {} <axis = 1> (x)", op)),
                  opset, 1e-6};
      c.fractions = true;
      cases.push_back(c);
    }
  }
  const std::vector<ProofCase> more = {
      {"Compress", graph("float[12, 4, 24] x", "float[12, 2, 24] y",
                         "c = Constant <value = bool[4] {1, 0, 0, 1}> () y = Compress <axis = 1> (x, c)")},
      {"Compress", graph("float[12, 4] x", "float[12, 4] y",
                         "c = Constant <value = bool[4] {1, 1, 1, 1}> () y = Compress <axis = 1> (x, c)")},
      {"CenterCropPad",
       graph("float[12, 6, 24] x", "float[12, 6, 24] y",
             "s = Constant <value = int64[1] {6}> () y = CenterCropPad <axes = [1]> (x, s)")},
      {"DFT", graph("float[12, 5, 12, 1] x", "float[12, 5, 12, 2] y", "y = DFT <axis = 1> (x)"), 17, 1e-5},
      {"DFT", graph("float[12, 5, 2] x", "float[12, 5, 2] y", "y = DFT(x)"), 20, 1e-5},
      {"Det", graph("float[12, 6, 3, 3] x", "float[12, 6] y", "y = Det(x)"), 18, 1e-5},
      {"STFT",
       graph("float[12, 16, 1] x", "float[12, 5, 3, 2] y",
             "s = Constant <value = int64 {3}> () l = Constant <value = int64 {4}> () y = STFT(x, s, , l)"),
       17, 1e-5},
      {"BiasAdd", graph("float[2, 12, 24] x, float[24] b, float[2, 12, 24] r", "float[2, 12, 24] y",
                        "y = com.microsoft.BiasAdd(x, b, r)")},
      {"BiasSplitGelu",
       graph("float[2, 12, 48] x, float[48] b", "float[2, 12, 24] y",
             "y = com.microsoft.BiasSplitGelu(x, b)"),
       18, 1e-6},
      {"MeanVarianceNormalization",
       graph("float[12, 24, 5, 2] x", "float[12, 24, 5, 2] y", "y = MeanVarianceNormalization(x)"), 18, 1e-5},
      {"MeanVarianceNormalization",
       graph("float[12, 5, 24] x", "float[12, 5, 24] y", "y = MeanVarianceNormalization <axes = [1]> (x)"),
       18, 1e-5},
      {"GroupNormalization",
       graph("float[2, 24, 5] x, float[24] s, float[24] b", "float[2, 24, 5] y",
             "y = GroupNormalization <num_groups = 12> (x, s, b)"),
       21, 1e-5},
      {"GroupNorm",
       graph("float[12, 5, 24] x, float[24] s, float[24] b", "float[12, 5, 24] y",
             "y = com.microsoft.GroupNorm <groups = 12, activation = 1> (x, s, b)"),
       18, 1e-5},
      {"SkipGroupNorm",
       graph("float[12, 5, 24] x, float[24] s, float[24] b, float[12, 24] k, float[24] c",
             "float[12, 5, 24] y, float[12, 5, 24] t",
             "y, t = com.microsoft.SkipGroupNorm <groups = 12, activation = 0> (x, s, b, k, c)"),
       18, 1e-5},
      {"EmbedLayerNormalization",
       graph("int32[12, 3] i, int32[12, 3] g, float[9, 5] w, float[9, 5] p, float[2, 5] s, float[5] a, "
             "float[5] b, "
             "int32[12, 3] m",
             "float[12, 3, 5] y, int32[12] c, float[12, 3, 5] e",
             "y, c, e = com.microsoft.EmbedLayerNormalization(i, g, w, p, s, a, b, m)"),
       18,
       1e-5,
       -4,
       4,
       {{"i", {0, 8}}, {"g", {0, 1}}, {"m", {0, 1}}}},
      {"QEmbedLayerNormalization",
       graph("int32[12, 3] i, int32[12, 3] g, uint8[9, 5] w, uint8[9, 5] p, uint8[2, 5] s, uint8[5] a, "
             "uint8[5] b, "
             "int32[12, 3] m, float ws, float ps, float ss, float as, float bs, uint8 wz, uint8 pz, uint8 "
             "sz, uint8 az, uint8 bz",
             "float[12, 3, 5] y, int32[12] c",
             "y, c = com.microsoft.QEmbedLayerNormalization(i, g, w, p, s, a, b, m, ws, ps, ss, as, bs, wz, "
             "pz, sz, az, bz)"),
       18,
       1e-5,
       1,
       9,
       {{"i", {0, 8}}, {"g", {0, 1}}, {"m", {0, 1}}}},
      {"CausalConvWithState",
       graph("float[12, 24, 5] x, float[24, 1, 3] w, float[24] b, float[12, 24, 2] s",
             "float[12, 24, 5] y, float[12, 24, 2] t", "y, t = CausalConvWithState(x, w, b, s)"),
       27},
      {"CenterCropPad",
       graph("float[12, 5, 24] x", "float[12, 3, 24] y",
             "s = Constant <value = int64[1] {3}> () y = CenterCropPad <axes = [1]> (x, s)")},
      {"Col2Im", graph("float[12, 48, 4] x", "float[12, 12, 3, 3] y",
                       "i = Constant <value = int64[2] {3, 3}> () b = Constant <value = int64[2] {2, 2}> () "
                       "y = Col2Im(x, i, b)")},
      {"DeformConv",
       graph("float[12, 12, 4, 4] x, float[12, 12, 2, 2] w, float[12, 8, 3, 3] o, float[12] b, float[12, 4, "
             "3, 3] m",
             "float[12, 12, 3, 3] y", "y = DeformConv <kernel_shape = [2, 2]> (x, w, o, b, m)"),
       19, 1e-5, -1, 1},
      {"DeformConv",
       graph("float[2, 24, 4, 4] x, float[12, 2, 2, 2] w, float[2, 8, 3, 3] o", "float[2, 12, 3, 3] y",
             "y = DeformConv <kernel_shape = [2, 2], group = 12> (x, w, o)"),
       19, 1e-5, -1, 1},
      {"NhwcConv", graph("float[12, 5, 12] x, float[24, 3, 12] w, float[24] b", "float[12, 5, 24] y",
                         "y = com.microsoft.NhwcConv <pads = [1, 1]> (x, w, b)")},
      {"NhwcFusedConv",
       graph("float[12, 5, 24] x, float[12, 2, 3] w, float[12] b, float[12, 3, 12] z", "float[12, 3, 12] y",
             "y = com.microsoft.NhwcFusedConv <activation = \"Relu\", group = 12> (x, w, b, z)")},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

// Several ranks need the same head of the keys; batches and queries.
void add_shared_heads(std::vector<ProofCase>& cases) {
  const std::string gqa_inputs = "int32[2] l, int32[1] t";
  const std::map<std::string, Range> lengths = {{"l", {5, 5}}, {"t", {6, 6}}};
  for (const char* heads : {"1", "2"}) {
    const int keys = heads[0] - '0';
    cases.push_back(
        {"Attention",
         graph(
             fmt::format("float[2, 12, 3, 4] q, float[2, {0}, 2, 4] k, float[2, {0}, 2, 5] v, float[2, {0}, "
                         "3, 4] pk, "
                         "float[2, {0}, 3, 5] pv, float[12, 3, 5] m",
                         keys),
             fmt::format(
                 "float[2, 12, 3, 5] y, float[2, {0}, 5, 4] ck, float[2, {0}, 5, 5] cv, float[2, 12, 3, 5] s",
                 keys),
             "y, ck, cv, s = Attention <is_causal = 1> (q, k, v, m, pk, pv)"),
         23, 1e-5, -1, 1});
    cases.push_back(
        {"Attention",
         graph(fmt::format("float[2, 3, 48] q, float[2, 5, {}] k, float[2, 5, {}] v", 4 * keys, 3 * keys),
               "float[2, 3, 36] y",
               fmt::format("y = Attention <q_num_heads = 12, kv_num_heads = {}, is_causal = 1> (q, k, v)",
                           keys)),
         23, 1e-5, -1, 1});
    cases.push_back(
        {"GroupQueryAttention",
         graph(
             fmt::format("float[2, 3, 48] q, float[2, 3, {0}] k, float[2, 3, {0}] v, float[2, {1}, 3, 4] pk, "
                         "float[2, {1}, 3, 4] pv, {2}",
                         4 * keys, keys, gqa_inputs),
             fmt::format("float[2, 3, 48] y, float[2, {0}, 6, 4] ck, float[2, {0}, 6, 4] cv", keys),
             fmt::format(
                 "t6 = Constant <value = int32[1] {{6}}> () y, ck, cv = com.microsoft.GroupQueryAttention "
                 "<num_heads = 12, kv_num_heads = {}> (q, k, v, pk, pv, l, t6)",
                 keys)),
         18, 1e-5, -1, 1, lengths});
  }
  const std::vector<ProofCase> more = {
      {"Attention",
       graph("float[2, 3, 12, 4] q, float[2, 3, 5, 4] k, float[2, 3, 5, 4] v, float[12, 5] m",
             "float[2, 3, 12, 4] y", "y = Attention(q, k, v, m)"),
       23, 1e-5, -1, 1},
      {"GroupQueryAttention",
       graph("float[12, 3, 8] q, float[12, 3, 4] k, float[12, 3, 4] v, float[12, 1, 3, 4] pk, float[12, 1, "
             "3, 4] pv, "
             "int32[12] l, int32[1] t, float[1, 2, 3, 6] b",
             "float[12, 3, 8] y, float[12, 1, 6, 4] ck, float[12, 1, 6, 4] cv",
             "t6 = Constant <value = int32[1] {6}> () y, ck, cv = com.microsoft.GroupQueryAttention "
             "<num_heads = 2, "
             "kv_num_heads = 1> (q, k, v, pk, pv, l, t6, , , , b)"),
       18, 1e-5, -1, 1, lengths},
      {"MultiHeadAttention",
       graph("float[12, 24, 6] q, float[12, 5, 6] k, float[12, 5, 6] v, int32[12, 5] m, float[1, 3, 24, 5] s",
             "float[12, 24, 6] y", "y = com.microsoft.MultiHeadAttention <num_heads = 3> (q, k, v, , m, s)"),
       18,
       1e-5,
       -1,
       1,
       {{"m", {0, 1}}}},
      {"Attention",
       graph("float[12, 3, 5] x, float[5, 36] w, float[36] b, int32[12] m, float[2, 12, 3, 4, 4] p",
             "float[12, 3, 12] y, float[2, 12, 3, 7, 4] c",
             "y, c = com.microsoft.Attention <num_heads = 3> (x, w, b, m, p)"),
       18,
       1e-5,
       -1,
       1,
       {{"m", {3, 7}}}},
      {"RotaryEmbedding",
       graph("float[12, 24, 8] x, int64[12, 24] p, float[9, 2] c, float[9, 2] s", "float[12, 24, 8] y",
             "y = com.microsoft.RotaryEmbedding(x, p, c, s)"),
       18,
       1e-6,
       -4,
       4,
       {{"p", {0, 8}}}},
      {"RotaryEmbedding",
       graph("float[12, 3, 24, 4] x, int64[1] p, float[30, 2] c, float[30, 2] s", "float[12, 3, 24, 4] y",
             "y = com.microsoft.RotaryEmbedding(x, p, c, s)"),
       18,
       1e-6,
       -4,
       4,
       {{"p", {0, 5}}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
}

}  // namespace

std::vector<ProofCase> rule_cases() {
  std::vector<ProofCase> cases;
  add_elementwise(cases);
  add_products(cases);
  add_reductions(cases);
  add_moves(cases);
  add_gathers(cases);
  add_attention(cases);
  add_convolutions(cases);
  add_quantised(cases);
  add_axes(cases);
  add_shared_heads(cases);
  return cases;
}

}  // namespace braid::frontend::sharding
