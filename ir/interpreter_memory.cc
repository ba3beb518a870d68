#include "ir/interpreter_memory.h"

#include <algorithm>
#include <set>

#include "ir/coordinate.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "ir/measured_dims.h"

namespace braid::ir {
namespace {

constexpr auto kPoison = std::byte{0xff};

}  // namespace

RankMemory::RankMemory(const Schedule& schedule, int rank, std::map<std::string, std::int64_t> dims,
                       bool use_plan, std::byte* segment)
    : schedule_(&schedule),
      graph_(&schedule.graph),
      rank_(rank),
      dims_(std::move(dims)),
      own_(graph_->storages.size()),
      blocks_(graph_->storages.size()),
      offsets_(graph_->buffers.size()),
      use_plan_(use_plan) {
  if (use_plan) {
    internal_check(schedule.plan.has_value(), "a run with a memory plan needs a schedule that has one");
    segment = make_planned(segment);
  }
  // Aliases share the memory of their root, which holds the largest of them.
  std::vector<std::int64_t> bytes(graph_->storages.size(), 0);
  for (std::size_t i = 0; i < graph_->storages.size(); ++i) {
    const StorageId root = root_storage(*graph_, StorageId{static_cast<std::int32_t>(i)});
    std::int64_t& b = bytes[static_cast<std::size_t>(root.index)];
    // A measured size may be anything up to its bound.
    const Expr own = graph_->storages[i].bytes;
    b = std::max(b, is_measured(*graph_, own) ? bounds(own).max : size(own));
  }
  for (std::size_t i = 0; i < graph_->storages.size(); ++i) {
    const StorageId id{static_cast<std::int32_t>(i)};
    if (root_storage(*graph_, id) != id) continue;
    const auto planned =
        use_plan ? schedule.plan->placements.find(id) : decltype(schedule.plan->placements.begin()){};
    if (use_plan && planned != schedule.plan->placements.end()) {
      const Placement& p = planned->second;
      const bool arena = p.space == MemorySpace::arena;
      internal_check(
          p.offset >= 0 && bytes[i] <= p.bytes &&
              p.offset + p.bytes <= (arena ? schedule.plan->arena_bytes : schedule.plan->comm_bytes),
          "storage '{}' of {} bytes exceeds its place in the plan", graph_->storages[i].name, bytes[i]);
      blocks_[i] = {(arena ? arena_.data() : segment) + p.offset, bytes[i]};
      continue;
    }
    fill(i, bytes[i]);
    blocks_[i] = {own_[i].data(), bytes[i]};
  }
}

std::byte* RankMemory::make_planned(std::byte* segment) {
  arena_.assign(static_cast<std::size_t>(schedule_->plan->arena_bytes), kPoison);
  const auto comm_bytes = static_cast<std::size_t>(schedule_->plan->comm_bytes);
  if (segment == nullptr) {
    comm_.assign(comm_bytes, kPoison);
    segment = comm_.data();
  } else {
    std::fill_n(segment, comm_bytes, kPoison);
  }
  watch_ = std::make_unique<PlanWatch>(*schedule_);
  std::set<StorageId> outputs;
  for (const GraphOutput& o : graph_->outputs) outputs.insert(root_storage(*graph_, o.buffer));
  for (const auto& [id, p] : schedule_->plan->placements) {
    const bool output = outputs.contains(id);
    if (output || p.last_step > p.first_step) lives_[p.first_step].begin.push_back(&p);
    if (!output) lives_[p.last_step].end.emplace_back(id, &p);
  }
  return segment;
}

void RankMemory::fill(std::size_t i, std::int64_t bytes) {
  own_[i].assign(static_cast<std::size_t>(bytes), kPoison);
  const ConstantData& data = graph_->storages[i].data;
  if (graph_->storages[i].kind == StorageKind::constant && !data.per_rank.empty()) {
    const auto from = data.of_rank(rank_);
    internal_check(from.size() <= own_[i].size(), "constant '{}' has {} bytes of data, expected {}",
                   graph_->storages[i].name, from.size(), bytes);
    std::copy(from.begin(), from.end(), own_[i].begin());
  }
}

std::int64_t RankMemory::dim(Expr symbol) const {
  internal_check(symbol.is_symbol(SymbolKind::dim), "a size depends on a loop index");
  if (is_coordinate(symbol)) return coordinate_of(graph_->mesh, symbol, rank_);
  const auto it = dims_.find(symbol.dim_name());
  if (it == dims_.end()) {
    user_error(errors::kSizeOutOfBounds, {},
               fmt::format("dimension '{}' is not determined by the inputs", symbol.dim_name()));
  }
  return it->second;
}

std::int64_t RankMemory::size(Expr e) const {
  if (e.is_constant()) return e.constant();
  return evaluate(e, [this](Expr s) { return dim(s); });
}

RankMemory::Block RankMemory::block(StorageId storage) const {
  internal_check(storage.valid(), "access to a buffer without memory");
  return blocks_[static_cast<std::size_t>(storage.index)];
}

ByteView RankMemory::view(const TensorRef& ref) {
  std::optional<std::int64_t>& offset = offsets_[static_cast<std::size_t>(ref.buffer.index)];
  if (!offset) offset = size(region(*graph_, whole(*graph_, ref.buffer)).offset);
  const Block b = block(root_storage(*graph_, ref.buffer));
  const DType dtype = (*graph_)[ref.buffer].dtype;
  const std::int64_t item = size_of(dtype);
  ByteView v{b.data, b.bytes, *offset + size(ref.offset) * item, dtype, {}, {}};
  if (watch_) {
    v.tenant = watch_->tenant(root_storage(*graph_, ref.buffer));
    if (v.tenant >= 0) v.watch = watch_.get();
  }
  for (const Expr& s : ref.sizes) v.sizes.push_back(size(s));
  for (const Expr& s : ref.strides) v.strides.push_back(size(s) * item);
  return v;
}

ByteView RankMemory::view(BufferId buffer) { return view(whole(*graph_, buffer)); }

template <class Fn>
void RankMemory::for_each_element(const ByteView& v, bool write, const std::string& who, Fn&& fn) {
  const std::int64_t count = v.numel(), item = size_of(v.dtype);
  std::vector<std::int64_t> at(v.sizes.size(), 0);
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t offset = v.offset;
    for (std::size_t k = 0; k < at.size(); ++k) offset += at[k] * v.strides[k];
    internal_check(offset >= 0 && offset + item <= v.storage_bytes, "'{}' touches byte {} of a storage of {}",
                   who, offset, v.storage_bytes);
    v.touch(offset, write, who);
    fn(v.storage + offset, n);
    for (std::size_t k = at.size(); k-- > 0;) {
      if (++at[k] < v.sizes[k]) break;
      at[k] = 0;
    }
  }
}

std::vector<std::byte> RankMemory::read(const ByteView& v, const std::string& who) const {
  const auto item = static_cast<std::size_t>(size_of(v.dtype));
  std::vector<std::byte> out(static_cast<std::size_t>(v.numel()) * item);
  for_each_element(v, false, who, [&](const std::byte* at, std::int64_t n) {
    std::memcpy(out.data() + static_cast<std::size_t>(n) * item, at, item);
  });
  return out;
}

void RankMemory::write(const ByteView& v, std::span<const std::byte> bytes, const std::string& who) {
  const auto item = static_cast<std::size_t>(size_of(v.dtype));
  internal_check(bytes.size() == static_cast<std::size_t>(v.numel()) * item,
                 "'{}' writes {} bytes into {} elements", who, bytes.size(), v.numel());
  for_each_element(v, true, who, [&](std::byte* at, std::int64_t n) {
    std::memcpy(at, bytes.data() + static_cast<std::size_t>(n) * item, item);
  });
}

void RankMemory::poison(const ByteView& v, const std::string& who) {
  const auto item = static_cast<std::size_t>(size_of(v.dtype));
  for_each_element(v, true, who, [&](std::byte* at, std::int64_t) { std::fill(at, at + item, kPoison); });
}

void RankMemory::step_done(int step) {
  const auto at = lives_.find(step);
  if (at == lives_.end()) return;
  for (const auto& [storage, p] : at->second.end) {
    const Block b = blocks_[static_cast<std::size_t>(storage.index)];
    // A storage born at this step may have taken over these bytes (in-place reuse): its contents stay live.
    std::vector<bool> kept(static_cast<std::size_t>(b.bytes), false);
    for (const Placement* q : at->second.begin) {
      if (q->space != p->space) continue;
      const std::int64_t begin = std::max<std::int64_t>(0, q->offset - p->offset);
      for (std::int64_t k = begin; k < std::min(b.bytes, q->offset + q->bytes - p->offset); ++k) {
        kept[static_cast<std::size_t>(k)] = true;
      }
    }
    for (std::int64_t k = 0; k < b.bytes; ++k) {
      if (!kept[static_cast<std::size_t>(k)]) b.data[k] = kPoison;
    }
  }
}

}  // namespace braid::ir
