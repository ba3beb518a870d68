#include "split/factors.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <ranges>

#include "ir/error.h"
#include "split/graph.h"

namespace braid::split {

using ir::DType;
using ir::ReduceKind;

std::optional<Blocks> letter_blocks(const Letter& letter, const Occurrence& at, const Blocks& blocks) {
  if (blocks.empty()) return at.segments.size() == 1 ? std::optional(Blocks{letter.size}) : std::nullopt;
  std::optional<Blocks> result;
  std::size_t next = 0;
  for (const std::int64_t inner : at.segments) {
    Blocks own;
    own.reserve(blocks.size() / at.segments.size());
    std::int64_t left = letter.size * inner;
    for (; left > 0 && next < blocks.size(); ++next) {
      if (blocks[next] > left || blocks[next] % inner != 0) return std::nullopt;
      own.push_back(blocks[next] / inner);
      left -= blocks[next];
    }
    if (left != 0 || (result && *result != own)) return std::nullopt;
    result = std::move(own);
  }
  return next == blocks.size() ? result : std::nullopt;
}

Blocks dimension_blocks(const Letter&, const Occurrence& at, const Blocks& blocks) {
  Blocks result;
  result.reserve(at.segments.size() * blocks.size());
  for (const std::int64_t inner : at.segments) {
    for (const std::int64_t block : blocks) result.push_back(block * inner);
  }
  return result;
}

namespace {

bool divisible(const Blocks& blocks, int ranks) {
  return std::all_of(blocks.begin(), blocks.end(), [&](std::int64_t b) { return b > 0 && b % ranks == 0; });
}

bool can_be_padded(const Letter& letter, int ranks) {
  return letter.padded && can_pad(letter.size, ranks) &&
         std::all_of(letter.at.begin(), letter.at.end(),
                     [](const Occurrence& at) { return at.segments == std::vector<std::int64_t>{1}; });
}

ValueId value_of(const GraphNode& node, const Occurrence& at) {
  const std::vector<ValueId>& list = at.output ? node.outputs : node.inputs;
  return at.index < count_of(list) ? list[at.index] : ValueId{};
}

// More lists than these for one dimension are not followed.
constexpr std::size_t kMaxCandidates = 4;
constexpr std::size_t kMaxBlocks = 64;

// All lists of blocks that some occurrence of the letter suggests, and one block.
std::set<Blocks> suggested(const GraphNode& node, const Letter& letter, const BlockCandidates& candidates,
                           int ranks) {
  std::set<Blocks> lists;
  if (letter.more_ranks_than > 0 && (ranks <= letter.more_ranks_than || ranks % letter.more_ranks_than != 0))
    return lists;
  if (divisible({letter.size}, ranks) || can_be_padded(letter, ranks)) lists.insert(Blocks{letter.size});
  if (!letter.blocked) return lists;
  for (const Occurrence& at : letter.at) {
    const ValueId v = value_of(node, at);
    const auto found = candidates.find({v, at.dim});
    if (found == candidates.end()) continue;
    for (const Blocks& blocks : found->second) {
      const std::optional<Blocks> own = letter_blocks(letter, at, blocks);
      if (own && own->size() <= kMaxBlocks && divisible(*own, ranks)) lists.insert(*own);
    }
  }
  return lists;
}

BlockCandidates find_candidates(const Graph& graph, int ranks) {
  BlockCandidates candidates;
  // Whether something has changed for the node since the last visit. Lists of several blocks begin where a
  // letter has several segments.
  IdVector<NodeId, char> open;
  for (const GraphNode& node : graph.nodes) {
    open.push_back(std::ranges::any_of(node.factors.letters, [](const Letter& letter) {
      return std::ranges::any_of(letter.at, [](const Occurrence& at) { return at.segments.size() > 1; });
    }));
  }
  const auto visit = [&](NodeId n) {
    if (open[n] == 0) return false;
    open[n] = 0;
    bool changed = false;
    for (const Letter& letter : graph.nodes[n].factors.letters) {
      // If all have one block and nothing is suggested yet, nothing can be passed on.
      const bool tells = std::ranges::any_of(letter.at, [&](const Occurrence& at) {
        return at.segments.size() > 1 ||
               (letter.blocked && candidates.contains({value_of(graph.nodes[n], at), at.dim}));
      });
      if (!tells) continue;
      for (const Blocks& blocks : suggested(graph.nodes[n], letter, candidates, ranks)) {
        for (const Occurrence& at : letter.at) {
          const ValueId v = value_of(graph.nodes[n], at);
          if (at.segments.size() * blocks.size() < 2 || !v.valid()) continue;
          Blocks own = dimension_blocks(letter, at, blocks);
          std::set<Blocks>& known = candidates[{v, at.dim}];
          if (known.size() >= kMaxCandidates || !known.insert(std::move(own)).second) continue;
          changed = true;
          const GraphValue& value = graph.values[v];
          if (value.producer.valid()) open[value.producer] = 1;
          for (const GraphUse& use : value.readers)
            if (use.node.valid()) open[use.node] = 1;
        }
      }
    }
    return changed;
  };
  // Backwards first: what a Split wants reaches the weights of its product in one visit.
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeId n : std::views::reverse(graph.nodes.ids())) changed |= visit(n);
    for (const NodeId n : graph.nodes.ids()) changed |= visit(n);
  }
  return candidates;
}

}  // namespace

const BlockCandidates& block_candidates(const Graph& graph, int ranks) {
  static std::mutex asked;  // meshes are searched on several threads
  const std::lock_guard lock(asked);
  std::shared_ptr<const BlockCandidates>& known = graph.known_candidates[ranks];
  if (!known) known = std::make_shared<const BlockCandidates>(find_candidates(graph, ranks));
  return *known;
}

namespace {

// Collectives reduce numbers; partial sums of narrow floats would be rounded once per rank, as hand-split
// models do too.
bool can_be_pending(const GraphValue& value) {
  return value.dtype != DType::boolean && !is_storage(value.dtype);
}

class StrategyList {
 public:
  StrategyList(const Graph& graph, const GraphNode& node) : graph_(graph), node_(node) {
    all_.push_back(blank());
  }

  void add(const Letter& letter, LetterId id, const Blocks& blocks) {
    Strategy s = blank();
    s.letter = id;
    s.blocks = blocks.size() > 1 ? blocks : Blocks{};
    for (const Occurrence& at : letter.at) {
      if (at.output ? !named(at.index) : !has_input(at.index)) continue;
      Spec& spec = (at.output ? s.outputs : s.inputs)[at.index];
      if (!spec.is_replicated()) return;  // twice in one tensor, like a diagonal
      if (!has_extent(at.output ? output(at.index) : input(at.index), at, letter)) return;
      spec = Spec::split(at.dim, dimension_blocks(letter, at, blocks));
    }
    if (letter.reduce) {
      for (int k = 0; k < count_of(s.outputs); ++k) {
        if (!named(k) || !s.outputs[k].is_replicated()) continue;
        if (!can_be_pending(output(k))) return;
        s.outputs[k] = Spec::pending(*letter.reduce);
      }
    }
    for (const int k : letter.pending_inputs) {
      if (has_input(k)) s.inputs[k] = Spec::pending(*letter.reduce);
    }
    add(std::move(s));
  }

  void add(const Linear& linear) {
    for (const ReduceKind kind : linear.kinds) {
      Strategy s = blank();
      bool fits = true;
      for (const int k : linear.inputs) {
        if (!has_input(k)) continue;
        fits &= can_be_pending(input(k)) && !input(k).pinned;
        s.inputs[k] = Spec::pending(kind);
      }
      for (int k = 0; k < count_of(s.outputs); ++k) {
        if (!named(k)) continue;
        fits &= can_be_pending(output(k));
        s.outputs[k] = Spec::pending(kind);
      }
      if (fits) add(std::move(s));
    }
  }

  // Whether the dimension has the size that the letter gives it; one that is known only at run time is not
  // split.
  static bool has_extent(const GraphValue& value, const Occurrence& at, const Letter& letter) {
    if (value.readers.empty() && value.rank() == 0) return true;  // a result that nothing reads
    if (at.dim < 0 || at.dim >= value.rank()) return false;
    const std::int64_t sum = std::accumulate(at.segments.begin(), at.segments.end(), std::int64_t{0});
    return value.sizes[at.dim].is_constant(letter.size * sum);
  }

  std::vector<Strategy> take() { return std::move(all_); }

 private:
  bool has_input(int k) const { return k >= 0 && k < count_of(node_.inputs) && node_.inputs[k].valid(); }
  const GraphValue& input(int k) const {
    ir::internal_check(has_input(k), "input {} of {} is absent", k, node_.op);
    return graph_.values[node_.inputs[k]];
  }
  const GraphValue& output(int k) const { return graph_.values[node_.outputs[k]]; }
  bool named(int k) const { return k < count_of(node_.outputs) && node_.outputs[k].valid(); }

  Strategy blank() const {
    Strategy s;
    s.inputs.resize(node_.inputs.size());
    s.outputs.resize(node_.outputs.size());
    return s;
  }

  void add(Strategy s) {
    for (int k = 0; k < count_of(s.inputs); ++k) {
      if (!s.inputs[k].is_replicated() && input(k).pinned) return;
    }
    const auto same = [&](const Strategy& other) {
      return other.inputs == s.inputs && other.outputs == s.outputs;
    };
    if (std::none_of(all_.begin(), all_.end(), same)) all_.push_back(std::move(s));
  }

  const Graph& graph_;
  const GraphNode& node_;
  std::vector<Strategy> all_;
};

}  // namespace

std::vector<Strategy> strategies(const Graph& graph, const GraphNode& node, int ranks,
                                 const BlockCandidates& candidates) {
  StrategyList list(graph, node);
  if (node.compile_time) return list.take();
  for (const LetterId k : node.factors.letters.ids()) {
    const Letter& letter = node.factors.letters[k];
    for (const Blocks& blocks : suggested(node, letter, candidates, ranks)) list.add(letter, k, blocks);
  }
  for (const Linear& linear : node.factors.linear) list.add(linear);
  return list.take();
}

}  // namespace braid::split
