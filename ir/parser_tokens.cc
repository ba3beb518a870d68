#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser_impl.h"

namespace braid::ir {
namespace {

std::string describe(const Token& t) {
  switch (t.kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::string:
      return "a string";
    case TokenKind::value:
      return fmt::format("'%{}'", t.text);
    case TokenKind::group:
      return fmt::format("'@{}'", t.text);
    case TokenKind::storage:
      return fmt::format("'${}'", t.text);
    default:
      return fmt::format("'{}'", t.text);
  }
}

}  // namespace

const Token& Parser::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token Parser::next() {
  const Token& t = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return t;
}

bool Parser::accept_punct(std::string_view text) {
  if (!at_punct(text)) return false;
  next();
  return true;
}

bool Parser::accept_word(std::string_view text) {
  if (!at_word(text)) return false;
  next();
  return true;
}

void Parser::expect_punct(std::string_view text) {
  if (!accept_punct(text)) fail_expected(fmt::format("'{}'", text));
}

void Parser::expect_word(std::string_view text) {
  if (!accept_word(text)) fail_expected(fmt::format("'{}'", text));
}

void Parser::fail(int code, const Token& at, std::string message, std::string hint) const {
  user_error(code, {file_, {}, {}, at.line, at.column}, std::move(message), std::move(hint));
}

void Parser::fail_expected(std::string_view what) const {
  fail(errors::kSyntaxError, peek(), fmt::format("expected {}, got {}", what, describe(peek())));
}

void Parser::fail(const Token& at, const TypeError& error) const {
  int code = errors::kBadStructure;
  switch (error.kind) {
    case TypeError::Kind::type:
      code = errors::kWrongType;
      break;
    case TypeError::Kind::operands:
      code = errors::kWrongCount;
      break;
    case TypeError::Kind::index:
      code = errors::kBadIndex;
      break;
    case TypeError::Kind::shape:
      code = errors::kOperandShapes;
      break;
    case TypeError::Kind::structure:
      break;
  }
  fail(code, at, error.message);
}

std::string Parser::name() {
  if (peek().kind != TokenKind::word && peek().kind != TokenKind::string) fail_expected("a name");
  return next().text;
}

std::int64_t Parser::integer() {
  const bool negative = accept_punct("-");
  const Token t = next();
  if (t.kind != TokenKind::number) fail(errors::kSyntaxError, t, "expected an integer, got " + describe(t));
  std::uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), magnitude);
  const std::uint64_t limit = std::uint64_t{1} << 63;
  if (error != std::errc() || end != t.text.data() + t.text.size() || magnitude > limit ||
      (!negative && magnitude == limit)) {
    fail(errors::kBadLiteral, t, fmt::format("'{}' is not a 64-bit integer", t.text));
  }
  return static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
}

int Parser::small_integer() {
  const Token t = peek();
  const std::int64_t value = integer();
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail(errors::kBadLiteral, t, fmt::format("{} is out of range", value));
  }
  return static_cast<int>(value);
}

double Parser::floating() {
  const bool negative = accept_punct("-");
  const Token t = next();
  double value = 0;
  if (is(t, TokenKind::word, "nan")) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (is(t, TokenKind::word, "inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (t.kind == TokenKind::number) {
    const bool hex = t.text.size() > 1 && (t.text[1] == 'x' || t.text[1] == 'X');
    const char* begin = t.text.data() + (hex ? 2 : 0);
    const char* last = t.text.data() + t.text.size();
    const auto [end, error] =
        std::from_chars(begin, last, value, hex ? std::chars_format::hex : std::chars_format::general);
    if (error != std::errc() || end != last)
      fail(errors::kBadLiteral, t, fmt::format("'{}' is not a number in range", t.text));
  } else {
    fail(errors::kSyntaxError, t, "expected a number, got " + describe(t));
  }
  return negative ? -value : value;
}

DType Parser::dtype() {
  const Token t = peek();
  if (t.kind != TokenKind::word) fail_expected("a type");
  const std::optional<DType> d = dtype_from_string(t.text);
  if (!d) {
    fail(errors::kSyntaxError, t, fmt::format("'{}' is not a type", t.text),
         "types are f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool");
  }
  next();
  return *d;
}

std::uint64_t Parser::hexadecimal() {
  expect_punct("(");
  const Token t = next();
  std::uint64_t value = 0;
  const bool prefixed = t.kind == TokenKind::number && t.text.size() > 2 && t.text[1] == 'x';
  const char* last = t.text.data() + t.text.size();
  if (!prefixed) fail(errors::kBadLiteral, t, "expected a hexadecimal number: 0x...");
  const auto [end, error] = std::from_chars(t.text.data() + 2, last, value, 16);
  if (error != std::errc() || end != last)
    fail(errors::kBadLiteral, t, "expected a hexadecimal number of at most 64 bits");
  expect_punct(")");
  return value;
}

Literal Parser::literal(DType dtype) {
  const Token t = peek();
  if (dtype == DType::boolean && (at_word("true") || at_word("false"))) {
    return static_cast<std::int64_t>(next().text == "true");
  }
  if (is_float(dtype)) {
    if (accept_word("bits"))
      return std::bit_cast<double>(hexadecimal());  // of the double that holds the literal
    const double value = floating();
    // Decimals of narrow types mean the value nearest to them; the printer writes the shortest such decimal.
    return dtype == DType::f64 ? value : static_cast<double>(static_cast<float>(value));
  }
  if (dtype == DType::u64 && t.kind == TokenKind::number) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
    if (error != std::errc() || end != t.text.data() + t.text.size())
      fail(errors::kBadLiteral, t, fmt::format("'{}' is not a u64", t.text));
    next();
    return static_cast<std::int64_t>(value);
  }
  return integer();
}

}  // namespace braid::ir
