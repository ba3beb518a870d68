#include "frontend/alias.h"

#include <algorithm>
#include <limits>

#include "frontend/cache_update.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::BufferId;
using ir::Expr;
using ir::Graph;
using ir::StorageId;
using ir::user_error;

[[noreturn]] void fail(const std::string& output, const std::string& input, const std::string& why,
                       const std::string& hint) {
  user_error(errors::kAlias, {},
             fmt::format("output '{}' cannot share the memory of input '{}': {}", output, input, why), hint);
}

template <class List>
BufferId find(const List& list, const std::string& name, const char* what, const std::string& output,
              const std::string& input) {
  for (const auto& entry : list) {
    if (entry.name == name) return entry.buffer;
  }
  fail(output, input, fmt::format("the model has no {} '{}'", what, name), "write --alias OUTPUT=INPUT");
}

void check_types(const Graph& graph, BufferId out, BufferId in, const std::string& output,
                 const std::string& input) {
  const ir::Buffer &a = graph[out], &b = graph[in];
  if (a.dtype != b.dtype) {
    fail(output, input, fmt::format("their types differ, {} and {}", to_string(a.dtype), to_string(b.dtype)),
         "");
  }
  if (a.sizes.size() != b.sizes.size())
    fail(output, input, fmt::format("their ranks differ, {} and {}", a.sizes.size(), b.sizes.size()), "");
}

// Element (i, j, ...) of both must have the same offset: strides agree wherever the input has more than one
// element.
void check_layout(const Graph& graph, BufferId out, BufferId in, const std::string& output,
                  const std::string& input) {
  check_types(graph, out, in, output, input);
  const std::vector<Expr>& sizes = graph[in].sizes;
  const std::vector<Expr> x = ir::strides_of(graph, out), y = ir::strides_of(graph, in);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k].is_constant(1) && graph[out].sizes[k].is_constant(1)) continue;
    if (x[k] == y[k]) continue;
    fail(
        output, input, fmt::format("their elements have different offsets along axis {}", k),
        "an output with other sizes than the input must be a concatenation that begins with the whole input");
  }
}

// The storage that a name is of, before aliases are resolved.
StorageId own_storage(const Graph& graph, BufferId buffer) {
  for (;;) {
    buffer = ir::unmutated(graph, buffer);
    const auto* view = std::get_if<ir::NonOwningLayout>(&graph[buffer].layout);
    if (view == nullptr) return graph[buffer].storage;
    buffer = view->base;
  }
}

bool same_place(const Graph& graph, BufferId a, BufferId b) {
  const ir::MemoryRegion x = region(graph, a), y = region(graph, b);
  return x.storage == y.storage && x.offset == y.offset && graph[a].dtype == graph[b].dtype;
}

// Whether the operation reads elements of `in` only where it writes them, in the iteration that does. The two
// kernels leave the elements of the old tensor where they are, except those that they replace.
bool reads_where_it_writes(const Graph& graph, const ir::Operation& op, StorageId in) {
  if (const auto* k = op.as<ir::ExternKernel>()) {
    const auto elsewhere = [&](const ir::TensorRef& read) {
      const bool data = &read == &k->reads[0] && same_place(graph, read.buffer, k->writes[0].buffer) &&
                        read.offset == k->writes[0].offset;
      return !data && ir::root_storage(graph, read.buffer) == in;
    };
    return k->callee == "write_rows" ||
           (k->callee == "scatter" && std::none_of(k->reads.begin(), k->reads.end(), elsewhere));
  }
  const ir::Loops* loops = op.as<ir::Loops>();
  if (loops == nullptr || loops->is_reduction()) return false;
  const auto reads_elsewhere = [&](const ir::Instr& instr) {
    return instr.code == ir::OpCode::load && ir::root_storage(graph, instr.buffer) == in &&
           !(same_place(graph, instr.buffer, op.outputs[0]) && instr.index == loops->store_index);
  };
  return std::none_of(loops->body.instrs.begin(), loops->body.instrs.end(), reads_elsewhere);
}

// Program order: no operation reads an element of the input after the output has overwritten it. One
// operation may do both only if it reads each element where it writes it. Both lie in one storage already, so
// elements of the output beyond those of the input are not taken for the input's.
void check_order(const ir::Schedule& schedule, StorageId out, StorageId in, const std::string& output,
                 const std::string& input) {
  const Graph& graph = schedule.graph;
  std::vector<ir::Access> written;
  for (ir::OpId op : ir::execution_order(schedule)) {
    const ir::Effects effects = ir::effects(graph, op);
    for (const ir::Access& access : effects.accesses) {
      if (access.region.storage != in || own_storage(graph, access.buffer) != in) continue;
      if (access.writes()) fail(output, input, "the input is changed in place", "");
      for (const ir::Access& earlier : written) {
        if (!conflict(graph, earlier, access)) continue;
        fail(output, input, fmt::format("'{}' reads the input after the output is written", graph[op].name),
             "");
      }
    }
    for (const ir::Access& access : effects.accesses) {
      if (access.region.storage != in || own_storage(graph, access.buffer) != out || !access.writes())
        continue;
      for (const ir::Access& read : effects.accesses) {
        if (own_storage(graph, read.buffer) != in || !conflict(graph, access, read)) continue;
        if (reads_where_it_writes(graph, graph[op], in)) continue;
        fail(output, input, fmt::format("'{}' reads one and writes the other", graph[op].name),
             "only an operation that reads each element where it writes it can do both");
      }
      written.push_back(access);
    }
  }
}

// A copy of elements onto themselves, as of the past of a cache into its present.
bool copies_onto_itself(const Graph& graph, const ir::Operation& op) {
  const ir::Loops* loops = op.as<ir::Loops>();
  if (loops == nullptr || loops->is_reduction() || loops->body.instrs.size() != 1) return false;
  const ir::Instr& load = loops->body.instrs[0];
  return load.code == ir::OpCode::load && load.operands.empty() && load.index == loops->store_index &&
         same_place(graph, load.buffer, op.outputs[0]);
}

}  // namespace

std::map<std::string, std::vector<std::int64_t>> growing_inputs(const ir::Schedule& schedule,
                                                                const Aliases& aliases) {
  const Graph& graph = schedule.graph;
  std::map<std::string, std::vector<std::int64_t>> out;
  std::map<std::string, std::string> taken;
  for (const auto& [output, input] : aliases) {
    const BufferId a = find(graph.outputs, output, "output", output, input),
                   b = find(graph.inputs, input, "input", output, input);
    check_types(graph, a, b, output, input);
    const auto [other, first] = taken.emplace(input, output);
    if (!first && other->second != output)
      fail(output, input, fmt::format("output '{}' already does", other->second), "");
    if (graph[a].sizes == graph[b].sizes) continue;
    std::vector<std::int64_t>& capacities = out[input];
    capacities.clear();
    std::int64_t bytes = ir::size_of(graph[a].dtype);
    for (std::size_t k = 0; k < graph[a].sizes.size(); ++k) {
      const std::int64_t size =
          std::max<std::int64_t>({ir::bounds(graph[a].sizes[k]).max, ir::bounds(graph[b].sizes[k]).max, 1});
      if (size > std::numeric_limits<std::int64_t>::max() / bytes)
        fail(output, input, "room for the upper bounds of all sizes exceeds 64 bits",
             "give the dimensions smaller bounds");
      bytes *= size;
      capacities.push_back(size);
    }
  }
  return out;
}

void add_alias(ir::Schedule& schedule, const std::string& output, const std::string& input) {
  Graph& graph = schedule.graph;
  const BufferId out = find(graph.outputs, output, "output", output, input),
                 in = find(graph.inputs, input, "input", output, input);
  check_layout(graph, out, in, output, input);
  const StorageId out_storage = ir::root_storage(graph, out), in_storage = ir::root_storage(graph, in);
  if (out_storage == in_storage) return;
  graph[out_storage].alias_of = in_storage;
  const Expr had = graph[in_storage].bytes, needed = graph[out_storage].bytes;
  graph[in_storage].bytes = ir::provably_non_negative(needed - had) ? needed : ir::max(had, needed);
  const auto writes = [&](const ir::ScheduleNode& node) {
    if (node.kind != ir::ScheduleNode::Kind::single) return false;
    const ir::Effects effects = ir::effects(graph, node.op);
    return std::any_of(effects.accesses.begin(), effects.accesses.end(), [&](const ir::Access& access) {
      return access.writes() && access.region.storage == in_storage;
    });
  };
  const auto copies = [&](const ir::ScheduleNode& node) {
    return node.kind == ir::ScheduleNode::Kind::single && copies_onto_itself(graph, graph[node.op]) &&
           writes(node);
  };
  // Copies of elements onto themselves are dropped, unless no other node writes the output.
  if (std::any_of(schedule.nodes.begin(), schedule.nodes.end(),
                  [&](const ir::ScheduleNode& node) { return writes(node) && !copies(node); }))
    std::erase_if(schedule.nodes, copies);
  for (std::size_t k = 0; k < schedule.nodes.size(); ++k) {
    const ir::ScheduleNode& node = schedule.nodes[k];
    if (node.kind != ir::ScheduleNode::Kind::single || graph[node.op].outputs.size() != 1 ||
        !graph[graph[node.op].outputs[0]].storage.valid() ||
        graph[graph[node.op].outputs[0]].storage != out_storage)
      continue;
    if (const std::optional<ir::OpId> before = write_rows_only(graph, node.op)) {
      schedule.nodes.insert(schedule.nodes.begin() + static_cast<std::ptrdiff_t>(k),
                            ir::ScheduleNode::single(*before));
      ++k;
    }
  }
  check_order(schedule, out_storage, in_storage, output, input);
}

}  // namespace braid::frontend
