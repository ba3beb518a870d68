// Pieces of C++ text: names, types, literals, index expressions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace braid::codegen::cpp {

// A C identifier made of `name`: other characters become '_', runs of them one.
std::string identifier(std::string_view name);
// A string literal, quotes included.
std::string c_string(std::string_view text);
// Fit for a // comment: no line breaks.
std::string comment(std::string_view text);

std::string storage_type(ir::DType dtype);  // of an element in memory: float, Half, int8_t, bool
std::string value_type(ir::DType dtype);    // of a value in a register: Half and BFloat16 are float
std::string abi_dtype(ir::DType dtype);     // BRAID_F32
std::string literal(ir::DType dtype, const ir::Literal& value);

// `names` gives the text of a symbol. Division and modulo are C's where the operands are provably non-negative within
// `extents`, else floor_div and floor_mod of runtime/kernel_support.h.
using SymbolText = std::function<std::string(ir::Expr symbol)>;
std::string c_expr(ir::Expr e, const SymbolText& names, ir::Extents extents = {});
// The same, in brackets unless it is one token.
std::string c_operand(ir::Expr e, const SymbolText& names, ir::Extents extents = {});

// Text with indentation. `open` writes a line and indents, `close` goes back and writes a line.
class Writer {
 public:
  void line(std::string_view text = {});
  void open(std::string_view text);
  void close(std::string_view text = "}");
  void raw(std::string_view text) { text_ += text; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int depth_ = 0;
};

}  // namespace braid::codegen::cpp
