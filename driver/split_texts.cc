#include "driver/split_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "frontend/import.h"
#include "frontend/signature.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid {

namespace {

constexpr std::int64_t kMostSteps = 1'000'000;

// Parses "sequence=1,past=512*100" of an option that was given as `whole`; without sizes only if
// `may_be_empty`.
StepSizes parse_sizes(std::string_view rest, const std::string& whole, const std::string& form,
                      bool may_be_empty) {
  StepSizes sizes;
  const auto refuse = [&](const std::string& why) {
    ir::user_error(errors::kBadOption, {}, fmt::format("{}: {}", whole, why), form);
  };
  const auto count = [&](std::string_view digits) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size() || value < 0)
      refuse(fmt::format("'{}' is no size", digits));
    return value;
  };
  if (const std::size_t star = rest.rfind('*'); star != std::string_view::npos) {
    sizes.steps = count(rest.substr(star + 1));
    if (sizes.steps < 1 || sizes.steps > kMostSteps)
      refuse(fmt::format("expected 1 to {} steps", kMostSteps));
    rest = rest.substr(0, star);
  }
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const std::size_t equals = one.rfind('=');
    if (equals == std::string_view::npos || equals == 0) refuse(fmt::format("'{}' is no NAME=SIZE", one));
    if (!sizes.dims.emplace(one.substr(0, equals), count(one.substr(equals + 1))).second)
      refuse(fmt::format("'{}' is given twice", one.substr(0, equals)));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  if (sizes.dims.empty() && !may_be_empty) refuse("no sizes");
  return sizes;
}

// "decode.onnx:past=512*100": sizes follow the last ':' if a '=' comes after it.
SplitWith parse_with(const std::string& text, const CompileOptions& options) {
  const std::string_view whole = text;
  const std::size_t star = whole.rfind('*'), colon = whole.rfind(':');
  std::size_t end = std::min(whole.size(), star);
  if (colon != std::string_view::npos && whole.find('=', colon) != std::string_view::npos)
    end = std::min(end, colon);
  SplitWith with;
  with.model = whole.substr(0, end);
  const std::string form = "write FILE, FILE*STEPS or FILE:NAME=SIZE,NAME=SIZE*STEPS";
  if (with.model.empty())
    ir::user_error(errors::kBadOption, {}, options.option("with", text) + ": no file", form);
  std::string_view rest = whole.substr(end);
  if (rest.starts_with(':')) rest.remove_prefix(1);
  with.sizes = parse_sizes(rest, options.option("with", text), form, end != colon);
  return with;
}

struct Names {
  std::set<std::string> dims, inputs, outputs;
  explicit Names(const std::string& model) : dims(frontend::dimension_names(model)) {
    const frontend::Signature signature = frontend::read_signature(model);
    for (const frontend::SignatureValue& value : signature.inputs) inputs.insert(value.name);
    for (const frontend::SignatureValue& value : signature.outputs) outputs.insert(value.name);
  }
  bool has(const std::pair<std::string, ir::Bounds>& dim) const { return dims.count(dim.first) > 0; }
  bool has(const std::pair<std::string, std::string>& alias) const {
    return outputs.count(alias.first) > 0 && inputs.count(alias.second) > 0;
  }
};

bool is_one_plain_model(const std::string& model) {
  return !is_text(model) && model.find("{rank}") == std::string::npos;
}

void add_programs(CompileOptions& options, const std::vector<std::string>& with, const MoreDims& more_dims) {
  // A model that is not one plain ONNX file is refused later.
  if (with.empty() || !is_one_plain_model(options.model)) return;
  const std::optional<Names> own =
      options.model.empty() ? std::nullopt : std::optional<Names>(options.model);  // `test` has many
  std::vector<Names> others;
  for (const std::string& text : with) {
    SplitWith program = parse_with(text, options);
    if (is_one_plain_model(program.model)) {
      const Names& names = others.emplace_back(program.model);
      for (const auto& dim : options.import.dims)
        if (names.has(dim)) program.dims.insert(dim);
      if (more_dims) program.dims.merge(more_dims(program.model));
      for (const auto& alias : options.import.aliases)
        if (names.has(alias)) program.aliases.push_back(alias);
    }
    options.split.with.push_back(std::move(program));
  }
  const auto is_others = [&](const auto& one) {
    return own && !own->has(one) &&
           std::ranges::any_of(others, [&](const Names& names) { return names.has(one); });
  };
  std::erase_if(options.import.dims, [&](const auto& dim) { return is_others(dim); });
  std::erase_if(options.import.aliases, [&](const auto& alias) { return is_others(alias); });
}

}  // namespace

void read_split_texts(CompileOptions& options, const std::vector<std::string>& at,
                      const std::vector<std::string>& with, const MoreDims& more_dims) {
  for (const std::string& text : at)
    options.split.sizes.push_back(parse_sizes(
        text, options.option("at", text),
        "write NAME=SIZE,NAME=SIZE, and *STEPS behind them for more than one step", !with.empty()));
  add_programs(options, with, more_dims);
}

}  // namespace braid
