#include "ir/error.h"

namespace braid::ir {
namespace {

std::string render(int code, const Location& at, const std::string& message, const std::string& hint) {
  std::string text = fmt::format("error BR{:04}: ", code);
  if (!at.file.empty()) {
    text += at.file;
    if (at.line > 0) text += fmt::format(":{}:{}", at.line, at.column);
    text += ": ";
  } else if (at.line > 0) {
    text += fmt::format("{}:{}: ", at.line, at.column);
  }
  if (!at.node.empty()) text += fmt::format("node '{}'", at.node);
  if (!at.op.empty()) text += at.node.empty() ? fmt::format("op {}", at.op) : fmt::format(" ({})", at.op);
  if (!at.node.empty() || !at.op.empty()) text += ": ";
  text += message;
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

}  // namespace

UserError::UserError(int code, Location location, std::string message, std::string hint)
    : std::runtime_error(render(code, location, message, hint)),
      code_(code),
      location_(std::move(location)),
      message_(std::move(message)),
      hint_(std::move(hint)) {}

void user_error(int code, Location location, std::string message, std::string hint) {
  throw UserError(code, std::move(location), std::move(message), std::move(hint));
}

}  // namespace braid::ir
