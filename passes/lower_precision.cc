#include "passes/lower_precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/costs/roofline.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/kernel_parts.h"
#include "passes/constant_weights.h"
#include "passes/narrow_operands.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace ir;

constexpr std::int64_t kSteps = 127;  // of i8, on both sides of 0

constexpr const char* kTf32 = "tf32";

// The type of both operands in memory.
DType operand_type(const std::string& type) {
  if (type == kTf32) return DType::f32;
  if (type == "bf16") return DType::bf16;
  if (type == "f16") return DType::f16;
  if (type == "int8") return DType::i8;
  user_error(errors::kBadPassOption, {},
             fmt::format("option 'type' of pass '{}' cannot be '{}'", LowerPrecision::kName, type),
             "write tf32, bf16, f16 or int8");
}

// Prices an operation in f32 and in the narrower type, in us.
class Pricing {
 public:
  explicit Pricing(const analysis::CostModel& costs) : costs_(costs) {}

  double f32(const Graph& graph, OpId id) const { return us(work_of(graph, id)); }

  double tf32(const Graph& graph, OpId id) const {
    analysis::KernelWork work = work_of(graph, id);
    work.tf32 = true;
    return us(work);
  }

  // Adds a cast for each of `cast`; the memory of `stored` is in the type as it is.
  double narrow(const Graph& graph, OpId id, DType type, const std::vector<const TensorRef*>& cast,
                const TensorRef& stored) const {
    const double item = static_cast<double>(size_of(type));
    analysis::KernelWork work = work_of(graph, id);
    work.dtype = type;
    work.bytes -= (4 - item) * elements(stored);
    double result = 0;
    for (const TensorRef* ref : cast) {
      const double count = elements(*ref);
      work.bytes -= (4 - item) * count;
      result += us({analysis::KernelClass::elementwise, DType::f32, count, (4 + item) * count});
      if (type == DType::i8) result += us({analysis::KernelClass::reduction, DType::f32, count, 4 * count});
    }
    return result + us(work);
  }

 private:
  double elements(const TensorRef& ref) const {
    double n = 1;
    for (std::size_t d = 0; d < ref.sizes.size(); ++d) {
      if (!ref.strides[d].is_constant(0)) n *= static_cast<double>(costs_.value(ref.sizes[d]));
    }
    return n;
  }
  analysis::KernelWork work_of(const Graph& graph, OpId id) const {
    return analysis::kernel_work(
        graph, graph[id], [&](const Expr& e) { return costs_.value(e); }, [](BufferId) { return false; });
  }
  double us(const analysis::KernelWork& work) const {
    return costs_.machine().launch_us + analysis::roofline(costs_.machine(), work).us();
  }

  const analysis::CostModel& costs_;
};

// Why a product or convolution of f32 operands cannot be rewritten; empty if it can.
std::string obstacle(const LowerPrecision& pass, const Graph& graph, const Operation& op,
                     const Product& product, DType type) {
  const auto* convolution = op.as<Convolution>();
  if (convolution != nullptr && !pass.convolutions) return "the target has no kernel for it";
  if (convolution != nullptr && convolution->transposed && type == DType::i8)
    return "transposed convolutions have no kernel of bytes";
  if (pass.type == kTf32) return {};
  const std::optional<ConstantWeights> weights = constant_weights(graph, product);
  if (!weights)
    return convolution != nullptr ? "its weights are not constant" : "its weights are no constant matrix";
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / (kSteps * kSteps);
  if (type == DType::i8 && weights->terms() > kMost)
    return fmt::format("sums of {} products may not fit i32", weights->terms());
  return {};
}

std::string obstacle(const LowerPrecision& pass, const Graph& graph, const Attention& k, DType type) {
  if (type == DType::i8) return "attention has no kernel of bytes";
  if (!pass.attention) return "the target has no kernel for it";
  if (pass.type == kTf32) return {};
  const Buffer& out = graph[k.out.buffer];
  if (!out.storage.valid() || graph[out.storage].alias_of.valid() ||
      !std::holds_alternative<FixedLayout>(out.layout) ||
      !provably_equal(numel(out.sizes), numel(k.out.sizes)))
    return "its result is a part of a tensor";
  return {};
}

// nullopt if the operation is none that this pass knows, of f32 operands.
std::optional<PrecisionChoice> choose(const LowerPrecision& pass, const Graph& graph, OpId id, DType type,
                                      const Pricing& pricing) {
  const Operation& op = graph[id];
  const Product* product = as_product(op.kernel);
  const auto* attention = op.as<Attention>();
  const auto is_f32 = [&](const TensorRef& ref) { return graph[ref.buffer].dtype == DType::f32; };
  if (product != nullptr ? !is_f32(product->a) || !is_f32(product->b)
                         : attention == nullptr || !is_f32(attention->query))
    return std::nullopt;
  PrecisionChoice choice{id, op.name, {}, 0, 0};
  choice.reason = product != nullptr ? obstacle(pass, graph, op, *product, type)
                                     : obstacle(pass, graph, *attention, type);
  if (!choice.reason.empty()) return choice;
  choice.us = pricing.f32(graph, id);
  choice.narrow_us =
      pass.type == kTf32 ? pricing.tf32(graph, id)
      : product != nullptr
          ? pricing.narrow(graph, id, type, {&product->a}, product->b)
          : pricing.narrow(graph, id, type, {&attention->query, &attention->key, &attention->value},
                           attention->out);
  if (std::find(pass.keep.begin(), pass.keep.end(), choice.name) != pass.keep.end())
    choice.reason = "asked for";
  else if (!pass.always && choice.narrow_us >= choice.us)
    choice.reason = "it would take no less time";
  return choice;
}

void mark_tf32(Kernel& kernel) {
  if (auto* attention = std::get_if<Attention>(&kernel)) attention->tf32 = true;
  if (Product* product = as_product(kernel)) product->tf32 = true;
}

}  // namespace

std::vector<PrecisionChoice> LowerPrecision::choices(const Schedule& schedule,
                                                     const PassContext& context) const {
  const DType narrow = operand_type(type);
  const Graph& graph = schedule.graph;
  const Pricing pricing(*context.costs);
  std::vector<PrecisionChoice> out;
  for (const ScheduleNode& node : schedule.nodes) {
    if (node.kind != ScheduleNode::Kind::single) continue;
    if (std::optional<PrecisionChoice> choice = choose(*this, graph, node.op, narrow, pricing))
      out.push_back(std::move(*choice));
  }
  return out;
}

bool LowerPrecision::run(Schedule& schedule, PassContext& context) {
  if (type == kTf32) {
    bool changed = false;
    for (const PrecisionChoice& choice : choices(schedule, context)) {
      if (!choice.reason.empty()) continue;
      mark_tf32(schedule.graph[choice.op].kernel);
      changed = true;
    }
    return changed;
  }
  NarrowOperands operands(schedule, operand_type(type));
  bool changed = false;
  for (const PrecisionChoice& choice : choices(schedule, context)) {
    if (!choice.reason.empty()) continue;
    if (schedule.graph[choice.op].as<Attention>() == nullptr) {
      changed |= operands.narrow_product(choice.op);
    } else {
      operands.narrow_attention(choice.op);
      changed = true;
    }
  }
  if (changed) operands.finish();
  return changed;
}

}  // namespace braid::passes
