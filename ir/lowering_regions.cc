// Regions: parts that a value chooses or repeats at run time.
#include <algorithm>
#include <set>

#include "ir/effects.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/lowering_internal.h"

namespace braid::ir {
namespace {

[[noreturn]] void differ(const std::string& node, std::size_t k, const std::string& what,
                         const std::string& hint) {
  user_error(errors::kUnsupportedForm, {.node = node}, fmt::format("result {} {}", k, what), hint);
}

// Memory is allocated for results before it is known which part runs, or how often.
void require_like(const std::string& node, std::size_t k, const TensorBox& x, DType dtype,
                  const std::vector<Expr>& sizes, const char* where) {
  if (x.dtype() != dtype)
    differ(node, k, fmt::format("is {} {}, and {} otherwise", to_string(x.dtype()), where, to_string(dtype)),
           "cast it to one type");
  const std::string hint =
      "sizes may depend on values only where nothing else is decided at run time: pad to one size";
  if (x.rank() != sizes.size())
    differ(node, k, fmt::format("has rank {} {}, and {} otherwise", x.rank(), where, sizes.size()), hint);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (x.sizes()[d] == sizes[d]) continue;
    differ(node, k,
           fmt::format("has size {} {} along axis {}, and {} otherwise", to_string(x.sizes()[d]), where, d,
                       to_string(sizes[d])),
           hint);
  }
}

}  // namespace

TensorBox Lowering::outside_regions(const std::function<TensorBox()>& make) {
  const AtDepth at(depth_, 0);
  return make();
}

// New memory with the values of x, row-major.
BufferId Lowering::copy_of(const TensorBox& x, const std::string& name) {
  TensorBox out = box({Pointwise{x.sizes(), copy_body(x)}, name, {}}, x.dtype());
  return realize_into(*out.box_, graph_.add_owned(name, x.dtype(), x.sizes()));
}

// The buffer of which x is the whole, as it is; nothing if x has no memory or is a view.
std::optional<BufferId> Lowering::buffer_of(const TensorBox& x) {
  const auto* buffer = std::get_if<BufferId>(&x.box_->data);
  if (!buffer || !(x.map_ == index_symbols(pool(), x.rank())) || !(x.sizes() == graph_[*buffer].sizes))
    return std::nullopt;
  freeze(*buffer);
  return *buffer;
}

Region Lowering::region(const std::function<std::vector<BufferId>()>& part) {
  internal_check(depth_ + 1 == frames_.size(), "a region begins inside of another frame");
  frames_.emplace_back();
  Region out;
  {
    const AtDepth at(depth_, depth_ + 1);
    out.yields = part();
  }
  out.ops = std::move(frames_.back());
  frames_.pop_back();
  return out;
}

// Buffers that the regions read and do not define, in the order of their first use.
std::vector<BufferId> Lowering::read_from_outside(const RegionKernel& kernel) const {
  std::set<BufferId> defined, seen;
  std::vector<BufferId> read;
  const auto visit = [&](const Region& region, const auto& again) -> void {
    const auto use = [&](BufferId b) {
      if (!defined.count(b) && seen.insert(b).second) read.push_back(b);
    };
    for (OpId id : region.ops) {
      const Operation& op = graph_[id];
      // First: what it changes in place counts as read, under its new name too.
      for (BufferId b : op.outputs) defined.insert(b);
      if (const auto* nested = op.as<RegionKernel>()) {
        for (BufferId b : nested->operands) use(b);
        for (const Region& r : nested->regions) again(r, again);
      } else {
        for (const Access& a : effects(graph_, id).accesses) {
          if (a.reads()) use(a.buffer);
        }
      }
    }
    for (BufferId b : region.yields) use(b);
  };
  for (const Region& r : kernel.regions) visit(r, visit);
  return read;
}

std::vector<TensorBox> Lowering::branch(const TensorBox& condition, const Part& if_true,
                                        const Part& if_false) {
  const std::string origin = origin_;
  const std::string name = origin.empty() ? "branch" : origin;
  RegionKernel kernel;
  kernel.kind = RegionKind::branch;
  const BufferId chosen = copy_of(condition, name + ".condition");
  std::vector<TensorBox> results;
  for (const Part* part : {&if_true, &if_false}) {
    kernel.regions.push_back(region([&] {
      const std::vector<TensorBox> values = (*part)();
      set_origin(origin);
      std::vector<BufferId> yields;
      const bool first = part == &if_true;
      internal_check(first || values.size() == results.size(), "the parts of a branch have {} and {} results",
                     results.size(), values.size());
      for (std::size_t k = 0; k < values.size(); ++k) {
        if (!first)
          require_like(origin, k, values[k], results[k].dtype(), results[k].sizes(),
                       "where the condition is false");
        const std::optional<BufferId> existing = buffer_of(values[k]);
        yields.push_back(existing ? *existing : copy_of(values[k], name));
      }
      if (first) results = values;
      return yields;
    }));
  }
  std::vector<BufferId> outputs;
  for (const TensorBox& x : results) outputs.push_back(graph_.add_owned(name, x.dtype(), x.sizes()));
  kernel.operands = read_from_outside(kernel);
  std::erase(kernel.operands, chosen);
  kernel.operands.insert(kernel.operands.begin(), chosen);
  emit({name, std::move(kernel), outputs, {origin}, std::nullopt});
  std::vector<TensorBox> boxes;
  for (BufferId b : outputs) boxes.push_back(from_buffer(b));
  return boxes;
}

std::pair<BufferId, BufferId> Lowering::add_to(const Joined& part, const std::string& name) {
  constexpr std::size_t kMostDimensions = 6;  // extern kernels take 8
  if (part.value.rank() > kMostDimensions) {
    user_error(errors::kUnsupportedForm, {.node = origin_},
               fmt::format("a result joins tensors of rank {}, which a loop at run time can do up to rank {}",
                           part.value.rank(), kMostDimensions),
               "fix the number of iterations");
  }
  std::vector<Expr> sizes = part.value.sizes();
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(part.axis), part.count);
  BufferId before;
  {
    const AtDepth around(depth_, depth_ - 1);
    before = copy_of(full(sizes, part.value.dtype(), 0), name + ".joined");
  }
  const BufferId after = graph_.add_mutation(before, graph_[before].name);
  // Adds a batch of one row, because write_rows counts positions by row of a batch.
  const auto row = [&](TensorRef x, bool one_position) {
    if (one_position) {
      x.sizes.insert(x.sizes.begin() + static_cast<std::ptrdiff_t>(part.axis), 1);
      x.strides.insert(x.strides.begin() + static_cast<std::ptrdiff_t>(part.axis), 1);
    }
    x.sizes.insert(x.sizes.begin(), 1);
    x.strides.insert(x.strides.begin(), 1);
    return x;
  };
  ExternKernel kernel;
  kernel.callee = "write_rows";
  kernel.reads = {row(whole(graph_, before), false), row(extern_operand(part.value, true), true),
                  row(extern_operand(part.position, true), false)};
  kernel.writes = {row(whole(graph_, after), false)};
  kernel.attributes = {{"axis", static_cast<std::int64_t>(part.axis + 1)}, {"ring", std::int64_t{0}}};
  emit({name + ".join", std::move(kernel), {after}, {origin_}, std::nullopt});
  return {before, after};
}

std::vector<TensorBox> Lowering::repeat_while(const TensorBox& condition,
                                              const std::vector<TensorBox>& initial, const Body& body) {
  const std::string origin = origin_;
  const std::string name = origin.empty() ? "loop" : origin;
  RegionKernel kernel;
  kernel.kind = RegionKind::while_true;
  std::vector<BufferId> carried = {copy_of(condition, name + ".condition")};
  for (const TensorBox& x : initial) carried.push_back(copy_of(x, name));
  const auto carries = [&](BufferId b) {
    return std::any_of(carried.begin(), carried.end(),
                       [&](BufferId c) { return root_storage(graph_, c) == root_storage(graph_, b); });
  };
  kernel.regions.push_back(region([&] {
    std::vector<TensorBox> values;
    for (std::size_t k = 1; k < carried.size(); ++k) values.push_back(from_buffer(carried[k]));
    Run run = body(values);
    set_origin(origin);
    std::vector<TensorBox> next = {run.condition};
    next.insert(next.end(), run.carried.begin(), run.carried.end());
    internal_check(next.size() == carried.size(), "a loop carries {} values and yields {}", carried.size(),
                   next.size());
    std::vector<BufferId> yields;
    for (std::size_t k = 0; k < next.size(); ++k) {
      const Buffer& is = graph_[carried[k]];
      // Messages count the values after the condition, which is a scalar, from 0.
      require_like(origin, k > 0 ? k - 1 : 0, next[k], is.dtype, is.sizes, "after a run of the body");
      // A yielded value is copied after the ones before it, so it must not be what they are copied into.
      const std::optional<BufferId> existing = buffer_of(next[k]);
      const bool stays = existing && (*existing == carried[k] || !carries(*existing));
      yields.push_back(stays ? *existing : copy_of(next[k], name + ".next"));
    }
    for (const Joined& part : run.joined) {
      const auto [before, after] = add_to(part, name);
      carried.push_back(before);
      yields.push_back(after);
    }
    return yields;
  }));
  std::vector<BufferId> outputs;
  for (BufferId b : carried) outputs.push_back(graph_.add_mutation(b, graph_[b].name));
  kernel.operands = carried;
  for (BufferId b : read_from_outside(kernel)) {
    if (std::find(carried.begin(), carried.end(), b) == carried.end()) kernel.operands.push_back(b);
  }
  emit({name, std::move(kernel), outputs, {origin}, std::nullopt});
  std::vector<TensorBox> boxes;
  for (std::size_t k = 1; k < outputs.size(); ++k) boxes.push_back(from_buffer(outputs[k]));
  return boxes;
}

}  // namespace braid::ir
