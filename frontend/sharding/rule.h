// How an operator is split: a column of its row (frontend/op_registry.h). The functions of a rule see a node
// (rules.h) and write its local form (local.h); a row only names the rule, so operators depend on neither.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "split/factors.h"

namespace braid::split {
enum class StepKind : std::uint8_t;
struct ConversionStep;
}  // namespace braid::split

namespace braid::frontend::sharding {

class LocalNode;
class NodeView;

// How pending inputs pass through an elementwise operator or one that only moves elements.
enum class Pending : std::uint8_t {
  none,
  additive,     // f(a + b) = f(a) + f(b), in all inputs together
  multilinear,  // in each of the first two inputs, with the other one replicated
  first,        // in the first input alone, for sums
  any,          // moves elements of the first input, whatever the reduction is
  increasing,   // max and min pass through
};

// Either letters or the reason for having none. It has no default, so a row without one does not compile.
struct Rule {
  using Letters = split::Factors (*)(const NodeView&, const Rule&);
  using Rewrite = void (*)(LocalNode&);
  using Inner = std::vector<split::ConversionStep> (*)(const NodeView&, const split::Strategy&, int ranks);

  constexpr Rule(Letters letters, Pending passing = Pending::none, Rewrite writes = nullptr,
                 const char* otherwise = "", ir::ReduceKind kind = ir::ReduceKind::sum, Inner steps = nullptr)
      : factors(letters), pending(passing), rewrite(writes), reason(otherwise), reduce(kind), inner(steps) {}

  Letters factors;  // nullptr: always replicated, for `reason`
  Pending pending;
  Rewrite rewrite;        // emits the local node; nullptr: the node as it is
  const char* reason;     // why there are no letters, or what else could be split and is not
  ir::ReduceKind reduce;  // of reductions
  Inner inner;  // the collectives that the local form has in it, to be priced with the node; nullptr: none
  std::optional<split::StepKind> exchange = {};  // of a collective: the step of a conversion that it is

  constexpr Rule exchanging(split::StepKind step) const {
    Rule rule = *this;
    rule.exchange = step;
    return rule;
  }
};

// The rule of an operator that is computed whole on every rank. A reason without words does not compile.
consteval Rule replicated(const char* reason) {
  return reason[0] == 0 ? throw "a reason is missing" : Rule(nullptr, Pending::none, nullptr, reason);
}

// By the file of frontend/sharding/rules that has them.
namespace rule {

// attentions.cc
extern const Rule kAttention, kFusedQkvAttention, kGroupQueryAttention, kMultiHeadAttention,
    kQuantisedAttention, kRotaryEmbedding;
// block_quantised.cc
extern const Rule kGatherBlockQuantized, kMatMulNBits, kQuantisation;
// collectives.cc
extern const Rule kAllGather, kAllReduce, kAllToAll, kReduceScatter;
// convolutions.cc
extern const Rule kCausalConv, kCenterCropPad, kCol2Im, kConv, kConvInteger, kConvTranspose, kDeformConv,
    kDepthSpace, kFusedConv, kGridSample, kNhwcConv, kNhwcFusedConv, kPool, kQLinearConv, kRecurrence,
    kResize, kRoiAlign, kUpsample;
// elementwise.cc; those before kChoice differ in what is pending
extern const Rule kElementwise, kAdditive, kIncreasing, kMultiplication, kUnchanged, kDivision, kPower,
    kChoice, kBits, kFirstOnly, kDropout, kParametric, kHalves;
// gathers.cc
extern const Rule kCompress, kGather, kGatherElements, kGatherNd, kOneHot, kReverseSequence, kScatterElements,
    kScatterNd, kTensorScatter;
// joins.cc
extern const Rule kConcat, kPad, kSlice, kSplit;
// normalization.cc
extern const Rule kBatchNormalization, kEmbedding, kFusedGroupNormalization, kGroupNormalization,
    kInstanceNormalization, kLayerNormalization, kLocalResponse, kMeanVarianceNormalization,
    kQuantisedEmbedding, kSkipNormalization;
// products.cc
extern const Rule kEinsum, kFusedGemm, kFusedMatMul, kGemm, kMatMul, kProductAndFunction;
// quantised.cc
extern const Rule kDynamicQuantize, kDynamicQuantizeMatMul, kMatMulInteger, kMatMulIntegerToFloat, kQGemm,
    kQLinearBinary, kQLinearChoice, kQLinearConcat, kQLinearGlobalPool, kQLinearMatMul, kQLinearMean,
    kQLinearPool, kQLinearSoftmax, kQLinearUnary;
// reductions.cc
extern const Rule kArgMax, kArgMin, kCumulative, kDeterminant, kFourier, kFunctionOfSum, kGlobalPool,
    kHardmax, kLogSoftmax, kLpNormalization, kReduceMax, kReduceMean, kReduceMin, kReduceProd, kReduceSum,
    kShortFourier, kSoftmax, kSumOfFunction, kTopK;
// reshapes.cc
extern const Rule kConstantOfShape, kExpand, kReshape, kTile, kTranspose, kTriangles, kView;

// Several families share these.
inline constexpr Rule kCollective = replicated("the model communicates by itself");
inline constexpr Rule kTable = replicated("a table, computed from numbers");

}  // namespace rule

}  // namespace braid::frontend::sharding
