// The kernel of a collective, the reason for it, and the costs of the alternatives.
//
// A "kernel" is an algorithm of ir/collective_table.h that the engine of a target really executes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/collective_table.h"

namespace braid::analysis {
struct Machine;
}

namespace braid::passes {

// Numbers of the user errors of kernel selection (docs/errors.md).

// The library that executes the collectives of a program.
enum class CommEngine : std::uint8_t {
  shared_memory,  // CPU programs; the paced link too. Under MPI the program leaves the choice to MPI
  nccl,           // CUDA programs
};
// An engine; all that passes need to know of it.
struct EngineRow {
  std::string_view name;
  ir::Algorithms ir::CollectiveRow::*kernels;
  // Whether peers reach a group's operands through a window of that group. If not, there is one segment for
  // all groups.
  bool has_windows;
};
inline constexpr EngineRow kEngines[] = {{"shared_memory", &ir::CollectiveRow::shared_memory, false},
                                         {"nccl", &ir::CollectiveRow::nccl, true}};
constexpr const EngineRow& engine_row(CommEngine engine) {
  return kEngines[static_cast<std::size_t>(engine)];
}
inline std::string_view to_string(CommEngine engine) { return engine_row(engine).name; }
// The engine whose kernels the machine's collective model prices.
CommEngine engine_of(const analysis::Machine& machine);

// The algorithms that the engine executes for a kind, without its default choice. Does not depend on sizes or
// placement.
inline ir::Algorithms engine_kernels(CommEngine engine, ir::CollectiveKind kind) {
  return ir::row_of(kind).*engine_row(engine).kernels;
}

enum class KernelReason : std::uint8_t {
  program,         // the program (IR text, attribute of an ONNX node) asks for it
  forced,          // --force-kernel
  cheapest,        // on the cost model, at all sizes that may occur
  size_dependent,  // the cheapest one differs between the smallest and the largest size: left to the engine
  equal,           // the cost model does not tell the candidates apart: left to the engine
  only_one,        // the engine has one kernel for this collective
  rule,            // of the policy `inductor`
  left,            // left to the engine by the policy `engine`
  alone,           // a group of one rank: nothing is communicated
  fixed_cost,      // priced explicitly or by a measured profile, which knows one kernel only
  foreign_costs,   // the machine prices the kernels of another engine
  outside,  // an operand lies outside of the communication segment: how it is staged is known at run time
};
std::string_view to_string(KernelReason reason);

// A kernel that could have been chosen.
struct KernelCandidate {
  std::string kernel;
  bool executable = false;  // by the engine of the target
  double us = 0;            // alone on the machine, at the largest size
  double us_at_least = 0;   // ... at the smallest size
};

struct KernelChoice {
  std::string name;  // of the start's operation
  ir::CollectiveKind kind = ir::CollectiveKind::all_reduce;
  std::string group;
  std::vector<std::string> origins;           // ONNX nodes
  std::int64_t min_bytes = 0, max_bytes = 0;  // payload, as the cost model counts it
  std::string kernel;                         // empty or "automatic": the engine chooses
  bool blocking = false;                      // complete when issued
  bool made_blocking = false;                 // by this choice: the program had a wait
  double us = 0;                              // of the chosen kernel, at the largest size
  KernelReason reason = KernelReason::left;
  std::string detail;                       // completes the reason, or empty
  std::vector<KernelCandidate> candidates;  // in a fixed order; empty for transfers and groups of one
};
// "one_shot", "engine's choice"; with ", blocking".
std::string kernel_text(const KernelChoice& choice);
// "cheapest: two_shot would take 3.100 us"
std::string reason_text(const KernelChoice& choice);

// A table with a line per collective and one per candidate; the same as JSON (times in us).
std::string to_text(std::span<const KernelChoice> choices);
nlohmann::ordered_json to_json(std::span<const KernelChoice> choices);

}  // namespace braid::passes
