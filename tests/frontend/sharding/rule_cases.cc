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
  return cases;
}

}  // namespace braid::frontend::sharding
