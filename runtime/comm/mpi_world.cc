#include "runtime/comm/mpi_world.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

#include "runtime/comm/group_rules.h"
#include "runtime/comm/mpi_block.h"
#include "runtime/comm/mpi_communicator.h"
#include "runtime/comm/settings.h"

namespace braid::rt::mpi {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr std::chrono::seconds kLastWords{5};  // in which the others can hear of an error
// Operations of failed Worlds: MPI may still write to their headers until MPI_Finalize.
std::vector<std::unique_ptr<MpiCommunicator>> abandoned;
bool we_finalize = false, world_failed = false;

void finalize_at_exit() {
  int over = 0;
  MPI_Finalized(&over);
  if (we_finalize && !world_failed && !over) MPI_Finalize();
}

}  // namespace

void MpiWorld::Free::operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kPageBytes}); }

MpiWorld::MpiWorld(const WorldOptions& options, int64_t timeout_ms)
    : timeout_ms_(timeout_ms),
      segment_bytes_((options.segment_bytes + kPageBytes - 1) / kPageBytes * kPageBytes) {
  segment_.reset(static_cast<std::byte*>(
      ::operator new (std::max(segment_bytes_, kPageBytes), std::align_val_t{kPageBytes})));
  std::memset(segment_.get(), 0, std::max(segment_bytes_, kPageBytes));
  MPI_Comm_dup(MPI_COMM_WORLD, &control_);
  MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(control_, &rank_);
  MPI_Comm_size(control_, &size_);
  thread_ = std::thread([this] { run(); });
}

MpiWorld::~MpiWorld() {
  {
    // No rank leaves before all are done: a peer may still need this rank's thread. After an error, ranks may
    // be missing, so the wait is short.
    const Lock held = lock();
    const auto now = [] { return std::chrono::steady_clock::now(); };
    auto deadline = now() + std::chrono::milliseconds(timeout_ms_);
    MPI_Request left = MPI_REQUEST_NULL;
    MPI_Ibarrier(control_, &left);
    int gone = 0;
    for (bool hurried = false; !gone && now() < deadline; std::this_thread::yield()) {
      progress();
      if (failed() && !hurried) {
        hurried = true;
        deadline = std::min(deadline, now() + kLastWords);
      }
      MPI_Test(&left, &gone, MPI_STATUS_IGNORE);
    }
    world_failed = !gone;
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (failed() || world_failed) {
    for (auto& c : communicators_) abandoned.push_back(std::move(c));
    return;
  }
  for (const auto& c : communicators_) c->free();
  MPI_Comm_free(&control_);
}

void MpiWorld::run() {
  Lock held = lock();
  while (!stop_) {
    const bool busy = progress();
    wake_.wait_for(held, busy ? std::chrono::microseconds(50) : std::chrono::microseconds(2000));
  }
}

bool MpiWorld::progress() {
  if (failed()) return false;
  hear_aborts();
  bool busy = false;
  for (size_t k = 0; k < communicators_.size() && !failed(); ++k) busy |= communicators_[k]->progress();
  return busy;
}

void MpiWorld::hear_aborts() {
  int flag = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kAbortTag, control_, &flag, &status) != MPI_SUCCESS || !flag) return;
  char text[kAbortBytes] = {};
  MPI_Recv(text, kAbortBytes, MPI_BYTE, status.MPI_SOURCE, kAbortTag, control_, MPI_STATUS_IGNORE);
  text[kAbortBytes - 1] = '\0';
  failure_ = Status::error(static_cast<StatusCode>(text[0]), text + 1);
}

Status MpiWorld::fail(StatusCode code, const std::string& message) {
  if (failed()) return failure_;
  hear_aborts();  // the first error stays
  if (failed()) return failure_;
  const std::string text =
      code == StatusCode::aborted ? "rank " + std::to_string(rank_) + " aborted: " + message : message;
  failure_ = Status::error(code, text);
  abort_text_.assign(kAbortBytes, '\0');
  abort_text_[0] = static_cast<char>(code);
  std::memcpy(abort_text_.data() + 1, text.data(),
              std::min(text.size(), static_cast<size_t>(kAbortBytes) - 2));
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    aborts_.push_back(MPI_REQUEST_NULL);
    MPI_Isend(abort_text_.data(), kAbortBytes, MPI_BYTE, r, kAbortTag, control_, &aborts_.back());
  }
  return failure_;
}

bool MpiWorld::checked(int error, const std::string& what) {
  if (error == MPI_SUCCESS) return true;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  (void)fail(StatusCode::system, "MPI in " + what + ": " + text);
  return false;
}

Status MpiWorld::last_error() const {
  const Lock held = lock();
  return failure_;
}

void MpiWorld::abort(std::string_view reason) {
  const Lock held = lock();
  (void)fail(StatusCode::aborted, std::string(reason));
}

// Returns when all members are present: making a communicator would wait for them without a time-out.
Status MpiWorld::meet(const std::vector<int>& members, std::string_view name, int tag) {
  Lock held = lock();
  std::vector<MPI_Request> requests;
  std::vector<char> here(members.size(), 0);
  char token = 0;
  requests.reserve(2 * members.size());
  std::vector<size_t> receive_of;
  for (size_t m = 0; m < members.size(); ++m) {
    if (members[m] == rank_) continue;
    receive_of.push_back(m);
    requests.push_back(MPI_REQUEST_NULL);
    MPI_Irecv(&here[m], 1, MPI_BYTE, members[m], tag, control_, &requests.back());
  }
  for (const int member : members) {
    if (member == rank_) continue;
    requests.push_back(MPI_REQUEST_NULL);
    MPI_Isend(&token, 1, MPI_BYTE, member, tag, control_, &requests.back());
  }
  const bool all = block_until(held, [&] {
    int flag = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE);
    return flag != 0;
  });
  if (all && !failed()) return {};
  std::string missing;
  for (size_t k = 0; k < requests.size(); ++k) {
    int flag = 0;
    if (requests[k] == MPI_REQUEST_NULL) continue;
    MPI_Request_get_status(requests[k], &flag, MPI_STATUS_IGNORE);
    if (k < receive_of.size() && !flag) missing += " rank " + std::to_string(members[receive_of[k]]);
    if (!flag) MPI_Cancel(&requests[k]);
    if (!flag) MPI_Request_free(&requests[k]);
  }
  if (failed()) return failure_;
  return fail(StatusCode::timed_out, "timed out after " + std::to_string(timeout_ms_) +
                                         " ms: never joined group '" + std::string(name) + "':" + missing);
}

Status MpiWorld::group(std::span<const int> ranks, std::string_view name, Communicator** out) {
  *out = nullptr;
  if (Status valid = check_group(ranks, name, size_); !valid.ok()) return valid;
  const std::vector<int> members(ranks.begin(), ranks.end());
  const auto me = std::find(members.begin(), members.end(), rank_);
  if (me == members.end()) return {};
  uint32_t occurrence = 0;
  for (const auto& made : communicators_) {
    if (made->name() == name && std::ranges::equal(made->members(), members)) ++occurrence;
  }
  const int tag =
      2 + static_cast<int>(group_key(name, members, occurrence) % 30000);  // every MPI has that many tags
  if (Status met = meet(members, name, tag); !met.ok()) return met;

  const Lock held = lock();
  MPI_Group everybody = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(control_, &everybody);
  MPI_Group_incl(everybody, static_cast<int>(members.size()), members.data(), &group);
  GroupComms comms;
  const std::string what = "group '" + std::string(name) + "'";
  bool good = checked(MPI_Comm_create_group(control_, group, tag, &comms.headers), what);
  good = good && checked(MPI_Comm_dup(comms.headers, &comms.data), what);
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  if (!good) return failure_;
  MPI_Comm_set_errhandler(comms.headers, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(comms.data, MPI_ERRORS_RETURN);
  communicators_.push_back(std::make_unique<MpiCommunicator>(
      *this, members, static_cast<int>(me - members.begin()), std::string(name), comms));
  *out = communicators_.back().get();
  return {};
}

}  // namespace braid::rt::mpi

namespace braid::rt {

namespace {

Status join(const WorldOptions& options, std::unique_ptr<World>* out) {
  int64_t timeout_ms = 0;
  if (Status known = timeout_in_force(options, &timeout_ms); !known.ok()) return known;
  int ready = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&ready);
  if (ready) {
    MPI_Query_thread(&level);
  } else {
    // Open MPI's blocking calls (making and freeing communicators) spin. If ranks and their threads outnumber
    // the cores, nothing else runs; this setting lets others run. A setting of the user's stays.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    mpi::we_finalize = true;
    std::atexit(mpi::finalize_at_exit);
  }
  if (level < MPI_THREAD_SERIALIZED)
    return Status::error(StatusCode::system,
                         "this MPI does not serve more than one thread (MPI_THREAD_SERIALIZED)");
  *out = std::make_unique<mpi::MpiWorld>(options, timeout_ms);
  return {};
}

}  // namespace
}  // namespace braid::rt

extern "C" __attribute__((visibility("default"))) void braid_mpi_join_1(
    const braid::rt::WorldOptions& options, std::unique_ptr<braid::rt::World>* out,
    braid::rt::Status* status) {
  static_assert(std::is_same_v<decltype(&braid_mpi_join_1), braid::rt::JoinMpi>);
  *status = braid::rt::join(options, out);
}
