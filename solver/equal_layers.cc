#include "solver/equal_layers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace braid::solver {

namespace {

using Layer = EqualLayers::Layer;

constexpr int kFewestLayers = 3;

// Places `begin` to `end` repeat after `length`.
struct Run {
  Place begin, end;
  int length = 0;
};

// Returns the longest run among those that repeat often enough.
std::optional<Run> longest_run(const Places& places) {
  // Candidate lengths, by how often a kind comes again after that many places.
  std::map<int, int> votes;
  std::unordered_map<PlaceKind, Place> last;
  for (const Place p : places.ids()) {
    const auto [known, fresh] = last.try_emplace(places.kind(p), p);
    if (fresh) continue;
    ++votes[p - known->second];
    known->second = p;
  }
  std::vector<std::pair<int, int>> lengths;
  for (const auto& [length, count] : votes) lengths.push_back({-count, length});
  std::sort(lengths.begin(), lengths.end());
  constexpr std::size_t kMostLengths = 8;
  if (lengths.size() > kMostLengths) lengths.resize(kMostLengths);
  std::optional<Run> best;
  const Place end = *places.ids().end();
  for (const auto& [votes_for, length] : lengths) {
    for (Place begin{0}; begin + length < end;) {
      Place p = begin;
      while (p + length < end && places.kind(p) == places.kind(p + length)) ++p;
      const Run run{begin, p + length, length};
      begin = p + 1;
      if (run.end - run.begin < (kFewestLayers + 1) * length) continue;
      if (!best || run.end - run.begin > best->end - best->begin) best = run;
    }
  }
  return best;
}

class LayersOfRun {
 public:
  LayersOfRun(const Places& places, const Run& run)
      : places_(places), run_(run), last_(IdRange(Place{0}, run.end)) {
    for (const Place p : IdRange(run.begin, run.end)) {
      for (const Places::End& end : places.ends(p))
        if (!outside(end.other)) last_[p] = std::max(last_[p], end.other);
    }
  }

  std::vector<Layer> find() const {
    const int n = run_.length;
    const Place cut = best_cut();
    const Layer model = layer(cut);
    const std::vector<Ends> ends = ends_of(model);
    std::vector<Layer> all = {model};
    for (Place p = cut - n; p >= run_.begin; p = p - n) {
      Layer own = layer(p);
      if (!equal(own, model, ends)) break;
      all.insert(all.begin(), std::move(own));
    }
    for (Place p = cut + n; p + n <= run_.end; p = p + n) {
      Layer own = layer(p);
      if (!equal(own, model, ends)) break;
      all.push_back(std::move(own));
    }
    return all;
  }

 private:
  bool outside(Place p) const { return p < run_.begin || p >= run_.end; }
  bool leads_behind(Place p, Place border) const { return last_[p] >= border; }

  // In the middle of the run, where the fewest choices are between two layers.
  Place best_cut() const {
    const int n = run_.length;
    const Place middle = run_.begin + (run_.end - run_.begin) / n / 2 * n;
    Place cut = middle;
    double least = -1;
    for (const Place p : IdRange(middle, middle + n)) {
      double size = 0;
      for (const Place q : IdRange(std::max(run_.begin, p - n), p)) {
        if (leads_behind(q, p)) size += std::log2(static_cast<double>(places_.costs(q).size()));
      }
      if (least < 0 || size < least) least = size, cut = p;
    }
    return cut + n > run_.end ? cut - n : cut;
  }

  Layer layer(Place begin) const {
    const Place end = begin + run_.length;
    Layer own{begin, {}};
    for (const Place p : IdRange(begin, end))
      if (!leads_behind(p, end)) own.inside.push_back(p);
    return own;
  }

  // The edges of a variable, sorted: table, place of the other end, whether that is outside of the run, and
  // whether the edge begins there. Places inside of the run are relative to the layer's beginning.
  using Ends = std::vector<std::tuple<TableNumber, int, bool, bool>>;
  void find_ends(Place p, Place begin, Ends& all) const {
    all.clear();
    for (const Places::End& end : places_.ends(p)) {
      const bool out = outside(end.other);
      all.push_back({end.table, end.other - (out ? Place{0} : begin), out, end.from});
    }
    std::sort(all.begin(), all.end());
  }
  std::vector<Ends> ends_of(const Layer& model) const {
    std::vector<Ends> all(model.inside.size());
    for (std::size_t k = 0; k < all.size(); ++k) find_ends(model.inside[k], model.begin, all[k]);
    return all;
  }
  bool equal(const Layer& own, const Layer& model, const std::vector<Ends>& ends) const {
    if (own.inside.size() != model.inside.size()) return false;
    Ends here;
    for (std::size_t k = 0; k < own.inside.size(); ++k) {
      const Place p = own.inside[k], q = model.inside[k];
      if (p - own.begin != q - model.begin || places_.kind(p) != places_.kind(q)) return false;
      find_ends(p, own.begin, here);
      if (here != ends[k]) return false;
    }
    return true;
  }

  const Places& places_;
  Run run_;
  IdVector<Place, Place> last_;  // per place of the run: the last one of it to which it is connected
};

}  // namespace

EqualLayers equal_layers(const Places& places) {
  const std::optional<Run> run = longest_run(places);
  if (!run) return {};
  EqualLayers found{run->begin, run->end, LayersOfRun(places, *run).find()};
  if (count_of(found.layers) < kFewestLayers || found.layers[0].inside.empty()) found.layers.clear();
  return found;
}

}  // namespace braid::solver
