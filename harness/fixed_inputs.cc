#include "harness/fixed_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "frontend/tensor_file.h"
#include "harness/npy.h"
#include "ir/element.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::harness {
namespace {

// Reads numbers and nested lists of one shape.
class Literals {
 public:
  explicit Literals(std::string_view text) : rest_(text) {}

  // nullopt: malformed.
  std::optional<ir::Tensor> tensor() {
    if (!value(0) || !rest_.empty()) return std::nullopt;
    const bool real = std::ranges::any_of(
        values_, [](const ir::Literal& value) { return std::holds_alternative<double>(value); });
    const ir::DType dtype = real ? ir::DType::f64 : ir::DType::i64;
    ir::Tensor result = ir::make_tensor(dtype, sizes_);
    for (std::size_t k = 0; k < values_.size(); ++k) {
      ir::Literal value = values_[k];
      if (const auto* integer = std::get_if<std::int64_t>(&value); real && integer != nullptr)
        value = static_cast<double>(*integer);
      ir::write_element(dtype, result.bytes.data() + 8 * k, value);
    }
    return result;
  }

 private:
  static constexpr std::size_t kMostLevels = 64;

  bool value(std::size_t level) {
    skip_spaces();
    return take('[') ? list(level) : number(level);
  }

  bool list(std::size_t level) {
    if (level >= kMostLevels || (leaves_ && *leaves_ == level)) return false;
    const bool first = sizes_.size() == level;
    if (first) sizes_.push_back(0);
    std::int64_t size = 0;
    skip_spaces();
    while (!take(']')) {
      if (size++ > 0 && !take(',')) return false;
      if (!value(level + 1)) return false;
      skip_spaces();
    }
    if (std::exchange(seen_[level], true)) return sizes_[level] == size;
    sizes_[level] = size;
    return true;
  }

  bool number(std::size_t level) {
    if (leaves_.value_or(level) != level || sizes_.size() != level) return false;
    leaves_ = level;
    for (const auto& [word, truth] : {std::pair("true", 1), std::pair("false", 0)}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(std::string_view(word).size());
      values_.emplace_back(std::int64_t{truth});
      return true;
    }
    const char *const begin = rest_.data(), *const end = begin + rest_.size();
    std::int64_t integer = 0;
    double real = 0;
    const auto as_integer = std::from_chars(begin, end, integer);
    const auto as_real = std::from_chars(begin, end, real);
    if (as_real.ec != std::errc()) return false;
    const bool whole = as_integer.ec == std::errc() && as_integer.ptr == as_real.ptr;
    values_.emplace_back(whole ? ir::Literal(integer) : ir::Literal(real));
    rest_.remove_prefix(static_cast<std::size_t>(as_real.ptr - begin));
    skip_spaces();
    return true;
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  std::vector<std::int64_t> sizes_;
  std::optional<std::size_t> leaves_;  // the level of numbers
  bool seen_[kMostLevels] = {};        // levels with a complete list
  std::vector<ir::Literal> values_;
};

frontend::FixedInput read_value(const std::string& text, const std::string& value) {
  if (value.ends_with(".npy")) return {read_npy(value)};
  if (value.ends_with(".pb")) return {frontend::read_tensor_file(value).tensor};
  std::optional<ir::Tensor> literal = Literals(value).tensor();
  if (!literal)
    ir::user_error(errors::kBadOption, {}, fmt::format("--bind {}: malformed", text),
                   "write --bind INPUT=VALUE with a number, nested lists such as [[1,2],[3,4]], or FILE.npy");
  return {std::move(*literal), true};
}

}  // namespace

frontend::FixedInputs read_fixed_inputs(const std::vector<std::string>& texts) {
  frontend::FixedInputs all;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      ir::user_error(errors::kBadOption, {}, fmt::format("--bind {}: malformed", text),
                     "write --bind INPUT=VALUE");
    std::string name = text.substr(0, equals);
    frontend::FixedInput value = read_value(text, text.substr(equals + 1));
    if (!all.emplace(name, std::move(value)).second)
      ir::user_error(errors::kBadOption, {}, fmt::format("--bind {} is given twice", name),
                     "give each input once");
  }
  return all;
}

}  // namespace braid::harness
