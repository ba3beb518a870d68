// Matrix multiplications: shape, packed operand, epilogue.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/post_ops.h"

namespace braid::codegen::cpp {

using namespace ir;

void write_epilogue(Writer& w, const Product& product) {
  std::size_t steps = 0;
  for (const PostOp& step : product.post_ops) {
    if (step.kind == PostOp::Kind::identity) continue;
    w.line(fmt::format("s.epilogue.ops[{}] = PostOp::{};", steps++, to_string(step.kind)));
  }
  for (const PostOp& step : product.post_ops) {
    if (step.kind == PostOp::Kind::scale)
      w.line(fmt::format("s.epilogue.scale = {};", literal(DType::f32, step.factor)));
  }
}

bool has_byte_weights(const Graph& graph, const Gemm& gemm) {
  const DType b = graph[gemm.b.buffer].dtype;
  return graph[gemm.a.buffer].dtype == DType::f32 && (b == DType::i8 || b == DType::u8);
}

bool has_half_kernel(const Graph& graph, const Product& product) {
  const DType a = graph[product.a.buffer].dtype, out = graph[product.out.buffer].dtype;
  if ((a != DType::f16 && a != DType::bf16) || graph[product.b.buffer].dtype != a ||
      (out != DType::f32 && out != a))
    return false;
  const auto some = [](Expr size) { return size.is_constant() && size.constant() > 0; };
  const std::vector<Expr>& b = product.b.sizes;
  return is_packed_matrix(graph, product.b) && some(b.back()) && some(b[b.size() - 2]) &&
         product.out.strides.back().is_constant(1);
}

namespace {

Expr last(const std::vector<Expr>& v, std::size_t from_end) { return v[v.size() - 1 - from_end]; }

}  // namespace

bool is_packed_matrix(const Graph& graph, const TensorRef& b) {
  if (graph[root_storage(graph, b.buffer)].kind != StorageKind::constant) return false;
  for (std::size_t d = 0; d + 2 < b.sizes.size(); ++d) {
    if (!b.strides[d].is_constant(0) && !b.sizes[d].is_constant(1)) return false;
  }
  return last(b.sizes, 1).is_constant() && last(b.sizes, 0).is_constant() && b.offset.is_constant();
}

std::size_t ProgramEmitter::shape(const Shape& shape) {
  const auto [it, fresh] = shape_index_.try_emplace(shape, shapes_.size());
  if (fresh) shapes_.push_back(shape);
  return it->second;
}

std::string ProgramEmitter::shape_name(std::size_t shape) const {
  const std::string& type = shapes_[shape].type;
  const char* of = type == "GemmShape"        ? "gemm"
                   : type == "PoolShape"      ? "pool"
                   : type == "AttentionShape" ? "attention"
                                              : "convolution";
  return fmt::format("{}_shape_{}", of, shape);
}

// The addresses of what the steps of an epilogue add, "nullptr" for those that add nothing.
std::vector<std::string> ProgramEmitter::post_op_operands(const Product& product) {
  std::vector<std::string> operands;
  for (const PostOp& step : product.post_ops) {
    if (step.kind == PostOp::Kind::identity) continue;
    operands.push_back(step.operand.valid()
                           ? address(operand_buffer(product, step), operand_offset(s_.graph, product, step))
                           : "nullptr");
  }
  return operands;
}

// Packs b if it is a constant that is one matrix of f32, f16, bf16 or 8-bit integers.
std::optional<std::size_t> ProgramEmitter::packed_weight(const Gemm& gemm) {
  const Graph& graph = s_.graph;
  const TensorRef& b = gemm.b;
  const StorageId root = root_storage(graph, b.buffer);
  const DType type = graph[b.buffer].dtype;
  const bool bytes =
      is_byte_product(graph, gemm) || has_byte_weights(graph, gemm) || has_half_kernel(graph, gemm);
  if (graph[root].kind != StorageKind::constant || (type != DType::f32 && !bytes)) return std::nullopt;
  if (!is_packed_matrix(graph, b)) return std::nullopt;
  const Expr k = last(b.sizes, 1), n = last(b.sizes, 0);
  const std::int64_t rows = bounds(numel(gemm.out.sizes)).max / std::max<std::int64_t>(1, n.constant());
  const std::string matrix = fmt::format("{}, {}, {}, {}, {}", size(k), size(n), address(b.buffer, b.offset),
                                         size(last(b.strides, 1)), size(last(b.strides, 0)));
  const std::string call = bytes
                               ? fmt::format("pack(DType::{}, DType::{}, {})",
                                             to_string(graph[gemm.a.buffer].dtype), to_string(type), matrix)
                               : fmt::format("pack({}, {})", matrix, std::clamp<std::int64_t>(rows, 32, 512));
  for (std::size_t p = 0; p < packed_.size(); ++p) {
    if (packed_[p].call == call) return p;
  }
  packed_.push_back({b.buffer, call, k.constant() * n.constant()});
  return packed_.size() - 1;
}

ProgramEmitter::GemmCall ProgramEmitter::use_gemm(const Gemm& gemm, const std::string& label,
                                                  bool by_columns) {
  const DType type = s_.graph[gemm.a.buffer].dtype, c_type = s_.graph[gemm.out.buffer].dtype;
  const bool bytes = is_byte_product(s_.graph, gemm),
             finished = bytes && (gemm.epilogue || c_type != DType::i32);
  TensorRef c = gemm.out;
  if (finished) c.strides = contiguous_strides(c.sizes);  // nothing is stored by the kernel
  const std::size_t rank = gemm.out.sizes.size();
  Writer w;
  const auto set = [&](const std::string& field, Expr value) {
    w.line(fmt::format("s.{} = {};", field, size(value)));
  };
  w.line(fmt::format("s.type = DType::{};", type == DType::boolean ? "boolean" : to_string(type)));
  if (bytes || has_byte_weights(s_.graph, gemm))
    w.line(fmt::format("s.b_type = DType::{};", to_string(s_.graph[gemm.b.buffer].dtype)));
  w.line(fmt::format("s.c_type = DType::{};", to_string(bytes ? DType::i32 : c_type)));
  if (finished) w.line("s.finished = true;");
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
  if (!finished) write_epilogue(w, gemm);
  if (by_columns) w.line("s.by_columns = true;");
  std::optional<std::size_t> packed;
  if (bytes || (type == DType::f32 && c_type == DType::f32) || has_half_kernel(s_.graph, gemm))
    packed = packed_weight(gemm);
  gemms_.push_back({shape({"GemmShape", w.text()}), packed, label});
  return {gemms_.size() - 1, packed ? fmt::format(", &packed_[{}]", *packed) : ""};
}

void ProgramEmitter::emit(OpId id, const Gemm& gemm) {
  const bool bytes = is_byte_product(s_.graph, gemm);
  internal_check(!gemm.epilogue || (bytes ? can_finish(gemm) : named_to_the_end(gemm)),
                 "codegen: no kernel has the epilogue of '{}': the schedule is not legalised",
                 s_.graph[id].name);
  const bool finished = bytes && (gemm.epilogue || s_.graph[gemm.out.buffer].dtype != DType::i32);
  const std::vector<std::string> vectors = finished ? std::vector<std::string>() : post_op_operands(gemm);
  const GemmCall call = use_gemm(gemm, label(id));
  note({id}, fmt::format("{} x {}", s_.graph[gemm.a.buffer].name, s_.graph[gemm.b.buffer].name));
  if (finished) {
    const std::string finish = fmt::format("finish{}", call.index);
    step_.push_back(fmt::format("const auto {} = {};", finish, finish_tile(gemm, true)));
    step_.push_back(fmt::format("gemm({}, {{{}, {}, nullptr, {{}}, FinishTile({})}}{});", call.index,
                                address(gemm.a.buffer, gemm.a.offset), address(gemm.b.buffer, gemm.b.offset),
                                finish, call.packed));
    return;
  }
  std::string args =
      fmt::format("{{{}, {}, {}", address(gemm.a.buffer, gemm.a.offset),
                  address(gemm.b.buffer, gemm.b.offset), address(gemm.out.buffer, gemm.out.offset, false));
  if (!vectors.empty()) args += fmt::format(", {{{}}}", fmt::join(vectors, ", "));
  step_.push_back(fmt::format("gemm({}, {}}}{});", call.index, args, call.packed));
}

}  // namespace braid::codegen::cpp
