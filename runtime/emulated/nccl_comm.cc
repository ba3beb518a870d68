#include "runtime/emulated/nccl_comm.h"

#include "runtime/emulated/finding_list.h"

namespace braid::emulated {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "ncclAllReduce";
    case CollectiveKind::kReduce:
      return "ncclReduce";
    case CollectiveKind::kAllGather:
      return "ncclAllGather";
    case CollectiveKind::kReduceScatter:
      return "ncclReduceScatter";
    case CollectiveKind::kBroadcast:
      return "ncclBroadcast";
    case CollectiveKind::kAllToAll:
      return "ncclAlltoAll";
    case CollectiveKind::kSend:
      return "ncclSend";
    case CollectiveKind::kRecv:
      return "ncclRecv";
  }
  return "collective";
}

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

const char* name_of(ncclDataType_t type) {
  static const char* const names[] = {"int8",    "uint8",    "int32",       "uint32",
                                      "int64",   "uint64",   "float16",     "float32",
                                      "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "no type";
}

size_t CollectiveCall::send_bytes(int ranks) const {
  const size_t bytes = count * size_of(type);
  switch (kind) {
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return bytes * static_cast<size_t>(ranks);
    case CollectiveKind::kRecv:
      return 0;
    case CollectiveKind::kBroadcast:
      return send == nullptr ? 0 : bytes;  // null on ranks other than the root
    default:
      return bytes;
  }
}

size_t CollectiveCall::recv_bytes(int ranks) const {
  const size_t bytes = count * size_of(type);
  switch (kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
      return bytes * static_cast<size_t>(ranks);
    case CollectiveKind::kSend:
      return 0;
    default:
      return bytes;
  }
}

std::string CollectiveCall::signature() const {
  std::string text = std::string(name_of(kind)) + "(" + std::to_string(count) + " x " + name_of(type);
  static const char* const operations[] = {"sum", "prod", "max", "min", "avg"};
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      text += std::string(", ") + operations[op];
      break;
    case CollectiveKind::kReduce:
      text += std::string(", ") + operations[op] + ", root " + std::to_string(root);
      break;
    case CollectiveKind::kBroadcast:
      text += ", root " + std::to_string(root);
      break;
    case CollectiveKind::kSend:
      text += ", to " + std::to_string(root);
      break;
    case CollectiveKind::kRecv:
      text += ", from " + std::to_string(root);
      break;
    default:
      break;
  }
  return text + ")";
}

void CommGroup::fail(ncclResult_t result, std::string text) {
  if (error == ncclSuccess) {
    error = result;
    error_text = std::move(text);
  }
  changed.notify_all();
}

std::string CommGroup::rank_text(int rank) const {
  std::string text = "rank " + std::to_string(rank);
  const int device = devices[static_cast<size_t>(rank)];
  if (device != rank && device >= 0) text += " (device " + std::to_string(device) + ")";
  return text;
}

}  // namespace braid::emulated
