// Epilogues of products of 8-bit integers: functions that compute the result from a tile of sums (rt::GemmTile).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "codegen/cpp/instr_text.h"
#include "codegen/cpp/program_emitter.h"
#include "ir/error.h"
#include "ir/typing.h"

namespace braid::codegen::cpp {

using namespace ir;

bool is_byte_product(const Graph& graph, const Product& product) {
  const auto byte = [](DType type) { return type == DType::i8 || type == DType::u8; };
  return byte(graph[product.a.buffer].dtype) && byte(graph[product.b.buffer].dtype);
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
  FinishText(const Graph& graph, const Product& product, const LoopBody& body)
      : graph_(graph), product_(product), body_(body), rank_(product.out.sizes.size()) {}

  // "(parameters) {...}" of the function.
  std::string text() {
    style_ = expr_style([this](Expr s) { return symbol(s); }, product_.out.sizes);
    for (std::size_t k = 0; k < body_.instrs.size(); ++k) add(k);
    Expr at = 0;
    for (std::size_t d = 0; d < rank_; ++d) {
      if (!product_.out.sizes[d].is_constant(1)) at = at + graph_.pool->index(d) * product_.out.strides[d];
    }
    const std::string result = fmt::format("v{}", body_.result.index);
    const DType type = graph_[product_.out.buffer].dtype;
    const bool half = type == DType::f16 || type == DType::bf16;
    lines_[kElement].push_back(
        fmt::format(fmt::runtime(half ? "store(y[{}], {});" : "y[{}] = {};"), c_expr(at, style_), result));
    Writer w;
    w.open("{");
    for (const std::string& line : lines_[kOnce]) w.line(line);
    w.open("for (int64_t r = 0; r < tile.rows; ++r) {");
    w.line("[[maybe_unused]] const int32_t* const sums = tile.sums + r * tile.sums_row;");
    if (rank_ > 0) rows(w);
    for (const std::string& line : lines_[kRow]) w.line(line);
    w.line("#pragma omp simd");
    w.open("for (int64_t j = 0; j < tile.columns; ++j) {");
    w.line(fmt::format("[[maybe_unused]] const int64_t i{} = tile.column + j;", rank_ - 1));
    for (const std::string& line : lines_[kElement]) w.line(line);
    w.close();
    w.close();
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
      operands.push_back(fmt::format("v{}", v.index));
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
        value = fmt::format("load(a{}[{}])", found - buffers_.begin(), c_expr(instr.index, style_));
        level = std::max(level, level_of(instr.index));
        if (!operands.empty())
          value = fmt::format("{} ? {} : {}{{0}}", operands[0], value, value_type(instr.dtype));
        break;
      }
      default: {
        std::optional<double> exponent;
        if (instr.code == OpCode::pow) {
          const Instr& e = body_[instr.operands[1]];
          if (e.code == OpCode::constant && std::holds_alternative<double>(e.literal))
            exponent = std::get<double>(e.literal);
        }
        value = arithmetic(instr, body_.operand_dtype(instr), operands, exponent);
      }
    }
    levels_.push_back(level);
    lines_[level].push_back(fmt::format("const {} v{} = {};", value_type(instr.dtype), k, value));
  }

  const Graph& graph_;
  const Product& product_;
  const LoopBody& body_;
  std::size_t rank_;
  CExprStyle style_;
  std::vector<Level> levels_;  // of each value
  std::array<std::vector<std::string>, 3> lines_;
  std::vector<BufferId> buffers_;  // that are read
  std::vector<Expr> dims_;
};

}  // namespace

// Makes the function, or finds one with the same text, and returns the lambda that calls it with a tile.
std::string ProgramEmitter::finish_tile(const Product& product) {
  LoopBody body;
  if (product.epilogue) {
    body = *product.epilogue;
  } else {
    BodyBuilder sum(*s_.graph.pool);
    body = sum.finish(sum.cast(sum.acc(DType::i32), s_.graph[product.out.buffer].dtype));
  }
  FinishText finish(s_.graph, product, body);
  const std::string text = finish.text();
  const auto [it, fresh] = finish_index_.try_emplace(text, finishes_.size());
  if (fresh) finishes_.push_back(text);
  std::string args = "tile, " + address(product.out.buffer, product.out.offset, false);
  for (BufferId b : finish.buffers()) args += ", " + address(b);
  for (Expr dim : finish.dims()) args += ", " + names_(dim);
  return fmt::format("[&](const GemmTile& tile) {{ finish_{}({}); }}", it->second, args);
}

}  // namespace braid::codegen::cpp
