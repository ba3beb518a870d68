// Pieces of C++ text: types, literals, lines.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "codegen/c_expr.h"
#include "codegen/c_text.h"
#include "ir/graph.h"

namespace braid::codegen::cpp {

std::string storage_type(ir::DType dtype);  // of an element in memory: float, Half, int8_t, bool
std::string value_type(ir::DType dtype);    // of a value in a register: Half and BFloat16 are float
std::string literal(ir::DType dtype, const ir::Literal& value);

// Expressions in this target's form: division and modulo are C's if the operands are provably non-negative
// within `extents`, otherwise functions of runtime/kernel_support.h.
using SymbolText = std::function<std::string(ir::Expr symbol)>;
CExprStyle expr_style(SymbolText symbol, ir::Extents extents = {});

// Writes indented text. `open` writes a line and indents, `close` unindents and writes a line.
class Writer {
 public:
  void line(std::string_view text = {});
  // Writes a statement; a long one is broken after commas outside of string literals.
  void wrapped(std::string_view statement);
  void open(std::string_view text);
  void close(std::string_view text = "}");
  void raw(std::string_view text) { text_ += text; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace braid::codegen::cpp
