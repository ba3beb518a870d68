// Two loops for sin and cos: for arguments that are all narrow, and for others.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

std::vector<std::string> KernelEmitter::angles_of(const NestGroup& group) const {
  constexpr int kCheap = 8;
  if (order_.size() != 1 || !group.reduced.empty() || group.columns || !sites_.empty() || vectors_are_outer())
    return {};
  return angle_work_ <= kCheap ? angles_ : std::vector<std::string>();
}

void KernelEmitter::write_by_angle(const std::vector<std::string>& angles) {
  std::vector<std::string>& out = outer_lines_;
  const std::vector<std::string>& lines = inner_lines_[0];
  const std::string wide = fmt::format("wide{}", counter_++);
  std::size_t tested = 0;  // lines up to the last of the angles
  for (std::size_t k = 0; k < lines.size(); ++k) {
    if (std::ranges::any_of(
            angles, [&](const std::string& a) { return lines[k].starts_with("const float " + a + " "); }))
      tested = k + 1;
  }
  const bool shared = nest_.flat;
  const auto open = [&](bool tests) {
    if (shared)
      out.push_back(team_loop(text(order_extent(0)), total_work_,
                              tests ? std::vector{wide} : std::vector<std::string>()));
    if (shared && tests) out.push_back("int wide = 0;");
    out.push_back(tests ? fmt::format("{} reduction(| : {})", wide_pragma(4), shared ? "wide" : wide)
                        : wide_pragma(4));
    out.push_back(shared ? part_head(order_[0]) : loop_head(order_[0]) + " {");
  };
  out.push_back(fmt::format("int {} = 0;", wide));
  open(true);
  for (std::size_t k = 0; k < tested; ++k) {
    if (lines[k].starts_with("const ")) out.push_back(lines[k]);
  }
  for (const std::string& angle : angles)
    out.push_back(fmt::format("{} |= is_wide_angle({});", shared ? "wide" : wide, angle));
  out.push_back("}");
  if (shared) {
    out.push_back(fmt::format("if (wide != 0) __atomic_store_n(&{}, 1, __ATOMIC_RELAXED);", wide));
    out.push_back("});");
  }
  for (const bool narrow : {true, false}) {
    out.push_back(fmt::format("if ({} {} 0) {{", wide, narrow ? "==" : "!="));
    open(false);
    for (const std::string& line : lines) out.push_back(narrow ? with_narrow_angles(line) : line);
    out.push_back("}");
    if (shared) out.push_back("});");
    out.push_back("}");
  }
}

std::string KernelEmitter::with_narrow_angles(std::string line) const {
  const bool turns = std::any_of(turned_.begin(), turned_.end(),
                                 [&](const std::string& start) { return line.starts_with(start); });
  if (turns) line.insert(line.find('('), "_narrow");
  return line;
}

}  // namespace braid::codegen::cpp
