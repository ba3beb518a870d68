// One rank of a CUDA program, on a GPU or on the emulated device (runtime/cuda_session.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/program_files.h"
#include "harness/session.h"
#include "runtime/cuda_library.h"
#include "runtime/mapped_file.h"
#include "runtime/program.h"

namespace braid::harness {

// See Program::open.
std::unique_ptr<Session> open_cuda(const ProgramFiles& files, const rt::CudaLibrary& library,
                                   const SessionOptions& options);

// A run of a CUDA program needs these, too. The error's number is that of a CPU program for the same
// condition, `invalid_argument` that of BRAID_INVALID_ARGUMENT.
rt::ProgramError cuda_error(BraidStatus status, int invalid_argument, const std::string& message);

// The message, with what the emulated device has found.
std::string with_findings(const char* message, const std::string& findings);

// Empty if the program has none of these.
rt::MappedFile map_weights(const ProgramFiles& files, std::uint64_t bytes);
rt::MappedFile map_rank_weights(const ProgramFiles& files, int rank, std::uint64_t bytes);

}  // namespace braid::harness
