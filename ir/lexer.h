// Tokens of the text format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace braid::ir {

enum class TokenKind : std::uint8_t {
  end,
  word,     // graph, batch, f32
  string,   // "..." ; text is unescaped
  number,   // 12, 1.5, 0x1p-3, 1e+20; text as written
  value,    // %name; also %0 and %"odd name"
  group,    // @name
  storage,  // $name
  punct,    // one of { } ( ) [ ] , : = + - * == <= ..
};

struct Token {
  TokenKind kind = TokenKind::end;
  bool quoted = false;  // value, group, storage: the name was quoted
  int line = 1;
  int column = 1;
  std::string text;
};

// Text that is not a token is a user error (BR0501, BR0502). Comments run from // to the end of the line.
std::vector<Token> tokenize(std::string_view text, const std::string& file_name);

}  // namespace braid::ir
