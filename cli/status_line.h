// Shows what a long command is doing, on one line of a terminal's standard error. Elsewhere nothing is
// printed.
#pragma once

#include <string_view>

namespace braid::cli {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Replaces the line.
  void show(std::string_view text);
  // To be called before anything else is printed.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
};

}  // namespace braid::cli
