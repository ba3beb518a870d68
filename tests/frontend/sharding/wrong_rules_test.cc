// Rules that are wrong, each as one could be written: the proof must find every one.
#include <gtest/gtest.h>

#include "frontend/schemas.h"
#include "frontend/sharding/local.h"
#include "tests/frontend/sharding/replaced_rule.h"
#include "tests/frontend/sharding/rule_cases.h"

namespace braid::frontend::sharding {
namespace {

using ir::ReduceKind;

// A change of the letters that the right rule gives.
using Change = void (*)(Factors&, const NodeView&);

struct Wrong {
  const char* what;
  const char* domain;
  const char* op;
  Change change;
  bool without_rewrite = false;
};

std::optional<Rule> right_rule;
Change change_now = nullptr;

Factors changed(const NodeView& node, const Rule&) {
  Factors f = right_rule->factors == nullptr ? Factors{} : right_rule->factors(node, *right_rule);
  if (change_now != nullptr) change_now(f, node);
  return f;
}

// Whether the proof of some case of the operator finds the wrong rule.
bool found(const Wrong& wrong, int ranks) {
  change_now = wrong.change;
  const ReplacedRule replaced(wrong.domain, wrong.op, [&](Rule& rule) {
    right_rule = rule;
    rule.factors = changed;
    if (wrong.without_rewrite) rule.rewrite = nullptr;
  });
  bool is_found = false;
  unsigned seed = 5000;
  for (const ProofCase& c : rule_cases()) {
    const bool microsoft = c.graph.find(" com.microsoft." + c.op) != std::string::npos;
    if (c.op != wrong.op || microsoft != (std::string(wrong.domain) == kMicrosoftDomain)) continue;
    try {
      is_found |= !prove(c, ranks, seed += 10).wrong.empty();
    } catch (const std::exception&) {  // the whole program with the wrong rule is refused
      is_found = true;
    }
  }
  return is_found;
}

void sums_pass(Factors& f, const NodeView&) { f.linear.push_back({{0}, {ReduceKind::sum}}); }
void maxima_pass(Factors& f, const NodeView&) { f.linear.push_back({{0}, {ReduceKind::max}}); }
void products_pass(Factors& f, const NodeView&) { f.linear.push_back({{0}, {ReduceKind::prod}}); }
void second_sum_passes(Factors& f, const NodeView&) { f.linear.push_back({{1}, {ReduceKind::sum}}); }
void both_sums_pass(Factors& f, const NodeView&) { f.linear = {{{0, 1}, {ReduceKind::sum}}}; }
void bias_added_by_all(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) letter.pending_inputs.clear();
}
void pending_bias_ignored(Factors& f, const NodeView&) {
  for (Linear& linear : f.linear) linear.inputs.resize(1);
}
void sum_called_maximum(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) {
    if (letter.reduce) letter.reduce = ReduceKind::max;
  }
}
void maximum_called_sum(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) {
    if (letter.reduce) letter.reduce = ReduceKind::sum;
  }
}
void sum_forgotten(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) letter.reduce.reset();
}
// Every dimension of the result passes, those that must stay whole too.
void all_dims(Factors& f, const NodeView& node) { f.letters = broadcast_letters(node, {0}); }
void second_input_whole(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters)
    std::erase_if(letter.at, [](const Occurrence& o) { return !o.output && o.index == 1; });
}
void third_input_whole(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters)
    std::erase_if(letter.at, [](const Occurrence& o) { return !o.output && o.index == 2; });
}
void results_transposed(Factors& f, const NodeView& node) {
  for (Letter& letter : f.letters) {
    for (Occurrence& o : letter.at) {
      if (o.output) o.dim = node.output(0).rank() - 1 - o.dim;
    }
  }
}
void unblocked(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) {
    for (Occurrence& o : letter.at) {
      std::int64_t sum = 0;
      for (const std::int64_t s : o.segments) sum += s;
      o.segments = {sum};
    }
  }
}
void second_output_whole(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters)
    std::erase_if(letter.at, [](const Occurrence& o) { return o.output && o.index == 1; });
}
void parameters_whole(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters)
    std::erase_if(letter.at, [](const Occurrence& o) { return !o.output && (o.index == 4 || o.index == 5); });
}
void fourth_input_whole(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters)
    std::erase_if(letter.at, [](const Occurrence& o) { return !o.output && o.index == 3; });
}
// Whole blocks are cut.
void inside_of_blocks(Factors& f, const NodeView&) {
  for (Letter& letter : f.letters) {
    if (letter.name != "blocks" && letter.name != "d1") continue;
    const std::int64_t inner = letter.at[0].segments[0];
    letter.size *= inner;
    for (Occurrence& o : letter.at) o.segments = {std::max<std::int64_t>(o.segments[0] / inner, 1)};
    std::erase_if(letter.at, [](const Occurrence& o) { return !o.output && o.index > 0; });
  }
}
void causal_queries_pass(Factors& f, const NodeView& node) {
  if (std::optional<Letter> letter = letter_of(node.size(0, node.rank(0) - 2), "queries")) {
    letter->at = {in(0, node.rank(0) - 2), out(0, node.rank(0) - 2)};
    f.letters.push_back(std::move(*letter));
  }
}
void all_padded(Factors& f, const NodeView&) { f = padded(std::move(f)); }
void nothing(Factors&, const NodeView&) {}

const Wrong kWrong[] = {
    {"exp of a partial sum", "", "Exp", sums_pass},
    {"tanh of a partial sum", "", "Tanh", sums_pass},
    {"relu of a partial sum", "", "Relu", sums_pass},
    {"abs of a partial sum", "", "Abs", sums_pass},
    {"abs of a partial maximum", "", "Abs", maxima_pass},
    {"rounding a partial sum", "", "Floor", sums_pass},
    {"negating a partial maximum", "", "Neg", maxima_pass},
    {"negating a partial product", "", "Neg", products_pass},
    {"one addend is a partial sum", "", "Add", sums_pass},
    {"the other addend is a partial sum", "", "Add", second_sum_passes},
    {"subtracted from every part", "", "Sub", sums_pass},
    {"product of two partial sums", "", "Mul", both_sums_pass},
    {"divided by a partial sum", "", "Div", second_sum_passes},
    {"power of a partial sum", "", "Pow", sums_pass},
    {"maximum of partial sums", "", "Max", sums_pass},
    {"chosen from one partial sum", "", "Where", second_sum_passes},
    {"cast of a partial sum", "", "Cast", sums_pass},
    {"sigmoid of a partial sum", "", "Sigmoid", sums_pass},
    {"bias of Gemm added by every rank", "", "Gemm", bias_added_by_all},
    {"Gemm of a partial sum and a whole bias", "", "Gemm", pending_bias_ignored},
    {"sum of Gemm forgotten", "", "Gemm", sum_forgotten},
    {"sum of a product forgotten", "", "MatMul", sum_forgotten},
    {"sum of a product called maximum", "", "MatMul", sum_called_maximum},
    {"product of two partial sums", "", "MatMul", both_sums_pass},
    {"weights stay whole", "", "MatMul", second_input_whole},
    {"product transposed", "", "MatMul", results_transposed},
    {"sum over a label forgotten", "", "Einsum", sum_forgotten},
    {"second operand whole", "", "Einsum", second_input_whole},
    {"Einsum's sum called maximum", "", "Einsum", sum_called_maximum},
    {"activation of a partial sum", kMicrosoftDomain, "FusedGemm", sums_pass},
    {"sum of FusedMatMul forgotten", kMicrosoftDomain, "FusedMatMul", sum_forgotten},
    {"maximum summed", "", "ReduceMax", maximum_called_sum},
    {"minimum summed", "", "ReduceMin", maximum_called_sum},
    {"product summed", "", "ReduceProd", maximum_called_sum},
    {"sum called maximum", "", "ReduceSum", sum_called_maximum},
    {"partial sum through a maximum", "", "ReduceMax", sums_pass},
    {"partial sum through a product", "", "ReduceProd", sums_pass},
    {"partial sum through squares", "", "ReduceSumSquare", sums_pass},
    {"partial sum through absolutes", "", "ReduceL1", sums_pass},
    {"partial maximum through a sum", "", "ReduceSum", maxima_pass},
    {"mean divided by the local count", "", "ReduceMean", nothing, true},
    {"mean called maximum", "", "ReduceMean", sum_called_maximum},
    {"softmax of a part of its axis", "", "Softmax", all_dims},
    {"softmax of a partial sum", "", "Softmax", sums_pass},
    {"log softmax of a part", "", "LogSoftmax", all_dims},
    {"hardmax of a part", "", "Hardmax", all_dims},
    {"running sum of a part", "", "CumSum", all_dims},
    {"running product of a part", "", "CumProd", all_dims},
    {"norm of a part", "", "LpNormalization", all_dims},
    {"top of a part", "", "TopK", all_dims},
    {"indices of the top left whole", "", "TopK", second_output_whole},
    {"layer norm of a part", "", "LayerNormalization", all_dims},
    {"layer norm of a partial sum", "", "LayerNormalization", sums_pass},
    {"statistics left whole", "", "LayerNormalization", second_output_whole},
    {"RMS norm of a part", "", "RMSNormalization", all_dims},
    {"simplified norm of a part", "", "SimplifiedLayerNormalization", all_dims},
    {"skip left whole", kMicrosoftDomain, "SkipSimplifiedLayerNormalization", second_input_whole},
    {"scale left whole", "", "BatchNormalization", second_input_whole},
    {"instance norm of a part of space", "", "InstanceNormalization", all_dims},
    {"group norm of a part of the channels", "", "GroupNormalization", all_dims},
    {"LRN of a part of the channels", "", "LRN", all_dims},
    {"targets of Reshape are global", "", "Reshape", nothing, true},
    {"minor factor split without blocks", "", "Reshape", unblocked},
    {"minor factor of Flatten split without blocks", "", "Flatten", unblocked},
    {"transposed like a copy", "", "Transpose", all_dims},
    {"transposed the other way", "", "Transpose", results_transposed},
    {"target of Expand is global", "", "Expand", nothing, true},
    {"size of ConstantOfShape is global", "", "ConstantOfShape", nothing, true},
    {"repeats without blocks", "", "Tile", unblocked},
    {"rows of triangles", "", "Trilu", all_dims},
    {"joined without blocks", "", "Concat", unblocked},
    {"joined with one input in parts", "", "Concat", second_input_whole},
    {"one input of a join is partial", "", "Concat", sums_pass},
    {"split without blocks", "", "Split", unblocked},
    {"sizes of Split are global", "", "Split", nothing, true},
    {"positions of Slice are global", "", "Slice", nothing, true},
    {"slice without blocks", "", "Slice", unblocked},
    {"padding of a partial sum", "", "Pad", sums_pass},
    {"rows looked up without a mask", "", "Gather", nothing, true},
    {"found rows are a maximum", "", "Gather", sum_called_maximum},
    {"found rows need no sum", "", "Gather", sum_forgotten},
    {"indices are partial sums", "", "Gather", second_sum_passes},
    {"indices left whole", "", "Gather", second_input_whole},
    {"indices of GatherElements left whole", "", "GatherElements", second_input_whole},
    {"axis of GatherElements", "", "GatherElements", all_dims},
    {"updates left whole", "", "ScatterElements", third_input_whole},
    {"axis of ScatterElements", "", "ScatterElements", all_dims},
    {"partial data of a scatter", "", "ScatterElements", sums_pass},
    {"updates of ScatterND left whole", "", "ScatterND", third_input_whole},
    {"rows of ScatterND", "", "ScatterND", all_dims},
    {"positions of TensorScatter left whole", "", "TensorScatter", third_input_whole},
    {"partial cache of TensorScatter", "", "TensorScatter", sums_pass},
    {"lengths left whole", "", "ReverseSequence", second_input_whole},
    {"time of ReverseSequence", "", "ReverseSequence", all_dims},
    {"keys left whole", "", "Attention", second_input_whole},
    {"attention of partial sums", "", "Attention", sums_pass},
    {"numbers of heads are global", "", "Attention", nothing, true},
    {"numbers of heads are global", kMicrosoftDomain, "GroupQueryAttention", nothing, true},
    {"packed heads without blocks", kMicrosoftDomain, "GroupQueryAttention", unblocked},
    {"number of heads is global", kMicrosoftDomain, "MultiHeadAttention", nothing, true},
    {"keys left whole", kMicrosoftDomain, "MultiHeadAttention", second_input_whole},
    {"columns without blocks", kMicrosoftDomain, "Attention", unblocked},
    {"number of heads is global", kMicrosoftDomain, "Attention", nothing, true},
    {"number of heads is global", kMicrosoftDomain, "RotaryEmbedding", nothing, true},
    {"bias of a convolution added by every rank", "", "Conv", bias_added_by_all},
    {"sum over channels forgotten", "", "Conv", sum_forgotten},
    {"space of a convolution", "", "Conv", all_dims},
    {"groups are global", "", "Conv", nothing, true},
    {"bias of a transposed one added by every rank", "", "ConvTranspose", bias_added_by_all},
    {"groups of a transposed one are global", "", "ConvTranspose", nothing, true},
    {"pool of a partial sum", "", "MaxPool", sums_pass},
    {"global pool of a partial sum", "", "GlobalMaxPool", sums_pass},
    {"slope of a partial sum", "", "PRelu", sums_pass},
    {"norm of a partial sum", "", "LpPool", sums_pass},
    {"grid left whole", "", "GridSample", second_input_whole},
    {"extremes of a part", "", "DynamicQuantizeLinear", nothing, true},
    {"zero points of columns left whole", "", "MatMulInteger", fourth_input_whole},
    {"sum of MatMulInteger forgotten", "", "MatMulInteger", sum_forgotten},
    {"scales of columns left whole", "", "QLinearMatMul", parameters_whole},
    {"rows of another scale", "", "QLinearMatMul", second_input_whole},
    {"bias of QGemm added by every rank", kMicrosoftDomain, "QGemm", bias_added_by_all},
    {"scales of QGemm left whole", kMicrosoftDomain, "QGemm", parameters_whole},
    {"bias added by every rank", kMicrosoftDomain, "MatMulIntegerToFloat", bias_added_by_all},
    {"largest element of a part", kMicrosoftDomain, "DynamicQuantizeMatMul", all_dims},
    {"other operand left whole", kMicrosoftDomain, "QLinearAdd", fourth_input_whole},
    {"softmax of a part of its axis", kMicrosoftDomain, "QLinearSoftmax", all_dims},
    {"space of a pool", kMicrosoftDomain, "QLinearAveragePool", all_dims},
    {"joined without blocks", kMicrosoftDomain, "QLinearConcat", unblocked},
    {"scales of filters left whole", kMicrosoftDomain, "QLinearConv", parameters_whole},
    {"K and N are global", kMicrosoftDomain, "MatMulNBits", nothing, true},
    {"sum of MatMulNBits forgotten", kMicrosoftDomain, "MatMulNBits", sum_forgotten},
    {"bias of MatMulNBits added by every rank", kMicrosoftDomain, "MatMulNBits", bias_added_by_all},
    {"scales of MatMulNBits left whole", kMicrosoftDomain, "MatMulNBits", third_input_whole},
    {"zero points of MatMulNBits left whole", kMicrosoftDomain, "MatMulNBits", fourth_input_whole},
    {"rows of another rank", kMicrosoftDomain, "GatherBlockQuantized", nothing, true},
    {"scales left whole", kMicrosoftDomain, "GatherBlockQuantized", third_input_whole},
    {"found rows need no sum", kMicrosoftDomain, "GatherBlockQuantized", sum_forgotten},
    {"blocks are cut", "", "DequantizeLinear", inside_of_blocks},
    {"scales of blocks left whole", "", "DequantizeLinear", second_input_whole},
    {"numbers of heads are global", kMicrosoftDomain, "QAttention", nothing, true},
    {"scales of columns left whole", kMicrosoftDomain, "QAttention", parameters_whole},
    {"best of a part", "", "ArgMax", nothing, true},
    {"least of a part", "", "ArgMin", nothing, true},
    {"top of a part called whole", "", "TopK", nothing, true},
    {"softmax without the others' sums", "", "Softmax", nothing, true},
    {"log softmax without the others' sums", "", "LogSoftmax", nothing, true},
    {"axis of which some slices are kept", "", "Compress", all_dims},
    {"transform of a part of a signal", "", "DFT", all_dims},
    {"residual left whole", kMicrosoftDomain, "BiasAdd", third_input_whole},
    {"one addend is a partial sum", kMicrosoftDomain, "BiasAdd", sums_pass},
    {"halves without blocks", kMicrosoftDomain, "BiasSplitGelu", unblocked},
    {"normalised channels of a part", "", "MeanVarianceNormalization", all_dims},
    {"number of groups is global", "", "GroupNormalization", nothing, true},
    {"number of groups is global", kMicrosoftDomain, "GroupNorm", nothing, true},
    {"residual left whole", kMicrosoftDomain, "SkipGroupNorm", fourth_input_whole},
    {"segments left whole", kMicrosoftDomain, "EmbedLayerNormalization", second_input_whole},
    {"segments left whole", kMicrosoftDomain, "QEmbedLayerNormalization", second_input_whole},
    {"state left whole", "", "CausalConvWithState", fourth_input_whole},
    {"time of a causal convolution", "", "CausalConvWithState", all_dims},
    {"cropped axis", "", "CenterCropPad", all_dims},
    {"columns without blocks", "", "Col2Im", all_dims},
    {"offsets left whole", "", "DeformConv", third_input_whole},
    {"groups are global", "", "DeformConv", nothing, true},
    {"bias of a deformed one added by every rank", "", "DeformConv", bias_added_by_all},
    {"groups are global", kMicrosoftDomain, "NhwcFusedConv", nothing, true},
    {"weights left whole", kMicrosoftDomain, "NhwcConv", second_input_whole},
    {"queries of a causal attention", "", "Attention", causal_queries_pass},
    {"positions left whole", kMicrosoftDomain, "RotaryEmbedding", second_input_whole},
    {"padding is the last of equal ones", "", "ArgMax", all_padded},
    {"integers divided by padding", "", "Div", all_padded},
    {"padding is the least element", "", "ArgMin", all_padded},
};

TEST(WrongRules, AreFound) {
  int count = 0;
  for (const Wrong& wrong : kWrong) {
    ++count;
    EXPECT_TRUE(found(wrong, 2)) << wrong.op << ": " << wrong.what;
  }
  EXPECT_GE(count, 150);
}

}  // namespace
}  // namespace braid::frontend::sharding
