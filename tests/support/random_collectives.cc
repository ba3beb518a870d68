#include "tests/support/random_collectives.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include "ir/element.h"
#include "ir/parser.h"

namespace braid::test {
namespace {

using ir::DType;

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i8,
                            DType::i16, DType::i32, DType::i64,    DType::u8,   DType::u16,
                            DType::u32, DType::u64, DType::boolean};
constexpr std::int64_t kSizes[] = {1, 3, 16, 40, 200};
constexpr std::int64_t kLargest = 1024;  // elements
// Values stay whole numbers of at most this size: exact in bf16.
constexpr double kBound = 256;
constexpr std::size_t kLive = 10;  // values that operations choose from
constexpr std::size_t kFlights = 12;

class Writer {
 public:
  Writer(std::uint64_t seed, const RandomCollectivesOptions& options)
      : random_(seed), ranks_random_(seed ^ 0x72616e6b73), options_(options) {
    ranks_ = options.ranks != 0 ? options.ranks : 2 + pick(7);
  }

  RandomCollectives write(std::uint64_t seed) {
    head();
    for (int left = options_.collectives; left > 0;) {
      while (live_.size() < kLive) fresh();
      if (pick(3) == 0) arithmetic();
      if (ranks_random_() % 3 == 0) change_by_rank();
      left -= collective();
      while (flights_.size() > kFlights || (!flights_.empty() && pick(3) == 0)) advance();
      while (!unreleased_.empty() && (unreleased_.size() > kFlights || pick(3) == 0)) release();
      if (live_.size() > kLive) drop(static_cast<std::size_t>(pick(static_cast<int>(live_.size()))));
    }
    while (!flights_.empty()) advance();
    while (!unreleased_.empty()) release();
    while (!live_.empty()) drop(0);
    for (const std::string& name : outputs_) line("output %{}", name);
    RandomCollectives out{text_, ir::parse_schedule(text_, fmt::format("seed{}", seed)), {}};
    inputs(out);
    return out;
  }

 private:
  // A tensor of one axis that is ready to be used.
  struct Value {
    std::string name, storage;
    DType dtype = DType::f32;
    std::int64_t size = 0;
    double bound = 2;  // of absolute values; infinite after an average
  };
  // Started, not waited for.
  struct Flight {
    std::string op;
    std::size_t group = 0;
    std::vector<Value> results;
    std::vector<std::string> waited;    // names after the wait
    std::vector<std::string> storages;  // pinned until the release
    std::string partner;                // of a receive: the send, which is waited for before it
    bool keeps = false;                 // ranks outside of the group keep what was there
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string name(const char* stem) { return fmt::format("{}{}", stem, ++names_); }
  static std::string type(DType dtype, std::int64_t size) {
    return fmt::format("{}[{}]", to_string(dtype), size);
  }
  std::string place(std::size_t group) {
    const int where = pick(3);
    return where == 0 ? "" : fmt::format(" comm({}, @g{})", where == 1 ? "symmetric" : "registered", group);
  }

  void head() {
    line("graph collectives\nranks {}\nchannels {}", ranks_, pick(2) == 0 ? "global" : "communicator");
    global_ = text_.find("global") != std::string::npos;
    make_mesh();
    std::vector<int> all(static_cast<std::size_t>(ranks_));
    std::iota(all.begin(), all.end(), 0);
    groups_.push_back({"g0", {all}});
    for (int g = 1; g < 6; ++g) {
      std::vector<int> members = all;
      std::shuffle(members.begin(), members.end(), random_);
      const int size = g == 1 ? 2 : 1 + pick(ranks_);
      ir::CommGroup& group = groups_.emplace_back(ir::CommGroup{fmt::format("g{}", g), {}});
      for (int part = 1 + pick(ranks_ / size); part > 0; --part) {
        group.parts.emplace_back(members.end() - size, members.end());
        members.resize(members.size() - static_cast<std::size_t>(size));
      }
    }
    for (const ir::CommGroup& g : groups_) line("group @{} = {}", g.name, g.parts);
    // 1 where the rank is a member: results of others are not defined.
    for (const ir::CommGroup& g : groups_) {
      std::vector<std::string> entries;
      for (int r = 0; r < ranks_; ++r) entries.emplace_back(g.part_of(r) != nullptr ? "[1]" : "[0]");
      line("constant %member_{}: i32[1] = per_rank({})", g.name, fmt::join(entries, ", "));
    }
    for (DType dtype : kTypes) line("input %x_{}: {}", to_string(dtype), type(dtype, kLargest));
  }

  void inputs(RandomCollectives& out) {
    for (int r = 0; r < ranks_; ++r) {
      out.inputs.emplace_back();
      for (DType dtype : kTypes) {
        ir::Tensor t = ir::make_tensor(dtype, {kLargest});
        const bool negative = ir::is_float(dtype) || ir::is_signed_integer(dtype);
        for (std::int64_t k = 0; k < kLargest; ++k) {
          const std::int64_t v = dtype == DType::boolean ? pick(2) : negative ? pick(5) - 2 : pick(3);
          ir::write_element(dtype, t.bytes.data() + k * ir::size_of(dtype),
                            ir::is_float(dtype) ? ir::Literal(static_cast<double>(v)) : ir::Literal(v));
        }
        out.inputs.back().push_back(std::move(t));
      }
    }
  }

  bool pinned(const std::string& storage) const { return pins_.count(storage) != 0 && pins_.at(storage) > 0; }

  // ---- coordinates of the rank: from numbers of their own, so that the other choices are those without them

  int pick_by_rank(std::int64_t n) {
    return static_cast<int>(ranks_random_() % static_cast<std::uint64_t>(n));
  }

  // One to three axes.
  void make_mesh() {
    std::vector<std::string> axes;
    for (int left = ranks_; left > 1 || axes.empty();) {
      int size = axes.size() == 2 ? left : 1 + pick_by_rank(left);
      while (left % size != 0) --size;
      axes_.push_back({fmt::format("a{}", axes.size()), size});
      axes.push_back(fmt::format("{}={}", axes_.back().name, size));
      left /= size;
    }
    line("mesh [{}]", fmt::join(axes, ", "));
  }
  const ir::MeshAxis& pick_axis() {
    return axes_[static_cast<std::size_t>(pick_by_rank(static_cast<std::int64_t>(axes_.size())))];
  }

  // An expression over coordinates with values in [0, most].
  std::string below(std::int64_t most) {
    const ir::MeshAxis& axis = pick_axis();
    const std::int64_t steps = axis.size - 1, half = steps / 2;
    switch (pick_by_rank(5)) {
      case 0:
        return steps == 0
                   ? fmt::format("{}", most)
                   : fmt::format("{} - {} * rank({})", most, pick_by_rank(most / steps + 1), axis.name);
      case 1:
        return half == 0 ? fmt::format("{}", most)
                         : fmt::format("{} - {} * floordiv(rank({}), 2)", most, pick_by_rank(most / half + 1),
                                       axis.name);
      case 2:
        return fmt::format("max({} - 3 * rank({}), 0)", most, axis.name);
      case 3:
        return fmt::format("mod({} + 5 * rank({}) + rank({}), {})", most, axis.name, pick_axis().name,
                           most + 1);
      default:
        return fmt::format("{}", most);
    }
  }

  // The rank's part of a value: written in place, or read through a view of it.
  void change_by_rank() {
    const ir::MeshAxis& axis = pick_axis();
    const auto at = static_cast<std::size_t>(pick_by_rank(static_cast<std::int64_t>(live_.size())));
    Value& v = live_[at];
    const std::int64_t part = v.size / axis.size;
    if (part == 0) return;
    const std::string first = fmt::format("{} * rank({})", part, axis.name);
    Value out = v;
    if (pick_by_rank(2) == 0 && !pinned(v.storage)) {
      out.name = name("v");
      out.bound = std::max(v.bound, 2.0);
      line("%{} mutates %{} = pointwise [{}] {{ %0 = load %x_{}[i0 + {}] store %0 at i0 + {} }}", out.name,
           v.name, part, to_string(v.dtype), below(kLargest - part), first);
    } else {
      const std::string view = name("u");
      out.name = out.storage = name("v");
      line("buffer %{}: {} in %{} at {}", view, type(v.dtype, part), v.name, first);
      line("%{}: {} = pointwise {{ %0 = load %{}[mod(i0 + rank({}), {})] store %0 }}", out.name,
           type(v.dtype, v.size), view, pick_axis().name, part);
    }
    v = out;
  }

  // Where so many elements of an input begin.
  std::string begin(std::int64_t size) { return below(pick(static_cast<int>(kLargest - size) + 1)); }
  // A part of an input.
  Value cut(DType dtype, std::int64_t size, const std::string& where) {
    Value v{name("v"), "", dtype, size, 2};
    v.storage = v.name;
    line("%{}: {}{} = pointwise {{ %0 = load %x_{}[i0 + {}] store %0 }}", v.name, type(dtype, size), where,
         to_string(dtype), begin(size));
    return v;
  }
  void fresh() {
    live_.push_back(cut(kTypes[pick(std::size(kTypes))], kSizes[pick(std::size(kSizes))], place(pick(6))));
  }
  // The value as whole numbers between -2 and 2.
  Value settled(const Value& v, const std::string& where) {
    Value out{name("v"), "", v.dtype, v.size, 2};
    out.storage = out.name;
    const std::string_view t = to_string(v.dtype);
    const std::string head = fmt::format("%{}: {}{} = pointwise {{ %0 = load %{} ", out.name,
                                         type(v.dtype, v.size), where, v.name);
    if (v.dtype == DType::boolean) {
      line("{}store %0 }}", head);
    } else {
      const bool negative = ir::is_float(v.dtype) || ir::is_signed_integer(v.dtype);
      line("{}%1 = constant {} {} %2 = max %0, %1 %3 = constant {} 2 %4 = min %2, %3 {} }}", head, t,
           negative ? "-2" : "0", t, ir::is_float(v.dtype) ? "%5 = round %4 store %5" : "store %4");
    }
    return out;
  }

  // Two values of one type, the longer cut to the shorter.
  void arithmetic() {
    const std::size_t at = static_cast<std::size_t>(pick(static_cast<int>(live_.size())));
    const Value a = live_[at];
    for (const Value& b : live_) {
      if (b.dtype != a.dtype || b.name == a.name || a.bound + b.bound > kBound) continue;
      Value out{name("v"), "", a.dtype, std::min(a.size, b.size), a.bound + b.bound};
      out.storage = out.name;
      line("%{}: {}{} = pointwise {{ %0 = load %{}[i0] %1 = load %{}[i0] %2 = {} %0, %1 store %2 }}",
           out.name, type(out.dtype, out.size), place(pick(6)), a.name, b.name,
           a.dtype == DType::boolean ? "xor" : "add");
      drop(at);
      live_.push_back(out);
      return;
    }
    // No other value fits: this one gets a new version in place, unless its memory is being read.
    if (pinned(a.storage)) return;
    Value out = a;
    out.name = name("v");
    line("%{} mutates %{} = pointwise {{ %0 = load %{} store %0 }}", out.name, a.name, a.name);
    live_[at] = out;
  }

  // Its bits become an output.
  void drop(std::size_t at) {
    const Value v = live_[at];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
    const std::string out = fmt::format("y{}", outputs_.size());
    line("%{}: {} output = pointwise {{ %0 = load %{} store %0 }}", out, type(v.dtype, v.size), v.name);
    outputs_.push_back(out);
  }

  bool reducible(DType dtype, const std::string& op) const {
    if (dtype == DType::boolean && op == "avg") return false;
    if (!options_.nccl) return true;
    if (dtype == DType::i16 || dtype == DType::u16) return false;
    if (dtype == DType::boolean) return op == "max" || op == "min";
    return op != "avg" || ir::is_float(dtype);
  }
  static double bound_after(const std::string& op, double bound, std::int64_t n) {
    if (op == "sum") return bound * static_cast<double>(n);
    if (op == "prod") return std::pow(std::max(bound, 1.0), static_cast<double>(n));
    return op == "avg" ? INFINITY : bound;
  }

  // An operand: a live value with as many elements as `unit` divides, settled if it would outgrow the types.
  Value operand(std::size_t group, std::int64_t unit, const std::string& op, std::int64_t largest) {
    std::vector<std::size_t> fits;
    for (std::size_t k = 0; k < live_.size(); ++k) {
      const Value& v = live_[k];
      if (v.size % unit == 0 && v.size <= largest && (op.empty() || reducible(v.dtype, op)))
        fits.push_back(k);
    }
    if (fits.empty() || pick(4) == 0) {
      DType dtype = kTypes[pick(std::size(kTypes))];
      while (!op.empty() && !reducible(dtype, op)) dtype = kTypes[pick(std::size(kTypes))];
      std::int64_t size = kSizes[pick(std::size(kSizes))];
      while (size * unit > largest) size = kSizes[pick(std::size(kSizes))];
      return cut(dtype, size * unit, place(group));
    }
    const Value v = live_[fits[static_cast<std::size_t>(pick(static_cast<int>(fits.size())))]];
    const bool reduces = !op.empty();
    if (reduces && bound_after(op == "avg" ? "sum" : op, v.bound, groups_[group].size()) > kBound)
      return settled(v, place(group));
    return v;
  }

  int collective();  // returns how many it wrote
  void in_place(std::size_t g);
  void transfer();
  void launch(Flight flight, const std::string& results, const std::string& call, bool blocking);
  void advance();
  void release();
  void arrive(const Flight& flight, const std::vector<std::string>& names);

  std::mt19937_64 random_, ranks_random_;
  RandomCollectivesOptions options_;
  int ranks_ = 0, names_ = 0;
  bool global_ = true;
  std::string text_;
  ir::Mesh axes_;
  std::vector<ir::CommGroup> groups_;
  std::vector<Value> live_;
  std::deque<Flight> flights_;
  std::deque<Flight> unreleased_;
  std::map<std::string, int> pins_;  // storages that unreleased collectives use
  std::vector<std::string> outputs_;
};

int Writer::collective() {
  const std::size_t g = static_cast<std::size_t>(pick(static_cast<int>(groups_.size())));
  const auto n = groups_[g].size();
  const int kind = pick(8);
  if (kind == 0) return transfer(), 2;
  if (kind <= 2) return in_place(g), 1;
  constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg"};
  const std::string op = kind <= 5 ? kOps[pick(5)] : "";  // all_reduce, reduce_scatter
  const char* what = kind <= 4   ? "all_reduce"
                     : kind == 5 ? "reduce_scatter"
                     : kind == 6 ? "all_gather"
                                 : nullptr;
  const bool deals = what == nullptr && pick(2) == 0;
  if (what == nullptr) what = deals ? "all_to_all" : "broadcast";
  const bool coalesces = kind <= 6;
  const int operands = coalesces && pick(3) == 0 ? 2 + pick(2) : 1;
  const bool gathers = kind == 6, scatters = kind == 5;
  // By a kernel that reads peers' memory. Over shared memory wherever the operands lie, on CUDA in
  // symmetric memory, and what peers write in any registered with the group.
  const bool reads_peers = coalesces && pick(2) == 0, two_shot = reads_peers && kind <= 4 && pick(2) == 0;
  const auto result_place = [&] {
    return two_shot && options_.nccl ? fmt::format(" comm(registered, @g{})", g) : place(g);
  };

  Flight f;
  f.group = g;
  f.op = name("c");
  std::vector<std::string> from, results;
  for (int k = 0; k < operands; ++k) {
    Value in = operand(g, scatters || deals ? n : 1, op, gathers ? kLargest / n : kLargest);
    if (reads_peers && options_.nccl) in = settled(in, fmt::format(" comm(symmetric, @g{})", g));
    Value out{name("v"), "", in.dtype,
              gathers    ? in.size * n
              : scatters ? in.size / n
                         : in.size,
              op.empty() ? in.bound : bound_after(op, in.bound, groups_[g].size())};
    out.storage = out.name;
    from.push_back("%" + in.name);
    f.storages.push_back(in.storage);
    f.results.push_back(out);
  }
  // Into memory that is already there, before and after data that stays; or into fresh memory.
  f.keeps = operands == 1 && pick(3) == 0;
  if (f.keeps) {
    Value& v = f.results[0];
    const std::string base = name("b"), part = name("v");
    line("buffer %{}: {}{}", base, type(v.dtype, v.size + 2), result_place());
    const auto piece = [&](const std::string& p, std::int64_t at, std::int64_t size) {
      line("%{}: {} in %{} at {} = pointwise {{ %0 = load %x_{}[i0 + {}] store %0 }}", p, type(v.dtype, size),
           base, at, to_string(v.dtype), begin(size));
    };
    piece(name("v"), 0, 1);
    piece(part, 1, v.size);
    piece(name("v"), v.size + 1, 1);
    results.push_back(fmt::format("%{} mutates %{}", v.name, part));
    v.storage = base;
    v.bound = std::max(v.bound, 2.0);
  } else {
    for (const Value& v : f.results)
      results.push_back(fmt::format("%{}: {}{}", v.name, type(v.dtype, v.size), result_place()));
  }
  std::string call =
      fmt::format("{} {}{}@g{} ({})", what, op, op.empty() ? "" : " ", g, fmt::join(from, ", "));
  if (std::string(what) == "broadcast") call += fmt::format(" root {}", pick(static_cast<int>(n)));
  if (reads_peers) call += two_shot ? " algorithm two_shot" : " algorithm one_shot";
  launch(std::move(f), fmt::format("{}", fmt::join(results, ", ")), call, pick(6) == 0);
  return 1;
}

// All-reduce or broadcast of one or two values where they lie.
void Writer::in_place(std::size_t g) {
  constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg"};
  const bool reduces = pick(3) != 0;
  const std::string op = reduces ? kOps[pick(5)] : "";
  Flight f;
  f.group = g;
  f.op = name("c");
  f.keeps = true;
  std::vector<std::string> from, results;
  for (int k = reduces && pick(3) == 0 ? 2 : 1; k > 0; --k) {
    // An operand of its own: a copy, unless there is a value that nothing reads.
    Value in = settled(operand(g, 1, op, kLargest), place(g));
    Value out = in;
    out.name = name("v");
    if (reduces) out.bound = bound_after(op, in.bound, groups_[g].size());
    from.push_back("%" + in.name);
    results.push_back(fmt::format("%{} mutates %{}", out.name, in.name));
    f.storages.push_back(in.storage);
    f.results.push_back(out);
  }
  std::string call = reduces ? fmt::format("all_reduce {} @g{} ({})", op, g, fmt::join(from, ", "))
                             : fmt::format("broadcast @g{} ({}) root {}", g, fmt::join(from, ", "),
                                           pick(static_cast<int>(groups_[g].size())));
  launch(std::move(f), fmt::format("{}", fmt::join(results, ", ")), call, pick(6) == 0);
}

// One message between the two ranks of each part of group 1, into memory that keeps its values on all other
// ranks.
void Writer::transfer() {
  const Value sent = operand(1, 1, "", kLargest);
  Value slot = cut(sent.dtype, sent.size, place(1));
  Value out = slot;
  out.name = name("v");
  out.bound = std::max(sent.bound, 2.0);
  Flight to, from;
  to.group = from.group = 1;
  to.op = name("c");
  from.op = name("c");
  to.storages = {sent.storage};
  from.storages = {slot.storage};
  from.results = {out};
  from.keeps = true;
  launch(std::move(to), "", fmt::format("send @g1 (%{}) peer 1", sent.name), false);
  launch(std::move(from), fmt::format("%{} mutates %{}", out.name, slot.name), "recv @g1 peer 0", false);
}

void Writer::launch(Flight f, const std::string& results, const std::string& call, bool blocking) {
  line("{}{}{}{} as {}", results, results.empty() ? "" : " = ", call, blocking ? " blocking" : "", f.op);
  if (blocking) {
    std::vector<std::string> names;
    for (const Value& v : f.results) names.push_back(v.name);
    arrive(f, names);
    return;
  }
  for (const Value& v : f.results) f.storages.push_back(v.storage);
  for (const std::string& s : f.storages) ++pins_[s];
  flights_.push_back(std::move(f));
}

// The wait of one of the flights that may be waited for: in the order of starts, of all or of its group.
void Writer::advance() {
  std::size_t at = global_ ? 0 : static_cast<std::size_t>(pick(static_cast<int>(flights_.size())));
  for (std::size_t k = 0; k < at; ++k) {
    if (flights_[k].group == flights_[at].group) at = k;
  }
  Flight f = flights_[at];
  flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(at));
  std::vector<std::string> names, results;
  for (const Value& v : f.results) {
    names.push_back(name("v"));
    results.push_back(fmt::format("%{} mutates %{}", names.back(), v.name));
  }
  line("{}{}wait {}", fmt::join(results, ", "), results.empty() ? "" : " = ", f.op);
  arrive(f, names);
  unreleased_.push_back(std::move(f));
}

// The release of a send needs the wait of its receive, which the order of waits puts after the send's own.
void Writer::release() {
  std::size_t at = static_cast<std::size_t>(pick(static_cast<int>(unreleased_.size())));
  const Flight f = unreleased_[at];
  const bool waits_for_receive =
      f.results.empty() &&
      std::any_of(flights_.begin(), flights_.end(), [](const Flight& g) { return g.group == 1; });
  if (waits_for_receive) {
    while (std::any_of(flights_.begin(), flights_.end(), [](const Flight& g) { return g.group == 1; }))
      advance();
  }
  line("release {}", f.op);
  for (const std::string& s : f.storages) --pins_[s];
  unreleased_.erase(unreleased_.begin() + static_cast<std::ptrdiff_t>(at));
}

void Writer::arrive(const Flight& f, const std::vector<std::string>& names) {
  for (std::size_t k = 0; k < names.size(); ++k) {
    Value v = f.results[k];
    v.name = names[k];
    const bool whole = groups_[f.group].members() == ranks_;
    if (!whole && !f.keeps) {
      // Only members have it.
      Value seen = v;
      seen.name = seen.storage = name("v");
      const std::string zero = v.dtype == DType::boolean ? "false" : "0";
      line(
          "%{}: {}{} = pointwise {{ %0 = load %member_g{}[0] %1 = cast bool %0 %2 = load %{} %3 = constant "
          "{} "
          "{} "
          "%4 = where %1, %2, %3 store %4 }}",
          seen.name, type(v.dtype, v.size), place(f.group), f.group, v.name, to_string(v.dtype), zero);
      v = seen;
    }
    if (v.bound > kBound) v = settled(v, place(pick(6)));
    live_.push_back(v);
  }
}

}  // namespace

RandomCollectives random_collectives(std::uint64_t seed, const RandomCollectivesOptions& options) {
  return Writer(seed, options).write(seed);
}

std::string difference(const ir::Graph& graph, const std::vector<std::vector<ir::Tensor>>& got,
                       const std::vector<std::vector<ir::Tensor>>& want) {
  for (std::size_t r = 0; r < want.size(); ++r) {
    for (std::size_t k = 0; k < want[r].size(); ++k) {
      const ir::Tensor &a = got.at(r).at(k), &b = want[r][k];
      if (a == b) continue;
      const std::int64_t item = ir::size_of(b.dtype);
      for (std::int64_t at = 0; at < b.numel(); ++at) {
        const ir::Literal x = ir::read_element(b.dtype, a.bytes.data() + at * item);
        const ir::Literal y = ir::read_element(b.dtype, b.bytes.data() + at * item);
        if (x == y) continue;  // as numbers: the greater of 0 and -0 is either
        return fmt::format("rank {}, output {}, element {}: {} instead of {}", r, graph.outputs[k].name, at,
                           ir::literal_text(b.dtype, x), ir::literal_text(b.dtype, y));
      }
    }
  }
  return {};
}

}  // namespace braid::test
