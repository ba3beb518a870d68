// The caller's knowledge of the other ranks (BraidCudaCreateInfo).
#pragma once

#include <string>

#include "runtime/cuda/step_watch.h"
#include "runtime/cuda_abi.h"

namespace braid::rt::cuda {

class OtherRanks {
 public:
  OtherRanks() = default;
  explicit OtherRanks(const BraidCudaCreateInfo& info)
      : lost_(info.lost), missing_(info.missing), device_at_(info.device_at), user_(info.missing_user) {}

  bool known() const { return missing_ != nullptr; }
  bool lost() const { return lost_ != nullptr && lost_(user_) != 0; }
  // Returns ": " and the names of the missing ranks; empty if none is known to be missing. May wait until
  // this is known.
  std::string missing(bool overdue) const {
    char text[512] = "";
    if (missing_ == nullptr || missing_(user_, overdue ? 1 : 0, text, sizeof(text)) == 0) return "";
    text[sizeof(text) - 1] = '\0';
    return std::string(": ") + text;
  }
  // Where the device is in its steps.
  void tell(const DevicePlace& place) const {
    if (device_at_ != nullptr) device_at_(user_, place.step, place.collectives);
  }

 private:
  int (*lost_)(void* user) = nullptr;
  int (*missing_)(void* user, int overdue, char* text, uint64_t bytes) = nullptr;
  void (*device_at_)(void* user, uint64_t step, uint64_t collectives) = nullptr;
  void* user_ = nullptr;
};

}  // namespace braid::rt::cuda
