// A compiled program: a folder with manifest.json, written by `braid compile`, and the library in it that
// runs here.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/manifest.h"
#include "codegen/target.h"

namespace braid::harness {

// Where CUDA programs run. automatic: on GPUs if there are any, otherwise on the emulated device, which a
// line on standard error says once.
enum class DeviceChoice { automatic, gpu, emulated };

struct ProgramFiles {
  std::string dir;
  std::string shown;  // in messages: what the user gave, which is a model where the folder is a temporary one
  std::string name;
  codegen::ProgramAbi abi = codegen::ProgramAbi::host;
  std::string library;
  bool emulated = false;  // CUDA: for the emulated device, not for GPUs
  std::uint64_t id = 0;   // of the compilation; must match the library's
};

bool is_program_dir(const std::string& path);
// UserErrors: BR0008 if the folder holds no program, BR0016 if a compilation into it was interrupted, BR0003
// and BR0013 if the program cannot run on the chosen device.
ProgramFiles find_program(const std::string& dir, DeviceChoice device, const std::string& shown);
// The same for a manifest that has been read and a known device. The library is built if it is missing.
ProgramFiles find_library(const std::string& dir, const codegen::Manifest& manifest,
                          const codegen::BuildRequest& request, const std::string& shown);
// BR0003 if the choice is not for this kind of program, before one is compiled.
void check_device(DeviceChoice device, bool cuda, const std::string& shown);

// A line about the device for what is printed with times; empty on the CPU.
std::string device_line(const ProgramFiles& program);

}  // namespace braid::harness
