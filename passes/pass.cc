#include "passes/pass.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "passes/default_passes.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace detail {
namespace {

template <class T>
bool parse_number(std::string_view text, T& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_value(std::string_view text, bool& out) {
  if (text != "true" && text != "false" && text != "1" && text != "0") return false;
  out = text == "true" || text == "1";
  return true;
}
bool parse_value(std::string_view text, std::int64_t& out) { return parse_number(text, out); }
bool parse_value(std::string_view text, double& out) { return parse_number(text, out); }
bool parse_value(std::string_view text, std::string& out) {
  out = text;
  return true;
}

constexpr std::string_view kTypeNames[] = {"true or false", "an integer", "a number", "a text"};

}  // namespace

void assign_option(const std::string& pass, const std::string& option, OptionRef target,
                   std::string_view text) {
  const bool ok = std::visit([&](auto* p) { return parse_value(text, *p); }, target);
  if (!ok) {
    ir::user_error(errors::kBadPassOption, {},
                   fmt::format("option '{}' of pass '{}' cannot be '{}'", option, pass, text),
                   fmt::format("it is {}", kTypeNames[target.index()]));
  }
}

std::string show_option(OptionRef value) {
  return std::visit([](auto* p) { return fmt::format("{}", *p); }, value);
}

void unknown_option(const std::string& pass, const std::string& option, std::span<const OptionInfo> known) {
  std::vector<std::string> names;
  for (const OptionInfo& o : known) names.push_back(o.name);
  ir::user_error(
      errors::kUnknownPassOption, {}, fmt::format("pass '{}' has no option '{}'", pass, option),
      names.empty() ? "it has no options" : fmt::format("its options are: {}", fmt::join(names, ", ")));
}

}  // namespace detail

struct Pass::Callable final : Pass::Concept {
  std::function<bool(ir::Schedule&, PassContext&)> function;
  bool run(ir::Schedule& schedule, PassContext& context) override { return function(schedule, context); }
  std::unique_ptr<Concept> clone() const override { return std::make_unique<Callable>(*this); }
  std::vector<OptionInfo> options() const override { return {}; }
  void set_option(const std::string& option, std::string_view) override {
    detail::unknown_option(name, option, {});
  }
};

Pass::Pass(std::string name, std::function<bool(ir::Schedule&)> run, bool may_reorder_collectives)
    : Pass(
          std::move(name), [run = std::move(run)](ir::Schedule& s, PassContext&) { return run(s); },
          may_reorder_collectives) {}

Pass::Pass(std::string name, std::function<bool(ir::Schedule&, PassContext&)> run,
           bool may_reorder_collectives) {
  auto callable = std::make_shared<Callable>();
  callable->name = std::move(name);
  callable->description = "a function of the calling program";
  callable->may_reorder_collectives = may_reorder_collectives;
  callable->function = std::move(run);
  model_ = std::move(callable);
}

bool Pass::run(ir::Schedule& schedule) const {
  PassContext context;
  return run(schedule, context);
}

void Pass::set_option(const std::string& name, std::string_view value) {
  model_ = model_->clone();  // copies of a pass do not share options
  model_->set_option(name, value);
}

void PassRegistry::add(Pass prototype) {
  const std::string name = prototype.name();
  ir::internal_check(passes_.emplace(name, std::move(prototype)).second, "pass '{}' is registered twice",
                     name);
}

Pass PassRegistry::make(const std::string& name) const {
  const auto found = passes_.find(name);
  if (found != passes_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, pass] : passes_) names.push_back(known);
  ir::user_error(errors::kUnknownPass, {}, fmt::format("there is no pass '{}'", name),
                 fmt::format("passes: {}", fmt::join(names, ", ")));
}

std::vector<Pass> PassRegistry::all() const {
  std::vector<Pass> out;
  for (const auto& [name, pass] : passes_) out.push_back(pass);
  return out;
}

PassRegistry& pass_registry() {
  static PassRegistry registry = [] {
    PassRegistry r;
    register_builtin_passes(r);
    return r;
  }();
  return registry;
}

void load_plugin(const std::string& path) {
  // A name without a slash would be searched for in the system's library folders, not in the current one.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  std::error_code ignored;  // an absent file: dlopen says more
  const auto status = std::filesystem::status(file, ignored);
  if (std::filesystem::exists(status) &&
      !std::filesystem::is_regular_file(status)) {  // a pipe would wait for its writer
    ir::user_error(errors::kBadPlugin, {.file = path}, "cannot load the plug-in: it is not a file",
                   "a plug-in is a shared library built against this version of braid::compiler");
  }
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    ir::user_error(errors::kBadPlugin, {.file = path},
                   fmt::format("cannot load the plug-in: {}", reason != nullptr ? reason : "unknown reason"),
                   "a plug-in is a shared library built against this version of braid::compiler");
  }
  using Register = void (*)(PassRegistry&);
  // Each compilation of a process names its plug-ins; a library has one handle, and registers once.
  static std::set<void*> registered;
  if (!registered.insert(library).second) return;
  if (auto entry = reinterpret_cast<Register>(dlsym(library, "braid_register_passes")))
    entry(pass_registry());
}

namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

// Splits at commas outside of braces.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (text[i] == ',' && depth == 0) {
      out.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
    if (depth < 0 || depth > 1) break;
  }
  if (depth != 0)
    ir::user_error(errors::kPassListSyntax, {},
                   fmt::format("braces do not match in the pass list '{}'", text), {});
  out.push_back(trim(text.substr(begin)));
  return out;
}

// Splits the options of "name{a=1,b=2}", or of "name:a=1:b=2", which shells do not expand. `mark` is the
// position of the brace or of the first colon.
std::vector<std::string_view> options_of(std::string_view item, std::size_t mark) {
  std::string_view inside = item.substr(mark + 1);
  if (item[mark] == '{') {
    if (item.back() != '}') {
      ir::user_error(errors::kPassListSyntax, {}, fmt::format("'{}' is not a pass with options", item),
                     "write name{option=value,...} or name:option=value:...");
    }
    inside = trim(inside.substr(0, inside.size() - 1));
    return inside.empty() ? std::vector<std::string_view>{} : split_list(inside);
  }
  std::vector<std::string_view> out;
  while (true) {
    const std::size_t colon = inside.find(':');
    out.push_back(trim(inside.substr(0, colon)));
    if (colon == std::string_view::npos) return out;
    inside.remove_prefix(colon + 1);
  }
}

}  // namespace

std::vector<Pass> parse_pass_list(std::string_view text, const PassRegistry& registry) {
  std::vector<Pass> out;
  if (trim(text).empty()) return out;
  for (std::string_view item : split_list(text)) {
    const std::size_t mark = item.find_first_of("{:");
    Pass pass = registry.make(std::string(trim(item.substr(0, mark))));
    if (mark != std::string_view::npos) {
      for (std::string_view option : options_of(item, mark)) {
        const std::size_t equals = option.find('=');
        if (equals == std::string_view::npos) {
          ir::user_error(errors::kPassListSyntax, {},
                         fmt::format("'{}' of pass '{}' is not an option", option, pass.name()),
                         "write name{option=value,...} or name:option=value:...");
        }
        pass.set_option(std::string(trim(option.substr(0, equals))), trim(option.substr(equals + 1)));
      }
    }
    out.push_back(std::move(pass));
  }
  return out;
}

}  // namespace braid::passes
