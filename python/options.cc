#include "python/options.h"

#include <fmt/format.h>

#include <sstream>

#include "driver/split_texts.h"
#include "explain/overlap_log.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "passes/pass.h"
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

}  // namespace

CompileOptions compile_options(const nb::dict& given) {
  using Names = std::vector<std::string>;
  for (const std::string& path : value(given, "plugins", Names{})) passes::load_plugin(path);
  CompileOptions options;
  options.model = value<std::string>(given, "model", "");
  options.name = value<std::string>(given, "name", "");
  options.output_dir = value<std::string>(given, "output", "");
  options.import.ranks = value(given, "ranks", 1);
  options.split = {value(given, "devices", 0), value(given, "tp", 0), value<std::string>(given, "plan", ""),
                   false, value<std::string>(given, "mesh", "")};
  options.split.python = true;
  options.split.configuration = value<std::string>(given, "configuration", "");
  for (const auto& [name, min, max] :
       value(given, "dims", std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>{}))
    options.import.dims[name] = {min, max};
  options.import.aliases = value(given, "aliases", std::vector<std::pair<std::string, std::string>>{});
  options.split.caches = value(given, "split_caches", false);
  const auto at = value(given, "at", Names{}), with = value(given, "with", Names{});
  if (!options.split.wanted() && (options.split.caches || !at.empty() || !with.empty()))
    ir::user_error(errors::kBadOption, {}, "with_=, at= and split_caches= are about a split",
                   "give devices=, tp= or mesh=");
  read_split_texts(options, at, with);
  for (const auto& [name, tensor] : value(given, "bindable", nb::dict())) {
    const auto key = nb::cast<std::string>(name);
    Borrowed borrowed;
    borrowed.borrow_any(tensor, key);
    options.import.bindable.emplace(key, to_ir(borrowed.view()));
  }
  if (const auto passes = value<std::string>(given, "passes", ""); !passes.empty()) options.passes = passes;
  options.machine = value<std::string>(given, "machine", "");
  if (const auto cap = value<std::int64_t>(given, "memory_cap", -1); cap >= 0) options.memory_cap = cap;
  if (auto log = explain::overlap_log_observer()) options.run.observers.push_back(*log);

  const auto target = value<std::string>(given, "target", "cpu");
  if (target == "interpreter") return options;
  const std::size_t colon = target.find(':');
  options.target = target.substr(0, colon);
  const codegen::Target& known = codegen::target_named(options.target);
  if (colon == std::string::npos) return options;
  if (!known.has_architectures) {
    ir::user_error(errors::kBadOption, {},
                   "target='" + target + "': " + options.target + " has no architectures",
                   "write target='" + options.target + "'");
  }
  std::istringstream list(target.substr(colon + 1));
  for (std::string one; std::getline(list, one, ',');) options.architectures.push_back(one);
  return options;
}

Unfinished::Unfinished(const nb::dict& options) {
  for (const std::string& folder : value(options, "temporary", std::vector<std::string>{}))
    folders_.emplace_back(folder);
}

}  // namespace braid::python
