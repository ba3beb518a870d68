#include "codegen/cuda/declared_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "codegen/cuda/kernel.h"
#include "ir/error.h"
#include "ir/in_place_collectives.h"

namespace braid::codegen::cuda {
namespace {

using ir::Expr;

// Rows of bytes, relative to the storage.
struct Bytes {
  Expr first, bytes, rows = 1, pitch = 0;
};

struct Dim {
  Expr size, stride;  // elements
};

// 1, or 0 where one of the dimensions has no elements.
Expr any_of(const std::vector<Dim>& dims) {
  Expr any = 1;
  for (const Dim& d : dims) {
    if (!ir::provably_less(0, d.size)) any = any * ir::min(1, d.size);
  }
  return any;
}

// The elements first + sum(ik * stride) as rows; nullopt if a stride's sign is unknown.
std::optional<Bytes> rows_of(Expr first_byte, std::vector<Dim> dims, std::int64_t item) {
  std::vector<Dim> repeated;
  std::ranges::copy_if(dims, std::back_inserter(repeated),
                       [](const Dim& d) { return d.stride.is_constant(0); });
  const Expr any = any_of(repeated);
  std::erase_if(dims, [](const Dim& d) { return d.size.is_constant(1) || d.stride.is_constant(0); });
  if (std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return !ir::provably_less(0, d.stride); }))
    return std::nullopt;
  // An outer dimension without gaps between its parts is one with the inner one.
  for (std::size_t inner = 0; inner < dims.size(); ++inner) {
    const auto outer = std::find_if(dims.begin(), dims.end(), [&](const Dim& d) {
      return d.stride == dims[inner].stride * dims[inner].size;
    });
    if (outer == dims.end() || outer == dims.begin() + static_cast<std::ptrdiff_t>(inner)) continue;
    dims[inner].size = dims[inner].size * outer->size;
    dims.erase(outer);
    inner = static_cast<std::size_t>(-1);  // from the beginning
  }
  Expr run = 1;  // elements
  const auto unit =
      std::find_if(dims.begin(), dims.end(), [](const Dim& d) { return d.stride.is_constant(1); });
  if (unit != dims.end()) {
    run = unit->size;
    dims.erase(unit);
  }
  if (dims.size() == 1 && ir::provably_non_negative(dims[0].stride - run))
    return Bytes{first_byte, any * run * item, dims[0].size, dims[0].stride * item};
  const Expr all = any * any_of(dims);
  for (const Dim& d : dims) run = run + d.stride * (d.size - 1);
  return Bytes{first_byte, all * run * item};
}

Expr end_of(const Bytes& b) { return b.first + b.pitch * (b.rows - 1) + b.bytes; }

// Returns the bytes that a loop reaches through an index that is linear in its own indices; nullopt for other
// indices.
std::optional<Bytes> reached(const ir::Graph& graph, const ir::Access& access) {
  const ir::MemoryDep& dep = *access.dep;
  const std::int64_t item = ir::size_of(graph[access.buffer].dtype);
  bool direct = true;
  ir::for_each_symbol(dep.index, [&](Expr s) { direct = direct && !s.is_symbol(ir::SymbolKind::value); });
  if (!direct) return std::nullopt;
  std::vector<Dim> dims;
  const std::vector<Expr> zeros(dep.sizes.size(), Expr(0));
  for (std::size_t k = 0; k < dep.sizes.size(); ++k) {
    const std::optional<Expr> stride = ir::stride_of(dep.index, graph.pool->index(k));
    if (!stride) return std::nullopt;
    dims.push_back({dep.sizes[k], *stride});
  }
  const Expr first =
      ir::region(graph, access.buffer).offset + ir::substitute_indices(dep.index, zeros) * item;
  std::optional<Bytes> bytes = rows_of(first, std::move(dims), item);
  // A load under a condition may have an index outside of its buffer.
  if (!bytes || !ir::provably_non_negative(bytes->first - access.region.begin) ||
      !ir::provably_non_negative(access.region.end - end_of(*bytes)))
    return std::nullopt;
  return bytes;
}

Bytes touched(const ir::Graph& graph, const ir::Access& access) {
  if (access.dep) {
    if (const auto bytes = reached(graph, access)) return *bytes;
  }
  const ir::TensorRef& view = access.view;
  const std::int64_t item = ir::size_of(graph[view.buffer].dtype);
  std::vector<Dim> dims;
  for (std::size_t k = 0; k < view.sizes.size(); ++k) dims.push_back({view.sizes[k], view.strides[k]});
  const Expr first = ir::region(graph, view.buffer).offset + view.offset * item;
  if (const auto bytes = rows_of(first, std::move(dims), item)) return *bytes;
  return {access.region.begin, access.region.end - access.region.begin};
}

const char* place_name(MemoryMap::Place::Base base) {
  constexpr const char* kNames[] = {"arena", "segment", "weights", "rank_weights", "input", "output"};
  return kNames[static_cast<std::size_t>(base)];
}

}  // namespace

DeclaredSteps::DeclaredSteps(const ir::Schedule& schedule, const MemoryMap& memory)
    : graph_(schedule.graph), memory_(memory) {
  if (schedule.plan) shared_ = ir::shared_places(schedule);
}

int DeclaredSteps::add_row(const std::string& name, const MemoryMap::Place& place) {
  constexpr std::size_t kLongest = 48;
  rows_.push_back({name, names_.unique(("buffer_" + c_identifier(name)).substr(0, kLongest)), place});
  return static_cast<int>(rows_.size()) - 1;
}

int DeclaredSteps::row_of(ir::StorageId storage) {
  if (const auto operand = shared_.find(storage); operand != shared_.end()) storage = operand->second;
  const auto [at, fresh] = by_storage_.try_emplace(storage, -1);
  if (fresh) {
    MemoryMap::Place place = *memory_.place(storage);
    if (place.bytes == 0) place.bytes = ir::bounds(graph_[storage].bytes).max;
    const auto index = static_cast<std::size_t>(place.index);
    const std::string& name = place.base == MemoryMap::Place::Base::input    ? graph_.inputs[index].name
                              : place.base == MemoryMap::Place::Base::output ? graph_.outputs[index].name
                                                                             : graph_[storage].name;
    at->second = add_row(name, place);
  }
  return at->second;
}

std::string DeclaredSteps::touch(const ir::Access& access) {
  Row& row = rows_[static_cast<std::size_t>(row_of(access.region.storage))];
  using Base = MemoryMap::Place::Base;
  const bool constant = row.place.base == Base::weights || row.place.base == Base::rank_weights ||
                        row.place.base == Base::input;
  if (!constant) {
    if (row.first < 0) row.first = steps_;
    row.last = row.place.base == Base::output ? -1 : steps_;
  }
  const Bytes b = touched(graph_, access);
  std::string text = fmt::format("{}({}", access.writes() ? "writes" : "reads", row.constant);
  const bool whole = b.first.is_constant(0) && b.rows.is_constant(1) && b.bytes.is_constant(row.place.bytes);
  if (!whole) text += fmt::format(", {}, {}", host_expr(b.first), host_expr(b.bytes));
  if (!b.rows.is_constant(1)) text += fmt::format(", {}, {}", host_expr(b.rows), host_expr(b.pitch));
  return text + ")";
}

std::string DeclaredSteps::statement(const char* stream, const std::vector<std::string>& touches) {
  return fmt::format("BRAID_STEP(plan_, {}, {}{}{});", steps_++, stream, touches.empty() ? "" : ", ",
                     fmt::join(touches, ", "));
}

std::string DeclaredSteps::next(std::span<const ir::OpId> ops, const char* stream) {
  std::vector<std::string> touches;
  for (ir::OpId op : ops) {
    for (const ir::Access& access : ir::effects(graph_, op).accesses) {
      if (!memory_.place(access.region.storage)) continue;  // a value inside of a fused node
      std::string text = touch(access);
      if (std::find(touches.begin(), touches.end(), text) == touches.end())
        touches.push_back(std::move(text));
    }
  }
  return statement(stream, touches);
}

std::string DeclaredSteps::next(const MemoryMap::OutputCopy& copy) {
  ir::Access access;
  access.buffer = copy.buffer;
  access.view = ir::whole(graph_, copy.buffer);
  access.region = ir::region(graph_, access.view);
  const std::string from = touch(access);
  const Expr bytes = ir::numel(graph_[copy.buffer].sizes) * ir::size_of(graph_[copy.buffer].dtype);
  MemoryMap::Place place{MemoryMap::Place::Base::output, copy.index, 0, ir::bounds(bytes).max};
  Row& row = rows_[static_cast<std::size_t>(
      add_row(graph_.outputs[static_cast<std::size_t>(copy.index)].name, place))];
  row.first = steps_;
  return statement("compute_", {from, fmt::format("writes({}, 0, {})", row.constant, host_expr(bytes))});
}

void DeclaredSteps::hold(std::span<const ir::OpId> ops) {
  for (ir::OpId op : ops) {
    for (const ir::Access& access : ir::effects(graph_, op).accesses) {
      if (!memory_.place(access.region.storage)) continue;
      Row& row = rows_[static_cast<std::size_t>(row_of(access.region.storage))];
      if (row.last >= 0) row.last = steps_ - 1;
    }
  }
}

std::string DeclaredSteps::declarations() const {
  if (rows_.empty()) return {};
  std::string names, rows;
  for (const Row& row : rows_) {
    names += (names.empty() ? "" : ", ") + row.constant;
    const bool callers =
        row.place.base == MemoryMap::Place::Base::input || row.place.base == MemoryMap::Place::Base::output;
    rows += fmt::format("    {{{}, Place::{}, {}, {}", c_string(row.name), place_name(row.place.base),
                        callers ? row.place.index : row.place.offset, row.place.bytes);
    if (row.first >= 0) rows += fmt::format(", {}, {}", row.first, row.last);
    rows += "},\n";
  }
  return "// What the steps declare: {name, place, offset or number, bytes, first and last step}.\n" +
         wrapped("enum : int { " + names + " };", 0) + "const PlannedBuffer kBuffers[] = {\n" + rows + "};\n";
}

}  // namespace braid::codegen::cuda
