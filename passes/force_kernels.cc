#include "passes/force_kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/collectives_of.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/id_vector.h"
#include "passes/kernel_choice.h"
#include "passes/make_blocking.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// Messages list at most so many names.
constexpr std::size_t kMostNames = 20;

bool is_meant(const Operation& op, const std::string& name) {
  const auto& kernel = *op.as<CollectiveKernel>();
  return name == "*" || name == to_string(kernel.kind) || name == op.name || name + ".start" == op.name ||
         std::find(op.origins.begin(), op.origins.end(), name) != op.origins.end();
}

std::string names_of(const Graph& graph, const std::vector<OpId>& collectives) {
  std::vector<std::string> names;
  for (OpId id : collectives) {
    const Operation& op = graph[id];
    for (const std::string& name : op.origins.empty() ? std::vector<std::string>{op.name} : op.origins) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  const std::size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<std::string_view> possible(CommEngine engine, CollectiveKind kind) {
  std::vector<std::string_view> out = engine_kernels(engine, kind).names();
  out.push_back(to_string(Algorithm::automatic));
  return out;
}

}  // namespace

ForcedKernel parse_forced_kernel(const std::string& text, const std::string& given) {
  // The last '=': ONNX node names may contain any character.
  const std::size_t equals = text.rfind('=');
  ForcedKernel out;
  if (equals != std::string::npos) {
    out.collective = text.substr(0, equals);
    out.kernel = text.substr(equals + 1);
  }
  if (const std::size_t colon = out.kernel.find(':'); colon != std::string::npos) {
    out.blocking = out.kernel.substr(colon) == ":blocking";
    out.kernel.resize(out.blocking ? colon : 0);
  }
  if (out.collective.empty() || out.kernel.empty()) {
    user_error(errors::kBadForcedKernel, {}, fmt::format("{}: cannot be read", given.empty() ? text : given),
               "write COLLECTIVE=KERNEL or COLLECTIVE=KERNEL:blocking, for example all_reduce=two_shot");
  }
  return out;
}

bool ForceKernels::run(Schedule& schedule, PassContext& context) const {
  const std::vector<OpId> collectives = collectives_of(schedule);
  const CommEngine engine = context.engine.value_or(engine_of(context.costs->machine()));
  Graph& graph = schedule.graph;
  IdVector<OpId, bool> blocks(graph.ops.size(), false);
  const IdVector<OpId, bool> allowed = may_block(schedule);
  for (const ForcedKernel& f : forced) {
    bool known = false, applied = false, only_not_blocking = false;
    for (OpId id : collectives) {
      if (!is_meant(graph[id], f.collective)) continue;
      known = true;
      auto& kernel = *graph[id].as<CollectiveKernel>();
      const std::vector<std::string_view> kernels = possible(engine, kernel.kind);
      const bool has = std::find(kernels.begin(), kernels.end(), f.kernel) != kernels.end();
      if (!has || (f.blocking && !allowed[id])) {
        only_not_blocking |= has;
        if (f.collective == "*") continue;
        user_error(errors::kNoSuchKernel, {.node = graph[id].name},
                   has ? fmt::format("{}: this {} cannot be blocking: ranks could wait for each other",
                                     option, to_string(kernel.kind))
                       : fmt::format("{}: {} has no kernel '{}' for {}", option, to_string(engine), f.kernel,
                                     to_string(kernel.kind)),
                   fmt::format("it has {}", fmt::join(kernels, ", ")));
      }
      kernel.algorithm = *algorithm_named(f.kernel);
      blocks[id] = f.blocking;
      context.forced_kernels.insert(graph[id].name);
      applied = true;
    }
    if (!known) {
      user_error(errors::kNoSuchCollective, {},
                 fmt::format("{}: the program has no collective '{}'", option, f.collective),
                 collectives.empty()
                     ? "it has none at all"
                     : fmt::format("write *, a kind, or one of: {}", names_of(graph, collectives)));
    }
    if (!applied && only_not_blocking) {
      user_error(errors::kNoSuchKernel, {},
                 fmt::format("{}: none of the program's collectives with the kernel '{}' can be blocking",
                             option, f.kernel),
                 "transfers from one rank to another have a wait: leave out :blocking");
    }
    if (!applied) {
      user_error(errors::kNoSuchKernel, {},
                 fmt::format("{}: none of the program's collectives has the kernel '{}' on {}", option,
                             f.kernel, to_string(engine)),
                 "braid explain lists the kernels of each");
    }
  }
  std::vector<OpId> blocking;
  for (OpId id : collectives) {
    if (blocks[id]) blocking.push_back(id);
  }
  if (context.forced_kernels.empty()) return false;
  schedule.plan.reset();
  make_blocking(schedule, blocking);
  return true;
}

}  // namespace braid::passes
