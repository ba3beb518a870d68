#include "cli/open_model.h"

#include <fmt/format.h>

#include "frontend/errors.h"
#include "ir/error.h"

namespace braid::cli {

OpenedModel open_model(const ModelOptions& options, DeviceChoice device, const codegen::TempDir& temporary) {
  const bool compiled = is_program_dir(options.model);
  std::string dir = options.model;
  if (!compiled) {
    CompileOptions to_compile = options.compile_options();
    to_compile.output_dir = dir = temporary.path();
    compile(to_compile);
  }
  OpenedModel opened{find_program(dir, device), {}};
  opened.table = interface_of(opened.files);
  if (compiled && options.ranks != 1 && options.ranks != opened.table.ranks) {
    ir::user_error(
        frontend::kRankCount, {.file = options.model},
        fmt::format("the program is for {} ranks, but --ranks is {}", opened.table.ranks, options.ranks),
        fmt::format("run it with --ranks {}, or compile it again", opened.table.ranks));
  }
  return opened;
}

}  // namespace braid::cli
