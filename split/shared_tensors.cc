#include "split/shared_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "split/caches.h"
#include "split/graph.h"

namespace braid::split {
namespace {

bool same_bytes(const ir::KnownTensor& a, const ir::KnownTensor& b) {
  // The same place of one file need not be read.
  if (!a.data.file.empty() && a.data.file == b.data.file && a.data.file_offset == b.data.file_offset)
    return true;
  return std::ranges::equal(a.data.of_rank(0), b.data.of_rank(0));
}

bool same(const ir::KnownTensor& a, const ir::KnownTensor& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && same_bytes(a, b);
}

// Sizes, axes, masks and scales are constants that programs of other sizes may have under one name.
bool is_weight(const ir::KnownTensor& tensor) {
  return tensor.count() > 1 && tensor.dtype != ir::DType::boolean &&
         (ir::is_float(tensor.dtype) || ir::size_of(tensor.dtype) == 1);
}

std::string text(const ir::KnownTensor& tensor) {
  return fmt::format("{}[{}]", ir::to_string(tensor.dtype), fmt::join(tensor.sizes, ","));
}

class Finder {
 public:
  Finder(std::span<const Graph* const> graphs, std::span<const std::string> files)
      : graphs_(graphs), files_(files) {
    for (const Graph* graph : graphs) keys_.emplace_back(graph->values.ids());
  }

  SharedTensors run() {
    add_initialisers();
    for (const ProgramId p : graphs_.ids()) add_readers(p);
    for (const auto& [key, kinds] : readers_) add_weight(kinds);
    add_caches();
    return std::move(result_);
  }

 private:
  using Key = ir::Id<struct KeyTag>;
  // The kind of a reader: operator (name and domain) and input.
  using Kind = std::tuple<std::string, std::string, int>;

  static bool is_constant_node(const Graph& graph, const GraphValue& value) {
    if (!value.producer.valid()) return false;
    const GraphNode& node = graph.nodes[value.producer];
    return node.work.kind == WorkKind::constant && node.inputs.empty();
  }

  // Gives initialisers of one name and content one key.
  void add_initialisers() {
    std::map<std::string, std::vector<std::pair<ProgramId, ValueId>>> by_name;
    for (const ProgramId p : graphs_.ids()) {
      for (const ValueId v : graphs_[p]->values.ids()) {
        const GraphValue& value = graphs_[p]->values[v];
        if (!value.constant || value.readers.empty()) continue;
        if (!value.producer.valid() || is_constant_node(*graphs_[p], value))
          by_name[value.name].push_back({p, v});
      }
    }
    for (const auto& [name, all] : by_name) {
      const Key shared = next_++;
      const GraphValue& first = value_of(all[0]);
      bool weight = false;
      for (const auto& one : all) {
        const GraphValue& value = value_of(one);
        keys_[one.first][one.second] = shared;
        if (one == all[0]) continue;
        if (same(*first.constant, *value.constant)) {
          weight = weight || is_weight(*value.constant);
          continue;
        }
        if (!first.producer.valid() && !value.producer.valid() &&
            (is_weight(*first.constant) || is_weight(*value.constant)))
          refuse(name, all[0].first, *first.constant, one.first, *value.constant);
        keys_[one.first][one.second] = next_++;
      }
      if (!weight) continue;
      ++result_.count;
      result_.bytes += first.constant->count() * ir::size_of(first.constant->dtype);
    }
    if (result_.count == 0)
      ir::user_error(
          errors::kSplitWith, {.file = files_.front()},
          fmt::format("it has no weight of one name with {}", fmt::join(files_.subspan(1), ", ")),
          "weights of programs that are split together must have the same names; split others on their own");
  }

  const GraphValue& value_of(const std::pair<ProgramId, ValueId>& one) const {
    return graphs_[one.first]->values[one.second];
  }

  [[noreturn]] void refuse(const std::string& name, ProgramId p, const ir::KnownTensor& a, ProgramId q,
                           const ir::KnownTensor& b) const {
    const std::string differ = a.dtype == b.dtype && a.sizes == b.sizes
                                   ? fmt::format("have different bytes here and in {}", files_[q])
                                   : fmt::format("are {} here and {} in {}", text(a), text(b), files_[q]);
    ir::user_error(
        errors::kSplitWith, {.file = files_[p]}, fmt::format("the weights '{}' {}", name, differ),
        "programs that are split together have the same weights: rename one of them if they have nothing "
        "to do with each other");
  }

  // Returns the key of a value: values that are computed in the same way from values with equal keys have one
  // key. Returns an invalid one if it is not a constant, or one of unknown origin.
  Key key(ProgramId p, ValueId v) {
    std::optional<Key>& known = keys_[p][v];
    if (known) return *known;
    known = Key{};
    const Graph& graph = *graphs_[p];
    const GraphValue& value = graph.values[v];
    if (!value.constant || !value.producer.valid()) return *known;
    const GraphNode& node = graph.nodes[value.producer];
    std::string how = fmt::format("{}\n{}\n{}\n{}\n", node.op, node.domain, node.version, node.output_of(v));
    for (const ValueId input : node.inputs) {
      const Key own = input.valid() ? key(p, input) : Key{};
      if (input.valid() && !own.valid()) return *known;
      how += fmt::format("{} ", own.index);
    }
    std::vector<std::string> attributes = node.operation->attributes();
    std::ranges::sort(attributes);
    for (const std::string& attribute : attributes) how += fmt::format("{}\n{}", attribute.size(), attribute);
    const auto [entry, fresh] = computed_.try_emplace(std::move(how), next_);
    if (fresh) ++next_;
    known = entry->second;
    return entry->second;
  }

  void add_readers(ProgramId p) {
    const Graph& graph = *graphs_[p];
    for (const NodeId n : graph.nodes.ids()) {
      const GraphNode& node = graph.nodes[n];
      if (node.compile_time) continue;
      for (int k = 0; k < count_of(node.inputs); ++k) {
        const ValueId v = node.inputs[k];
        if (!v.valid() || !graph.values[v].is_constant()) continue;
        if (const Key own = key(p, v); own.valid())
          readers_[own][{node.op, node.domain, k}].push_back({p, n, k});
      }
    }
  }

  void add_weight(const std::map<Kind, std::vector<SharedWeight::Reader>>& kinds) {
    const auto programs = [](const std::vector<SharedWeight::Reader>& readers) {
      std::set<ProgramId> all;
      for (const SharedWeight::Reader& reader : readers) all.insert(reader.program);
      return all;
    };
    SharedWeight all;
    for (const auto& [kind, readers] : kinds)
      all.readers.insert(all.readers.end(), readers.begin(), readers.end());
    const std::set<ProgramId> having = programs(all.readers);
    if (having.size() < 2) return;
    const bool alike =
        std::ranges::all_of(kinds, [&](const auto& one) { return programs(one.second) == having; });
    if (!alike) {
      result_.weights.push_back(std::move(all));
      return;
    }
    for (const auto& [kind, readers] : kinds) result_.weights.push_back({readers});
  }

  void add_caches() {
    for (const ProgramId to : graphs_.ids()) {
      for (const Cache& cache : caches_of(*graphs_[to])) {
        if (!cache.input.valid()) continue;
        const GraphValue& past = graphs_[to]->values[cache.input];
        const std::string& present = graphs_[to]->values[graphs_[to]->outputs[cache.output]].name;
        for (const ProgramId from : graphs_.ids()) {
          if (from == to) continue;
          const Graph& other = *graphs_[from];
          for (int k = 0; k < count_of(other.outputs); ++k) {
            const GraphValue& value = other.values[other.outputs[k]];
            if ((value.name == past.name || value.name == present) && value.dtype == past.dtype &&
                value.rank() == past.rank() && !value.pinned && !value.constant)
              result_.caches.push_back({from, k, to, cache.input});
          }
        }
      }
    }
  }

  ir::IdSpan<ProgramId, const Graph* const> graphs_;
  ir::IdSpan<ProgramId, const std::string> files_;
  IdVector<ProgramId, IdVector<ValueId, std::optional<Key>>> keys_;  // absent: not asked yet
  std::map<std::string, Key> computed_;                              // keys of what is computed, by how
  Key next_{0};
  std::map<Key, std::map<Kind, std::vector<SharedWeight::Reader>>> readers_;  // by key
  SharedTensors result_;
};

}  // namespace

SharedTensors shared_tensors(std::span<const Graph* const> graphs, std::span<const std::string> files) {
  return Finder(graphs, files).run();
}

}  // namespace braid::split
