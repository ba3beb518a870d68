#include "codegen/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cpp/target.h"
#include "codegen/cuda/target.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::codegen {

namespace {

std::deque<Target>& table() {
  static std::deque<Target> all = {cpp::target(), cuda::target()};
  return all;
}

}  // namespace

const std::deque<Target>& targets() { return table(); }

void register_target(Target target) {
  ir::internal_check(find_target(target.name) == nullptr, "there is a target '{}' already", target.name);
  table().push_back(std::move(target));
}

const Target* find_target(std::string_view name) {
  const auto is = [&](const Target& t) { return t.name == name; };
  const auto at = std::find_if(targets().begin(), targets().end(), is);
  return at == targets().end() ? nullptr : &*at;
}

const Target& target_named(std::string_view name) {
  if (const Target* target = find_target(name)) return *target;
  std::vector<std::string> names;
  for (const Target& t : targets()) names.push_back(t.name + (t.has_architectures ? "[:sm_80,sm_90]" : ""));
  ir::user_error(errors::kBadOption, {}, fmt::format("--target {}: unknown target", name),
                 fmt::format("the targets are {}", fmt::join(names, ", ")));
}

}  // namespace braid::codegen
