#include "split/conversion_steps.h"

#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "split/graph.h"

namespace braid::split {

bool can_shard(ir::DType dtype, const Spec& spec) {
  return !spec.is_pending() || (spec.reduce == ir::ReduceKind::sum && can_reduce(dtype));
}

bool can_reduce(ir::DType dtype) { return dtype != ir::DType::boolean && !ir::is_storage(dtype); }

const char* to_string(StepKind kind) {
  switch (kind) {
    case StepKind::all_reduce:
      return "all_reduce";
    case StepKind::all_gather:
      return "all_gather";
    case StepKind::reduce_scatter:
      return "reduce_scatter";
    case StepKind::all_to_all:
      return "all_to_all";
    case StepKind::slice:
      return "slice";
    case StepKind::permute:
      return "permute";
  }
  return "";
}

namespace {

// Calls `add` with each step from one state to another; whether there are any such steps.
template <class Add>
bool each_step(const Spec& from, const Spec& to, ir::DType dtype, std::int64_t bytes, int ranks,
               const Add& add) {
  if (from == to) return true;
  if (to.is_pending() || ir::is_storage(dtype)) return false;
  const std::int64_t part = bytes / ranks;
  const auto step = [&](StepKind kind, std::int64_t own) { add(ConversionStep{kind, own, dtype}); };
  if (from.is_replicated()) {
    step(StepKind::slice, bytes);
  } else if (from.is_pending()) {
    if (!can_reduce(dtype)) return false;
    if (to.is_replicated()) {
      step(StepKind::all_reduce, bytes);
    } else {
      if (!to.blocks.empty()) step(StepKind::permute, bytes);
      step(StepKind::reduce_scatter, bytes);
    }
  } else if (to.is_replicated()) {
    step(StepKind::all_gather, part);
    if (!from.blocks.empty()) step(StepKind::permute, bytes);
  } else if (from.dim == to.dim) {
    step(StepKind::all_gather, part);
    step(StepKind::slice, bytes);
  } else {
    if (!to.blocks.empty()) step(StepKind::permute, part);
    step(StepKind::all_to_all, part);
    if (!from.blocks.empty()) step(StepKind::permute, part);
  }
  return true;
}

constexpr std::int64_t kUnknown = -1, kImpossible = -2;
constexpr std::uint8_t kWhole = 0;

}  // namespace

std::optional<std::vector<ConversionStep>> conversion_steps(const Spec& from, const Spec& to, ir::DType dtype,
                                                            std::int64_t bytes, int ranks) {
  std::vector<ConversionStep> steps;
  const bool possible =
      each_step(from, to, dtype, bytes, ranks, [&](const ConversionStep& step) { steps.push_back(step); });
  return possible ? std::optional(std::move(steps)) : std::nullopt;
}

CheapestSteps::CheapestSteps(ir::DType dtype, std::int64_t bytes, const std::vector<ir::Expr>& sizes,
                             const Mesh& mesh, const StepCost& cost)
    : dtype_(dtype),
      bytes_(bytes),
      mesh_(mesh),
      cost_(cost),
      owns_(mesh.axes.size()),
      scattered_(mesh.axes.size()),
      from_(mesh.axes.size()),
      to_(mesh.axes.size()) {
  for (const ir::Expr& size : sizes) {
    sizes_.push_back(static_size(size).value_or(-1));
    free_.push_back(sizes_.back() >= 0 && sizes_.back() % mesh.ranks() == 0 ? 1 : 0);
  }
  forget();
}

void CheapestSteps::forget() {
  for (int a = 0; a < axes(); ++a) {
    owns_[a].clear();
    scattered_[a].clear();
    number(a, Spec::replicated());
  }
}

std::optional<std::int64_t> CheapestSteps::cost(const MeshSpec& from, const MeshSpec& to) {
  return search(from, to);
}

std::optional<std::vector<ConversionStep>> CheapestSteps::steps(const MeshSpec& from, const MeshSpec& to) {
  if (!search(from, to)) return std::nullopt;
  std::vector<PlaceId> way;
  for (PlaceId k = last_; k.valid(); k = places_[k].before) way.insert(way.begin(), k);
  std::vector<ConversionStep> all;
  for (std::size_t k = 1; k < way.size(); ++k) {
    const int axis = places_[way[k]].axis;
    each_move(state(way[k - 1]), axis, state(way[k])[axis],
              [&](const ConversionStep& step) { all.push_back(step); });
  }
  return all;
}

std::optional<std::int64_t> CheapestSteps::search(const MeshSpec& from, const MeshSpec& to) {
  // No step leads to a sum that is pending.
  for (int a = 0; a < axes(); ++a)
    if (to[a].is_pending() && to[a] != from[a]) return std::nullopt;
  places_.clear();
  states_.clear();
  // Numbers are small; a tensor may be split in any number of blocks.
  constexpr std::size_t kMostStates = 128;
  if (std::ranges::any_of(owns_, [](const std::vector<Own>& own) { return own.size() > kMostStates; }))
    forget();
  for (int a = 0; a < axes(); ++a) {
    from_[a] = number(a, from[a]);
    to_[a] = number(a, to[a]);
    for (int dim = count_of(scattered_[a]); from[a].is_pending() && dim < count_of(sizes_); ++dim)
      scattered_[a].push_back(number(a, Spec::split(dim)));
  }
  find_reach();
  add_place(cell_of(from_), from_, -1);
  // A single axis is cut and padded as it is asked for.
  const bool begins_well = axes() > 1 && fits(from_);
  const bool any_fits = axes() == 1;
  const std::size_t to_cell = cell_of(to_);
  // The cheapest so far, to where it leads.
  std::int64_t known_way = std::numeric_limits<std::int64_t>::max();
  while (true) {
    PlaceId best;
    for (const PlaceId k : places_.ids()) {
      if (!places_[k].done && (!best.valid() || places_[k].cost < places_[best].cost)) best = k;
    }
    if (!best.valid()) return std::nullopt;
    if (places_[best].cell == to_cell) {
      last_ = best;
      return places_[best].cost;
    }
    places_[best].done = true;
    const std::int64_t cost = places_[best].cost;
    const std::size_t cell = places_[best].cell;
    here_.assign(state(best), state(best) + axes());
    next_ = here_;
    for (int a = 0; a < axes(); ++a) {
      const Reach& reach = reach_[a];
      const std::size_t own_place = cell / reach.stride % reach.states.size();
      // A sum over two axes may be scattered along one, reduced along the other, and gathered.
      const std::size_t count = own(a, here_[a]).pending ? reach.states.size() : reach.unscattered;
      for (std::size_t t = 0; t < count; ++t) {
        const Number target = reach.states[t];
        if (t == own_place || !may_move(a, target)) continue;
        const std::size_t next_cell = cell - own_place * reach.stride + t * reach.stride;
        const std::int64_t more = move_cost(a, target);
        if (more == kImpossible || cost + more >= known_way) continue;
        next_[a] = target;
        // A state that is whole or pending leaves more to the other axes.
        const bool cuts = own(a, target).split;
        if (!any_fits && (cuts || !begins_well) && !fits_at(next_cell)) continue;
        const std::int64_t sum = cost + more;
        PlaceId known = place_at(next_cell);
        if (!known.valid()) known = add_place(next_cell, next_, a);
        if (next_cell == to_cell) known_way = sum;
        Place& place = places_[known];
        if (sum >= place.cost) continue;
        place.cost = sum;
        place.before = best;
        place.axis = a;
      }
      next_[a] = here_[a];
    }
  }
}

// The states between which each axis moves, and where all of them together are.
void CheapestSteps::find_reach() {
  reach_.resize(axes());
  std::size_t cells = 1;
  for (int a = 0; a < axes(); ++a) {
    Reach& reach = reach_[a];
    reach.states = {to_[a]};
    const auto add = [&](Number state) {
      if (std::ranges::find(reach.states, state) == reach.states.end()) reach.states.push_back(state);
    };
    // The first one moves at once.
    if (a > 0) add(kWhole);
    add(from_[a]);
    reach.unscattered = a > 0 ? reach.states.size() : 1;
    if (a > 0 && own(a, from_[a]).pending) std::ranges::for_each(scattered_[a], add);
    reach.stride = cells;
    cells *= reach.states.size();
  }
  // Few axes have few of them; those of many are looked for.
  constexpr std::size_t kMostCells = 4096;
  is_small_ = cells <= kMostCells;
  if (!is_small_) return;
  known_.assign(cells, {});
  fits_.assign(cells, Fits::unknown);
}

std::size_t CheapestSteps::cell_of(const std::vector<Number>& state) const {
  std::size_t cell = 0;
  for (int a = 0; a < axes(); ++a) {
    const std::vector<Number>& states = reach_[a].states;
    cell += (std::ranges::find(states, state[a]) - states.begin()) * reach_[a].stride;
  }
  return cell;
}

// Invalid: the cell has no place.
CheapestSteps::PlaceId CheapestSteps::place_at(std::size_t cell) const {
  if (is_small_) return known_[cell];
  for (const PlaceId k : places_.ids()) {
    if (places_[k].cell == cell) return k;
  }
  return {};
}

// Whether next_, which is at the cell, fits.
bool CheapestSteps::fits_at(std::size_t cell) {
  if (!is_small_) return fits(next_);
  if (fits_[cell] == Fits::unknown) fits_[cell] = fits(next_) ? Fits::yes : Fits::no;
  return fits_[cell] == Fits::yes;
}

CheapestSteps::Number CheapestSteps::number(int axis, const Spec& spec) {
  std::vector<Own>& known = owns_[axis];
  for (std::size_t k = 0; k < known.size(); ++k) {
    if (known[k].spec == spec) return static_cast<Number>(k);
  }
  ir::internal_check(known.size() <= std::numeric_limits<Number>::max(), "a tensor has {} states on an axis",
                     known.size());
  known.push_back({spec, spec.is_split(), spec.is_pending(), {}});
  return static_cast<Number>(known.size() - 1);
}

CheapestSteps::PlaceId CheapestSteps::add_place(std::size_t cell, const std::vector<Number>& state,
                                                int axis) {
  states_.insert(states_.end(), state.begin(), state.end());
  const bool first = places_.empty();
  places_.push_back({cell, first ? 0 : std::numeric_limits<std::int64_t>::max(), {}, axis, false});
  const PlaceId added = places_.end_id() - 1;
  if (is_small_) known_[cell] = added;
  return added;
}

// Whether an axis may move to that state while the others are as they are.
bool CheapestSteps::may_move(int axis, Number target) const {
  const Own &from = own(axis, here_[axis]), &to = own(axis, target);
  for (int other = 0; other < axes(); ++other) {
    if (other == axis) continue;
    const Own& theirs = own(other, here_[other]);
    if (from.pending && theirs.pending && theirs.spec.reduce != from.spec.reduce && other > axis)
      return false;
    if (other < axis || !theirs.split) continue;
    const int dim = theirs.spec.dim;
    if ((from.split && from.spec.dim == dim) || (to.split && to.spec.dim == dim)) return false;
  }
  return true;
}

bool CheapestSteps::may_pad(const std::vector<Number>& state, int axis, std::int64_t size) const {
  const Spec& spec = own(axis, state[axis]).spec;
  for (int j = 0; j < axes(); ++j) {
    const Own& theirs = own(j, state[j]);
    if (j != axis && theirs.split && theirs.spec.dim == spec.dim) return false;
  }
  return spec.blocks.empty() && can_pad(size, mesh_.axes[axis].size);
}

// Whether the sizes can be cut so, one axis after another.
bool CheapestSteps::fits(const std::vector<Number>& state) const {
  for (int k = 0; k < axes(); ++k) {
    const Own& here = own(k, state[k]);
    if (!here.split) continue;
    if (free_[here.spec.dim] != 0 && here.spec.blocks.empty()) continue;
    std::int64_t left = sizes_[here.spec.dim];
    if (left < 0) return false;
    for (int j = 0; j < k; ++j) {
      const Own& before = own(j, state[j]);
      if (before.split && before.spec.dim == here.spec.dim) left /= mesh_.axes[j].size;
    }
    std::int64_t sum = 0;
    for (const std::int64_t block : here.spec.blocks) {
      sum += block;
      if (block % mesh_.axes[k].size != 0) return false;
    }
    if ((left % mesh_.axes[k].size != 0 && !may_pad(state, k, left)) ||
        (!here.spec.blocks.empty() && sum != left))
      return false;
  }
  return true;
}

// The cost of moving an axis from the state of the search to the target.
std::int64_t CheapestSteps::move_cost(int axis, Number target) {
  const auto ask = [&] {
    std::int64_t sum = 0;
    const bool possible = each_move(here_.data(), axis, target, [&](const ConversionStep& step) {
      sum += cost_(step, mesh_.axes[axis].size);
    });
    return possible ? sum : kImpossible;
  };
  constexpr int kMostKept = 6;  // axes, of which tables are kept
  if (axes() > kMostKept) return ask();
  std::size_t cell = target;
  for (int k = 0; k < axes(); ++k) cell = 2 * cell + (k != axis && own(k, here_[k]).split ? 1 : 0);
  std::vector<std::int64_t>& moves = owns_[axis][here_[axis]].moves;
  if (cell >= moves.size()) moves.resize(owns_[axis].size() << axes(), kUnknown);
  if (moves[cell] == kUnknown) moves[cell] = ask();
  return moves[cell];
}

// One axis at a time, with its bytes on a rank.
template <class Add>
bool CheapestSteps::each_move(const Number* state, int axis, Number target, const Add& add) const {
  int parts = 1;
  for (int k = 0; k < axes(); ++k) parts *= k != axis && own(k, state[k]).split ? mesh_.axes[k].size : 1;
  return each_step(own(axis, state[axis]).spec, own(axis, target).spec, dtype_, bytes_ / parts,
                   mesh_.axes[axis].size, [&](ConversionStep step) {
                     step.axis = axis;
                     step.stride = mesh_.stride(axis);
                     add(step);
                   });
}

}  // namespace braid::split
