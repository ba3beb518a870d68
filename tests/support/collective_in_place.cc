// Collectives in place and into memory that is already there. They exist as IR text only: a functional
// operator set has no word for them.
#include <fmt/format.h>

#include <algorithm>

#include "ir/parser.h"
#include "tests/support/collective_cases.h"

namespace braid::test {
namespace {

class InPlace {
 public:
  InPlace(int ranks, const std::string& name, const ir::Parts& parts)
      : ranks_(ranks),
        members_(static_cast<int>(parts[0].size())),
        rows_(2 * members_),
        cols_(members_),
        case_(name, parts, random_matrices(ranks, rows_, cols_)) {
    text_ = fmt::format("graph {}\nranks {}\ngroup @g = {}\n", name, ranks, parts);
    ir::Parts ends;
    for (const std::vector<int>& part : parts) ends.push_back({part.back(), part[0]});
    if (members_ > 1) text_ += fmt::format("group @pair = {}\n", ends);
    text_ += fmt::format("input %x: {}\n", type(rows_, cols_));
  }

  CollectiveCase write() {
    for (const char* op : {"sum", "avg", "min", "max", "prod"})
      one(fmt::format("reduce_{}", op), fmt::format("all_reduce {} @g ({{}})", op), reduced(op));
    coalesced();
    broadcasts();
    twice_and_overwritten();
    half_of_a_buffer();
    into_given("all_gather", "all_gather @g", rows_ * members_, gathered(0));
    into_given("reduce_scatter", "reduce_scatter sum @g", 2, scattered("sum", 0));
    into_given("all_to_all", "all_to_all @g", rows_, exchanged(0, 0));
    into_given("all_reduce", "all_reduce max @g", rows_, reduced("max"));
    if (members_ > 1) received();
    return finish();
  }
  // By kernels that read peers' memory.
  CollectiveCase write_peer_reading() {
    symmetric_ = true;
    for (const char* algorithm : {"one_shot", "two_shot"}) {
      one(algorithm, fmt::format("all_reduce sum @g ({{}}) algorithm {}", algorithm), reduced("sum"));
      into_given(fmt::format("{}_reduce", algorithm), "all_reduce max @g", rows_, reduced("max"), algorithm);
    }
    into_given("all_gather", "all_gather @g", rows_ * members_, gathered(0), "one_shot");
    into_given("reduce_scatter", "reduce_scatter sum @g", 2, scattered("sum", 0), "one_shot");
    return finish();
  }

 private:
  CollectiveCase finish() {
    for (const std::string& y : outputs_) text_ += fmt::format("output %{}\n", y);
    return case_.finish(ir::parse_schedule(text_, "in_place"));
  }
  static std::string type(int rows, int cols) { return fmt::format("f32[{}, {}]", rows, cols); }
  // Activations and both kinds of communication buffers in turn, or only what peers read.
  std::string place() {
    if (symmetric_) return " comm(symmetric, @g)";
    constexpr const char* kPlaces[] = {"", " comm(symmetric, @g)", " comm(registered, @g)"};
    return kPlaces[places_++ % 3];
  }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  // A fresh x (times `factor`) to work on.
  void fresh(const std::string& name, int factor = 1) {
    line("%{}: {}{} = pointwise {{ %0 = load %x %1 = constant f32 {} %2 = mul %0, %1 store %2 }}", name,
         type(rows_, cols_), place(), factor);
  }
  void output(const std::string& from, int rows, const Reference& reference,
              const std::function<Matrix(const Matrix&)>& others) {
    const std::string name = fmt::format("y{}", outputs_.size());
    line("%{}: {} output = pointwise {{ %0 = load %{} store %0 }}", name, type(rows, cols_), from);
    outputs_.push_back(name);
    case_.expect(reference, others);
  }
  static Matrix unchanged(const Matrix& m) { return m; }
  static Matrix times(const Matrix& m, float factor) {
    return fill(m.rows, m.cols, [&](int r, int c) { return factor * m.at(r, c); });
  }

  // Ranks outside of the group keep their old values.
  void one(const std::string& name, const std::string& call, const Reference& reference) {
    fresh(name);
    line("%{0}.1 mutates %{0} = {1} as start_{0}", name, fmt::format(fmt::runtime(call), "%" + name));
    line("%{0}.2 mutates %{0}.1 = wait start_{0}\nrelease start_{0}", name);
    output(name + ".2", rows_, reference, unchanged);
  }

  void broadcasts() {
    for (int root = 0; root < members_; ++root)
      one(fmt::format("root_{}", root), fmt::format("broadcast @g ({{}}) root {}", root), from_member(root));
  }

  void coalesced() {
    fresh("one", 1);
    fresh("two", 2);
    line("%one.1 mutates %one, %two.1 mutates %two = all_reduce sum @g (%one, %two) as both");
    line("%one.2 mutates %one.1, %two.2 mutates %two.1 = wait both\nrelease both");
    output("one.2", rows_, reduced("sum"), unchanged);
    output(
        "two.2", rows_, [](const Matrices& in, int me) { return times(reduced("sum")(in, me), 2); },
        [](const Matrix& m) { return times(m, 2); });
  }

  // A sum, then, in the same memory, its greatest, then, after the release, zeros: what came before must have
  // been read by then.
  void twice_and_overwritten() {
    fresh("chain");
    line("%chain.1 mutates %chain = all_reduce sum @g (%chain) blocking");
    line("%chain.2 mutates %chain.1 = all_reduce max @g (%chain.1) as again");
    line("%chain.3 mutates %chain.2 = wait again");
    line("release again");
    output("chain.3", rows_, reduced("sum"), unchanged);
    line("%chain.4 mutates %chain.3 = pointwise {{ %0 = constant f32 0 store %0 }}");
    output(
        "chain.4", rows_, [](const Matrices& in, int) { return Matrix(in[0].rows, in[0].cols); },
        [](const Matrix& m) { return Matrix(m.rows, m.cols); });
  }

  // The lower rows are reduced in place; the upper ones are written meanwhile.
  void half_of_a_buffer() {
    line("buffer %halves: {}{}", type(2 * rows_, cols_), place());
    line("%low: {} in %halves = pointwise {{ %0 = load %x store %0 }}", type(rows_, cols_));
    line("%low.1 mutates %low = all_reduce min @g (%low) as half");
    line("%high: {} in %halves at {} = pointwise {{ %0 = load %x store %0 }}", type(rows_, cols_),
         rows_ * cols_);
    line("%low.2 mutates %low.1 = wait half\nrelease half");
    output(
        "halves", 2 * rows_,
        [](const Matrices& in, int me) {
          return below({reduced("min")(in, me), in[static_cast<std::size_t>(me)]});
        },
        [](const Matrix& m) {
          return below({m, m});
        });
  }

  // Rows 1 and later of a buffer that was written before and has a row on each side that stays.
  void into_given(const std::string& name, const std::string& call, int rows, const Reference& reference,
                  const std::string& algorithm = {}) {
    const int cols = cols_;
    line("buffer %given_{}: {}{}", name, type(rows + 2, cols), place());
    const auto constant = [&](const std::string& row, int height, int at, int value) {
      line("%{}_{}: {} in %given_{} at {} = pointwise {{ %0 = constant f32 {} store %0 }}", row, name,
           type(height, cols), name, at * cols, value);
    };
    constant("first", 1, 0, 7);
    constant("mid", rows, 1, 5);
    constant("last", 1, rows + 1, 9);
    fresh("from_" + name);
    line("%mid_{0}.1 mutates %mid_{0} = {1} (%from_{0}){2} as start_{0}", name, call,
         algorithm.empty() ? "" : " algorithm " + algorithm);
    line("%mid_{0}.2 mutates %mid_{0}.1 = wait start_{0}\nrelease start_{0}", name);
    const auto framed = [cols](const Matrix& m) {
      return below({fill(1, cols, [](int, int) { return 7; }), m, fill(1, cols, [](int, int) { return 9; })});
    };
    output(
        "given_" + name, rows + 2, [=](const Matrices& in, int me) { return framed(reference(in, me)); },
        [=](const Matrix&) { return framed(fill(rows, cols, [](int, int) { return 5; })); });
  }

  // From the last member to the first, over what the first had.
  void received() {
    fresh("sent");
    fresh("slot", 2);
    line("send @pair (%sent) peer 1 as out");
    line("%slot.1 mutates %slot = recv @pair peer 0 as in");
    line("wait out\n%slot.2 mutates %slot.1 = wait in\nrelease out\nrelease in");
    output(
        "slot.2", rows_,
        [this](const Matrices& in, int me) {
          return me == 0 ? in[static_cast<std::size_t>(members_ - 1)]
                         : times(in[static_cast<std::size_t>(me)], 2);
        },
        [](const Matrix& m) { return times(m, 2); });
  }

  // Matrices of different heights below each other.
  static Matrix below(const Matrices& parts) {
    Matrix out(0, parts[0].cols);
    for (const Matrix& m : parts) {
      out.rows += m.rows;
      out.values.insert(out.values.end(), m.values.begin(), m.values.end());
    }
    return out;
  }

  int ranks_, members_, rows_, cols_;
  CaseWriter case_;
  std::string text_;
  std::vector<std::string> outputs_;
  int places_ = 0;
  bool symmetric_ = false;
};

}  // namespace

std::vector<CollectiveCase> in_place_collective_cases(int ranks, bool peer_reading) {
  std::vector<CollectiveCase> out;
  const std::string name = peer_reading ? "peer_reading_in_place" : "in_place";
  const auto add = [&](const std::string& which, const ir::Parts& parts) {
    InPlace program(ranks, fmt::format("{}_{}{}", name, ranks, which), parts);
    out.push_back(peer_reading ? program.write_peer_reading() : program.write());
  };
  add("", {all_ranks(ranks)});
  for (const Subgroup& some : subgroups(ranks)) add("_" + some.name, some.parts);
  return out;
}

}  // namespace braid::test
