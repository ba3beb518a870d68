#include "runtime/emulated/nccl_data.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/emulated/half_types.h"

namespace braid::emulated {
namespace {

template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<__half> {
  using type = float;
};
template <>
struct Accumulator<__nv_bfloat16> {
  using type = float;
};

template <class T>
T combine(ncclRedOp_t op, T a, T b) {
  using Wrapping = std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>;
  using U = typename Wrapping::type;  // sums of integers wrap around
  switch (op) {
    case ncclProd:
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case ncclMax:
      return a > b || a != a ? a : b;
    case ncclMin:
      return a < b || a != a ? a : b;
    default:
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
}

// `sources[r]` is rank r's operand; every destination gets the result. Works element by element, so it may be
// in place.
template <class T>
void reduce_typed(const std::vector<const void*>& sources, const std::vector<void*>& destinations,
                  size_t count, ncclRedOp_t op) {
  using A = typename Accumulator<T>::type;
  const size_t ranks = sources.size();
  for (size_t i = 0; i < count; ++i) {
    A value = static_cast<A>(static_cast<const T*>(sources[0])[i]);
    for (size_t r = 1; r < ranks; ++r)
      value = combine<A>(op, value, static_cast<A>(static_cast<const T*>(sources[r])[i]));
    if (op == ncclAvg) value = static_cast<A>(value / static_cast<A>(ranks));
    const T rounded = static_cast<T>(value);
    for (void* to : destinations) static_cast<T*>(to)[i] = rounded;
  }
}

void reduce(const std::vector<const void*>& sources, const std::vector<void*>& destinations, size_t count,
            ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce_typed<int8_t>(sources, destinations, count, op);
    case ncclUint8:
      return reduce_typed<uint8_t>(sources, destinations, count, op);
    case ncclInt32:
      return reduce_typed<int32_t>(sources, destinations, count, op);
    case ncclUint32:
      return reduce_typed<uint32_t>(sources, destinations, count, op);
    case ncclInt64:
      return reduce_typed<int64_t>(sources, destinations, count, op);
    case ncclUint64:
      return reduce_typed<uint64_t>(sources, destinations, count, op);
    case ncclFloat16:
      return reduce_typed<__half>(sources, destinations, count, op);
    case ncclFloat32:
      return reduce_typed<float>(sources, destinations, count, op);
    case ncclFloat64:
      return reduce_typed<double>(sources, destinations, count, op);
    case ncclBfloat16:
      return reduce_typed<__nv_bfloat16>(sources, destinations, count, op);
    default:
      return;
  }
}

const char* at(const void* base, size_t offset) { return static_cast<const char*>(base) + offset; }

void copy(void* to, size_t to_offset, const void* from, size_t from_offset, size_t bytes) {
  if (to == nullptr) return;
  char* target = static_cast<char*>(to) + to_offset;
  const char* source = at(from, from_offset);
  if (target != source) std::memmove(target, source, bytes);
}

}  // namespace

bool reducible(ncclDataType_t type) { return type >= ncclInt8 && type <= ncclBfloat16; }

void move_data(const std::vector<CollectiveCall>& calls) {
  const CollectiveCall& first = calls[0];
  const size_t ranks = calls.size();
  const size_t bytes = first.count * size_of(first.type);
  switch (first.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce: {
      std::vector<const void*> sources;
      std::vector<void*> destinations;
      for (size_t r = 0; r < ranks; ++r) {
        sources.push_back(calls[r].send);
        if (calls[r].recv == nullptr) continue;
        if (first.kind == CollectiveKind::kAllReduce || r == static_cast<size_t>(first.root))
          destinations.push_back(calls[r].recv);
      }
      return reduce(sources, destinations, first.count, first.type, first.op);
    }
    case CollectiveKind::kReduceScatter:
      for (size_t to = 0; to < ranks; ++to) {
        std::vector<const void*> sources;
        for (const auto& call : calls) sources.push_back(at(call.send, to * bytes));
        if (calls[to].recv != nullptr) reduce(sources, {calls[to].recv}, first.count, first.type, first.op);
      }
      return;
    case CollectiveKind::kAllGather:
      for (size_t from = 0; from < ranks; ++from)
        for (const auto& to : calls) copy(to.recv, from * bytes, calls[from].send, 0, bytes);
      return;
    case CollectiveKind::kBroadcast:
      for (const auto& to : calls) copy(to.recv, 0, calls[static_cast<size_t>(first.root)].send, 0, bytes);
      return;
    case CollectiveKind::kAllToAll:
      for (size_t from = 0; from < ranks; ++from)
        for (size_t to = 0; to < ranks; ++to)
          copy(calls[to].recv, from * bytes, calls[from].send, to * bytes, bytes);
      return;
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
      return copy(calls[1].recv, 0, calls[0].send, 0, bytes);
  }
}

}  // namespace braid::emulated
