#include "ir/lexer.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/parser.h"

namespace braid::ir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file_name) : text_(text), file_(file_name) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      skip_space();
      Token t;
      t.line = line_;
      t.column = static_cast<int>(at_ - line_start_) + 1;
      if (at_ >= text_.size()) {
        tokens.push_back(std::move(t));
        return tokens;
      }
      read(t);
      tokens.push_back(std::move(t));
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail(int code, std::string message) const {
    user_error(code, {file_, {}, {}, line_, static_cast<int>(at_ - line_start_) + 1}, std::move(message));
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_start_ = ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  void read(Token& t) {
    const char c = peek();
    if (is_letter(c)) {
      t.kind = TokenKind::word;
      t.text = name();
    } else if (is_digit(c)) {
      t.kind = TokenKind::number;
      t.text = number();
    } else if (c == '"') {
      t.kind = TokenKind::string;
      t.text = string();
    } else if (c == '%' || c == '@' || c == '$') {
      t.kind = c == '%' ? TokenKind::value : c == '@' ? TokenKind::group : TokenKind::storage;
      ++at_;
      t.quoted = peek() == '"';
      t.text = t.quoted ? string() : name();
      if (t.text.empty() && !t.quoted) fail(errors::kSyntaxError, fmt::format("a name must follow '{}'", c));
    } else {
      t.kind = TokenKind::punct;
      const std::string_view two = text_.substr(at_, 2);
      if (two == "==" || two == "<=" || two == "..") {
        t.text = two;
      } else if (std::string_view("{}()[],:=+-*").find(c) != std::string_view::npos) {
        t.text = text_.substr(at_, 1);
      } else {
        const auto u = static_cast<unsigned char>(c);
        fail(errors::kSyntaxError, u > 0x20 && u < 0x7f ? fmt::format("unexpected character '{}'", c)
                                                        : fmt::format("unexpected byte 0x{:02x}", u));
      }
      at_ += t.text.size();
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (is_name(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string number() {
    const std::size_t begin = at_;
    const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    if (hex) at_ += 2;
    const auto digits = [&] {
      while (hex ? is_hex(peek()) : is_digit(peek())) ++at_;
    };
    digits();
    if (peek() == '.' && peek(1) != '.') {
      ++at_;
      digits();
    }
    const char e = peek();
    if (hex ? (e == 'p' || e == 'P') : (e == 'e' || e == 'E')) {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      while (is_digit(peek())) ++at_;
    }
    if (is_letter(peek())) fail(errors::kBadLiteral, "a word follows the number without a space");
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string string() {
    std::string out;
    for (++at_;; ++at_) {
      if (at_ >= text_.size() || peek() == '\n')
        fail(errors::kBadLiteral, "the string does not end on this line");
      char c = peek();
      if (c == '"') break;
      if (c == '\\') {
        c = peek(1);
        ++at_;
        if (c == 'n') {
          c = '\n';
        } else if (c == 't') {
          c = '\t';
        } else if (c == 'x' && is_hex(peek(1)) && is_hex(peek(2))) {
          c = static_cast<char>(std::stoi(std::string(text_.substr(at_ + 1, 2)), nullptr, 16));
          at_ += 2;
        } else if (c != '"' && c != '\\') {
          fail(errors::kBadLiteral, "unknown escape in a string; valid ones are \\\\ \\\" \\n \\t \\xHH");
        }
      }
      out += c;
    }
    ++at_;
    return out;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text, const std::string& file_name) {
  return Lexer(text, file_name).run();
}

}  // namespace braid::ir
