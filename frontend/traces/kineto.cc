#include "frontend/traces/kineto.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "frontend/traces/trace_entry.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr double kClockNs = 1;  // times are rounded to this

// A call of the host: a launch or an event call.
struct HostCall {
  double ts = 0;
  std::int64_t thread = 0;
};

struct StreamWait {
  int stream = 0, wait_on_stream = -1;
  std::int64_t call = -1, record_call = -1;  // correlation
};

struct DeviceOp {
  RecordedOp op;
  std::int64_t device = 0, correlation = -1;
  double launch = 0;  // time of the host's call, or of the kernel itself if the trace lacks the call
  std::int64_t thread = -1;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "void at::native::kernel<4, int>(int, float*)" is "at::native::kernel".
std::string short_name(const std::string& full) {
  std::string out;
  int depth = 0;
  for (char c : full) {
    if (c == '<') ++depth;
    if (depth == 0 && c == '(' && !out.empty() && full.find("(anonymous namespace)") == std::string::npos)
      break;
    if (depth == 0) out += c;
    if (c == '>' && depth > 0) --depth;
  }
  if (out.starts_with("void ")) out.erase(0, 5);
  return out.empty() ? full : out;
}

ir::DType dtype_of(std::string_view name) {
  static const std::map<std::string, ir::DType, std::less<>> kTypes = {
      {"float", ir::DType::f32},     {"double", ir::DType::f64}, {"half", ir::DType::f16},
      {"bfloat16", ir::DType::bf16}, {"char", ir::DType::i8},    {"short", ir::DType::i16},
      {"int", ir::DType::i32},       {"long", ir::DType::i64},   {"byte", ir::DType::u8},
  };
  const auto found = kTypes.find(lower(name));
  return found == kTypes.end() ? ir::DType::u8 : found->second;  // 8-bit floats and flags
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : scanner_(trace_scanner(text, file)) {
    trace_.format = "Kineto";
    trace_.file = file;
  }

  RecordedTrace run() && {
    if (scanner_.peek() == '[') {
      events();
    } else {
      object();
    }
    if (scanner_.peek() != '\0') scanner_.fail(scanner_.offset(), "unexpected text after the trace");
    choose_device();
    launches();
    streams();
    if (!waits_.empty()) {
      synchronisation();
      trace_.assumptions.push_back(
          "between streams only the recorded events order (cuda_sync); within one stream its order is kept");
    } else {
      infer();
      trace_.assumptions.push_back(
          "no cuda_sync events (record with enable_cuda_sync_events): a collective depends on what its "
          "thread launched "
          "before it, and the first kernel launched behind it that began after its end waits for it; within "
          "one stream "
          "its order is kept");
    }
    trace_.assumptions.push_back("times of collectives include waiting for late ranks");
    trace_.assumptions.push_back("times include the contention of the recording; none is added");
    for (DeviceOp& d : ops_) trace_.ops.push_back(std::move(d.op));
    return std::move(trace_);
  }

 private:
  void object() {
    scanner_.expect('{');
    bool found = false;
    if (!scanner_.take('}')) {
      do {
        const std::string key = scanner_.string();
        scanner_.expect(':');
        if (key == "traceEvents") {
          found = true;
          events();
        } else if (key == "distributedInfo") {
          scanner_.peek();
          const std::size_t offset = scanner_.offset();
          nlohmann::json value = scanner_.value();
          if (!value.is_object()) continue;
          const TraceEntry info(scanner_, offset, std::move(value));
          trace_.ranks = static_cast<int>(
              std::clamp<std::int64_t>(info.integer({"world_size"}).value_or(1), 1, ir::kMaxRanks));
        } else {
          scanner_.raw_value();
        }
      } while (scanner_.take(','));
      scanner_.expect('}');
    }
    if (!found) {
      ir::user_error(errors::kNotATrace, {.file = trace_.file}, "the JSON object has no 'traceEvents'",
                     "give a trace of the PyTorch profiler or a Chakra trace");
    }
  }

  void events() {
    if (scanner_.peek() != '[') scanner_.expect('[');
    scanner_.expect('[');
    if (scanner_.take(']')) return;
    do {
      scanner_.peek();
      const std::size_t offset = scanner_.offset();
      event({scanner_, offset, scanner_.value()});
    } while (scanner_.take(','));
    scanner_.expect(']');
  }

  void event(const TraceEntry& e) {
    if (e.string({"ph"}) != "X") return;
    const std::string category = lower(e.string({"cat"}));
    const bool kernel = category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset";
    if (kernel) {
      device_op(e, category);
    } else if (category == "cuda_runtime" || category == "cuda_driver" || category == "runtime") {
      const auto correlation = e.object("args").integer({"correlation"});
      if (correlation) {
        calls_[*correlation] = {time(e, "ts"), e.find({"tid"}) != nullptr && e.find({"tid"})->is_number()
                                                   ? e.integer({"tid"}).value_or(0)
                                                   : 0};
      }
    } else if (category == "cuda_sync") {
      const TraceEntry args = e.object("args");
      if (args.string({"cuda_sync_kind"}) != "Stream Wait Event" && e.string({"name"}) != "Stream Wait Event")
        return;
      StreamWait w;
      w.stream = static_cast<int>(args.integer({"stream"}).value_or(-1));
      w.wait_on_stream = static_cast<int>(args.integer({"wait_on_stream"}).value_or(-1));
      w.call = args.integer({"correlation"}).value_or(-1);
      w.record_call = args.integer({"wait_on_cuda_event_record_corr_id"}).value_or(-1);
      waits_.push_back(w);
    } else if (category == "cuda_event") {
      const TraceEntry args = e.object("args");
      const auto correlation = args.integer({"correlation"}), stream = args.integer({"stream"});
      if (correlation && stream) event_streams_[*correlation] = static_cast<int>(*stream);
    }
  }

  // In ns; us in the file.
  double time(const TraceEntry& e, const char* key) const {
    const auto us = e.number({key});
    if (!us) e.fail(fmt::format("the event '{}' has no '{}'", e.string({"name"}), key));
    return *us * 1e3;
  }

  void device_op(const TraceEntry& e, const std::string& category) {
    DeviceOp d;
    const std::string full = e.string({"name"});
    d.op.name = short_name(full);
    if (d.op.name.empty()) d.op.name = category;
    const double duration = time(e, "dur");
    if (duration < 0) e.fail(fmt::format("the duration of '{}' is negative", d.op.name));
    if (duration > 1e15) e.fail(fmt::format("the duration of '{}' is more than eleven days", d.op.name));
    d.op.begin_ns = time(e, "ts");
    d.op.end_ns = d.op.begin_ns + duration;
    const TraceEntry args = e.object("args");
    const auto stream = args.integer({"stream", "Stream"});
    d.op.stream =
        static_cast<int>(stream                                            ? *stream
                         : e.find({"tid"}) && e.find({"tid"})->is_number() ? e.integer({"tid"}).value_or(0)
                                                                           : 0);
    const auto device = args.integer({"device", "Device"});
    d.device = device                                            ? *device
               : e.find({"pid"}) && e.find({"pid"})->is_number() ? e.integer({"pid"}).value_or(0)
                                                                 : 0;
    d.correlation = args.integer({"correlation"}).value_or(-1);
    if (category == "kernel" &&
        (lower(full).find("nccl") != std::string::npos || args.find({"Collective name"})))
      d.op.collective = collective(full, args);
    ops_.push_back(std::move(d));
  }

  RecordedCollective collective(const std::string& full, const TraceEntry& args) {
    RecordedCollective c;
    const std::string name = args.string({"Collective name"});
    auto kind = collective_of_name(name);
    if (!kind) kind = collective_of_name(full);
    if (!kind) {
      unknown_ = true;
      kind = ir::CollectiveKind::all_reduce;
    }
    c.kind = *kind;
    c.group = args.string({"Process Group Name", "Process Group Description"});
    if (c.group.empty()) c.group = "nccl";
    c.dtype = dtype_of(args.string({"dtype"}));
    const auto in = args.integer({"In msg nelems"}), out = args.integer({"Out msg nelems"});
    c.elements = std::clamp<std::int64_t>(in && *in > 0 ? *in : out.value_or(1), 1, std::int64_t{1} << 40);

    // "[0, 1, 2, 3]"; long lists contain "...".
    const std::string ranks = args.string({"Process Group Ranks"});
    std::int64_t value = -1;
    bool whole = ranks.find("...") == std::string::npos;
    for (char ch : ranks + "]") {
      if (std::isdigit(static_cast<unsigned char>(ch)) != 0) {
        value = std::max<std::int64_t>(value, 0) * 10 + (ch - '0');
        if (value > 1'000'000) whole = false, value = 0;
      } else if (value >= 0) {
        c.ranks.push_back(static_cast<int>(value));
        value = -1;
      }
    }
    std::vector<int> sorted = c.ranks;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) whole = false;
    const std::int64_t size =
        std::clamp<std::int64_t>(args.integer({"Group size"}).value_or(0), 0, 1'000'000);
    if (!whole || c.ranks.size() < 2) {
      if (size < 2) unknown_group_ = true;
      c.ranks.clear();
      for (int r = 0; r < std::max<std::int64_t>(2, size); ++r) c.ranks.push_back(r);
    }
    return c;
  }

  void choose_device() {
    if (unknown_) trace_.assumptions.push_back("NCCL kernels of unknown kind count as all-reduces");
    if (unknown_group_)
      trace_.assumptions.push_back("collectives without a process group count as those of two ranks");
    std::int64_t first = -1;
    bool several = false;
    for (const DeviceOp& d : ops_) {
      several |= first >= 0 && d.device != first;
      if (first < 0 || d.device < first) first = d.device;
    }
    if (!several) return;
    std::erase_if(ops_, [&](const DeviceOp& d) { return d.device != first; });
    trace_.assumptions.push_back(
        fmt::format("the trace has several devices: only device {} is imported", first));
  }

  // By launch, which is also the order within each stream.
  void launches() {
    for (DeviceOp& d : ops_) {
      const auto call = calls_.find(d.correlation);
      d.launch = call == calls_.end() ? d.op.begin_ns : call->second.ts;
      d.thread = call == calls_.end() ? -1 : call->second.thread;
    }
    std::stable_sort(ops_.begin(), ops_.end(),
                     [](const DeviceOp& a, const DeviceOp& b) { return a.op.begin_ns < b.op.begin_ns; });
    for (std::size_t k = 0; k < ops_.size(); ++k)
      by_stream_[ops_[k].op.stream].push_back(static_cast<int>(k));
  }

  DeviceOp& op(int k) { return ops_[static_cast<std::size_t>(k)]; }

  // Adds a dependency; false if the recorded times contradict it.
  bool depend(int later, int earlier) {
    if (later == earlier || op(earlier).op.end_ns > op(later).op.begin_ns + kClockNs) return false;
    op(later).op.deps.push_back(earlier);
    return true;
  }

  void streams() {
    for (const auto& [stream, list] : by_stream_) {
      for (std::size_t k = 1; k < list.size(); ++k) op(list[k]).op.deps.push_back(list[k - 1]);
    }
  }

  void synchronisation() {
    int dropped = 0;
    for (const StreamWait& w : waits_) {
      const auto record = calls_.find(w.record_call);
      const auto call = calls_.find(w.call);
      const auto known = event_streams_.find(w.record_call);
      const int producer_stream = w.wait_on_stream >= 0           ? w.wait_on_stream
                                  : known != event_streams_.end() ? known->second
                                                                  : -1;
      const auto from = by_stream_.find(producer_stream), to = by_stream_.find(w.stream);
      if (record == calls_.end() || call == calls_.end() || from == by_stream_.end() ||
          to == by_stream_.end()) {
        ++dropped;
        continue;
      }
      // Within a stream launches are in order, except for threads that launch concurrently.
      const auto launched = [&](int k) { return op(k).launch; };
      const auto after_record = std::partition_point(from->second.begin(), from->second.end(),
                                                     [&](int k) { return launched(k) <= record->second.ts; });
      const auto waiting = std::partition_point(to->second.begin(), to->second.end(),
                                                [&](int k) { return launched(k) <= call->second.ts; });
      if (after_record == from->second.begin() || waiting == to->second.end())
        continue;  // nothing to wait for
      dropped += depend(*waiting, *std::prev(after_record)) ? 0 : 1;
    }
    if (dropped > 0) {
      trace_.assumptions.push_back(fmt::format(
          "{} of {} stream waits could not be matched with kernels and are ignored", dropped, waits_.size()));
    }
  }

  void infer() {
    std::vector<int> kernels, by_end;  // without collectives; by begin
    for (int k = 0; k < static_cast<int>(ops_.size()); ++k) {
      if (!op(k).op.collective) kernels.push_back(k);
    }
    std::vector<int> launched = kernels;
    std::stable_sort(launched.begin(), launched.end(),
                     [&](int a, int b) { return op(a).launch < op(b).launch; });
    // Kernels of several streams: each after the last one of every other stream that had ended.
    for (const auto& [stream, list] : by_stream_) {
      if (op(list.front()).op.collective) continue;
      for (int k : kernels) {
        if (op(k).op.stream == stream) continue;
        const auto after = std::partition_point(
            list.begin(), list.end(), [&](int o) { return op(o).op.end_ns <= op(k).op.begin_ns + kClockNs; });
        if (after != list.begin() && !op(*std::prev(after)).op.collective) depend(k, *std::prev(after));
      }
    }
    for (int c = 0; c < static_cast<int>(ops_.size()); ++c) {
      if (!op(c).op.collective) continue;
      const auto mine = std::partition_point(launched.begin(), launched.end(),
                                             [&](int k) { return op(k).launch <= op(c).launch; });
      for (auto it = mine; it != launched.begin();) {
        --it;
        if (op(*it).thread == op(c).thread && depend(c, *it)) break;
      }
      for (auto it = mine; it != launched.end(); ++it) {
        if (depend(*it, c)) break;
      }
    }
  }

  JsonScanner scanner_;
  RecordedTrace trace_;
  std::vector<DeviceOp> ops_;
  std::map<std::int64_t, HostCall> calls_;     // by correlation
  std::map<std::int64_t, int> event_streams_;  // by correlation of the record call
  std::map<int, std::vector<int>> by_stream_;  // in order
  std::vector<StreamWait> waits_;
  bool unknown_ = false, unknown_group_ = false;
};

}  // namespace

std::optional<ir::CollectiveKind> collective_of_name(std::string_view name) {
  std::string letters;
  for (char c : lower(name)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += c;
  }
  struct Word {
    std::string_view word;
    ir::CollectiveKind kind;
  };
  // The first one that occurs decides; "reduce" alone is part of others.
  static constexpr Word kWords[] = {
      {"reducescatter", ir::CollectiveKind::reduce_scatter},
      {"allreduce", ir::CollectiveKind::all_reduce},
      {"allgather", ir::CollectiveKind::all_gather},
      {"alltoall", ir::CollectiveKind::all_to_all},
      {"sendrecv", ir::CollectiveKind::all_to_all},
      {"broadcast", ir::CollectiveKind::broadcast},
      {"barrier", ir::CollectiveKind::all_reduce},
      {"reduce", ir::CollectiveKind::all_reduce},
      {"gather", ir::CollectiveKind::all_to_all},
      {"scatter", ir::CollectiveKind::all_to_all},
      {"send", ir::CollectiveKind::all_to_all},
      {"recv", ir::CollectiveKind::all_to_all},
  };
  for (const Word& w : kWords) {
    if (letters.find(w.word) != std::string::npos) return w.kind;
  }
  return std::nullopt;
}

RecordedTrace read_kineto(std::string_view text, const std::string& file) { return Reader(text, file).run(); }

}  // namespace braid::frontend
