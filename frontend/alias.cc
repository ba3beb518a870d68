#include "frontend/alias.h"

#include <algorithm>

#include "frontend/errors.h"
#include "ir/effects.h"
#include "ir/error.h"

namespace braid::frontend {
namespace {

using ir::BufferId;
using ir::Expr;
using ir::Graph;
using ir::user_error;

[[noreturn]] void fail(const std::string& output, const std::string& input, const std::string& why,
                       const std::string& hint) {
  user_error(kAlias, {},
             fmt::format("output '{}' cannot share the memory of input '{}': {}", output, input, why), hint);
}

// Element (i, j, ...) of both must have the same offset: strides agree wherever the input has more than one
// element.
void check_layout(const Graph& graph, BufferId out, BufferId in, const std::string& output,
                  const std::string& input) {
  if (graph[out].dtype != graph[in].dtype) fail(output, input, "their types differ", "");
  const std::vector<Expr>&a = graph[out].sizes, &b = graph[in].sizes;
  if (a.size() != b.size()) fail(output, input, "their ranks differ", "");
  const std::vector<Expr> x = ir::strides_of(graph, out), y = ir::strides_of(graph, in);
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (!b[k].is_constant(1) && !(x[k] == y[k])) {
      fail(output, input, fmt::format("their elements have different offsets along axis {}", k),
           "only the outermost dimension that is not 1 may differ: make the dimension that grows the first "
           "one");
    }
  }
}

// Program order: once an operation has written the output, no operation reads the input. One operation may do
// both only if it reads each element where it writes it.
void check_order(const ir::Schedule& schedule, ir::StorageId out, ir::StorageId in, const std::string& output,
                 const std::string& input) {
  const Graph& graph = schedule.graph;
  bool written = false;
  for (ir::OpId op : ir::execution_order(schedule)) {
    bool reads = false, writes = false;
    for (const ir::Access& access : ir::effects(graph, op).accesses) {
      reads |= access.region.storage == in && access.reads();
      writes |= access.region.storage == out && access.writes();
      if (access.region.storage == in && access.writes())
        fail(output, input, "the input is changed in place", "");
    }
    if (reads && written) {
      fail(output, input, fmt::format("'{}' reads the input after the output is written", graph[op].name),
           "");
    }
    if (reads && writes) {
      const ir::Loops* loops = graph[op].as<ir::Loops>();
      bool in_place = loops && !loops->is_reduction();
      if (in_place) {
        for (const ir::Instr& instr : loops->body.instrs) {
          if (instr.code == ir::OpCode::load && ir::root_storage(graph, instr.buffer) == in)
            in_place &= instr.index == loops->store_index;
        }
      }
      if (!in_place)
        fail(output, input, fmt::format("'{}' reads one and writes the other", graph[op].name), "");
    }
    written |= writes;
  }
}

template <class List>
BufferId find(const List& list, const std::string& name, const char* what, const std::string& output,
              const std::string& input) {
  for (const auto& entry : list) {
    if (entry.name == name) return entry.buffer;
  }
  fail(output, input, fmt::format("the model has no {} '{}'", what, name), "write --alias OUTPUT=INPUT");
}

}  // namespace

void add_alias(ir::Schedule& schedule, const std::string& output, const std::string& input) {
  Graph& graph = schedule.graph;
  const BufferId out = find(graph.outputs, output, "output", output, input),
                 in = find(graph.inputs, input, "input", output, input);
  check_layout(graph, out, in, output, input);
  const ir::StorageId out_storage = ir::root_storage(graph, out), in_storage = ir::root_storage(graph, in);
  if (out_storage == in_storage) return;
  check_order(schedule, out_storage, in_storage, output, input);
  graph[out_storage].alias_of = in_storage;
}

}  // namespace braid::frontend
