#include "split/conversion_costs.h"

#include <algorithm>

#include "split/graph.h"

namespace braid::split {

namespace {

constexpr int kMostDims = 64;

}  // namespace

StateCodes::StateCodes(const IdVector<StateId, MeshSpec>& states) {
  constexpr std::size_t kMostCodes = 256 - kMostDims;
  std::map<Spec, int> numbers = {{Spec::replicated(), 0}};
  for (const MeshSpec& state : states) {
    coded_ = coded_ && state.size() <= kMostAxes;
    if (!coded_) return;
    Coded& coded = codes_.emplace_back();
    for (std::size_t a = 0; a < state.size(); ++a) {
      const Spec& spec = state[a];
      const int number = numbers.try_emplace(spec, count_of(numbers)).first->second;
      coded.places[a].split = spec.is_split();
      coded.places[a].dim = spec.dim;
      coded.places[a].whole = number;
      coded_ = coded_ && spec.dim < kMostDims;
      if (coded_ && !spec.blocks.empty()) coded.blocked |= std::uint64_t{1} << spec.dim;
    }
    coded_ = coded_ && numbers.size() <= kMostCodes;
  }
}

ConversionCosts::ConversionCosts(const IdVector<StateId, MeshSpec>& states, const StateCodes& codes,
                                 const Mesh& mesh, const StepCost& step)
    : states_(states), codes_(codes), mesh_(mesh), step_(step) {}

ConversionCosts::TensorId ConversionCosts::tensor(ir::DType dtype, std::int64_t bytes,
                                                  const std::vector<ir::Expr>& sizes) {
  asked_.first = dtype;
  std::vector<std::int64_t>& key = asked_.second;
  key.clear();
  for (const ir::Expr& size : sizes) key.push_back(static_size(size).value_or(-1));
  key.push_back(bytes);
  const auto [entry, fresh] = ids_.try_emplace(asked_, tensors_.end_id());
  if (!fresh) return entry->second;
  Tensor& tensor = tensors_.emplace_back(Tensor{{dtype, bytes, sizes, mesh_, step_}, 0});
  known_.emplace_back();
  for (std::size_t dim = 0; dim < sizes.size() && dim < kMostDims; ++dim) {
    // One axis alone cuts and pads any size.
    const bool free = mesh_.axes.size() == 1 || (key[dim] >= 0 && key[dim] % mesh_.ranks() == 0);
    tensor.free |= std::uint64_t{free} << dim;
  }
  return entry->second;
}

// Free dimensions have numbers by where they are first. Those with blocks stay what they are.
ConversionCosts::Key ConversionCosts::key(const Tensor& tensor, StateId from, StateId to) const {
  Key key;
  if (!codes_.coded_) return {ir::offset_of(from), ir::offset_of(to)};
  const StateCodes::Coded &a = codes_.codes_[from], &b = codes_.codes_[to];
  const std::uint64_t free = tensor.free & ~a.blocked & ~b.blocked;
  std::array<std::uint8_t, 2 * StateCodes::kMostAxes> dims;
  unsigned known = 0;
  const auto code = [&](const StateCodes::Place& place) -> std::uint64_t {
    if (!place.split || (free >> place.dim & 1) == 0) return std::uint64_t{place.whole} + kMostDims;
    unsigned k = 0;
    while (k < known && dims[k] != place.dim) ++k;
    if (k == known) dims[known++] = place.dim;
    return k;
  };
  for (std::size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
    key.from = key.from << 8 | code(a.places[axis]);
    key.to = key.to << 8 | code(b.places[axis]);
  }
  return key;
}

ConversionCosts::Known::Cell& ConversionCosts::Known::cell(const Key& key) {
  std::uint64_t hash = (key.from ^ (key.to * 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
  hash ^= hash >> 32;
  const std::size_t last = cells_.size() - 1;
  std::size_t k = hash & last;
  while (cells_[k].taken && !(cells_[k].key == key)) k = (k + 1) & last;
  return cells_[k];
}

std::int64_t& ConversionCosts::Known::operator[](const Key& key) {
  if (2 * taken_ >= cells_.size()) {
    std::vector<Cell> before(2 * cells_.size());
    std::swap(before, cells_);
    for (const Cell& old : before)
      if (old.taken) cell(old.key) = old;
  }
  Cell& own = cell(key);
  if (!own.taken) {
    own = {key, kUnknown, true};
    ++taken_;
  }
  return own.cost;
}

std::optional<std::int64_t> ConversionCosts::operator()(TensorId id, StateId from, StateId to) {
  if (from == to) return 0;
  Tensor& tensor = tensors_[id];
  std::int64_t& known = known_[id][key(tensor, from, to)];
  if (known == kUnknown) known = tensor.steps.cost(states_[from], states_[to]).value_or(kImpossible);
  return known == kImpossible ? std::nullopt : std::optional(known);
}

}  // namespace braid::split
