// The dims and shapes of a program's tensors, and checks of the tensors that a step is given. They serve the
// tables of both kinds of programs (BraidProgram, BraidCudaProgram), which have these members under the same
// names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace braid::rt {

std::string shape_text(std::span<const int64_t> shape);

template <class Table>
class ProgramShapes {
 public:
  explicit ProgramShapes(const Table& table) : table_(table), dims_(static_cast<size_t>(table.dim_count)) {
    const int tensors = table.input_count + table.output_count;
    size_t total = 0;
    for (int k = 0; k < tensors; ++k) total += static_cast<size_t>(info(k).rank);
    sizes_.resize(total);
    size_t at = 0;
    for (int k = 0; k < tensors; ++k) {
      shapes_.emplace_back(sizes_.data() + at, static_cast<size_t>(info(k).rank));
      at += static_cast<size_t>(info(k).rank);
    }
  }
  ProgramShapes(const ProgramShapes&) = delete;  // spans
  ProgramShapes& operator=(const ProgramShapes&) = delete;

  std::span<const int64_t> dims() const { return dims_; }
  // Whether there are shapes for these dims.
  bool are(std::span<const int64_t> dims) const {
    return known_ && std::equal(dims.begin(), dims.end(), dims_.begin());
  }
  // Before a step, sizes that it will measure are the largest that they may be; `measured`: after it.
  void set(std::span<const int64_t> dims, bool measured = false) {
    std::copy(dims.begin(), dims.end(), dims_.begin());
    table_.sizes(dims_.data(), sizes_.data());
    known_ = true;
    size_t at = 0;
    for (int k = 0; k < table_.input_count + table_.output_count; ++k) {
      for (int d = 0; d < info(k).rank; ++d, ++at) {
        if (!measured && info(k).sizes[d].measured != 0) sizes_[at] = info(k).sizes[d].max;
      }
    }
  }
  std::span<const int64_t> input(size_t k) const { return shapes_.at(k); }
  std::span<const int64_t> output(size_t k) const {
    return shapes_.at(static_cast<size_t>(table_.input_count) + k);
  }

  // The dims that these inputs imply; measured ones at their capacities, others as they are now, or at their
  // lower bounds.
  void find_dims(std::span<const TensorView> inputs, std::vector<int64_t>& found) const {
    for (size_t k = 0; k < found.size(); ++k) found[k] = -1;
    for (size_t t = 0; t < inputs.size(); ++t) {
      const BraidTensorInfo& i = table_.inputs[t];
      if (static_cast<size_t>(i.rank) != inputs[t].shape.size()) continue;  // check() reports it
      for (int d = 0; d < i.rank; ++d) {
        if (i.sizes[d].dim < 0) continue;
        int64_t& value = found[static_cast<size_t>(i.sizes[d].dim)];
        if (value < 0) value = inputs[t].shape[static_cast<size_t>(d)];
      }
    }
    for (size_t k = 0; k < found.size(); ++k) {
      if (table_.dims[k].measured != 0)
        found[k] = table_.dims[k].max;
      else if (found[k] < 0)
        found[k] = known_ ? dims_[k] : table_.dims[k].min;
    }
  }

  // Type, shape, address. ProgramError kWrongInput.
  void check_input(size_t k, const TensorView& t) const { check("input", table_.inputs[k], t, input(k)); }
  void check_output(size_t k, const TensorView& t) const { check("output", table_.outputs[k], t, output(k)); }

 private:
  const BraidTensorInfo& info(int k) const {
    return k < table_.input_count ? table_.inputs[k] : table_.outputs[k - table_.input_count];
  }
  void check(const char* what, const BraidTensorInfo& i, const TensorView& t,
             std::span<const int64_t> want) const {
    const auto name = [&] {
      return std::string("program '") + table_.name + "': " + what + " '" + i.name + "' ";
    };
    if (static_cast<BraidDType>(t.dtype) != i.dtype) {
      throw ProgramError(kWrongInput, name() + "is " + to_string(t.dtype) + ", expected " +
                                          to_string(static_cast<DType>(i.dtype)));
    }
    if (!std::equal(t.shape.begin(), t.shape.end(), want.begin(), want.end())) {
      throw ProgramError(kWrongInput, name() + "has shape " + shape_text(t.shape) + ", expected " +
                                          expected_text(i, want, t.shape.size() == want.size()));
    }
    if (t.data == nullptr && std::find(want.begin(), want.end(), 0) == want.end())
      throw ProgramError(kWrongInput, name() + "has no data");
    if (reinterpret_cast<uintptr_t>(t.data) % size_of(t.dtype) != 0)
      throw ProgramError(kWrongInput, name() + "is not aligned to its type");
  }

  // "[3,64] ([n,64] with n = 1..8)"; of another rank, which implies no sizes, only the second.
  std::string expected_text(const BraidTensorInfo& i, std::span<const int64_t> want, bool sizes) const {
    std::string names, bounds;
    for (int d = 0; d < i.rank; ++d) {
      const int32_t dim = i.sizes[d].dim;
      const int64_t size = want[static_cast<size_t>(d)];
      names += (d > 0 ? "," : "") + (dim < 0 ? std::to_string(size) : std::string(table_.dims[dim].name));
      const bool known = std::any_of(i.sizes, i.sizes + d, [&](const BraidSize& s) { return s.dim == dim; });
      if (dim < 0 || known) continue;
      const BraidDim& of = table_.dims[dim];
      bounds += std::string(bounds.empty() ? " with " : ", ") + of.name + " = " + std::to_string(of.min) +
                (of.min == of.max ? "" : ".." + std::to_string(of.max));
    }
    if (bounds.empty()) return shape_text(want);
    const std::string named = "[" + names + "]" + bounds;
    return sizes ? shape_text(want) + " (" + named + ")" : named;
  }

  const Table& table_;
  std::vector<int64_t> dims_;
  std::vector<int64_t> sizes_;  // of all inputs, then all outputs
  std::vector<std::span<const int64_t>> shapes_;
  bool known_ = false;
};

}  // namespace braid::rt
