#include "codegen/cpp/kernel_emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cpp/kernel_emitter.h"
#include "ir/error.h"

namespace braid::codegen::cpp {

using namespace ir;

KernelText KernelEmitter::emit() {
  style_ = expr_style([this](Expr s) { return symbol(s); }, nest_.extents);
  collect_buffers();
  for (const NestGroup& group : nest_.groups) {
    if (group.transposed && is_copy(group)) {
      emit_transposition(group);
    } else {
      emit_group(group);
    }
  }
  assemble();
  return std::move(out_);
}

void KernelEmitter::assemble() {
  Writer w;
  w.open("{");
  for (const std::string& line : invariant_) w.line(line);
  Expr outer_trips = 1;
  for (int k = 0; k < nest_.outer; ++k)
    outer_trips = outer_trips * nest_.extents[static_cast<std::size_t>(k)];
  if (nest_.outer > 0) {
    const bool scratch = std::ranges::any_of(scratches_, [](const auto& s) { return s.second.offset >= 0; });
    w.open(team_loop(text(outer_trips), outer_trips * total_work_, {}, scratch));
    if (vectors_are_outer()) w.line("#pragma omp simd");
    if (nest_.outer == 1) {
      w.open(part_head(0));
    } else {
      w.open("for (int64_t i = begin; i < end; ++i) {");
      Expr inner = 1;
      std::vector<std::string> index(static_cast<std::size_t>(nest_.outer));
      for (int k = nest_.outer - 1; k >= 0; --k) {
        const Expr extent = nest_.extents[static_cast<std::size_t>(k)];
        std::string e = inner.is_constant(1) ? "i" : fmt::format("i / {}", size(inner));
        if (k > 0) e += fmt::format(" % {}", size(extent));
        index[static_cast<std::size_t>(k)] = fmt::format("const int64_t i{} = {};", k, e);
        inner = inner * extent;
      }
      for (const std::string& line : index) w.line(line);
    }
  }
  for (const LocalBuffer& l : nest_.locals) {
    const auto found = scratches_.find(l.buffer);
    if (found == scratches_.end()) continue;
    const Scratch& s = found->second;
    if (s.offset < 0)
      w.line(fmt::format("alignas(64) {} {}[{}];", s.type, s.name, s.elements));
    else
      w.line(fmt::format("{0}* const {1} = at<{0}>(scratch, {2}{3});", s.type, s.name,
                         nest_.outer > 0 ? "thread * scratch_stride + " : "", s.offset));
  }
  for (const std::string& line : outer_lines_) {
    const bool opens = line.ends_with(" {");
    if (line == "}" || line == "});")
      w.close(line);
    else if (opens)
      w.open(line);
    else
      w.line(line);
  }
  if (nest_.outer > 0) {
    w.close();
    w.close("});");
  }
  w.close();
  out_.body = w.text();
  parameters();
}

KernelText emit_kernel(const Graph& graph, const LoopNest& nest, const Overlap& overlap) {
  return KernelEmitter(graph, nest, overlap).emit();
}

}  // namespace braid::codegen::cpp
