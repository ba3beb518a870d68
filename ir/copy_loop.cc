#include "ir/copy_loop.h"

#include <utility>

#include "ir/strided_view.h"

namespace braid::ir {

Operation copy_loop(const Graph& graph, const TensorRef& from, const TensorRef& to) {
  BodyBuilder body(*graph.pool);
  Loops loops;
  loops.sizes = from.sizes;
  loops.body = body.finish(body.load(from.buffer, graph[from.buffer].dtype, element_of(graph, from)));
  loops.store_index = element_of(graph, to);
  return {.name = "copy_" + graph[to.buffer].name, .kernel = std::move(loops)};
}

Operation copy_loop(const Graph& graph, BufferId from, BufferId to) {
  return copy_loop(graph, whole(graph, from), whole(graph, to));
}

}  // namespace braid::ir
