// The unique owner of an object: std::unique_ptr for headers that generated source includes. Parsing <memory>
// takes a host compiler a quarter of a second per program.
#pragma once

namespace braid::rt {

template <class T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T* object) : object_(object) {}
  ~Owned() { delete object_; }
  Owned(Owned&& other) noexcept : object_(other.release()) {}
  Owned& operator=(Owned&& other) noexcept {
    T* const old = object_;
    object_ = other.release();
    if (old != object_) delete old;
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  T* release() {
    T* const object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  T* object_ = nullptr;
};

}  // namespace braid::rt
