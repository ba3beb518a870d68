// The options of compiling a model as a caller gives them, and their reading. Each is a row of
// driver/option_table.cc.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "driver/compile_options.h"

namespace braid {

// An option that needs no reading is the member of CompileOptions; `target` still has its architectures. The
// other options are texts.
struct ModelOptions : CompileOptions {
  std::vector<std::string> dims;            // NAME=SIZE or NAME=MIN..MAX; import.dims may have more
  std::string default_dim;                  // MAX or MIN..MAX for all others; a MAX is 1..MAX
  std::vector<std::string> capacities;      // NAME=N, or N for all others; import may have more
  std::vector<std::string> aliases;         // OUT=IN; import.aliases may have more
  std::vector<std::string> binds;           // INPUT=VALUE; import.fixed may have more
  std::vector<std::string> at;              // NAME=SIZE,...[*STEPS]: sizes for which a split is chosen
  std::vector<std::string> with;            // FILE[:NAME=SIZE,...][*STEPS]: programs of the same weights
  std::vector<std::string> plugins;         // shared libraries
  std::vector<std::string> forced_kernels;  // COLLECTIVE=KERNEL[:blocking]
  std::string link_text;                    // LATENCY,BANDWIDTH of a paced link; empty: none
  bool no_verify = false;

  // Reads the texts and loads the plug-ins. UserError BR0003 for a malformed option, or one that does not
  // apply.
  CompileOptions compile_options() const;
  // Returns the bounds by default_dim of the dimensions of a model that have none, and says so by
  // import.note.
  std::map<std::string, ir::Bounds> default_dims(const std::string& of) const;
  std::map<std::string, ir::Bounds> dim_bounds() const;
  void read_capacities(frontend::ImportOptions& import) const;
  std::optional<Link> paced_link() const;
};

}  // namespace braid
