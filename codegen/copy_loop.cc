#include "codegen/copy_loop.h"

#include <utility>

namespace braid::codegen {

using namespace ir;

Operation copy_loop(const Graph& graph, BufferId from, BufferId to) {
  const auto element = [&](BufferId b) {
    const std::vector<Expr> strides = strides_of(graph, b);
    Expr at = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) at = at + graph.pool->index(d) * strides[d];
    return at;
  };
  BodyBuilder body(*graph.pool);
  Loops loops;
  loops.sizes = graph[from].sizes;
  loops.body = body.finish(body.load(from, graph[from].dtype, element(from)));
  loops.store_index = element(to);
  return {.name = "copy_" + graph[to].name, .kernel = std::move(loops)};
}

}  // namespace braid::codegen
