#include "codegen/copy_loop.h"

#include <utility>

#include "ir/strided_view.h"

namespace braid::codegen {

using namespace ir;

Operation copy_loop(const Graph& graph, BufferId from, BufferId to) {
  const auto element = [&](BufferId b) { return element_of(graph, whole(graph, b)); };
  BodyBuilder body(*graph.pool);
  Loops loops;
  loops.sizes = graph[from].sizes;
  loops.body = body.finish(body.load(from, graph[from].dtype, element(from)));
  loops.store_index = element(to);
  return {.name = "copy_" + graph[to].name, .kernel = std::move(loops)};
}

}  // namespace braid::codegen
