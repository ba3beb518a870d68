#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>

namespace braid::cli {
namespace {

std::string negative(const std::string& text) {
  return text.starts_with('-') ? "must be at least 0, got " + text : std::string();
}

template <class Number>
CLI::Validator number_from(Number least, Number most) {
  const bool open = most == std::numeric_limits<Number>::max();
  const char* kind = std::is_integral_v<Number> ? "whole number" : "number";
  const auto check = [=](const std::string& text) {
    Number value{};
    const bool read = CLI::detail::lexical_cast(text, value);
    if (read && value >= least && value <= most) return std::string();  // NaN is not
    // Too large for the type: then the message names its limit.
    const bool too_large = open && std::is_integral_v<Number> && !read && !text.empty() &&
                           text.find_first_not_of("0123456789") == std::string::npos;
    return open && !too_large ? fmt::format("must be a {} of at least {}, got {}", kind, least, text)
                              : fmt::format("must be a {} from {} to {}, got {}", kind, least, most, text);
  };
  return {check, open ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most)};
}

}  // namespace

Check not_empty() {
  return
      [](const std::string& text) { return text.empty() ? std::string("must not be empty") : std::string(); };
}

Check finite_not_negative() {
  return [](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return end != text.c_str() && *end == '\0' && std::isfinite(value) && value >= 0
               ? std::string()
               : "must be a finite number of at least 0, got " + text;
  };
}

Argument Argument::required() const { return Argument(*option_->required()); }
Argument Argument::check(const Check& check) const { return Argument(*option_->check(check)); }
Argument Argument::one_of(const std::vector<std::string>& values) const {
  return Argument(*option_->check(CLI::IsMember(values)));
}
template <class Number>
Argument Argument::from(Number least, Number most) const {
  return Argument(*option_->check(number_from(least, most)));
}
Argument Argument::not_negative() const { return Argument(*option_->check(negative)); }
Argument Argument::bytes() const {
  return Argument(*option_->check(negative)->transform(CLI::AsSizeValue(true)));
}
Argument Argument::one_value() const { return Argument(*option_->allow_extra_args(false)); }
Argument Argument::comma_separated() const { return Argument(*option_->delimiter(',')); }
Argument Argument::type_name(const std::string& name) const { return Argument(*option_->type_name(name)); }
Argument Argument::excludes(Argument other) const { return Argument(*option_->excludes(other.option_)); }
Argument Argument::excludes(const std::string& name) const { return Argument(*option_->excludes(name)); }
Argument Argument::needs(Argument other) const { return Argument(*option_->needs(other.option_)); }

Command Command::subcommand(const std::string& name, const std::string& help) const {
  return Command(*app_->add_subcommand(name, help));
}
void Command::require_subcommand() const { app_->require_subcommand(1); }
void Command::footer(const std::string& text) const { app_->footer(text); }
void Command::callback(const std::function<void()>& action) const { app_->callback(action); }
std::size_t Command::count(const std::string& option) const { return app_->count(option); }

template <class Value>
Argument Command::option(const std::string& name, Value& value, const std::string& help) const {
  return Argument(*app_->add_option(name, value, help));
}
Argument Command::option(const std::string& name, const std::function<void(const std::string&)>& given,
                         const std::string& help) const {
  return Argument(*app_->add_option_function<std::string>(name, given, help));
}
Argument Command::flag(const std::string& name, bool& value, const std::string& help) const {
  return Argument(*app_->add_flag(name, value, help));
}
Argument Command::flag(const std::string& name, const std::function<void()>& given,
                       const std::string& help) const {
  return Argument(*app_->add_flag_callback(name, given, help));
}

OptionGroup::OptionGroup(Command command, const std::string& name) : command_(command) {
  command_.app().option_defaults()->group(name);
}
OptionGroup::~OptionGroup() { command_.app().option_defaults()->group("Options"); }

template Argument Argument::from(int, int) const;
template Argument Argument::from(std::int64_t, std::int64_t) const;
template Argument Argument::from(double, double) const;
template Argument Command::option(const std::string&, int&, const std::string&) const;
template Argument Command::option(const std::string&, std::int64_t&, const std::string&) const;
template Argument Command::option(const std::string&, double&, const std::string&) const;
template Argument Command::option(const std::string&, std::string&, const std::string&) const;
template Argument Command::option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Argument Command::option(const std::string&, std::optional<int>&, const std::string&) const;
template Argument Command::option(const std::string&, std::optional<std::int64_t>&, const std::string&) const;
template Argument Command::option(const std::string&, std::optional<std::uint64_t>&,
                                  const std::string&) const;
template Argument Command::option(const std::string&, std::optional<std::string>&, const std::string&) const;

}  // namespace braid::cli
