#include "frontend/import.h"

#include <fmt/format.h>

#include "frontend/alias.h"
#include "frontend/check.h"
#include "frontend/dims.h"
#include "frontend/errors.h"
#include "frontend/inline.h"
#include "frontend/load.h"
#include "frontend/load_ranks.h"
#include "frontend/lower_graph.h"
#include "frontend/normalise.h"
#include "frontend/schemas.h"

namespace braid::frontend {

ir::Schedule import_model(const std::string& path, const ImportOptions& options) {
  register_schemas();
  if (options.ranks < 1)
    ir::user_error(kRankCount, {.file = path}, fmt::format("{} ranks", options.ranks),
                   "the number of ranks must be at least 1");

  Model model = load_ranks(path, options.ranks);

  Opsets opsets = check_versions(model);
  check_structure(model, opsets);
  check_supported(model, opsets, nullptr);
  resolve_dims(model, options.dims);
  check_declarations(model);
  declare_initializers(model);
  check_with_onnx(model);

  if (inline_functions(model)) {
    opsets = check_versions(model);  // functions bring imports of their own
    check_supported(model, opsets, nullptr);
    check_with_onnx(model);
  }
  const DeclaredTypes declared = declared_types(model);
  infer_shapes(model);
  const InferredTypes types = types_of(model);
  check_supported(model, opsets, &types);

  ir::Schedule schedule = lower_graph(model, opsets, types, declared, {options.dims, options.ranks});
  for (const auto& [output, input] : options.aliases) add_alias(schedule, output, input);
  return schedule;
}

std::set<std::string> dimension_names(const std::string& path) { return dimension_names(load_model(path)); }

}  // namespace braid::frontend
