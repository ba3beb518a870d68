// The processes of program.launch(): what braid/_launch.py starts, asks and ends.
#include <memory>

#include "harness/launched.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "python/bindings.h"
#include "runtime/comm/rank_programs.h"
#include "runtime/comm/settings.h"

namespace braid::python {

using namespace nanobind::literals;

namespace {

std::vector<std::string> texts_of(const std::vector<nb::bytes>& given) {
  std::vector<std::string> out;
  for (const nb::bytes& text : given) out.emplace_back(text.c_str(), text.size());
  return out;
}

std::unique_ptr<rt::RankPrograms> start_ranks(const std::vector<nb::bytes>& arguments,
                                              const std::vector<std::vector<nb::bytes>>& environments,
                                              const std::vector<std::vector<int>>& descriptors) {
  harness::check_environment(false);
  std::int64_t timeout_ms = 0;
  rt::Status status = rt::timeout_in_force({}, &timeout_ms);
  std::vector<rt::RankProgram> ranks;
  for (std::size_t rank = 0; rank < environments.size(); ++rank)
    ranks.push_back({texts_of(arguments), texts_of(environments[rank]), descriptors.at(rank)});
  std::unique_ptr<rt::RankPrograms> started;
  if (status.ok()) {
    const nb::gil_scoped_release released;
    status = rt::RankPrograms::start(ranks, timeout_ms, &started);
  }
  if (!status.ok())
    ir::user_error(errors::kRankFailed, {}, status.message,
                   "check the limits of processes and memory (ulimit -a)");
  return started;
}

}  // namespace

void bind_ranks(nb::module_& module) {
  nb::class_<rt::RankPrograms>(module, "RankPrograms")
      .def_prop_ro("processes", &rt::RankPrograms::processes)
      .def("fileno", &rt::RankPrograms::news)
      .def("begin_step", &rt::RankPrograms::begin_step)
      .def("answered", &rt::RankPrograms::answered, "rank"_a)
      .def("fail_step", &rt::RankPrograms::fail_step)
      .def("has_ended", &rt::RankPrograms::has_ended, "rank"_a)
      .def("endings", &rt::RankPrograms::endings)
      .def("end", &rt::RankPrograms::end, "patience_ms"_a, nb::call_guard<nb::gil_scoped_release>());
  module.def("start_ranks", &start_ranks, "arguments"_a, "environments"_a, "descriptors"_a);
}

}  // namespace braid::python
