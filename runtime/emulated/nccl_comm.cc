#include "runtime/emulated/nccl_comm.h"

#include <algorithm>

#include "runtime/emulated/finding_list.h"

namespace braid::emulated {

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
  if (kind == CollectiveKind::kBroadcast && send == nullptr) return 0;  // on ranks other than the root
  return count * size_of(type) * rt::count_of(row_of(kind).in, static_cast<size_t>(ranks));
}

size_t CollectiveCall::recv_bytes(int ranks) const {
  return count * size_of(type) * rt::count_of(row_of(kind).out, static_cast<size_t>(ranks));
}

std::string CollectiveCall::signature() const {
  const CollectiveRow& row = row_of(kind);
  std::string text = std::string(row.name) + "(" + std::to_string(count) + " x " + name_of(type);
  static const char* const operations[] = {"sum", "prod", "max", "min", "avg"};
  if (row.reduces) text += std::string(", ") + operations[op];
  if (row.rooted) text += ", root " + std::to_string(root);
  if (row.transfer()) text += (kind == CollectiveKind::kSend ? ", to " : ", from ") + std::to_string(root);
  return text + (captured ? ", in a graph)" : ")");
}

std::string CollectiveCall::title() const {
  return std::string(name_of(kind)) + (label.empty() ? "" : " [" + label + "]");
}

void CommGroup::fail(ncclResult_t result, std::string text) {
  if (error == ncclSuccess) {
    error = result;
    error_text = std::move(text);
  }
  changed.notify_all();
}

bool CommGroup::across_processes() const {
  return std::any_of(processes.begin(), processes.end(),
                     [](const auto& process) { return !process.empty(); });
}

ncclResult_t CommGroup::asynchronous_error() const {
  return error == ncclSuccess && !lost_text.empty() ? ncclRemoteError : error;
}

std::string CommGroup::rank_text(int rank) const {
  std::string text = "rank " + std::to_string(rank);
  const int device = devices[static_cast<size_t>(rank)];
  if (device != rank && device >= 0) text += " (device " + std::to_string(device) + ")";
  return text;
}

}  // namespace braid::emulated
