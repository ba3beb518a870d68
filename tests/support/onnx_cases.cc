#include "tests/support/onnx_cases.h"

#include <nlohmann/json.hpp>

namespace braid::test {

frontend::ImportOptions import_options_of(const fs::path& folder, std::string& model) {
  frontend::ImportOptions options;
  model = (folder / "model.onnx").string();
  if (fs::exists(folder / "dims.json")) {
    const nlohmann::json dims = nlohmann::json::parse(read_file(folder / "dims.json"));
    for (const auto& [name, bounds] : dims.items()) options.dims[name] = {bounds[0], bounds[1]};
  }
  int ranks = 0;
  while (fs::exists(folder / fmt::format("model.rank{}.onnx", ranks))) ++ranks;
  if (ranks > 0) {
    model = (folder / "model.rank{rank}.onnx").string();
  } else {
    while (fs::exists(folder / fmt::format("test_data_set_0/rank{}", ranks))) ++ranks;
  }
  options.ranks = std::max(ranks, 1);
  return options;
}

}  // namespace braid::test
