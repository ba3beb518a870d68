// The rows of bound_search.h that hold for every order: a chain through the graph, and the work between its
// nodes.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <unordered_map>

#include "split/bound_search.h"

namespace braid::split {

// Finds the last node of each join: all nodes of the join to which the product leads must lead to it.
void BoundSearch::find_joins(const Graph& graph) {
  joined_.assign(nodes_, {});
  if (options_.joins.empty()) return;
  std::unordered_map<std::string_view, std::vector<VariableId>> named;
  for (const VariableId v : nodes_) named[graph.nodes[space_.node_of(v)].label].push_back(v);
  for (const ProductJoin& join : options_.joins) {
    std::vector<VariableId> members;
    bool known = true;
    VariableId last;
    for (const std::string& name : join.nodes) {
      const auto found = named.find(name);
      if (found == named.end()) continue;  // computed at compile time
      known = known && found->second.size() == 1;
      members.push_back(found->second[0]);
      last = std::max(last, members.back());
    }
    const auto source = named.find(join.product);
    if (!known || !last.valid() || source == named.end() || source->second.size() != 1) continue;
    const VariableId product = source->second[0];
    if (product_[product] != 0 && product < last && joins(product, last, members)) joined_[last] = product;
  }
}

bool BoundSearch::joins(VariableId product, VariableId last, const std::vector<VariableId>& members) const {
  // The nodes that the product leads to, and those that lead to the last node.
  IdVector<VariableId, char> after(nodes_, 0), before(nodes_, 0);
  after[product] = before[last] = 1;
  for (const VariableId v : IdRange(product + 1, last + 1)) {
    for (const PassageId p : into_[v]) {
      const VariableId u = passages_[p].producer;
      if (u.valid() && after[u] != 0) after[v] = 1;
    }
  }
  for (const VariableId v : std::views::reverse(IdRange(VariableId{0}, last + 1))) {
    if (before[v] == 0) continue;
    for (const PassageId p : into_[v]) {
      if (passages_[p].producer.valid()) before[passages_[p].producer] = 1;
    }
  }
  const bool leads = std::ranges::all_of(
      members, [&](VariableId v) { return v == last || after[v] == 0 || before[v] != 0; });
  return after[last] != 0 && leads;
}

void BoundSearch::count_loops() {
  constexpr int kNone = -1'000'000;
  loops_.assign(nodes_, 0);
  loops_open_.assign(nodes_, kNone);
  for (const VariableId v : nodes_) {
    int &closed = loops_[v], &open = loops_open_[v];
    for (const PassageId p : into_[v]) {
      const VariableId u = passages_[p].producer;
      if (!u.valid()) continue;
      closed = std::max(closed, loops_[u]);
      open = std::max(open, loops_open_[u]);
    }
    if (reduction_[v] != 0) open = std::max(open, closed);
    if (joined_[v].valid()) open = std::max(open, loops_[joined_[v]]);
    if (product_[v] != 0) {
      closed = std::max(closed, open + 1);
      open = kNone;
    }
    loop_kernels_ = std::max({loop_kernels_, closed, open + 1});
  }
}

// Sets of kernels as bits: those that come before each node, and after it.
struct BoundSearch::KernelOrder {
  using KernelId = ir::Id<struct KernelTag>;
  using Bits = std::vector<std::uint64_t>;

  IdVector<KernelId, VariableId> kernels;
  IdVector<VariableId, KernelId> number;  // invalid: no kernel
  Bits products;
  IdVector<VariableId, Bits> before, after;

  static bool has(const Bits& bits, KernelId k) {
    return (bits[ir::offset_of(k) / 64] >> (ir::offset_of(k) % 64) & 1) != 0;
  }
  static void add(Bits& bits, KernelId k) {
    bits[ir::offset_of(k) / 64] |= std::uint64_t{1} << (ir::offset_of(k) % 64);
  }
  int products_in(const Bits& bits) const {
    int count = 0;
    for (std::size_t w = 0; w < bits.size(); ++w) count += std::popcount(bits[w] & products[w]);
    return count;
  }
};

BoundSearch::KernelOrder BoundSearch::order_of_kernels() const {
  KernelOrder order;
  for (const VariableId v : nodes_) {
    const bool is_kernel = product_[v] != 0 || copy_[v] != 0;
    order.number.push_back(is_kernel ? order.kernels.end_id() : KernelOrder::KernelId{});
    if (is_kernel) order.kernels.push_back(v);
  }
  const KernelOrder::Bits none(order.kernels.size() / 64 + 1, 0);
  order.products = none;
  for (const KernelOrder::KernelId k : order.kernels.ids())
    if (product_[order.kernels[k]] != 0) KernelOrder::add(order.products, k);
  order.before.assign(nodes_, none);
  order.after.assign(nodes_, none);
  const auto take = [&](KernelOrder::Bits& own, const IdVector<VariableId, KernelOrder::Bits>& all,
                        VariableId from) {
    if (!from.valid()) return;
    for (std::size_t w = 0; w < own.size(); ++w) own[w] |= all[from][w];
    if (order.number[from].valid()) KernelOrder::add(own, order.number[from]);
  };
  for (const VariableId v : nodes_) {
    for (const PassageId p : into_[v]) take(order.before[v], order.before, passages_[p].producer);
  }
  for (const VariableId v : std::views::reverse(nodes_)) {
    for (const PassageId p : out_of_[v]) take(order.after[v], order.after, passages_[p].reader);
  }
  return order;
}

void BoundSearch::find_chain() {
  const KernelOrder order = order_of_kernels();
  find_chain(order);
  find_joins_between(order);
}

void BoundSearch::find_chain(const KernelOrder& order) {
  using KernelId = KernelOrder::KernelId;
  const int products = order.products_in(order.products);
  IdVector<VariableId, char> behind(nodes_, 0);  // whether it comes after the last node of the chain
  IdVector<KernelId, char> counted(order.kernels.ids(), 0);
  VariableId last;
  for (const VariableId v : nodes_) {
    for (const PassageId p : into_[v]) {
      const VariableId u = passages_[p].producer;
      if (u.valid() && u >= last && (u == last || behind[u] != 0)) behind[v] = 1;
    }
    if (last.valid() && behind[v] == 0) continue;
    if (product_[v] + order.products_in(order.before[v]) + order.products_in(order.after[v]) < products)
      continue;
    chain_.push_back(last = v);
    between_.emplace_back();
    copies_before_.emplace_back();
    for (const KernelId k : order.kernels.ids()) {
      const VariableId kernel = order.kernels[k];
      const bool earlier = KernelOrder::has(order.before[v], k);
      if (earlier && copy_[kernel] != 0) copies_before_.back().push_back(kernel);
      if (counted[k] != 0 || product_[kernel] == 0 || (!earlier && kernel != v)) continue;
      counted[k] = 1;
      if (earlier) between_.back().push_back(kernel);
    }
  }
  between_.emplace_back();
  for (const KernelId k : order.kernels.ids()) {
    if (counted[k] == 0 && product_[order.kernels[k]] != 0) between_.back().push_back(order.kernels[k]);
  }
}

// A join counts where its product is, if one of the products there must wait for it.
void BoundSearch::find_joins_between(const KernelOrder& order) {
  joins_between_.assign(between_.size(), 0);
  for (const VariableId v : nodes_) {
    if (!joined_[v].valid() || std::ranges::find(chain_, v) != chain_.end()) continue;
    const auto waits = [&](VariableId u) {
      return product_[u] != 0 && KernelOrder::has(order.after[v], order.number[u]);
    };
    for (std::size_t i = 0; i < between_.size(); ++i) {
      const std::vector<VariableId>& inside = between_[i];
      const bool here =
          (i > 0 && chain_[i - 1] == joined_[v]) || std::ranges::find(inside, joined_[v]) != inside.end();
      if (!here) continue;
      if (i == chain_.size() || waits(chain_[i]) || std::ranges::any_of(inside, waits)) joins_between_[i] = 1;
    }
  }
}

// The chain with the work between its nodes: all products there, or the longest path, whichever is more in
// this plan. Up to a node of the chain, all kernels that come before it, if these are more.
class BoundSearch::LongestChain {
 public:
  LongestChain(const BoundSearch& search, const Plan& plan)
      : s_(search), plan_(plan), start_(s_.nodes_, 0), through_(s_.nodes_), reached_(s_.nodes_, 0) {}

  Row run() {
    for (std::size_t i = 0; i <= s_.chain_.size(); ++i) {
      last_ = i == 0 ? VariableId{} : s_.chain_[i - 1];
      next_ = i < s_.chain_.size() ? s_.chain_[i] : VariableId{};
      find_paths();
      add_work_between(i);
      if (next_.valid()) add_next(s_.copies_before_[i]);
    }
    std::ranges::sort(row_.nodes);
    std::ranges::sort(row_.passages);
    return std::move(row_);
  }

 private:
  Cost product(VariableId v) const { return s_.product_[v] != 0 ? plan_.kernels[v] : 0; }
  Cost leave(VariableId v) const { return start_[v] + (v == last_ ? 0 : product(v)); }
  void add(VariableId v) {
    if (s_.product_[v] != 0) row_.nodes.push_back(v);
  }

  // The longest paths from the last node of the chain up to the next one, or to the end.
  void find_paths() {
    for (const VariableId v : IdRange(first_, next_.valid() ? next_ + 1 : start_.end_id())) {
      if (v == last_) continue;
      start_[v] = 0;
      through_[v] = {};
      reached_[v] = last_.valid() ? 0 : 1;
      for (const PassageId p : s_.into_[v]) {
        const VariableId u = s_.passages_[p].producer;
        // Before the chain begins, paths begin anywhere.
        if (u.valid() ? u < first_ || reached_[u] == 0 : last_.valid()) continue;
        const Cost arrives = (u.valid() ? leave(u) : 0) + plan_.passages[p];
        if (reached_[v] != 0 && arrives <= start_[v]) continue;
        start_[v] = arrives;
        through_[v] = p;
        reached_[v] = 1;
      }
    }
  }

  struct Path {
    Cost length = 0;
    VariableId end;
    PassageId out;  // by which the program returns the result; invalid: it does not
  };
  Path longest_path() const {
    if (next_.valid()) return {start_[next_], next_, {}};
    Path path;
    for (const VariableId v : IdRange(last_.valid() ? last_ : VariableId{0}, start_.end_id())) {
      if (v != last_ && reached_[v] == 0) continue;
      const Cost done = v == last_ ? 0 : leave(v);
      if (!path.end.valid() || done > path.length) path = {done, v, {}};
      for (const PassageId p : s_.out_of_[v]) {
        if (s_.passages_[p].reader.valid()) continue;
        const Cost returned = done + plan_.passages[p];
        if (returned > path.length) path = {returned, v, p};
      }
    }
    return path;
  }

  void add_path(const Path& path) {
    total_ += path.length;
    if (path.out.valid()) row_.passages.push_back(path.out);
    VariableId v = path.end;
    if (!next_.valid() && v.valid() && v != last_) add(v);
    while (v.valid() && v != last_ && through_[v].valid()) {
      row_.passages.push_back(through_[v]);
      v = s_.passages_[through_[v]].producer;
      if (v.valid() && v != last_) add(v);
    }
  }

  void add_work_between(std::size_t i) {
    const Path path = longest_path();
    const std::vector<VariableId>& inside = s_.between_[i];
    Cost kernels = 0;
    for (const VariableId v : inside) kernels += plan_.kernels[v];
    // A loop between two of these products, or between one of them and a product that is next.
    const Cost joins = s_.joins_between_[i] != 0 ? s_.launch_ : 0;
    if (kernels + joins > path.length) {
      row_.nodes.insert(row_.nodes.end(), inside.begin(), inside.end());
      row_.constant += joins;
      total_ += kernels + joins;
    } else {
      add_path(path);
    }
    all_.insert(all_.end(), inside.begin(), inside.end());
    // A reduction is in a kernel of its own, in addition to those of products before and after it.
    const bool ends = !next_.valid() || s_.product_[next_] != 0 || !inside.empty();
    if (ends && open_) {
      row_.constant += s_.launch_;
      total_ += s_.launch_;
    }
    if (ends) open_ = false;
  }

  void add_next(const std::vector<VariableId>& copies) {
    add(next_);
    total_ += product(next_);
    if (s_.product_[next_] != 0) all_.push_back(next_);
    open_ = open_ || s_.reduction_[next_] != 0 || s_.joined_[next_].valid();
    const bool opens = s_.loops_open_[next_] >= s_.loops_[next_];
    const Cost loops = s_.launch_ * (opens ? s_.loops_open_[next_] : s_.loops_[next_]);
    Cost before = loops;
    for (const VariableId v : all_) before += plan_.kernels[v];
    for (const VariableId v : copies) before += plan_.kernels[v];
    if (before > total_) {
      row_ = {};
      row_.nodes = all_;
      row_.nodes.insert(row_.nodes.end(), copies.begin(), copies.end());
      row_.constant = loops;
      total_ = before;
      open_ = opens;
    }
    first_ = next_;
    start_[next_] = 0;
    reached_[next_] = 1;
  }

  const BoundSearch& s_;
  const Plan& plan_;
  Row row_;
  Cost total_ = 0;
  VariableId first_{0}, last_, next_;        // of the nodes between two of the chain
  IdVector<VariableId, Cost> start_;         // of the longest path from the last node of the chain
  IdVector<VariableId, PassageId> through_;  // by which it arrives
  IdVector<VariableId, char> reached_;
  std::vector<VariableId> all_;  // products so far
  bool open_ = false;            // a reduction since the last product
};

BoundSearch::Row BoundSearch::longest(const Plan& plan) const { return LongestChain(*this, plan).run(); }

}  // namespace braid::split
