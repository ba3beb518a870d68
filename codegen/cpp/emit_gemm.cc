// Matrix multiplications: shape, packed operand, what happens to the sum.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/limits.h"
#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {

Expr last(const std::vector<Expr>& v, std::size_t from_end) { return v[v.size() - 1 - from_end]; }

}  // namespace

std::size_t ProgramEmitter::gemm_shape(const std::string& body) {
  const auto [it, fresh] = shape_index_.try_emplace(body, shapes_.size());
  if (fresh) shapes_.push_back(body);
  return it->second;
}

// A constant b that is one f32 matrix.
std::optional<std::size_t> ProgramEmitter::packed_weight(const Gemm& gemm) {
  const Graph& graph = s_.graph;
  const TensorRef& b = gemm.b;
  const StorageId root = root_storage(graph, b.buffer);
  if (graph[root].kind != StorageKind::constant || graph[b.buffer].dtype != DType::f32) return std::nullopt;
  const std::size_t rank = b.sizes.size();
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    if (!b.strides[d].is_constant(0) && !b.sizes[d].is_constant(1)) return std::nullopt;
  }
  const Expr k = last(b.sizes, 1), n = last(b.sizes, 0);
  if (!k.is_constant() || !n.is_constant() || !b.offset.is_constant()) return std::nullopt;
  const std::int64_t rows = bounds(numel(gemm.out.sizes)).max / std::max<std::int64_t>(1, n.constant());
  const std::string call = fmt::format("pack({}, {}, {}, {}, {}, {})", size(k), size(n),
                                       address(b.buffer, b.offset), size(last(b.strides, 1)),
                                       size(last(b.strides, 0)), std::clamp<std::int64_t>(rows, 32, 512));
  for (std::size_t p = 0; p < packed_.size(); ++p) {
    if (packed_[p].call == call) return p;
  }
  packed_.push_back({b.buffer, call, k.constant() * n.constant()});
  return packed_.size() - 1;
}

void ProgramEmitter::emit_gemm(OpId id) {
  const Operation op = s_.graph[id];  // a copy: the graph grows below
  const Gemm& gemm = *op.as<Gemm>();
  const DType type = s_.graph[gemm.a.buffer].dtype;
  const auto [match, loop, c_type, in_place] = gemm_form(s_.graph, gemm);
  internal_check(in_place, "codegen: the sums of '{}' have no memory: the schedule is not legalised",
                 op.name);
  const TensorRef& c = gemm.out;

  const std::size_t rank = gemm.out.sizes.size();
  Writer w;
  const auto set = [&](const std::string& field, Expr value) {
    w.line(fmt::format("s.{} = {};", field, size(value)));
  };
  w.line(fmt::format("s.type = DType::{};", type == DType::boolean ? "boolean" : to_string(type)));
  w.line(fmt::format("s.c_type = DType::{};", to_string(c_type)));
  set("m", last(gemm.out.sizes, 1));
  set("n", last(gemm.out.sizes, 0));
  set("k", last(gemm.a.sizes, 0));
  set("a_row", last(gemm.a.strides, 1));
  set("a_col", last(gemm.a.strides, 0));
  set("b_row", last(gemm.b.strides, 1));
  set("b_col", last(gemm.b.strides, 0));
  set("c_row", last(c.strides, 1));
  set("c_col", last(c.strides, 0));
  if (rank > 2) {
    w.line(fmt::format("s.batch_rank = {};", rank - 2));
    for (std::size_t d = 0; d + 2 < rank; ++d) {
      set(fmt::format("batch[{}]", d), gemm.out.sizes[d]);
      set(fmt::format("a_batch[{}]", d), gemm.a.strides[d]);
      set(fmt::format("b_batch[{}]", d), gemm.b.strides[d]);
      set(fmt::format("c_batch[{}]", d), c.strides[d]);
    }
  }
  std::vector<std::string> vectors;
  if (match) {
    for (std::size_t k = 0; k < match->size(); ++k) {
      const PostOp& post = (*match)[k];
      w.line(fmt::format("s.epilogue.ops[{}] = PostOp::{};", k, to_string(post)));
      vectors.push_back(post.operand.valid() ? address(post.operand, post.offset) : "nullptr");
    }
    for (const PostOp& post : *match) {
      if (post.factor != 1) w.line(fmt::format("s.epilogue.scale = {};", literal(DType::f32, post.factor)));
    }
  }
  const std::size_t index = gemms_.size();
  std::optional<std::size_t> packed;
  if (type == DType::f32 && c_type == DType::f32) packed = packed_weight(gemm);
  gemms_.push_back({gemm_shape(w.text()), packed, label(id)});
  note({id}, fmt::format("{} x {}", s_.graph[gemm.a.buffer].name, s_.graph[gemm.b.buffer].name));
  std::string args = fmt::format("{{{}, {}, {}", address(gemm.a.buffer, gemm.a.offset),
                                 address(gemm.b.buffer, gemm.b.offset), address(c.buffer, c.offset, false));
  if (!vectors.empty()) args += fmt::format(", {{{}}}", fmt::join(vectors, ", "));
  step_.push_back(
      fmt::format("gemm({}, {}}}{});", index, args, packed ? fmt::format(", &packed_[{}]", *packed) : ""));
  if (!loop) return;

  // The epilogue as a loop over the result.
  Operation finish;
  finish.name = op.name + ".epilogue";
  finish.origins = op.origins;
  Loops loops;
  loops.sizes = gemm.out.sizes;
  loops.body = *gemm.epilogue;
  const auto index_of = [&](const TensorRef& ref) {
    Expr e = ref.offset;
    for (std::size_t d = 0; d < rank; ++d) e = e + s_.graph.pool->index(static_cast<int>(d)) * ref.strides[d];
    return e;
  };
  for (Instr& instr : loops.body.instrs) {
    if (instr.code != OpCode::acc) continue;
    Instr load;
    load.code = OpCode::load;
    load.dtype = c_type;
    load.buffer = c.buffer;
    load.index = index_of(c);
    instr = load;
  }
  loops.store_index = index_of(gemm.out);
  finish.kernel = std::move(loops);
  finish.outputs = {s_.graph.add_mutation(gemm.out.buffer, op.name + ".finished")};
  emit_loops({s_.graph.add_op(std::move(finish))});
}

}  // namespace braid::codegen::cpp
