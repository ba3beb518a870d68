#include "passes/split_reductions.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "ir/scalar.h"
#include "passes/compact.h"
#include "passes/replace_operations.h"

namespace braid::passes {
namespace {

using namespace ir;

constexpr std::int64_t kPackBytes = 16, kRowThreads = 512, kColumnWarps = 8;
constexpr std::int64_t kMultiprocessors = 128;  // where the machine does not say

std::int64_t most(Expr e) { return std::max<std::int64_t>(bounds(e).max, 1); }

bool is_narrow(DType type) { return type == DType::f16 || type == DType::bf16; }

// The folded dimensions of which each index is a part, and the next one, which is cut into `pieces`.
struct Cut {
  std::size_t whole = 0;
  std::int64_t pieces = 1;
  Expr piece = 0;        // elements
  Expr rest = 0;         // after the pieces
  bool guarded = false;  // the last piece goes beyond the end
};

class ReductionSplitter {
 public:
  ReductionSplitter(Graph& graph, OpId id, const SplitReductions& options, const analysis::Machine& machine)
      : graph_(graph),
        pool_(*graph.pool),
        id_(id),
        options_(options),
        machine_(machine),
        loops_(*graph[id].as<Loops>()) {}

  std::optional<std::vector<OpId>> run() {
    const std::int64_t parts = count_of_parts();
    if (parts < 2) return std::nullopt;
    const Cut cut = cut_into(parts);
    if (cut.whole == 0 && cut.pieces < 2) return std::nullopt;
    store_parts(cut);
    combine(cut);
    return std::move(ops_);
  }

 private:
  std::size_t kept() const { return loops_.kept(); }
  Expr folded(std::size_t k) const { return loops_.sizes[kept() + k]; }
  std::span<const Expr> kept_sizes() const { return std::span(loops_.sizes).first(kept()); }

  // ------------------------------------------------------------------------------------- how many parts

  // Loaded by each element of the fold, and of those what is contiguous along an index.
  std::int64_t loaded_bytes(std::optional<std::size_t> contiguous_along = {}) const {
    std::int64_t bytes = 0;
    for (const Instr& instr : loops_.body.instrs) {
      if (instr.code != OpCode::load || !has_index(instr.index, kept(), loops_.sizes.size())) continue;
      if (contiguous_along) {
        const std::optional<Expr> step = stride_of(instr.index, pool_.index(*contiguous_along));
        if (!step || !step->is_constant(1)) continue;
      }
      bytes += size_of(graph_[instr.buffer].dtype);
    }
    return bytes;
  }

  // The last dimension in [begin, end) that has more than one element.
  std::optional<std::size_t> last_dimension(std::size_t begin, std::size_t end) const {
    while (end > begin && loops_.sizes[end - 1].is_constant(1)) --end;
    return end > begin ? std::optional(end - 1) : std::nullopt;
  }

  std::int64_t pack() const {
    std::int64_t widest = 1;
    for (const Instr& instr : loops_.body.instrs) {
      if (instr.code == OpCode::load) widest = std::max(widest, size_of(graph_[instr.buffer].dtype));
    }
    return kPackBytes / std::min(widest, kPackBytes);
  }

  bool by_columns() const {
    const auto along = last_dimension(0, kept()), beside = last_dimension(kept(), loops_.sizes.size());
    return along && beside && loaded_bytes(*along) > loaded_bytes(*beside);
  }

  std::int64_t count_of_parts() const {
    const std::int64_t results = most(numel(kept_sizes())),
                       elements = most(numel(std::span(loops_.sizes).subspan(kept())));
    const bool columns = by_columns();
    const std::int64_t in_parallel = columns ? std::min(kColumnWarps, elements)
                                             : std::clamp<std::int64_t>(elements / pack(), 1, kRowThreads);
    const std::int64_t threads =
        std::max<std::int64_t>(columns ? results / pack() : results, 1) * in_parallel;
    const auto multiprocessors =
        machine_.gpu ? static_cast<std::int64_t>(machine_.gpu->multiprocessors.value) : kMultiprocessors;
    const std::int64_t wanted = options_.threads * multiprocessors;
    if (threads >= wanted || loaded_bytes() == 0) return 1;
    const std::int64_t of_a_part = in_parallel * options_.least;
    const auto parts =
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * wanted / (3 * threads)) + 1));
    const std::int64_t possible = std::min(parts, elements / of_a_part);
    const double bytes =
        static_cast<double>(results) * static_cast<double>(elements) * static_cast<double>(loaded_bytes());
    const double us_per_byte = 1 / (machine_.memory_gb_s * 1e3);
    const double saved =
        bytes * us_per_byte * (static_cast<double>(wanted) / static_cast<double>(threads) - 1);
    const double stored = static_cast<double>(results * size_of(part_type())) * static_cast<double>(possible);
    return saved > 5 * machine_.launch_us + 2 * stored * us_per_byte ? possible : 1;
  }

  Cut cut_into(std::int64_t parts) const {
    Cut cut;
    const std::size_t count = loops_.sizes.size() - kept();
    for (; cut.whole + 1 < count && most(folded(cut.whole)) <= parts; ++cut.whole)
      parts = (parts + most(folded(cut.whole)) - 1) / most(folded(cut.whole));
    const Expr size = folded(cut.whole);
    const bool last = cut.whole + 1 == count;
    const std::int64_t unit = last ? pack() : 1;  // so that pieces begin at multiples of a pack
    cut.pieces = std::min(parts, most(size));
    if (cut.pieces < 2) {
      cut.pieces = 1, cut.piece = size;
      return cut;
    }
    if (size.is_constant()) {  // a little more or less, if there is no rest then
      for (std::int64_t n = cut.pieces / 2 + 1; n < 2 * cut.pieces; ++n) {
        if (size.constant() % (n * unit) != 0) continue;
        cut.pieces = n;
        if (n >= parts) break;
      }
    }
    cut.guarded = size.is_constant() ? size.constant() % (cut.pieces * unit) != 0 : true;
    cut.guarded = cut.guarded && by_columns() && !may_fail();
    cut.piece = cut.guarded ? ceil_div(size, cut.pieces) : floor_div(size, cut.pieces * unit) * unit;
    if (!cut.guarded) cut.rest = size - cut.piece * cut.pieces;
    return cut;
  }

  // Whether the body may fail on a value of 0 in the place of one that is not loaded.
  bool may_fail() const {
    return std::any_of(loops_.body.instrs.begin(), loops_.body.instrs.end(), [](const Instr& i) {
      const bool divides = i.code == OpCode::div || i.code == OpCode::mod || i.code == OpCode::fmod;
      return i.code == OpCode::check_index || (divides && !is_float(i.dtype));
    });
  }

  // ------------------------------------------------------------------------------------------ operations

  DType part_type() const {
    const bool sums = loops_.reduce == ReduceKind::sum || loops_.reduce == ReduceKind::prod;
    const DType type = graph_[graph_[id_].outputs[0]].dtype;
    return sums && is_narrow(type) ? DType::f32 : type;
  }
  bool has_rest(const Cut& cut) const { return !cut.rest.is_constant(0); }

  void add(const char* suffix, Loops loops, BufferId output) {
    ops_.push_back(graph_.add_op(
        {graph_[id_].name + suffix, std::move(loops), {output}, graph_[id_].origins, std::nullopt}));
  }

  // t: [whole dimensions..., pieces (and the rest), kept...]
  void store_parts(const Cut& cut) {
    const std::string name = graph_[graph_[id_].outputs[0]].name;
    const auto folded_begin = loops_.sizes.begin() + static_cast<std::ptrdiff_t>(kept());
    std::vector<Expr> sizes(folded_begin, folded_begin + static_cast<std::ptrdiff_t>(cut.whole));
    sizes.emplace_back(cut.pieces + (has_rest(cut) ? 1 : 0));
    sizes.insert(sizes.end(), kept_sizes().begin(), kept_sizes().end());
    parts_ = graph_.add_owned(name + ".parts", part_type(), sizes);
    if (!has_rest(cut)) {
      add(".parts", fold_of(cut, 0, cut.pieces, cut.piece, parts_), parts_);
      return;
    }
    const auto view = [&](const char* suffix, std::int64_t first, std::int64_t count) {
      Buffer buffer;
      buffer.name = name + suffix;
      buffer.dtype = part_type();
      buffer.sizes = sizes;
      buffer.sizes[cut.whole] = count;
      const std::vector<Expr> strides = contiguous_strides(sizes);
      buffer.layout = NonOwningLayout{parts_, strides[cut.whole] * first, strides};
      return graph_.add_buffer(std::move(buffer));
    };
    const BufferId pieces = view(".pieces", 0, cut.pieces), rest = view(".rest", cut.pieces, 1);
    add(".pieces", fold_of(cut, 0, cut.pieces, cut.piece, pieces), pieces);
    add(".rest", fold_of(cut, cut.piece * cut.pieces, 1, cut.rest, rest), rest);
  }

  // Folds `count` pieces of `piece` elements each, the first of which begins at `start`.
  Loops fold_of(const Cut& cut, Expr start, std::int64_t count, Expr piece, BufferId out) {
    Loops loops;
    loops.reduce = loops_.reduce;
    std::vector<Expr> by(loops_.sizes.size(), 0);
    const auto take = [&](std::size_t index, Expr size) {
      by[index] = pool_.index(loops.sizes.size());
      loops.sizes.push_back(size);
    };
    for (std::size_t k = 0; k < cut.whole; ++k) take(kept() + k, folded(k));
    const Expr which = pool_.index(loops.sizes.size());
    loops.sizes.emplace_back(count);
    for (std::size_t k = 0; k < kept(); ++k) take(k, loops_.sizes[k]);
    const std::size_t cut_index = kept() + cut.whole;
    take(cut_index, piece);
    by[cut_index] = start + (count > 1 ? which * piece : 0) + by[cut_index];
    for (std::size_t k = cut_index + 1; k < loops_.sizes.size(); ++k) take(k, loops_.sizes[k]);
    loops.reduced = static_cast<int>(loops_.sizes.size() - cut_index);
    BodyBuilder body(pool_);
    const ValueId value = cut.guarded ? guarded_body(body, by, by[cut_index], folded(cut.whole))
                                      : body.inline_body(loops_.body, by);
    loops.body = body.finish(body.cast(value, part_type()));
    loops.store_index = position(strides_of(graph_, out), 0, loops.kept());
    return loops;
  }

  // The body where index < size, otherwise what changes no result; memory is read only there.
  ValueId guarded_body(BodyBuilder& body, std::span<const Expr> by, Expr index, Expr size) {
    const ValueId inside = body.binary(OpCode::lt, body.index(index), body.index(size));
    std::vector<ValueId> map;
    for (const Instr& given : loops_.body.instrs) {
      Instr instr = in_terms_of(
          given, pool_, [&](ValueId v) { return ir::at(map, v); }, by);
      if (instr.code == OpCode::load)
        instr.operands = {
            instr.operands.empty() ? inside : body.binary(OpCode::logical_and, instr.operands[0], inside)};
      map.push_back(body.add(std::move(instr)));
    }
    const ValueId value = ir::at(map, loops_.body.result);
    const DType type = body.dtype(value);
    return body.where(inside, value, body.constant(type, to_literal(type, neutral(loops_.reduce, type))));
  }

  Expr position(const std::vector<Expr>& strides, std::size_t first_index, std::size_t count) const {
    Expr at = 0;
    for (std::size_t d = 0; d < count; ++d) at = at + pool_.index(first_index + d) * strides[d];
    return at;
  }

  // The operation itself combines the parts, or rounds what does.
  void combine(const Cut& cut) {
    const std::vector<Expr> sizes = graph_[parts_].sizes, strides = strides_of(graph_, parts_);
    const std::size_t folded_count = cut.whole + 1;
    Loops loops;
    loops.reduce = loops_.reduce;
    loops.reduced = static_cast<int>(folded_count);
    loops.sizes.assign(kept_sizes().begin(), kept_sizes().end());
    Expr at = 0;
    for (std::size_t k = 0; k < kept(); ++k) at = at + pool_.index(k) * strides[folded_count + k];
    for (std::size_t k = 0; k < folded_count; ++k) {
      at = at + pool_.index(kept() + k) * strides[k];
      loops.sizes.push_back(sizes[k]);
    }
    BodyBuilder body(pool_);
    loops.body = body.finish(body.load(parts_, part_type(), at));
    loops.store_index = loops_.store_index;
    const BufferId result = graph_[id_].outputs[0];
    if (part_type() != graph_[result].dtype) {
      const BufferId wide = graph_.add_owned(graph_[result].name + ".wide", part_type(),
                                             std::vector(kept_sizes().begin(), kept_sizes().end()));
      loops.store_index = position(strides_of(graph_, wide), 0, kept());
      BodyBuilder rounding(pool_);
      const ValueId value = rounding.load(wide, part_type(), loops.store_index);
      add(".wide", std::move(loops), wide);
      loops = Loops{graph_[wide].sizes, 0, ReduceKind::sum, {}, loops_.store_index};
      loops.body = rounding.finish(rounding.cast(value, graph_[result].dtype));
    }
    graph_[id_].kernel = std::move(loops);
    graph_[id_].cost.reset();
    ops_.push_back(id_);
  }

  Graph& graph_;
  ExprPool& pool_;
  const OpId id_;
  const SplitReductions& options_;
  const analysis::Machine& machine_;
  const Loops loops_;
  BufferId parts_;
  std::vector<OpId> ops_;
};

}  // namespace

bool SplitReductions::run(Schedule& schedule, PassContext& context) const {
  Graph& graph = schedule.graph;
  const IdVector<OpId, bool> in_region = in_regions(graph);
  const bool changed = replace_operations(schedule, [&](OpId id) -> std::optional<std::vector<OpId>> {
    const auto* loops = graph[id].as<Loops>();
    if (in_region[id] || loops == nullptr || !loops->is_reduction()) return std::nullopt;
    return ReductionSplitter(graph, id, *this, context.costs->machine()).run();
  });
  if (changed) compact(schedule);
  return changed;
}

}  // namespace braid::passes
