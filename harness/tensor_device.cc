#include "harness/tensor_device.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::harness {

TensorDevice::~TensorDevice() {
  if (event_ != nullptr) calls_.release_event(number_, event_);
}

std::shared_ptr<void> TensorDevice::allocate(const std::shared_ptr<const TensorDevice>& on, std::size_t bytes,
                                             std::shared_ptr<const void> keep) {
  void* memory = on->calls_.allocate(on->number_, bytes);
  if (memory == nullptr) {
    throw rt::ProgramError(
        rt::kStepFailed,
        fmt::format("CUDA device {} has no {} bytes of memory for a tensor", on->number_, bytes));
  }
  return {memory, [on, keep = std::move(keep), owner = ::getpid()](void* p) {
            // A fork of the process has none of its device.
            if (::getpid() == owner) on->calls_.release(on->number_, p);
          }};
}

void TensorDevice::precede(std::int64_t stream) const {
  if (event_ == nullptr || stream < 0) return;
  if (calls_.precede(number_, event_, reinterpret_cast<void*>(stream)) == 0) return;
  ir::user_error(errors::kWrongStream, {},
                 fmt::format("stream {} is not one of CUDA device {}", stream, number_),
                 "pass a stream of the tensor's device");
}

void TensorDevice::read(void* to, const void* from, std::size_t bytes) const {
  if (const int error = calls_.read(number_, event_, to, from, bytes); error != 0) {
    throw rt::ProgramError(
        rt::kStepFailed,
        fmt::format("the tensor cannot be copied from CUDA device {}: error {} of CUDA", number_, error));
  }
}

}  // namespace braid::harness
