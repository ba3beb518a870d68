#include "python/options.h"

#include <fmt/format.h>

#include <iterator>
#include <variant>

#include "driver/option_table.h"
#include "explain/overlap_log.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "python/exchange.h"
#include "python/program.h"

namespace braid::python {
namespace {

template <class T>
T value(const nb::dict& options, const char* name, T otherwise) {
  if (!options.contains(name)) return otherwise;
  const nb::object given = options[name];
  if (given.is_none()) return otherwise;
  try {
    return nb::cast<T>(given);
  } catch (const nb::cast_error&) {
    ir::user_error(errors::kBadOption, {},
                   fmt::format("{}={} has the wrong type, or is too large", name,
                               nb::cast<std::string>(nb::repr(given))),
                   "see help(braid.compile)");
  }
}

// The types of values as Python calls them; "texts": a list. In the order of OptionValue.
constexpr const char* kKinds[] = {"bool", "int", "float", "str", "texts", "int", "int", "str"};
static_assert(std::size(kKinds) == std::variant_size_v<OptionValue>);

}  // namespace

nb::list option_rows() {
  ModelOptions defaults;
  nb::list rows;
  for (const Option& option : option_table()) {
    if (!option.traits.keyword) continue;
    const OptionValue value = option.value(defaults);
    const nb::object otherwise = std::visit([](auto* member) { return nb::cast(*member); }, value);
    rows.append(nb::make_tuple(
        option.keyword(), kKinds[value.index()], otherwise, help_text(option, OptionStyle::python),
        option.traits.least, option.traits.most, std::string(option.traits.choices), option.heading.empty()));
  }
  return rows;
}

CompileOptions compile_options(const nb::dict& given) {
  ModelOptions options;
  options.style = OptionStyle::python;
  options.model = value<std::string>(given, "model", "");
  options.output_dir = value<std::string>(given, "output", "");
  for (const Option& option : option_table()) {
    if (!option.traits.keyword) continue;
    const OptionValue member = option.value(options);
    std::visit([&](auto* it) { *it = value(given, option.keyword().c_str(), *it); }, member);
    if (const auto* bytes = std::get_if<std::optional<std::int64_t>*>(&member))
      if (**bytes && ***bytes < 0) (*bytes)->reset();  // it means none
  }
  for (const auto& [name, min, max] :
       value(given, "dims", std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>{}))
    options.import.dims[name] = {min, max};
  options.import.aliases = value(given, "aliases", std::vector<std::pair<std::string, std::string>>{});
  for (const auto& [name, tensor] : value(given, "bindable", nb::dict())) {
    const auto key = nb::cast<std::string>(name);
    Borrowed borrowed;
    borrowed.borrow_any(tensor, key);
    options.import.bindable.emplace(key, to_ir(borrowed.view()));
  }
  for (const auto& [name, given_value] : value(given, "fixed", nb::dict())) {
    const auto key = nb::cast<std::string>(name);
    const auto pair = nb::cast<nb::tuple>(given_value);  // the array, and whether it was written as a literal
    Borrowed borrowed;
    borrowed.borrow_any(pair[0], key);
    options.import.fixed[key] = {to_ir(borrowed.view()), nb::cast<bool>(pair[1])};
  }
  if (options.target == "interpreter") options.target = "cpu";
  if (auto log = explain::overlap_log_observer()) options.run.observers.push_back(*log);
  return options.compile_options();
}

Unfinished::Unfinished(const nb::dict& options) {
  for (const std::string& folder : value(options, "temporary", std::vector<std::string>{}))
    folders_.emplace_back(folder);
}

}  // namespace braid::python
