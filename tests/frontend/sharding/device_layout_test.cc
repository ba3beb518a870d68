// States on meshes as layouts of devices, and back.
#include "frontend/sharding/device_layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

Mesh mesh_named(const char* text) { return parse_mesh(text, "the test"); }

// The elements of a dimension that a rank has: axis after axis, as states are defined.
std::vector<std::int64_t> elements_of(const MeshSpec& spec, int dim, std::int64_t size, const Mesh& mesh,
                                      int rank) {
  std::vector<std::int64_t> own(static_cast<std::size_t>(size));
  for (std::size_t e = 0; e < own.size(); ++e) own[e] = static_cast<std::int64_t>(e);
  for (std::size_t k = 0; k < spec.size(); ++k) {
    if (!spec[k].is_split() || spec[k].dim != dim) continue;
    const int parts = mesh.axes[k].size, c = rank / mesh.stride(static_cast<int>(k)) % parts;
    const auto order = order_of(spec[k].blocks, static_cast<std::int64_t>(own.size()), parts);
    std::vector<std::int64_t> part;
    for (std::size_t e = 0; e < own.size() / static_cast<std::size_t>(parts); ++e)
      part.push_back(own[static_cast<std::size_t>(
          order[static_cast<std::size_t>(c) * own.size() / static_cast<std::size_t>(parts) + e])]);
    own = std::move(part);
  }
  return own;
}

// The same as the annotation says it: by the number of the device's shard of each factor.
std::vector<std::int64_t> elements_of(const DeviceLayout& layout, int dim, std::int64_t size, int device) {
  std::size_t shard = 0;
  for (std::size_t s = 0; s < layout.devices.size(); ++s) {
    for (const int d : layout.devices[s]) {
      if (d == device) shard = s;
    }
  }
  std::vector<std::int64_t> numbers(layout.factors.size());
  auto rest = static_cast<std::int64_t>(shard);
  for (std::size_t f = numbers.size(); f-- > 0; rest /= layout.factors[f].shards)
    numbers[f] = rest % layout.factors[f].shards;
  std::vector<std::int64_t> own;
  for (std::int64_t e = 0; e < size; ++e) {
    bool here = true;
    for (std::size_t f = 0; f < numbers.size(); ++f) {
      const CutFactor& factor = layout.factors[f];
      if (factor.dim == dim)
        here = here && e / factor.after % factor.extent / (factor.extent / factor.shards) == numbers[f];
    }
    if (here) own.push_back(e);
  }
  return own;
}

// Whether the parts of all ranks along each dimension are one set of elements, moved.
bool are_translates(const MeshSpec& spec, const std::vector<std::int64_t>& sizes, const Mesh& mesh) {
  for (int dim = 0; dim < 2; ++dim) {
    const std::int64_t size = sizes[static_cast<std::size_t>(dim)];
    const std::vector<std::int64_t> first = elements_of(spec, dim, size, mesh, 0);
    for (int rank = 1; rank < mesh.ranks(); ++rank) {
      const std::vector<std::int64_t> own = elements_of(spec, dim, size, mesh, rank);
      for (std::size_t e = 0; e < own.size(); ++e) {
        if (own[e] - own[0] != first[e] - first[0]) return false;
      }
    }
  }
  return true;
}

TEST(DeviceLayout, LayoutsOfRandomStatesHoldTheSameElementsAndAreTheStatesAgain) {
  const std::uint64_t seed = static_cast<std::uint64_t>(test::first_seed(20261126));
  std::mt19937_64 random(seed);
  const std::vector<Mesh> meshes = {mesh_named("tp=4"),           mesh_named("dp=2,tp=2"),
                                    mesh_named("dp=2,tp=3"),      mesh_named("a=3,b=2"),
                                    mesh_named("dp=2,ep=2,tp=2"), mesh_named("dp=2,ep=3,tp=2")};
  int states = 0, several = 0, others = 0;
  for (int k = 0; k < test::random_cases(4000); ++k) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const std::vector<std::int64_t> sizes = {72, 48};
    MeshSpec whole;
    for (int a = 0; a < mesh.size(); ++a) {
      const int dim = static_cast<int>(random() % 2);
      const std::int64_t counts[] = {1, 1, 2, 3, 4, 6, 12};
      const std::int64_t count = counts[random() % 7];
      const std::int64_t size = sizes[static_cast<std::size_t>(dim)];
      whole.push_back(random() % 4 == 0
                          ? Spec::replicated()
                          : Spec::split(dim, Blocks(static_cast<std::size_t>(count), size / count)));
    }
    const std::optional<MeshSpec> spec = cut_in_turn(whole, sizes, mesh);
    if (!spec || is_padded(whole, sizes, mesh)) continue;
    SCOPED_TRACE(
        fmt::format("seed {}, case {}: {} on [{}]", seed, k, to_string(*spec, mesh), to_string(mesh)));
    const std::optional<DeviceLayout> layout = layout_of(*spec, sizes, mesh);
    if (!layout) {
      // The third axis cuts within a block. Parts of factors would be translates of each other.
      EXPECT_EQ(mesh.size(), 3);
      EXPECT_FALSE(are_translates(*spec, sizes, mesh));
      ++others;
      continue;
    }
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      for (int dim = 0; dim < 2; ++dim)
        ASSERT_EQ(elements_of(*layout, dim, sizes[static_cast<std::size_t>(dim)], rank),
                  elements_of(*spec, dim, sizes[static_cast<std::size_t>(dim)], mesh, rank));
    }
    const auto axes = axes_of(*layout, mesh);
    ASSERT_TRUE(axes.has_value());
    const std::optional<MeshSpec> again = cut_in_turn(whole_state(*layout, *axes, mesh), sizes, mesh);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(to_string(*again, mesh), to_string(*spec, mesh));
    ++states;
    several += layout->factors.size() > 1 ? 1 : 0;
  }
  fmt::print("{} states, {} with several factors; {} others are no factors; seed {}\n", states, several,
             others, seed);
  EXPECT_GT(several, states / 10);
  EXPECT_LT(others, states / 100 + 1);
}

TEST(DeviceLayout, TheMeshHasTheFewestAxesThatAllLayoutsNeed) {
  const DeviceLayout all{{{0, 1, 1, 1, 4}}, {{0}, {1}, {2}, {3}}};
  const DeviceLayout halves{{{0, 1, 1, 1, 2}}, {{0, 1}, {2, 3}}};
  const DeviceLayout mixed{{{0, 1, 1, 1, 2}}, {{0, 3}, {1, 2}}};
  EXPECT_EQ(mesh_of({}, 4), Mesh::line(4));
  EXPECT_EQ(mesh_of({all}, 4), Mesh::line(4));
  EXPECT_EQ(mesh_of({all, halves}, 4), mesh_named("dp=2,tp=2"));
  // No mesh has the last one: that of the layouts before it.
  EXPECT_EQ(mesh_of({all, halves, mixed}, 4), mesh_named("dp=2,tp=2"));
  EXPECT_FALSE(axes_of(mixed, mesh_named("dp=2,tp=2")).has_value());
}

TEST(DeviceLayout, NamesOfDevicesAreTheirPlaces) {
  for (const char* text : {"dp=2,tp=4", "x=1,y=3", "tp=12"}) {
    const Mesh mesh = mesh_named(text);
    EXPECT_EQ(mesh_of_names(device_names(mesh)), mesh);
  }
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{},
                                             {"CUDA:0", "CUDA:1"},
                                             {"a=0", "b=1"},
                                             {"a=1", "a=0"},
                                             {"a=", "a=1"},
                                             {"a=0,", "a=1,"},
                                             {"a=0", "a=99999999999999999999"},
                                             {"=0", "=1"}})
    EXPECT_FALSE(mesh_of_names(names).has_value());
}

}  // namespace
}  // namespace braid::frontend::sharding
