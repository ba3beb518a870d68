// Options shared by all subcommands that take a model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/report.h"
#include "driver/compile.h"

namespace CLI {
class App;
}  // namespace CLI

namespace braid::cli {

struct ModelOptions {
  std::string model;
  int ranks = 1;
  std::vector<std::string> dims;     // NAME=V or NAME=MIN..MAX
  std::string default_dim;           // SIZE or MIN..MAX for all others; a SIZE is 1..SIZE
  std::vector<std::string> aliases;  // OUT=IN
  int devices = 0;                   // split over at most so many; 0: not asked
  int tensor_ranks = 0;              // split over exactly so many; 0: not asked
  std::string mesh;                  // split over exactly these axes, "dp=2,tp=4"; empty: not asked
  std::vector<std::string> at;       // NAME=SIZE,...[*STEPS]: sizes for which a split is chosen
  std::vector<std::string> with;     // FILE[:NAME=SIZE,...][*STEPS]: programs of the same weights
  bool split_caches = false;         // caches may stay in parts
  bool strict = false;               // refuses operators without a rule, and expensive conversions
  double conversion_share = 5;       // percent of the step that --strict allows one conversion
  std::int64_t memory_limit = -1;    // bytes of a device; negative: none
  std::string keep;                  // file of a partial plan; empty: none
  std::string configuration;         // of devices, whose annotations split the model; empty: not asked
  std::string plan;                  // file of a plan that splits the model; empty: none
  std::string passes;
  std::string precision = "f32";  // of products: f32, bf16, f16, int8
  bool precise = false;           // IEEE's arithmetic in programs that have cheaper forms
  std::vector<std::string> disable;
  std::vector<std::string> print_after;
  std::vector<std::string> plugins;
  int bisect = -1;
  bool no_verify = false;
  std::string target = "cpu";
  std::string machine;
  std::string costs;
  std::int64_t memory_cap = -1;            // bytes; negative: none
  std::vector<std::string> force_kernels;  // COLLECTIVE=KERNEL[:blocking]
  std::string link;                        // LATENCY,BANDWIDTH of a paced link; empty: none

  // --ranks --devices --tp --mesh --plan --with --keep --strict --memory-limit --dim --default-dim --alias
  void add_dimensions(CLI::App& command);
  // --precision --precise --passes --disable --print-after --plugin --bisect --no-verify --machine --costs
  // --memory-cap --force-kernel --link
  void add_passes(CLI::App& command);
  void add_target(CLI::App& command);  // --target

  // Loads the plug-ins. --print-after prints through the report, which must outlive the result. UserError
  // BR0003 for a malformed option.
  CompileOptions compile_options(const Report& report) const;
  // Returns the bounds by --default-dim of the dimensions of a model that --dim leaves out. Prints them on
  // standard error.
  std::map<std::string, ir::Bounds> default_dims(const std::string& of) const;
  // UserError BR0003 if MODEL is IR text and options are given that apply only to models (--dim, --alias): a
  // text has its own dimensions and aliases.
  void refuse_for_text() const;
  // The parsed --link.
  std::optional<CompileOptions::Link> paced_link() const;
  // --dim as bounds by name.
  std::map<std::string, ir::Bounds> dim_bounds() const;
};

// "batch=1..8" or "batch=4".
std::pair<std::string, ir::Bounds> parse_dim(const std::string& text);

}  // namespace braid::cli
