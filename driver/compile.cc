#include "driver/compile.h"

#include <optional>
#include <utility>

#include "driver/import.h"
#include "driver/split.h"

namespace braid {

ir::Schedule lower(const CompileOptions& options) {
  SplitReport own;
  return lower(options, options.split_report ? *options.split_report : own);
}

ir::Schedule lower(const CompileOptions& options, SplitReport& report) {
  std::optional<ChosenSplit> split;
  if (options.split.wanted()) split = choose_split(options, report);
  return import_program(options, std::move(split));
}

CompileResult compile(const CompileOptions& options) {
  CompileResult result;
  result.schedule = lower(options);
  result.passes = optimise(result.schedule, options);
  result.files = emit_program(result.schedule, options);
  return result;
}

}  // namespace braid
