#include "frontend/sharding/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "frontend/fold.h"

namespace braid::frontend::sharding {

using ir::DType;
using ir::Expr;
using ir::ReduceKind;

// ---- table

namespace {

using Table = std::map<std::pair<std::string, std::string>, const Rule*>;

Table& table() {
  static Table all = [] {
    Table t;
    for (const auto family : {elementwise_rules, product_rules, quantised_rules, block_quantised_rules,
                              reduction_rules, normalization_rules, reshape_rules, join_rules, gather_rules,
                              attention_rules, convolution_rules, replicated_rules, collective_rules}) {
      for (const Rule& rule : family()) {
        const bool added = t.emplace(std::pair(rule.domain, rule.name), &rule).second;
        ir::internal_check(added, "two rules for {} of '{}'", rule.name, rule.domain);
      }
    }
    return t;
  }();
  return all;
}

}  // namespace

const Rule* find_rule(const std::string& domain, const std::string& name) {
  const auto found = table().find({domain, name});
  return found == table().end() ? nullptr : found->second;
}

std::vector<const Rule*> all_rules() {
  std::vector<const Rule*> rules;
  for (const auto& [key, rule] : table()) rules.push_back(rule);
  return rules;
}

const Rule* replace_rule(const std::string& domain, const std::string& name, const Rule* rule) {
  const Rule*& place = table()[{domain, name}];
  return std::exchange(place, rule);
}

// ---- view of a node

bool NodeView::has_output(int k) const {
  if (k >= outputs() || node_.outputs[static_cast<std::size_t>(k)] < 0) return false;
  return !output(k).readers.empty();
}

const GraphValue& NodeView::input(int k) const {
  ir::internal_check(has_input(k), "input {} of {} is absent", k, op());
  return graph_.values[static_cast<std::size_t>(node_.inputs[static_cast<std::size_t>(k)])];
}

const GraphValue& NodeView::output(int k) const {
  return graph_.values[static_cast<std::size_t>(node_.outputs[static_cast<std::size_t>(k)])];
}

const onnx::AttributeProto* NodeView::attribute(const char* name) const {
  for (const onnx::AttributeProto& attribute : node_.proto->attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

std::int64_t NodeView::int_attribute(const char* name, std::int64_t fallback) const {
  const onnx::AttributeProto* a = attribute(name);
  return a == nullptr ? fallback : a->i();
}

float NodeView::float_attribute(const char* name, float fallback) const {
  const onnx::AttributeProto* a = attribute(name);
  return a == nullptr ? fallback : a->f();
}

std::string NodeView::string_attribute(const char* name, const std::string& fallback) const {
  const onnx::AttributeProto* a = attribute(name);
  return a == nullptr ? fallback : a->s();
}

std::optional<std::vector<std::int64_t>> NodeView::ints_attribute(const char* name) const {
  const onnx::AttributeProto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}

std::optional<std::vector<std::int64_t>> NodeView::known_ints(int k) const {
  if (!has_input(k) || !input(k).elements) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Expr& e : input(k).elements->values) {
    if (!e.is_constant()) return std::nullopt;
    numbers.push_back(e.constant());
  }
  return numbers;
}

std::optional<std::vector<std::int64_t>> NodeView::ints_of(const char* name, int k) const {
  if (auto given = ints_attribute(name)) return given;
  return known_ints(k);
}

// ---- letters

Factors factors_of(const Graph& graph, const GraphNode& node) {
  if (node.rule == nullptr || node.rule->factors == nullptr) return {};
  const NodeView view(graph, node);
  for (int k = 0; k < view.outputs(); ++k) {
    if (view.has_output(k) && view.output(k).pinned) return {};
  }
  return node.rule->factors(view, *node.rule);
}

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

int value_of(const GraphNode& node, const Occurrence& at) {
  const std::vector<int>& list = at.output ? node.outputs : node.inputs;
  return at.index < static_cast<int>(list.size()) ? list[static_cast<std::size_t>(at.index)] : -1;
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
    const int v = value_of(node, at);
    const auto found = candidates.find({v, at.dim});
    if (found == candidates.end()) continue;
    for (const Blocks& blocks : found->second) {
      const std::optional<Blocks> own = letter_blocks(letter, at, blocks);
      if (own && own->size() <= kMaxBlocks && divisible(*own, ranks)) lists.insert(*own);
    }
  }
  return lists;
}

}  // namespace

namespace {

// Without those of nodes that are computed at compile time.
const std::vector<Factors>& factors_of_all(const Graph& graph) {
  if (!graph.known_factors) {
    std::vector<Factors> all;
    for (const GraphNode& node : graph.nodes)
      all.push_back(node.compile_time ? Factors{} : factors_of(graph, node));
    graph.known_factors = std::make_shared<const std::vector<Factors>>(std::move(all));
  }
  return *graph.known_factors;
}

BlockCandidates find_candidates(const Graph& graph, int ranks) {
  BlockCandidates candidates;
  const std::vector<Factors>& factors = factors_of_all(graph);
  // What nothing has changed for since the last visit is not visited. Lists of several blocks begin where a letter has several
  // segments.
  std::vector<char> open;
  for (const Factors& own : factors) {
    open.push_back(std::ranges::any_of(own.letters, [](const Letter& letter) {
      return std::ranges::any_of(letter.at, [](const Occurrence& at) { return at.segments.size() > 1; });
    }));
  }
  const auto visit = [&](std::size_t n) {
    if (open[n] == 0) return false;
    open[n] = 0;
    bool changed = false;
    for (const Letter& letter : factors[n].letters) {
      // Of one block each, with nothing suggested yet: there is nothing to tell.
      const bool tells = std::ranges::any_of(letter.at, [&](const Occurrence& at) {
        return at.segments.size() > 1 ||
               (letter.blocked && candidates.contains({value_of(graph.nodes[n], at), at.dim}));
      });
      if (!tells) continue;
      for (const Blocks& blocks : suggested(graph.nodes[n], letter, candidates, ranks)) {
        for (const Occurrence& at : letter.at) {
          const int v = value_of(graph.nodes[n], at);
          if (at.segments.size() * blocks.size() < 2 || v < 0) continue;
          Blocks own = dimension_blocks(letter, at, blocks);
          std::set<Blocks>& known = candidates[{v, at.dim}];
          if (known.size() >= kMaxCandidates || !known.insert(std::move(own)).second) continue;
          changed = true;
          const GraphValue& value = graph.values[static_cast<std::size_t>(v)];
          if (value.producer >= 0) open[static_cast<std::size_t>(value.producer)] = 1;
          for (const GraphUse& use : value.readers)
            if (use.node >= 0) open[static_cast<std::size_t>(use.node)] = 1;
        }
      }
    }
    return changed;
  };
  // Backwards first: what a Split wants reaches the weights of its product in one visit.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = graph.nodes.size(); n-- > 0;) changed |= visit(n);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) changed |= visit(n);
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

// Collectives reduce numbers; partial sums of narrow floats would be rounded once per rank, as hand-split models do too.
bool can_be_pending(const GraphValue& value) {
  return value.dtype != DType::boolean && !is_storage(value.dtype);
}

class StrategyList {
 public:
  StrategyList(const Graph& graph, const GraphNode& node) : view_(graph, node) { all_.push_back(blank()); }

  void add(const Letter& letter, int index, const Blocks& blocks) {
    Strategy s = blank();
    s.letter = index;
    s.blocks = blocks.size() > 1 ? blocks : Blocks{};
    for (const Occurrence& at : letter.at) {
      if (at.output ? !named(at.index) : !view_.has_input(at.index)) continue;
      Spec& spec = (at.output ? s.outputs : s.inputs)[static_cast<std::size_t>(at.index)];
      if (!spec.is_replicated()) return;  // twice in one tensor, like a diagonal
      if (!has_extent(at.output ? view_.output(at.index) : view_.input(at.index), at, letter)) return;
      spec = Spec::split(at.dim, dimension_blocks(letter, at, blocks));
    }
    if (letter.reduce) {
      for (std::size_t k = 0; k < s.outputs.size(); ++k) {
        if (!named(static_cast<int>(k)) || !s.outputs[k].is_replicated()) continue;
        if (!can_be_pending(view_.output(static_cast<int>(k)))) return;
        s.outputs[k] = Spec::pending(*letter.reduce);
      }
    }
    for (const int k : letter.pending_inputs) {
      if (view_.has_input(k)) s.inputs[static_cast<std::size_t>(k)] = Spec::pending(*letter.reduce);
    }
    add(std::move(s));
  }

  void add(const Linear& linear) {
    for (const ReduceKind kind : linear.kinds) {
      Strategy s = blank();
      bool fits = true;
      for (const int k : linear.inputs) {
        if (!view_.has_input(k)) continue;
        fits &= can_be_pending(view_.input(k)) && !view_.input(k).pinned;
        s.inputs[static_cast<std::size_t>(k)] = Spec::pending(kind);
      }
      for (std::size_t k = 0; k < s.outputs.size(); ++k) {
        if (!named(static_cast<int>(k))) continue;
        fits &= can_be_pending(view_.output(static_cast<int>(k)));
        s.outputs[k] = Spec::pending(kind);
      }
      if (fits) add(std::move(s));
    }
  }

  // Whether the dimension has the size that the letter gives it; one that is known only at run time is not split.
  static bool has_extent(const GraphValue& value, const Occurrence& at, const Letter& letter) {
    if (value.readers.empty() && value.rank() == 0) return true;  // a result that nothing reads
    if (at.dim < 0 || at.dim >= value.rank()) return false;
    const std::int64_t sum = std::accumulate(at.segments.begin(), at.segments.end(), std::int64_t{0});
    return value.sizes[static_cast<std::size_t>(at.dim)].is_constant(letter.size * sum);
  }

  std::vector<Strategy> take() { return std::move(all_); }

 private:
  bool named(int k) const {
    return k < view_.outputs() && view_.node().outputs[static_cast<std::size_t>(k)] >= 0;
  }

  Strategy blank() const {
    Strategy s;
    s.inputs.resize(static_cast<std::size_t>(view_.inputs()));
    s.outputs.resize(static_cast<std::size_t>(view_.outputs()));
    return s;
  }

  void add(Strategy s) {
    for (std::size_t k = 0; k < s.inputs.size(); ++k) {
      if (!s.inputs[k].is_replicated() && view_.input(static_cast<int>(k)).pinned) return;
    }
    const auto same = [&](const Strategy& other) {
      return other.inputs == s.inputs && other.outputs == s.outputs;
    };
    if (std::none_of(all_.begin(), all_.end(), same)) all_.push_back(std::move(s));
  }

  NodeView view_;
  std::vector<Strategy> all_;
};

}  // namespace

std::vector<Strategy> strategies(const Graph& graph, const GraphNode& node, int ranks,
                                 const BlockCandidates& candidates) {
  StrategyList list(graph, node);
  if (node.compile_time) return list.take();
  const Factors factors = factors_of(graph, node);
  for (std::size_t k = 0; k < factors.letters.size(); ++k) {
    for (const Blocks& blocks : suggested(node, factors.letters[k], candidates, ranks))
      list.add(factors.letters[k], static_cast<int>(k), blocks);
  }
  for (const Linear& linear : factors.linear) list.add(linear);
  return list.take();
}

// ---- helpers

std::optional<Letter> letter_of(const Expr& size, std::string name) {
  if (!size.is_constant() || size.constant() < 2) return std::nullopt;
  Letter letter;
  letter.name = std::move(name);
  letter.size = size.constant();
  return letter;
}

Occurrence in(int index, int dim, std::vector<std::int64_t> segments) {
  return {false, index, dim, std::move(segments)};
}
Occurrence out(int index, int dim, std::vector<std::int64_t> segments) {
  return {true, index, dim, std::move(segments)};
}

Factors padded(Factors factors) {
  for (Letter& letter : factors.letters) letter.padded = true;
  return factors;
}

std::vector<Letter> broadcast_letters(const NodeView& node, const std::vector<int>& inputs,
                                      const std::set<int>& skip, int index) {
  std::vector<Letter> letters;
  const int rank = node.output(index).rank();
  for (int d = 0; d < rank; ++d) {
    std::optional<Letter> letter = letter_of(node.out_size(index, d), fmt::format("d{}", d));
    if (!letter || skip.count(d) > 0) continue;
    letter->at.push_back(out(index, d));
    bool clear = true;
    for (const int k : inputs) {
      if (!node.has_input(k)) continue;
      const int own = d - (rank - node.rank(k));
      if (own < 0 || node.size(k, own).is_constant(1)) continue;
      clear &= node.size(k, own).is_constant(letter->size);
      letter->at.push_back(in(k, own));
    }
    if (clear) letters.push_back(std::move(*letter));
  }
  return letters;
}

std::vector<Linear> linear_of(const NodeView& node, Pending pending) {
  switch (pending) {
    case Pending::none:
      return {};
    case Pending::additive: {
      std::vector<int> all(static_cast<std::size_t>(node.inputs()));
      std::iota(all.begin(), all.end(), 0);
      return {{all, {ReduceKind::sum}}};
    }
    case Pending::multilinear:
      return {{{0}, {ReduceKind::sum}}, {{1}, {ReduceKind::sum}}};
    case Pending::first:
      return {{{0}, {ReduceKind::sum}}};
    case Pending::any:
      return {{{0}, {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min}}};
    case Pending::increasing:
      return {{{0}, {ReduceKind::max, ReduceKind::min}}};
  }
  return {};
}

}  // namespace braid::frontend::sharding
