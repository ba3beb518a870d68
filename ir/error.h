// The two kinds of errors.
//
// A user error is caused by what the user supplied: it has a number with a section in docs/errors.md, says
// where the error is, what was expected and what to do, and ends the program with an exit code that follows
// from the number (cli/exit_codes.h). An internal error is a broken invariant of the compiler: it names the
// pass and the node and ends the program with exit code 70.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace braid::ir {

// Where an error was found. Empty fields are not printed.
struct Location {
  std::string file;  // model or text file
  std::string node;  // ONNX node or IR operation
  std::string op;    // operator type
  int line = 0;      // 1-based; 0: not a text file
  int column = 0;    // 1-based
};

class UserError : public std::runtime_error {
 public:
  UserError(int code, Location location, std::string message, std::string hint);

  int code() const { return code_; }
  const Location& location() const { return location_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }

 private:
  int code_;
  Location location_;
  std::string message_;
  std::string hint_;
};

class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Throws a UserError. `what()` reads "error BR0123: FILE: node 'N' (Op): message\n  hint: ...".
[[noreturn]] void user_error(int code, Location location, std::string message, std::string hint = {});

// Throws an InternalError with the message when `condition` does not hold.
template <class... Args>
void internal_check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace braid::ir
