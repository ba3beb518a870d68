// Commands with their options: a thin face of CLI11, whose header alone takes seconds to compile.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace braid::cli {

// Returns why the text of a value is refused, or an empty text.
using Check = std::function<std::string(const std::string& text)>;

Check not_empty();
// A tolerance: not NaN, with which nothing would differ.
Check finite_not_negative();

// An option, a flag or a positional argument.
class Argument {
 public:
  explicit Argument(CLI::Option& option) : option_(&option) {}

  Argument required() const;
  Argument check(const Check& check) const;
  Argument one_of(const std::vector<std::string>& values) const;
  // A number from `least` to `most`. Messages do not name a limit that is the type's own.
  template <class Number>
  Argument from(Number least, Number most = std::numeric_limits<Number>::max()) const;
  // Refuses a minus sign, with which an unsigned number would wrap around.
  Argument not_negative() const;
  Argument bytes() const;            // may have a unit: 40GB
  Argument one_value() const;        // each use takes one value
  Argument comma_separated() const;  // each value may be several
  Argument type_name(const std::string& name) const;
  Argument excludes(Argument other) const;
  Argument excludes(const std::string& name) const;
  Argument needs(Argument other) const;

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App& app) : app_(&app) {}
  CLI::App& app() const { return *app_; }

  Command subcommand(const std::string& name, const std::string& help) const;
  void require_subcommand() const;
  void footer(const std::string& text) const;
  // Called when the command is chosen, after its options are set.
  void callback(const std::function<void()>& action) const;
  // How often an option was given.
  std::size_t count(const std::string& option) const;

  // The value must outlive the parsing.
  template <class Value>
  Argument option(const std::string& name, Value& value, const std::string& help) const;
  Argument option(const std::string& name, const std::function<void(const std::string&)>& given,
                  const std::string& help) const;
  Argument flag(const std::string& name, bool& value, const std::string& help) const;
  Argument flag(const std::string& name, const std::function<void()>& given, const std::string& help) const;

 private:
  CLI::App* app_;
};

// The options that are added during its life stand under one heading of --help.
class OptionGroup {
 public:
  OptionGroup(Command command, const std::string& name);
  ~OptionGroup();
  OptionGroup(const OptionGroup&) = delete;
  OptionGroup& operator=(const OptionGroup&) = delete;

 private:
  Command command_;
};

}  // namespace braid::cli
