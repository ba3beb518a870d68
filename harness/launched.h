// Detects whether mpirun, torchrun or Slurm started this process as one of several ranks; it then runs only
// that rank.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "harness/program.h"
#include "runtime/comm/bootstrap.h"

namespace braid::harness {

// UserError BR0011 if the launcher's variables contradict each other.
rt::RankEnvironment rank_environment();
// The same; nullopt if no launcher started several ranks.
std::optional<rt::RankEnvironment> launched();

// The number of a launched rank, -1 otherwise.
int launched_rank();
// "rank 2: " in a launched rank, otherwise empty; launched ranks share one terminal.
std::string rank_prefix();

// An error of a launched rank that is already printed. It is printed before the rank leaves the World, since
// mpirun ends all ranks as soon as one has ended.
class ReportedError : public std::runtime_error {
 public:
  explicit ReportedError(std::exception_ptr cause)
      : std::runtime_error("its error is printed above"), cause_(std::move(cause)) {}
  const std::exception_ptr& cause() const { return cause_; }

 private:
  std::exception_ptr cause_;
};
// Runs the steps of a launched rank so.
void as_launched_rank(const std::function<void()>& steps);

// UserError BR0012 if an environment variable that the ranks of this program read has an invalid value or
// requests something unavailable. The first one asks before there is a program.
void check_environment(bool cuda);
void check_environment(const Program& program);

// UserError BR0011 if the launcher's number of ranks is not the program's, BR0003 if the options need all
// ranks in this process.
void check_launched(const rt::RankEnvironment& environment, const Program& program,
                    const ExecuteOptions& options);

}  // namespace braid::harness
