// The options that are added during its life stand under one heading of --help.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace braid::cli {

class OptionGroup {
 public:
  OptionGroup(CLI::App& command, const std::string& name) : command_(command) {
    command.option_defaults()->group(name);
  }
  ~OptionGroup() { command_.option_defaults()->group("Options"); }
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  CLI::App& command_;
};

}  // namespace braid::cli
