#include <fmt/format.h>

#include <algorithm>

#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser_impl.h"

namespace braid::ir {
namespace {

// A short text can describe an expression that is larger than any memory once multiplied out.
constexpr int kMaxExprNodes = 4000;
constexpr std::size_t kMaxTerms = 400;
constexpr std::size_t kMaxRank = 32;

// Nodes of the expression as a tree; stops counting beyond the limit.
int count_nodes(Expr e, int left) {
  if (left <= 0) return 1;
  switch (e.kind()) {
    case ExprKind::constant:
    case ExprKind::symbol:
      return 1;
    case ExprKind::polynomial: {
      int n = 1;
      for (const Term& t : terms(e)) {
        for (const Expr& a : t.atoms) {
          n += count_nodes(a, left - n);
          if (n > left) return n;
        }
      }
      return n;
    }
    default: {
      const int n = 1 + count_nodes(e.lhs(), left - 1);
      return n > left ? n : n + count_nodes(e.rhs(), left - n);
    }
  }
}

}  // namespace

Parser::Parser(std::string_view text, Graph& graph) : tokens_(tokenize(text, file_)), graph_(graph) {
  for (const Expr& d : graph.dims) dims_.emplace(d.dim_name(), d);
}

Expr Parser::parse_lone_expr() {
  const Expr e = expr();
  if (peek().kind != TokenKind::end) fail_expected("the end of the expression");
  return e;
}

Expr parse_expr(std::string_view text, Graph& graph) { return Parser(text, graph).parse_lone_expr(); }

Expr Parser::checked(Expr e, const Token& at) const {
  if (count_nodes(e, kMaxExprNodes) > kMaxExprNodes)
    fail(errors::kBadExpression, at, "the expression grows too large");
  return e;
}

Expr Parser::times(Expr a, Expr b, const Token& at) const {
  const auto degree = [](const std::vector<Term>& ts) {
    std::size_t d = 0;
    for (const Term& t : ts) d = std::max(d, t.atoms.size());
    return d;
  };
  const std::vector<Term> x = terms(a), y = terms(b);
  if (x.size() * y.size() > kMaxTerms || degree(x) + degree(y) > kMaxRank) {
    fail(errors::kBadExpression, at, "the expression grows too large");
  }
  return checked(a * b, at);
}

// Arithmetic on sizes can overflow: errors get the position of the expression.
Expr Parser::expr() {
  const Token start = peek();
  try {
    return sum();
  } catch (const UserError& e) {
    if (e.location().line > 0) throw;
    fail(errors::kBadExpression, start, e.message(), e.hint());
  }
}

Expr Parser::sum() {
  const Nest nest(*this);
  const Token start = peek();
  const bool negative = accept_punct("-");
  Expr e = factor();
  if (negative) e = -e;
  for (;;) {
    if (accept_punct("+")) {
      e = checked(e + factor(), start);
    } else if (accept_punct("-")) {
      e = checked(e - factor(), start);
    } else {
      return e;
    }
    if (terms(e).size() > kMaxTerms) fail(errors::kBadExpression, start, "the expression grows too large");
  }
}

Expr Parser::factor() {
  const Token start = peek();
  Expr e = atom();
  while (accept_punct("*")) e = times(e, atom(), start);
  return e;
}

Expr Parser::atom() {
  const Token t = peek();
  if (t.kind == TokenKind::number) return integer();
  if (accept_punct("-")) {
    const Nest nest(*this);
    return -atom();
  }
  if (accept_punct("(")) {
    const Expr e = sum();
    expect_punct(")");
    return e;
  }
  if (t.kind == TokenKind::word && is(peek(1), TokenKind::punct, "(") &&
      (t.text == "floordiv" || t.text == "ceildiv" || t.text == "mod" || t.text == "min" ||
       t.text == "max")) {
    next();
    return call(t);
  }
  if (t.kind == TokenKind::word && t.text == "rank" && is(peek(1), TokenKind::punct, "(")) {
    next();
    expect_punct("(");
    const MeshAxis& axis = graph_.mesh[static_cast<std::size_t>(axis_ref())];
    expect_punct(")");
    return coordinate(*graph_.pool, axis.name, axis.size);
  }
  if (t.kind == TokenKind::word || t.kind == TokenKind::string || t.kind == TokenKind::value)
    return symbol(next());
  fail_expected("an expression");
}

Expr Parser::call(const Token& function) {
  expect_punct("(");
  const Expr a = sum();
  expect_punct(",");
  const Expr b = sum();
  expect_punct(")");
  if (function.text == "min") return checked(min(a, b), function);
  if (function.text == "max") return checked(max(a, b), function);
  if (bounds(b).min < 1)
    fail(errors::kBadExpression, function, fmt::format("the divisor {} may be smaller than 1", to_string(b)));
  if (function.text == "mod") return checked(mod(a, b), function);
  return checked(function.text == "floordiv" ? floor_div(a, b) : ceil_div(a, b), function);
}

Expr Parser::symbol(const Token& t) {
  if (t.kind == TokenKind::value) {
    if (!scope_.values) {
      // Outside a body only parse_expr accepts values, and they are numbers there.
      if (named_ || t.text.empty() || t.text.size() > 6 ||
          t.text.find_first_not_of("0123456789") != std::string::npos) {
        fail(errors::kBadIndex, t, fmt::format("value %{} is used outside a loop body", t.text));
      }
      return graph_.pool->value(std::stoi(t.text));
    }
    const auto it = scope_.values->find(t.text);
    if (it == scope_.values->end())
      fail(errors::kUnknownName, t, fmt::format("value %{} is not defined before its use", t.text));
    if (!is_integer((*scope_.body)[it->second].dtype)) {
      fail(errors::kBadIndex, t,
           fmt::format("value %{} of type {} cannot be an index: it must be an integer", t.text,
                       to_string((*scope_.body)[it->second].dtype)));
    }
    return graph_.pool->value(it->second.index);
  }
  const bool index = t.kind == TokenKind::word && t.text.size() > 1 && t.text.size() < 5 &&
                     t.text[0] == 'i' && t.text.find_first_not_of("0123456789", 1) == std::string::npos &&
                     (t.text[1] != '0' || t.text.size() == 2);
  if (index) {
    const int k = std::stoi(t.text.substr(1));
    if (scope_.context ? static_cast<std::size_t>(k) >= scope_.context->indices : named_) {
      fail(errors::kBadIndex, t,
           fmt::format("index i{} is out of range in a loop with {} indices", k,
                       scope_.context ? scope_.context->indices : 0));
    }
    return graph_.pool->index(k);
  }
  const auto it = dims_.find(t.text);
  if (it == dims_.end()) {
    fail(errors::kUnknownName, t, fmt::format("unknown dimension '{}'", t.text),
         "declare it: dim NAME in [MIN, MAX]");
  }
  return it->second;
}

std::vector<Expr> Parser::expr_list() {
  return list_of([&] { return expr(); });
}

std::vector<Expr> Parser::uniform_list() {
  return list_of([&] { return uniform_expr(); });
}

std::vector<Expr> Parser::list_of(const std::function<Expr()>& item) {
  std::vector<Expr> out;
  const Token start = peek();
  expect_punct("[");
  if (accept_punct("]")) return out;
  comma_separated([&] { out.push_back(item()); });
  expect_punct("]");
  if (out.size() > kMaxRank)
    fail(errors::kWrongCount, start,
         fmt::format("got {} entries, expected at most {}", out.size(), kMaxRank));
  return out;
}

Expr Parser::uniform_expr() {
  const Token start = peek();
  const Expr e = expr();
  if (depends_on_rank(e)) {
    fail(errors::kBadExpression, start, fmt::format("{} depends on the rank", to_string(e)),
         "it must be equal on all ranks: coordinates may stand in offsets and in the indices of loops");
  }
  return e;
}

std::vector<Expr> Parser::size_list() {
  const Token start = peek();
  std::vector<Expr> sizes = uniform_list();
  for (const Expr& s : sizes) {
    bool indexed = false;
    for_each_symbol(s, [&](Expr e) { indexed |= !e.is_symbol(SymbolKind::dim); });
    if (indexed)
      fail(errors::kBadExpression, start, fmt::format("size {} depends on a loop index", to_string(s)));
    if (bounds(s).max < 0)
      fail(errors::kBadExpression, start, fmt::format("size {} is negative", to_string(s)));
  }
  row_major(sizes, start);
  return sizes;
}

// Row-major strides; the number of elements has to be an expression of bounded size within int64.
std::vector<Expr> Parser::row_major(const std::vector<Expr>& sizes, const Token& at) const {
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  try {
    for (std::size_t k = sizes.size(); k-- > 0;) {
      strides[k] = stride;
      stride = times(stride, sizes[k], at);
    }
    times(stride, 16, at);  // the bytes must fit, too
  } catch (const UserError& e) {
    if (e.location().line > 0) throw;
    fail(errors::kBadExpression, at, e.message(), e.hint());
  }
  return strides;
}

}  // namespace braid::ir
