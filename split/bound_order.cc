// The rows of bounds.h that hold for every order: a chain through the graph, and the work between its nodes.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "split/bounds.h"

namespace braid::split {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

// Finds the last node of each join: all nodes of the join to which the product leads must lead to it.
void BoundSearch::find_joins(const Graph& graph, const SplitSpace& space) {
  joined_.assign(at(nodes_), -1);
  if (options_.joins.empty()) return;
  std::unordered_map<std::string_view, std::vector<int>> named;
  for (int v = 0; v < nodes_; ++v) named[graph.nodes[at(space.node_of(v))].label].push_back(v);
  for (const ProductJoin& join : options_.joins) {
    std::vector<int> members;
    bool known = true;
    int last = -1;
    for (const std::string& name : join.nodes) {
      const auto found = named.find(name);
      if (found == named.end()) continue;  // computed at compile time
      known = known && found->second.size() == 1;
      members.push_back(found->second[0]);
      last = std::max(last, members.back());
    }
    const auto source = named.find(join.product);
    if (!known || last < 0 || source == named.end() || source->second.size() != 1) continue;
    const int product = source->second[0];
    if (product_[at(product)] == 0 || product >= last) continue;
    // The nodes that the product leads to, and those that lead to the last node.
    std::vector<char> after(at(nodes_), 0), before(at(nodes_), 0);
    after[at(product)] = before[at(last)] = 1;
    for (int v = product + 1; v <= last; ++v) {
      for (const int p : into_[at(v)]) {
        const int u = passages_[at(p)].producer;
        if (u >= 0 && after[at(u)] != 0) after[at(v)] = 1;
      }
    }
    for (int v = last; v >= 0; --v) {
      if (before[at(v)] == 0) continue;
      for (const int p : into_[at(v)]) {
        if (passages_[at(p)].producer >= 0) before[at(passages_[at(p)].producer)] = 1;
      }
    }
    const bool leads = std::all_of(members.begin(), members.end(), [&](int v) {
      return v == last || after[at(v)] == 0 || before[at(v)] != 0;
    });
    if (after[at(last)] != 0 && leads) joined_[at(last)] = product;
  }
}

void BoundSearch::count_loops() {
  constexpr int kNone = -1'000'000;
  loops_.assign(at(nodes_), 0);
  loops_open_.assign(at(nodes_), kNone);
  for (int v = 0; v < nodes_; ++v) {
    int &closed = loops_[at(v)], &open = loops_open_[at(v)];
    for (const int p : into_[at(v)]) {
      const int u = passages_[at(p)].producer;
      if (u < 0) continue;
      closed = std::max(closed, loops_[at(u)]);
      open = std::max(open, loops_open_[at(u)]);
    }
    if (reduction_[at(v)] != 0) open = std::max(open, closed);
    if (joined_[at(v)] >= 0) open = std::max(open, loops_[at(joined_[at(v)])]);
    if (product_[at(v)] != 0) {
      closed = std::max(closed, open + 1);
      open = kNone;
    }
    loop_kernels_ = std::max({loop_kernels_, closed, open + 1});
  }
}

// Sets of nodes as bits: which kernels a node comes after, and which come after it.
void BoundSearch::find_chain() {
  std::vector<int> kernels, number(at(nodes_), -1);
  int products = 0;
  for (int v = 0; v < nodes_; ++v) {
    if (product_[at(v)] == 0 && copy_[at(v)] == 0) continue;
    number[at(v)] = static_cast<int>(kernels.size());
    kernels.push_back(v);
    products += product_[at(v)];
  }
  const std::size_t words = kernels.size() / 64 + 1;
  std::vector<std::uint64_t> is_product(words, 0);
  for (std::size_t k = 0; k < kernels.size(); ++k)
    is_product[k / 64] |= static_cast<std::uint64_t>(product_[at(kernels[k])]) << (k % 64);
  const auto closure = [&](bool forward) {
    std::vector<std::uint64_t> bits(at(nodes_) * words, 0);
    for (int i = 0; i < nodes_; ++i) {
      const int v = forward ? i : nodes_ - 1 - i;
      std::uint64_t* own = &bits[at(v) * words];
      for (const int p : (forward ? into_ : out_of_)[at(v)]) {
        const int u = forward ? passages_[at(p)].producer : passages_[at(p)].reader;
        if (u < 0) continue;
        for (std::size_t w = 0; w < words; ++w) own[w] |= bits[at(u) * words + w];
        if (number[at(u)] >= 0) own[at(number[at(u)]) / 64] |= std::uint64_t{1} << (number[at(u)] % 64);
      }
    }
    return bits;
  };
  const std::vector<std::uint64_t> before = closure(true), after = closure(false);
  std::vector<char> behind(at(nodes_), 0);  // whether it comes after the last node of the chain
  std::vector<char> counted(kernels.size(), 0);
  int last = -1;
  for (int v = 0; v < nodes_; ++v) {
    for (const int p : into_[at(v)]) {
      const int u = passages_[at(p)].producer;
      if (u >= last && u >= 0 && (u == last || behind[at(u)] != 0)) behind[at(v)] = 1;
    }
    if (last >= 0 && behind[at(v)] == 0) continue;
    int known = product_[at(v)];
    for (std::size_t w = 0; w < words; ++w)
      known += std::popcount(before[at(v) * words + w] & is_product[w]) +
               std::popcount(after[at(v) * words + w] & is_product[w]);
    if (known < products) continue;
    chain_.push_back(last = v);
    between_.emplace_back();
    copies_before_.emplace_back();
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const bool earlier = (before[at(v) * words + k / 64] >> (k % 64) & 1) != 0;
      if (earlier && copy_[at(kernels[k])] != 0) copies_before_.back().push_back(kernels[k]);
      if (counted[k] != 0 || product_[at(kernels[k])] == 0 || (!earlier && kernels[k] != v)) continue;
      counted[k] = 1;
      if (earlier) between_.back().push_back(kernels[k]);
    }
  }
  between_.emplace_back();
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    if (counted[k] == 0 && product_[at(kernels[k])] != 0) between_.back().push_back(kernels[k]);
  }
  // A join counts where its product is, if one of the products there must wait for it.
  joins_between_.assign(between_.size(), 0);
  for (int v = 0; v < nodes_; ++v) {
    if (joined_[at(v)] < 0 || std::find(chain_.begin(), chain_.end(), v) != chain_.end()) continue;
    for (std::size_t i = 0; i < between_.size(); ++i) {
      const std::vector<int>& inside = between_[i];
      const bool here = (i > 0 && chain_[i - 1] == joined_[at(v)]) ||
                        std::find(inside.begin(), inside.end(), joined_[at(v)]) != inside.end();
      if (!here) continue;
      const auto waits = [&](int u) {
        const int k = number[at(u)];
        return k >= 0 && product_[at(u)] != 0 && (after[at(v) * words + at(k) / 64] >> (k % 64) & 1) != 0;
      };
      if (i == chain_.size() || waits(chain_[i]) || std::any_of(inside.begin(), inside.end(), waits))
        joins_between_[i] = 1;
    }
  }
}

// The chain with the work between its nodes: all products there, or the longest path, whichever is more in
// this plan. Up to a node of the chain, all kernels that come before it, if these are more.
BoundSearch::Row BoundSearch::longest(const Plan& plan) const {
  Row row;
  Cost total = 0;
  std::vector<Cost> start(at(nodes_), 0);  // of the longest path from the last node of the chain
  std::vector<int> through(at(nodes_), -1);
  std::vector<char> reached(at(nodes_), 0);
  std::vector<int> all;  // products so far
  int first = 0;
  const auto product = [&](int v) { return product_[at(v)] != 0 ? plan.kernels[at(v)] : 0; };
  const auto leave = [&](int v, int last) { return start[at(v)] + (v == last ? 0 : product(v)); };
  const auto add = [&](int v) {
    if (product_[at(v)] != 0) row.nodes.push_back(v);
  };
  bool open = false;  // a reduction since the last product
  for (std::size_t i = 0; i <= chain_.size(); ++i) {
    const int last = i == 0 ? -1 : chain_[i - 1], next = i < chain_.size() ? chain_[i] : -1;
    const int end = next < 0 ? nodes_ : next + 1;
    for (int v = first; v < end; ++v) {
      if (v == last) continue;
      start[at(v)] = 0;
      through[at(v)] = -1;
      reached[at(v)] = last < 0 ? 1 : 0;
      for (const int p : into_[at(v)]) {
        const int u = passages_[at(p)].producer;
        // Before the chain begins, paths begin anywhere.
        if (u < 0 ? last >= 0 : u < first || reached[at(u)] == 0) continue;
        const Cost arrives = (u < 0 ? 0 : leave(u, last)) + plan.passages[at(p)];
        if (reached[at(v)] != 0 && arrives <= start[at(v)]) continue;
        start[at(v)] = arrives;
        through[at(v)] = p;
        reached[at(v)] = 1;
      }
    }
    Cost path = 0, kernels = 0;
    int at_end = -1, out = -1;
    if (next >= 0) {
      path = start[at(next)];
      at_end = next;
    } else {
      for (int v = last < 0 ? 0 : last; v < nodes_; ++v) {
        if (v != last && reached[at(v)] == 0) continue;
        const Cost done = v == last ? 0 : leave(v, last);
        if (at_end < 0 || done > path) path = done, at_end = v, out = -1;
        for (const int p : out_of_[at(v)]) {
          if (passages_[at(p)].reader >= 0) continue;
          const Cost returned = done + plan.passages[at(p)];
          if (returned > path) path = returned, at_end = v, out = p;
        }
      }
    }
    const std::vector<int>& inside = between_[i];
    for (const int v : inside) kernels += plan.kernels[at(v)];
    // A loop between two of these products, or between one of them and a product that is next.
    const Cost joins = joins_between_[i] != 0 ? launch_ : 0;
    if (kernels + joins > path) {
      row.nodes.insert(row.nodes.end(), inside.begin(), inside.end());
      row.constant += joins;
      total += kernels + joins;
    } else {
      total += path;
      if (out >= 0) row.passages.push_back(out);
      int v = at_end;
      if (next < 0 && v >= 0 && v != last) add(v);
      while (v >= 0 && v != last && through[at(v)] >= 0) {
        const int p = through[at(v)];
        row.passages.push_back(p);
        v = passages_[at(p)].producer;
        if (v >= 0 && v != last) add(v);
      }
    }
    all.insert(all.end(), inside.begin(), inside.end());
    // A reduction is in a kernel of its own, in addition to those of products before and after it.
    const bool ends = next < 0 || product_[at(next)] != 0 || !inside.empty();
    if (ends && open) {
      row.constant += launch_;
      total += launch_;
    }
    if (ends) open = false;
    if (next < 0) break;
    add(next);
    total += product(next);
    if (product_[at(next)] != 0) all.push_back(next);
    open = open || reduction_[at(next)] != 0 || joined_[at(next)] >= 0;
    const bool opens = loops_open_[at(next)] >= loops_[at(next)];
    Cost before = launch_ * (opens ? loops_open_[at(next)] : loops_[at(next)]);
    for (const int v : all) before += plan.kernels[at(v)];
    for (const int v : copies_before_[i]) before += plan.kernels[at(v)];
    if (before > total) {
      row = {};
      row.nodes = all;
      row.nodes.insert(row.nodes.end(), copies_before_[i].begin(), copies_before_[i].end());
      row.constant = launch_ * (opens ? loops_open_[at(next)] : loops_[at(next)]);
      total = before;
      open = opens;
    }
    first = next;
    start[at(next)] = 0;
    reached[at(next)] = 1;
  }
  std::sort(row.nodes.begin(), row.nodes.end());
  std::sort(row.passages.begin(), row.passages.end());
  return row;
}

}  // namespace braid::split
