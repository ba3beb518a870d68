// Operators without a rule, and why.
#include "frontend/schemas.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

constexpr Rule whole(const char* domain, const char* name, const char* reason) {
  return {domain, name, nullptr, Pending::none, nullptr, reason};
}

constexpr const char* kRandom =
    "random numbers are drawn for the whole tensor, so that all ranks draw the same";
constexpr const char* kData = "the size of the result depends on values";
constexpr const char* kSequence = "sequences and optional values are not split";
constexpr const char* kBody = "the bodies of control flow are not split";
constexpr const char* kSizes = "it computes sizes, which are those of whole tensors";
constexpr const char* kTable = "a table, computed from numbers";
constexpr const char* kScalar = "it reduces to one number with weights";
constexpr const char* kCollective = "the model communicates by itself";

const Rule kRules[] = {
    whole("", "AffineGrid", kTable),
    whole("", "Bernoulli", kRandom),
    whole("", "BlackmanWindow", kTable),
    whole("", "ConcatFromSequence", kSequence),
    whole("", "Constant", "a constant: its readers take it in any state"),
    whole("", "DistCollective", kCollective),
    whole("", "EyeLike", kTable),
    whole("", "HammingWindow", kTable),
    whole("", "HannWindow", kTable),
    whole("", "If", kBody),
    whole("", "Loop", kBody),
    whole("", "MaxUnpool", "its indices are positions in the whole tensor"),
    whole("", "MelWeightMatrix", kTable),
    whole("", "Multinomial", kRandom),
    whole("", "NegativeLogLikelihoodLoss", kScalar),
    whole("", "NonMaxSuppression", kData),
    whole("", "NonZero", kData),
    whole("", "Optional", kSequence),
    whole("", "OptionalGetElement", kSequence),
    whole("", "OptionalHasElement", kSequence),
    whole("", "RandomNormal", kRandom),
    whole("", "RandomNormalLike", kRandom),
    whole("", "RandomUniform", kRandom),
    whole("", "RandomUniformLike", kRandom),
    whole("", "Range", kTable),
    whole("", "Scan", kBody),
    whole("", "SequenceAt", kSequence),
    whole("", "SequenceConstruct", kSequence),
    whole("", "SequenceEmpty", kSequence),
    whole("", "SequenceErase", kSequence),
    whole("", "SequenceInsert", kSequence),
    whole("", "SequenceLength", kSequence),
    whole("", "Shape", kSizes),
    whole("", "Size", kSizes),
    whole("", "SoftmaxCrossEntropyLoss", kScalar),
    whole("", "SplitToSequence", kSequence),
    whole("", "Unique", kData),
    whole(kBraidDomain, "BatchSendRecv", kCollective),
    whole(kBraidDomain, "Broadcast", kCollective),
    whole(kBraidDomain, "OfRank", "each rank has a value of its own"),
    whole(kBraidDomain, "Recv", kCollective),
    whole(kBraidDomain, "Send", kCollective),
    whole(kBraidDomain, "ShardDimAllToAll", kCollective),
    whole(kBraidDomain, "WaitTensor", kCollective),
    whole(kMicrosoftDomain, "AllGather", kCollective),
    whole(kMicrosoftDomain, "AllReduce", kCollective),
    whole(kMicrosoftDomain, "AllToAll", kCollective),
    whole(kMicrosoftDomain, "DynamicQuantizeLSTM",
          "the scale of each step is that of the largest element of input and state of the whole batch"),
};

}  // namespace

std::span<const Rule> replicated_rules() { return kRules; }

}  // namespace braid::frontend::sharding
