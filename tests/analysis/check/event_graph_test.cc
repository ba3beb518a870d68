#include "analysis/check/event_graph.h"

#include <gmock/gmock.h>

#include <random>

namespace braid::check {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

EventGraph graph(int events, const std::vector<std::pair<int, int>>& edges) {
  EventGraph g;
  for (int k = 0; k < events; ++k) g.add_event();
  for (const auto& [a, b] : edges) g.add_edge(a, b);
  return g;
}

TEST(EventGraph, AnAcyclicGraphHasAnOrderWithTheSmallestNumbersFirst) {
  EXPECT_THAT(graph(4, {{3, 0}, {0, 1}}).order(), Optional(ElementsAre(2, 3, 0, 1)));
  EXPECT_THAT(graph(4, {{3, 0}, {0, 1}}).shortest_cycle(), IsEmpty());
}

TEST(EventGraph, ACycleHasNoOrderAndTheShortestIsFound) {
  const EventGraph g = graph(7, {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {4, 5}, {5, 4}, {3, 4}, {5, 6}});
  EXPECT_FALSE(g.order().has_value());
  EXPECT_THAT(g.shortest_cycle(), ElementsAre(4, 5));
}

TEST(EventGraph, AnEventBeforeItselfIsACycleOfOne) {
  EXPECT_THAT(graph(2, {{0, 1}, {1, 1}}).shortest_cycle(), ElementsAre(1));
}

TEST(EventGraph, RandomGraphsHaveEitherAnOrderThatKeepsAllEdgesOrACycleOfEdges) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const int n = 1 + static_cast<int>(random() % 12);
    std::vector<std::pair<int, int>> edges;
    for (int k = static_cast<int>(random() % 20u); k > 0; --k)
      edges.emplace_back(static_cast<int>(random() % static_cast<unsigned>(n)),
                         static_cast<int>(random() % static_cast<unsigned>(n)));
    const EventGraph g = graph(n, edges);
    const auto order = g.order();
    const std::vector<int> cycle = g.shortest_cycle();
    ASSERT_NE(order.has_value(), !cycle.empty());
    if (order) {
      std::vector<int> position(static_cast<std::size_t>(n));
      for (std::size_t k = 0; k < order->size(); ++k)
        position[static_cast<std::size_t>((*order)[k])] = static_cast<int>(k);
      for (const auto& [a, b] : edges)
        EXPECT_LT(position[static_cast<std::size_t>(a)], position[static_cast<std::size_t>(b)]);
    }
    for (std::size_t k = 0; k < cycle.size(); ++k)
      EXPECT_THAT(edges, ::testing::Contains(std::pair(cycle[k], cycle[(k + 1) % cycle.size()])));
  }
}

}  // namespace
}  // namespace braid::check
