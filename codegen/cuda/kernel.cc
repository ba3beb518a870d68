#include "codegen/cuda/kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/scalar.h"
#include "ir/element.h"
#include "ir/error.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::Expr;
using ir::Instr;
using ir::OpCode;
using ir::SymbolKind;

namespace {
const CExprFunctions kFunctions = {"math::floor_div", "math::floor_mod", "math::minimum", "math::maximum"};

CExprStyle host_style() {
  return {.symbol = [](Expr s) { return dim_identifier(s); }, .extents = {}, .functions = kFunctions};
}

// Whether quotients, remainders, minima or maxima are in it.
bool needs_arithmetic(Expr e) {
  if (e.is_constant() || e.kind() == ir::ExprKind::symbol) return false;
  if (e.kind() != ir::ExprKind::polynomial) return true;
  const std::vector<ir::Term> terms = ir::terms(e);
  return std::any_of(terms.begin(), terms.end(), [](const ir::Term& term) {
    return std::any_of(term.atoms.begin(), term.atoms.end(), needs_arithmetic);
  });
}

bool is_of_dims(Expr e) {
  bool only = true;
  ir::for_each_symbol(
      e, [&](Expr s) { only &= !s.is_symbol(SymbolKind::index) && !s.is_symbol(SymbolKind::value); });
  return only;
}

// A literal is written where it is used.
std::string value_name(const ir::LoopBody& body, ir::ValueId v) {
  const Instr& instr = body[v];
  if (instr.code != OpCode::constant) return fmt::format("v{}", v.index);
  const std::string text = literal(instr.dtype, instr.literal);
  return text[0] == '-' ? "(" + text + ")" : text;
}
}  // namespace

std::string host_expr(Expr e) { return c_expr(e, host_style()); }
std::string host_operand(Expr e) { return c_operand(e, host_style()); }

std::string instance_name(const std::string& name, const std::string& argument) {
  return argument.empty() ? name : fmt::format("{}<{}>", name, argument);
}

std::string KernelTable::add(const Launch& launch, const std::string& user) {
  const std::string text = launch.kernel.parameters + "\n" + launch.kernel.body;
  const auto [at, fresh] = by_text_.emplace(text, entries_.size());
  if (fresh)
    entries_.push_back({names_.unique(c_identifier(launch.wanted_name) + "_kernel"), launch.kernel, {}, {}});
  Entry& entry = entries_[at->second];
  entry.users.push_back(user);
  for (const Variant& variant : launch.variants) {
    std::int64_t& most = entry.max_shared[variant.argument];
    most = std::max(most, variant.max_shared);
  }
  return entry.name;
}

// ----------------------------------------------------------------------------------------------------------
// builder

std::string KernelBuilder::input(ir::BufferId buffer) {
  const auto [at, fresh] = inputs_.emplace(buffer, fmt::format("in{}", inputs_.size()));
  if (fresh) {
    buffers_.emplace_back(fmt::format("const {}* {}", memory_type(graph_[buffer].dtype), at->second),
                          fmt::format("${}", buffer_ids_.size()));
    buffer_ids_.push_back(buffer);
  }
  return at->second;
}

std::string KernelBuilder::output(ir::BufferId buffer) {
  const auto [at, fresh] = outputs_.emplace(buffer, fmt::format("out{}", outputs_.size()));
  if (fresh) {
    buffers_.emplace_back(fmt::format("{}* {}", memory_type(graph_[buffer].dtype), at->second),
                          fmt::format("${}", buffer_ids_.size()));
    buffer_ids_.push_back(buffer);
  }
  return at->second;
}

std::string KernelBuilder::expr(Expr e, ir::Extents extents, const std::function<std::string(int)>& value) {
  CExprStyle style;
  style.extents.assign(extents.begin(), extents.end());
  style.functions = kFunctions;
  style.symbol = [&](Expr s) -> std::string {
    if (s.is_symbol(SymbolKind::index)) return fmt::format("i{}", s.symbol_number());
    if (s.is_symbol(SymbolKind::value))
      return fmt::format("static_cast<{}>({})", index_type(), value(s.symbol_number()));
    const std::string name = dim_identifier(s);
    if (std::find(dim_names_.begin(), dim_names_.end(), name) == dim_names_.end()) {
      dim_names_.push_back(name);
      dims_.emplace_back(fmt::format("{} {}", index_type(), name), name);
    }
    return name;
  };
  style.named = [&](Expr part) { return size_parameter(part); };
  return c_expr(e, style);
}

std::optional<std::string> KernelBuilder::size_parameter(Expr e) {
  if (!needs_arithmetic(e) || !is_of_dims(e)) return std::nullopt;
  const auto at = std::find(sizes_.begin(), sizes_.end(), e);
  const std::string name = fmt::format("size{}", at - sizes_.begin());
  if (at == sizes_.end()) {
    sizes_.push_back(e);
    dims_.emplace_back(fmt::format("{} {}", index_type(), name), host_expr(e));
  }
  return name;
}

std::string KernelBuilder::operand(Expr e, ir::Extents extents,
                                   const std::function<std::string(int)>& value) {
  const std::string text = expr(e, extents, value);
  const bool plain = text.find(' ') == std::string::npos && text[0] != '-';
  return plain ? text : "(" + text + ")";
}

void KernelBuilder::line(const std::string& text) {
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
  text_ += text + "\n";
}

void KernelBuilder::decompose(const std::string& flat, const std::vector<std::size_t>& dims,
                              std::span<const Expr> sizes, const std::vector<bool>& used) {
  std::vector<Expr> own;
  for (std::size_t d : dims) own.push_back(sizes[d]);
  const std::vector<Expr> strides = ir::contiguous_strides(own);
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const std::string name = fmt::format("i{}", dims[k]);
    if (!used[dims[k]] || name == flat) continue;
    std::string text = flat;
    if (!strides[k].is_constant(1)) text += " / " + operand(strides[k], {});
    if (k > 0) text += " % " + operand(own[k], {});
    line(fmt::format("const {} {} = {};", index_type(), name, text));
  }
}

std::string KernelBuilder::instruction(const ir::LoopBody& body, std::size_t k, ir::Extents extents,
                                       const LoadText& load, const std::string& acc) {
  const Instr& instr = body.instrs[k];
  const auto name = [&](int v) { return value_name(body, ir::ValueId{v}); };
  std::vector<std::string> operands;
  for (ir::ValueId v : instr.operands) operands.push_back(value_name(body, v));
  switch (instr.code) {
    case OpCode::load: {
      const std::optional<std::string> given = load ? load(instr) : std::nullopt;
      std::string text =
          given ? *given : fmt::format("{}[{}]", input(instr.buffer), expr(instr.index, extents, name));
      if (instr.dtype == DType::boolean) text += " != 0";
      if (!operands.empty()) {
        const std::string zero =
            literal(instr.dtype, ir::is_float(instr.dtype) ? ir::Literal(0.0) : ir::Literal(std::int64_t{0}));
        text = fmt::format("{} ? {} : {}", operands[0], text, zero);
      }
      return text;
    }
    case OpCode::index:
      return fmt::format("static_cast<{}>({})", value_type(instr.dtype), expr(instr.index, extents, name));
    case OpCode::acc:
      return acc;
    case OpCode::check_index: {
      checks_indices_ = true;
      // In 64 bits, whatever the index type, because the value may be arbitrary.
      return fmt::format("math::checked_index({}, int64_t{{{}}}, error, site)", operands[0],
                         expr(instr.index, extents, name));
    }
    default:
      return arithmetic(instr.code, body.operand_dtype(instr), instr.dtype, operands);
  }
}

std::string KernelBuilder::body(const ir::LoopBody& body, ir::Extents extents, const LoadText& load,
                                const std::string& acc) {
  for (std::size_t k = 0; k < body.instrs.size(); ++k) define(body, k, extents, load, acc);
  return value_name(body, body.result);
}

void KernelBuilder::define(const ir::LoopBody& body, std::size_t k, ir::Extents extents, const LoadText& load,
                           const std::string& acc) {
  if (body.instrs[k].code == OpCode::constant) return;
  line(fmt::format("const {} v{} = {};", value_type(body.instrs[k].dtype), k,
                   instruction(body, k, extents, load, acc)));
}

std::string KernelBuilder::value(const ir::LoopBody& body, ir::ValueId v) { return value_name(body, v); }

void KernelBuilder::spill_rows() {
  spills_ = true;
  line("unsigned char* const shared = block_rows<in_shared>(spilled, spilled_bytes);");
}

Launch KernelBuilder::finish() {
  Launch out;
  const auto add = [&](const std::string& declaration, const std::string& argument) {
    out.kernel.parameters += (out.kernel.parameters.empty() ? "" : ", ") + declaration;
    out.arguments.push_back(argument);
  };
  for (const auto& [declaration, argument] : buffers_) add(declaration, argument);
  for (const auto& [declaration, argument] : dims_) add(declaration, argument);
  if (checks_indices_) {
    add("int* error", "error_flag()");
    add("int site", "$site");
  }
  if (spills_) {
    add("unsigned char* spilled", "spilled()");
    add("int64_t spilled_bytes", "rows");
  }
  out.spills = spills_;
  if (spills_) out.kernel.varies = "bool in_shared";
  out.checks_indices = checks_indices_;
  out.buffers = buffer_ids_;
  out.kernel.body = text_;
  return out;
}

// -------------------------------------------------------------------------------------------------- index
// arithmetic

bool needs_wide_index(Expr e, const ir::LoopBody& body, std::span<const Expr> sizes, ir::ExprPool& pool) {
  // A checked value acts like a loop index whose extent is the checked size.
  std::vector<Expr> extents(sizes.begin(), sizes.end());
  const auto first = static_cast<int>(extents.size());
  bool unchecked = false;
  extents.resize(extents.size() + body.instrs.size(), Expr(1));
  const Expr moved = ir::substitute(e, [&](Expr s) -> std::optional<Expr> {
    if (!s.is_symbol(SymbolKind::value)) return std::nullopt;
    const auto k = static_cast<std::size_t>(s.symbol_number());
    unchecked |= body.instrs[k].code != OpCode::check_index;
    extents[static_cast<std::size_t>(first) + k] = body.instrs[k].index;
    return pool.index(first + s.symbol_number());
  });
  return unchecked || !fits_int32(moved, extents);
}

bool needs_wide_index(const ir::Graph& graph, const ir::Loops& loops) {
  ir::ExprPool& pool = *graph.pool;
  // Half of the range, so that the step of a grid-stride loop cannot leave it.
  if (!fits_int32(ir::numel(loops.sizes) * 2)) return true;
  bool wide = needs_wide_index(loops.store_index, loops.body, loops.sizes, pool);
  for (const Instr& instr : loops.body.instrs)
    wide |= needs_wide_index(instr.index, loops.body, loops.sizes, pool);
  return wide;
}

std::vector<bool> used_indices(const ir::LoopBody& body, std::size_t count) {
  std::vector<bool> used(count, false);
  for (const Instr& instr : body.instrs) {
    ir::for_each_symbol(instr.index, [&](Expr s) {
      if (s.is_symbol(SymbolKind::index)) used.at(static_cast<std::size_t>(s.symbol_number())) = true;
    });
  }
  return used;
}

std::vector<bool> used_indices(const ir::Loops& loops) {
  std::vector<bool> used = used_indices(loops.body, loops.sizes.size());
  ir::for_each_symbol(loops.store_index, [&](Expr s) {
    if (s.is_symbol(SymbolKind::index)) used.at(static_cast<std::size_t>(s.symbol_number())) = true;
  });
  return used;
}

}  // namespace braid::codegen::cuda
