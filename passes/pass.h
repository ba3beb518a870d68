// Passes: transformations of a schedule, their options, and the table that finds them by name.
//
// A pass is a plain struct. Its public members are its options; nothing is inherited:
//
//   struct DropNops {
//     static constexpr std::string_view kName = "drop_nops";
//     static constexpr std::string_view kDescription = "removes operations that do nothing";
//     std::int64_t limit = 10;                                          // options, with their defaults
//     static std::vector<PassOption<DropNops>> options() {              // only if it has any
//       return {{"limit", &DropNops::limit, "how many are removed at most"}};
//     }
//     static constexpr bool kMayReorderCollectives = false;             // only if true
//     bool run(ir::Schedule& schedule);                                 // true: something changed
//   };
//
// A pass that needs costs, a memory cap or reports has `bool run(ir::Schedule&, PassContext&)` instead
// (passes/pass_context.h).
//
// docs/how-to-add-a-pass.md shows all steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/schedule.h"

namespace braid::passes {

struct PassContext;

// One public member of P that can be set by text: "name{limit=3}".
template <class P>
struct PassOption {
  std::string_view name;
  std::variant<bool P::*, std::int64_t P::*, double P::*, std::string P::*> member;
  std::string_view help;
};

// An option as --list-passes shows it.
struct OptionInfo {
  std::string name;
  std::string default_value;
  std::string help;
};

namespace detail {
using OptionRef = std::variant<bool*, std::int64_t*, double*, std::string*>;
// User error 542 if the text is not a value of that type.
void assign_option(const std::string& pass, const std::string& option, OptionRef target,
                   std::string_view text);
std::string show_option(OptionRef value);
[[noreturn]] void unknown_option(const std::string& pass, const std::string& option,
                                 std::span<const OptionInfo> known);
}  // namespace detail

// Any pass, by value.
class Pass {
 public:
  // A struct as described above.
  template <class P>
  requires requires { P::kName; }
  Pass(P pass)
      : model_(std::make_shared<Model<P>>(std::move(pass))) {}  // implicit on purpose: lists of passes

  // A callable, for embedders and tests.
  Pass(std::string name, std::function<bool(ir::Schedule&)> run, bool may_reorder_collectives = false);
  Pass(std::string name, std::function<bool(ir::Schedule&, PassContext&)> run,
       bool may_reorder_collectives = false);

  const std::string& name() const { return model_->name; }
  const std::string& description() const { return model_->description; }
  // If false, the runner checks that the pass keeps the order of collectives per communicator.
  bool may_reorder_collectives() const { return model_->may_reorder_collectives; }
  std::vector<OptionInfo> options() const { return model_->options(); }
  // User error 541 for an option that the pass does not have, 542 for a value of the wrong type.
  void set_option(const std::string& name, std::string_view value);

  // Returns whether the schedule changed.
  bool run(ir::Schedule& schedule, PassContext& context) const {
    return model_->clone()->run(schedule, context);
  }
  bool run(ir::Schedule& schedule) const;  // with a context of its own

 private:
  struct Concept {
    virtual ~Concept() = default;
    virtual bool run(ir::Schedule& schedule, PassContext& context) = 0;
    virtual std::unique_ptr<Concept> clone() const = 0;
    virtual std::vector<OptionInfo> options() const = 0;
    virtual void set_option(const std::string& option, std::string_view value) = 0;
    std::string name;
    std::string description;
    bool may_reorder_collectives = false;
  };

  template <class P>
  struct Model final : Concept {
    explicit Model(P p) : pass(std::move(p)) {
      name = P::kName;
      description = P::kDescription;
      if constexpr (requires { P::kMayReorderCollectives; })
        may_reorder_collectives = P::kMayReorderCollectives;
    }
    bool run(ir::Schedule& schedule, PassContext& context) override {
      if constexpr (requires { pass.run(schedule, context); }) {
        return pass.run(schedule, context);
      } else {
        return pass.run(schedule);
      }
    }
    std::unique_ptr<Concept> clone() const override { return std::make_unique<Model>(*this); }
    std::vector<OptionInfo> options() const override {
      std::vector<OptionInfo> out;
      if constexpr (requires { P::options(); }) {
        P values = pass;
        for (const PassOption<P>& o : P::options()) {
          out.push_back({std::string(o.name), detail::show_option(ref(values, o)), std::string(o.help)});
        }
      }
      return out;
    }
    void set_option(const std::string& option, std::string_view value) override {
      if constexpr (requires { P::options(); }) {
        for (const PassOption<P>& o : P::options()) {
          if (o.name == option) return detail::assign_option(name, option, ref(pass, o), value);
        }
      }
      detail::unknown_option(name, option, options());
    }
    static detail::OptionRef ref(P& values, const PassOption<P>& option) {
      return std::visit([&](auto member) -> detail::OptionRef { return &(values.*member); }, option.member);
    }
    P pass;
  };

  struct Callable;
  std::shared_ptr<Concept> model_;
};

// Name -> pass with its default options. A program has one (`pass_registry()`); tests make their own.
class PassRegistry {
 public:
  // Internal error if the name is taken.
  void add(Pass prototype);
  template <class P>
  void add() {
    add(Pass(P{}));
  }
  // User error 540 for an unknown name; lists those that are known.
  Pass make(const std::string& name) const;
  bool contains(const std::string& name) const { return passes_.contains(name); }
  // In order of name.
  std::vector<Pass> all() const;

 private:
  std::map<std::string, Pass> passes_;
};

// All passes of this program: the built-in ones and those that plug-ins added.
PassRegistry& pass_registry();

// At namespace scope of a program or plug-in: `static const RegisterPass<DropNops> registered;`
template <class P>
struct RegisterPass {
  RegisterPass() { pass_registry().add<P>(); }
};

// Loads a shared library for its static registrations and, if it exports the function
// `extern "C" void braid_register_passes(braid::passes::PassRegistry&)`, calls it. The library stays loaded.
// User error 543 if it cannot be loaded.
void load_plugin(const std::string& path);

// Parses "dead_code,fuse_vertical{max_members=8},plan_memory": names in `registry` with options. The list may
// be empty. Throws user errors 540 to 542, and 544 if the text is not a list.
std::vector<Pass> parse_pass_list(std::string_view text, const PassRegistry& registry = pass_registry());

}  // namespace braid::passes
