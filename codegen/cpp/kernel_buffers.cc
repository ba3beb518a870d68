// Parameters, scratch memory, sizes and indices of a kernel as text.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

const LocalBuffer* KernelEmitter::local(BufferId b) const {
  for (const LocalBuffer& l : nest_.locals) {
    if (unmutated(graph_, l.buffer) == unmutated(graph_, b)) return &l;
  }
  return nullptr;
}

KernelEmitter::Param& KernelEmitter::param(BufferId b) {
  const BufferId key = unmutated(graph_, b);
  for (Param& p : params_) {
    if (p.key == key) return p;
  }
  params_.push_back({key, b, {}, graph_[b].dtype, false, false});
  return params_.back();
}

void KernelEmitter::collect_buffers() {
  for (const NestGroup& group : nest_.groups) {
    for (const NestMember& m : group.members) {
      if (!local(m.out)) param(m.out).written = true;
      for (const Instr& instr : m.body.instrs) {
        if (instr.code == OpCode::load && !local(instr.buffer)) param(instr.buffer).read = true;
      }
      if (std::any_of(m.body.instrs.begin(), m.body.instrs.end(),
                      [](const Instr& i) { return i.code == OpCode::check_index; })) {
        sites_.push_back(m.op);
      }
    }
  }
  int outputs = 0, inputs = 0;
  for (Param& p : params_) p.name = p.written ? fmt::format("y{}", outputs++) : fmt::format("a{}", inputs++);
  for (const LocalBuffer& l : nest_.locals) {
    if (l.elements <= 1) continue;
    Scratch s;
    s.name = fmt::format("row{}", scratches_.size());
    s.type = value_type(graph_[l.buffer].dtype);
    s.elements = l.elements;
    const std::int64_t bytes =
        (l.elements * (s.type == "double" || s.type.find("64") != std::string::npos ? 8 : 4) + 63) / 64 * 64;
    if (stack_bytes_ + bytes <= kStackBytes) {
      stack_bytes_ += bytes;
    } else {
      s.offset = out_.scratch_bytes;
      out_.scratch_bytes += bytes;
    }
    scratches_.emplace(l.buffer, s);
  }
}

std::string KernelEmitter::symbol(Expr s) {
  if (s.is_symbol(SymbolKind::index)) return fmt::format("i{}", s.symbol_number());
  if (s.is_symbol(SymbolKind::value)) return as_int(index_value(s.symbol_number()));
  if (std::find(dims_.begin(), dims_.end(), s) == dims_.end()) dims_.push_back(s);
  return dim_identifier(s);
}

std::string KernelEmitter::index_text(Expr e) {
  if (const std::optional<ValueIndex> index = value_index(e)) {
    const Value v = index_value(index->value);
    if (size_of(v.dtype) <= 2) return index->as_int32(v.text);
  }
  const Expr uneven = uneven_part(e);
  if (uneven.is_constant(0)) return text(e);
  const Expr rest = e - uneven;
  const std::string listed = fmt::format("{}[i{}]", index_list(uneven), order_.back());
  return rest.is_constant(0) ? listed : fmt::format("{} + {}", text(rest), listed);
}

Expr KernelEmitter::uneven_part(Expr e) const {
  constexpr std::int64_t kLongest = 2048;
  if (nest_.outer == 0 || order_.size() != 1) return 0;
  const Expr inner = graph_.pool->index(static_cast<std::size_t>(order_[0]));
  const Expr extent = nest_.extents[static_cast<std::size_t>(order_[0])];
  if (bounds(extent).max > kLongest || has_index(extent, 0, nest_.extents.size())) return 0;
  Expr part = 0;
  for (const Term& term : terms(e)) {
    Expr value = term.coefficient;
    for (const Expr& atom : term.atoms) value = value * atom;
    bool alone = contains(value, inner) && !stride_of(value, inner);
    for_each_symbol(value, [&](Expr s) { alone = alone && (s == inner || s.is_symbol(SymbolKind::dim)); });
    if (alone) part = part + value;
  }
  const Bounds values = bounds(part, nest_.extents);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return values.min >= -kMost && values.max <= kMost ? part : Expr(0);
}

std::string KernelEmitter::index_list(Expr part) {
  const int var = order_.back();
  const std::string value = text(part), key = fmt::format("list|i{}|{}", var, value);
  if (const auto found = known_.find(key); found != known_.end()) return found->second.text;
  const std::string name = fmt::format("at{}", lists_++);
  const Expr extent = nest_.extents[static_cast<std::size_t>(var)];
  invariant_.push_back(fmt::format("alignas(64) int32_t {}[{}];", name, bounds(extent).max));
  invariant_.push_back(
      fmt::format("{} {}[i{}] = static_cast<int32_t>({});", loop_head(var), name, var, value));
  known_.emplace(key, Value{name, 0, DType::i32});
  return name;
}

std::string KernelEmitter::store_line(BufferId buffer, Expr index, const std::string& value) {
  if (const LocalBuffer* l = local(buffer)) {
    return fmt::format("{}[{}] = {};", scratches_.at(l->buffer).name, text(index - l->origin), value);
  }
  const Param& p = param(buffer);
  const bool half = p.dtype == DType::f16 || p.dtype == DType::bf16;
  return fmt::format(fmt::runtime(half ? "store({}[{}], {});" : "{}[{}] = {};"), p.name, text(index), value);
}

bool KernelEmitter::needs_store(BufferId b) const {
  const LocalBuffer* l = local(b);
  return !l || l->elements > 1;
}

void KernelEmitter::parameters() {
  std::vector<std::string> list;
  for (bool written : {true, false}) {
    for (const Param& p : params_) {
      if (p.written != written) continue;
      bool alone = true;
      for (const Param& q : params_)
        alone = alone && (&p == &q || (!p.written && !q.written) || !overlap_(p.first, q.first));
      list.push_back(fmt::format("{}{}*{} {}", p.written ? "" : "const ", storage_type(p.dtype),
                                 alone ? " __restrict" : "", p.name));
      out_.args.push_back({KernelArg::Kind::buffer, p.first, p.written, 0, {}});
    }
  }
  std::sort(dims_.begin(), dims_.end(), [&](Expr a, Expr b) {
    return position(a) != position(b) ? position(a) < position(b) : compare(a, b) < 0;
  });
  for (Expr d : dims_) {
    list.push_back("int64_t " + dim_identifier(d));
    out_.args.push_back({KernelArg::Kind::dim, {}, false, d, {}});
  }
  if (out_.scratch_bytes > 0) {
    list.push_back("std::byte* scratch");
    out_.args.push_back({KernelArg::Kind::scratch, {}, false, 0, {}});
    if (nest_.outer > 0) {
      list.push_back("int64_t scratch_stride");
      out_.args.push_back({KernelArg::Kind::scratch_stride, {}, false, 0, {}});
    }
  }
  if (!sites_.empty()) {
    list.push_back("IndexError* error");
    out_.args.push_back({KernelArg::Kind::index_error, {}, false, 0, {}});
    for (std::size_t k = 0; k < sites_.size(); ++k) {
      list.push_back(fmt::format("int32_t site{}", k));
      out_.args.push_back({KernelArg::Kind::site, {}, false, 0, sites_[k]});
    }
  }
  out_.parameters = fmt::format("({})", fmt::join(list, ", "));
}

std::ptrdiff_t KernelEmitter::position(Expr dim) const {
  return std::find(graph_.dims.begin(), graph_.dims.end(), dim) - graph_.dims.begin();
}

}  // namespace braid::codegen::cpp
