// The channel on which the processes of a run report their state to each other, in addition to their
// collectives. Every rank has a TCP connection to rank 0, open from the beginning of a run to its end, with a
// thread on either side. A closed connection shows that a process has ended, silence that it is stopped, and
// its progress that it hangs; rank 0 passes its knowledge on to all. So when a collective does not complete,
// every rank can name the ranks that it waits for. The secret protects only the meeting (control_meeting.h):
// an attacker that can change the network's data can change later messages.
//
// For ranks that communicate by other means, such as NCCL, which does not know its peers' processes.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/control_meeting.h"
#include "runtime/comm/status.h"

namespace braid::rt {

class ControlChannel {
 public:
  static constexpr uint64_t kFinished = UINT64_MAX;  // progress of a rank that has nothing more to do

  // Returns when all ranks are there, or with an error at the time-out (control_meeting.h). Rank 0 gives its
  // listener, the others its address.
  static Status host(const ControlOptions& options, const Socket& listener,
                     std::unique_ptr<ControlChannel>* out);
  static Status join(const ControlOptions& options, const control::Address& address,
                     std::unique_ptr<ControlChannel>* out);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

  // Every rank gets the bytes of rank 0: at most 64 KiB. Fails if rank 0 is lost or the time-out passes.
  Status broadcast(std::span<std::byte> data);

  // Reports this rank's progress: 0 at first, 1 when it is ready for its first step, 2 when it has issued
  // that one, and so on; at most kFinished. Steps may be short, so the others learn it with the next beat,
  // and when a rank waits.
  void reached(uint64_t progress);
  // Reports the progress of this rank's device, if it has one: in step number `step`, from 1, nothing is left
  // to do before the first `collectives` collectives; UINT64_MAX: nothing at all. Step 0: before the first
  // step.
  void device_at(uint64_t step, uint64_t collectives);
  // Waits until all ranks have reached `progress`, at most `timeout_ms`; negative: without end. Fails, and
  // names the rank, if one is lost, late or has been silent for as long as the time-out of the options.
  Status await_all(uint64_t progress, int64_t timeout_ms);

  // Whether a rank has ended or failed. Does not wait.
  bool lost() const;
  // For a rank that waits in vain: returns how many ranks are missing; `text` says which and why. These are
  // the ranks that have ended, failed or fallen silent. If there are none and the ranks are `overdue`, they
  // are those that are least far, by their devices if all report one, then by the steps issued. Otherwise
  // they are those that have left. -1: this rank is the one that is least far, and `text` says so. Waits for
  // ranks of the first kind as long as it takes to notice silence.
  int missing(bool overdue, std::string* text);

  // Ends this rank's part, with an error if it has failed. The others then give that error as the reason,
  // unless it is a consequence of another rank's. Rank 0 first waits for the others, at most as long as the
  // time-out, because they learn about each other from it. The destructor calls it without an error, if it
  // has not been called.
  void leave(const std::string& error = {}, bool consequence = false);

 private:
  enum class Life : uint8_t { present, left, gave_up, failed, ended };
  struct Peer {
    control::Member member;
    Life life = Life::present;
    std::string error;  // of a failed one
    uint64_t progress = 0;
    uint64_t device = 0;    // kStepUnit * step + 1 + collectives, at most kMostCollectives; 0: unknown
    int64_t silent_ns = 0;  // counted only while this process runs, so suspending all of them is harmless
  };

  ControlChannel(const ControlOptions& options, std::vector<control::Link> links,
                 std::vector<control::Member> members);
  void serve();
  void wait_for_sockets();
  void pass_time(int64_t ns);
  void hear(size_t link);
  void take(size_t peer, const control::Message& message);
  void take_roster(const std::string& fields);
  std::string roster() const;
  void tell();
  void send_to_all(control::Kind kind, const std::string& fields);
  void wake() const;

  static constexpr uint64_t kStepUnit = uint64_t{1} << 24, kMostCollectives = kStepUnit - 2;
  static std::string device_place(uint64_t device);
  static bool absent(const Peer& peer) { return peer.life >= Life::gave_up; }
  bool silent(const Peer& peer) const { return peer.life == Life::present && peer.silent_ns > silence_ns_; }
  int count_missing(bool overdue, std::string* text) const;
  int count_behind(std::string* text) const;

  const ControlOptions options_;
  const int64_t beat_ns_, silence_ns_;  // between two messages; after which a rank counts as missing
  Socket wake_;
  mutable std::mutex mutex_;  // of all that follows
  mutable std::condition_variable changed_;
  std::vector<control::Link> links_;  // rank 0: by rank, the first unused; others: to rank 0
  std::vector<Peer> peers_;           // by rank, this one included
  std::deque<std::string> data_;
  bool left_ = false, said_bye_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace braid::rt
