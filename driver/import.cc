#include "driver/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/input_file.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "split/parts.h"

namespace braid {

namespace {

ir::Schedule parse_text(const std::string& file) {
  ir::Schedule schedule = ir::parse_schedule(ir::read_text_file(file), file);
  // An illegal text is the user's error; after a pass the same would be ours.
  std::vector<ir::Violation> violations = ir::verify(schedule);
  if (violations.empty()) {
    for (std::string& text : split::impossible_parts(schedule.graph))
      violations.push_back({"structure", "part", std::move(text)});
  }
  if (!violations.empty()) {
    std::string text = "the text does not describe a legal program:";
    for (std::size_t k = 0; k < std::min<std::size_t>(violations.size(), 5); ++k) {
      text += fmt::format("\n    {} ({}): {}", violations[k].node, violations[k].rule, violations[k].message);
    }
    ir::user_error(errors::kIllegalProgram, {.file = file}, text, "see the rules in docs/ir.md");
  }
  return schedule;
}

}  // namespace

ir::Schedule import_program(const CompileOptions& options, std::optional<ChosenSplit> split) {
  if (split)
    return split->program ? std::move(*split->program)
                          : split->model->lower(split->ranks, split->request.get());
  return is_text(options.model) ? parse_text(options.model)
                                : frontend::import_model(options.model, options.import);
}

}  // namespace braid
