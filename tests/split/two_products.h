// Small models whose plans can all be tried.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "frontend/sharding/split.h"
#include "split/split_space.h"
#include "tests/frontend/models.h"
#include "tests/solver/next_choice.h"

namespace braid::frontend::sharding {

inline std::string weight(const std::string& name, int rows, int columns, int seed = 0) {
  std::string values;
  for (int i = 0; i < rows * columns; ++i) values += (i ? ", " : "") + std::to_string((i + seed) % 5 - 2);
  return fmt::format("float[{},{}] {} = {{{}}}", rows, columns, name, values);
}

// y = softmax(relu(x * up) * down). `rows` is a number, or a dimension.
inline std::string two_products(const std::string& rows, int hidden) {
  return fmt::format(
      "g (float[{0},{1}] x) => (float[{0},{1}] y) <{2}, {3}> {{ h = MatMul(x, up)\n r = Relu(h)\n d = "
      "MatMul(r, down)\n y = Softmax(d) }}",
      rows, hidden, weight("up", hidden, 2 * hidden), weight("down", 2 * hidden, hidden));
}

// Calls `use` with the model on the way to being split.
inline void with_graph(const std::string& text, ImportOptions options,
                       const std::function<void(const Graph&)>& use) {
  auto request = std::make_shared<SplitRequest>();
  request->choose = [&](const Graph& graph, const Mesh& mesh) {
    use(graph);
    return MeshPlan(mesh);
  };
  options.ranks = 2;
  options.split = request;
  import_text(text, options, 18);
}

inline void with_graph(const std::string& text, const std::function<void(const Graph&)>& use) {
  bool called = false;
  with_graph(text, {}, [&](const Graph& graph) {
    use(graph);
    called = true;
  });
  EXPECT_TRUE(called);
}

// The machine, with times of its own alone.
inline std::shared_ptr<const analysis::CostModel> machine(const char* name) {
  return std::make_shared<const analysis::CostModel>(analysis::cost_model_for(name)->machine(),
                                                     analysis::CostOptions{});
}

using solver::first_choice;
using solver::next_choice;

}  // namespace braid::frontend::sharding
