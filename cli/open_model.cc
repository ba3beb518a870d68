#include "cli/open_model.h"

#include <fmt/format.h>

#include "cli/status_line.h"
#include "driver/compile.h"
#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::cli {

OpenedModel open_model(const ModelOptions& options, harness::DeviceChoice device,
                       const codegen::TempDir& temporary, const Report& report) {
  harness::check_environment(options.target.starts_with("cuda"));
  const bool compiled = harness::is_program_dir(options.model);
  std::string dir = options.model;
  std::optional<ir::Schedule> schedule;
  if (!compiled) {
    harness::check_device(device, options.target.starts_with("cuda"), options.model);
    CompileOptions to_compile = compile_options(options, report);
    to_compile.output_dir = dir = temporary.path();
    StatusLine status;
    if (options.run.print_after.empty()) status.show(fmt::format("compiling {}", options.model));
    schedule = compile(to_compile).schedule;
  }
  OpenedModel opened{harness::load_program(harness::find_program(dir, device, options.model)),
                     std::move(schedule)};
  const int ranks = opened.program->interface().ranks;
  if (compiled && options.import.ranks != 1 && options.import.ranks != ranks) {
    ir::user_error(errors::kRankCount, {.file = options.model},
                   fmt::format("the program is for {} ranks, but --ranks is {}", ranks, options.import.ranks),
                   fmt::format("run it with --ranks {}, or compile it again", ranks));
  }
  return opened;
}

}  // namespace braid::cli
