#include "codegen/cpp/loop_nest.h"

#include <algorithm>

#include "codegen/cpp/wrapped_index.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

constexpr std::int64_t kColumnTile = 64;

// A member before loops are shared: over i0.. of its own `sizes`, without dimensions of extent 1.
struct Source {
  OpId op;
  BufferId out;
  std::vector<Expr> sizes;
  std::size_t kept = 0;
  const Loops* loops = nullptr;
  LoopBody body;
  Expr store = 0;
  bool is_reduction() const { return sizes.size() > kept; }  // a reduction over extents of 1 is a copy
  std::vector<Expr> inner(std::size_t outer) const {
    return {sizes.begin() + static_cast<std::ptrdiff_t>(outer), sizes.end()};
  }
};

void map_indices(LoopBody& body, Expr& store, const std::function<Expr(Expr)>& f) {
  for (Instr& instr : body.instrs) instr.index = f(instr.index);
  store = f(store);
}

Source make_source(const Graph& graph, OpId id) {
  const Operation& op = graph[id];
  Source s;
  s.op = id;
  s.loops = op.as<Loops>();
  internal_check(s.loops != nullptr && op.outputs.size() == 1, "codegen: '{}' is not a loop", op.name);
  s.out = op.outputs[0];
  s.body = s.loops->body;
  s.store = s.loops->store_index;
  map_indices(s.body, s.store, [&](Expr e) { return simplify(e, s.loops->sizes); });
  std::vector<Expr> by;
  for (std::size_t k = 0; k < s.loops->sizes.size(); ++k) {
    const Expr size = s.loops->sizes[k];
    if (size.is_constant(1)) {
      by.push_back(0);
      continue;
    }
    by.push_back(graph.pool->index(s.sizes.size()));
    s.sizes.push_back(size);
    if (k < s.loops->kept()) s.kept = s.sizes.size();
  }
  map_indices(s.body, s.store, [&](Expr e) { return substitute_indices(e, by); });
  return s;
}

bool same_memory(const Graph& graph, BufferId a, BufferId b) {
  return unmutated(graph, a) == unmutated(graph, b);
}

// e with the indices in [from, to) replaced by 0.
Expr without(Expr e, int from, int to) {
  return ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
    if (s.is_symbol(SymbolKind::index) && s.symbol_number() >= from && s.symbol_number() < to) return Expr(0);
    return std::nullopt;
  });
}

// Whether every iteration of the first `outer` loops touches, of the producer's buffer, only what the same
// iteration wrote.
bool separable(const Graph& graph, const Source& producer, const Source& consumer, Expr load, int outer) {
  ExprPool& pool = *graph.pool;
  for (int k = 0; k < outer; ++k) {
    const auto a = stride_of(producer.store, pool.index(k));
    const auto b = stride_of(load, pool.index(k));
    if (!a || !b || !(*a == *b)) return false;
  }
  const Bounds made = bounds(without(producer.store, 0, outer), producer.sizes);
  const Bounds read = bounds(without(load, 0, outer), consumer.sizes);
  return read.min >= made.min && read.max <= made.max;
}

int common_outer(const Graph& graph, const std::vector<Source>& sources) {
  std::size_t outer = sources[0].kept;
  for (const Source& s : sources) {
    std::size_t k = 0;
    while (k < outer && k < s.kept && s.sizes[k] == sources[0].sizes[k]) ++k;
    outer = k;
  }
  for (; outer > 0; --outer) {
    bool good = true;
    for (std::size_t p = 0; p < sources.size() && good; ++p) {
      for (std::size_t c = p + 1; c < sources.size() && good; ++c) {
        for (const Instr& instr : sources[c].body.instrs) {
          if (instr.code != OpCode::load) continue;
          if (same_memory(graph, instr.buffer, sources[p].out)) {
            good = good && separable(graph, sources[p], sources[c], instr.index, static_cast<int>(outer));
          } else if (may_overlap(region(graph, instr.buffer), region(graph, sources[p].out))) {
            good = false;  // reads it through another view: the producer must finish first
          }
        }
      }
    }
    if (good) break;
  }
  return static_cast<int>(outer);
}

class Builder {
 public:
  Builder(const Graph& graph, const std::vector<OpId>& ops, const std::vector<bool>& local,
          const Overlap& overlap)
      : graph_(graph), pool_(*graph.pool), local_(local), overlap_(overlap) {
    for (OpId op : ops) {
      sources_.push_back(make_source(graph, op));
      see_through_views(sources_.back());
    }
    if (sources_.size() == 1) unwrap(sources_[0]);
  }

  LoopNest build() {
    nest_.outer = common_outer(graph_, sources_);
    for (int k = 0; k < nest_.outer; ++k)
      nest_.extents.push_back(sources_[0].sizes[static_cast<std::size_t>(k)]);
    for (std::size_t k = 0; k < sources_.size(); ++k) place(sources_[k], local_[k]);
    for (NestGroup& group : nest_.groups) {
      merge(group.kept, {&group});
      merge(group.reduced, {&group});
    }
    outer_vars_.clear();
    for (int k = 0; k < nest_.outer; ++k) outer_vars_.push_back(k);
    std::vector<NestGroup*> all;
    for (NestGroup& group : nest_.groups) all.push_back(&group);
    merge(outer_vars_, all);
    peel();
    columns();
    blocks();
    renumber();
    find_locals();
    const NestGroup& first = nest_.groups[0];
    nest_.flat =
        nest_.outer == 0 && nest_.groups.size() == 1 && first.kept.size() == 1 && first.reduced.empty();
    return std::move(nest_);
  }

 private:
  // If a member reads an earlier member's output through a view, makes it read that output itself, which may
  // have no memory.
  void see_through_views(Source& s) {
    for (Instr& instr : s.body.instrs) {
      if (instr.code != OpCode::load) continue;
      for (const Source& producer : sources_) {
        if (&producer == &s || same_memory(graph_, instr.buffer, producer.out)) continue;
        const MemoryRegion read = region(graph_, instr.buffer), made = region(graph_, producer.out);
        if (!(read.storage == made.storage) || graph_[instr.buffer].dtype != graph_[producer.out].dtype)
          continue;
        const auto elements = divide_exactly(read.offset - made.offset, size_of(graph_[producer.out].dtype));
        if (!elements) continue;
        instr.buffer = producer.out;
        instr.index = instr.index + *elements;
        break;
      }
    }
  }

  // Splits the innermost loop of a member that stands alone if its indices wrap (wrapped_index.h).
  void unwrap(Source& s) const {
    if (s.is_reduction() || s.sizes.empty()) return;
    const std::size_t last = s.sizes.size() - 1;
    const std::optional<Expr> divisor = wrapped_by(s.body, s.store, last, s.sizes[last]);
    if (!divisor) return;
    const Expr split = pool_.index(last) * *divisor + pool_.index(last + 1);
    s.sizes.back() = *divide_exactly(s.sizes[last], *divisor);
    s.sizes.push_back(*divisor);
    s.kept = s.sizes.size();
    map_indices(s.body, s.store, [&](Expr e) {
      const auto replaced = ir::substitute(e, [&](Expr symbol) -> std::optional<Expr> {
        if (symbol == pool_.index(last)) return split;
        return std::nullopt;
      });
      return simplify(replaced, s.sizes);
    });
  }

  // Adds the member to a group with the same loops, or opens a new one.
  void place(const Source& s, bool local) {
    const std::vector<Expr> inner = s.inner(static_cast<std::size_t>(nest_.outer));
    const std::size_t inner_kept = s.kept - static_cast<std::size_t>(nest_.outer);
    const bool mixed = s.is_reduction() && inner_kept > 0 && inner_kept < inner.size();
    const bool all_reduced = s.is_reduction() && inner_kept == 0;
    std::size_t first = 0;  // the earliest group in which it may be
    for (std::size_t g = 0; g < nest_.groups.size(); ++g) {
      for (const NestMember& producer : nest_.groups[g].members) {
        for (const Instr& instr : s.body.instrs) {
          if (instr.code != OpCode::load) continue;
          if (same_memory(graph_, instr.buffer, producer.out)) {
            const bool pointwise = !producer.reduction || group_inner_[g].empty();
            const Expr as_there = rename(instr.index, g, s);
            const bool joinable = pointwise && inner == group_inner_[g] && as_there == producer.store;
            first = std::max(first, joinable ? g : g + 1);
          } else if (may_overlap(region(graph_, instr.buffer), region(graph_, producer.out))) {
            first = std::max(first, g + 1);
          }
        }
      }
    }
    // Elements that the member overwrites in place must have been read before: at the same element, or in an
    // earlier group.
    for (std::size_t g = first; g < nest_.groups.size() && !local; ++g) {
      for (const NestMember& reader : nest_.groups[g].members) {
        for (const Instr& instr : reader.body.instrs) {
          if (instr.code != OpCode::load || same_memory(graph_, instr.buffer, s.out) ||
              !overlap_(instr.buffer, s.out))
            continue;
          const bool same_element = inner == group_inner_[g] && instr.index == rename(s.store, g, s);
          first = std::max(first, same_element ? g : g + 1);
        }
      }
    }
    // Local members may be moved forward, since no other member could notice it.
    if (!local && !nest_.groups.empty()) first = std::max(first, nest_.groups.size() - 1);
    for (std::size_t g = first; g < nest_.groups.size(); ++g) {
      if (mixed || group_mixed_[g] || inner != group_inner_[g]) continue;
      add(s, g);
      return;
    }
    nest_.groups.emplace_back();
    group_inner_.push_back(inner);
    group_mixed_.push_back(mixed);
    group_base_.push_back(static_cast<int>(nest_.extents.size()));
    NestGroup& group = nest_.groups.back();
    for (std::size_t k = 0; k < inner.size(); ++k) {
      const bool is_kept = mixed ? k < inner_kept : !all_reduced;
      (is_kept ? group.kept : group.reduced).push_back(static_cast<int>(nest_.extents.size()));
      nest_.extents.push_back(inner[k]);
    }
    add(s, nest_.groups.size() - 1);
  }

  // An expression of `s` in the indices of group g.
  Expr rename(Expr e, std::size_t g, const Source& s) const {
    std::vector<Expr> by;
    for (std::size_t k = 0; k < s.sizes.size(); ++k) {
      const int number = static_cast<int>(k) < nest_.outer
                             ? static_cast<int>(k)
                             : group_base_[g] + static_cast<int>(k) - nest_.outer;
      by.push_back(pool_.index(number));
    }
    return substitute_indices(e, by);
  }

  void add(const Source& s, std::size_t g) {
    NestMember member;
    member.op = s.op;
    member.out = s.out;
    member.reduction = s.is_reduction();
    member.reduce = s.loops->reduce;
    member.body = s.body;
    member.store = s.store;
    map_indices(member.body, member.store, [&](Expr e) { return rename(e, g, s); });
    // The loops of a group are "kept" as soon as one member keeps them; each member knows whether it reduces.
    NestGroup& group = nest_.groups[g];
    if (!member.reduction && !group.reduced.empty() && !group_mixed_[g]) std::swap(group.kept, group.reduced);
    group.members.push_back(std::move(member));
  }

  // Merges adjacent loops that all expressions walk through as one.
  void merge(std::vector<int>& vars, const std::vector<NestGroup*>& groups) {
    for (std::size_t k = 0; k + 1 < vars.size();) {
      const Expr a = pool_.index(vars[k]), b = pool_.index(vars[k + 1]);
      const Expr size_b = nest_.extents[static_cast<std::size_t>(vars[k + 1])];
      const auto fits = [&](Expr e) {
        const auto sa = stride_of(e, a), sb = stride_of(e, b);
        return sa && sb && *sa == *sb * size_b;
      };
      bool good = true;
      for (const NestGroup* group : groups) {
        for (const NestMember& m : group->members) {
          for (const Instr& instr : m.body.instrs) good = good && fits(instr.index);
          good = good && fits(m.store);
        }
      }
      if (!good) {
        ++k;
        continue;
      }
      for (NestGroup* group : groups) {
        for (NestMember& m : group->members) {
          map_indices(m.body, m.store, [&](Expr e) { return without(e, vars[k], vars[k] + 1); });
        }
      }
      auto& extents = nest_.extents;
      extents[static_cast<std::size_t>(vars[k + 1])] = extents[static_cast<std::size_t>(vars[k])] * size_b;
      extents[static_cast<std::size_t>(vars[k])] = 1;
      vars.erase(vars.begin() + static_cast<std::ptrdiff_t>(k));
      if (k > 0) --k;
    }
  }

  // Without inner loops the last outer one becomes an inner loop, so that there is one to vectorise; if it is
  // so short that it is unrolled, also the one before.
  void peel() {
    for (const NestGroup& group : nest_.groups) {
      if (!group.kept.empty() || !group.reduced.empty()) return;
    }
    bool unrolled = true;
    while (unrolled && !outer_vars_.empty() && (nest_.groups[0].kept.empty() || outer_vars_.size() > 1)) {
      const int var = outer_vars_.back();
      const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
      for (NestGroup& group : nest_.groups) group.kept.insert(group.kept.begin(), var);
      outer_vars_.pop_back();
      unrolled = extent.is_constant() && extent.constant() <= kUnrolled;
    }
  }

  // Tiles reductions whose adjacent elements belong to different results: the results of a tile are
  // accumulated side by side. If the results are those of the outer loop, groups without loops of their own
  // go through the tile as well.
  void columns() {
    for (std::size_t g = 0; g < nest_.groups.size(); ++g) {
      NestGroup& group = nest_.groups[g];
      if (group.members.size() != 1 || !group.members[0].reduction || group.reduced.empty()) continue;
      const bool from_outer = group.kept.empty();
      if (from_outer && (outer_vars_.empty() || !others_have_no_loops(g))) continue;
      const int column = from_outer ? outer_vars_.back() : group.kept.back();
      const int row = group.reduced.back();
      NestMember& m = group.members[0];
      int by_column = 0, by_row = 0;
      for (const Instr& instr : m.body.instrs) {
        if (instr.code != OpCode::load) continue;
        const auto c = stride_of(instr.index, pool_.index(column)),
                   r = stride_of(instr.index, pool_.index(row));
        by_column += c && c->is_constant(1);
        by_row += r && r->is_constant(1);
      }
      if (by_column <= by_row) continue;
      const Expr size = nest_.extents[static_cast<std::size_t>(column)];
      const std::int64_t width = tile_width(size, from_outer);
      const Tile made = tile(size, width);
      const auto tiled = [&](NestMember& member) {
        map_indices(member.body, member.store, [&](Expr e) {
          return ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
            if (s == pool_.index(column)) return made.index;
            return std::nullopt;
          });
        });
      };
      if (from_outer) {
        outer_vars_.back() = made.number;
        for (NestGroup& all : nest_.groups) {
          all.kept = {made.number + 1};
          for (NestMember& member : all.members) tiled(member);
        }
      } else {
        tiled(m);
        group.kept.back() = made.number;
        group.kept.push_back(made.number + 1);
      }
      group.columns = true;
    }
  }

  // Whether a load goes through memory along `row`, while the innermost loop goes through that of the stores.
  bool reads_across(const NestGroup& group, int row, int column) const {
    const auto stride = [&](Expr e, int var) {
      return stride_of(e, pool_.index(static_cast<std::size_t>(var)));
    };
    bool across = false;
    for (const NestMember& m : group.members) {
      const auto along = stride(m.store, column);
      if (!along || !along->is_constant(1) || !stride(m.store, row)) return false;
      for (const Instr& instr : m.body.instrs) {
        if (instr.code != OpCode::load) continue;
        const auto by_row = stride(instr.index, row), by_column = stride(instr.index, column);
        if (!by_row || !by_column) return false;
        across =
            across || (by_row->is_constant(1) && !by_column->is_constant(0) && !by_column->is_constant(1));
      }
    }
    return across;
  }

  // Tiles loops that read along an outer loop, so that lines of memory are used while they are in the cache.
  void blocks() {
    constexpr std::int64_t kLine = 64, kColumns = 64, kLeast = 8;
    if (nest_.groups.size() != 1 || outer_vars_.empty()) return;
    NestGroup& group = nest_.groups[0];
    if (group.columns || !group.reduced.empty() || group.kept.size() != 1) return;
    const int column = group.kept[0];
    const auto extent = [&](int var) { return nest_.extents[static_cast<std::size_t>(var)]; };
    for (int& outer : outer_vars_) {
      const int row = outer;
      if (!reads_across(group, row, column) || bounds(extent(row)).max < kLeast ||
          bounds(extent(column)).max < kLeast)
        continue;
      const Tile rows = tile(extent(row), kLine / size_of(graph_[group.members[0].out].dtype)),
                 columns = tile(extent(column), kColumns);
      for (NestMember& m : group.members) {
        map_indices(m.body, m.store, [&](Expr e) {
          return ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
            if (s == pool_.index(static_cast<std::size_t>(row))) return rows.index;
            if (s == pool_.index(static_cast<std::size_t>(column))) return columns.index;
            return std::nullopt;
          });
        });
      }
      outer = rows.number;
      group.kept = {columns.number, rows.number + 1, columns.number + 1};
      group.transposed = true;
      return;
    }
  }

  // Two new loops, of tiles and within a tile, for one of this extent.
  struct Tile {
    int number = 0;  // of the loop over tiles; the other one is the next
    Expr index = 0;  // that of the old loop
  };
  Tile tile(Expr size, std::int64_t width) {
    Tile made;
    made.number = static_cast<int>(nest_.extents.size());
    const Expr t = pool_.index(static_cast<std::size_t>(made.number));
    nest_.extents.push_back(ceil_div(size, width));
    const bool divides = size.is_constant() && size.constant() % width == 0;
    nest_.extents.push_back(divides ? Expr(width) : ir::min(Expr(width), size - t * width));
    made.index = t * width + pool_.index(static_cast<std::size_t>(made.number + 1));
    return made;
  }

  bool others_have_no_loops(std::size_t g) const {
    for (std::size_t k = 0; k < nest_.groups.size(); ++k) {
      if (k != g && !(nest_.groups[k].kept.empty() && nest_.groups[k].reduced.empty())) return false;
    }
    return true;
  }

  // Returns the width of the tiles of `results`. It divides them, so that accumulators stay in registers. If
  // tiles are the iterations of the outer loop, prefers widths with at least kTiles tiles, to occupy as many
  // threads.
  static std::int64_t tile_width(Expr results, bool from_outer) {
    constexpr std::int64_t kHalfVector = 8, kLeast = 16, kTiles = 4;
    if (!results.is_constant()) return kColumnTile;
    std::int64_t best = 0;
    for (std::int64_t width = kLeast; width <= kColumnTile; width += kHalfVector) {
      if (results.constant() % width != 0) continue;
      if (best == 0 || !from_outer || results.constant() / width >= kTiles) best = width;
    }
    return best > 0 ? best : kColumnTile;
  }

  // Renumbers the loops without gaps, outer loops first.
  void renumber() {
    std::vector<Expr> by(nest_.extents.size(), Expr(0));
    std::vector<int> number(nest_.extents.size(), -1);
    std::vector<int> order;
    const auto take = [&](int& var) {
      int& n = number[static_cast<std::size_t>(var)];
      if (n < 0) {
        n = static_cast<int>(order.size());
        order.push_back(var);
      }
      var = n;
    };
    for (int& var : outer_vars_) take(var);
    nest_.outer = static_cast<int>(outer_vars_.size());
    for (NestGroup& group : nest_.groups) {
      for (int& var : group.kept) take(var);
      for (int& var : group.reduced) take(var);
    }
    for (std::size_t k = 0; k < number.size(); ++k) {
      if (number[k] >= 0) by[k] = pool_.index(number[k]);
    }
    std::vector<Expr> extents;
    for (int var : order)
      extents.push_back(substitute_indices(nest_.extents[static_cast<std::size_t>(var)], by));
    nest_.extents = std::move(extents);
    for (NestGroup& group : nest_.groups) {
      for (NestMember& m : group.members)
        map_indices(m.body, m.store, [&](Expr e) { return substitute_indices(e, by); });
    }
  }

  void find_locals() {
    for (std::size_t g = 0; g < nest_.groups.size(); ++g) {
      for (const NestMember& producer : nest_.groups[g].members) {
        const auto source = std::find_if(sources_.begin(), sources_.end(),
                                         [&](const Source& s) { return s.op == producer.op; });
        if (!local_[static_cast<std::size_t>(source - sources_.begin())]) continue;
        LocalBuffer local;
        local.buffer = producer.out;
        const int last = static_cast<int>(nest_.extents.size());
        local.origin = without(producer.store, nest_.outer, last);
        const bool scalar =
            nest_.groups[g].kept.empty() || (producer.reduction && !is_mixed(nest_.groups[g]));
        bool in_register = true;
        for (std::size_t c = 0; c < nest_.groups.size(); ++c) {
          for (const NestMember& consumer : nest_.groups[c].members) {
            for (const Instr& instr : consumer.body.instrs) {
              if (instr.code != OpCode::load || !same_memory(graph_, instr.buffer, producer.out)) continue;
              in_register = in_register && instr.index == producer.store && (scalar || c == g);
            }
          }
        }
        local.elements = in_register ? 1
                                     : std::max<std::int64_t>(
                                           2, bounds(producer.store - local.origin, nest_.extents).max + 1);
        nest_.locals.push_back(local);
      }
    }
  }

  static bool is_mixed(const NestGroup& group) { return !group.kept.empty() && !group.reduced.empty(); }

  const Graph& graph_;
  ExprPool& pool_;
  const std::vector<bool>& local_;
  const Overlap& overlap_;
  std::vector<Source> sources_;
  std::vector<std::vector<Expr>> group_inner_;
  std::vector<bool> group_mixed_;
  std::vector<int> group_base_;
  std::vector<int> outer_vars_;
  LoopNest nest_;
};

}  // namespace

LoopNest make_loop_nest(const Graph& graph, const std::vector<OpId>& ops,
                        const std::vector<bool>& is_local_output, const Overlap& overlap) {
  return Builder(graph, ops, is_local_output, overlap).build();
}

}  // namespace braid::codegen::cpp
