#include "python/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "codegen/cuda/gpus.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/program.h"

namespace braid::python {

std::pair<std::string, std::string> default_device() {
  std::string why;
  if (!codegen::cuda::find_gpus_here(&why).empty()) return {"gpu", ""};
  return {"emulated", why};
}

void check_device(const std::string& device) {
  if (device == "emulated") return;
  int number = 0;
  if (device != "gpu") {
    const bool numbered = device.starts_with("gpu:");
    const char* const end = device.data() + device.size();
    const auto [at, error] = numbered ? std::from_chars(device.data() + 4, end, number)
                                      : std::from_chars_result{end, std::errc::invalid_argument};
    if (error != std::errc() || at != end || number < 0) {
      ir::user_error(errors::kBadOption, {}, fmt::format("device='{}' is not a device", device),
                     "write 'gpu', 'gpu:N' or 'emulated'");
    }
  }
  std::string why;
  const auto gpus = static_cast<int>(codegen::cuda::find_gpus_here(&why).size());
  if (number < gpus) return;
  ir::user_error(errors::kNoGpu, {},
                 gpus == 0 ? fmt::format("there is no GPU: {}", why)
                           : fmt::format("there is no GPU {}: the driver shows {}", number, gpus),
                 "device='emulated' needs none");
}

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

}  // namespace braid::python
