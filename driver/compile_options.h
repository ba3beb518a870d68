// The options of a compilation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontend/import.h"
#include "ir/expr.h"
#include "passes/force_kernels.h"
#include "passes/runner.h"

namespace braid {

struct SplitReport;

// Sizes at which a step is priced, for dimensions that the model leaves open, within their bounds. Dimensions
// not named count with their upper bounds. A plan is chosen for `steps` such steps plus the steps of all
// other sizes.
struct StepSizes {
  std::map<std::string, std::int64_t> dims;
  std::int64_t steps = 1;
};

// Another program with the same weights, which runs beside the one that is compiled: one layout of the
// weights is chosen for both. It is priced at its sizes, `steps` times.
struct SplitWith {
  std::string model;  // .onnx
  std::map<std::string, ir::Bounds> dims;
  std::vector<std::pair<std::string, std::string>> aliases;  // pairs (output, input)
  StepSizes sizes;
};

// How a plain model is split over devices (driver/split.h).
struct SplitOptions {
  int devices = 0;        // at most so many; 0: not asked
  int tensor_ranks = 0;   // exactly so many; 0: not asked
  std::string plan_file;  // a plan that is obeyed; empty: none
  bool caches = false;    // caches may stay in parts: each rank takes and returns its own
  std::string mesh;       // exactly on these axes, "dp=2,tp=4"; empty: not asked
  // Throws BR0489 if the chosen split replicates an operator that has no rule, or if one conversion takes
  // more than `conversion_share` percent of the step.
  bool strict = false;
  double conversion_share = 5;
  // Bytes of a device: weights, inputs, outputs and planned memory; absent: the machine's capacity.
  std::optional<std::int64_t> memory_limit = {};
  std::string keep_file = {};  // a partial plan whose lines are fixed; empty: none
  bool explain = false;        // alternatives and flips, which take more searches
  // Whether the program needs its weights. If not, nothing is read, and parts of large weights have the right
  // size and arbitrary bytes.
  bool weights = true;

  // The device configuration whose annotations are obeyed; empty: the only one in the model, if it is split
  // at all.
  std::string configuration = {};

  // Sizes at which a step is priced; empty: the upper bounds.
  std::vector<StepSizes> sizes = {};

  std::vector<SplitWith> with = {};

  bool wanted() const {
    return devices > 0 || tensor_ranks > 0 || !plan_file.empty() || !mesh.empty() || !configuration.empty();
  }
};

// How the caller writes options, for messages.
enum class OptionStyle : std::uint8_t { command_line, python };

struct CompileOptions {
  std::string model;  // .onnx (with "{rank}": one file per rank), or a .braid text
  frontend::ImportOptions import;
  SplitOptions split;
  // Receives the data from which a split was chosen, if it is not null.
  std::shared_ptr<SplitReport> split_report;
  std::optional<std::string> passes;  // a pass list instead of the default one
  // The type in which products, convolutions and attention compute: f32 (as written), bf16, f16 or int8
  // (passes/lower_precision.h).
  std::string precision = "f32";
  std::vector<std::string> keep_f32;  // operations that stay in f32
  passes::RunOptions run;             // disable, print_after, bisect, verify
  std::string machine;                // for costs: a name or a file; empty: the target's
  // Collectives over a paced link instead of the machine's.
  struct Link {
    double latency_us = 0;
    double gb_s = 0;
  };
  std::optional<Link> link;
  std::string cost_file;  // measured times that replace those of the machine (analysis/costs/cost_file.h)
  std::optional<std::int64_t> memory_cap;           // planned bytes that no pass may exceed
  std::vector<passes::ForcedKernel> force_kernels;  // kernels that the user chose, before any pass
  std::string target = "cpu";                       // codegen/target.h
  bool checked = false;                             // the program checks itself against its memory plan
  bool precise = false;                    // every operation as IEEE says (of targets with has_precise)
  bool standalone = false;                 // its folder builds without Braid
  std::vector<std::string> architectures;  // of GPUs: "sm_90", ...; empty: the target's choice
  std::string name;                        // of the program; empty: from the file's name
  std::string output_dir;                  // where source, weights, manifest (and the library) go

  OptionStyle style = OptionStyle::command_line;
  // An option as the caller writes it: "--with", or "with_="; with its value "--with FILE", or
  // "with_='FILE'" (driver/option_table.h).
  std::string option(std::string_view name) const;
  std::string option(std::string_view name, std::string_view given) const;
};

// Whether `model` is a text of the IR. The folder of a program may be called "model.braid" as well.
bool is_text(const std::string& model);
// A valid C identifier from a file's name: "model.rank{rank}.onnx" -> "model".
std::string program_name(const std::string& model_path);

}  // namespace braid
