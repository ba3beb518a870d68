#include "frontend/sharding/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/fold.h"
#include "frontend/sharding/onnx_graph.h"

namespace braid::frontend::sharding {

using ir::DType;
using ir::Expr;
using ir::ReduceKind;

// ---- view of a node

const onnx::NodeProto& NodeView::proto() const { return proto_of(node_); }

std::vector<int> NodeView::all_inputs() const {
  const IdRange<int> all = first_ids<int>(inputs());
  return {all.begin(), all.end()};
}

bool NodeView::has_output(int k) const { return computes(k) && !output(k).readers.empty(); }

const GraphValue& NodeView::input(int k) const {
  ir::internal_check(has_input(k), "input {} of {} is absent", k, op());
  return graph_.values[node_.inputs[k]];
}

const GraphValue& NodeView::output(int k) const { return graph_.values[node_.outputs[k]]; }

const onnx::AttributeProto* NodeView::attribute(const char* name) const {
  for (const onnx::AttributeProto& attribute : proto().attribute()) {
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

Factors factors_of(const Graph& graph, const GraphNode& node, const Rule& rule) {
  if (rule.factors == nullptr) return {};
  const NodeView view(graph, node);
  for (int k = 0; k < view.outputs(); ++k) {
    if (view.has_output(k) && view.output(k).pinned) return {};
  }
  return rule.factors(view, rule);
}

// ---- helpers

std::optional<Letter> letter_of(const Expr& size, std::string name) {
  if (!size.is_constant() || size.constant() < 2) return std::nullopt;
  Letter letter;
  letter.name = std::move(name);
  letter.size = size.constant();
  return letter;
}

void add(Factors& f, std::optional<Letter> letter, std::vector<Occurrence> at,
         std::optional<ReduceKind> reduce) {
  if (!letter) return;
  letter->at = std::move(at);
  letter->reduce = reduce;
  f.letters.push_back(std::move(*letter));
}

void add(Factors& f, const Expr& size, std::string name, std::vector<Occurrence> at) {
  add(f, letter_of(size, std::move(name)), std::move(at));
}

bool same(const Expr& a, const Expr& b) { return a.is_constant() && a == b; }

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

Letters broadcast_letters(const NodeView& node, const std::vector<int>& inputs, const std::set<int>& skip,
                          int index) {
  Letters letters;
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
    case Pending::additive:
      return {{node.all_inputs(), {ReduceKind::sum}}};
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
