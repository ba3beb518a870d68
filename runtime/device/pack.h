// Elements that are moved at once.
#pragma once

namespace braid::rt::device {

template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T values[n];
};

// The packs that begin at `pointer`, which must be aligned to their size.
template <int n, class T>
__device__ auto* as_packs(T* pointer) {
#ifdef BRAID_EMULATED_DEVICE
  emulated::take_packs(pointer, sizeof(T) * n);
#endif
  return reinterpret_cast<Pack<T, n>*>(pointer);
}
template <int n, class T>
__device__ auto* as_packs(const T* pointer) {
#ifdef BRAID_EMULATED_DEVICE
  emulated::take_packs(pointer, sizeof(T) * n);
#endif
  return reinterpret_cast<const Pack<T, n>*>(pointer);
}

}  // namespace braid::rt::device
