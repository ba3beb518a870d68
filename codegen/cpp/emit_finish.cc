// Epilogues of 8-bit integer products: functions that compute the result from a tile of sums (rt::GemmTile).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "codegen/cpp/instr_text.h"
#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/strided_view.h"
#include "ir/typing.h"
#include "runtime/gemm.h"

namespace braid::codegen::cpp {

using namespace ir;

namespace {
bool is_byte(DType type) { return type == DType::i8 || type == DType::u8; }
}  // namespace

bool is_byte_product(const Graph& graph, const Product& product) {
  return is_byte(graph[product.a.buffer].dtype) && is_byte(graph[product.b.buffer].dtype);
}

bool can_finish(const Product& product) {
  return !product.epilogue ||
         std::none_of(product.epilogue->instrs.begin(), product.epilogue->instrs.end(),
                      [](const Instr& instr) { return instr.code == OpCode::check_index; });
}

namespace {

// Where a value is computed: once, per row, per element.
enum Level : std::size_t { kOnce, kRow, kElement };

class FinishText {
 public:
  FinishText(const Graph& graph, const Product& product, const LoopBody& body, bool one_product)
      : graph_(graph), product_(product), body_(body), rank_(product.out.sizes.size()) {
    const Expr columns = rank_ == 0 ? Expr(0) : product.out.sizes.back();
    if (columns.is_constant() && columns.constant() > 0 && columns.constant() <= rt::kWholeColumns &&
        one_product)
      whole_ = columns.constant();
  }

  // "(parameters) {...}" of the function.
  std::string text() {
    style_ = expr_style([this](Expr s) { return symbol(s); }, product_.out.sizes);
    for (std::size_t k = 0; k < body_.instrs.size(); ++k) add(k);
    const Expr at = strided_index(*graph_.pool, product_.out.sizes, product_.out.strides);
    const std::string result = fmt::format("v{}", body_.result.index);
    const DType type = graph_[product_.out.buffer].dtype;
    const bool half = type == DType::f16 || type == DType::bf16, wide = is_wide(body_.result);
    const std::string store = wide   ? fmt::format("wide0{} = {{1}};", at_element())
                              : half ? "store(y[{0}], {1});"
                                     : "y[{0}] = {1};";
    lines_[kElement].push_back(fmt::format(fmt::runtime(store), c_expr(at, style_), result));
    Writer w;
    w.open("{");
    for (std::size_t k = wide ? 0 : 1; k <= widened_.size(); ++k)
      w.line(fmt::format("alignas(64) int32_t wide{}[{}];", k,
                         whole_ ? std::to_string(kBlockRows * *whole_) : "kTileColumns"));
    for (const std::string& line : lines_[kOnce]) w.line(line);
    if (whole_) {
      w.open(fmt::format("for (int64_t first = 0; first < tile.rows; first += {}) {{", kBlockRows));
      w.line(
          fmt::format("const int64_t last = first + {0} < tile.rows ? first + {0} : tile.rows;", kBlockRows));
    }
    for (std::size_t k = 0; k < widened_.size(); ++k) {
      if (const auto from = in_block(widened_[k].index))
        for_block(w, fmt::format("wide{}[e] = load({}[{}]);", k + 1, widened_[k].buffer, *from));
    }
    w.open(whole_ ? "for (int64_t r = first; r < last; ++r) {" : "for (int64_t r = 0; r < tile.rows; ++r) {");
    w.line("[[maybe_unused]] const int32_t* const sums = tile.sums + r * tile.sums_row;");
    if (rank_ > 0) rows(w);
    for (const std::string& line : lines_[kRow]) w.line(line);
    for (std::size_t k = 0; k < widened_.size(); ++k) {
      if (!in_block(widened_[k].index))
        for_columns(w, {fmt::format("wide{}{} = load({}[{}]);", k + 1, at_element(), widened_[k].buffer,
                                    c_expr(widened_[k].index, style_))});
    }
    for_columns(w, lines_[kElement]);
    const std::string narrow = fmt::format("static_cast<{}>(wide0", storage_type(type));
    const std::optional<std::string> to = in_block(at);
    if (wide && !to)
      for_columns(w, {fmt::format("y[{}] = {}{});", c_expr(at, style_), narrow, at_element())});
    w.close();
    if (wide && to) for_block(w, fmt::format("y[{}] = {}[e]);", *to, narrow));
    if (whole_) w.close();
    w.close();
    std::vector<std::string> list = {"const GemmTile& tile", storage_type(type) + "* __restrict y"};
    for (std::size_t k = 0; k < buffers_.size(); ++k)
      list.push_back(fmt::format("const {}* __restrict a{}", storage_type(graph_[buffers_[k]].dtype), k));
    for (Expr dim : dims_) list.push_back("int64_t " + dim_identifier(dim));
    return fmt::format("({}) {}", fmt::join(list, ", "), w.text());
  }
  const std::vector<BufferId>& buffers() const { return buffers_; }
  const std::vector<Expr>& dims() const { return dims_; }

 private:
  static constexpr std::int64_t kBlockRows = 8;

  // Byte `j` of row `r` in an array of 32 bits each.
  std::string at_element() const { return whole_ ? fmt::format("[(r - first) * {} + j]", *whole_) : "[j]"; }

  void for_columns(Writer& w, const std::vector<std::string>& lines) const {
    w.line("#pragma omp simd");
    w.open(fmt::format("for (int64_t j = 0; j < {}; ++j) {{",
                       whole_ ? std::to_string(*whole_) : "tile.columns"));
    w.line(
        fmt::format("[[maybe_unused]] const int64_t i{} = {}j;", rank_ - 1, whole_ ? "" : "tile.column + "));
    for (const std::string& line : lines) w.line(line);
    w.close();
  }
  // Writes a loop over all elements of a block of whole rows.
  void for_block(Writer& w, const std::string& line) const {
    w.line("#pragma omp simd");
    w.line(fmt::format("for (int64_t e = 0; e < (last - first) * {}; ++e) {}", *whole_, line));
  }
  // Returns the place in a block of the element at `index`, if its rows lie one after the other.
  std::optional<std::string> in_block(Expr index) const {
    if (!whole_) return std::nullopt;
    const std::vector<Expr>& sizes = product_.out.sizes;
    const Expr dense = strided_index(*graph_.pool, sizes, contiguous_strides(sizes));
    const Expr shift = simplify(index - dense, sizes);
    bool fixed = true;
    for_each_symbol(shift, [&](Expr s) { fixed = fixed && s.is_symbol(SymbolKind::dim); });
    if (!fixed) return std::nullopt;
    return fmt::format("{} + (tile.row + first) * {} + e", c_expr(shift, style_), *whole_);
  }

  // The indices of the rows from their number.
  void rows(Writer& w) {
    Expr inner = 1;
    std::vector<std::string> lines;
    for (std::size_t d = rank_ - 1; d-- > 0;) {
      const Expr size = product_.out.sizes[d];
      std::string e = "(tile.row + r)";
      if (!inner.is_constant(1)) e += fmt::format(" / {}", c_operand(inner, style_));
      if (d > 0) e += fmt::format(" % {}", c_operand(size, style_));
      lines.push_back(fmt::format("[[maybe_unused]] const int64_t i{} = {};", d, e));
      inner = inner * size;
    }
    for (const std::string& line : lines) w.line(line);
  }

  std::string symbol(Expr s) {
    if (s.is_symbol(SymbolKind::index)) return fmt::format("i{}", s.symbol_number());
    if (s.is_symbol(SymbolKind::value)) return fmt::format("static_cast<int64_t>(v{})", s.symbol_number());
    if (std::find(dims_.begin(), dims_.end(), s) == dims_.end()) dims_.push_back(s);
    return dim_identifier(s);
  }

  Level level_of(Expr e) const {
    Level level = kOnce;
    for_each_symbol(e, [&](Expr s) {
      Level own = kOnce;
      if (s.is_symbol(SymbolKind::value)) own = levels_[static_cast<std::size_t>(s.symbol_number())];
      if (s.is_symbol(SymbolKind::index))
        own = static_cast<std::size_t>(s.symbol_number()) + 1 == rank_ ? kElement : kRow;
      level = std::max(level, own);
    });
    return level;
  }

  void add(std::size_t k) {
    const Instr& instr = body_.instrs[k];
    std::vector<std::string> operands;
    Level level = kOnce;
    for (ValueId v : instr.operands) {
      const bool as_byte = is_wide(v) && instr.code != OpCode::cast;
      operands.push_back(fmt::format(fmt::runtime(as_byte ? "static_cast<{1}>(v{0})" : "v{0}"), v.index,
                                     value_type(body_[v].dtype)));
      level = std::max(level, levels_[static_cast<std::size_t>(v.index)]);
    }
    std::string value;
    switch (instr.code) {
      case OpCode::acc:
        value = "sums[j]";
        level = kElement;
        break;
      case OpCode::constant:
        value = literal(instr.dtype, instr.literal);
        break;
      case OpCode::index:
        level = level_of(instr.index);
        value = fmt::format("static_cast<{}>({})", value_type(instr.dtype), c_expr(instr.index, style_));
        break;
      case OpCode::load: {
        auto found = std::find(buffers_.begin(), buffers_.end(), instr.buffer);
        if (found == buffers_.end()) found = buffers_.insert(found, instr.buffer);
        value = fmt::format("load(a{}[{}])", found - buffers_.begin(), index_text(instr.index));
        level = std::max(level, level_of(instr.index));
        if (is_wide({static_cast<std::int32_t>(k)})) {
          widened_.push_back({fmt::format("a{}", found - buffers_.begin()), instr.index});
          value = fmt::format("wide{}{}", widened_.size(), at_element());
        }
        if (!operands.empty())
          value = fmt::format("{} ? {} : {}{{0}}", operands[0], value, value_type(instr.dtype));
        break;
      }
      default: {
        std::optional<double> exponent;
        if (instr.code == OpCode::cast && is_byte(instr.dtype)) {
          value = fmt::format("wide_cast<{}>({})", value_type(instr.dtype), operands[0]);
          break;
        }
        if (instr.code == OpCode::pow) {
          const Instr& e = body_[instr.operands[1]];
          if (e.code == OpCode::constant && std::holds_alternative<double>(e.literal))
            exponent = std::get<double>(e.literal);
        }
        value = arithmetic(instr, body_.operand_dtype(instr), operands, exponent);
      }
    }
    levels_.push_back(level);
    lines_[level].push_back(
        fmt::format("const {} v{} = {};",
                    is_wide({static_cast<std::int32_t>(k)}) ? "int32_t" : value_type(instr.dtype), k, value));
  }

  // Whether the byte has 32 bits in the loop, like all other values there: true for bytes that casts make and
  // for loads along the row. Compilers choose the vector length by the narrowest type, so rows of a few dozen
  // columns would fall into the remainder loop.
  bool is_wide(ValueId v) const {
    const Instr& instr = body_[v];
    if (!is_byte(instr.dtype)) return false;
    if (instr.code != OpCode::load) return instr.code == OpCode::cast;
    bool of_values = false;
    for_each_symbol(instr.index, [&](Expr s) { of_values = of_values || s.is_symbol(SymbolKind::value); });
    return instr.operands.empty() && !of_values && level_of(instr.index) == kElement;
  }

  std::string index_text(Expr index) const {
    const std::optional<ValueIndex> value = value_index(index);
    if (!value || size_of(body_.instrs[static_cast<std::size_t>(value->value)].dtype) > 2)
      return c_expr(index, style_);
    return value->as_int32(fmt::format("v{}", value->value));
  }

  const Graph& graph_;
  const Product& product_;
  const LoopBody& body_;
  std::size_t rank_;
  CExprStyle style_;
  std::vector<Level> levels_;  // of each value
  std::array<std::vector<std::string>, 3> lines_;
  std::vector<BufferId> buffers_;  // that are read
  struct Bytes {
    std::string buffer;
    Expr index;
  };
  std::vector<Bytes> widened_;         // along the row
  std::optional<std::int64_t> whole_;  // columns, if tiles have all of them (rt::GemmTile)
  std::vector<Expr> dims_;
};

}  // namespace

// Makes the function, or finds one with the same text, and returns the lambda that calls it with a tile.
std::string ProgramEmitter::finish_tile(const Product& product, bool one_product) {
  LoopBody body;
  if (product.epilogue) {
    body = *product.epilogue;
  } else {
    BodyBuilder sum(*s_.graph.pool);
    body = sum.finish(sum.cast(sum.acc(DType::i32), s_.graph[product.out.buffer].dtype));
  }
  FinishText finish(s_.graph, product, body, one_product);
  const std::string text = finish.text();
  const auto [it, fresh] = finish_index_.try_emplace(text, finishes_.size());
  if (fresh) finishes_.push_back(text);
  std::string args = "tile, " + address(product.out.buffer, product.out.offset, false);
  for (BufferId b : finish.buffers()) args += ", " + address(b);
  for (Expr dim : finish.dims()) args += ", " + names_(dim);
  return fmt::format("[&](const GemmTile& tile) {{ finish_{}({}); }}", it->second, args);
}

}  // namespace braid::codegen::cpp
