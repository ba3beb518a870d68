// The table of options of compiling a model: the command line, Python and docs/python.md read it, so that a
// new option is one row here and its member.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "driver/model_options.h"

namespace braid {

using OptionValue =
    std::variant<bool*, int*, double*, std::string*, std::vector<std::string>*, std::optional<int>*,
                 std::optional<std::int64_t>*, std::optional<std::string>*>;

struct OptionTraits {
  double least = 0, most = 0;    // of a number; equal: all are legal
  std::string_view choices;      // "f32,bf16": the legal texts; empty: all are
  bool bytes = false;            // may have a unit on the command line: 40GB
  bool commas = false;           // on the command line, one text is a list
  std::string_view python = {};  // keyword of Python; empty: `name` with '_' for '-'
  bool keyword =
      true;  // Python takes the same values; otherwise it lacks the option or has a form of its own
};

struct Option {
  std::string_view name;     // --NAME
  std::string_view heading;  // of --help; empty: only `braid compile` has the option
  OptionValue (*value)(ModelOptions&);
  std::string_view help;  // "{tp}" and "{tp 4}" stand for the option of this name as the caller writes it
  OptionTraits traits = {};

  std::string keyword() const;  // of Python
};

std::span<const Option> option_table();
// InternalError for an unknown name.
const Option& option_named(std::string_view name);
std::string help_text(const Option& option, OptionStyle style);

}  // namespace braid
