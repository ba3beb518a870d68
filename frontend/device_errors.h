// Numbers of user errors about what models say to and of several devices; docs/errors.md has a section on each.
#pragma once

namespace braid::frontend {

inline constexpr int kCollectiveForm = 490;
inline constexpr int kAnnotation = 491;
inline constexpr int kAnnotationForm = 492;
inline constexpr int kStages = 493;
inline constexpr int kSplitWith = 494;

}  // namespace braid::frontend
