#include "runtime/comm/check_environment.h"

#include <string>

#include "runtime/comm/bootstrap.h"
#include "runtime/comm/control_bootstrap.h"
#include "runtime/comm/settings.h"
#include "runtime/cuda_variables.h"
#include "runtime/emulated/variables.h"
#include "runtime/kernel_variables.h"

namespace braid::rt {
namespace {

Status invalid(std::string wrong) {
  return wrong.empty() ? Status{} : Status::error(StatusCode::invalid_argument, std::move(wrong));
}

template <class Variables>
Status check_numbers(const Variables& variables) {
  for (const NumberVariable& variable : variables) {
    int64_t ignored = 0;
    if (Status status = invalid(read_variable(variable, &ignored)); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Status check_environment(bool cuda) {
  if (Status status = check_comm_environment(); !status.ok()) return status;
  if (Status status = check_numbers(kPortVariables); !status.ok()) return status;
  if (!cuda) return invalid(kernel_variables_fault());
  if (Status status = check_numbers(cuda::kVariables); !status.ok()) return status;
  return check_numbers(emulated::kVariables);
}

}  // namespace braid::rt
