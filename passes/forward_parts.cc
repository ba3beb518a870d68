#include "passes/forward_parts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/id_vector.h"
#include "ir/op_table.h"
#include "passes/forwarded_loops.h"

namespace braid::passes {
namespace {

using namespace ir;

class PartForwarder {
 public:
  PartForwarder(Graph& graph, ForwardedLoops& loops, const ForwardParts& options)
      : graph_(graph), loops_(loops), options_(options) {}

  void sweep() {
    for (const StorageId s : first_ids<StorageId>(count_of(graph_.storages))) {
      if (const std::optional<Joined> joined = joined_tensor(s)) forward(*joined);
    }
  }

 private:
  using Touch = ForwardedLoops::Touch;
  struct Part {
    OpId writer;
    std::int64_t first = 0, size = 0;  // in the dimension of the concatenation
  };
  struct Joined {
    BufferId whole;
    std::size_t dim = 0;
    std::vector<Part> parts;  // in order
    std::vector<OpId> readers;
  };
  // Where a loop reads a joined tensor: the loop's dimension for each of the tensor's (-1: the index is 0),
  // and the offset in the dimension of the concatenation.
  struct Place {
    std::vector<int> loop_dims;
    std::int64_t first = 0, size = 1;
  };
  // A reader, cut in one of its dimensions.
  struct Cut {
    OpId reader;
    int dim = -1;
    std::vector<std::int64_t> borders;  // with both ends; none if it stays whole
    std::size_t pieces() const { return dim < 0 ? 1 : borders.size() - 1; }
  };

  Graph& graph_;
  ForwardedLoops& loops_;
  const ForwardParts& options_;

  std::optional<Joined> joined_tensor(StorageId s) const {
    if (graph_[s].kind != StorageKind::activation || loops_.is_kept(s)) return std::nullopt;
    Joined joined;
    std::size_t last_write = 0;
    for (const Touch& t : loops_.touches(s)) {
      if (!loops_.is_pointwise(t)) return std::nullopt;
      if (t.writes) {
        if (!joined.readers.empty()) return std::nullopt;
        last_write = t.node;
        joined.parts.push_back({t.op});
      } else if (joined.readers.empty() || joined.readers.back() != t.op) {
        if (t.node <= last_write) return std::nullopt;
        joined.readers.push_back(t.op);
      }
    }
    if (joined.parts.size() < 2 || joined.readers.empty() || std::ssize(joined.parts) > options_.max_parts ||
        !find_parts(joined))
      return std::nullopt;
    return joined;
  }

  // Sets whole, dim, and the place of each part.
  bool find_parts(Joined& joined) const {
    std::optional<std::size_t> dim;
    for (Part& part : joined.parts) {
      const Buffer& view = graph_[graph_[part.writer].outputs[0]];
      const auto* layout = std::get_if<NonOwningLayout>(&view.layout);
      if (layout == nullptr || !graph_[layout->base].storage.valid()) return false;
      if (joined.whole.valid() && joined.whole != layout->base) return false;
      joined.whole = layout->base;
      const Buffer& whole = graph_[joined.whole];
      const std::vector<Expr> strides = strides_of(graph_, joined.whole);
      if (view.sizes.size() != whole.sizes.size() || view.dtype != whole.dtype ||
          !(layout->strides == strides) || !(strides == contiguous_strides(whole.sizes)))
        return false;
      for (std::size_t k = 0; k < whole.sizes.size(); ++k) {
        if (view.sizes[k] == whole.sizes[k]) continue;
        if (dim && *dim != k) return false;
        dim = k;
      }
      if (!dim || view.sizes[*dim] == whole.sizes[*dim] || !view.sizes[*dim].is_constant() ||
          !whole.sizes[*dim].is_constant() || !loops_.stores_in_order(part.writer) ||
          graph_[part.writer].as<Loops>()->body.result_dtype() != whole.dtype)
        return false;
      const std::optional<Expr> first = divide_exactly(layout->offset, strides[*dim]);
      if (!first || !first->is_constant()) return false;
      part.first = first->constant();
      part.size = view.sizes[*dim].constant();
    }
    joined.dim = *dim;
    std::sort(joined.parts.begin(), joined.parts.end(),
              [](const Part& a, const Part& b) { return a.first < b.first; });
    std::int64_t end = 0;
    for (const Part& part : joined.parts) {
      if (part.first != end) return false;
      end += part.size;
    }
    return graph_[joined.whole].sizes[joined.dim].is_constant(end);
  }

  std::optional<Place> place_of(const Joined& joined, const Loops& reader, const Instr& load) const {
    const Buffer& whole = graph_[joined.whole];
    if (load.dtype != whole.dtype || graph_[load.buffer].dtype != whole.dtype || !load.operands.empty())
      return std::nullopt;
    const std::optional<Expr> shift =
        divide_exactly(region(graph_, load.buffer).offset - region(graph_, joined.whole).offset,
                       static_cast<std::int64_t>(size_of(whole.dtype)));
    if (!shift) return std::nullopt;
    Expr rest = simplify(load.index + *shift, reader.sizes);
    const std::vector<Expr> strides = contiguous_strides(whole.sizes);
    Place place;
    place.loop_dims.assign(whole.sizes.size(), -1);
    for (std::size_t k = 0; k < reader.sizes.size(); ++k) {
      if (reader.sizes[k].is_constant(1)) continue;
      const Expr index = graph_.pool->index(k);
      const std::optional<Expr> stride = stride_of(rest, index);
      if (!stride) return std::nullopt;
      if (stride->is_constant(0)) continue;
      std::size_t j = 0;
      while (j < strides.size() && (whole.sizes[j].is_constant(1) || !(strides[j] == *stride))) ++j;
      if (j == strides.size() || place.loop_dims[j] >= 0) return std::nullopt;
      if (j == joined.dim) {
        if (!reader.sizes[k].is_constant()) return std::nullopt;
        place.size = reader.sizes[k].constant();
      } else if (!(reader.sizes[k] == whole.sizes[j])) {
        return std::nullopt;
      }
      place.loop_dims[j] = static_cast<int>(k);
      rest = rest - index * *stride;
    }
    const std::optional<Expr> first = divide_exactly(rest, strides[joined.dim]);
    if (!first || !first->is_constant()) return std::nullopt;
    place.first = first->constant();
    if (place.first < 0 || place.first + place.size > whole.sizes[joined.dim].constant()) return std::nullopt;
    return place;
  }

  bool reads(const Instr& instr, const Joined& joined) const {
    return instr.code == OpCode::load &&
           root_storage(graph_, instr.buffer) == root_storage(graph_, joined.whole);
  }

  // How the reader must be cut for each piece to read one part.
  std::optional<Cut> cut_of(const Joined& joined, OpId reader) const {
    const auto& loops = *graph_[reader].as<Loops>();
    Cut cut{reader};
    for (const Instr& instr : loops.body.instrs) {
      if (!reads(instr, joined)) continue;
      const std::optional<Place> place = place_of(joined, loops, instr);
      if (!place) return std::nullopt;
      for (const Part& part : joined.parts) {
        const std::int64_t border = part.first - place->first;
        if (border <= 0 || border >= place->size) continue;
        const int dim = place->loop_dims[joined.dim];
        if (cut.dim >= 0 && cut.dim != dim) return std::nullopt;
        if (cut.dim < 0) cut.borders = {0, place->size};
        cut.dim = dim;
        cut.borders.push_back(border);
      }
    }
    std::sort(cut.borders.begin(), cut.borders.end());
    cut.borders.erase(std::unique(cut.borders.begin(), cut.borders.end()), cut.borders.end());
    if (cut.dim >= 0) {
      const Buffer& out = graph_[graph_[reader].outputs[0]];
      if (std::holds_alternative<MutationOutput>(out.layout) || changed_in_place(graph_[reader].outputs[0]) ||
          !loops_.stores_in_order(reader))
        return std::nullopt;
    }
    return cut;
  }

  // Whether it is a view that another operation changes: without its producer, the view would name the memory
  // before and after that.
  bool changed_in_place(BufferId b) const {
    return std::holds_alternative<NonOwningLayout>(graph_[b].layout) &&
           std::ranges::any_of(graph_.buffers, [&](const Buffer& other) {
             const auto* m = std::get_if<MutationOutput>(&other.layout);
             return m != nullptr && m->of == b;
           });
  }

  // Whether the part's value may be computed where it is read.
  bool may_inline(const Joined& joined, const Part& part, const Loops& reader, OpId reader_op) const {
    const Operation& writer = graph_[part.writer];
    const LoopBody& body = writer.as<Loops>()->body;
    const auto node_of = [&](OpId op) {
      const std::vector<Touch>& all = loops_.touches(root_storage(graph_, graph_[op].outputs[0]));
      return std::find_if(all.begin(), all.end(), [&](const Touch& t) { return t.op == op; })->node;
    };
    const std::size_t from = node_of(part.writer), to = node_of(reader_op);
    const StorageId written = root_storage(graph_, graph_[reader_op].outputs[0]);
    std::int64_t flops = 0;
    for (const Instr& instr : body.instrs) {
      if (instr.code == OpCode::check_index) return false;  // its error names the part's operation
      flops += row_of(instr.code).flops;
      if (instr.code != OpCode::load) continue;
      const StorageId memory = root_storage(graph_, instr.buffer);
      if (!memory.valid() || memory == written || loops_.is_written_between(memory, from, to)) return false;
    }
    if (flops < options_.min_flops && reads_rows(*writer.as<Loops>())) return true;
    // Then each value is computed once, as before.
    const auto loads = std::count_if(reader.body.instrs.begin(), reader.body.instrs.end(),
                                     [&](const Instr& instr) { return reads(instr, joined); });
    return joined.readers.size() == 1 && loads == 1 &&
           numel(reader.sizes) == numel(graph_[joined.whole].sizes);
  }

  // Whether the part loads in the order in which it stores: adjacent stores load adjacent elements, or the
  // same one.
  bool reads_rows(const Loops& part) const {
    std::size_t last = part.sizes.size();
    while (last > 0 && part.sizes[last - 1].is_constant(1)) --last;
    if (last == 0) return true;
    return std::all_of(part.body.instrs.begin(), part.body.instrs.end(), [&](const Instr& instr) {
      if (instr.code != OpCode::load) return true;
      const std::optional<Expr> stride = stride_of(instr.index, graph_.pool->index(last - 1));
      return stride && (stride->is_constant(0) || stride->is_constant(1));
    });
  }

  // Whether memory that is only kept for the reader by this is little, or no more than what becomes free.
  bool keeps_little(const Joined& joined) const {
    const std::size_t last_read = last_node(root_storage(graph_, joined.whole));
    std::set<StorageId> kept;
    for (const Part& part : joined.parts) {
      for (const Instr& instr : graph_[part.writer].as<Loops>()->body.instrs) {
        if (instr.code != OpCode::load) continue;
        const StorageId memory = root_storage(graph_, instr.buffer);
        if (memory.valid() && graph_[memory].kind == StorageKind::activation && !loops_.is_kept(memory) &&
            last_node(memory) < last_read)
          kept.insert(memory);
      }
    }
    Expr bytes = 0;
    for (const StorageId memory : kept) bytes = bytes + graph_[memory].bytes;
    constexpr std::int64_t kLittle = 64 * 1024;
    return bounds(bytes).max <= kLittle ||
           provably_non_negative(graph_[root_storage(graph_, joined.whole)].bytes - bytes);
  }

  std::size_t last_node(StorageId s) const {
    std::size_t last = 0;
    for (const Touch& t : loops_.touches(s)) last = std::max(last, t.node);
    return last;
  }

  void forward(const Joined& joined) {
    if (!keeps_little(joined)) return;
    std::vector<Cut> cuts;
    std::size_t pieces = 0;
    for (OpId reader : joined.readers) {
      std::optional<Cut> cut = cut_of(joined, reader);
      if (!cut) return;
      const auto& loops = *graph_[reader].as<Loops>();
      for (const Part& part : joined.parts) {
        if (!may_inline(joined, part, loops, reader)) return;
      }
      pieces += cut->pieces();
      cuts.push_back(std::move(*cut));
    }
    if (pieces > joined.parts.size() + joined.readers.size()) return;
    for (const Cut& cut : cuts) rewrite(joined, cut);
    for (const Part& part : joined.parts) loops_.remove(part.writer);
  }

  void rewrite(const Joined& joined, const Cut& cut) {
    std::vector<OpId> writers;
    for (const Part& part : joined.parts) writers.push_back(part.writer);
    const auto& given = *graph_[cut.reader].as<Loops>();
    std::vector<ForwardedLoops::Piece> pieces;
    for (std::size_t p = 0; p < cut.pieces(); ++p) {
      ForwardedLoops::Piece piece{0, given};
      if (cut.dim >= 0) {
        piece.first = cut.borders[p];
        ir::at(piece.loops.sizes, cut.dim) = cut.borders[p + 1] - piece.first;
      }
      piece.loops.body = body_of(joined, given, piece.loops.sizes, cut.dim, piece.first);
      pieces.push_back(std::move(piece));
    }
    loops_.replace(cut.reader, writers, std::move(pieces), static_cast<std::size_t>(std::max(cut.dim, 0)));
  }

  // The reader's body from `first` on in dimension `dim`, with the parts' values for what it loads of them.
  LoopBody body_of(const Joined& joined, const Loops& given, const std::vector<Expr>& sizes, int dim,
                   std::int64_t first) const {
    BodyBuilder body(*graph_.pool);
    IdVector<ValueId, ValueId> map(given.body.instrs.size());
    std::vector<Expr> at;
    for (int k = 0; k < count_of(sizes); ++k) at.push_back(graph_.pool->index(k) + (k == dim ? first : 0));
    for (const ValueId v : map.ids()) {
      const Instr& instr = given.body[v];
      if (reads(instr, joined)) {
        const Place place = *place_of(joined, given, instr);
        const int loop_dim = place.loop_dims[joined.dim];
        const std::int64_t begin = place.first + (loop_dim >= 0 && loop_dim == dim ? first : 0);
        const Part* part = &joined.parts[0];
        for (const Part& other : joined.parts) {
          if (other.first <= begin) part = &other;
        }
        std::vector<Expr> indices;
        for (std::size_t j = 0; j < place.loop_dims.size(); ++j) {
          Expr index = place.loop_dims[j] < 0 ? Expr(0) : graph_.pool->index(place.loop_dims[j]);
          if (j == joined.dim) {
            index = index + (begin - part->first);
          } else if (place.loop_dims[j] >= 0 && place.loop_dims[j] == dim) {
            index = index + first;  // cut for the sake of another load
          }
          indices.push_back(index);
        }
        map[v] = body.inline_body(graph_[part->writer].as<Loops>()->body, indices);
        continue;
      }
      Instr copy = in_terms_of(
          instr, *graph_.pool, [&](ValueId o) { return map[o]; }, at);
      copy.index = simplify(copy.index, sizes);
      map[v] = body.add(std::move(copy));
    }
    LoopBody result = body.finish(map[given.body.result]);
    for (Instr& instr : result.instrs) instr.index = simplify(instr.index, sizes);
    return result;
  }
};

}  // namespace

bool ForwardParts::run(Schedule& schedule) {
  return forward_loops(schedule,
                       [&](ForwardedLoops& loops) { PartForwarder(schedule.graph, loops, *this).sweep(); });
}

}  // namespace braid::passes
