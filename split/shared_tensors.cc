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

std::size_t at(int index) { return static_cast<std::size_t>(index); }

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
    for (const Graph* graph : graphs) keys_.emplace_back(graph->values.size(), kUnknown);
  }

  SharedTensors run() {
    add_initialisers();
    for (std::size_t p = 0; p < graphs_.size(); ++p) add_readers(static_cast<int>(p));
    for (const auto& [key, kinds] : readers_) add_weight(kinds);
    add_caches();
    return std::move(result_);
  }

 private:
  static constexpr int kUnknown = -2, kNone = -1;
  // The kind of a reader: operator (name and domain) and input.
  using Kind = std::tuple<std::string, std::string, int>;

  static bool is_constant_node(const Graph& graph, const GraphValue& value) {
    if (value.producer < 0) return false;
    const GraphNode& node = graph.nodes[at(value.producer)];
    return node.work.kind == WorkKind::constant && node.inputs.empty();
  }

  // Gives initialisers of one name and content one key.
  void add_initialisers() {
    std::map<std::string, std::vector<std::pair<std::size_t, int>>> by_name;
    for (std::size_t p = 0; p < graphs_.size(); ++p) {
      for (std::size_t v = 0; v < graphs_[p]->values.size(); ++v) {
        const GraphValue& value = graphs_[p]->values[v];
        if (!value.constant || value.readers.empty()) continue;
        if (value.producer < 0 || is_constant_node(*graphs_[p], value))
          by_name[value.name].push_back({p, static_cast<int>(v)});
      }
    }
    for (const auto& [name, all] : by_name) {
      const int shared = next_++;
      const GraphValue& first = value_of(all[0]);
      bool weight = false;
      for (const auto& one : all) {
        const GraphValue& value = value_of(one);
        keys_[one.first][at(one.second)] = shared;
        if (one == all[0]) continue;
        if (same(*first.constant, *value.constant)) {
          weight = weight || is_weight(*value.constant);
          continue;
        }
        if (first.producer < 0 && value.producer < 0 &&
            (is_weight(*first.constant) || is_weight(*value.constant)))
          refuse(name, all[0].first, *first.constant, one.first, *value.constant);
        keys_[one.first][at(one.second)] = next_++;
      }
      if (!weight) continue;
      ++result_.count;
      result_.bytes += first.constant->count() * ir::size_of(first.constant->dtype);
    }
    if (result_.count == 0)
      ir::user_error(
          errors::kSplitWith, {.file = files_[0]},
          fmt::format("it has no weight of one name with {}", fmt::join(files_.subspan(1), ", ")),
          "weights of programs that are split together must have the same names; split others on their own");
  }

  const GraphValue& value_of(const std::pair<std::size_t, int>& one) const {
    return graphs_[one.first]->values[at(one.second)];
  }

  [[noreturn]] void refuse(const std::string& name, std::size_t p, const ir::KnownTensor& a, std::size_t q,
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
  // key. Returns kNone if it is not a constant, or one of unknown origin.
  int key(int p, int v) {
    int& known = keys_[at(p)][at(v)];
    if (known != kUnknown) return known;
    known = kNone;
    const Graph& graph = *graphs_[at(p)];
    const GraphValue& value = graph.values[at(v)];
    if (!value.constant || value.producer < 0) return known;
    const GraphNode& node = graph.nodes[at(value.producer)];
    const auto output = std::ranges::find(node.outputs, v) - node.outputs.begin();
    std::string how = fmt::format("{}\n{}\n{}\n{}\n", node.op, node.domain, node.version, output);
    for (const int input : node.inputs) {
      const int own = input < 0 ? kUnknown : key(p, input);
      if (own == kNone) return known;
      how += fmt::format("{} ", own);
    }
    std::vector<std::string> attributes = node.operation->attributes();
    std::ranges::sort(attributes);
    for (const std::string& attribute : attributes) how += fmt::format("{}\n{}", attribute.size(), attribute);
    const auto [entry, fresh] = computed_.try_emplace(std::move(how), next_);
    next_ += fresh ? 1 : 0;
    return keys_[at(p)][at(v)] = entry->second;
  }

  void add_readers(int p) {
    const Graph& graph = *graphs_[at(p)];
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const GraphNode& node = graph.nodes[n];
      if (node.compile_time) continue;
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        const int v = node.inputs[k];
        if (v < 0 || !graph.values[at(v)].is_constant()) continue;
        const int input = static_cast<int>(k);
        if (const int own = key(p, v); own >= 0)
          readers_[own][{node.op, node.domain, input}].push_back({p, static_cast<int>(n), input});
      }
    }
  }

  void add_weight(const std::map<Kind, std::vector<SharedWeight::Reader>>& kinds) {
    const auto programs = [](const std::vector<SharedWeight::Reader>& readers) {
      std::set<int> all;
      for (const SharedWeight::Reader& reader : readers) all.insert(reader.program);
      return all;
    };
    SharedWeight all;
    for (const auto& [kind, readers] : kinds)
      all.readers.insert(all.readers.end(), readers.begin(), readers.end());
    const std::set<int> having = programs(all.readers);
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
    for (std::size_t to = 0; to < graphs_.size(); ++to) {
      for (const Cache& cache : caches_of(*graphs_[to])) {
        if (cache.input < 0) continue;
        const GraphValue& past = graphs_[to]->values[at(cache.input)];
        const std::string& present = graphs_[to]->values[at(graphs_[to]->outputs[at(cache.output)])].name;
        for (std::size_t from = 0; from < graphs_.size(); ++from) {
          if (from == to) continue;
          const Graph& other = *graphs_[from];
          for (std::size_t k = 0; k < other.outputs.size(); ++k) {
            const GraphValue& value = other.values[at(other.outputs[k])];
            if ((value.name == past.name || value.name == present) && value.dtype == past.dtype &&
                value.rank() == past.rank() && !value.pinned && !value.constant)
              result_.caches.push_back(
                  {static_cast<int>(from), static_cast<int>(k), static_cast<int>(to), cache.input});
          }
        }
      }
    }
  }

  std::span<const Graph* const> graphs_;
  std::span<const std::string> files_;
  std::vector<std::vector<int>> keys_;   // by program and value
  std::map<std::string, int> computed_;  // keys of what is computed, by how
  int next_ = 0;
  std::map<int, std::map<Kind, std::vector<SharedWeight::Reader>>> readers_;  // by key
  SharedTensors result_;
};

}  // namespace

SharedTensors shared_tensors(std::span<const Graph* const> graphs, std::span<const std::string> files) {
  return Finder(graphs, files).run();
}

}  // namespace braid::split
