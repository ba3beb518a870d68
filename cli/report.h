// The output of a command: text for people, and the same as JSON if --json is given.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace braid::cli {

class Report {
 public:
  Report();
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  // The value of --json: empty if it is not given, "-" for standard output.
  std::string& target() { return target_; }
  bool json_to_terminal() const { return target_ == "-"; }

  // Prints on standard output; nothing if the JSON goes there.
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    text(fmt::format(format, std::forward<Args>(args)...));
  }
  void text(std::string_view text) const;

  // The command's part of the JSON, an object.
  nlohmann::ordered_json& json() { return *json_; }

  // Adds "error".
  void failed(const std::exception& error);
  // Writes the JSON, if it was asked for. UserError BR0010.
  void finish(std::string_view command, int exit_code);

 private:
  std::string target_;
  std::unique_ptr<nlohmann::ordered_json> json_;
};

// The error as JSON. A user error has number, message, file, node, operator and hint, empty where not known.
nlohmann::ordered_json error_json(const std::exception& error);

}  // namespace braid::cli
